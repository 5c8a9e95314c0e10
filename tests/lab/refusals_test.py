"""What becomes of a wrong fabric, a wrong command line and a machine that cannot: a sentence, never a half-made lab. And when
hosts_test.py is skipped and when it fails. With an `ip` in front of the real one that says what kernels say; no lab is made."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from netlab import cgroups, cli, fabric, faults, plan  # noqa: E402
from netlab.errors import LabError  # noqa: E402

# $1.. of ip, which says so and fails; anything else succeeds.
FAKE = '''#!/bin/sh
echo "$*" >> "%(log)s"
case "$*" in %(on)s) echo '%(says)s' >&2; exit %(code)d ;; esac
'''
TWO_SPINES = {"hosts": 4, "leaves": 2, "spines": 2}


def with_fake(folder, on, says, code, program, *arguments):
    """The exit code and output of a Python program as root, and the commands it gave to ip."""
    log = os.path.join(folder, "log")
    open(log, "w").close()
    for name in ("ip", "tc", "unshare", "nft"):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(FAKE % dict(log=log, on=on, says=says, code=code) if name == "ip" else "#!/bin/sh\n")
        os.chmod(path, 0o755)
    # Not root's business here: whether ip is asked at all.
    text = "import os, runpy, sys; os.geteuid = lambda: 0; sys.argv[1:] = %r; runpy.run_path(%r, run_name='__main__')" % (
        list(arguments), os.path.join(HERE, program))
    done = subprocess.run([sys.executable, "-c", text], env=dict(os.environ, PATH=folder + ":" + os.environ["PATH"]),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    with open(log) as file:
        return done.returncode, done.stdout, file.read()


class Skips(unittest.TestCase):
    def outcome(self, on, says, code):
        with tempfile.TemporaryDirectory() as folder:
            return with_fake(folder, on, says, code, "hosts_test.py", "none", "none")

    def test_a_kernel_that_refuses_is_a_reason(self):
        for says in ("mount --make-shared /run/netns failed: Invalid argument", 'mkdir /run/netns failed: Read-only file system',
                     "Open network namespace: Operation not permitted", "mount --bind failed: Permission denied"):
            code, output, asked = self.outcome('"netns add"*', says, 1)
            self.assertTrue(code == 0 and output.startswith("skipped: ") and says in output, output)
            self.assertIn("netns delete", asked)  # nothing is left, whatever was made
        code, output, _ = self.outcome('*"type bridge"*', "Error: Unknown device type.", 2)
        self.assertTrue(code == 0 and output.startswith("skipped: "), output)

    def test_what_no_kernel_says_is_a_failure(self):
        code, output, _ = self.outcome('"netns add"*', 'Cannot create namespace file "/run/netns/x": File exists', 1)
        self.assertTrue(code == 1 and "FAILED" in output and "File exists" in output and "skipped" not in output, (code, output))

    @unittest.skipIf(os.geteuid() != 0, "the record of a lab is written by root")
    def test_a_refusal_once_there_is_such_a_host_is_a_failure(self):
        says = "mount --make-shared /run/netns failed: Invalid argument"
        code, output, _ = self.outcome('"netns add"*-tor0', says, 1)
        self.assertTrue(code == 1 and "FAILED" in output and says in output and "skipped" not in output, (code, output))
        name = re.search(r"eccl-test-\d+", output).group()
        self.assertFalse([entry for entry in os.listdir("/run/eccl-lab") if entry.startswith(name)], output)


class Fabrics(unittest.TestCase):
    def refused(self, values, *words):
        with self.assertRaises(LabError) as caught:
            fabric.fabric_of(values, "x.json")
        said = str(caught.exception)
        for word in ("x.json", *words):
            self.assertIn(word, said)

    def test_every_key_and_value_is_checked(self):
        self.refused([], "JSON object")
        self.refused({}, "hosts", "missing")
        self.refused({"hosts": 2, "host": 3}, "host ", "no key", "spines")
        for key in fabric.KEYS:
            self.refused({"hosts": 2, key: {}}, key, "has to be")
        for key in fabric.RAIL_KEYS:
            self.refused({"hosts": 2, "rails": [{}, {key: "fast"}]}, "rails[1]." + key, "has to be")
        for wrong in (0, 129, 2.5, True, None, "2"):
            self.refused({"hosts": wrong}, "hosts", "from 1 to 128")
        self.refused({"hosts": 2, "rails": [{"rate": 0.5}]}, "rails[0].rate", "0 (as fast as the machine) or", "from 1 to 100000")
        self.refused({"hosts": 2, "rails": [{"rate": float("nan")}]}, "rails[0].rate")
        self.refused({"hosts": 2, "rails": []}, "rails", "1 to 16")
        self.refused({"hosts": 2, "rails": [{"speed": 1}]}, "rails[0].speed", "no key", "mtu")

    def test_keys_that_do_not_fit_each_other(self):
        self.refused({"hosts": 2, "ranks": [1, 2, 3]}, "ranks", "3 entries for 2 hosts")
        self.refused({"hosts": 2, "ranks": 3, "rails": [{}, {}], "nic_per_rank": True}, "nic_per_rank", "2")
        self.refused({"hosts": 2, "leaves": 3, "spines": 1}, "leaves", "2")
        self.refused({"hosts": 2, "leaves": 2}, "spines has to be 1")
        self.refused({"hosts": 2, "ecmp": True}, "spines has to be 1")
        self.refused({**TWO_SPINES, "ecmp": False, "hash_seed": 3}, "hash_seed", "ecmp")
        self.refused({**TWO_SPINES, "oversubscription": 2}, "oversubscription", "rate")
        self.refused({"hosts": 128, "leaves": 64, "spines": 1, "rails": [{}, {}]}, "128 ToRs", "64")

    def test_files(self):
        with self.assertRaisesRegex(LabError, "nowhere: there is no such file, and no such fabric that ships: .*two-rails"):
            fabric.load("nowhere")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            for text, word in (("{", "is not JSON"), ('{"hosts": 0}', "hosts"), ("\xff", "cannot be read")):
                with open(path, "w", encoding="latin-1") as file:
                    file.write(text)
                with self.assertRaisesRegex(LabError, "x.json.*" + word):
                    fabric.load(path)

    def test_what_ships_says_what_it_is(self):
        self.assertGreaterEqual(len(fabric.shipped()), 7)
        for name in fabric.shipped():
            self.assertTrue(fabric.load(name).about, name)


class Plans(unittest.TestCase):
    def test_uplinks_share_what_the_oversubscription_leaves(self):
        made = plan.Plan("x", fabric.load("rail-spine"))
        uplinks = [link.rate for link in made.links if link.spine is not None]
        self.assertEqual(len(uplinks), 4)
        for rate in uplinks:
            self.assertAlmostEqual(rate, 4 * 100 / 2.27)

    def test_hosts_are_spread_over_leaves_and_links_found_by_node(self):
        made = plan.Plan("x", fabric.fabric_of(TWO_SPINES, "x"))
        self.assertEqual([made.address(host, 0) for host in range(4)], ["10.77.0.1", "10.77.0.2", "10.77.1.3", "10.77.1.4"])
        for node, links in (("1", ["1:0"]), ("spine1", ["tor0:spine1", "tor1:spine1"]), ("tor1:spine0", ["tor1:spine0"]),
                            ("tor1", ["2:0", "3:0", "tor1:spine0", "tor1:spine1"])):
            self.assertEqual([link.name for link in made.links_at(node)], links)
        for wrong in ("4", "0:1", "spine2", "tor0:spine9", "", "e0"):
            with self.assertRaisesRegex(LabError, "links are HOST:RAIL or torT:spineS, nodes 0 to 3"):
                made.links_at(wrong)

    def test_routes_avoid_a_spine_with_a_dead_link(self):
        made = plan.Plan("x", fabric.fabric_of(TWO_SPINES, "x"))
        routes = dict(made.switch_routes(down={"tor1:spine0"}))
        self.assertEqual(routes["x-tor0"], ["route replace 10.77.1.0/24 nexthop via 10.78.0.6 dev u1 weight 1"])
        self.assertEqual(dict(made.switch_routes(down={"tor1:spine0", "tor1:spine1"}))["x-tor0"],
                         ["route replace unreachable 10.77.1.0/24"])


class ControlGroups(unittest.TestCase):
    def test_version_2_and_none(self):
        """This machine may have version 1, which faults_test.py uses then."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(cgroups, "_mounts") as mounts:
            mounts.return_value = []
            with self.assertRaisesRegex(LabError, "needs control groups with the cpu controller, version 1 or 2; none is mounted"):
                cgroups.slow("x", 1, 10, [])
            mounts.return_value = [(folder, "cgroup2", [])]
            with open(os.path.join(folder, "cgroup.controllers"), "w") as file:
                file.write("memory cpu\n")
            cgroups.slow("x", 1, 25, [7])
            group = os.path.join(folder, "eccl-lab-x-1")
            for path, content in ((folder + "/cgroup.subtree_control", "+cpu"), (group + "/cpu.max", "25000 100000"), (group + "/cgroup.procs", "7")):
                with open(path) as file:
                    self.assertEqual(file.read(), content)
            self.assertEqual((cgroups.members("x", 1), cgroups.members("x", 0)), (group + "/cgroup.procs", None))


