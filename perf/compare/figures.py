"""The figures of a run: times by repetition, their medians and spreads, and ratios of them."""

import json
import statistics
from typing import NamedTuple

from document import save

OWN = ("eccl", "eccl-plain")
PROBE = "probe"
CMA, RING = "cma", "ring"
LIMITS = (CMA, RING, PROBE)  # no libraries: what could be reached
PLAIN = "plain limit"  # what ordinary memory allows: the faster of cma and ring
STEP = 1.5  # distances between cores that differ by this factor are of different states of the machine


class Ratio(NamedTuple):
    """Formed within each repetition, whose runs follow each other: what slows the machine for a while cancels out."""
    median: float
    low: float
    high: float

    def hidden(self):
        """Whether the spread hides which of the two is faster."""
        return self.low <= 1 <= self.high


def ratio(numerators, denominators):
    """None where no repetition has both."""
    each = [n / d for n, d in zip(numerators, denominators) if n is not None and d is not None]
    return Ratio(statistics.median(each), min(each), max(each)) if each else None


def steady(apart):
    """Whether the cores were as far apart after a run as before."""
    return apart is not None and max(apart) < STEP * min(apart)


def median(times):
    return statistics.median([time for time in times if time is not None])


def spread(times):
    present = [time for time in times if time is not None]
    return min(present), max(present)


class Results:
    """A document of JSON: `cells` holds the times, in microseconds, of one contender, operation and size, in one of
    the contender's variants, with a place for each repetition; the rest says where they come from. `apart` says how
    far apart the cores were before and after: ns for a flag to go there and back. On virtual machines it changes while
    they run, and what a call takes changes with it, so figures are to be compared within a state()."""

    def __init__(self, document):
        self.document = document
        self.document.setdefault("cells", [])
        self.cells = {self._key(cell): cell for cell in self.document["cells"]}

    @staticmethod
    def _key(cell):
        return cell["operation"], cell["ranks"], cell["bytes"], cell["contender"], cell["variant"]

    @classmethod
    def load(cls, path):
        with open(path) as file:
            return cls(json.load(file))

    def save(self, path):
        save(path, self.document, "cells")

    def add(self, repetition, operation, ranks, size, contender, variant="", us=None, iterations=None, reason=None,
            apart=None):
        """A time, or the reason why there is none."""
        key = operation, ranks, size, contender, variant
        if key not in self.cells:
            self.cells[key] = dict(operation=operation, ranks=ranks, bytes=size, contender=contender, variant=variant,
                                   us=[], iterations=[], apart=[], reason=None)
            self.document["cells"].append(self.cells[key])
        cell = self.cells[key]
        missing = repetition - len(cell["us"])
        cell["us"] += [None] * missing + [us]
        cell["iterations"] += [None] * missing + [iterations]
        cell["apart"] += [None] * missing + [apart]
        cell["reason"] = cell["reason"] or reason

    def runs(self):
        """`apart` of each time."""
        return [apart for cell in self.cells.values()
                for us, apart in zip(cell["us"], cell.get("apart", [None] * len(cell["us"]))) if us is not None]

    def states(self):
        """The states of the machine, each by the least and the greatest distance, in ns, the one with most times first;
        none if distances are not known."""
        distances = sorted(distance for apart in self.runs() if steady(apart) for distance in apart)
        found = []
        for distance in distances:
            if not found or distance >= STEP * found[-1][1]:
                found.append([distance, distance])
            found[-1][1] = distance
        return sorted(map(tuple, found), key=lambda state: -sum(self._of(state, apart) for apart in self.runs()))

    @staticmethod
    def _of(state, apart):
        return steady(apart) and state[0] <= min(apart) and max(apart) <= state[1]

    def state(self, state):
        """What was measured in it alone."""
        document = dict(self.document, cells=[])
        for cell in self.cells.values():
            us = [time if self._of(state, apart) else None for time, apart in zip(cell["us"], cell["apart"])]
            document["cells"].append(dict(cell, us=us))
        return Results(document)

    def groups(self):
        """(operation, ranks) in the order of the run."""
        return list(dict.fromkeys(key[:2] for key in self.cells))

    def sizes(self, operation, ranks):
        return sorted({key[2] for key in self.cells if key[:2] == (operation, ranks)})

    def contenders(self):
        return list(dict.fromkeys(key[3] for key in self.cells))

    def peers(self):
        return [name for name in self.contenders() if name not in OWN + LIMITS]

    def cell(self, operation, ranks, size, contender):
        """The cell of the contender's fastest variant; None if there is no time."""
        timed = [cell for key, cell in self.cells.items()
                 if key[:4] == (operation, ranks, size, contender) and any(us is not None for us in cell["us"])]
        return min(timed, key=lambda cell: median(cell["us"]), default=None)

    def times(self, operation, ranks, size, contender):
        """By repetition; none if the contender has no time there."""
        cell = self.cell(operation, ranks, size, contender)
        return cell["us"] if cell else []

    def reason(self, operation, ranks, size, contender):
        reasons = [cell["reason"] for key, cell in self.cells.items()
                   if key[:4] == (operation, ranks, size, contender) and cell["reason"]]
        return reasons[0] if reasons else None

    def fastest(self, operation, ranks, size, names):
        timed = [(median(times), name) for name in names if (times := self.times(operation, ranks, size, name))]
        return min(timed)[1] if timed else None

    def best_peer(self, operation, ranks, size):
        return self.fastest(operation, ranks, size, self.peers())

    def named(self, operation, ranks, size, name):
        """The contender that "best peer" or PLAIN stands for there, if any does; any other name as it is."""
        if name == "best peer":
            return self.best_peer(operation, ranks, size)
        if name == PLAIN:
            both = self.times(operation, ranks, size, RING)  # cma alone is no limit
            return self.fastest(operation, ranks, size, (CMA, RING)) if both else RING
        return name

    def speed(self, operation, ranks, size, contender, against):
        """How many times as fast the first one is; names as in named(). None if either has no time."""
        where = operation, ranks, size
        return ratio(*(self.times(*where, self.named(*where, name)) for name in (against, contender)))
