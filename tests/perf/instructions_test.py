#!/usr/bin/env python3
"""What short calls cost has limits: instructions_test.py <repository> <call_cost>.

Instructions, not time, so that the test says the same on every machine. The limits are about a quarter above what GCC 12
needs (November 2026)."""

import shutil
import subprocess
import sys

REPOSITORY, PROGRAM = sys.argv[1:]
LIMITS = {"send_recv:8": 2100, "broadcast:256": 2350, "group:8": 1000}

if not shutil.which("valgrind"):
    print("skipped: valgrind, which counts instructions, is not here")
    sys.exit()


def counted(cases):
    output = subprocess.run([REPOSITORY + "/perf/micro/instructions", PROGRAM, *cases], stdout=subprocess.PIPE, text=True, check=True).stdout
    print(output, flush=True)
    counts = {line.split()[0]: float(line.split()[1]) for line in output.splitlines()}
    if set(counts) != set(cases):
        sys.exit("FAILED: not everything was counted")
    return counts


# Where the machine is busy another thread of the library may be at the connections for as long as some rounds, and the
# caller waits: that adds, so the least of some counts is what a call needs.
least = counted(LIMITS)
for _ in range(4):
    over = [case for case, limit in LIMITS.items() if least[case] > limit]
    if not over:
        break
    for case, count in counted(over).items():
        least[case] = min(least[case], count)
for case, limit in LIMITS.items():
    if not 100 < least[case] <= limit:
        sys.exit("FAILED: %s takes %.0f instructions a message, its limit is %d" % (case, least[case], limit))
