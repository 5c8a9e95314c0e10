"""CuPy as it comes from PyPI over ECCL's libnccl.so.2, without a GPU: its NcclCommunicator in two processes, on NumPy
memory. scripts/frameworks cupy fetches CuPy into build/frameworks and runs this; one that is installed otherwise does,
too.

Arguments: libnccl.so.2, the source folder.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import sys

LIBRARY, SOURCE = sys.argv[1:3]
FETCHED = os.path.join(SOURCE, "build", "frameworks", "cupy")
if os.path.realpath(sys.prefix) != os.path.realpath(FETCHED) and os.path.exists(os.path.join(FETCHED, "bin", "python3")):
    os.execv(os.path.join(FETCHED, "bin", "python3"), [os.path.join(FETCHED, "bin", "python3"), *sys.argv])
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import ranks  # noqa: E402

RANKS = 2


def missing():
    """Why this Python cannot run it; empty if it can. Nothing is imported yet: each rank does that."""
    for module in ("numpy", "cupy", "cupy_backends"):
        found = importlib.util.find_spec(module)
        if found is None:
            return "%s is not installed; scripts/frameworks cupy fetches CuPy" % module
    folder = os.path.join(list(found.submodule_search_locations)[0], "cuda", "libs")
    if not [name for name in os.listdir(folder) if name.startswith("nccl.")]:
        return "the CuPy that is installed was built without NCCL; scripts/frameworks cupy fetches one that has it"
    return ""


def load():
    """CuPy's module over our library. Loaded first, ours is what CuPy finds by the name libnccl.so.2."""
    ctypes.CDLL(LIBRARY, ctypes.RTLD_GLOBAL)
    from cupy.cuda import nccl
    if not nccl.available:
        raise AssertionError("CuPy could not load its NCCL module; with CUPY_DEBUG_LIBRARY_LOAD=1 it says why")
    with open("/proc/self/maps") as maps:
        loaded = {line.split(maxsplit=5)[-1].strip() for line in maps if "/libnccl" in line}
    if loaded != {os.path.realpath(LIBRARY)}:
        raise AssertionError("CuPy loaded another libnccl: %s" % sorted(loaded))
    if nccl.get_version() != 23007:
        raise AssertionError("ncclGetVersion says %d, not 23007" % nccl.get_version())
    return nccl


def expect(found, wanted, what):
    import numpy
    if not numpy.array_equal(found, wanted):
        raise AssertionError("%s: %s instead of %s" % (what, found, wanted))


def refused(nccl, call, status):
    """The call has to end with this status."""
    try:
        call()
    except nccl.NcclError as error:
        if error.status != status:
            raise AssertionError("status %d instead of %d: %s" % (error.status, status, error)) from error
        return
    raise AssertionError("a call succeeded that has to fail with status %d" % status)


def at(array):
    return array.ctypes.data


