"""Gloo in the loop, by PyTorch: gloo_loop.py <folder of libcompare_loop_python.so>."""

import ctypes
import os
import sys
import traceback

import torch
import torch.distributed as dist

from session import UNSUPPORTED
from words import OPERATIONS

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALLTOALL, LATENCY, BANDWIDTH = range(len(OPERATIONS))
BUFFER = ctypes.c_void_p


class Loop(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("ranks", ctypes.c_int), ("crowded", ctypes.c_int),
                ("cpu", ctypes.c_int), ("calls", ctypes.c_int), ("shared", BUFFER)]


class Task(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_int), ("rank", ctypes.c_int), ("ranks", ctypes.c_int),
                ("window", ctypes.c_int), ("variant", ctypes.c_int), ("count", ctypes.c_size_t),
                ("input_count", ctypes.c_size_t), ("output_count", ctypes.c_size_t),
                ("input", BUFFER), ("output", BUFFER)]


CALL = ctypes.CFUNCTYPE(None, ctypes.POINTER(Task))


class Contender(ctypes.Structure):
    _fields_ = [("allocate", BUFFER), ("release", BUFFER), ("call", CALL), ("variant", BUFFER),
                ("in_place", ctypes.c_int)]


def tensor(address, count):
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def operation_of(task):
    """What one iteration does: tensors are made once for each size."""
    given, taken = tensor(task.input, task.input_count), tensor(task.output, task.output_count)
    even, peer = task.rank % 2 == 0, task.rank ^ 1
    if task.operation == ALL_REDUCE:
        return lambda: dist.all_reduce(given)
    if task.operation == ALL_GATHER:
        blocks = list(taken.chunk(task.ranks))
        return lambda: dist.all_gather(blocks, given)
    if task.operation == REDUCE_SCATTER:
        blocks = list(given.chunk(task.ranks))
        return lambda: dist.reduce_scatter(taken, blocks)
    if task.operation == BROADCAST:
        buffer = given if task.rank == 0 else taken
        return lambda: dist.broadcast(buffer, 0)
    if task.operation == ALLTOALL:
        return lambda: dist.all_to_all_single(taken, given)
    if task.operation == LATENCY:
        steps = [lambda: dist.send(given, peer), lambda: dist.recv(taken, peer)]
        first, second = steps if even else reversed(steps)
        return lambda: (first(), second())
    begin, buffer = (dist.isend, given) if even else (dist.irecv, taken)
    return lambda: [work.wait() for work in [begin(buffer, peer) for _ in range(task.window)]]


current = (None, None)  # the buffers of a size, and its operation


def call(pointer):
    """Nothing may be raised through the loop."""
    global current
    try:
        task = pointer.contents
        key = task.input, task.output, task.count
        if current[0] != key:
            current = key, operation_of(task)
        current[1]()
    except BaseException as error:
        missing = "does not support" in str(error)
        if missing:
            os.write(sys.stderr.fileno(), b"unsupported: %s\n" % str(error).encode())  # in one piece: all ranks say so
        else:
            traceback.print_exc()
        os._exit(UNSUPPORTED if missing else 1)


def main():
    library = ctypes.CDLL(os.path.join(sys.argv[1], "libcompare_loop_python.so"))
    library.loopOpen.restype = Loop
    loop = library.loopOpen()
    torch.set_num_threads(1)  # as the others
    meeting = os.path.join(os.environ["LOOP_DIRECTORY"], "gloo")
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=loop.rank, world_size=loop.ranks)
    address = lambda function: ctypes.cast(function, BUFFER)  # noqa: E731
    contender = Contender(address(library.loopAllocate), address(library.loopRelease), CALL(call), None, 1)
    library.loopRun(ctypes.byref(loop), ctypes.byref(contender))
    dist.destroy_process_group()


main()
