"""eccl_topo as its users run it: arguments are the program, the project's folder."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

TOPO, PROJECT = sys.argv[1:3]
del sys.argv[1:3]
DATA = os.path.join(PROJECT, "tests/topology/data")
FILES = sorted(name for name in os.listdir(DATA) if name.endswith(".xml"))
try:
    import jsonschema
except ImportError:
    jsonschema = None


def run(*arguments, code=0):
    done = subprocess.run([TOPO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError("eccl_topo %s: exit code %d, not %d\n%s%s" % (" ".join(arguments), done.returncode, code,
                                                                         done.stdout, done.stderr))
    return done.stderr if code > 1 else done.stdout


def data(name):
    return os.path.join(DATA, name)


class OfFiles(unittest.TestCase):
    def test_dump_and_load_again(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in FILES:
                for form in ("xml", "json"):
                    copy = os.path.join(folder, name + "." + form)
                    run("dump", "-f", data(name), "--format", form, "-o", copy)
                    self.assertEqual(run("diff", data(name), copy), "", name)
                    self.assertEqual(run("dump", "-f", copy), run("dump", "-f", data(name)), name)

    def test_the_schema_holds(self):
        if jsonschema is None:
            self.skipTest("python3-jsonschema is not installed")
        with open(os.path.join(PROJECT, "docs/topology.schema.json")) as file:
            validator = jsonschema.Draft7Validator(json.load(file))
        for name in FILES:
            validator.validate(json.loads(run("show", "--json", "-f", data(name))))
        validator.validate(json.loads(run("show", "--json")))

    def test_show(self):
        shown = run("show", "-f", data("amd_topo_4p3l_n2.xml"))
        self.assertEqual(shown.count("  accelerator "), 8)
        self.assertEqual(shown.count("xGMI"), 24)
        self.assertIn("   └─ mlx5_0  200 Gb/s\n", shown)
        self.assertIn("between CPUs: ", shown)

    def test_pictures_are_xml_with_every_device(self):
        for name in FILES:
            picture = xml.dom.minidom.parseString(run("draw", "-f", data(name)))
            texts = [node.firstChild.data for node in picture.getElementsByTagName("text")]
            host = json.loads(run("show", "--json", "-f", data(name)))
            for device in host["devices"]:
                if device["kind"] in ("accelerator", "nic"):
                    self.assertIn(device["name"], texts, name)

    def test_paths(self):
        paths = json.loads(run("paths", "--json", "-f", data("azure_ndv4.xml")))
        between = {(path["from"], path["to"]): path for path in paths}
        self.assertEqual(between["0003:00:00.0", "0004:00:00.0"]["type"], "PIX")
        self.assertEqual(between["0003:00:00.0", "0001:00:00.0"]["type"], "SYS")
        self.assertEqual(between["0103:00:00.0", "0003:00:00.0"]["type"], "PIX")
        table = run("paths", "-f", data("azure_ndv4.xml"))
        self.assertIn("[0] 0003:00:00.0, accelerator\n", table)
        self.assertEqual(table.count("LOC"), 20)

    def test_search(self):
        found = json.loads(run("search", "--json", "-f", data("amd_topo_8p6l.xml")))
        self.assertEqual(len(found["participants"]), 8)
        self.assertEqual(len(found["trees"]["trees"]), 8 * found["trees"]["channels"])
        for tree in found["trees"]["trees"]:
            self.assertEqual({branch[-1] for branch in tree["branches"]} | {tree["root"]}, set(found["participants"]))
        self.assertGreaterEqual(found["trees"]["ofBound"], 0.95)
        for ring in found["rings"]["rings"]:
            self.assertEqual(set(ring) & set(found["participants"]), set(found["participants"]))
        self.assertIn("trees: 1 channel, ", run("search", "-f", data("amd_topo_8p6l.xml"), "--channels", "1"))

    def test_differences(self):
        lines = run("diff", data("amd_topo_8p6l.xml"), data("amd_topo_8p6l_3nic.xml"), code=1).splitlines()
        self.assertIn("added    0000:2a:00.0", lines)
        self.assertIn("changed  mlx5_0: parent: 0000:9a:00.0, then 0000:1a:00.0", lines)
        self.assertTrue(json.loads(run("diff", "--json", data("amd_topo_8p6l.xml"), data("amd_topo_8p6l_3nic.xml"), code=1)))


class OfClusters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "cluster.json")
        run("clos", "-f", data("amd_topo_4p3l_n2.xml"), "--hosts", "12", "--pod", "4", "--radix", "8", "--oversubscription", "2",
            "-o", cls.file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_dump_and_load_again(self):
        with open(self.file) as file:
            self.assertEqual(run("dump", "-f", self.file), file.read())

    def test_the_schema_holds(self):
        if jsonschema is None:
            self.skipTest("python3-jsonschema is not installed")
        schemas = []
        for name in ("cluster.schema.json", "topology.schema.json"):
            with open(os.path.join(PROJECT, "docs", name)) as file:
                schemas.append(json.load(file))
        cluster, host = schemas
        # The host's schema goes inside, as versions of jsonschema differ in how they find other files.
        text = json.dumps(host).replace("#/$defs/", "#/$defs/host/$defs/")
        cluster["$defs"]["host"] = json.loads(text)
        cluster = json.loads(json.dumps(cluster).replace('"topology.schema.json"', '"#/$defs/host"'))
        validator = jsonschema.Draft7Validator(cluster)
        shown = json.loads(run("show", "--json", "-f", self.file))
        validator.validate(shown)
        shown["types"] = [{"name": shown["types"][0]["name"], "file": "host.xml"}]
        validator.validate(shown)
        for member, wrong in (("hosts", [{"type": "x"}]), ("types", [{"file": "x"}]), ("links", [{"from": "a", "to": "b", "gigabytes": 0}]),
                              ("colour", 1)):
            self.assertFalse(validator.is_valid(dict(shown, **{member: wrong})), member)

    def test_show(self):
        shown = run("show", "-f", self.file)
        self.assertIn("12 hosts node0 to node11: ", shown)
        self.assertIn("tier 1: 3 switches of 8 ports\n", shown)
        self.assertIn("tier 1 to tier 2: 6 cables of 25 GB/s, 150 GB/s in all\n", shown)

    def test_paths(self):
        paths = json.loads(run("paths", "--json", "-f", self.file))
        self.assertEqual({path["from"].split("/")[0] for path in paths}, {"node0"})
        self.assertEqual(sum(path["count"] for path in paths), 8 * 11 * 8)
        self.assertEqual({path["switches"] for path in paths}, {1, 3})
        one = json.loads(run("paths", "--json", "-f", self.file, "--from", paths[0]["to"]))
        self.assertEqual(sum(path["count"] for path in one), 11 * 8)
        self.assertIn("narrowest link", run("paths", "-f", self.file, "--from", "node3"))

    def test_search(self):
        found = json.loads(run("search", "--json", "-f", self.file))
        self.assertEqual(found["rings"]["channels"], 1)
        self.assertEqual(len(found["rings"]["hosts"]), 12)
        self.assertLessEqual(found["rings"]["ofBound"], 1)
        self.assertEqual(found["rings"]["gigabytesEach"], found["rings"]["ofBound"] * found["bound"]["gigabytesEach"])
        self.assertIn("rings on rails: 1 channel of ", run("search", "-f", self.file))

    def test_the_picture_is_xml_with_every_tier(self):
        picture = xml.dom.minidom.parseString(run("draw", "-f", self.file))
        texts = [node.firstChild.data for node in picture.getElementsByTagName("text")]
        for words in ("node0 to node3", "leaf0.0", "oversubscribed 2:1", "4 cables, 100 GB/s"):
            self.assertIn(words, texts)

    def test_hosts_come_from_files_beside_it(self):
        path = os.path.join(self.folder.name, "two.json")
        run("dump", "-f", data("amd_topo_8p6l.xml"), "-o", os.path.join(self.folder.name, "host.xml"))
        with open(path, "w") as file:
            json.dump({"format": "eccl-cluster", "version": 1, "types": [{"name": "t", "file": "host.xml"}],
                       "hosts": [{"name": "n", "count": 2, "type": "t"}]}, file)
        self.assertIn("2 hosts n0 to n1: t, ", run("show", "-f", path))
        self.assertIn("nothing is known of the network", run("show", "-f", path))

    def changed(self, change):
        """What diff tells where that has been done to the cluster's JSON."""
        with open(self.file) as file:
            cluster = json.load(file)
        change(cluster)
        path = os.path.join(self.folder.name, "changed.json")
        with open(path, "w") as file:
            json.dump(cluster, file)
        lines = run("diff", self.file, path, code=1).splitlines()
        found = json.loads(run("diff", "--json", self.file, path, code=1))
        self.assertEqual(len(found), len(lines))
        back = json.loads(run("diff", "--json", path, self.file, code=1))
        opposite = {"added": "removed", "removed": "added", "changed": "changed"}
        self.assertEqual([(line["what"], line["before"], line["after"]) for line in found if line["what"] == "changed"],
                         [(line["what"], line["after"], line["before"]) for line in back if line["what"] == "changed"])
        self.assertEqual(sorted(line["what"] for line in found), sorted(opposite[line["what"]] for line in back))
        return lines

    def test_clusters_differ(self):
        self.assertEqual(run("diff", self.file, self.file), "")
        self.assertEqual(json.loads(run("diff", "--json", self.file, self.file)), [])

        def slower(cluster):
            link = cluster["links"][0]
            self.assertEqual((link["from"], link["gigabytes"]), ("leaf0.0", 25))
            link["gigabytes"] = 12.5
        self.assertEqual(self.changed(slower), ["changed  link from leaf0.0 to spine0: gigabytes: 25.0, then 12.5"])

        def rail(cluster):
            cluster["switches"][1]["rail"] = 7
        self.assertEqual(self.changed(rail), ["changed  switch leaf1.0: rail: 0, then 7"])

        def cable(cluster):
            cluster["hosts"][0]["uplinks"][0].update(gigabytes=3, switch="leaf2.0")
            cluster["hosts"][0]["count"] = 1
            cluster["hosts"].insert(1, dict(cluster["hosts"][1], count=3, first=1,
                                            uplinks=[dict(cluster["hosts"][1]["uplinks"][0], switch="leaf0.0")]))
        self.assertEqual(self.changed(cable), ["changed  cable of node0/mlx5_0: switch: leaf0.0, then leaf2.0",
                                               "changed  cable of node0/mlx5_0: gigabytes: 25.0, then 3.0"])

        def grown(cluster):
            cluster["switches"].append({"name": "spine1", "tier": 2})
            cluster["links"].append({"from": "spine1", "to": "leaf0.0", "gigabytes": 50})
            cluster["ranks"] = [{"host": "node2", "devices": ["0000:43:00.0"]}]
        self.assertEqual(self.changed(grown), ["added    link from leaf0.0 to spine1", "added    rank 0", "added    switch spine1"])

    def test_hosts_of_clusters_differ(self):
        def gone(cluster):
            cluster["hosts"][-1]["count"] -= 1
        lines = self.changed(gone)
        self.assertEqual(lines[-1], "removed  host node11")
        self.assertIn("removed  cable of node11/", lines[0])

        def other(cluster):
            for device in cluster["types"][0]["devices"]:
                if device["kind"] == "accelerator":
                    device["pci"]["device"] = "0x1234"
                    break
        self.assertEqual(self.changed(other), ["changed  node0 and 11 more: 0000:43:00.0: pci.device: unknown, then 0x1234"])

        def renamed(cluster):
            for run in cluster["hosts"]:
                run["name"] = "box"
        lines = self.changed(renamed)
        self.assertEqual(len(lines), 12)
        self.assertIn("changed  host node3: name: node3, then box3", lines)

    def test_one_host_of_it(self):
        host = os.path.join(self.folder.name, "one.xml")
        run("dump", "-f", self.file, "--host", "node3", "--format", "xml", "-o", host)
        self.assertEqual(run("diff", host, data("amd_topo_4p3l_n2.xml")), "")
        self.assertEqual(run("dump", "-f", self.file, "--host", "3"), run("dump", "-f", self.file, "--host", "node3"))
        self.assertEqual(json.loads(run("dump", "-f", self.file, "--host", "3", "--format", "json"))["name"], "node3")
        self.assertEqual(run("search", "-f", self.file, "--host", "node0"), run("search", "-f", data("amd_topo_4p3l_n2.xml")))
        for arguments, words in ((["dump", "-f", self.file, "--format", "xml"], "choose one of its hosts by --host"),
                                 (["dump", "-f", self.file, "--host", "12"], "--host 12 is neither a host's name nor a number from 0 to 11"),
                                 (["dump", "-f", self.file, "--host", "node"], "--host node is neither"),
                                 (["dump", "-f", host, "--host", "0"], "is one machine"), (["show", "--host", "0"], "in a --file"),
                                 (["diff", self.file, host], "is a cluster and " + host + " one machine"),
                                 (["diff", host, self.file], "is a cluster and " + host + " one machine")):
            self.assertIn(words, run(*arguments, code=2))
        self.assertIn("No such file", run("diff", self.file, "/nowhere", code=3))

    def test_misuse_is_told(self):
        for arguments, words in ((["check", "-f", self.file], "check takes one machine"), (["clos", "--hosts", "0"], "--hosts 0"),
                                 (["clos", "--speed", "fast"], "--speed fast is not a number"),
                                 (["paths", "-f", self.file, "--from", "node99"], "there is no such host"),
                                 (["paths", "-f", self.file, "--from", "node0/x"], "no such device")):
            self.assertIn(words, run(*arguments, code=2))
        self.assertIn("make pods smaller", run("clos", "-f", data("amd_topo_4p3l_n2.xml"), "--hosts", "99", "--pod", "48", code=3))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"format": "eccl-cluster", "version": 1, "types": [], "hosts": [{"name": "a", "type": "t"}]}')
            file.flush()
            self.assertIn('hosts[0].type is "t", which no host type is called', run("show", "-f", file.name, code=3))


