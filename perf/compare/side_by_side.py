"""The ratios of several runs, one below the other: of several machines, or of one on several days."""

import os

from report import SUMMARY, marked, table
from targets import TARGETS, evaluate
from words import OPERATIONS, bytes_in_words


def processor(results):
    return results.document["machine"]["processor"].split(",")[0]


def main_state(results):
    """What was measured in the state that the machine was in most often, and how far apart the cores were in it."""
    states = results.states()
    return (results.state(states[0]), "%.0f to %.0f" % states[0]) if states else (results, "-")


def name(run, runs):
    """The processor; with the day, if several runs are of it."""
    several = sum(processor(results) == processor(run[1]) for _, results, _ in runs) > 1
    return processor(run[1]) + (", " + run[1].document["machine"]["date"][:10] if several else "")


def machines(runs, folder):
    rows = []
    for path, results, apart in runs:
        about = results.document["machine"]
        page = os.path.relpath(os.path.join(os.path.dirname(path), "compare.md"), folder)
        rows.append(["[%s](%s)" % (processor(results), page), about["date"][:10], about["memory"], apart, about["ECCL"]])
    return table(["processor", "date", "memory", "ns between the cores", "ECCL"], rows, numbers=False)


def reached(runs):
    rows = []
    for target in TARGETS:
        verdicts = [evaluate(target, results) for _, results, _ in runs]
        if any(verdict.cells for verdict in verdicts):
            rows.append([str(target), *map(str, verdicts)])
    return table(["target", *(name(run, runs) for run in runs)], rows, numbers=False)


def ratios(runs):
    lines = []
    groups = dict.fromkeys(group for _, results, _ in runs for group in results.groups())
    for operation, ranks in groups:
        sizes = sorted({size for _, results, _ in runs for size in results.sizes(operation, ranks)})
        rows = []
        for pair in SUMMARY:
            for run in runs:
                cells = [marked(run[1].speed(operation, ranks, size, *pair)) for size in sizes]
                if any(cell != "-" for cell in cells):
                    rows.append(["%s : %s, %s" % (*pair, name(run, runs)), *cells])
        lines += ["### %s, %d ranks" % (OPERATIONS[operation], ranks), "",
                  *table(["", *map(bytes_in_words, sizes)], rows)]
    return lines


def markdown(documents, folder):
    """Of (path, results), for a page in `folder`."""
    runs = [(path, *main_state(results)) for path, results in documents]
    return "\n".join([
        "# Several machines side by side", "",
        "Of each run, what was measured in the state that the machine was in most often. The page of the run has the times.",
        "", *machines(runs, folder), "## Targets", "", *reached(runs), "## Times as fast", "",
        "How many times as fast the first one is; `~` where the spread hides which is faster.", "", *ratios(runs)])
