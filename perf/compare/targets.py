"""What ECCL is meant to reach, and how far it is from that."""

from dataclasses import dataclass
from typing import Callable

from figures import CMA, PLAIN, PROBE
from words import OPERATIONS, bytes_in_words, times_as_fast

KIB, ALL_SIZES = 1024, range(0, 1 << 62)
FROM_64K = range(64 * KIB, 1 << 62)
COLLECTIVES = ("all_gather", "reduce_scatter", "broadcast", "alltoall")
PEER = "best peer"
LIMIT_OF = {"eccl": PROBE, "eccl-plain": PLAIN}  # what the machine allows a contender


@dataclass(frozen=True)
class Target:
    """`contender` is to be at least `least` times as fast as `against`. Where `least` is None, it may not be slower in
    every repetition."""
    operations: tuple
    ranks: tuple
    sizes: range
    contender: str
    against: str
    least: float = None
    words: str = ""  # of a condition
    applies: Callable = lambda results, operation, ranks, size: True

    def __str__(self):
        operations = ", ".join(OPERATIONS[operation] for operation in self.operations)
        if set(self.operations) == set(OPERATIONS):
            operations = "everything"
        aim = "not slower than %s" % self.against if self.least is None else "%g x %s" % (self.least, self.against)
        return "%s: %s, %s ranks, %s: %s%s" % (operations, self.contender, " and ".join(map(str, self.ranks)),
                                               words_of(self.sizes), aim, self.words)


def words_of(sizes):
    if sizes == ALL_SIZES:
        return "all sizes"
    if len(sizes) == 1:
        return bytes_in_words(sizes[0])
    if sizes.stop == ALL_SIZES.stop:
        return "from " + bytes_in_words(sizes[0])
    return "%s to %s" % (bytes_in_words(sizes[0]), bytes_in_words(sizes[-1]))


def probe_is_five_times_a_peer(results, operation, ranks, size):
    limit = results.speed(operation, ranks, size, PROBE, PEER)
    return limit is not None and limit.median >= 5


def through(first, last):
    return range(first, last + 1)


TARGETS = (
    Target(("all_reduce",), (2,), FROM_64K, "eccl", PROBE, 0.85),
    Target(("all_reduce",), (2,), FROM_64K, "eccl", PEER, 4, ", where the probe is 5 x", probe_is_five_times_a_peer),
    Target(("all_reduce",), (2,), FROM_64K, "eccl-plain", PEER, 2),
    Target(("all_reduce",), (2,), through(64 << 20, 64 << 20), "eccl-plain", PEER, 2.5),
    Target(("all_reduce",), (2,), FROM_64K, "eccl-plain", "gloo", 3.5),
    Target(("all_reduce",), (2,), through(8, 256), "eccl", PEER, 1),
    Target(("all_reduce",), (2,), through(1 * KIB, 4 * KIB), "eccl", PEER, 2),
    *(Target((operation,), (2,), ALL_SIZES, contender, PEER) for operation in COLLECTIVES
      for contender in ("eccl", "eccl-plain")),
    *(Target((operation,), (2,), FROM_64K, "eccl", PROBE, 0.85) for operation in COLLECTIVES),
    Target(("sendrecv_latency",), (2,), ALL_SIZES, "eccl", PEER, 1),
    Target(("sendrecv_bandwidth",), (2,), FROM_64K, "eccl", PROBE, 0.9),
    Target(("sendrecv_bandwidth",), (2,), FROM_64K, "eccl-plain", PEER, 1),
    *(Target(tuple(OPERATIONS), (ranks,), ALL_SIZES, "eccl", PEER) for ranks in (4, 8)),
    *(Target((operation,), (ranks,), FROM_64K, "eccl", PEER, 3) for operation in ("all_reduce", "reduce_scatter")
      for ranks in (4, 8)),
    *(Target(tuple(OPERATIONS), (ranks,), FROM_64K, "eccl-plain", CMA) for ranks in (2, 4, 8)),
    Target(tuple(OPERATIONS), (2,), FROM_64K, "eccl-plain", PLAIN, 0.85),
)


@dataclass(frozen=True)
class Verdict:
    target: Target
    cells: int  # that were measured
    short: list  # (operation, ranks, size, Ratio) of those that do not reach it, the worst first
    beyond: int  # of these: what the machine allows does not reach it either

    def __str__(self):
        if self.cells == 0:
            return "not measured"
        if not self.short:
            return "PASS"
        operation, ranks, size, ratio = self.short[0]
        where = bytes_in_words(size)
        if len(self.target.operations) > 1:
            where = OPERATIONS[operation] + " " + where
        least = self.target.least or 1
        words = "short in %d of %d" % (len(self.short), self.cells)
        if self.beyond:
            words += " (in %d the %s is, too)" % (self.beyond, LIMIT_OF[self.target.contender])
        words += ": %s x at %s, %.0f %% of the target" % (
            times_as_fast(ratio.median), where, 100 * ratio.median / least)
        if all(ratio.high >= least for *_, ratio in self.short):
            words += "; within the spread"
        return words


def evaluate(target, results):
    cells, short, beyond = 0, [], 0
    limit = LIMIT_OF[target.contender] if target.against == PEER else None
    for operation, ranks in results.groups():
        if operation not in target.operations or ranks not in target.ranks:
            continue
        for size in results.sizes(operation, ranks):
            ratio = results.speed(operation, ranks, size, target.contender, target.against)
            if size not in target.sizes or ratio is None or not target.applies(results, operation, ranks, size):
                continue
            cells += 1
            reached = ratio.high >= 1 if target.least is None else ratio.median >= target.least
            if reached:
                continue
            short.append((operation, ranks, size, ratio))
            allowed = limit and results.speed(operation, ranks, size, limit, target.against)
            beyond += allowed is not None and allowed.median < (target.least or 1)
    return Verdict(target, cells, sorted(short, key=lambda cell: cell[3].median), beyond)
