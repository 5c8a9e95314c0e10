"""What perf/compare/network measures: the rows, each with its fabric, and what that fabric allows."""

from dataclasses import dataclass
from typing import Callable

MIB = 1 << 20
# A frame of 1514 bytes carries 1448 of TCP's data, and a shaped link counts the frame.
PAYLOAD = 1448 / 1514
FOUR = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


def network_bytes(operation, size, hosts, per_host):
    """That every host has to send (and to receive), whatever the algorithm. Inside a host data cost nothing.

    AllReduce 2 (h-1)/h S, ReduceScatter and AllGather (h-1)/h S: of sums one copy for the whole host; AlltoAll: each of
    its ranks has (h-1)/h S for other hosts."""
    once = (hosts - 1) / hosts * size
    return {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": per_host}[operation] * once


def link_bound(*rates):
    """All rails at once, each as fast as it is. In seconds."""
    return lambda operation, size, hosts, per_host: (
        8e-6 * network_bytes(operation, size, hosts, per_host) / (PAYLOAD * sum(rates)))


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    fabric: tuple  # arguments of `lab up`
    hosts: int
    per_host: int = 1
    operations: tuple = ("all_reduce",)
    sizes: tuple = (16 * MIB,)
    bound: Callable = None  # (operation, size, hosts, ranks on each) -> seconds
    iterations: int = 5  # of one repetition; None: as many as fit `seconds`
    seconds: float = 0.3
    calls: int = 1  # in each iteration, one after the other
    own_nic: bool = False  # rank g of a host uses NIC g
    raw: bool = False  # two processes without a library are measured beside
    paths: bool = False  # there are several; ECCL is measured beside with flows where the switches' hash puts them
    interleaved: bool = False  # ranks take hosts of two leaves in turns, so that every hop of a ring crosses the spines
    iperf: bool = False  # and what iperf3 moves, both ways at once

    def ranks(self):
        return self.hosts * self.per_host


def rail_local_alltoall(operation, size, hosts, per_host):
    """Each NIC sends (h-1)/h S whether by rails or directly; 100 Mbit/s."""
    return link_bound(*[100] * per_host)(operation, size, hosts, per_host)


SMALL = (8, 1024, 16 * 1024, 64 * 1024)
LARGE = (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB)

ROWS = (
    Row("rails", "8 hosts, two rails of 200 Mbit/s", ("two-rails",), 8, operations=FOUR, bound=link_bound(200, 200)),
    Row("rails-4x2", "4 hosts with 2 ranks each, two rails of 200 Mbit/s", ("two-rails-4x2",), 4, 2, operations=FOUR,
        bound=link_bound(200, 200)),
    Row("unequal", "4 hosts, rails of 100 and 200 Mbit/s", ("unequal-rails",), 4, operations=("all_reduce", "alltoall"),
        bound=link_bound(100, 200)),
    # ECCL does not bind what it connects, so the kernel sends it by the NIC of the destination's rail.
    Row("rail-spine", "4 hosts with 4 ranks, each with a NIC of 100 Mbit/s, ToRs oversubscribed 2.27 : 1. The bound is that of rail-local "
        "traffic; going directly over the spine takes 1.70 times as long", ("rail-spine",), 4, 4, operations=("alltoall",),
        bound=rail_local_alltoall, own_nic=True),
    Row("ecmp", "8 hosts on two leaves, four spines, flows spread by hash, 100 Mbit/s", ("leaf-spine",), 8,
        operations=("all_reduce", "alltoall"), bound=link_bound(100), paths=True),
    Row("ecmp-ring", "the same, ranks on hosts of the two leaves in turns: every hop of a ring crosses the spines", ("leaf-spine",), 8,
        sizes=(4 * MIB,), bound=link_bound(100), paths=True, interleaved=True),
    Row("small-2", "2 hosts, unshaped", ("--hosts", "2"), 2, sizes=SMALL, iterations=None, calls=50, raw=True),
    Row("small-8", "8 hosts, unshaped", ("--hosts", "8"), 8, sizes=SMALL, iterations=None, calls=50),
    Row("small-loopback", "2 ranks on one host, TCP over the loopback", ("--hosts", "1"), 1, 2, sizes=SMALL, iterations=None, calls=50, raw=True),
    Row("large-2", "2 hosts, unshaped", ("--hosts", "2"), 2, sizes=LARGE, iterations=None, seconds=1, raw=True, iperf=True),
    Row("large-loopback", "2 ranks on one host, TCP over the loopback", ("--hosts", "1"), 1, 2, sizes=LARGE, iterations=None, seconds=1,
        raw=True, iperf=True),
)
QUICK = Row("quick", "2 hosts, 400 Mbit/s", ("--hosts", "2", "--rate", "400"), 2, sizes=(MIB,), bound=link_bound(400), iterations=3)
