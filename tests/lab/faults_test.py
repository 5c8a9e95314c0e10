"""Each fault has the effect that it claims, while connections and ranks are there, and clearing it undoes that. Argument: a
test's name."""

import glob
import os
import select
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from lab_test import throughput  # noqa: E402
from support import PREFIX, Lab, check, eventually, nothing_left, run  # noqa: E402


def arrives(connection, seconds):
    """Whether a byte that one end sends now, or has sent before, is there in that time."""
    caller, answerer = connection
    caller.send(b"x")
    if not select.select([answerer], [], [], seconds)[0]:
        return False
    return len(answerer.recv(100)) > 0


def cut(lab, kind, target, connection):
    """Nothing goes through, nobody is told, and afterwards what was sent arrives."""
    check(arrives(connection, 20), "nothing arrives before %s" % kind)
    lab("fault", kind, target)
    check("FAULT: %s" % kind in lab("show"), "show does not show the fault", lab("show"))
    check(not arrives(connection, 0.5), "something arrives in spite of %s" % kind)
    error = connection[0].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    check(error == 0, "the sender is told of %s: %s" % (kind, os.strerror(error)))
    lab("fault", "clear")
    check(arrives(connection, 20), "nothing arrives after %s was cleared" % kind)
    check("FAULT" not in lab("show"), "show shows a fault that is cleared", lab("show"))


def down_and_black_hole():
    with Lab("--hosts", 2, "--rails", 2) as lab:
        other_rail = lab.connection(0, 1, 1)
        for kind in ("down", "blackhole"):
            cut(lab, kind, "1:0", lab.connection(0, 1))
            lab("fault", kind, "1:0")
            check(arrives(other_rail, 20), "%s of rail 0 is felt on rail 1" % kind)
            lab("fault", kind, "0:1")
            lab("fault", "clear", "0:1")
            check(arrives(other_rail, 20) and "fault: " not in lab("show") and "FAULT: " + kind in lab("show"), "not only one of two faults was cleared")
            lab("fault", "clear")
        shown = subprocess.check_output(["ip", "-n", lab.host(1), "link", "show", "e0"], text=True)
        lab("fault", "down", "1")  # all links of a host
        for rail in (0, 1):
            without = subprocess.check_output(["ip", "-n", lab.host(1), "link", "show", "e%d" % rail], text=True)
            check("NO-CARRIER" in without and "NO-CARRIER" not in shown, "the host's NIC still has a carrier", without)
        lab("fault", "clear", "1")
        for wrong, words in ((("down", "5"), "5: lab %s has no link or node" % PREFIX), (("clear", "7"), "has no fault at 7"),
                             (("rate", "0:0"), "rate LINK MBIT"), (("stop", "0"), "no rank 0 is running"), (("cpu", "x", "5"), "is no host"),
                             (("kill", "9"), "no rank 9 is running")):
            output = lab("fault", *wrong, code=2)
            check(words in output, "fault %s is not refused" % (wrong,), output)


def a_black_spine():
    """Of a link between switches; the flows of other spines go on."""
    with Lab("leaf-spine") as lab:
        # So many that chance spares the spine once in 100 million runs: of 16 it spared them once in a hundred.
        flows = 64
        connections = [lab.connection(0, 7) for _ in range(flows)]
        lab("fault", "blackhole", "tor0:spine1")
        for caller, _ in connections:
            caller.send(b"x")
        time.sleep(0.5)
        through = sum(bool(select.select([answerer], [], [], 0)[0]) for _, answerer in connections)
        check(0 < through < flows, "%d of %d flows go on, though one spine of four swallows them" % (through, flows))
        lab("fault", "clear")
        check(all(arrives(connection, 20) for connection in connections), "a flow is lost for ever")
        output = lab("fault", "delay", "tor0:spine1", 5, code=2)
        check("delay, jitter and loss are for the links of hosts" in output, "a delay between switches is not refused", output)


def reset():
    with Lab("--hosts", 2) as lab:
        for sender in (0, 1):
            ends = lab.connection(0, 1)
            lab("fault", "reset", "1:0")
            ends[sender].send(b"x")
            check(select.select([ends[sender]], [], [], 20)[0], "end %d hears nothing of the reset" % sender)
            try:
                data = ends[sender].recv(1)
                check(False, "end %d receives %r" % (sender, data))
            except ConnectionResetError:
                pass
            lab("fault", "clear")
            check(arrives(lab.connection(0, 1), 20), "connections are still reset")


def round_trips(connection, count):
    times = []
    for _ in range(count):
        begun = time.monotonic()
        for sender, receiver in (connection, connection[::-1]):
            sender.send(b"x")
            check(receiver.recv(1) == b"x", "the connection ended")
        times.append(1e3 * (time.monotonic() - begun))
    return sorted(times)


