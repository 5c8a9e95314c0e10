"""Flows on a fabric with several paths: they are spread over all spines, again when a spine is gone or back, and by trial where
no router says anything.

Arguments: the name of a test, the folder of the perf tools, and the program eccl_topo.
"""

import collections
import contextlib
import json
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from support import Lab, check, eventually, everything, run  # noqa: E402

TOOL = os.path.join(sys.argv[2], "alltoall_perf")
HOSTS, SPINES = 6, 3
ACROSS = HOSTS * HOSTS // 2  # flows between the two leaves, in both directions


@contextlib.contextmanager
def fabric(hosts=HOSTS, spines=SPINES):
    """Two leaves with half of the hosts each."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fabric.json")
        with open(path, "w") as file:
            json.dump({"hosts": hosts, "rails": [{"rate": 100}], "leaves": 2, "spines": spines}, file)
        with Lab(path) as lab:
            yield lab


def placed(output):
    """The latest way of each flow: by (from, to), the routers."""
    rows = re.findall(r"rank (\d+) \([^)]*\) to rank (\d+) \([^)]*\), .* goes from port \d+ by(.*)", output)
    return {(int(one), int(other)): tuple(hops.split()) for one, other, hops in rows}


def check_spread(ways, spines, output):
    """Each link between a leaf and a spine has its share of the flows, or one more."""
    most = -(-ACROSS // 2 // spines) + 1
    for hop in (0, 1):
        links = collections.Counter(way[hop] for way in ways.values())
        check("?" not in links, "a router has not answered", output)
        check(len(links) == 2 * spines, "flows use the links %s" % links, output)
        check(max(links.values()) <= most, "flows meet on links: %s" % links, output)


def print_is_right(lab, *options):
    """Each pair of hosts under different leaves has one way by each spine; the same spine names itself in both hops."""
    printed = lab("run", "--", sys.argv[3], "measure", "--paths", *options)
    pairs = re.split(r"^\[0\] (rank \d+ .* to rank \d+ .*)$", printed, flags=re.M)[1:]
    check(len(pairs) == 2 * HOSTS * (HOSTS - 1), "not every pair of hosts", printed)
    for pair, ways in zip(pairs[::2], pairs[1::2]):
        one, other = map(int, re.findall(r"rank (\d+)", pair))
        if one // (HOSTS // 2) == other // (HOSTS // 2):
            check("fewer than two routers" in ways, "a way between hosts of one leaf", pair + ways)
            continue
        found = dict(re.findall(r"by ([\d.]+) ([\d.]+): ports \d", ways))
        check(len(found) == SPINES and len(set(found.values())) == SPINES, "not a way by each spine", pair + ways)
        ports = [int(port) for port in re.findall(r" (\d+)(?= |$)", ways, re.M)]
        check(not options or min(ports) >= 49152, "not the ports of flows over UDP", pair + ways)


def job(lab, folder, *call, **settings):
    return lab.start("--output", folder, "--patience", 60, "--", TOOL, "-b", "6M", "-e", "6M", *call,
                     env={"ECCL_DEBUG": "INFO", **settings})


def flows_are_spread():
    """By what ranks say, by what the switches have carried, and by what eccl_topo prints."""
    with fabric() as lab, tempfile.TemporaryDirectory() as folder:
        with job(lab, folder, "-n", "12", "-w", "2") as ranks:
            check(ranks.wait(120) == 0, "the job failed", everything(folder))
        output = everything(folder)
        print_is_right(lab)
        print_is_right(lab, "--udp", "4791")
        check("# Out of bounds values : 0 OK" in output, "results are wrong", output)
        ways = placed(output)
        check(len(ways) == ACROSS, "%d flows were placed, not %d" % (len(ways), ACROSS), output)
        check_spread(ways, SPINES, output)
        # A probe that arrives is no stranger.
        check("dropped a connection" not in output, "a warning", output)
    with fabric() as lab, tempfile.TemporaryDirectory() as folder:
        with job(lab, folder, "-n", "4", "-w", "2", ECCL_PLACE_FLOWS="0") as ranks:
            check(ranks.wait(120) == 0, "the job failed", everything(folder))
        check(not placed(everything(folder)), "ECCL_PLACE_FLOWS=0 places flows", everything(folder))


def a_spine_is_gone():
    with fabric() as lab, tempfile.TemporaryDirectory() as folder:
        with job(lab, folder, "-n", "20", "-w", "2", "-N", "0", "-c", "0") as ranks:
            try:
                eventually(lambda: len(placed(everything(folder))) == ACROSS, "all flows are placed", 60)
                before = everything(folder)
                gone = {way[0] for way in placed(before).values()}

                def anew(spines):
                    """All flows use that many spines, and the last has moved: each rank moves its own in its own time."""
                    ways = placed(everything(folder))
                    if len({way[0] for way in ways.values()}) != 2 * spines:
                        return False
                    time.sleep(2)
                    return placed(everything(folder)) == ways and len(ways) == ACROSS

                for fault, spines in (("down", SPINES - 1), ("clear", SPINES)):  # nothing is lost when it comes back
                    lab("fault", fault, "spine1")
                    begun = time.monotonic()
                    eventually(lambda: anew(spines), "flows are placed on %d spines" % spines, 30)
                    print("placed anew within %.2f s" % (time.monotonic() - begun))
                    check(ranks.poll() is None, "the job ended", everything(folder))
                    check_spread(placed(everything(folder)), spines, everything(folder))
                check(len(gone) == 2 * SPINES, "before, flows used %s" % gone, before)
            finally:
                ranks.terminate()


def flows_are_moved_by_trial():
    """A ring that crosses the spines with every hop, two flows each way over two spines: in three of four cases some meet
    at first, and take twice the time."""
    count = 1 << 21
    alone = 2 * 3 / 4 * count * 8 / (100e6 * 1448 / 1514) * 1e6  # us
    order = ["sh", "-c", 'RANK=$((RANK % 2 * 2 + RANK / 2)) exec "$0" "$@"']
    call = [os.path.join(sys.argv[2], "all_reduce_perf"), "-b", count, "-e", count, "-n", "2", "-w", "1", "-N", "0", "-c", "0"]
    with fabric(4, 2) as lab, tempfile.TemporaryDirectory() as folder:
        for switch in ("tor0", "tor1"):
            lab("fault", "mute", switch)
        with lab.start("--output", folder, "--patience", 60, "--", *order, *call,
                       env={"ECCL_DEBUG": "INFO", "ECCL_ALGO": "ring"}) as ranks:
            try:
                def times():
                    return [float(time) for time in re.findall(r"^ +%d +\d+ +float +sum +-1 +([\d.]+)" % count, everything(folder), re.M)]

                def alone_again():
                    check(ranks.poll() is None, "the job ended", everything(folder))
                    return len(times()) > 4 and max(times()[-4:]) < 1.25 * alone
                eventually(alone_again, "no flow meets another", 120)
            finally:
                ranks.terminate()
        output = everything(folder)
        print("%.2f of the bound at first, %.2f in the end" % (times()[0] / alone, times()[-1] / alone))
        check("routers do not say by which ways it can go" in output, "something was traced", output)
        moves = re.findall(r"(goes from|stays off) port \d+, [\d.]+ MB/s, instead of", output)
        check(max(times()) < 1.5 * alone or "goes from" in moves, "flows met, and none was moved", output)


run((flows_are_spread, a_spine_is_gone, flows_are_moved_by_trial), sys.argv[1])
