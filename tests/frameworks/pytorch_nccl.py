"""PyTorch as it comes from PyPI over ECCL's libnccl.so.2: its process groups over NCCL, in two processes, on CUDA
tensors. All collectives, split groups, coalesced calls, Send and Recv, CUDA graphs, and 200 steps of
DistributedDataParallel, whose parameters have the bits of Gloo's. scripts/frameworks pytorch fetches PyTorch into
build/frameworks and runs this; one that is installed otherwise does, too.

There need not be a GPU: the driver and the runtime are those of tests/cuda_emulation, in the build that the library is
of. They run no kernels of PyTorch's, so the tensors are made on the CPU and copied. ECCL_TESTS_CUDA=real takes the
machine's, and trains on them, too: DistributedDataParallel and fully_shard give the parameters of one process.

Arguments: libnccl.so.2, the source folder.
"""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile

LIBRARY, SOURCE = sys.argv[1:3]
REAL = os.environ.get("ECCL_TESTS_CUDA") == "real"
FETCHED = os.path.join(SOURCE, "build", "frameworks", "pytorch")
EMULATION = [os.path.join(os.path.dirname(LIBRARY), "..", "tests", "cuda_emulation", name)
             for name in ("libcuda.so.1", "libcudart.so.13")]
# Under the names that PyTorch asks for, these are loaded before it asks.
PRELOAD = ":".join(os.path.realpath(name) for name in ([] if REAL else EMULATION) + [LIBRARY])
RANKS = 2


def missing():
    """Why this Python cannot run it; empty if it can. Nothing is imported yet: each rank does that."""
    for module in ("numpy", "torch"):
        if importlib.util.find_spec(module) is None:
            return "%s is not installed; scripts/frameworks pytorch fetches PyTorch" % module
    if "cu13" not in " ".join(importlib.metadata.requires("torch") or []):
        return "the PyTorch that is installed is not one for CUDA 13; scripts/frameworks pytorch fetches one"
    for name in [] if REAL else EMULATION:
        if not os.path.exists(name):
            return "there is no %s: it is built with the tests, where the header of CUDA 13 is" % name
    return ""


