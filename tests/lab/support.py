"""What the tests of and on labs share: a lab for a test, sockets on its hosts, and when a test is skipped."""

import contextlib
import ctypes
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

from netlab import cli, lab  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "lab")
PREFIX = "eccl-test-%d" % os.getpid()
# What the kernel says where namespaces, or the links and shapes of them, are not to be had: without the privilege, below
# another root, in a container, without a module.
REFUSALS = (r"not permitted|No such file or directory|[Pp]ermission denied|not supported|Unknown device type|kind is unknown|"
            r"Read-only file system|Invalid argument|No space left|Function not implemented")


def check(condition, message, output=""):
    if not condition:
        sys.exit("FAILED: %s\n%s" % (message, output[-8000:]))


def refusal():
    """Why this machine has no hosts of network namespaces, in its kernel's words; empty if it has. What it refuses here
    it refuses everybody; a failure of anything else is one of the test."""
    name = PREFIX + "-try"
    try:
        for command in ("ip netns add %s", "ip -n %s link add br0 type bridge", "ip -n %s link add eth0 type veth peer name port0",
                        "ip netns exec %s tc qdisc add dev eth0 root tbf rate 100mbit burst 80kb latency 20ms",
                        "ip netns exec %s unshare --uts --pid --fork --mount-proc hostname test"):
            done = subprocess.run((command % name).split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0 and re.search(REFUSALS, done.stdout):
                return "%s: %s" % (command % name, done.stdout.strip())
            check(done.returncode == 0, "%s: exit code %d" % (command % name, done.returncode), done.stdout)
        return ""
    finally:
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def skipped(*programs):
    """Whether the test cannot run here; then it has said why."""
    missing = [program for program in ("ip", "tc", "unshare", *programs) if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print("skipped: hosts of network namespaces need root, iproute2, util-linux and nftables; missing: %s" % (missing or "root"))
        return True
    why = refusal()
    if why:
        print("skipped: no hosts of network namespaces here: %s" % why)
    return bool(why)


def environment(**more):
    """Without the settings of whoever runs the tests."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("ECCL_", "NCCL_", "LAB_N"))}, **more}


def tool(*arguments, code=0, **more):
    """What the tool prints, both outputs; the test fails if it ends in another way. In this process, unless it starts others:
    starting Python takes longer than most commands."""
    if arguments[0] != "run":
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            ended = cli.main([str(argument) for argument in arguments])
        check(ended == code, "lab %s: exit code %d, not %d" % (" ".join(map(str, arguments)), ended, code), text.getvalue())
        return text.getvalue()
    done = subprocess.run([TOOL, *map(str, arguments)], env=environment(**more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    check(done.returncode == code, "lab %s: exit code %d, not %d" % (" ".join(map(str, arguments)), done.returncode, code), done.stdout)
    return done.stdout


class Job(subprocess.Popen):
    """Ends with its `with`, also when a check has failed there."""

    def __exit__(self, *reason):
        self.terminate()
        super().__exit__(*reason)


class Lab:
    """Up in a `with`; it ends with this process, too."""

    def __init__(self, *fabric, name=PREFIX):
        self.name, self.fabric = name, fabric

    def __enter__(self):
        self("up", *self.fabric, "--owner", os.getpid())
        self.shown = json.loads(self("show", "--json"))
        return self

    def __exit__(self, *_):
        self("down")

    def __call__(self, command, *arguments, code=0, **more):
        return tool(command, "--name", self.name, *arguments, code=code, **more)

    def start(self, *arguments, **options):
        """`lab run` beside the test."""
        more = options.pop("env", {})
        return Job([TOOL, "run", "--name", self.name, *map(str, arguments)], env=environment(**more),
                                stdin=subprocess.DEVNULL, text=True, **options)

    def host(self, number):
        return self.shown["hosts"][number]["name"]

    def address(self, host, rail=0):
        return self.shown["hosts"][host]["addresses"]["e%d" % rail]

    @contextlib.contextmanager
    def inside(self, host):
        """What is opened here is on that host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open("/run/netns/" + self.host(host)) as other:
            check(libc.setns(other.fileno(), 0) == 0, "setns: %s" % os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                check(libc.setns(own.fileno(), 0) == 0, "setns: %s" % os.strerror(ctypes.get_errno()))

    def socket(self, host, rail=0, kind=socket.SOCK_STREAM):
        """Bound to the host's address on that rail."""
        with self.inside(host):
            made = socket.socket(socket.AF_INET, kind)
        made.settimeout(20)
        made.bind((self.address(host, rail), 0))
        return made

    def connection(self, one, other, rail=0):
        """Two ends of a TCP connection, of `one` and of `other`."""
        with self.socket(other, rail) as listener:
            listener.listen()
            caller = self.socket(one, rail)
            caller.connect(listener.getsockname())
            answerer = listener.accept()[0]
        answerer.settimeout(20)
        for end in (caller, answerer):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return caller, answerer


def dumps(folder):
    """The texts of the files in a folder: the output of each rank, or what each has dumped."""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            yield file.read()


def everything(folder):
    return "".join(dumps(folder))


def eventually(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, "%s: not within %d s" % (what, seconds))
        time.sleep(0.02)


def namespaces(name):
    return [entry for entry in os.listdir("/run/netns") if entry.startswith(name)] if os.path.isdir("/run/netns") else []


def nothing_left(name):
    """Of that lab, or of all whose name begins so."""
    check(not namespaces(name), "namespaces are left: %s" % namespaces(name))
    records = [entry for entry in os.listdir("/run/eccl-lab") if entry.startswith(name)]
    check(not records, "records are left: %s" % records)


def marked(mark):
    """Process ids of all whose environment holds TEST_MARK=mark."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open("/proc/%s/environ" % entry, "rb") as file:
                    if b"TEST_MARK=%s\0" % mark.encode() in file.read():
                        found.append(int(entry))
    return found


def run(tests, name, *programs):
    """The test of that name, or a reason why not; whatever comes of it, no lab stays up."""
    test = {test.__name__: test for test in tests}[name]
    if skipped(*programs):
        return
    try:
        test()
    finally:
        for left in (entry for entry in lab.names() if entry.startswith(PREFIX)):
            tool("down", "--name", left)
    print("passed")
