"""nccl-tests as they come over ECCL's libnccl.so.2: each program with two GPUs in one thread, and in two threads, with
and without CUDA graphs, by lanes and staged. scripts/frameworks nccl-tests fetches and builds them.

There need not be a GPU: the driver and the runtime are those of tests/cuda_emulation, in the build that the library is
of. They run no kernels of the programs', which so cannot check results (-c 0). ECCL_TESTS_CUDA=real takes two GPUs of
the machine, and checks.

Arguments: libnccl.so.2, the source folder.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys

LIBRARY, SOURCE = sys.argv[1:3]
REAL = os.environ.get("ECCL_TESTS_CUDA") == "real"
PROGRAMS = sorted(glob.glob(os.path.join(SOURCE, "build", "frameworks", "nccl-tests", "build", "*_perf")))
EMULATION = os.path.realpath(os.path.join(os.path.dirname(LIBRARY), "..", "tests", "cuda_emulation"))
WAYS = (["-g", "2"], ["-g", "2", "-G", "2"], ["-t", "2", "-g", "1"], ["-t", "2", "-g", "1", "-G", "2"])


def gpus():
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        sys.exit("failed: %s" % error)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        sys.exit("failed: the CUDA driver does not say how many GPUs there are")
    return count.value


def missing():
    if not PROGRAMS:
        return "nccl-tests are not there; scripts/frameworks nccl-tests fetches and builds them"
    if not REAL and not os.path.exists(os.path.join(EMULATION, "libcudart.so.13")):
        return "there is no emulated runtime: it is built with the tests, where the header of CUDA 13 is"
    if REAL and gpus() < 2:
        return "each rank of these programs takes a GPU, and there are not two"
    return ""


def run(program, options, lanes):
    """Why it has failed; empty if it has not."""
    folders = ([] if REAL else [EMULATION]) + [os.path.dirname(os.path.realpath(LIBRARY))]
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(folders), ECCL_DEVICE="cuda", ECCL_CUDA_LANES=lanes,
                       EMULATED_CUDA_KERNELS="skip")
    sizes = ["-b", "8", "-e", "256K", "-f", "32", "-n", "3", "-w", "1"]
    command = [program, *sizes, "-c", "1" if REAL else "0", *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120)
    rows = re.findall(r"^\s+\d+\s+\d+\s+float.*", done.stdout, re.MULTILINE)
    wrong = "emulated CUDA:" in done.stdout or "Out of bounds values : 0 OK" not in done.stdout
    if done.returncode != 0 or len(rows) != 4 or wrong:
        return "%s, ECCL_CUDA_LANES=%s: exit code %d\n%s" % (" ".join(command), lanes, done.returncode, done.stdout)
    return ""


why = missing()
if why:
    print("skipped: " + why)
    sys.exit()
failures = [failed for program in PROGRAMS for options in WAYS for lanes in "10"
            if (failed := run(program, options, lanes))]
if failures:
    sys.exit("failed:\n" + "\n".join(failures))
print("passed: %d programs, each in %d ways" % (len(PROGRAMS), 2 * len(WAYS)))
