"""Ranks on hosts of their own, made by tests/lab/lab: what they compute, whom they see, and a link that goes down.

Arguments: the folder of the perf tools and libeccl.so; or "export" and libeccl.so, as one rank of a job.
"""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from support import PREFIX as LAB  # noqa: E402
from support import Lab, check, skipped  # noqa: E402

HOSTS, MBIT = 3, 400


def run(lab, folder, *command, env=(), **options):
    """A job with a rank on each host; the output of rank i is in the file i of the folder."""
    return lab.start("--output", folder, "--patience", 60, "--", *command, env=dict(env), **options)


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


def sums_are_right(lab, folder, tool):
    finished(run(lab, folder, tool, "-b", "128", "-e", "2M", "-f", "128", "-n", "2"), "all_reduce_perf", folder)
    output = outputs(folder)[0]
    for rank in range(HOSTS):
        check(re.search(r"^#  Rank +%d .* on +%s-%d " % (rank, LAB, rank), output, re.M), "rank %d is on another host" % rank, output)
    check("# Out of bounds values : 0 OK" in output, "sums are wrong", output)
    # A host sends at least this much of the longest call, 2 MiB, through its shaped link. That lets some KiB through at
    # once, when it has been idle.
    row = re.findall(r"^ +(\d+) +\d+ +float +sum +-1 +([\d.]+)", output, re.M)[-1]
    least = 2 * (HOSTS - 1) / HOSTS * int(row[0]) * 8 / MBIT
    check(float(row[1]) > 0.5 * least, "%s bytes took %s us: faster than the links, %.0f us" % (*row, least), output)


def hosts_are_told_apart(lab, folder, library):
    finished(run(lab, folder, sys.executable, os.path.abspath(__file__), "export", library), "ecclTopologyExport", folder)
    texts = outputs(folder)
    check(texts == texts[:1] * HOSTS, "ranks were told different things", "".join(texts))
    cluster = json.loads(texts[0])
    # Hosts that are alike are one entry with a count.
    check([(run["name"], run["first"], run["count"]) for run in cluster["hosts"]] == [(LAB + "-", 0, HOSTS)], "other hosts", texts[0])
    check([(run["host"], run["hosts"]) for run in cluster["ranks"]] == [(LAB + "-0", HOSTS)], "ranks are not one on each host", texts[0])


def lost_host_is_named(lab, folder, tool):
    job = run(lab, folder, tool, "-b", "1M", "-e", "1M", "-n", "5", "-w", "0", "-c", "0", "-N", "0", env={"ECCL_HEARTBEAT_TIMEOUT": "2"})
    deadline = time.monotonic() + 30
    while not os.path.exists(os.path.join(folder, "2")) or len(re.findall(r"^ +1048576 +262144 .*N/A$", outputs(folder)[0], re.M)) < 2:
        check(time.monotonic() < deadline and job.poll() is None, "no calls in 30 s")
        time.sleep(0.1)
    lab("fault", "down", "2:0")
    begun = time.monotonic()
    # Also on the host whose own link it is, which hears of nobody any more.
    while job.poll() is None:
        check(time.monotonic() - begun < 12, "ranks still wait 12 s after a host's link went down", "".join(outputs(folder)))
        time.sleep(0.1)
    check(job.returncode != 0, "the job ended well, without a host's link", "".join(outputs(folder)))
    for rank, output in enumerate(outputs(folder)[:2]):
        # In the tool's error, or, where another rank's abort of the tool's own communicator was faster, in the library's.
        named = r"((rank|process) %d[,)].*remote process failed.*|communicator \w+, rank %d of 3: )rank 2 \(%s-2 pid \d+\) is lost" % (rank, rank, LAB)
        check(re.search(named, output) and "remote process failed" in output, "rank %d does not name the lost rank" % rank, output)
        check("the host is down or the network is cut" in output, "rank %d does not say what happened" % rank, output)
    output = outputs(folder)[2]
    check(re.search(r"(rank|process) 2[,)].*remote process failed.*is lost.*the network is cut", output), "rank 2 does not say what happened", output)


def main(tools, library):
    if skipped():
        return
    tool = os.path.join(tools, "all_reduce_perf")
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab("--hosts", HOSTS, "--rate", MBIT))
        for test, argument in ((sums_are_right, tool), (hosts_are_told_apart, library), (lost_host_is_named, tool)):
            test(lab, stack.enter_context(tempfile.TemporaryDirectory()), argument)
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