class OfMachines(unittest.TestCase):
    def test_this_one(self):
        self.assertIn("cpu0", run("show"))
        host = json.loads(run("dump", "--format", "json"))
        self.assertEqual(host["format"], "eccl-host")

    def test_a_captured_one_to_repair(self):
        with tempfile.TemporaryDirectory() as root:
            def write(path, text):
                os.makedirs(os.path.dirname(root + path), exist_ok=True)
                with open(root + path, "w") as file:
                    file.write(text + "\n")
            write("/sys/devices/system/node/node0/cpulist", "0-1")
            write("/proc/cpuinfo", "processor : 0")
            card = "/sys/devices/pci0000:00/0000:00:01.0"
            for name, value in (("class", "0x020000"), ("vendor", "0x15b3"), ("device", "0x101d"), ("current_link_speed", "8.0 GT/s PCIe"),
                                ("max_link_speed", "16.0 GT/s PCIe"), ("current_link_width", "4"), ("max_link_width", "16")):
                write(card + "/" + name, value)
            os.makedirs(root + "/sys/bus/pci/devices")
            os.symlink("../../../devices/pci0000:00/0000:00:01.0", root + "/sys/bus/pci/devices/0000:00:01.0")
            found = json.loads(run("check", "--json", "--root", root, code=1))
            self.assertIn(("pci-link", "0000:00:01.0"), [(finding["id"], finding["device"]) for finding in found])
            self.assertIn("remedy: ", run("check", "--root", root, code=1))


class Misuse(unittest.TestCase):
    def test_is_told(self):
        for arguments, words in ((["fly"], 'no command "fly"'), (["show", "a"], "one command"), (["diff", "a"], "diff takes two files"),
                                 (["dump", "--format", "yaml"], "--format is xml or json"), (["search", "--channels", "0"], "--channels 0"),
                                 (["check", "-f", data(FILES[0])], "check looks at a machine"), (["show", "-f", "a", "--root", "b"], "not both")):
            self.assertIn(words, run(*arguments, code=2))

    def test_bad_files(self):
        self.assertIn("No such file", run("show", "-f", "/nowhere", code=3))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\">\n</cpu></system>")
            file.flush()
            self.assertIn(file.name + ":", run("show", "-f", file.name, code=3))

    def test_help(self):
        self.assertIn("USAGE: eccl_topo COMMAND", run("--help"))


unittest.main()
