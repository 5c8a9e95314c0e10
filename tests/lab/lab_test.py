"""The lab itself: what it makes is as the fabric says, nothing stays behind, jobs end as they should. Argument: a test's name."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from support import HERE, PREFIX, TOOL, Lab, check, environment, eventually, marked, namespaces, nothing_left, run, tool  # noqa: E402


def reaches_everybody(lab, most=9):
    """Each host the next ones on every rail."""
    hosts, rails = len(lab.shown["hosts"]), len(lab.shown["hosts"][0]["addresses"])
    for rail in range(rails):
        for one in range(hosts):
            for step in range(1, min(hosts, most)):
                caller, answerer = lab.connection(one, (one + step) % hosts, rail)
                caller.sendall(b"%d" % one)
                check(answerer.recv(10) == b"%d" % one, "host %d does not reach %d on rail %d" % (one, (one + step) % hosts, rail))
                caller.close()
                answerer.close()


def in_use(device):
    """Whether the kernel sends and takes packets there, not only has a carrier."""
    state = device.get("linkinfo", {}).get("info_slave_data", {}).get("state", "forwarding")  # of a bridge's port
    return device["operstate"] in ("UP", "UNKNOWN") and state == "forwarding"


def links_are_in_use(lab):
    for name in namespaces(lab.name):
        for device in json.loads(subprocess.check_output(["ip", "-n", name, "-d", "-j", "link", "show"])):
            check(device["ifname"] == "lo" or in_use(device), "%s in %s is not in use yet" % (device["ifname"], name), str(device))


def fabrics():
    shipped = sorted(glob.glob(os.path.join(HERE, "fabrics", "*.json")))
    check(len(shipped) >= 7, "only %d fabrics ship" % len(shipped))
    for path in shipped:
        with open(path) as file:
            wanted = json.load(file)
        with Lab(path) as lab:
            check(len(lab.shown["hosts"]) == wanted["hosts"], "%s: %d hosts" % (path, len(lab.shown["hosts"])))
            links_are_in_use(lab)
            reaches_everybody(lab)
            text = lab("show")
            for host in range(wanted["hosts"]):
                check("host %s-%d: " % (lab.name, host) in text and lab.address(host) in text, "show leaves out host %d" % host, text)
            check(text.count("\nlink ") == len(lab.shown["links"]), "show leaves out links", text)
        nothing_left(PREFIX)


def large_fabrics():
    """More than a laptop's user would start with; label long."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.json")
        for wanted in ({"hosts": 32, "ranks": 4, "rails": [{"rate": 50}] * 4, "leaves": 2, "spines": 4, "oversubscription": 2},
                       {"hosts": 64, "rails": [{"rate": 20, "mtu": 9000}], "leaves": 2, "spines": 2, "ecmp": False}):
            with open(path, "w") as file:
                json.dump(wanted, file)
            with Lab(path) as lab:
                reaches_everybody(lab, most=4)  # the kernel's table of neighbours is one for all namespaces
                check("note: if every host talks to every other" in lab("show"), "no note on neighbours", lab("show"))
            nothing_left(PREFIX)


def throughput(sender, receiver, size):
    """Mbit/s of that many bytes, after a burst that a shaped link lets pass at once."""
    burst, got, times = 200000, 0, []

    def send():
        sender.sendall(bytes(burst + size))
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    while got < burst + size:
        data = len(receiver.recv(1 << 16))
        check(data > 0, "the connection ended after %d bytes" % got)
        got += data
        times.append((time.monotonic(), got))
    thread.join()
    begun, first = next(entry for entry in times if entry[1] >= burst)
    return 8e-6 * (got - first) / (times[-1][0] - begun)


def rates():
    """A shaped link is never faster than it should be, and not much slower even on busy cores; each rail has its own."""
    with Lab("unequal-rails") as lab:
        for rail, rate in enumerate((100, 200)):
            measured = throughput(*lab.connection(0, 1, rail), 4000000)
            check(0.4 * rate < measured < 1.1 * rate, "rail %d carries %.0f Mbit/s instead of %d" % (rail, measured, rate))
        said = "cat /sys/class/net/e0/speed /sys/class/net/e1/speed /proc/sys/net/ipv4/tcp_congestion_control; ls -A /mnt"
        output = lab("run", "--on", 3, "--", "sh", "-c", said).splitlines()
        check(output[:2] == ["100", "200"], "NICs do not say their rates", "\n".join(output))
        check(output[2] in ("cubic", "reno"), "hosts use %s" % output[2])
        check(output[3:] == sorted(os.listdir("/mnt")), "what lies in /mnt is hidden", "\n".join(output))
        check("rates /mnt" not in subprocess.check_output(["mount"], text=True), "a mount is left behind")


