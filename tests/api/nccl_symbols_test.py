"""What libnccl.so.2 shows: NCCL's functions, each weak and with a strong twin, and nothing else; what it needs; that
docs/nccl.md names each; and NumPy-like memory summed through it by ctypes.

Arguments: the library, the source folder.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys

LIBRARY, SOURCE = sys.argv[1:3]


def check(condition, what):
    if not condition:
        sys.exit("failed: " + what)


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def names(path):
    with open(path) as file:
        return set(file.read().split())


with open(os.path.join(SOURCE, "nccl", "include", "nccl_functions.h")) as file:
    text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
table = ["nccl" + name for name in re.findall(r"^(?:TWIN\(|REFUSED\(|OWN\([^,]*,)\s*(\w+)", text, flags=re.M)]
check(len(table) == len(set(table)), "a function is listed twice")
wanted = names(os.path.join(SOURCE, "tests", "api", "nccl", "nccl-2.30.7.txt"))
check(set(table) == wanted, "the table is not NCCL's: %s" % (set(table) ^ wanted))

# What has a meaning on a host is in both APIs. What only one of them has is listed here.
ONLY_NCCL = """ResetDebugInit CommGetUniqueId CommGrow CommShrink CommRevoke CommWindowRegister CommWindowDeregister
    WinGetUserPtr PutSignal Signal WaitSignal DevCommCreate DevCommDestroy TeamWorld TeamLsa TeamRail TeamRankToWorld
    TeamRankToLsa LLA2ACalcSlots LLA2ACreateRequirement LsaBarrierCreateRequirement GinBarrierCreateRequirement
    GinOutboxCreateRequirement GinInboxA2ACreateRequirement GetLsaMultimemDevicePointer GetMultimemDevicePointer
    GetLsaDevicePointer GetPeerDevicePointer""".split()
ONLY_ECCL = """AllGatherv AlltoAllv Barrier CommGetConnections CommSynchronize CostEstimate ReduceScatterv StreamCreate
    StreamDestroy StreamQuery StreamSynchronize TopologyExport""".split()
with open(os.path.join(SOURCE, "include", "eccl", "eccl.h")) as file:
    eccl = set(re.findall(r"^ECCL_API [^(]*?\beccl(\w+)\(", file.read(), flags=re.M))
drifted = {name[4:] for name in table} - set(ONLY_NCCL) ^ eccl - set(ONLY_ECCL)
check(len(eccl) > 50 and not drifted, "eccl.h and nccl.h have drifted apart: %s" % sorted(drifted))

shown = {}
for line in lines("nm", "-D", "--defined-only", LIBRARY):
    _, kind, name = line.split()
    check("@" not in name, "%s has a version" % name)
    shown[name] = kind
check(shown == {**{name: "W" for name in wanted}, **{"p" + name: "T" for name in wanted}},
      "not what it should show: %s" % {name: kind for name, kind in shown.items() if name.lstrip("p") not in wanted})
# What real programs ask for by name, read off their files.
ASKED = {"cupy-14.2": 22, "nccl-2.30.7": 82, "nvshmem-3.8": 13, "pytorch-2.15": 51, "vllm-0.33": 21, "xla-pjrt-0.12": 47}
lists = {os.path.basename(path)[:-4]: names(path)
         for path in glob.glob(os.path.join(SOURCE, "tests", "api", "nccl", "*.txt"))}
check({name: len(asked) for name, asked in lists.items()} == ASKED, "the lists are not those of %s" % sorted(ASKED))
for name, asked in lists.items():
    check(not asked - set(shown), "%s asks for %s" % (name, sorted(asked - set(shown))))

dynamic = "\n".join(lines("readelf", "-d", LIBRARY))
check("Library soname: [libnccl.so.2]" in dynamic, "the soname is another")
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
check(needed[0].startswith("libeccl.so.") and not [name for name in needed if re.match("libstdc|libcuda|libeccl_", name)],
      "it needs %s" % needed)
check("$ORIGIN" in dynamic, "it does not look for libeccl.so beside itself")
check(os.path.getsize(LIBRARY) < 200_000, "it has %d bytes" % os.path.getsize(LIBRARY))

with open(os.path.join(SOURCE, "docs", "nccl.md")) as file:
    documented = set(re.findall(r"`(\w+)`", file.read()))
missing = [name for name in table if name[4:] not in documented and name not in documented]
check(not missing, "docs/nccl.md does not name %s" % missing)

# By a name of its own in this process, as frameworks load it (RTLD_LOCAL is the default).
nccl = ctypes.CDLL(LIBRARY)


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


unique, comm, data = Id(), ctypes.c_void_p(), (ctypes.c_float * 3)(1, 2, 3)
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
                               ctypes.c_void_p]
nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
check(nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0, "ncclGetUniqueId")
check(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0, "ncclCommInitRank")
check(nccl.ncclAllReduce(data, data, 3, 7, 0, comm, None) == 0, "ncclAllReduce")
check(nccl.ncclCommDestroy(comm) == 0, "ncclCommDestroy")
check(list(data) == [1, 2, 3], "the sum over one rank")
print("passed")
