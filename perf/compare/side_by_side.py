"""The ratios of several runs, one below the other: of several machines, or of one on several days."""

import os
from typing import NamedTuple

from figures import Results
from report import SUMMARY, marked, table
from targets import TARGETS, evaluate
from words import OPERATIONS, bytes_in_words

OFTEN = 0.2  # of a run's times: states of the machine that are shown


class Column(NamedTuple):
    """What a run has measured in one state of its machine."""
    name: str
    path: str  # of the run
    results: Results


def columns(documents):
    """Of (path, results): the states that each machine was in often, the most frequent first."""
    found = []
    for path, results in documents:
        about = results.document["machine"]
        name = about["processor"].split(",")[0]
        others = [other.document["machine"] for _, other in documents]
        if sum(other["processor"].split(",")[0] == name for other in others) > 1:
            name += ", " + about["date"][:10]
        states = [(state, results.state(state)) for state in results.states()]
        often = [(state, some) for state, some in states if len(some.runs()) >= OFTEN * len(results.runs())]
        for state, some in often or states[:1]:
            found.append(Column("%s, %.0f–%.0f ns" % (name, *state), path, some))
        if not states:
            found.append(Column(name, path, results))
    return found


def machines(columns, folder):
    rows = []
    for column in columns:
        about = column.results.document["machine"]
        page = os.path.relpath(os.path.join(os.path.dirname(column.path), "compare.md"), folder)
        rows.append(["[%s](%s)" % (column.name, page), about["date"][:10], about["memory"], about["ECCL"]])
    return table(["processor, and how far apart the cores were", "date", "memory", "ECCL"], rows, numbers=False)


def reached(columns):
    rows = []
    for target in TARGETS:
        verdicts = [evaluate(target, column.results) for column in columns]
        if any(verdict.cells for verdict in verdicts):
            rows.append([str(target), *map(str, verdicts)])
    return table(["target", *(column.name for column in columns)], rows, numbers=False)


def ratios(columns):
    lines = []
    groups = dict.fromkeys(group for column in columns for group in column.results.groups())
    for operation, ranks in groups:
        sizes = sorted({size for column in columns for size in column.results.sizes(operation, ranks)})
        rows = []
        for pair in SUMMARY:
            for column in columns:
                cells = [marked(column.results.speed(operation, ranks, size, *pair)) for size in sizes]
                if any(cell != "-" for cell in cells):
                    rows.append(["%s : %s, %s" % (*pair, column.name), *cells])
        lines += ["### %s, %d ranks" % (OPERATIONS[operation], ranks), "",
                  *table(["", *map(bytes_in_words, sizes)], rows)]
    return lines


def markdown(documents, folder):
    """Of (path, results), for a page in `folder`."""
    its = columns(documents)
    return "\n".join([
        "# Several runs side by side", "",
        "Of each run, what was measured in the states that its machine was in often: how far apart the cores were, in ns "
        "for a flag to go there and back. The page of the run has the times.", "",
        *machines(its, folder), "## Targets", "", *reached(its), "## Times as fast", "",
        "How many times as fast the first one is; `~` where the spread hides which is faster.", "", *ratios(its)])
