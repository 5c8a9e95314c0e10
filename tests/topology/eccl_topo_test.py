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
    if code is not None and done.returncode != code:
        raise AssertionError("eccl_topo %s: exit code %d, not %d\n%s%s" % (" ".join(arguments), done.returncode, code,
                                                                         done.stdout, done.stderr))
    return done.stderr if (code or 0) > 1 else done.stdout


def data(name):
    return os.path.join(DATA, name)


class OfSpeeds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "speeds")
        os.environ["ECCL_SPEEDS_FILE"] = self.file

    def tearDown(self):
        del os.environ["ECCL_SPEEDS_FILE"]
        self.folder.cleanup()

    def test_a_file_is_shown(self):
        with open(self.file, "w") as file:
            file.write("# by hand\ncall 3\n")
        self.assertEqual(run("speeds"), self.file + "\n# by hand\ncall 3\n")

    def test_a_wrong_file_is_told(self):
        with open(self.file, "w") as file:
            file.write("call three\n")
        self.assertIn(self.file + ':1: "call three": after the name goes one number', run("speeds", code=3))
        with open(self.file) as file:
            self.assertEqual(file.read(), "call three\n")

    def test_what_does_not_count_is_not_shown(self):
        os.environ["ECCL_SPEEDS_FILE"] = "none"
        self.assertIn("ECCL_SPEEDS_FILE is none", run("speeds", code=3))
        self.assertIn("there is no option '--twice'", run("speeds", "--twice", code=2))

    def test_this_machine_is_measured(self):
        for _ in range(20):  # other tests may have the processors
            done = subprocess.run([TOPO, "speeds", "--again"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=120)
            if done.returncode == 0:
                self.assertIn("read.64K ", done.stdout)
                with open(self.file) as file:
                    self.assertEqual(done.stdout, self.file + "\n" + file.read())
                return
            self.assertRegex(done.stderr, "busy with something else|two processors|looks for errors")
            self.assertFalse(os.path.exists(self.file))
            if "busy" not in done.stderr:
                break
        self.skipTest(done.stderr.strip())


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
                                 (["dump", "--format", "yaml"], "--format is json or xml, not"), (["search", "--channels", "0"], "--channels 0"),
                                 (["show", "-f", "a", "--root", "b"], "not both")):
            self.assertIn(words, run(*arguments, code=2))

    def test_bad_files(self):
        self.assertIn("No such file", run("show", "-f", "/nowhere", code=3))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\">\n</cpu></system>")
            file.flush()
            self.assertIn(file.name + ":", run("show", "-f", file.name, code=3))

    def test_files_without_an_end(self):
        self.assertIn("the file /dev/zero is longer than 268435456 bytes", run("show", "-f", "/dev/zero", code=3))
        self.assertIn("Is a directory", run("show", "-f", "/", code=3))

    def test_help(self):
        self.assertIn("USAGE: eccl_topo COMMAND", run("--help"))


# One line for each element, so that warnings can be told by their lines.
GPU = """<pci busid="0000:%s:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="%s" link_width="%d">
<gpu dev="%d" sm="%d" rank="%d" gdr="1">%s</gpu></pci>
"""
NIC = """<pci busid="0000:%s:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16"%s><nic>
<net name="mlx5_%d" dev="%d" speed="%d" port="1"%s/></nic></pci>
"""


def machine(inside, sockets=2):
    """A dump as NCCL makes it: the socket adapter is below each CPU."""
    socket = '<nic><net name="eth0" dev="9" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0"/></nic>'
    return '<system version="1">\n' + "".join(
        '<cpu numaid="%d" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">\n%s%s\n</cpu>\n'
        % (cpu, inside if cpu == 0 else "", socket) for cpu in range(sockets)) + "</system>\n"


