"""The regression check: ratios to the probe of the same run, now and earlier; never times."""

from figures import OWN, PROBE, STEP
from words import OPERATIONS, bytes_in_words


def regressions(now, earlier):
    """A sentence for each cell of both runs whose ratio got worse by more than the spread of the two, in a state of the
    machine that both have seen; and how many cells were compared."""
    found, compared = [], 0
    for new, old in alike(now, earlier):
        some, number = worse(new, old)
        found += some
        compared += number
    return found, compared


def alike(now, earlier):
    """What was measured in states that are the same. Where one of the two does not know, all of it."""
    if not now.states() or not earlier.states():
        return [(now, earlier)]
    return [(now.state(new), earlier.state(old)) for new in now.states() for old in earlier.states()
            if new[0] < STEP * old[1] and old[0] < STEP * new[1]]


def worse(now, earlier):
    found, compared = [], 0
    for operation, ranks in now.groups():
        for size in now.sizes(operation, ranks):
            for contender in OWN:
                where = operation, ranks, size, contender, PROBE
                new, old = now.speed(*where), earlier.speed(*where)
                if new is None or old is None:
                    continue
                compared += 1
                if new.high < old.low:
                    found.append("%s, %d ranks, %s, %s: %.2f of the probe (%.2f to %.2f), was %.2f (%.2f to %.2f)"
                                 % (OPERATIONS[operation], ranks, bytes_in_words(size), contender, *new, *old))
    return found, compared
