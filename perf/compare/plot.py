"""One picture: how many times as long as the probe each contender takes."""

import matplotlib

matplotlib.use("Agg")


def draw(results, path):
    pass
