"""Ranks on hosts of their own, made by tests/lab/hosts: what they compute, whom they see, and a link that goes down.

Arguments: the folder of the perf tools and libeccl.so; or "export" and libeccl.so, as one rank of a job.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HOSTS, MBIT = 3, 400
HERE = os.path.dirname(os.path.abspath(__file__))
LAB = "eccl-test-%d" % os.getpid()
# What the kernel says where namespaces, or the links and shapes of them, are not to be had: without the privilege, below
# another root, in a container, without a module.
REFUSALS = (r"not permitted|No such file or directory|[Pp]ermission denied|not supported|Unknown device type|kind is unknown|"
            r"Read-only file system|Invalid argument|No space left|Function not implemented")


def check(condition, message, output=""):
    if not condition:
        sys.exit("FAILED: %s\n%s" % (message, output[-8000:]))


def lab(*arguments, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ECCL_", "NCCL_"))}
    environment.update(options.pop("env", {}), LAB_NAME=LAB)
    return subprocess.Popen([os.path.join(HERE, "hosts"), *map(str, arguments)], env=environment, text=True, **options)


def run(folder, *command, env=(), **options):
    """A job with a rank on each host; the output of rank i is in the file i of the folder."""
    for rank in range(HOSTS):
        open(os.path.join(folder, str(rank)), "w").close()
    script = 'exec "$@" > "%s/$RANK" 2>&1' % folder
    return lab("run", HOSTS, "sh", "-c", script, "sh", *command, env=dict(env), **options)


def outputs(folder):
    texts = []
    for rank in range(HOSTS):
        with open(os.path.join(folder, str(rank))) as file:
            texts.append(file.read())
    return texts


def finished(job, what, folder, seconds=60):
    try:
        code = job.wait(seconds)
    except subprocess.TimeoutExpired:
        check(False, "%s has not ended after %d s" % (what, seconds), "".join(outputs(folder)))
    check(code == 0, "%s: exit code %d" % (what, code), "".join(outputs(folder)))


def sums_are_right(folder, tool):
    finished(run(folder, tool, "-b", "8", "-e", "2M", "-f", "128", "-n", "2"), "all_reduce_perf", folder)
    output = outputs(folder)[0]
    for rank in range(HOSTS):
        check(re.search(r"^#  Rank +%d .* on +%s-%d " % (rank, LAB, rank), output, re.M), "rank %d is on another host" % rank, output)
    check("# Out of bounds values : 0 OK" in output, "sums are wrong", output)
    # A host sends at least this much of the longest call, 2 MiB or one step of 128 less, through its shaped link.
    row = re.findall(r"^ +(\d+) +\d+ +float +sum +-1 +([\d.]+)", output, re.M)[-1]
    least = 2 * (HOSTS - 1) / HOSTS * int(row[0]) * 8 / MBIT
    check(float(row[1]) > 0.5 * least, "%s bytes took %s us: faster than the links, %.0f us" % (*row, least), output)


def hosts_are_told_apart(folder, library):
    finished(run(folder, sys.executable, os.path.abspath(__file__), "export", library), "ecclTopologyExport", folder)
    texts = outputs(folder)
    check(texts == texts[:1] * HOSTS, "ranks were told different things", "".join(texts))
    cluster = json.loads(texts[0])
    # Hosts that are alike are one entry with a count.
    check([(run["name"], run["first"], run["count"]) for run in cluster["hosts"]] == [(LAB + "-", 0, HOSTS)], "other hosts", texts[0])
    check([(run["host"], run["hosts"]) for run in cluster["ranks"]] == [(LAB + "-0", HOSTS)], "ranks are not one on each host", texts[0])


def lost_host_is_named(folder, tool):
    job = run(folder, tool, "-b", "1M", "-e", "1M", "-n", "5", "-w", "0", "-c", "0", "-N", "0", env={"ECCL_HEARTBEAT_TIMEOUT": "2"},
              stderr=subprocess.DEVNULL)  # in the end the shell says that it was killed
    deadline = time.monotonic() + 30
    while len(re.findall(r"^ +1048576 +262144 .*N/A$", outputs(folder)[0], re.M)) < 2:
        check(time.monotonic() < deadline and job.poll() is None, "no calls in 30 s", "".join(outputs(folder)))
        time.sleep(0.1)
    subprocess.run(["ip", "-n", LAB + "-2", "link", "set", "eth0", "down"], check=True)
    begun = time.monotonic()
    # Also on the host whose own link it is, which hears of nobody any more.
    while any(subprocess.check_output(["ip", "netns", "pids", "%s-%d" % (LAB, host)]) for host in range(HOSTS)):
        check(time.monotonic() - begun < 12, "ranks still wait 12 s after a host's link went down", "".join(outputs(folder)))
        time.sleep(0.1)
    for rank, output in enumerate(outputs(folder)[:2]):
        check(re.search(r"(rank|process) %d[,)].*remote process failed.*rank 2 \(%s-2 pid \d+\) is lost" % (rank, LAB), output),
              "rank %d does not name the lost rank" % rank, output)
        check("the host is down or the network is cut" in output, "rank %d does not say what happened" % rank, output)
    output = outputs(folder)[2]
    check(re.search(r"(rank|process) 2[,)].*remote process failed.*is lost.*the network is cut", output), "rank 2 does not say what happened", output)


def refusal():
    """Why this machine has no hosts of network namespaces, in its kernel's words; empty if it has. What it refuses here
    it refuses everybody; a failure of anything else is one of the test."""
    name = LAB + "-try"
    try:
        for command in ("ip netns add %s", "ip -n %s link add br0 type bridge", "ip -n %s link add eth0 type veth peer name port0",
                        "ip netns exec %s tc qdisc add dev eth0 root tbf rate 100mbit burst 80kb latency 20ms",
                        "ip netns exec %s unshare --uts hostname test"):
            done = subprocess.run((command % name).split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0 and re.search(REFUSALS, done.stdout):
                return "%s: %s" % (command % name, done.stdout.strip())
            check(done.returncode == 0, "%s: exit code %d" % (command % name, done.returncode), done.stdout)
        return ""
    finally:
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def main(tools, library):
    missing = [program for program in ("ip", "tc", "unshare", "xargs") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print("skipped: hosts of network namespaces need root, iproute2 and util-linux; missing: %s" % (missing or "root"))
        return
    why = refusal()
    if why:
        print("skipped: no hosts of network namespaces here: %s" % why)
        return
    tool = os.path.join(tools, "all_reduce_perf")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: lab("down").wait())
        up = lab("up", HOSTS, MBIT, stderr=subprocess.PIPE)
        errors = up.communicate(timeout=60)[1]
        check(up.returncode == 0, "tests/lab/hosts up: exit code %d" % up.returncode, errors)
        for test, argument in ((sums_are_right, tool), (hosts_are_told_apart, library), (lost_host_is_named, tool)):
            test(stack.enter_context(tempfile.TemporaryDirectory()), argument)
            print("%s: passed" % test.__name__)


def export(library):
    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    eccl = ctypes.CDLL(library)
    eccl.ecclGetLastError.restype = ctypes.c_char_p
    eccl.ecclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    eccl.ecclTopologyExport.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]
    eccl.ecclCommDestroy.argtypes = [ctypes.c_void_p]

    def call(function, *arguments):
        check(function(*arguments) == 0, "%s: %s" % (function.__name__, eccl.ecclGetLastError(None).decode()))

    unique, comm, size = UniqueId(), ctypes.c_void_p(), ctypes.c_size_t()
    call(eccl.ecclGetUniqueId, ctypes.byref(unique))
    call(eccl.ecclCommInitRank, comm, int(os.environ["WORLD_SIZE"]), unique, int(os.environ["RANK"]))
    call(eccl.ecclTopologyExport, comm, None, size)
    text = ctypes.create_string_buffer(size.value)
    call(eccl.ecclTopologyExport, comm, text, size)
    call(eccl.ecclCommDestroy, comm)
    print(text.value.decode())


if sys.argv[1] == "export":
    export(sys.argv[2])
else:
    main(*sys.argv[1:])
