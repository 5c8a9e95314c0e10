"""A lab that is up: its record in /run, how it is made and taken down. Every change is written into the record before
it is made, so that what a crash leaves is found and removed."""

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import time

from . import cgroups, system
from .errors import LabError
from .fabric import Fabric, Rail
from .plan import Plan, shape

FOLDER = "/run/eccl-lab"
LOCK_SECONDS = 30
SEED = "fib_multipath_hash_seed"


def check_name(name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", name):
        raise LabError("%r is no name of a lab; it takes up to 40 letters, digits, _ . and -, and begins with one of the first two"
                       % name)
    return name


def _path(name, kind):
    return os.path.join(FOLDER, "%s.%s" % (name, kind))


def _taken(path, seconds):
    """The lock file, open and locked."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        file = open(path, "w")
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:  # whoever had it may have removed it
                return file
        file.close()
        time.sleep(0.05)
    return None


@contextlib.contextmanager
def locked(name):
    """One at a time changes a lab."""
    os.makedirs(FOLDER, mode=0o755, exist_ok=True)
    file = _taken(_path(name, "lock"), LOCK_SECONDS)
    if file is None:
        raise LabError("another command has been changing lab %s for %d s; wait for it or end it" % (name, LOCK_SECONDS))
    with file:
        try:
            yield
        finally:
            if _record(name) is None:
                os.remove(_path(name, "lock"))


def _record(name):
    """None if there is no lab of that name."""
    with contextlib.suppress(FileNotFoundError):
        with open(_path(name, "json")) as file:
            return json.load(file)
    return None


def names():
    """Of all labs that have a record."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(entry[:-len(".json")] for entry in os.listdir(FOLDER) if entry.endswith(".json"))
    return []


class Lab:
    def __init__(self, name, fabric, owner=None):
        self.name, self.fabric, self.plan = name, fabric, Plan(name, fabric)
        self.owner = owner  # [process id, its birth]: with it the lab ends; None: with `lab down`
        self.ready = False
        self.faults = []  # of {"kind", "target", "values"}
        self.notes = []

    @classmethod
    def load(cls, name):
        """None if there is none of that name."""
        record = _record(name)
        if record is None:
            return None
        try:
            fabric = record["fabric"]
            fabric.update(rails=tuple(Rail(**rail) for rail in fabric["rails"]), ranks=tuple(fabric["ranks"]))
            lab = cls(name, Fabric(**fabric), record["owner"])
            lab.ready, lab.faults, lab.notes = record["ready"], record["faults"], record["notes"]
            return lab
        except (KeyError, TypeError):
            raise LabError("lab %s is of another version of this tool; take it down: lab down --name %s" % (name, name)) from None

    @classmethod
    def named(cls, name):
        lab = cls.load(name)
        if lab is None or not lab.ready:
            there = [other for other in names() if other != name]
            raise LabError("no lab %s is up%s; begin with: lab up" % (name, ", but " + ", ".join(there) if there else ""))
        return lab

    def save(self):
        record = {"fabric": dataclasses.asdict(self.fabric), "owner": self.owner, "ready": self.ready, "faults": self.faults,
                  "notes": self.notes, "namespaces": self.plan.namespaces()}
        with open(_path(self.name, "new"), "w") as file:
            json.dump(record, file)
        os.replace(_path(self.name, "new"), _path(self.name, "json"))

    def begin(self):
        for name in self.plan.namespaces():
            if system.has_namespace(name):
                raise LabError("there is a network namespace %s that no lab has made; choose another --name, or: ip netns delete %s" % (
                    name, name))
        self.save()

    def make(self):
        plan = self.plan
        for name in plan.namespaces():
            system.run("ip", "netns", "add", name)
            system.set_kernel(name, plan.settings(name))
        self._control_congestion()
        self._seed()
        for name, lines in plan.making():
            system.batch("ip", name, lines)
        for name, lines in self._shapes():
            system.batch("tc", name, lines)
        system.wait_for_links(plan.namespaces())
        self._note_neighbours()

    def _control_congestion(self):
        """The same on every machine: with another one, other shares of a bound are reached."""
        with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control") as file:
            chosen = "cubic" if "cubic" in file.read().split() else "reno"
        for name in self.plan.hosts:
            system.set_kernel(name, {"tcp_congestion_control": chosen})
        if chosen != "cubic":
            self.notes.append("hosts use Reno, as this kernel keeps CUBIC from namespaces; before lab up: "
                              "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'")

    def _note_neighbours(self):
        """The kernel has one table of neighbours for all namespaces; when it is full, connections time out."""
        with open("/proc/sys/net/ipv4/neigh/default/gc_thresh3") as file:
            most = int(file.read())
        members = [len(self.fabric.hosts_of(tor)) for tor in range(len(self.plan.tors))]
        wanted = sum(count * (count - 1) for count in members) + (2 * sum(members) if self.plan.spines else 0)
        if wanted > most:
            self.notes.append("if every host talks to every other, that is %d neighbours, and this kernel keeps %d; connections would time "
                              "out: sysctl -w net.ipv4.neigh.default.gc_thresh3=%d" % (wanted, most, 2 * wanted))

    def _shapes(self):
        lines = {}
        for link in self.plan.links:
            for name, device in link.ends() if link.rate else ():
                lines.setdefault(name, []).append("qdisc add dev %s %s" % (device, shape(link.rate, link.rail)))
        return lines.items()

    def _seed(self):
        """The same flows meet at every start, where the kernel can be told so (Linux 6.11)."""
        if len(self.plan.spines) < 2 or not self.fabric.ecmp:
            return
        there = system.run("ip", "netns", "exec", self.plan.tors[0], "sh", "-c", "ls /proc/sys/net/ipv4")
        if SEED in there.split():
            for name in self.plan.tors:
                system.set_kernel(name, {SEED: self.fabric.hash_seed or 1})
        elif self.fabric.hash_seed is not None:
            raise LabError("hash_seed is %d, but this kernel has no net.ipv4.%s (Linux 6.11 has it); leave the key out"
                           % (self.fabric.hash_seed, SEED))
        else:
            self.notes.append("this kernel has no net.ipv4.%s: which flows meet on a spine is another thing at every start" % SEED)


def remove(name):
    """Everything of that name, also what is half made. False if there was nothing."""
    record = _record(name)
    if record is None:
        return False
    there = [namespace for namespace in record["namespaces"] if system.has_namespace(namespace)]
    system.end_all(there)
    for namespace in there:
        system.run("ip", "netns", "delete", namespace)
    cgroups.remove(name)
    for kind in ("new", "json"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(_path(name, kind))
    return True


def _orphaned(name):
    owner = (_record(name) or {}).get("owner")
    return owner is not None and system.birth(owner[0]) != owner[1]


def remove_orphans(said):
    """All labs whose owner has died; `said` is told."""
    for name in filter(_orphaned, names()):
        with locked(name):
            if _orphaned(name) and remove(name):
                said("lab %s was left by a process that has ended: removed" % name)
