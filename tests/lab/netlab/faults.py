"""Faults of links, hosts and ranks while a job runs. A lab's record lists those that are in force; what is to be done to
a link follows from that list, so clearing is the same code as making."""

import os
import signal
from dataclasses import dataclass, field

from . import cgroups, relays, system
from .errors import LabError
from .plan import shape


def _between(low, high):
    def check(value):
        return low <= value <= high
    check.words = "from %g to %g" % (low, high)
    return check


# --- links: what is done so that the link is as the lab's faults want it


def _in_force(lab, link):
    """By kind; of two of the same kind the later one."""
    return {fault["kind"]: fault["values"] for fault in lab.faults if link.name in fault["links"]}


def settle_carrier(lab, links):
    """A cable: the end at the switch goes down, so that the other sees no carrier and keeps its routes."""
    dead = {link.name for link in lab.plan.links if "down" in _in_force(lab, link)}
    for link in links:
        system.batch("ip", link.high[0], ["link set %s %s" % (link.high[1], "down" if link.name in dead else "up")])
    if any(link.spine is not None for link in links):
        for name, lines in lab.plan.switch_routes(dead):
            system.batch("ip", name, lines)


def _rate(lab, link):
    rate = _in_force(lab, link).get("rate", [link.rate])[0]
    for name, device in link.ends():
        if rate:
            system.batch("tc", name, ["qdisc replace dev %s %s" % (device, shape(rate, link.rail))])
        else:
            system.run("tc", "-n", name, "qdisc", "del", "dev", device, "root", quiet=True)  # it may have none


# What is dropped or answered where frames come in; the first that is in force counts.
FILTERS = {"blackhole": "drop", "reset": "tcp flags & rst == 0 reject with tcp reset",
           "mute": "icmp type time-exceeded drop\n  icmpv6 type time-exceeded drop"}


def _filter(lab, link):
    """Where frames come in, at both ends: senders notice nothing, as with a broken switch."""
    kinds = _in_force(lab, link)
    rule = next((FILTERS[kind] for kind in FILTERS if kind in kinds), None)
    for (name, table), device in ((link.low, link.low[1]), (link.high, relays.upper(link))):
        text = "add table netdev lab_%s\ndelete table netdev lab_%s\n" % (table, table)
        if rule:
            text += 'table netdev lab_%s {\n chain in {\n  type filter hook ingress device "%s" priority 0\n  %s\n }\n}\n' % (
                table, device, rule)
        system.run("ip", "netns", "exec", name, "nft", "-f", "-", text=text)


def relayed(rail):
    return rail.delay_ms or rail.jitter_ms or rail.loss_percent


def _relay(lab, link):
    kinds = _in_force(lab, link)
    delay = kinds.get("delay", [link.rail.delay_ms, link.rail.jitter_ms])
    loss = kinds.get("loss", [link.rail.loss_percent])[0]
    filtered = set(FILTERS) & set(kinds)
    relays.put(link, relays.Way(delay[0], delay[1] if len(delay) > 1 else 0, loss))
    if filtered:  # the relay has changed which device that is
        _filter(lab, link)


def one_by_one(settle):
    def settle_all(lab, targets):
        for target in targets:
            settle(lab, target)
    return settle_all


settle_relay = one_by_one(_relay)

# --- hosts and ranks


def _cpu(lab, host):
    percent = next((fault["values"][0] for fault in reversed(lab.faults) if fault["kind"] == "cpu" and host in fault["hosts"]), None)
    if percent is None:
        cgroups.free(lab.name, host)
    else:
        name = lab.plan.hosts[host]
        cgroups.slow(lab.name, host, percent, system.processes([name])[name])


def signal_rank(lab, rank, number):
    """To every process of that rank; how many there were."""
    pids = [pid for each in system.processes(lab.plan.hosts).values() for pid in each]
    ours = [pid for pid in pids if system.environment_of(pid).get("RANK") == rank]
    for pid in ours:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    return len(ours)


@dataclass(frozen=True)
class Kind:
    target: str  # link, host or rank
    help: str
    settle: object = None  # makes links or hosts as the faults in force want them
    values: tuple = ()  # (name, check) each
    optional: int = 0  # how many of the last values may be left out
    programs: tuple = ()
    signals: tuple = field(default=())  # to the rank: at once, and when cleared


