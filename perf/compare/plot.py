"""The charts. For the results page, one for each number of ranks: how many times as long as the probe each
contender takes, by size, a panel for each operation. For the README one small chart: microseconds of AllReduce."""

import os

import matplotlib

from figures import CMA, OWN, PROBE, RING, median, spread
from words import OPERATIONS, bytes_in_words, titled

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "eccl"  # the same chart is the same file
from matplotlib import pyplot  # noqa: E402

MOST = 1000  # times the probe; what is slower leaves the panel
STYLES = {
    "eccl": dict(color="#0b5fa5", linewidth=2.4, marker="o", markersize=4, zorder=5),
    "eccl-plain": dict(color="#4aa3df", linewidth=1.8, marker="o", markersize=3.5, zorder=4),
    "openmpi": dict(color="#d1495b", linewidth=1.3, marker="s", markersize=3),
    "mpich": dict(color="#e39b2d", linewidth=1.3, marker="^", markersize=3),
    "gloo": dict(color="#7a7a7a", linewidth=1.3, marker="v", markersize=3),
    "openmpi5": dict(color="#a01f3d", linewidth=1.3, marker="D", markersize=3),
    "mpich5": dict(color="#b07100", linewidth=1.3, marker="<", markersize=3),
    "intelmpi": dict(color="#6a4fb3", linewidth=1.3, marker=">", markersize=3),
    "oneccl": dict(color="#2a8c82", linewidth=1.3, marker="P", markersize=3.5),
    "gloo2": dict(color="#4c4c4c", linewidth=1.3, marker="X", markersize=3.5),
    CMA: dict(color="#3a3a3a", linewidth=1.0, linestyle=":"),
    RING: dict(color="#3a3a3a", linewidth=1.0, linestyle="--"),
}


def line(axes, results, operation, ranks, contender):
    points = []
    for size in results.sizes(operation, ranks):
        times, limit = (results.times(operation, ranks, size, name) for name in (contender, PROBE))
        if times and limit:
            points.append([size] + [value / median(limit) for value in (median(times), *spread(times))])
    if points:
        sizes, medians, lows, highs = zip(*points)
        style = STYLES[contender]
        axes.plot(sizes, medians, label=contender, **style)
        axes.fill_between(sizes, lows, highs, color=style["color"], alpha=0.15, linewidth=0)


def panel(axes, results, operation, ranks, sizes):
    axes.axhline(1, color="black", linewidth=1.2, label="the probe")
    for contender in reversed(results.contenders()):
        if contender != PROBE:
            line(axes, results, operation, ranks, contender)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)
    axes.set_ylim(0.7, MOST)
    axes.set_yticks([1, 2, 5, 10, 20, 50, 100, 1000], ["1", "2", "5", "10", "20", "50", "100", "1000"])
    axes.minorticks_off()
    every = max(1, (len(sizes) + 5) // 6)
    axes.set_xticks(sizes[::-1][::every], [bytes_in_words(size) for size in sizes[::-1][::every]])
    axes.tick_params(labelsize=7.5, length=2.5)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def machine_of(results):
    return "%s, %s" % (results.document["machine"]["processor"], results.document["machine"]["date"][:10])


def draw_ranks(results, ranks, path):
    operations = [operation for operation in OPERATIONS if (operation, ranks) in results.groups()]
    sizes = sorted({size for operation in operations for size in results.sizes(operation, ranks)})
    columns = min(len(operations), 3)
    rows = (len(operations) + columns - 1) // columns
    figure, grid = pyplot.subplots(rows, columns, squeeze=False, sharex=True, sharey=True,
                                   figsize=(1.2 + 3.4 * columns, 1.5 + 2.2 * rows), constrained_layout=True)
    for axes, operation in zip(grid.flat, operations):
        panel(axes, results, operation, ranks, sizes)
        axes.set_title("%s, %d ranks" % (OPERATIONS[operation], ranks), fontsize=9, loc="left", pad=4)
    for at in range(len(operations), grid.size):  # without a panel: the sizes are named by the one above
        grid.flat[at].set_visible(False)
        grid.flat[at - columns].tick_params(labelbottom=True)
    order = [*OWN, *results.peers(), CMA, RING, "the probe"]
    found = dict(pair for axes in grid.flat for pair in zip(*axes.get_legend_handles_labels()[::-1]))
    names = [name for name in order if name in found]
    figure.suptitle(" ", fontsize=16)  # room for the legend
    figure.legend([found[name] for name in names], names, loc="upper center", ncol=len(names), fontsize=8.5,
                  frameon=False)
    figure.supylabel("time as a multiple of the probe's (bands: fastest to slowest repetition)", fontsize=9)
    figure.supxlabel("size of the message\n" + machine_of(results), fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw_readme(results, path):
    """AllReduce among the fewest ranks."""
    ranks = min(ranks for operation, ranks in results.groups() if operation == "all_reduce")
    sizes = results.sizes("all_reduce", ranks)
    figure, axes = pyplot.subplots(figsize=(7.2, 3.4), constrained_layout=True)
    for contender in (*OWN, *results.peers()):
        points = [(size, median(times)) for size in sizes if (times := results.times("all_reduce", ranks, size, contender))]
        if points:
            axes.plot(*zip(*points), label=titled(contender), **STYLES[contender])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [bytes_in_words(size) for size in sizes], rotation=30)
    axes.yaxis.set_major_formatter(lambda value, _: "%g" % value)
    axes.minorticks_off()
    axes.tick_params(labelsize=8, length=2.5)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title("AllReduce between %d processes on one host: microseconds, less is better" % ranks, fontsize=10,
                   loc="left")
    axes.set_xlabel("size of the message (%s)" % machine_of(results), fontsize=8.5)
    axes.legend(fontsize=8.5, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw(results, folder):
    """The names of the charts that it writes into the folder: the README's, if there is one, first."""
    names = []
    if any(operation == "all_reduce" for operation, _ in results.groups()):
        names.append("all_reduce.svg")
        draw_readme(results, os.path.join(folder, names[0]))
    for ranks in sorted({ranks for _, ranks in results.groups()}):
        names.append("ranks-%d.svg" % ranks)
        draw_ranks(results, ranks, os.path.join(folder, names[-1]))
    return names
