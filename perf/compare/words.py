"""How sizes, times and operations are written, and read."""

OPERATIONS = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "alltoall": "AlltoAll",
    "sendrecv_latency": "Send/Recv latency",
    "sendrecv_bandwidth": "Send/Recv bandwidth",
}
UNITS = ("B", "KiB", "MiB", "GiB")


def bytes_in_words(size):
    unit = 0
    while size >= 1024 and size % 1024 == 0 and unit + 1 < len(UNITS):
        size //= 1024
        unit += 1
    return "%d %s" % (size, UNITS[unit])


def bytes_of(text):
    """Of 8, 64K, 1M, 64MiB..."""
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    shift = 10 * ("KMG".index(number[-1]) + 1) if number[-1:] in tuple("KMG") else 0
    return int(number[:-1] if shift else number) << shift


def microseconds(us):
    """Three digits that mean something."""
    return "{:,.{}f}".format(us, 2 if us < 10 else 1 if us < 100 else 0)


def times_as_fast(ratio):
    return "%.2f" % ratio if ratio >= 0.1 else "%.2g" % ratio


def titled(contender):
    """As the README calls it."""
    return {"eccl": "ECCL, ecclMemAlloc", "eccl-plain": "ECCL, any memory", "openmpi": "Open MPI", "mpich": "MPICH",
            "gloo": "gloo", "openmpi5": "Open MPI 5", "mpich5": "MPICH 5", "intelmpi": "Intel MPI",
            "oneccl": "oneCCL", "gloo2": "gloo of PyTorch 2"}[contender]
