"""The tables of perf/compare/network, in Markdown."""

import statistics

from network_rows import QUICK, ROWS
from network_run import ECCL, OPENMPI, RAW, TUNED, UNPLACED
from report import table
from words import OPERATIONS, bytes_in_words, microseconds

MPI = (OPENMPI, TUNED)


def of(records, row, **wanted):
    return [record for record in records if record["row"] == row.name and all(record.get(key) == value for key, value in wanted.items())]


def median(records, key="us"):
    return statistics.median(record[key] for record in records) if records else None


def shown(records):
    """Milliseconds or microseconds, the median over the repetitions, and the fastest and slowest of them."""
    times = sorted(record["us"] for record in records)
    if not times:
        return "-"
    unit = 1 if times[0] < 10000 else 1000
    text, low, high = (microseconds(us / unit) for us in (statistics.median(times), times[0], times[-1]))
    return "%s%s %s" % (text, "" if low == high else " (%s–%s)" % (low, high), "us" if unit == 1 else "ms")


def share(bound, us):
    return "-" if bound is None or us is None else "%.2f" % (1e6 * bound / us)


def rails(records):
    """How the bytes of all hosts are spread over the rails, in percent."""
    if not records or len(records[0]["rail_bytes"]) < 2:
        return "-"
    total = [sum(column) for column in zip(*(record["rail_bytes"] for record in records))]
    return " / ".join("%.1f" % (100 * each / sum(total)) for each in total)


def cpu(records):
    return "%.2f" % (median(records, "cpu_us") * 1e-6) if records and records[0]["cpu_us"] else "-"


def consistency(records):
    """The median time of a call to that of the slowest, in one repetition; the median over the repetitions."""
    return "%.2f" % statistics.median(record["us"] / record["slowest_us"] for record in records) if records else "-"


def limits(records, row):
    """Mbit/s that iperf3 moves, both ways at the same time; the slower way counts."""
    rates = [min(record["mbit"]) for record in of(records, row, contender="iperf3")]
    return statistics.median(rates) if rates else None


def section(records, row):
    rate = limits(records, row)
    lines = ["## %s: %s" % (row.name, row.title), ""]
    if rate:
        lines += ["iperf3, a process and a stream each way at once: %.1f Gbit/s in the slower way. The bound is S over that." % (rate / 1000), ""]
    rows = []
    for operation in row.operations:
        for size in sorted({record["bytes"] for record in of(records, row, operation=operation)}):
            each = {name: of(records, row, operation=operation, bytes=size, contender=name) for name in (ECCL, UNPLACED, RAW, *MPI)}
            bound = row.bound(operation, size, row.hosts, row.per_host) if row.bound else 8e-6 * size / rate if rate else None
            own = median(each[ECCL])
            best = min((median(each[name]) for name in MPI if each[name]), default=None)
            line = [OPERATIONS[operation] + " " + bytes_in_words(size), "-" if bound is None else "%s ms" % microseconds(1e3 * bound)]
            for name in (ECCL, *MPI):
                line += [shown(each[name]), share(bound, median(each[name]))]
            line += [shown(each[UNPLACED]), share(bound, median(each[UNPLACED])), consistency(each[UNPLACED])] if row.paths else []
            line += [shown(each[RAW])] if row.raw else []
            line += ["%.2f" % (best / own) if best and own else "-"]
            if row.iterations:
                line += [" / ".join(cpu(each[name]) for name in (ECCL, *MPI)), *(rails(each[name]) for name in (ECCL, TUNED)),
                         " / ".join(consistency(each[name]) for name in (ECCL, *MPI))]
            rows.append(line)
    head = ["", "bound", ECCL, "of bound", OPENMPI, "of bound", TUNED, "of bound", *(["ports by chance", "of bound", "consistency"] if row.paths else []),
            *(["raw exchange"] if row.raw else []), "times as fast as Open MPI"]
    if row.iterations:
        head += ["CPU s per call: %s / %s / %s" % (ECCL, *MPI), "% of bytes by rail, " + ECCL, "the same, " + TUNED, "consistency, in the same order"]
    return lines + table(head, rows)


ABOUT = """Hosts are network namespaces on one machine, made by `tests/lab/lab` ([the lab](../../docs/lab.md)); all share its cores.
Ratios to the bound, bytes by rail and CPU seconds say something about the library; the absolute times of unshaped links
are this machine's. [What is measured](../../docs/perf.md#over-a-network) says how, and how bounds are computed."""


def markdown(document):
    records = document["records"]
    lines = ["# ECCL against Open MPI over a network", "", "`%s`" % document["command"], "", *ABOUT.splitlines(), ""]
    lines += [line for note in document["notes"] for line in ("**%s**" % note, "")]
    lines += table(["", ""], [[key, str(value)] for key, value in document["machine"].items()], numbers=False)
    for failure in document["failures"]:
        lines += ["**FAILED** %s" % failure, ""]
    for row in (*ROWS, QUICK):
        if of(records, row):
            lines += section(records, row)
    return "\n".join(lines)