def received(lab, count):
    """How many of so many datagrams arrive."""
    sender, receiver = lab.socket(0, kind=socket.SOCK_DGRAM), lab.socket(1, kind=socket.SOCK_DGRAM)
    arrived = 0
    for _ in range(count // 100):
        for _ in range(100):
            sender.sendto(b"x", receiver.getsockname())
        receiver.settimeout(0.2)
        try:
            while True:
                receiver.recv(1)
                arrived += 1
        except socket.timeout:
            pass
    return arrived


def delay_and_loss():
    """The least of many round trips is exact from below; busy cores only add to it."""
    with Lab("--hosts", 2, "--delay-ms", 1) as lab:
        connection = lab.connection(0, 1)
        least = round_trips(connection, 20)[0]
        check(4 <= least < 15, "1 ms on each of two links, both ways, is %s ms" % least)
        lab("fault", "delay", "1:0", 10)  # instead of the fabric's 1 ms
        least = round_trips(connection, 10)[0]
        check(22 <= least < 80, "10 ms at one of two links, both ways, is %s ms" % least)
        lab("fault", "clear")
        lab("fault", "delay", "1:0", 1, 8)
        times = round_trips(connection, 40)
        check(times[0] >= 4 and times[30] - times[5] > 2, "jitter of 8 ms shows in %s" % times)
        lab("fault", "blackhole", "1:0")  # together with a delay
        check(not arrives(connection, 0.5), "a delayed link is no black hole")
        lab("fault", "clear")
        check(arrives(connection, 20), "nothing arrives after both were cleared")
    with Lab("--hosts", 2, "--rate", 400) as lab:
        connection = lab.connection(0, 1)
        lab("fault", "loss", "1:0", 20)
        arrived = received(lab, 500)
        check(320 <= arrived <= 470, "of 500 datagrams %d arrive, with 20 %% of loss" % arrived)
        lab("fault", "loss", "1:0", 1)
        check(throughput(*connection, 1000000) > 0, "TCP does not go on under loss")
        lab("fault", "clear")
        check(received(lab, 200) == 200, "datagrams are lost after the loss was cleared")
        check(throughput(*lab.connection(0, 1), 4000000) > 60, "the link is slow after the loss was cleared")
    nothing_left(PREFIX)


def slower_link():
    with Lab("--hosts", 2) as lab:
        lab("fault", "rate", "0:0", 20)
        measured = throughput(*lab.connection(0, 1), 1500000)
        check(8 < measured < 23, "a link of 20 Mbit/s carries %.0f" % measured)
        lab("fault", "rate", "0:0", 60)  # while the other is in force
        measured = throughput(*lab.connection(0, 1), 4000000)
        check(23 < measured < 66, "a link of 60 Mbit/s carries %.0f" % measured)
        lab("fault", "clear")
        measured = throughput(*lab.connection(0, 1), 20000000)
        check(measured > 100, "a link that is as fast as the machine carries %.0f Mbit/s" % measured)


def cpu_seconds(pid):
    """0 of a process that has ended since it was listed: what starts a rank is there for a moment."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slow_cpu():
    """Processes that are there already and those that come later; the other host's are not slowed."""
    with Lab("--hosts", 2) as lab:
        def used(host):
            """CPU time of the host's processes so far, and when that was."""
            pids = map(int, subprocess.check_output(["ip", "netns", "pids", lab.host(host)]).split())
            return sum(map(cpu_seconds, pids)), time.monotonic()

        def share():
            """Of a core, of the two ranks of each host together."""
            before = [used(host) for host in (0, 1)]
            time.sleep(1.5)
            return [(after[0] - old[0]) / (after[1] - old[1]) for old, after in zip(before, map(used, (0, 1)))]
        busy = ("--", "sh", "-c", "while :; do :; done")
        with lab.start(*busy, stderr=subprocess.DEVNULL):
            lab("fault", "cpu", 1, 10)
            with lab.start(*busy, stderr=subprocess.DEVNULL):
                time.sleep(0.5)
                slow = share()
                check(slow[1] < 0.16 < slow[0], "shares of a core with 10 %% for host 1: %s" % slow)
                lab("fault", "clear")
                free = share()
                check(free[1] > 0.16, "shares of a core after that was cleared: %s" % free)
        lab("fault", "cpu", 0, 50)
    check(not glob.glob("/sys/fs/cgroup/*/eccl-lab-%s-*" % PREFIX) and not glob.glob("/sys/fs/cgroup/eccl-lab-%s-*" % PREFIX), "control groups are left")


def stopped_and_killed_ranks():
    with Lab("--hosts", 2) as lab:
        with lab.start("--patience", 1, "--", "sh", "-c", "while :; do echo $RANK; sleep 0.02; done", stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL) as job:
            os.set_blocking(job.stdout.fileno(), False)

            def read():
                try:
                    return os.read(job.stdout.fileno(), 1 << 20).decode()
                except BlockingIOError:
                    return ""

            def printed():
                """Lines of rank 0 and of rank 1 in half a second from now on."""
                read()
                time.sleep(0.5)
                text = read()
                return text.count("[0] 0\n"), text.count("[1] 1\n")
            eventually(lambda: all(printed()), "both ranks print")
            lab("fault", "stop", 1)
            printed()  # what was under way
            now = printed()
            check(now[0] > 0 and now[1] == 0, "rank 1 was stopped: lines of each in half a second: %s %s" % now)
            lab("fault", "clear")
            eventually(lambda: all(printed()), "rank 1 goes on")
            lab("fault", "stop", 0)  # it has to end all the same
            lab("fault", "kill", 1)
            check(job.wait(20) == 137, "exit code %d after rank 1 was killed" % job.returncode)
        lab("fault", "clear")


TESTS = (down_and_black_hole, a_black_spine, reset, delay_and_loss, slower_link, slow_cpu, stopped_and_killed_ranks)

if __name__ == "__main__":
    run(TESTS, sys.argv[1], "nft")
