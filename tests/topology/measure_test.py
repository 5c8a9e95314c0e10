"""eccl_topo measure as its users run it: the argument is the program. Nothing here depends on how long things take."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOPO = sys.argv[1]
del sys.argv[1]
SMALL = ("--procs", "2", "--max", "64K", "--rounds", "1", "--sample", "300")


def run(*arguments, code=0, **settings):
    done = subprocess.run([TOPO, "measure", *arguments], env={**os.environ, **settings}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=240)
    if done.returncode != code:
        raise AssertionError("eccl_topo measure %s: exit code %d, not %d\n%s%s" % (" ".join(arguments), done.returncode, code,
                                                                                 done.stdout, done.stderr))
    return done.stderr if code else done.stdout


def read(path):
    with open(path) as file:
        return file.read()


class Measured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model, cls.calls = (os.path.join(cls.folder.name, name) for name in ("model", "calls"))
        cls.said = run(*SMALL, "--check", "-v", "-o", cls.model, "--save", cls.calls)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_says_what_it_found(self):
        self.assertRegex(self.said, r"(?m)^ranks +microseconds +GB/s\n +0 - 1 +\d+\.\d\d +\d+\.\d\d$")
        for constant in ("call", "fast-move", "network-latency", "combine", "read.64K", "store.256000K"):
            self.assertRegex(self.said, r"(?m)^%s +\d+\.\d{3}$" % re.escape(constant))
        for what in ("the constants explain what was measured", "the constants at other sizes", "the model at other sizes"):
            found = re.search(r"(?m)^%s: off by \d+\.\d %% \(median\), \d+\.\d %% \(95th percentile\) in (\d+) calls$" % what, self.said)
            self.assertIsNotNone(found, self.said)
            self.assertGreater(int(found.group(1)), 50)
        chosen = re.search(r"(?m)^the algorithm chosen is as good as the best, .* in (\d+) of (\d+) cases$", self.said)
        self.assertIsNotNone(chosen, self.said)
        self.assertLessEqual(int(chosen.group(1)), int(chosen.group(2)))
        self.assertGreater(int(chosen.group(2)), 10)
        self.assertRegex(self.said, r"(?m)^AllReduce +ring +16 +\d+\.\d\d us, predicted +\d+\.\d\d, [+-]\d+ %$")

    def test_paths_are_between_hosts(self):
        self.assertEqual(run("--procs", "2", "--paths"), "all ranks are on one host\n")
        self.assertIn("--paths measures nothing", run("--paths", "--check", code=2))
        self.assertIn("--udp goes with --paths", run("--udp", "4791", code=2))

    def test_the_model_is_a_file(self):
        lines = read(self.model).splitlines()
        self.assertRegex(lines[0], r"^# Cost model by eccl_topo measure, ECCL \d+\.\d+\.\d+, \d{4}-\d\d-\d\d: 2 ranks, memory of ecclMemAlloc$")
        self.assertTrue(any(line.startswith("call ") for line in lines))
        self.assertTrue(any(re.match(r"correct AllReduce ring memory 2 8 \d", line) for line in lines))
        self.assertFalse(any(re.match(r"correct \S+ \S+ \S+ 2 16 ", line) for line in lines), "16 bytes are not fitted to")

    def test_the_calls_are_a_file(self):
        lines = read(self.calls).splitlines()
        self.assertRegex(lines[0], r"^# Calls measured by eccl_topo measure, ")
        self.assertEqual(lines[1], "ranks 0:0:0 0:0:0")
        self.assertRegex(lines[2], r"^cores \d+")
        for line in lines[3:]:
            self.assertRegex(line, r"^call [A-Za-z]+ [a-z]+ \d+ 4 \d+ \d+ registered \d")
        self.assertEqual(sum(line.startswith("correct ") for line in read(self.model).splitlines()), len(lines) - 3)

    def test_the_model_is_judged(self):
        said = run(*SMALL, "--judge", self.model)
        self.assertRegex(said, r"(?m)^the model: off by ")
        self.assertRegex(said, r"(?m)^the model at sizes between: off by ")
        self.assertNotIn("fast-move", said)

    def test_earlier_calls_are_fitted_to_too(self):
        # The same calls again, so that each is there three times: the model is to be read again all the same.
        again = os.path.join(self.folder.name, "again")
        run(*SMALL, "--with", self.calls, "--with", self.calls, "-o", again)
        run(*SMALL, "--judge", again)

    def test_ordinary_memory(self):
        calls = os.path.join(self.folder.name, "plain")
        run(*SMALL, "--plain", "--max", "4K", "--save", calls)
        lines = read(calls).splitlines()
        self.assertIn("ordinary memory", lines[0])
        self.assertIn(" plain ", lines[3])

    def test_files_that_cannot_be_read(self):
        bad = os.path.join(self.folder.name, "bad")
        with open(bad, "w") as file:
            file.write("# nonsense\n\nfly 5\n")
        for option in ("--judge", "--with"):
            self.assertIn(bad + ":3: \"fly 5\": ", run(*SMALL, option, bad, code=2))
            self.assertIn("/nowhere", run(*SMALL, option, "/nowhere", code=2))
            self.assertIn(self.folder.name, run(*SMALL, option, self.folder.name, code=2))
        # One is no other.
        self.assertIn(self.calls + ":2: ", run(*SMALL, "--judge", self.calls, code=2))
        self.assertIn(self.model + ":2: ", run(*SMALL, "--with", self.model, code=2))

    def test_a_file_that_cannot_be_written(self):
        self.assertIn("/nowhere/model cannot be written", run(*SMALL, "--max", "4K", "-o", "/nowhere/model", code=3))


class Misuse(unittest.TestCase):
    def test_is_told(self):
        for arguments, words in ((["--procs", "1"], "--procs 1 is not a number from 2 to 1024"), (["--procs", "x"], "--procs x"),
                                 (["--rounds", "0"], "--rounds 0 is not a number from 1"), (["--sample", "99"], "--sample 99"),
                                 (["--max", "4095"], "--max 4095 is no size of 4K or more"), (["--max", "big"], "--max big"),
                                 (["now"], "'now' is one argument too many"), (["--fly"], "--fly"), (["-o"], "requires an argument"),
                                 (["--judge", "a", "-o", "b"], "--judge fits nothing"), (["--judge", "a", "--with", "b"], "--judge fits nothing"),
                                 ([], "measure needs ranks: --procs N")):
            self.assertIn(words, run(*arguments, code=2))
        self.assertIn("ECCL_DETERMINISTIC=1", run(*SMALL, code=2, ECCL_DETERMINISTIC="1"))

    def test_help(self):
        said = run("--help")
        self.assertTrue(said.startswith("USAGE: eccl_topo measure"))
        for option in ("--procs", "--judge", "--with", "--save", "--output"):
            self.assertIn(option, said)


unittest.main()