def collectives(nccl, comm, rank):
    import numpy

    def of(rank, count, kind="float32"):
        return ((numpy.arange(count) + rank) % 3 + 1).astype(kind)

    ranks_ = range(RANKS)
    kinds = {"int8": nccl.NCCL_INT8, "uint8": nccl.NCCL_UINT8, "int32": nccl.NCCL_INT32, "uint32": nccl.NCCL_UINT32,
             "int64": nccl.NCCL_INT64, "uint64": nccl.NCCL_UINT64, "float16": nccl.NCCL_FLOAT16,
             "float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64}
    ops = {nccl.NCCL_SUM: numpy.add, nccl.NCCL_PROD: numpy.multiply, nccl.NCCL_MAX: numpy.maximum,
           nccl.NCCL_MIN: numpy.minimum}
    for kind, code in kinds.items():
        for op, function in ops.items():
            mine, result = of(rank, 1000, kind), numpy.zeros(1000, kind)
            comm.allReduce(at(mine), at(result), 1000, code, op, 0)
            expect(result, function(of(0, 1000, kind), of(1, 1000, kind)), "allReduce of %s" % kind)

    real = nccl.NCCL_FLOAT32
    mine, everything, part = of(rank, 500), numpy.zeros(1000, "float32"), numpy.zeros(500, "float32")
    comm.allGather(at(mine), at(everything), 500, real, 0)
    expect(everything, numpy.concatenate([of(each, 500) for each in ranks_]), "allGather")
    comm.reduceScatter(at(everything), at(part), 500, real, nccl.NCCL_SUM, 0)
    expect(part, 2 * of(rank, 500), "reduceScatter")
    for root in ranks_:
        result = numpy.zeros(500, "float32")
        comm.reduce(at(mine), at(result), 500, real, nccl.NCCL_SUM, root, 0)
        expect(result, of(0, 500) + of(1, 500) if rank == root else numpy.zeros(500), "reduce")
        comm.broadcast(at(mine), at(result), 500, real, root, 0)
        expect(result, of(root, 500), "broadcast")
        result = of(rank, 500)
        comm.bcast(at(result), 500, real, root, 0)
        expect(result, of(root, 500), "bcast")

    theirs = numpy.zeros(500, "float32")
    for sender in ranks_:
        if rank == sender:
            comm.send(at(mine), 500, real, 1 - rank, 0)
        else:
            comm.recv(at(theirs), 500, real, 1 - rank, 0)
    expect(theirs, of(1 - rank, 500), "send and recv")
    theirs[:] = 0
    nccl.groupStart()
    comm.send(at(mine), 500, real, 1 - rank, 0)
    comm.recv(at(theirs), 500, real, 1 - rank, 0)
    nccl.groupEnd()
    expect(theirs, of(1 - rank, 500), "send and recv in a group")
    # 1 and 2 are CUDA's names for the default stream, too.
    for stream in (1, 2):
        comm.allReduce(at(mine), at(theirs), 500, real, nccl.NCCL_SUM, stream)
        expect(theirs, of(0, 500) + of(1, 500), "allReduce on stream %d" % stream)
    refused(nccl, lambda: comm.allReduce(at(mine), at(theirs), 500, 99, nccl.NCCL_SUM, 0), 4)
    comm.check_async_error()


def splits(nccl, comm, rank):
    import numpy
    swapped = comm.commSplit(0, -rank)  # the other way round
    expect([swapped.rank_id(), swapped.size()], [1 - rank, RANKS], "commSplit")
    mine, both = numpy.full(1, rank, "int32"), numpy.zeros(RANKS, "int32")
    swapped.allGather(at(mine), at(both), 1, nccl.NCCL_INT32, 0)
    expect(both, [1, 0], "allGather after commSplit")
    swapped.destroy()
    alone = comm.commSplit(0 if rank == 0 else -1, 0, nccl.NcclConfig(split_share=1))
    if rank != 0:
        expect(alone is None, True, "commSplit without a color")
        return
    expect([alone.rank_id(), alone.size()], [0, 1], "commSplit of one rank")
    alone.allReduce(at(mine), at(both), 1, nccl.NCCL_INT32, nccl.NCCL_SUM, 0)
    expect(both[0], 0, "allReduce of one rank")
    alone.destroy()


def of_one_process(nccl):
    """Both ranks in this process."""
    import numpy
    comms = nccl.NcclCommunicator.initAll(RANKS)
    expect([each.rank_id() for each in comms], list(range(RANKS)), "initAll")
    data = [numpy.full(10, 1 + each, "float64") for each in range(RANKS)]
    nccl.groupStart()
    for each, comm in enumerate(comms):
        comm.allReduce(at(data[each]), at(data[each]), 10, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, 0)
    nccl.groupEnd()
    for each in data:
        expect(each, numpy.full(10, 3), "allReduce of one process")
    for comm in comms:
        comm.destroy()


def aborts(nccl, comm, rank):
    """Rank 1 aborts, and the call of rank 0 ends instead of waiting for it."""
    import numpy
    data = numpy.ones(10, "float32")
    if rank == 0:
        refused(nccl, lambda: comm.allReduce(at(data), at(data), 10, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0), 6)
        refused(nccl, comm.check_async_error, 6)
    comm.abort()


def connect(nccl, rank, peers):
    comm = nccl.NcclCommunicator(RANKS, peers.share(nccl.get_unique_id() if rank == 0 else None), rank)
    expect([comm.size(), comm.rank_id(), comm.device_id()], [RANKS, rank, -1], "the communicator")
    return comm


def work(rank, peers):
    nccl = load()
    comm = connect(nccl, rank, peers)
    collectives(nccl, comm, rank)
    splits(nccl, comm, rank)
    comm.destroy()
    comm = connect(nccl, rank, peers)
    peers.meet()  # who aborts ends also what makes the communicator
    aborts(nccl, comm, rank)
    of_one_process(nccl)


why = missing()
if why:
    print("skipped: " + why)
    sys.exit()
failed = ranks.run(RANKS, work, seconds=100)
if failed:
    sys.exit("failed: " + failed)
packages = importlib.metadata.packages_distributions()
print("passed: %s, NumPy %s, Python %s" % (
    ", ".join("%s %s" % (name, importlib.metadata.version(name)) for name in sorted(set(packages["cupy"]))),
    importlib.metadata.version("numpy"), sys.version.split()[0]))
