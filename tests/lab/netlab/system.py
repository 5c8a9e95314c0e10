"""What the tool asks of the kernel: programs of iproute2, namespaces, and the processes in them."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import time

from .errors import LabError

NETNS = "/run/netns"
CLONE_NEWPID = 0x20000000
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nft": "nftables"}


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise LabError("%s is not installed; install Debian's package %s, or what holds it here" % (program, PACKAGES[program]))


def need_privileges():
    if os.geteuid() != 0:
        raise LabError("network namespaces need root; run it with sudo")
    need("ip", "tc", "unshare")


def run(*command, text=None, quiet=False):
    """Its output; LabError with what it said if it fails, unless quiet."""
    done = subprocess.run(command, input=text, stdin=subprocess.DEVNULL if text is None else None, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0 and not quiet:
        said = " ".join(done.stderr.split()) or "exit code %d" % done.returncode
        raise LabError("%s failed: %s%s" % (" ".join(command), said, "" if text is None else "; it was told: " + _first(text, said)))
    return done.stdout


def _first(text, said):
    """The line that an error such as "Command failed -:3" is about, else the first."""
    lines = text.splitlines()
    number = said.rpartition("-:")[2].split()[0] if "-:" in said else ""
    return lines[int(number) - 1] if number.isdigit() and 0 < int(number) <= len(lines) else lines[0]


def batch(program, namespace, lines):
    """ip or tc, with many commands at once."""
    if lines:
        run(program, "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")


def has_namespace(name):
    return os.path.exists(os.path.join(NETNS, name))


def _waiting(namespace):
    """Devices that have a carrier, but that the kernel does not use yet."""
    links = json.loads(run("ip", "-n", namespace, "-d", "-j", "link", "show"))
    return [link["ifname"] for link in links if "LOWER_UP" in link["flags"] and (
        link["operstate"] not in ("UP", "UNKNOWN") or
        link.get("linkinfo", {}).get("info_slave_data", {}).get("state", "forwarding") != "forwarding")]


def wait_for_links(namespaces, seconds=10):
    """Until what has a carrier carries. The kernel may look at new carriers only once a second; until then a device drops
    what it is given, a bridge does not use the port, and the first packets of a connection are lost."""
    deadline = time.monotonic() + seconds
    for namespace in namespaces:
        while waiting := _waiting(namespace):
            if time.monotonic() > deadline:
                raise LabError("%s in %s: a carrier, but not in use after %d s" % (", ".join(waiting), namespace, seconds))
            time.sleep(0.02)


def set_kernel(namespace, values):
    """Writes files below /proc/sys/net/ipv4 of the namespace."""
    if values:
        script = "cd /proc/sys/net/ipv4" + "".join(" && echo %s >%s" % (value, name) for name, value in values.items())
        run("ip", "netns", "exec", namespace, "sh", "-c", script)


def processes(namespaces):
    """Process ids by namespace, for those namespaces that exist."""
    names = {}
    for name in namespaces:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(os.path.join(NETNS, name))
            names[status.st_dev, status.st_ino] = name
    found = {name: [] for name in names.values()}
    for entry in os.listdir("/proc") if names else ():
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                status = os.stat("/proc/%s/ns/net" % entry)
                if (status.st_dev, status.st_ino) in names:
                    found[names[status.st_dev, status.st_ino]].append(int(entry))
    return found


def end(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_all(namespaces, seconds=10):
    """Until none is left: one may start another while it ends."""
    deadline = time.monotonic() + seconds
    while True:
        pids = [pid for each in processes(namespaces).values() for pid in each]
        if not pids:
            return
        if time.monotonic() > deadline:
            raise LabError("processes %s do not end; their namespaces stay" % ", ".join(map(str, pids)))
        end(pids)
        time.sleep(0.01)


def environment_of(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            pairs = (entry.partition(b"=") for entry in file.read().split(b"\0"))
            return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}
    except OSError:
        return {}


def arguments_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def birth(pid):
    """When it started, in ticks: with the id it tells a process from a later one of the same id. None if there is none."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except OSError:
        return None


@contextlib.contextmanager
def process_namespace():
    """What the caller starts inside is in a process namespace of its own, and ends when the caller does, however it ends.
    The first process there is a `cat` that reads from a pipe of the caller; when it ends, the kernel ends all others.
    Yields a function that ends them."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(CLONE_NEWPID) != 0:
            raise LabError("no process namespace: %s; it takes root and a kernel with CONFIG_PID_NS" % os.strerror(ctypes.get_errno()))
        first = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            yield first.kill
        finally:
            first.kill()
            first.wait()
            first.stdin.close()
            if libc.setns(own, CLONE_NEWPID) != 0:
                raise LabError("cannot go back into the own process namespace: %s" % os.strerror(ctypes.get_errno()))
    finally:
        os.close(own)
