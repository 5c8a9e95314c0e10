"""Runs the contenders in turn: for each repetition, operation and number of ranks, each of them once."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple

SHARED_MEMORY = "/dev/shm"
UNSUPPORTED = 77  # the exit code of a program whose library lacks the operation
WITHOUT_FAULT = ("unsupported", "too slow")  # how reasons begin that are no failures
POLL = 0.01  # seconds
GRACE = 3  # seconds that launchers have to end their ranks


class Outcome(NamedTuple):
    figures: list  # the loop's lines
    reason: str  # why there are not more; empty if all is well
    failed: bool  # as opposed to being slow or lacking the operation


def end(processes):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            time.sleep(POLL)


def wait(processes, limit):
    """The first exit code other than 0, or 0; None at the limit."""
    for _ in range(round(limit / POLL)):  # not by the clock, which goes on while a virtual machine is halted
        codes = [process.poll() for process in processes]
        bad = [code for code in codes if code]
        if bad:
            return bad[0]
        if None not in codes:
            return 0
        time.sleep(POLL)
    return None


def sentence(errors):
    """What went wrong, from all that was printed: the loop's or the library's own line, else the last."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"wrong result|unsupported|ECCL:|LOOP_", line)]
    return (telling + lines[-1:] + ["no message"])[0][:300]


def launch(contender, folder, operation, ranks, sizes, seconds, limit):
    """One run of one contender over all sizes. Its processes are a group each, to be ended, but of one session: the
    kernel shares out processors by session first (autogroups), and who yields one yields it within its session.
    """
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else None) as directory:
        environment = {**os.environ, **contender.environment(), "LOOP_DIRECTORY": directory,
                       "LOOP_OPERATION": operation, "LOOP_SIZES": ",".join(map(str, sizes)),
                       "LOOP_SECONDS": str(seconds), "WORLD_SIZE": str(ranks)}
        command = contender.command(folder, ranks, ranks > len(os.sched_getaffinity(0)))
        with open(os.path.join(directory, "errors"), "w+") as errors:
            processes = []
            try:
                for rank in range(1 if contender.own_ranks else ranks):
                    own = {} if contender.own_ranks else {"RANK": str(rank)}
                    processes.append(subprocess.Popen(command, env={**environment, **own}, stdin=subprocess.DEVNULL,
                                                      stdout=errors, stderr=errors, preexec_fn=os.setpgrp))
                code = wait(processes, limit)
            finally:
                end(processes)
            errors.seek(0)
            said = errors.read()
        try:
            with open(os.path.join(directory, "results")) as lines:
                figures = [json.loads(line) for line in lines]
        except FileNotFoundError:
            figures = []
    if code is None:
        return Outcome(figures, "too slow: not done within %g s" % limit, failed=False)
    if code != 0:
        return Outcome(figures, sentence(said), failed=code != UNSUPPORTED)
    return Outcome(figures, "", failed=False)


def apart(folder):
    """How far apart the first two cores are (apart.c); None if there is one only."""
    said = subprocess.run([os.path.join(folder, "compare_apart")], stdout=subprocess.PIPE, check=True).stdout
    return float(said) or None


def fitting(operation, ranks, sizes):
    """Whole floats for every rank: sizes that are too small are left out, others rounded down."""
    unit = 4 * ranks if operation in ("all_gather", "reduce_scatter", "alltoall") else 4
    return sorted({size // unit * unit for size in sizes if size >= unit})


def run(results, contenders, folder, options, say):
    """Fills `results`, and its `failures` with sentences."""
    doable = {}
    distance = apart(folder)  # after the run before
    for repetition in range(options.repetitions):
        first = repetition % len(contenders)  # nobody always comes after the same neighbour
        for ranks in options.ranks:
            for operation in options.ops:
                took = []
                for contender in contenders[first:] + contenders[:first]:
                    key = contender.name, operation, ranks
                    sizes = doable.setdefault(key, fitting(operation, ranks, options.sizes))
                    if not sizes:
                        continue
                    begun = time.monotonic()
                    outcome = launch(contender, folder, operation, ranks, sizes, options.seconds, options.limit)
                    took.append("%s %.1f" % (contender.name, time.monotonic() - begun))
                    before, distance = distance, apart(folder)
                    for figure in outcome.figures:
                        results.add(repetition, operation, ranks, figure["bytes"], contender.name, figure["variant"],
                                    figure["us"], figure["iterations"], apart=distance and [before, distance])
                    if not outcome.reason:
                        continue
                    doable[key] = sorted({figure["bytes"] for figure in outcome.figures})
                    for size in set(sizes) - set(doable[key]):
                        results.add(repetition, operation, ranks, size, contender.name, reason=outcome.reason)
                    what = "%s, %s, %d ranks: %s" % (contender.name, operation, ranks, outcome.reason)
                    say(what)
                    if outcome.failed:
                        results.document["failures"].append(what)
                say("%d/%d %s, %d ranks; seconds: %s" % (repetition + 1, options.repetitions, operation, ranks,
                                                         ", ".join(took)))