if PRELOAD != os.environ.get("LD_PRELOAD") and (os.path.exists(os.path.join(FETCHED, "package")) or not missing()):
    fetched = os.path.join(FETCHED, "bin", "python3")
    python = fetched if os.path.exists(fetched) else sys.executable
    os.execve(python, [python, *sys.argv], dict(os.environ, LD_PRELOAD=PRELOAD, ECCL_DEVICE="cuda", OMP_NUM_THREADS="1",
                                               EMULATED_CUDA_KERNELS="skip"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import ranks  # noqa: E402


def file_at(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if begin <= address < end:
                return line.split(maxsplit=5)[-1].strip()
    return ""


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def same(found, wanted, what):
    import torch
    found = found.cpu()
    expect(torch.equal(found, wanted), "%s: %s instead of %s" % (what, found, wanted))


class Calls:
    """What one rank calls on its device. Value k of rank r is k + r."""

    def __init__(self, rank):
        import torch
        self.rank = rank
        self.peer = 1 - rank
        self.base = torch.arange(1000.)
        self.sum = sum(self.base + each for each in range(RANKS))

    def mine(self, dtype=None):
        values = self.base + self.rank
        return (values if dtype is None else values.to(dtype)).cuda()

    @staticmethod
    def room(count):
        import torch
        return torch.empty(count, device="cuda")

    def collectives(self):
        import torch
        import torch.distributed as dist
        from torch.distributed import ReduceOp
        for op, wanted in ((ReduceOp.SUM, self.sum), (ReduceOp.AVG, self.sum / RANKS), (ReduceOp.MIN, self.base),
                           (ReduceOp.MAX, self.base + RANKS - 1), (ReduceOp.PRODUCT, self.base * (self.base + 1))):
            for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
                if op == ReduceOp.AVG and not dtype.is_floating_point:
                    continue
                data = self.mine(dtype)
                dist.all_reduce(data, op=op)
                same(data, wanted.to(dtype), "all_reduce %s of %s" % (op, dtype))
        for dtype in (torch.bfloat16, torch.float16):
            data = torch.full((100,), 1.5 + self.rank).to(dtype).cuda()
            dist.all_reduce(data)
            same(data, torch.full((100,), 4.).to(dtype), "all_reduce of %s" % dtype)
        data = self.mine()
        dist.all_reduce(data, op=dist._make_nccl_premul_sum(0.25))
        same(data, self.sum * 0.25, "all_reduce with a factor")
        data = self.mine()
        dist.broadcast(data, 1)
        same(data, self.base + 1, "broadcast")
        data = self.mine()
        dist.reduce(data, 0)
        if self.rank == 0:
            same(data, self.sum, "reduce")
        both = torch.cat([self.base + each for each in range(RANKS)])
        data = self.room(RANKS * 1000)
        dist.all_gather_into_tensor(data, self.mine())
        same(data, both, "all_gather_into_tensor")
        parts = [self.room(1000) for _ in range(RANKS)]
        dist.all_gather(parts, self.mine())
        same(torch.cat([each.cpu() for each in parts]), both, "all_gather")
        half = self.room(500)
        dist.reduce_scatter_tensor(half, self.mine())
        same(half, self.sum[self.rank * 500:][:500], "reduce_scatter_tensor")
        data = self.room(1000)
        dist.all_to_all_single(data, self.mine())
        mine = slice(self.rank * 500, self.rank * 500 + 500)
        same(data, torch.cat([(self.base + each)[mine] for each in range(RANKS)]), "all_to_all_single")
        sizes = [[300, 700], [400, 600]]
        data = self.room(sizes[0][self.rank] + sizes[1][self.rank])
        dist.all_to_all_single(data, self.mine(), [each[self.rank] for each in sizes], sizes[self.rank])
        begins = [sum(each[:self.rank]) for each in sizes]
        same(data, torch.cat([(self.base + each)[begins[each]:][:sizes[each][self.rank]] for each in range(RANKS)]),
             "all_to_all_single of different lengths")
        parts = [self.room(500) for _ in range(RANKS)] if self.rank == 0 else None
        dist.gather(self.mine()[:500], parts, 0)
        if self.rank == 0:
            same(torch.cat([each.cpu() for each in parts]),
                 torch.cat([(self.base + each)[:500] for each in range(RANKS)]), "gather")
        part = self.room(500)
        dist.scatter(part, list(self.mine().chunk(2)) if self.rank == 0 else None, 0)
        same(part, self.base[self.rank * 500:][:500], "scatter")
        dist.barrier(device_ids=[torch.cuda.current_device()])

    def pairs(self):
        import torch.distributed as dist
        data = self.room(1000)
        if self.rank == 0:
            dist.send(self.mine(), 1)
        else:
            dist.recv(data, 0)
            same(data, self.base, "send and recv")
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.mine(), self.peer),
                                            dist.P2POp(dist.irecv, data, self.peer)]):
            work.wait()
        same(data, self.base + self.peer, "batch_isend_irecv")

    def groups(self):
        import torch
        import torch.distributed as dist
        for group, what in ((dist.new_group([0, 1]), "new_group"),
                            (dist.split_group(split_ranks=[[0, 1]]), "split_group")):
            data = self.mine()
            dist.all_reduce(data, group=group)
            same(data, self.sum, what)
        first, second = self.mine(), self.mine()
        with dist._coalescing_manager(device=torch.device("cuda", torch.cuda.current_device())):
            dist.all_reduce(first)
            dist.all_reduce(second)
        same(first, self.sum, "the first of two coalesced")
        same(second, self.sum, "the second of two coalesced")
        data = self.mine()
        dist.all_reduce(data, async_op=True).wait()
        same(data, self.sum, "an asynchronous all_reduce")

    def graphs(self):
        """A capture of collectives, which is run several times, and beside calls."""
        import torch
        import torch.distributed as dist
        data, all_of = self.mine(), self.room(RANKS * 1000)
        dist.all_reduce(data)  # the communicator is there
        data.copy_(self.mine())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(data)
            dist.all_gather_into_tensor(all_of, data)
        for run in range(20):
            data.copy_((self.base + run + self.rank).cuda())
            graph.replay()
            wanted = self.base * RANKS + RANKS * run + 1
            same(data, wanted, "all_reduce of run %d of a graph" % run)
            same(all_of, torch.cat([wanted] * RANKS), "all_gather of run %d of a graph" % run)
            other = self.mine()
            dist.all_reduce(other)
            same(other, self.sum, "all_reduce beside a graph")


