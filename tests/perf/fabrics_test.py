#!/usr/bin/env python3
"""perf/compare/fabrics: what it makes of the words of the fabrics' programs; and, given the folder of its programs, a
small run beside ucx_perftest. fabrics_test.py <root of the sources> [folder]"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

ROOT = sys.argv.pop(1)
PROGRAMS = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
FABRICS = os.path.join(ROOT, "perf", "compare", "fabrics")
sys.dont_write_bytecode = True

loader = SourceFileLoader("fabrics", FABRICS)
fabrics = importlib.util.module_from_spec(importlib.util.spec_from_loader("fabrics", loader))
loader.exec_module(fabrics)

WRITE_LAT = """
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          9.51           211.30       12.25              13.02            4.21            21.17                  211.30
---------------------------------------------------------------------------------------
"""
WRITE_BW = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              66.00              62.50                0.001000
---------------------------------------------------------------------------------------
"""
UCX_LAT = """iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
3000,5.500,37.698,37.698,0.20,0.20,26526,26526
"""
UCX_BW = """iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
3000,9.950,290.187,290.187,215.38,250.00,3446,4000
"""
LOOP = """some warning
{"bytes": 8, "variant": "", "iterations": 100, "us": 7.25, "slowest_us": 20.0, "cpu_us": 0.0}
"""
ROWS = [(fabrics.LATENCY, 8, ("ib_write_lat",)), (fabrics.BANDWIDTH, 65536, ("ib_write_bw",))]


class Words(unittest.TestCase):
    def test_times_are_microseconds_of_a_message(self):
        self.assertEqual(fabrics.time_said("ib_write_lat", 8, WRITE_LAT), 12.25)
        self.assertAlmostEqual(fabrics.time_said("ib_write_bw", 65536, WRITE_BW), 1000)
        self.assertEqual(fabrics.time_said("ucp_am_lat", 8, UCX_LAT), 5.5)
        self.assertAlmostEqual(fabrics.time_said("ucp_am_bw", 65536, UCX_BW), 250)
        for ours in fabrics.OURS:
            self.assertEqual(fabrics.time_said(ours, 8, LOOP), 7.25)

    def test_no_time_is_told(self):
        for program in ("ib_write_lat", "ib_write_bw", "ucp_am_lat", *fabrics.OURS):
            for text in ("", "Couldn't connect to 127.0.0.1:18515", " #bytes #iterations"):
                with self.assertRaisesRegex(ValueError, "no time"):
                    fabrics.time_said(program, 8, text)
        with self.assertRaisesRegex(ValueError, "says 0"):
            fabrics.time_said("ib_write_bw", 65536, WRITE_BW.replace("62.50", "0.00"))

    def test_turns(self):
        output = ""
        for status in (0, 1, 0):
            output += "begin 0 ECCL\n%send 0 ECCL 0\nbegin 0 ib_write_lat\n%s\nend 0 ib_write_lat %d\n" % (LOOP, WRITE_LAT, status)
        times, failures = fabrics.read("verbs", ROWS, output, 0)
        self.assertEqual(times, {(0, "ECCL"): [7.25] * 3, (0, "ib_write_lat"): [12.25, None, 12.25]})
        self.assertEqual(len(failures), 1)
        self.assertIn("verbs, 8 B: ib_write_lat ended with 1", failures[0])
        for output, status in (("vm: skipped: no qemu", 77), ("", 0)):
            self.assertIn("ended with status %d" % status, fabrics.read("verbs", ROWS, output, status)[1][0])

    def test_the_table_has_ratios_within_runs(self):
        document = {"command": "x", "machine": {"processor": "abacus"}, "failures": ["late"], "records": [
            {"fabric": "verbs", "what": fabrics.LATENCY, "bytes": 8, "program": "ECCL", "us": [10, 100, 10]},
            {"fabric": "verbs", "what": fabrics.LATENCY, "bytes": 8, "program": "ECCL-registered", "us": [5, 100, 5]},
            {"fabric": "verbs", "what": fabrics.LATENCY, "bytes": 8, "program": "ib_write_lat", "us": [5, 50, None]}]}
        table = fabrics.markdown(document)
        self.assertIn("| verbs | half a round trip | 8 B | plain | 10.0 (10.0–100) | ib_write_lat | 27.5 (5.00–50.0) | 0.50 (0.50–0.50) |", table)
        self.assertIn("| 8 B | registered | 5.00 (5.00–100) | ib_write_lat | 27.5 (5.00–50.0) | ~0.75 (0.50–1.00) |", table)
        self.assertIn("FAILED: late", table)

    def test_wrong_words_are_told(self):
        for words in (["verb"], ["--runs", "0"], ["--seconds", "-1"]):
            done = subprocess.run([FABRICS, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("more than 0" if words[0].startswith("-") else "ucx-tcp", done.stdout)


class Run(unittest.TestCase):
    def test_beside_ucx_perftest(self):
        if PROGRAMS is None or not shutil.which("ucx_perftest"):
            self.skipTest("there is no ucx_perftest")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([FABRICS, "--quick", "--seconds", "0.05", "--programs", PROGRAMS, "--output", folder, "ucx-tcp"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(os.path.join(folder, "fabrics.json")) as file:
                records = json.load(file)["records"]
            self.assertEqual([record["program"] for record in records], ["ECCL", "ucp_am_lat"])
            for record in records:
                self.assertTrue(0.1 < record["us"][0] < 1e5, records)
            with open(os.path.join(folder, "fabrics.md")) as file:
                self.assertRegex(file.read(), r"\| ucx-tcp \| half a round trip \| 8 B \| plain \| [0-9.,]+ ")


unittest.main()
