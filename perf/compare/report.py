"""The tables, in Markdown."""

from figures import PLAIN, PROBE, median, spread, steady
from session import WITHOUT_FAULT
from targets import PEER, TARGETS, evaluate
from words import OPERATIONS, bytes_in_words, microseconds, times_as_fast


def table(header, rows, numbers=True):
    """The first column to the left, the others to the right if they hold numbers."""
    lines = [header, ["---"] + ["---:" if numbers else "---"] * (len(header) - 1), *rows]
    return ["| %s |" % " | ".join(line) for line in lines] + [""]


def marked(ratio):
    """With ~ where the spread hides which is faster."""
    return "-" if ratio is None else ("~" if ratio.hidden() else "") + times_as_fast(ratio.median)


def time_of(results, operation, ranks, size, contender):
    times = results.times(operation, ranks, size, contender)
    if times:
        low, high = spread(times)
        text = microseconds(median(times))
        return text if low == high else "%s (%s–%s)" % (text, microseconds(low), microseconds(high))
    reason = results.reason(operation, ranks, size, contender)
    if reason is None:
        return "-"
    return reason.split(":")[0] if reason.startswith(WITHOUT_FAULT) else "FAILED"


def head(results):
    document = results.document
    lines = ["# ECCL against others on one host", ""]
    lines += ["`%s`" % document["command"], ""]
    lines += table(["", ""], [[key, str(value)] for key, value in document["machine"].items()], numbers=False)
    for name, reason in document["left_out"].items():
        lines += ["**%s is left out:** %s" % (name, reason), ""]
    for failure in document["failures"]:
        lines += ["**FAILED** %s" % failure, ""]
    return lines


SUMMARY = (("eccl", PEER), ("eccl-plain", PEER), ("eccl", PROBE), ("eccl-plain", PLAIN))


def summary(results):
    """How many times as fast as the best peer, and as the limits: the range over the sizes."""
    rows = []
    for operation, ranks in results.groups():
        sizes = results.sizes(operation, ranks)
        row = [OPERATIONS[operation], str(ranks)]
        for contender, against in SUMMARY:
            for part in ([size for size in sizes if size < 65536], [size for size in sizes if size >= 65536]):
                ratios = [ratio.median for size in part
                          if (ratio := results.speed(operation, ranks, size, contender, against))]
                row.append("%s – %s" % (times_as_fast(min(ratios)), times_as_fast(max(ratios))) if ratios else "-")
        rows.append(row)
    columns = ["%s : %s, %s" % (*pair, part) for pair in SUMMARY for part in ("< 64 KiB", "from 64 KiB")]
    return ["## Summary", "", "Times as fast, from the least to the most over the sizes.", "",
            *table(["", "ranks", *columns], rows)]


def targets(results):
    rows = [[str(target), str(verdict)] for target in TARGETS
            if (verdict := evaluate(target, results)).cells]
    return ["## Targets", "", *table(["target", ""], rows, numbers=False)] if rows else []


def details(results):
    lines = ["## Times", "",
             "Microseconds: the median over the repetitions (the fastest–the slowest); per message for Send/Recv. The ratios "
             "say how many times as fast the first one is, `~` where the spread hides which is faster; they are formed "
             "within each repetition. The best peer is in bold.", ""]
    for operation, ranks in results.groups():
        contenders = results.contenders()
        rows = []
        for size in results.sizes(operation, ranks):
            best = results.best_peer(operation, ranks, size)
            row = [bytes_in_words(size)]
            for contender in contenders:
                text = time_of(results, operation, ranks, size, contender)
                row.append("**%s**" % text if contender == best else text)
            row += [marked(results.speed(operation, ranks, size, *pair)) for pair in SUMMARY]
            cell = results.cell(operation, ranks, size, PROBE)
            rows.append([*row, cell["variant"] if cell else "-"])
        lines += ["### %s, %d ranks" % (OPERATIONS[operation], ranks), "",
                  *table(["", *contenders, *("%s : %s" % pair for pair in SUMMARY), "the probe's way"], rows)]
        reasons = {(name, reason) for size in results.sizes(operation, ranks) for name in contenders
                   if (reason := results.reason(operation, ranks, size, name))}
        lines += [line for name, reason in sorted(reasons) for line in ("%s: %s" % (name, reason), "")]
    return lines


def images(charts):
    """The charts are files beside the page."""
    lines = [line for chart in charts for line in ("![%s](%s)" % (chart.removesuffix(".svg"), chart), "")]
    about = "`all_reduce` shows microseconds, the others show times as multiples of the probe's."
    return ["## Charts", "", about, "", *lines] if charts else []


RARE = 0.05  # of all times: what was measured in a state less often has no medians worth a table


def each_state(results, parts):
    """The lines that `parts` make, of each state that the machine was in."""
    states, runs = results.states(), results.runs()
    if not states:
        return parts(results)
    if len(states) == 1 and all(map(steady, runs)):
        return ["The first two cores were %.0f to %.0f ns apart (for a flag to go there and back)." % states[0], "",
                *parts(results)]
    counts = [(state, count) for state in states
              if (count := len(results.state(state).runs())) >= RARE * len(runs) or state == states[0]]
    lines = ["The machine moved the two cores while this was measured, which changes what a call takes. How far apart they "
             "are (ns for a flag to go there and back) was measured before and after each run of a contender over all "
             "sizes. Times and ratios are of one such state; %d of %d times are of none, as it changed during the run or was "
             "there too rarely." % (len(runs) - sum(count for _, count in counts), len(runs)), ""]
    for (least, greatest), count in counts:
        lines += ["# Cores %.0f to %.0f ns apart: %d of %d times" % (least, greatest, count, len(runs)), "",
                  *parts(results.state((least, greatest)))]
    return lines


def conclusions(results):
    return each_state(results, lambda some: summary(some) + targets(some))


def markdown(results, charts):
    return "\n".join(head(results) + images(charts) +
                     each_state(results, lambda some: summary(some) + targets(some) + details(some)))