def flows_take_the_spine_that_their_ports_say():
    """The kernel's own answer for a flow is where its bytes go, flows use all spines, and none a spine that is down."""
    with Lab("leaf-spine") as lab:
        def sent():
            return [int(subprocess.check_output(["ip", "netns", "exec", lab.name + "-tor0", "cat", "/sys/class/net/u%d/statistics/tx_bytes" % spine]))
                    for spine in range(4)]

        def one_flow():
            caller, answerer = lab.connection(0, 7)
            before, (source, port), (destination, other) = sent(), caller.getsockname(), caller.getpeername()
            said = subprocess.check_output(["ip", "-n", lab.name + "-tor0", "route", "get", destination, "from", source, "iif", "p0", "ipproto",
                                            "tcp", "sport", str(port), "dport", str(other)], text=True)
            caller.sendall(bytes(300000))
            left = 300000
            while left > 0:
                left -= len(answerer.recv(left))
            most = [after - old for old, after in zip(before, sent())]
            caller.close()
            answerer.close()
            spine = most.index(max(most))
            check(max(most) > 290000 and "dev u%d" % spine in said, "the flow took spine %d, not what was said" % spine, said)
            return spine
        used = {one_flow() for _ in range(24)}
        check(used == {0, 1, 2, 3}, "24 flows used spines %s" % used)
        lab("fault", "down", "spine2")
        used = {one_flow() for _ in range(12)}
        check(2 not in used and len(used) > 1, "with spine 2 down 12 flows used spines %s" % used)
        lab("fault", "clear")
        eventually(lambda: one_flow() == 2, "spine 2 is used again")


