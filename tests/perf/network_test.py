#!/usr/bin/env python3
"""perf/compare/network: its bounds and its tables on made-up figures. network_test.py <root of the sources>"""

import os
import subprocess
import sys
import unittest

ROOT = sys.argv.pop(1)
COMPARE = os.path.join(ROOT, "perf", "compare")
sys.path.insert(0, COMPARE)
sys.dont_write_bytecode = True

import network_report  # noqa: E402
import network_rows  # noqa: E402

ROWS = {row.name: row for row in network_rows.ROWS}


def milliseconds(name, operation, size=16 << 20):
    row = ROWS[name]
    return round(1e3 * row.bound(operation, size, row.hosts, row.per_host))


def record(contender, us, **more):
    return {"row": "rails", "operation": "all_reduce", "bytes": 16 << 20, "contender": contender, "repetition": 0, "us": us,
            "slowest_us": 2 * us, "cpu_us": 500000.0, "iterations": 5, "rail_bytes": [3, 1], **more}


class Bounds(unittest.TestCase):
    def test_they_are_those_of_the_links(self):
        self.assertEqual([milliseconds("rails", operation) for operation in network_rows.FOUR], [614, 307, 307, 307])
        self.assertEqual([milliseconds("rails-4x2", operation) for operation in network_rows.FOUR], [526, 263, 263, 526])
        self.assertEqual(milliseconds("unequal", "all_reduce"), 702)  # 300 Mbit/s
        self.assertEqual(milliseconds("rail-spine", "alltoall"), 1053)

    def test_rows_fit_their_fabrics(self):
        sys.path.insert(0, os.path.join(ROOT, "tests", "lab"))
        from netlab import fabric  # noqa: PLC0415
        for row in network_rows.ROWS:
            if not row.fabric[0].startswith("--"):
                made = fabric.load(row.fabric[0])
                self.assertEqual((made.hosts, set(made.ranks), made.nic_per_rank), (row.hosts, {row.per_host}, row.own_nic), row.name)


class Tables(unittest.TestCase):
    def test_times_shares_and_ratios(self):
        records = [record("eccl", 614e3), record("eccl", 1228e3), record("eccl", 1842e3), record("openmpi", 2456e3),
                   record("openmpi-tuned", 614e3, rail_bytes=[1, 1])]
        text = "\n".join(network_report.section(records, ROWS["rails"]))
        for cell in ("AllReduce 16 MiB", "614 ms", "1,228 (614–1,842) ms", "| 0.50 |", "| 0.25 |", "| 1.00 |", "0.50 / 0.50 / 0.50",
                     "75.0 / 25.0", "50.0 / 50.0"):
            self.assertIn(cell, text)

    def test_what_is_missing_is_a_dash(self):
        text = "\n".join(network_report.section([record("eccl", 614e3)], ROWS["rails"]))
        self.assertIn("| - | - | - | - | - |", text)
        self.assertIn("0.50 / - / -", text)

    def test_failures_and_notes_are_in_the_page(self):
        page = network_report.markdown({"command": "network", "machine": {"processor": "abacus"}, "notes": ["before rails"],
                                        "failures": ["rails: wrong"], "records": [record("eccl", 1e6)]})
        for words in ("**FAILED** rails: wrong", "**before rails**", "abacus", "## rails: 8 hosts", "docs/perf.md#over-a-network"):
            self.assertIn(words, page)


class CommandLine(unittest.TestCase):
    def test_rows_are_listed_and_wrong_ones_refused(self):
        tool = [sys.executable, os.path.join(COMPARE, "network")]
        shown = subprocess.run([*tool, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for row in network_rows.ROWS:
            self.assertIn(row.name, shown)
        for wrong in (("--only", "nothing"), ("--repetitions", "0")):
            self.assertEqual(subprocess.run([*tool, *wrong], stderr=subprocess.DEVNULL).returncode, 2)


unittest.main()
