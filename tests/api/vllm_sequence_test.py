"""What vLLM's communicator asks of NCCL through ctypes, in its order, between two processes and on NumPy arrays: every
function of tests/api/nccl/vllm-0.33.txt, on the default stream and on a stream of the host.

Arguments: libnccl.so.2, the source folder.
"""

import ctypes
import os
import sys

LIBRARY, SOURCE = sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import ranks  # noqa: E402

try:
    import numpy
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit()

RANKS = 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Properties(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("rank", ctypes.c_int),
                ("ranks", ctypes.c_int), ("cuda", ctypes.c_int), ("nvml", ctypes.c_int), ("device_api", ctypes.c_bool),
                ("multimem", ctypes.c_bool), ("gin", ctypes.c_int), ("lsa_teams", ctypes.c_int),
                ("host_rma", ctypes.c_bool), ("railed_gin", ctypes.c_int)]


POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
TO_POINTER = ctypes.POINTER(POINTER)
SIGNATURES = {
    "ncclGetVersion": [ctypes.POINTER(INT)],
    "ncclGetErrorString": [INT],
    "ncclGetLastError": [POINTER],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [TO_POINTER, INT, UniqueId, INT],
    "ncclCommQueryProperties": [POINTER, ctypes.POINTER(Properties)],
    "ncclCommSuspend": [POINTER, INT],
    "ncclCommResume": [POINTER],
    "ncclCommDestroy": [POINTER],
    "ncclCommAbort": [POINTER],
    "ncclCommWindowRegister": [POINTER, POINTER, SIZE, TO_POINTER, INT],
    "ncclCommWindowDeregister": [POINTER, POINTER],
    "ncclAllReduce": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclReduce": [POINTER, POINTER, SIZE, INT, INT, INT, POINTER, POINTER],
    "ncclBroadcast": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclAllGather": [POINTER, POINTER, SIZE, INT, POINTER, POINTER],
    "ncclReduceScatter": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclSend": [POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclRecv": [POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "int64": 4, "float16": 6, "float32": 7, "float64": 8}
BFLOAT16 = 9
SUM, PROD, MAX, MIN, AVG = range(5)
FLOAT = TYPES["float32"]


class Library:
    """The functions, as methods without `nccl`; a result that is not success is an error with its sentence."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.used = set()
        for name, arguments in SIGNATURES.items():
            function = getattr(self.library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_char_p if name in ("ncclGetErrorString", "ncclGetLastError") else INT

    def raw(self, name, *arguments):
        self.used.add("nccl" + name)
        return getattr(self.library, "nccl" + name)(*arguments)

    def __getattr__(self, name):
        def call(*arguments):
            result = self.raw(name, *arguments)
            if result != 0:
                raise RuntimeError("nccl%s: %s (%s)" % (name, self.raw("GetErrorString", result).decode(),
                                                        self.raw("GetLastError", None).decode()))

        return call


def at(array):
    return array.ctypes.data


def values(rank, count, kind="float32"):
    """Small whole numbers, so that every type holds their sums and products."""
    return ((numpy.arange(count) + rank) % 3 + 1).astype(kind)


def expect(found, wanted, what):
    if not numpy.array_equal(found, wanted):
        raise AssertionError("%s: %s instead of %s" % (what, found, wanted))


class Sequence:
    def __init__(self, nccl, comm, rank, stream):
        self.nccl, self.comm, self.rank, self.peer = nccl, comm, rank, 1 - rank
        self.stream = stream

    def wait(self):
        if self.stream.value is not None and self.nccl.library.ecclStreamSynchronize(self.stream) != 0:
            raise RuntimeError("ecclStreamSynchronize: " + self.nccl.raw("GetLastError", None).decode())

    def warm_up(self):
        data = numpy.zeros(1, numpy.float32)
        self.nccl.AllReduce(at(data), at(data), 1, FLOAT, SUM, self.comm, self.stream)
        self.wait()
        expect(data, [0], "the warm-up")

    def all_reduce(self):
        for kind, code in TYPES.items():
            for op, wanted in ((SUM, numpy.add), (PROD, numpy.multiply), (MAX, numpy.maximum), (MIN, numpy.minimum)):
                mine, result = values(self.rank, 1000, kind), numpy.zeros(1000, kind)
                self.nccl.AllReduce(at(mine), at(result), mine.size, code, op, self.comm, self.stream)
                self.wait()
                expect(result, wanted(values(0, 1000, kind), values(1, 1000, kind)), "AllReduce %s %d" % (kind, op))
        # NumPy has no bfloat16: the upper half of a float is one.
        bits = [values(rank, 500).view(numpy.uint32) >> 16 for rank in range(RANKS)]
        result = bits[self.rank].astype(numpy.uint16)
        self.nccl.AllReduce(at(result), at(result), result.size, BFLOAT16, SUM, self.comm, self.stream)
        large, summed = values(self.rank, 1 << 18), numpy.zeros(1 << 18, numpy.float32)
        self.nccl.AllReduce(at(large), at(summed), large.size, FLOAT, AVG, self.comm, self.stream)
        self.wait()
        expect((result.astype(numpy.uint32) << 16).view(numpy.float32), values(0, 500) + values(1, 500), "bfloat16")
        expect(summed, (values(0, large.size) + values(1, large.size)) / 2, "the average")

    def reduce(self):
        for root in range(RANKS):
            mine, result = values(self.rank, 300), numpy.zeros(300, numpy.float32)
            self.nccl.Reduce(at(mine), at(result), mine.size, FLOAT, SUM, root, self.comm, self.stream)
            self.wait()
            expect(result, values(0, 300) + values(1, 300) if self.rank == root else numpy.zeros(300), "Reduce")

    def gather_and_scatter(self):
        mine, all_of_them = values(self.rank, 777), numpy.zeros(777 * RANKS, numpy.float32)
        self.nccl.AllGather(at(mine), at(all_of_them), mine.size, FLOAT, self.comm, self.stream)
        self.wait()
        expect(all_of_them, numpy.concatenate([values(rank, 777) for rank in range(RANKS)]), "AllGather")
        part = numpy.zeros(777, numpy.float32)
        self.nccl.ReduceScatter(at(all_of_them), at(part), part.size, FLOAT, SUM, self.comm, self.stream)
        self.wait()
        expect(part, 2 * values(self.rank, 777), "ReduceScatter")

    def unequal_parts(self):
        """A gather and a scatter of other lengths for each rank, as a group of calls with each rank as the root."""
        lengths = [100, 23]
        begins = [0, 100]
        mine, gathered = values(self.rank, lengths[self.rank]), numpy.zeros(123, numpy.float32)
        self.nccl.GroupStart()
        for root in range(RANKS):
            to = at(gathered) + 4 * begins[root]
            self.nccl.Broadcast(at(mine), to, lengths[root], FLOAT, root, self.comm, self.stream)
        self.nccl.GroupEnd()
        self.wait()
        expect(gathered, numpy.concatenate([values(rank, lengths[rank]) for rank in range(RANKS)]), "Broadcasts")
        part = numpy.zeros(lengths[self.rank], numpy.float32)
        self.nccl.GroupStart()
        for root in range(RANKS):
            source = at(gathered) + 4 * begins[root]
            self.nccl.Reduce(source, at(part), lengths[root], FLOAT, SUM, root, self.comm, self.stream)
        self.nccl.GroupEnd()
        self.wait()
        expect(part, 2 * values(self.rank, lengths[self.rank]), "Reduces")

    def point_to_point(self):
        mine, theirs = values(self.rank, 5000), numpy.zeros(5000, numpy.float32)
        for sender in range(RANKS):
            if self.rank == sender:
                self.nccl.Send(at(mine), mine.size, FLOAT, self.peer, self.comm, self.stream)
            else:
                self.nccl.Recv(at(theirs), theirs.size, FLOAT, self.peer, self.comm, self.stream)
        self.wait()
        expect(theirs, values(self.peer, 5000), "Send and Recv")
        theirs[:] = 0
        self.nccl.GroupStart()
        self.nccl.Recv(at(theirs), theirs.size, FLOAT, self.peer, self.comm, self.stream)
        self.nccl.Send(at(mine), mine.size, FLOAT, self.peer, self.comm, self.stream)
        self.nccl.GroupEnd()
        self.wait()
        expect(theirs, values(self.peer, 5000), "Send and Recv in a group")

    def broadcast(self):
        for root in range(RANKS):
            data = values(self.rank, 64)
            source = at(data) if self.rank == root else None  # only the root's is read
            self.nccl.Broadcast(source, at(data), data.size, FLOAT, root, self.comm, self.stream)
            self.wait()
            expect(data, values(root, 64), "Broadcast")

    def window(self):
        data, window = values(self.rank, 4096), POINTER(1)
        self.nccl.CommWindowRegister(self.comm, at(data), data.nbytes, ctypes.byref(window), 1)
        if window.value is not None:
            raise AssertionError("a window, though there are none")
        self.nccl.AllReduce(at(data), at(data), data.size, FLOAT, SUM, self.comm, self.stream)
        self.wait()
        self.nccl.CommWindowDeregister(self.comm, window)
        expect(data, values(0, 4096) + values(1, 4096), "AllReduce in memory of a window")

    def sleep(self):
        """Suspended it refuses calls, and resumed it works."""
        data = numpy.ones(1, numpy.float32)
        self.nccl.CommSuspend(self.comm, 1)
        if self.nccl.raw("AllReduce", at(data), at(data), 1, FLOAT, SUM, self.comm, self.stream) == 0:
            raise AssertionError("a suspended communicator took a call")
        self.nccl.CommResume(self.comm)
        self.nccl.AllReduce(at(data), at(data), 1, FLOAT, SUM, self.comm, self.stream)
        self.wait()
        expect(data, [RANKS], "AllReduce after a pause")

    def all(self):
        for step in (self.warm_up, self.all_reduce, self.reduce, self.gather_and_scatter, self.unequal_parts,
                     self.point_to_point, self.broadcast, self.window, self.sleep):
            step()


def connect(nccl, rank, peers):
    unique, comm = UniqueId(), POINTER()
    if rank == 0:
        nccl.GetUniqueId(ctypes.byref(unique))
    unique = UniqueId.from_buffer_copy(peers.share(bytes(unique)))
    nccl.CommInitRank(ctypes.byref(comm), RANKS, unique, rank)
    return comm


def work(rank, peers):
    nccl, version = Library(LIBRARY), INT()
    nccl.used.add("ncclGetUniqueId")  # rank 0 alone needs it
    nccl.GetVersion(ctypes.byref(version))
    if version.value < 22907:
        raise AssertionError("version %d: vLLM demands 2.29.7" % version.value)

    comm = connect(nccl, rank, peers)
    properties = Properties(ctypes.sizeof(Properties), 0xcafebeef, version.value)
    nccl.CommQueryProperties(comm, ctypes.byref(properties))
    expect([properties.rank, properties.ranks, properties.device_api], [rank, RANKS, False], "the properties")

    stream = POINTER()
    if nccl.library.ecclStreamCreate(ctypes.byref(stream)) != 0:
        raise RuntimeError("ecclStreamCreate")
    for each in (POINTER(), stream):
        Sequence(nccl, comm, rank, each).all()
    if nccl.library.ecclStreamDestroy(stream) != 0:
        raise RuntimeError("ecclStreamDestroy")

    # An error is a code with words, and a sentence that says what was wrong.
    data = numpy.ones(1, numpy.float32)
    result = nccl.raw("AllReduce", at(data), at(data), 1, 99, SUM, comm, None)
    if result != 4 or not nccl.raw("GetErrorString", result) or b"99" not in nccl.raw("GetLastError", comm):
        raise AssertionError("of type 99: %d, %s" % (result, nccl.raw("GetLastError", comm)))
    nccl.CommDestroy(comm)

    other = connect(nccl, rank, peers)
    Sequence(nccl, other, rank, POINTER()).warm_up()
    peers.meet()  # who aborts ends the calls of the others
    nccl.CommAbort(other)

    with open(os.path.join(SOURCE, "tests", "api", "nccl", "vllm-0.33.txt")) as file:
        wanted = set(file.read().split())
    if nccl.used != wanted:
        raise AssertionError("not the functions of vLLM: %s" % sorted(nccl.used ^ wanted))


failed = ranks.run(RANKS, work, seconds=60)
if failed:
    sys.exit("failed: " + failed)
print("passed")
