"""One picture: how many times as long as the probe each contender takes, by size; a panel for each operation and
number of ranks."""

import matplotlib

from figures import CMA, OWN, PROBE, median, spread
from words import OPERATIONS, bytes_in_words

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
from matplotlib import pyplot  # noqa: E402

MOST = 1000  # times the probe; what is slower leaves the panel
STYLES = {
    "eccl": dict(color="#0b5fa5", linewidth=2.4, marker="o", markersize=4, zorder=5),
    "eccl-plain": dict(color="#4aa3df", linewidth=1.8, marker="o", markersize=3.5, zorder=4),
    "openmpi": dict(color="#d1495b", linewidth=1.3, marker="s", markersize=3),
    "mpich": dict(color="#e39b2d", linewidth=1.3, marker="^", markersize=3),
    "gloo": dict(color="#7a7a7a", linewidth=1.3, marker="v", markersize=3),
    CMA: dict(color="#3a3a3a", linewidth=1.0, linestyle=":"),
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


def draw(results, path):
    groups = results.groups()
    operations = [operation for operation in OPERATIONS if any(group[0] == operation for group in groups)]
    counts = sorted({ranks for _, ranks in groups})
    sizes = sorted({size for group in groups for size in results.sizes(*group)})
    figure, grid = pyplot.subplots(len(operations), len(counts), squeeze=False, sharex=True, sharey=True,
                                   figsize=(1.2 + 3.6 * len(counts), 1.5 + 2.1 * len(operations)), constrained_layout=True)
    for row, operation in zip(grid, operations):
        for axes, ranks in zip(row, counts):
            panel(axes, results, operation, ranks, sizes)
            axes.set_title("%s, %d ranks" % (OPERATIONS[operation], ranks), fontsize=9, loc="left", pad=4)
    order = [*OWN, *results.peers(), CMA, "the probe"]
    found = dict(pair for axes in grid.flat for pair in zip(*axes.get_legend_handles_labels()[::-1]))
    names = [name for name in order if name in found]
    figure.suptitle(" ", fontsize=16)  # room for the legend
    figure.legend([found[name] for name in names], names, loc="upper center", ncol=len(names), fontsize=8.5,
                  frameon=False)
    figure.supylabel("time as a multiple of the probe's (bands: fastest to slowest repetition)", fontsize=9)
    figure.supxlabel("size of the message\n%s, %s" % (results.document["machine"]["processor"],
                                                      results.document["machine"]["date"][:10]), fontsize=9)
    figure.savefig(path)
    pyplot.close(figure)
