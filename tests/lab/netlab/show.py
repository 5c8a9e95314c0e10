"""What is up, for people and for programs."""

from . import faults, system


def rate_in_words(rate):
    return "%g Mbit/s" % round(rate, 1) if rate else "not shaped"


def summary(lab):
    plan = lab.plan
    counts = [(len(plan.hosts), "host"), (sum(lab.fabric.ranks), "rank"), (len(lab.fabric.rails), "rail"), (len(plan.tors), "ToR"),
              (len(plan.spines), "spine")]
    return ", ".join("%d %s%s" % (count, what, "" if count == 1 else "s") for count, what in counts if count)


def document(lab):
    plan = lab.plan
    return {
        "name": lab.name,
        "hosts": [{"name": name, "ranks": lab.fabric.ranks[host], "processes": len(running),
                   "addresses": {"e%d" % rail: plan.address(host, rail) for rail in range(len(lab.fabric.rails))}}
                  for host, (name, running) in enumerate(system.processes(plan.hosts).items())],
        "links": [{"name": link.name, "mbit": link.rate, "ends": link.ends(),
                   "faults": [[fault["kind"], *fault["values"]] for fault in lab.faults if link.name in fault["links"]]}
                  for link in plan.links],
        "faults": [[fault["kind"], fault["target"], *fault["values"]] for fault in lab.faults],
        "notes": lab.notes,
    }


def lines(lab):
    shown = document(lab)
    yield "lab %s: %s%s" % (lab.name, summary(lab), "; " + lab.fabric.about if lab.fabric.about else "")
    for note in lab.notes:
        yield "note: " + note
    for host in shown["hosts"]:
        addresses = ", ".join("%s %s" % item for item in host["addresses"].items())
        yield "host %s: %d rank%s, %s%s" % (host["name"], host["ranks"], "" if host["ranks"] == 1 else "s", addresses,
                                            "; %d processes run" % host["processes"] if host["processes"] else "")
    for link in shown["links"]:
        (low, device), (high, port) = link["ends"]
        trouble = ", ".join(" ".join([each[0], *("%g" % value for value in each[1:])]) for each in link["faults"])
        yield "link %s: %s %s to %s %s, %s%s" % (link["name"], low, device, high, port, rate_in_words(link["mbit"]),
                                                 "; FAULT: " + trouble if trouble else "")
    if lab.faults:
        yield "faults: " + faults.words(lab)