class OfTexts(unittest.TestCase):
    """Files made here: what NCCL accepts, what can be judged of it, and what is said of it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "host.xml")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, text):
        with open(self.file, "w") as file:
            file.write(text)

    def told(self, *arguments, code=0):
        """The standard output and the standard error."""
        done = subprocess.run([TOPO, *arguments, "-f", self.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_what_nccl_accepts_is_accepted_with_a_warning(self):
        self.write(machine(GPU % ("0a", "32 GT/s PCIe/s", 16, 0, 90, 0, "") + GPU % ("0b", "32.0 GT/s PCIe", 16, 1, 90, 1, "")))
        for command in ("show", "dump", "draw", "paths", "search", "check"):
            _, warnings = self.told(command)
            self.assertEqual(warnings.splitlines(), [
                "eccl_topo: warning: %s:3: <pci> has link_speed=\"32 GT/s PCIe/s\", which is not a speed such as 16.0 GT/s PCIe: "
                "taken for 32.0 GT/s PCIe" % self.file,
                "eccl_topo: warning: %s:10: <net> \"eth0\" is there a second time: taken for the port below cpu0" % self.file])
        self.assertEqual(self.told("show")[0].count("eth0  10 Gb/s"), 1)

    def test_a_file_is_judged(self):
        self.write(machine(GPU % ("0a", "32.0 GT/s PCIe", 16, 0, 90, 0, "") + GPU % ("0b", "32.0 GT/s PCIe", 8, 1, 90, 1, "") +
                           NIC % ("0c", "", 0, 0, 400000, ' state="up" mtu="9000"') + NIC % ("0d", "", 1, 1, 200000, ' state="up" mtu="1500"') +
                           NIC % ("0e", ' max_link_speed="32.0 GT/s PCIe" max_link_width="32"', 2, 2, 400000, ' state="down"')))
        found = [(f["severity"], f["id"], f["device"]) for f in json.loads(self.told("check", "--json", code=1)[0])]
        self.assertEqual(found[:5], [("warning", "pci-link", "0000:0b:00.0"), ("warning", "pci-link", "0000:0e:00.0"),
                                     ("warning", "port-rate", "mlx5_1"), ("warning", "port-down", "mlx5_2"), ("warning", "port-mtu", "mlx5_1")])
        self.assertEqual(found[5:], [("note", "nvlink-missing", "0000:0a:00.0"), ("note", "not-judged", "")])
        shown = self.told("check", code=1)[0]
        self.assertIn("runs at 32 GT/s x8; 0000:0a:00.0, of the same model, can do 32 GT/s x16", shown)
        self.assertIn("ACS, the IOMMU and the limits of processes: they are in no file", shown)

    def test_what_a_file_lacks_is_not_judged(self):
        self.write(machine(NIC % ("0c", "", 0, 0, 400000, "") + NIC % ("0d", "", 1, 1, 200000, "")))
        found = json.loads(self.told("check", "--json", code=1)[0])
        self.assertEqual([(f["id"], f["device"]) for f in found if f["severity"] != "note"], [("port-rate", "mlx5_1")])
        words = " ".join(f["evidence"] for f in found if f["id"] == "not-judged")
        for what in ("as fast as both ends can", "whether ports are up", "MTU", "ACS"):
            self.assertIn(what, words)

    def test_a_good_file_has_nothing_to_repair(self):
        for name in FILES:
            if name == "aws_p4d-24xl.xml" or name.startswith("azure"):
                continue
            found = json.loads(run("check", "--json", "-f", data(name), code=None))
            self.assertTrue(all(f["severity"] == "note" or f["id"] in ("nic-far", "pci-link", "port-rate") for f in found), found)

    def test_missing_nvlinks_are_told(self):
        two = GPU % ("0a", "32.0 GT/s PCIe", 16, 0, 90, 0, "%s") + GPU % ("0b", "32.0 GT/s PCIe", 16, 1, 90, 1, "%s")
        link = '<nvlink count="18" tclass="0x068000"/>'
        self.write(machine(two % ("", "")))
        shown = self.told("search")[0]
        self.assertTrue(shown.startswith("no NVLinks are known of 0000:0a:00.0 and 1 more, and accelerators of compute capability 9.0 have them"),
                        shown)
        self.assertIn("those of PCI, and far too low", shown)
        self.assertIn("no NVLinks are known", json.loads(self.told("search", "--json")[0])["missing"])
        self.write(machine(two % (link, link)))
        self.assertNotIn("NVLinks", self.told("search")[0])
        self.write(machine(two % (link, "")))
        self.assertIn("no NVLinks are known of 0000:0b:00.0, and", self.told("search")[0])
        self.assertIn("nor what accelerators these are", run("search", "-f", data("aws_p4d-24xl.xml")))
        self.write(machine((two % ("", "")).replace('sm="90"', 'sm="89"')))  # these have none
        self.assertNotIn("NVLinks", self.told("search")[0])

    def test_c2c_is_not_pci(self):
        self.write('<system version="1">\n<cpu numaid="0" arch="arm64" vendor="ARM">\n' +
                   GPU % ("01", "2.5 GT/s PCIe", 16, 0, 90, 0, '<c2c bw="344960" count="1"/>') + "</cpu></system>")
        shown = self.told("show")[0]
        line = next(line for line in shown.splitlines() if "0000:01:00.0  accelerator" in line)
        self.assertIn("PCIe 1.0 x16  3.4 GB/s", line)
        self.assertIn("C2C ×1 to cpu0  345.0 GB/s\n", shown)
        texts = [node.firstChild.data for node in xml.dom.minidom.parseString(self.told("draw")[0]).getElementsByTagName("text")]
        self.assertIn("3.4", texts)
        self.assertIn("C2C 345.0", texts)

    def test_no_byte_for_the_terminal_gets_there(self):
        evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
        texts = [machine((GPU % ("0a", evil, 16, 0, 90, 0, "") + NIC % ("0c", "", 0, 0, 400000, ' state="%s" interface="%s"' % (evil, evil)))
                         .replace("mlx5_0", evil)).replace("GenuineIntel", evil).replace("<system", '<system name="%s"' % evil),
                 "<%s>" % evil, '<system version="%s"/>' % evil,
                 json.dumps({"format": "eccl-host", "version": 1, "name": evil, "unread": [evil],
                             "devices": [{"name": "cpu0", "kind": "cpu", "cpu": {"vendor": evil}}, {"name": evil, "kind": "port", "parent": "cpu0", "port": {}}]}),
                 json.dumps({"format": evil}), json.dumps({evil: 1}), "{" + evil,
                 json.dumps({"format": "eccl-cluster", "version": 1,
                             "types": [{"name": evil, "devices": [{"name": "cpu0", "kind": "cpu", "cpu": {}}], "format": "eccl-host", "version": 1, "links": []}],
                             "hosts": [{"name": evil, "type": evil, "count": 2}]}),
                 json.dumps({"format": "eccl-cluster", "version": 1, "types": [{"name": "t", "file": evil}], "hosts": []})]
        for text in texts:
            with open(self.file, "wb") as file:
                file.write(text.encode("latin-1" if text.startswith("<") else "utf-8"))
            for command in ("show", "dump", "draw", "paths", "search", "check"):
                done = subprocess.run([TOPO, command, "-f", self.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
                both = (done.stdout + done.stderr).decode()  # and it is UTF-8
                self.assertEqual([c for c in both if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160], [], both)


unittest.main()