def variables_of_ranks():
    """Every rank knows who it is, on its own host, and its output is told from the others'."""
    with Lab("rail-spine") as lab:
        shown = 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $(hostname) $ECCL_SOCKET_IFNAME $ECCL_COMM_ID $ECCL_COMM_SECRET'
        output = lab("run", "--", "sh", "-c", shown)
        rows = sorted(output.splitlines(), key=lambda line: int(line[1:line.index("]")]))
        check(len(rows) == 16, "not a line of each rank", output)
        for rank, row in enumerate(rows):
            wanted = r"\[%d\] %d 16 %d 4 %s-%d =e%d 10\.77\.0\.1:2\d{4} [0-9a-f]{32}$" % (rank, rank, rank % 4, lab.name, rank // 4, rank % 4)
            check(re.match(wanted, row), "rank %d has other variables" % rank, row)
        check(len({row.split()[-1] + row.split()[-2] for row in rows}) == 1, "ranks have different secrets or places to meet", output)
        output = lab("run", "--hosts", 2, "--ranks", 1, "--rail", 1, "--", "sh", "-c", shown)
        check(len(output.splitlines()) == 2 and " 2 0 1 " in output and " 10.77.1.1:" in output, "not two ranks that meet on rail 1", output)
        output = lab("run", "--on", 3, "--", "sh", "-c", "hostname; echo $RANK.")
        check(output == lab.name + "-3\n.\n", "not a command on host 3", output)
        for wrong, words in ((("--hosts", 5), "--hosts 5: lab .* has 4 hosts"), (("--on", 4), "--on 4"), (("--rail", 4), "--rail 4"),
                             (("--ranks", 5), "5 ranks on a host"), (("--output", "/nowhere"), "no folder")):
            output = lab("run", *wrong, "--", "true", code=2)
            check(re.search(words, output), "lab run %s is not refused" % (wrong,), output)
        check("needs a command" in lab("run", code=2), "a run of nothing is not refused")


def jobs_end():
    """With the first rank that fails, at a time-out, by a signal: with the right code, and nobody stays."""
    with Lab("--hosts", 2, "--ranks", 2) as lab:
        # A grandchild, in a session of its own, that no signal to a rank would reach.
        stay = "setsid sleep 600 & "
        for arguments, script, code, words in (
                ((), 'test $RANK != 2 || exit 7; exec sleep 600', 7, "rank 2 ended with exit code 7; ending ranks 0, 1, 3"),
                ((), 'sleep 0.$RANK; exit $((RANK + 3))', 3, "rank 0 ended with exit code 3\n"),
                ((), 'test $RANK != 1 || kill -9 $$; exec sleep 600', 137, "rank 1 ended with signal 9"),
                ((), 'trap "" TERM; test $RANK = 3 || while :; do sleep 600; done', 124, "ending ranks 0, 1, 2")):
            output = lab("run", "--patience", 1, *(("--timeout", 1) if code == 124 else ()), "--", "sh", "-c", stay + script, code=code, TEST_MARK=PREFIX)
            check(words in output, "lab run says something else", output)
            check(not marked(PREFIX), "processes are left")
        check(lab("run", "--", "sh", "-c", stay + "exit 0", TEST_MARK=PREFIX) == "" and not marked(PREFIX), "processes are left after a job that ended well")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            job = lab.start("--", "sh", "-c", stay + "sleep 600", env={"TEST_MARK": PREFIX}, stderr=subprocess.DEVNULL)
            eventually(lambda: len(marked(PREFIX)) >= 12, "four ranks with two processes each")
            job.send_signal(number)
            check(job.wait(20) == 128 + number, "exit code %d after signal %d" % (job.returncode, number))
            check(not marked(PREFIX), "processes are left after signal %d" % number)
        job = lab.start("--", "sh", "-c", stay + "exec yes", env={"TEST_MARK": PREFIX}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        job.stdout.readline()
        job.stdout.close()
        check(job.wait(20) == 128 + signal.SIGPIPE and not marked(PREFIX), "a job whose output nobody reads goes on")
        with tempfile.TemporaryDirectory() as folder:
            check(lab("run", "--output", folder, "--", "sh", "-c", "echo I am $RANK") == "", "files are not the only output")
            for rank in range(4):
                with open(os.path.join(folder, str(rank))) as file:
                    check(file.read() == "I am %d\n" % rank, "the file of rank %d holds something else" % rank)
        output = lab("run", "--", "sh", "-c", 'printf "no newline"; seq 20000')
        check(len(output.splitlines()) == 80000 and output.count("] no newline1\n") == 4, "output is lost", output[-200:])


def crashes_leave_nothing():
    """The tool is killed in the middle of things: ranks end at once, and what is half made goes with the next command."""
    with Lab("--hosts", 2) as lab:
        job = lab.start("--", "sh", "-c", "setsid sleep 600 & sleep 600", env={"TEST_MARK": PREFIX})
        eventually(lambda: len(marked(PREFIX)) >= 5, "two ranks with two processes each")
        job.kill()
        job.wait()
        eventually(lambda: not marked(PREFIX), "ranks end with the tool")
    nothing_left(PREFIX)

    left = 0
    for step in range(5):
        up = subprocess.Popen([TOOL, "up", "two-rails", "--name", PREFIX], env=environment(), stderr=subprocess.DEVNULL)
        eventually(lambda: len(namespaces(PREFIX)) > 2 * step or up.poll() is not None, "namespaces")
        up.kill()
        up.wait()
        left += bool(namespaces(PREFIX))
        if not subprocess.run([TOOL, "show", "--name", PREFIX], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            left -= 1  # it was too late
        elif step % 2:
            output = tool("up", "--hosts", 2, "--name", PREFIX)  # another fabric: nothing of the old one may be in its way
            check("left half made: removed" in output, "a half-made lab is in the way", output)
        tool("down", "--name", PREFIX)
        nothing_left(PREFIX)
    check(left >= 3, "only %d of 5 labs were half made when the tool was killed" % left)

    owner = subprocess.Popen(["sleep", "600"])
    tool("up", "--hosts", 2, "--name", PREFIX + "-a", "--owner", owner.pid)
    owner.kill()
    owner.wait()
    output = tool("up", "--hosts", 2, "--name", PREFIX + "-b", "--owner", os.getpid())
    # Or another test's command, which runs beside this one, has removed it.
    told = "lab %s-a was left by a process that has ended: removed" % PREFIX in output
    check(told or not namespaces(PREFIX + "-a"), "the lab outlives its owner", output)
    tool("down", "--name", PREFIX + "-b")
    nothing_left(PREFIX)

    job = subprocess.Popen([TOOL, "run", "--fabric", "two-hosts", "--name", PREFIX, "--", "sleep", "600"], env=environment(TEST_MARK=PREFIX),
                           stderr=subprocess.DEVNULL)
    eventually(lambda: len(marked(PREFIX)) >= 4, "two ranks")
    job.kill()
    job.wait()
    tool("down", "--name", PREFIX + "-none")
    eventually(lambda: not marked(PREFIX), "ranks end with the tool")
    nothing_left(PREFIX)


def two_labs():
    """Of the same addresses: each sees itself only, and goes down by itself. A name is taken once."""
    with Lab("--hosts", 2, name=PREFIX + "-a") as one, Lab("--hosts", 2, name=PREFIX + "-b") as other:
        check(one.address(1) == other.address(1), "addresses differ")
        with one.inside(1):
            listener = one.socket(1)
        listener.listen()
        caller = other.socket(0)
        check(caller.connect_ex(listener.getsockname()) != 0, "one lab reaches the other")
        output = one("up", "--hosts", 3, code=2)
        check("lab %s-a is up; take it down first" % PREFIX in output, "a name can be taken twice", output)
        one("down")
        check("no lab %s-a is up, but " % PREFIX in one("show", code=2), "show shows what is down")
        check("no lab %s-a was up" % PREFIX in one("down"), "down of what is down is no news")
        reaches_everybody(other)
    nothing_left(PREFIX)
    subprocess.run(["ip", "netns", "add", PREFIX + "-1"], check=True)
    output = tool("up", "--hosts", 2, "--name", PREFIX, code=2)
    check("a network namespace %s-1 that no lab has made" % PREFIX in output, "a stranger's namespace is taken", output)
    check(namespaces(PREFIX) == [PREFIX + "-1"], "a stranger's namespace was removed")
    subprocess.run(["ip", "netns", "delete", PREFIX + "-1"], check=True)


TESTS = (fabrics, large_fabrics, rates, flows_take_the_spine_that_their_ports_say, variables_of_ranks, jobs_end, crashes_leave_nothing, two_labs)

if __name__ == "__main__":
    run(TESTS, sys.argv[1])