class CommandLines(unittest.TestCase):
    def said(self, *arguments):
        done = subprocess.run([sys.executable, os.path.join(HERE, "lab"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        return done.returncode, done.stdout

    def test_every_command_has_a_help(self):
        for command in ((), ("up",), ("run",), ("fault",), ("down",), ("show",)):
            code, output = self.said(*command, "--help")
            self.assertTrue(code == 0 and "usage: lab" in output, output)
        for kind in faults.KINDS:
            self.assertIn(faults.usage(kind), self.said("fault", "--help")[1])

    def test_wrong_ones_are_refused(self):
        for arguments, words in ((("up", "--name", "a/b", "--hosts", "2"), "no name of a lab"), (("fault", "melt", "1"), "invalid choice"),
                                 (("run", "--timeout", "-1", "--", "true"), "above 0"), ((), "COMMAND")):
            code, output = self.said(*arguments)
            self.assertTrue(code == 2 and words in output and "Traceback" not in output, output)

    def test_without_root_or_programs_it_says_so(self):
        done = subprocess.run([sys.executable, "-c", "import os, sys; os.geteuid = lambda: 1; sys.path.insert(0, %r)\n"
                               "from netlab.cli import main; sys.exit(main(['up', '--hosts', '2']))" % HERE],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, "lab: network namespaces need root; run it with sudo\n"))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", "import os, sys; os.geteuid = lambda: 0; sys.path.insert(0, %r)\n"
                                   "from netlab.cli import main; sys.exit(main(['up', '--hosts', '2']))" % HERE],
                                  env=dict(os.environ, PATH=folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout),
                         (2, "lab: ip is not installed; install Debian's package iproute2, or what holds it here\n"))

    def test_values_of_faults(self):
        for kind, texts, words in (("rate", [], "rate LINK MBIT"), ("rate", ["0"], "from 1 to 100000"), ("loss", ["much"], "a number"),
                                   ("down", ["3"], "down LINK"), ("delay", ["1", "2", "3"], r"delay LINK MS \[JITTER_MS\]")):
            with self.assertRaisesRegex(LabError, words):
                faults._values(kind, texts)

    def test_the_short_form_is_a_fabric(self):
        options = cli.parser().parse_args(["up", "--hosts", "3", "--rails", "2", "--rate", "200", "--ranks", "2"])
        made = cli.fabric_of(options)
        self.assertEqual((made.hosts, made.ranks, [rail.rate for rail in made.rails]), (3, (2, 2, 2), [200, 200]))
        with self.assertRaisesRegex(LabError, "--hosts is said by the fabric two-rails"):
            cli.fabric_of(cli.parser().parse_args(["up", "two-rails", "--hosts", "3"]))
        with self.assertRaisesRegex(LabError, "the command line: hosts is 0"):
            cli.fabric_of(cli.parser().parse_args(["up", "--hosts", "0"]))


if __name__ == "__main__":
    unittest.main()