def train(way):
    """200 steps of a small model. Its gradients are averaged by Gloo on the CPU, or on the device. The parameters."""
    import torch
    import torch.distributed as dist
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 128), torch.nn.GELU(),
                                torch.nn.Linear(128, 64))
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02, process_group=dist.new_group(
        backend="gloo"))

    def average(state, bucket):
        gradients = (bucket.buffer() / RANKS).cuda()
        dist.all_reduce(gradients)
        future = torch.futures.Future()
        future.set_result(gradients.cpu())
        return future
    if way == "nccl":
        parallel.register_comm_hook(None, average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(7 + rank)
    losses = []
    for _ in range(200):
        given = torch.randint(0, 64, (64,), generator=generator)
        loss = torch.nn.functional.cross_entropy(parallel(given), (given * 7 + 3) % 64)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect(losses[-1] < losses[0] / 10, "nothing was learned: %s" % losses[::50])
    return hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()


def train_on_gpu():
    """A transformer on the GPU, on half of each batch, as DistributedDataParallel and fully_shard train it. The
    parameters become those of a process that trains on whole batches, but for rounding."""
    import copy
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    rank, device = dist.get_rank(), torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(1)
    layers = [torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0, batch_first=True) for _ in range(2)]
    model = torch.nn.Sequential(torch.nn.Embedding(64, 64), *layers, torch.nn.Linear(64, 64)).to(device)
    given = torch.randint(0, 64, (20, RANKS * 8, 32), generator=torch.Generator().manual_seed(7)).to(device)

    def steps(trained, mine):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        for batch in given[:, mine]:
            loss = torch.nn.functional.cross_entropy(trained(batch).flatten(0, 1), (batch.flatten() * 7 + 3) % 64)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [each.detach() for each in trained.parameters()]

    mine = slice(rank * 8, rank * 8 + 8)
    alone = steps(copy.deepcopy(model), slice(None))
    parallel = steps(torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=0.1), mine)
    sums = [None] * RANKS
    dist.all_gather_object(sums, hashlib.sha256(b"".join(each.cpu().numpy().tobytes() for each in parallel)).digest())
    expect(len(set(sums)) == 1, "DistributedDataParallel: the ranks' parameters differ")
    for layer in (*model[1:3], model):
        fully_shard(layer)
    sharded = [each.full_tensor() for each in steps(model, mine)]
    for found, what in ((parallel, "DistributedDataParallel"), (sharded, "fully_shard")):
        for one, other in zip(found, alone, strict=True):
            expect(torch.allclose(one, other, rtol=1e-3, atol=1e-4), "%s: parameters differ from those of one process "
                   "by up to %s" % (what, (one - other).abs().max().item()))


def backends():
    """PyTorch's ways to call NCCL: one, and from 2.15 on three."""
    version = [int(each) for each in importlib.metadata.version("torch").split(".")[:2]]
    return ["nccl"] + (["nccl-lazy", "nccl-legacy"] if version >= [2, 15] else [])


def work(rank, peers):
    import torch
    import torch.distributed as dist
    # Its wheel brings another libnccl, and loads it by its path: what counts is which of them its calls find.
    at = ctypes.cast(ctypes.CDLL(None).ncclAllReduce, ctypes.c_void_p).value
    expect(file_at(at) == os.path.realpath(LIBRARY), "PyTorch calls another libnccl: %s" % file_at(at))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    for backend in backends():
        folder = peers.share(tempfile.mkdtemp().encode() if rank == 0 else None).decode()
        dist.init_process_group(backend, init_method="file://%s/store" % folder, rank=rank, world_size=RANKS,
                                device_id=torch.device("cuda", torch.cuda.current_device()))
        calls = Calls(rank)
        for part in (calls.collectives, calls.pairs, calls.groups, calls.graphs):
            part()
        if backend == "nccl":
            expect(train("gloo") == train("nccl"), "the parameters are not those that Gloo gives")
            if REAL:
                train_on_gpu()
        dist.destroy_process_group()


why = missing()
if why:
    print("skipped: " + why)
    sys.exit()
for lanes, what in (("1", "by lanes"), ("0", "staged")):
    os.environ["ECCL_CUDA_LANES"] = lanes
    failed = ranks.run(RANKS, work, seconds=140)
    if failed:
        sys.exit("failed %s: %s" % (what, failed))
print("passed, by lanes and staged: torch %s, NumPy %s, Python %s" % (importlib.metadata.version("torch"),
                                                 importlib.metadata.version("numpy"), sys.version.split()[0]))
