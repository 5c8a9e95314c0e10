"""perf/compare/network on a tiny row. Argument: perf/compare of a build."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from support import check, environment, skipped  # noqa: E402

NETWORK = os.path.join(os.path.dirname(os.path.dirname(HERE)), "perf/compare/network")

if not skipped():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, NETWORK, "--quick", "--no-install", "--no-peers", "--programs", sys.argv[1], "--output", folder],
                              env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        check(done.returncode == 0, "network --quick: exit code %d" % done.returncode, done.stdout)
        with open(os.path.join(folder, "network.json")) as file:
            records = json.load(file)["records"]
        check([(record["contender"], record["bytes"]) for record in records] == [("eccl", 1 << 20)], "other records", str(records))
        # 1 MiB at 400 Mbit/s takes 22 ms, less what a burst lets pass at once; and both hosts send it.
        check(records[0]["us"] > 10000, "faster than the links", str(records))
        check(records[0]["rail_bytes"][0] > 8 << 20 and records[0]["cpu_us"] > 0, "bytes or CPU were not counted", str(records))
        with open(os.path.join(folder, "network.md")) as file:
            page = file.read()
        check("| AllReduce 1 MiB |" in page, "no table", page)
    print("passed")
