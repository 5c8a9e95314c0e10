#!/usr/bin/env python3
"""perf/compare: its arithmetic and its tables on made-up figures; and, given the folder of its programs, a small run.
compare_test.py <root of the sources> [folder]"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

ROOT = sys.argv.pop(1)
PROGRAMS = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
COMPARE = os.path.join(ROOT, "perf", "compare")
sys.path.insert(0, COMPARE)
sys.dont_write_bytecode = True

import build  # noqa: E402
import check  # noqa: E402
import contenders  # noqa: E402
import figures  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
import side_by_side  # noqa: E402
import targets  # noqa: E402
import wheels  # noqa: E402
import words  # noqa: E402


def made_up(**times):
    """AllReduce at 64 KiB between 2 ranks, by contender (with _ for -)."""
    results = figures.Results({"command": "compare", "machine": {"processor": "abacus"}, "left_out": {"gloo": "no apt"},
                               "failures": ["mpich: wrong"]})
    for contender, values in times.items():
        for repetition, us in enumerate(values):
            results.add(repetition, "all_reduce", 2, 65536, contender.replace("_", "-"), us=us, iterations=5)
    return results


WHERE = "all_reduce", 2, 65536


class Figures(unittest.TestCase):
    def test_ratios_are_formed_within_each_repetition(self):
        # Everything takes ten times as long in the second repetition: the ratio does not know.
        self.assertEqual(figures.ratio([4, 40, 8], [2, 20, 4]), (2, 2, 2))
        self.assertEqual(figures.ratio([1, 9, 4], [1, 3, 1]), (3, 1, 4))

    def test_repetitions_without_both_times_do_not_count(self):
        self.assertEqual(figures.ratio([None, 6, 8], [1, 3, None]), (2, 2, 2))
        self.assertIsNone(figures.ratio([None, 6], [1, None]))
        self.assertIsNone(figures.ratio([], [1]))

    def test_a_ratio_is_hidden_when_some_repetition_says_otherwise(self):
        self.assertTrue(figures.Ratio(1.5, 0.9, 2).hidden())
        self.assertTrue(figures.Ratio(1.5, 1, 2).hidden())
        self.assertFalse(figures.Ratio(1.5, 1.1, 2).hidden())
        self.assertFalse(figures.Ratio(0.5, 0.4, 0.9).hidden())

    def test_median_and_spread(self):
        self.assertEqual(figures.median([3, None, 1, 2]), 2)
        self.assertEqual(figures.spread([3, None, 1, 2]), (1, 3))

    def test_the_best_peer_is_neither_eccl_nor_the_probe(self):
        results = made_up(eccl=[1], probe=[1], cma=[2], openmpi=[5], mpich=[4, 4], gloo=[None])
        self.assertEqual(results.best_peer(*WHERE), "mpich")
        self.assertEqual(results.speed(*WHERE, "eccl", "best peer"), (4, 4, 4))
        self.assertEqual(made_up(eccl=[1], ring=[3], cma=[2]).speed(*WHERE, "eccl", figures.PLAIN), (2, 2, 2))
        self.assertIsNone(made_up(eccl=[1], cma=[2]).speed(*WHERE, "eccl", figures.PLAIN))
        self.assertIsNone(made_up(eccl=[1]).speed(*WHERE, "eccl", "best peer"))

    def test_the_fastest_variant_counts_as_a_whole(self):
        results = made_up(eccl=[10, 10, 10])
        for repetition, (own, split) in enumerate([(6, 5), (1, 5), (6, 5)]):
            for variant, us in (("own", own), ("split", split)):
                results.add(repetition, *WHERE, "probe", variant, us=us)
        self.assertEqual(results.cell(*WHERE, "probe")["variant"], "split")
        self.assertEqual(results.speed(*WHERE, "eccl", "probe"), (0.5, 0.5, 0.5))

    def test_a_missed_repetition_leaves_a_gap(self):
        results = made_up(eccl=[1])
        results.add(2, *WHERE, "eccl", us=3)
        self.assertEqual(results.times(*WHERE, "eccl"), [1, None, 3])

    def test_a_reason_stands_where_there_is_no_time(self):
        results = made_up(eccl=[1])
        results.add(0, *WHERE, "gloo", reason="unsupported: so it says")
        self.assertEqual(results.times(*WHERE, "gloo"), [])
        self.assertEqual(results.reason(*WHERE, "gloo"), "unsupported: so it says")

    def test_saved_and_loaded_it_is_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            results = made_up(eccl=[1, 2], probe=[None, 1])
            results.save(path)
            loaded = figures.Results.load(path)
        self.assertEqual(loaded.document, results.document)
        self.assertEqual(loaded.times(*WHERE, "eccl"), [1, 2])


class States(unittest.TestCase):
    """Times that were taken while the cores were near each other, or far from each other."""

    def results(self, *runs):
        """Of runs (contender, us, ns before, ns after), one in each repetition."""
        results = made_up()
        for contender in {run[0] for run in runs}:
            for repetition, (_, us, *apart) in enumerate(run for run in runs if run[0] == contender):
                results.add(repetition, *WHERE, contender, us=us, apart=None if None in apart else apart)
        return results

    def test_distances_a_factor_apart_are_different_states(self):
        self.assertEqual(self.results(("eccl", 1, 50, 60), ("eccl", 1, 75, 70), ("eccl", 9, 250, 300)).states(),
                         [(50, 75), (250, 300)])
        self.assertEqual(self.results(("eccl", 1, 50, 60), ("eccl", 9, 250, 300), ("eccl", 9, 260, 250)).states()[0],
                         (250, 300), "the one with most times is first")
        self.assertEqual(self.results(("eccl", 1, None, None)).states(), [])

    def test_a_time_during_which_the_state_changed_is_of_none(self):
        results = self.results(("eccl", 1, 50, 60), ("eccl", 5, 50, 300), ("eccl", 9, 300, 300))
        self.assertEqual(results.states(), [(50, 60), (300, 300)])
        self.assertEqual(results.state((50, 60)).times(*WHERE, "eccl"), [1, None, None])
        self.assertEqual(results.state((300, 300)).times(*WHERE, "eccl"), [None, None, 9])

    def test_ratios_are_of_one_state(self):
        results = self.results(("eccl", 1, 50, 50), ("eccl", 10, 300, 300), ("eccl", 1, 50, 50),
                               ("mpich", 2, 50, 50), ("mpich", 5, 300, 300), ("mpich", 20, 300, 300))
        self.assertEqual(results.state((50, 50)).speed(*WHERE, "eccl", "mpich"), (2, 2, 2))
        self.assertEqual(results.state((300, 300)).speed(*WHERE, "eccl", "mpich"), (0.5, 0.5, 0.5))

    def test_each_has_its_tables(self):
        text = report.markdown(self.results(("eccl", 1, 50, 50), ("eccl", 10, 300, 300), ("eccl", 5, 50, 300)), [])
        self.assertIn("# Cores 50 to 50 ns apart: 1 of 3 times", text)
        self.assertIn("# Cores 300 to 300 ns apart: 1 of 3 times", text)
        self.assertIn("1 of 3 times are of none", text)
        self.assertIn("| 64 KiB | 10.0 |", text)
        rare = self.results(*[("eccl", 1, 50, 50)] * 30, ("eccl", 10, 300, 300))
        self.assertNotIn("300 ns apart", report.markdown(rare, []))
        self.assertIn("1 of 31 times are of none", report.markdown(rare, []))
        text = report.markdown(self.results(("eccl", 1, 50, 50), ("eccl", 10, 60, 60)), [])
        self.assertIn("The first two cores were 50 to 60 ns apart", text)
        self.assertEqual(text.count("## Times"), 1)
        self.assertEqual(report.markdown(made_up(eccl=[1, 2]), []).count("apart"), 0)

    def test_regressions_are_of_one_state(self):
        near = ("eccl", 1, 50, 50), ("probe", 1, 50, 50)
        far = ("eccl", 9, 300, 300), ("probe", 1, 300, 300)
        self.assertEqual(check.regressions(self.results(*far), self.results(*near)), ([], 0))
        self.assertEqual(check.regressions(self.results(*near), self.results(*near)), ([], 1))
        self.assertEqual(len(check.regressions(self.results(*far), made_up(eccl=[1], probe=[1]))[0]), 1)

    @unittest.skipUnless(PROGRAMS, "no programs")
    def test_the_distance_is_measured(self):
        distance = session.apart(PROGRAMS)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertGreater(distance, 5)
            self.assertLess(distance, 1e6)
        one = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.execv(sys.argv[1], sys.argv[1:])"
        done = subprocess.run([sys.executable, "-c", one, os.path.join(PROGRAMS, "compare_apart")],
                              stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.stdout, "0\n")


class Words(unittest.TestCase):
    def test_sizes(self):
        for text, size in (("8", 8), ("64K", 65536), ("64KiB", 65536), ("1m", 1 << 20), ("3G", 3 << 30), ("16B", 16)):
            self.assertEqual(words.bytes_of(text), size)
        self.assertEqual([words.bytes_in_words(size) for size in (8, 1000, 1024, 65536, 3 << 20)],
                         ["8 B", "1000 B", "1 KiB", "64 KiB", "3 MiB"])
        for wrong in ("", "K", "8X", "1.5K"):
            with self.assertRaises(ValueError):
                words.bytes_of(wrong)

    def test_times_and_ratios(self):
        self.assertEqual([words.microseconds(us) for us in (0.567, 12.34, 1234.5)], ["0.57", "12.3", "1,234"])
        self.assertEqual([words.times_as_fast(ratio) for ratio in (12.346, 0.123, 0.0123)], ["12.35", "0.12", "0.012"])


class Session(unittest.TestCase):
    def test_sizes_are_whole_floats_for_each_rank(self):
        self.assertEqual(session.fitting("all_reduce", 8, [2, 8, 10]), [8])
        self.assertEqual(session.fitting("all_gather", 8, [8, 32, 100]), [32, 96])

    def test_the_telling_line_is_the_reason(self):
        self.assertEqual(session.sentence("x\nECCL: rank 1 is lost\nmpirun: aborted\n"), "ECCL: rank 1 is lost")
        self.assertEqual(session.sentence("x\ny\n\n"), "y")
        self.assertEqual(session.sentence(""), "no message")


class Targets(unittest.TestCase):
    def evaluate(self, results, **changes):
        fields = dict(operations=("all_reduce",), ranks=(2,), sizes=targets.FROM_64K, contender="eccl",
                      against=targets.PEER, least=2)
        return targets.evaluate(targets.Target(**{**fields, **changes}), results)

    def test_reached(self):
        self.assertEqual(str(self.evaluate(made_up(eccl=[1, 1], gloo=[2, 2]))), "PASS")

    def test_short_and_by_how_much(self):
        verdict = self.evaluate(made_up(eccl=[2, 2, 2], gloo=[2, 2, 2.4]))
        self.assertEqual(str(verdict), "short in 1 of 1: 1.00 x at 64 KiB, 50 % of the target")
        self.assertIn("within the spread", str(self.evaluate(made_up(eccl=[2, 2, 1], gloo=[2, 2, 2]))))

    def test_what_the_machine_does_not_allow_is_told(self):
        def words(least, **times):
            return str(self.evaluate(made_up(gloo=[6], **times), least=least))
        self.assertEqual(words(3, eccl=[4], probe=[2.5]),
                         "short in 1 of 1 (in 1 the probe is, too): 1.50 x at 64 KiB, 50 % of the target")
        self.assertEqual(words(3, eccl=[4], probe=[2]), "short in 1 of 1: 1.50 x at 64 KiB, 50 % of the target")
        self.assertNotIn("too", words(3, eccl=[4]))
        self.assertIn("(in 1 the plain limit is, too)",
                      str(self.evaluate(made_up(gloo=[6], eccl_plain=[4], ring=[3], cma=[9]), contender="eccl-plain", least=3)))
        self.assertNotIn("too", str(self.evaluate(made_up(eccl=[4], probe=[2.5]), against="probe", least=1)))

    def test_not_slower_means_not_in_every_repetition(self):
        self.assertEqual(str(self.evaluate(made_up(eccl=[3, 3, 2], gloo=[2, 2, 2]), least=None)), "PASS")
        self.assertIn("0.67 x", str(self.evaluate(made_up(eccl=[3, 3, 3], gloo=[2, 2, 2]), least=None)))

    def test_other_cells_do_not_count(self):
        results = made_up(eccl=[9], gloo=[1])
        for changes in (dict(ranks=(4,)), dict(operations=("broadcast",)), dict(sizes=range(8, 257)),
                        dict(applies=lambda *_: False), dict(against="mpich")):
            self.assertEqual(str(self.evaluate(results, **changes)), "not measured")

    def test_the_condition_on_the_probe(self):
        self.assertTrue(targets.probe_is_five_times_a_peer(made_up(probe=[1], gloo=[5]), *WHERE))
        self.assertFalse(targets.probe_is_five_times_a_peer(made_up(probe=[1], gloo=[4.9]), *WHERE))
        self.assertFalse(targets.probe_is_five_times_a_peer(made_up(probe=[1]), *WHERE))

    def test_each_has_words_of_its_own(self):
        self.assertEqual(len({str(target) for target in targets.TARGETS}), len(targets.TARGETS))
        self.assertEqual(str(targets.TARGETS[0]), "AllReduce: eccl, 2 ranks, from 64 KiB: 0.85 x probe")


class Report(unittest.TestCase):
    def test_rows(self):
        results = made_up(eccl=[2, 2.2], eccl_plain=[3, 3], openmpi=[8, 8.8], mpich=[9, 9], probe=[2.5, 2])
        results.add(0, *WHERE, "gloo", reason="unsupported: so it says")
        text = report.markdown(results, [])
        self.assertIn("| 64 KiB | 2.10 (2.00–2.20) | 3.00 | **8.40 (8.00–8.80)** | 9.00 | 2.25 (2.00–2.50) | unsupported"
                      " | 4.00 | 2.80 | ~1.08 | - |", text)
        self.assertIn("gloo: unsupported: so it says", text)

    def test_what_is_missing_or_wrong_is_said_first(self):
        text = report.markdown(made_up(eccl=[1]), [])
        for line in ("**gloo is left out:** no apt", "**FAILED** mpich: wrong", "abacus"):
            self.assertLess(text.index(line), text.index("## Summary"))

    def test_failures_are_not_taken_for_gaps(self):
        results = made_up(eccl=[1])
        results.add(0, *WHERE, "gloo", reason="wrong result: 65536 bytes")
        self.assertIn("| FAILED |", report.markdown(results, []))


class SideBySide(unittest.TestCase):
    def run_of(self, name, day, **times):
        results = made_up(**times)
        results.document["machine"] = {"processor": name + ", 2 cores", "date": "2026-12-%sT10:00" % day,
                                       "memory": "16 GiB", "ECCL": "abc"}
        return "/results/%s/compare.json" % name, results

    def page(self):
        return side_by_side.markdown([self.run_of("abacus", "01", eccl=[2, 2], openmpi=[4, 4]),
                                      self.run_of("slide rule", "02", eccl=[2], openmpi=[1], probe=[1])], "/results")

    def test_each_machine_has_its_row(self):
        page = self.page()
        self.assertIn("| [abacus](abacus/compare.md) | 2026-12-01 | 16 GiB | abc |", page)
        self.assertIn("| eccl : best peer, abacus | 2.00 |\n| eccl : best peer, slide rule | 0.50 |\n"
                      "| eccl : probe, slide rule | 0.50 |\n", page)
        self.assertNotIn("eccl : probe, abacus", page)

    def test_each_target_has_a_verdict_on_each_machine(self):
        self.assertIn("| not measured | short in 1 of 1: 0.50 x at 64 KiB, 59 % of the target |", self.page())

    def test_runs_of_one_machine_are_told_apart_by_the_day(self):
        runs = [self.run_of("abacus", day, eccl=[1]) for day in ("01", "02")]
        self.assertEqual([column.name for column in side_by_side.columns(runs)],
                         ["abacus, 2026-12-01", "abacus, 2026-12-02"])

    def test_states_that_the_machine_was_in_often_are_apart_and_others_left_out(self):
        path, results = self.run_of("abacus", "01")
        for repetition, distance in enumerate(5 * [90] + 3 * [300] + [900]):
            results.add(repetition, *WHERE, "eccl", us=distance, apart=[distance, distance])
        near, far = side_by_side.columns([(path, results)])
        self.assertEqual([near.name, far.name], ["abacus, 90–90 ns", "abacus, 300–300 ns"])
        self.assertEqual([time for time in far.results.times(*WHERE, "eccl") if time], [300, 300, 300])


class Check(unittest.TestCase):
    def regressions(self, now, earlier):
        return check.regressions(made_up(**now), made_up(**earlier))

    def test_slower_machines_are_no_regressions(self):
        self.assertEqual(self.regressions(dict(eccl=[20, 22], probe=[10, 11]), dict(eccl=[2, 2], probe=[1, 1])), ([], 1))

    def test_worse_ratios_are(self):
        found, compared = self.regressions(dict(eccl=[3, 3], probe=[1, 1.2]), dict(eccl=[2, 2], probe=[1, 1]))
        self.assertEqual(compared, 1)
        self.assertEqual(found, ["AllReduce, 2 ranks, 64 KiB, eccl: 0.37 of the probe (0.33 to 0.40), "
                                 "was 0.50 (0.50 to 0.50)"])

    def test_the_spread_excuses(self):
        self.assertEqual(self.regressions(dict(eccl=[3, 3], probe=[1, 1.5]), dict(eccl=[2, 2], probe=[1, 1])), ([], 1))
        self.assertEqual(self.regressions(dict(eccl=[3], probe=[1]), dict(eccl=[2, 3], probe=[1, 1])), ([], 1))

    def test_cells_of_one_run_only_do_not_count(self):
        self.assertEqual(self.regressions(dict(eccl=[3], probe=[1]), dict(eccl_plain=[2], probe=[1])), ([], 0))


class Wheels(unittest.TestCase):
    """Pip is told to look into a folder, not at the index."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        wheels.FOLDER = os.path.join(self.folder.name, "peers")
        os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=self.folder.name)
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS")])
        with zipfile.ZipFile(os.path.join(self.folder.name, "peer-1.0-py3-none-any.whl"), "w") as wheel:
            for name, text in (("peer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: peer\nVersion: 1.0\n"),
                               ("peer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"),
                               ("peer-1.0.dist-info/RECORD", ""), ("peer/__init__.py", "")):
                wheel.writestr(name, text)
            program = zipfile.ZipInfo("peer-1.0.data/data/bin/run")
            program.external_attr = 0o755 << 16
            wheel.writestr(program, "#!/bin/sh\necho it runs\n")

    @unittest.skipUnless(importlib.util.find_spec("pip"), "no pip")
    def test_their_programs_can_be_run(self):
        self.assertEqual(wheels.fetch("peer", "peer==1.0"), "")
        done = subprocess.run([wheels.path("peer", "bin/run")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout, "it runs\n")
        self.assertEqual(os.listdir(wheels.path("peer")), ["bin"])

    @unittest.skipUnless(importlib.util.find_spec("pip"), "no pip")
    def test_only_the_part_that_is_wanted_is_unpacked(self):
        self.assertEqual(wheels.fetch("peer", "peer==1.0", "lib/"), "")
        self.assertFalse(os.path.exists(wheels.path("peer")))

    @unittest.skipUnless(importlib.util.find_spec("pip"), "no pip")
    def test_their_modules_can_be_imported(self):
        self.assertEqual(wheels.install("peer", "peer==1.0"), "")
        done = subprocess.run([sys.executable, "-c", "import peer; print(peer.__file__)"], stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": wheels.path("peer")}, text=True)
        self.assertTrue(done.stdout.startswith(wheels.path("peer")), done.stdout)

    def test_one_that_is_not_to_be_had_is_a_sentence(self):
        self.assertIn("pip download peer==2.0: ", wheels.fetch("peer", "peer==2.0"))
        self.assertIn("pip install peer==2.0: ", wheels.install("peer", "peer==2.0"))

    def test_after_one_that_is_not_to_be_had_no_other_is_fetched(self):
        said = []
        left_out = build.fetch_wheels(["oneccl"], said.append)
        self.assertEqual(said, ["fetching oneccl-cpu==2022.2.0"])
        self.assertIn("oneccl-cpu==2022.2.0", left_out["oneccl"])

    def test_modules_that_are_not_to_be_had_leave_the_peer_out(self):
        self.assertIn("pip install torch", build.install_modules(["gloo2"], lambda _: None)["gloo2"])


class Contenders(unittest.TestCase):
    def test_every_peer_has_a_title_and_a_style(self):
        for peer in contenders.PEERS:
            self.assertTrue(words.titled(peer))
            if importlib.util.find_spec("matplotlib"):
                import plot
                self.assertIn(peer, plot.STYLES)

    def test_gigabytes_are_not_fetched_unasked(self):
        self.assertEqual([peer for peer in contenders.PEERS if peer not in contenders.USUAL_PEERS], ["gloo2"])

    def test_what_is_required_has_a_name(self):
        for peer in contenders.PEERS:
            self.assertTrue(contenders.ALL[peer].required(), peer)
            self.assertTrue(os.path.exists(os.path.join(COMPARE, contenders.ALL[peer].source)), peer)
        self.assertEqual(contenders.ALL["gloo2"].required(), ["torch==2.15.0"])

    def test_another_gloo_does_not_pass_for_the_newer_one(self):
        with tempfile.TemporaryDirectory() as other, tempfile.TemporaryDirectory() as own:
            for folder in (other, own):
                os.makedirs(os.path.join(folder, "torch", "distributed"))
                open(os.path.join(folder, "torch", "__init__.py"), "w").close()
                with open(os.path.join(folder, "torch", "distributed", "__init__.py"), "w") as file:
                    file.write("is_gloo_available = lambda: True\n")
            environment = {"PYTHONPATH": other}
            with unittest.mock.patch.dict(os.environ, environment):
                self.assertTrue(contenders.gloo("g").present())
                self.assertTrue(contenders.gloo("g", own).present())
                self.assertFalse(contenders.gloo("g", os.path.join(own, "empty")).present())


class GlooLoop(unittest.TestCase):
    def test_its_structures_have_the_fields_of_the_headers(self):
        """It cannot be imported without PyTorch."""
        with open(os.path.join(COMPARE, "gloo_loop.py")) as file:
            loop = file.read()
        for header, structure in (("loop.h", "Loop"), ("task.h", "Task"), ("loop.h", "Contender")):
            with open(os.path.join(COMPARE, header)) as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
            body = re.search(r"typedef struct \{([^{}]*)\} %s;" % structure, text).group(1)
            fields = [name for line in body.split(";") for name in
                      re.findall(r"\(\*(\w+)\)", line) or re.findall(r"(\w+)\s*(?:,|$)", line.strip())]
            python = re.search(r"class %s\(ctypes.Structure\):\s+_fields_ = \[(.*?)\]\n" % structure, loop, re.DOTALL)
            snake = [re.sub(r"[A-Z]", lambda letter: "_" + letter.group().lower(), field) for field in fields]
            self.assertEqual(re.findall(r'\("(\w+)"', python.group(1)), snake)


@unittest.skipUnless(PROGRAMS, "no programs")
class SmallRun(unittest.TestCase):
    def compare(self, folder, *arguments):
        return subprocess.run([sys.executable, os.path.join(COMPARE, "compare"), "--output", folder, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    def test_eccl_and_the_probe(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.compare(folder, "--programs", PROGRAMS, "--no-install", "--peers", "none", "--ops",
                                "all_reduce,sendrecv_bandwidth", "--ranks", "2", "--sizes", "8,64K", "--repetitions", "2",
                                "--seconds", "0.01")
            self.assertEqual(done.returncode, 0, done.stdout)
            path = os.path.join(folder, "compare.json")
            results = figures.Results.load(path)
            self.assertEqual(results.contenders(), ["eccl", "eccl-plain", "cma", "ring", "probe"])
            for operation in ("all_reduce", "sendrecv_bandwidth"):
                self.assertEqual(results.sizes(operation, 2), [8, 65536])
                for cell in results.cells.values():
                    if cell["contender"] == "cma" and (cell["reason"] or "").startswith("unsupported"):
                        continue  # this machine forbids it
                    self.assertEqual(len([us for us in cell["us"] if us > 0]), 2, cell)
                    self.assertGreaterEqual(min(cell["iterations"]), 5)
            self.assertTrue(os.path.getsize(os.path.join(folder, "compare.md")))
            beside = self.compare(folder, "--side-by-side", path + "," + path)
            self.assertEqual(beside.returncode, 0, beside.stdout)
            with open(os.path.join(folder, "side_by_side.md")) as page:
                self.assertGreaterEqual(page.read().count("](compare.md) |"), 2)  # some for each state
            again = self.compare(folder, "--from", path, "--check", path)
            self.assertEqual(again.returncode, 0, again.stdout)
            # Of each state that the machine was in at most eight.
            self.assertRegex(again.stdout, r"(?m)^0 of \d+ ratios to the probe got worse")

    def test_a_file_that_is_no_run_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path, other = os.path.join(folder, "list.json"), os.path.join(folder, "object.json")
            for its, text in (path, "[]"), (other, '{"machine": {}}'):
                with open(its, "w") as file:
                    file.write(text)
            for option in ("--from", "--side-by-side", "--check"):
                for wrong in (path, other, os.path.join(folder, "absent.json")):
                    done = self.compare(folder, option, wrong)
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertRegex(done.stdout, r"argument %s: %s: no compare.json" % (option, re.escape(wrong)))


unittest.main()
