#!/usr/bin/env python3
"""What the lane kernels take of a multiprocessor has limits: kernels_test.py <nvcc> <what ptxas -v said>.

Every kernel is there for every architecture, keeps nothing on a stack, and a multiprocessor, which has 65,536
registers, has room for two blocks of 256 threads. The file beside that log holds them, and PTX for processors that come
later."""

import collections
import re
import struct
import subprocess
import sys

KERNELS, ARCHITECTURES = 12, {"sm_80", "sm_90", "sm_100"}
REGISTERS, SHARED = 128, 27 * 1024

version = subprocess.run([sys.argv[1], "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
if "release 13." not in version:
    print("skipped: the limits are those of nvcc 13, and this is another one")
    sys.exit()
kernels = collections.defaultdict(set)
failures = []
kernel = architecture = None
with open(sys.argv[2]) as log:
    for line in log:
        if entry := re.search(r"Compiling entry function '(\w+)' for '(sm_\d+)'", line):
            kernel, architecture = entry.groups()
        elif stack := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if any(int(found) > 0 for found in stack.groups()):
                failures.append("%s for %s: %s" % (kernel, architecture, line.strip()))
        elif used := re.search(r"Used (\d+) registers.*?(\d+) bytes smem", line):
            kernels[architecture].add(kernel)
            if int(used[1]) > REGISTERS or int(used[2]) > SHARED:
                failures.append("%s for %s: %s" % (kernel, architecture, line.strip()))
if set(kernels) != ARCHITECTURES or any(len(each) != KERNELS for each in kernels.values()):
    failures.append("found %s" % {each: len(names) for each, names in kernels.items()})

PTX, BINARY = 1, 2
with open(sys.argv[2].removesuffix(".log"), "rb") as file:
    image = file.read()
magic, _, at, size = struct.unpack_from("<IHHQ", image)
parts, end = set(), at + size
# Of each part: what it is, a version, the lengths of its head and of what follows; in the head its architecture.
while magic == 0xBA55ED50 and at < end:
    kind, _, head, length = struct.unpack_from("<HHIQ", image, at)
    parts.add((kind, "sm_%d" % struct.unpack_from("<I", image, at + 28)))
    at += max(1, head + length)
if magic != 0xBA55ED50 or parts != {(BINARY, each) for each in ARCHITECTURES} | {(PTX, "sm_90")}:
    failures.append("the image %x holds %s" % (magic, sorted(parts)))
if failures:
    sys.exit("FAILED: " + "\n".join(failures))
print("%d kernels for each of %s: at most %d registers" % (KERNELS, ", ".join(sorted(kernels)), REGISTERS))
