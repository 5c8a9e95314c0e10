# NumPy arrays summed over all ranks, by ctypes. Run by: examples/launch 2 python3 examples/numpy_ctypes.py libeccl.so
import ctypes
import os
import sys

import numpy

eccl = ctypes.CDLL(sys.argv[1])
Id = type("Id", (ctypes.Structure,), {"_fields_": [("internal", ctypes.c_char * 128)]})
rank, ranks, id, comm = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Id(), ctypes.c_void_p()
mine, total = numpy.arange(4, dtype=numpy.float32) + rank, numpy.empty(4, dtype=numpy.float32)
assert eccl.ecclGetUniqueId(ctypes.byref(id)) == 0
assert eccl.ecclCommInitRank(ctypes.byref(comm), ranks, id, rank) == 0
assert eccl.ecclAllReduce(ctypes.c_void_p(mine.ctypes.data), ctypes.c_void_p(total.ctypes.data), ctypes.c_size_t(4),
                          7, 0, comm, None) == 0  # ecclFloat, ecclSum
print("rank %d of %d: the sum is %s" % (rank, ranks, total))
assert eccl.ecclCommDestroy(comm) == 0
assert (total == ranks * numpy.arange(4) + ranks * (ranks - 1) / 2).all()