KINDS = {
    "down": Kind("link", "the link has no carrier; routes avoid a link to a spine", settle_carrier),
    "blackhole": Kind("link", "packets vanish both ways, and nobody is told", one_by_one(_filter), programs=("nft",)),
    "reset": Kind("link", "every TCP packet is answered by a reset", one_by_one(_filter), programs=("nft",)),
    "mute": Kind("link", "routers do not say over it that a packet has died", one_by_one(_filter), programs=("nft",)),
    "rate": Kind("link", "the link carries so many Mbit/s", one_by_one(_rate), (("MBIT", _between(1, 100000)),)),
    "delay": Kind("link", "packets take so much longer, each way; the order stays", settle_relay,
                  (("MS", _between(0, 10000)), ("JITTER_MS", _between(0, 10000))), 1),
    "loss": Kind("link", "so many packets are lost, each way, by chance", settle_relay, (("PERCENT", _between(0, 100)),)),
    "cpu": Kind("host", "all processes of the host together get so many percent of one core", one_by_one(_cpu),
                (("PERCENT", _between(1, 10000)),)),
    "stop": Kind("rank", "the rank stands still (SIGSTOP)", signals=(signal.SIGSTOP, signal.SIGCONT)),
    "kill": Kind("rank", "the rank ends (SIGKILL); nothing undoes this", signals=(signal.SIGKILL, None)),
}


def usage(kind):
    values = [name for name, _ in KINDS[kind].values]
    shown = [name if place < len(values) - KINDS[kind].optional else "[%s]" % name for place, name in enumerate(values)]
    return " ".join([kind, KINDS[kind].target.upper(), *shown])


def _values(kind, texts):
    least, most = len(KINDS[kind].values) - KINDS[kind].optional, len(KINDS[kind].values)
    if not least <= len(texts) <= most:
        raise LabError("fault %s takes: %s" % (kind, usage(kind)))
    values = []
    for text, (name, check) in zip(texts, KINDS[kind].values):
        try:
            values.append(float(text))
        except ValueError:
            raise LabError("%s of fault %s is %r; it has to be a number %s" % (name, kind, text, check.words)) from None
        if not check(values[-1]):
            raise LabError("%s of fault %s is %s; it has to be %s" % (name, kind, text, check.words))
    return values


def make(lab, kind, target, texts):
    one = KINDS[kind]
    values = _values(kind, texts)
    system.need(*one.programs)
    fault = {"kind": kind, "target": target, "values": values, "links": [], "hosts": []}
    if one.target == "link":
        links = lab.plan.links_at(target)
        if one.settle is settle_relay:
            relays.check(links)
        fault["links"] = [link.name for link in links]
        _record_and(lab, fault, one.settle, links)
    elif one.target == "host":
        if not target.isdigit() or int(target) >= len(lab.plan.hosts):
            raise LabError("%r is no host; there are 0 to %d" % (target, len(lab.plan.hosts) - 1))
        fault["hosts"] = [int(target)]
        _record_and(lab, fault, one.settle, fault["hosts"])
    else:
        if not signal_rank(lab, target, one.signals[0]):
            raise LabError("no rank %s is running in lab %s" % (target, lab.name))
        if one.signals[1] is not None:
            lab.faults.append(fault)
            lab.save()


def _record_and(lab, fault, settle, targets):
    lab.faults.append(fault)
    lab.save()
    try:
        settle(lab, targets)
    except LabError:
        lab.faults.remove(fault)
        lab.save()
        raise


def clear(lab, target=None):
    """All faults, or those that were made at that target."""
    gone = [fault for fault in lab.faults if target in (None, fault["target"])]
    if target is not None and not gone:
        raise LabError("lab %s has no fault at %s; there are: %s" % (lab.name, target, words(lab) or "none"))
    lab.faults = [fault for fault in lab.faults if fault not in gone]
    for fault in gone:
        one = KINDS[fault["kind"]]
        if one.target == "rank":
            signal_rank(lab, fault["target"], one.signals[1])
        else:
            one.settle(lab, [link for link in lab.plan.links if link.name in fault["links"]] or fault["hosts"])
    lab.save()


def words(lab):
    return ", ".join(" ".join([fault["kind"], fault["target"], *("%g" % value for value in fault["values"])]) for fault in lab.faults)
