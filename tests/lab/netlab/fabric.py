"""What a fabric is: read from a JSON file or from the command line, and refused with a sentence where it is wrong."""

import json
import os
from dataclasses import dataclass

from .errors import LabError

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(HERE, "fabrics")

MAX_HOSTS, MAX_RANKS, MAX_RAILS, MAX_TORS, MAX_SPINES = 128, 64, 16, 64, 16


@dataclass(frozen=True)
class Rail:
    rate: float = 0  # Mbit/s each way of a host's link; 0: as fast as the machine
    mtu: int = 1500
    queue_ms: float = 20  # what waits longer in a shaped link's queue is dropped
    delay_ms: float = 0  # one way, added by a relay
    jitter_ms: float = 0
    loss_percent: float = 0


@dataclass(frozen=True)
class Fabric:
    hosts: int
    ranks: tuple  # of each host
    rails: tuple  # of Rail
    nic_per_rank: bool = False  # rank g of a host uses NIC g only
    leaves: int = 1  # ToRs of a rail, which share its hosts
    spines: int = 0  # each joined to every ToR
    oversubscription: float = 1  # what a ToR's hosts may send : what its uplinks carry
    ecmp: bool = True  # the hash of a flow chooses the spine; otherwise the destination's ToR does
    hash_seed: int = None  # of that hash; None: 1 where the kernel takes one, else another at every start
    about: str = ""

    def tors(self):
        return len(self.rails) * self.leaves

    def tor_of(self, host, rail):
        return rail * self.leaves + host * self.leaves // self.hosts

    def rail_of(self, tor):
        return self.rails[tor // self.leaves]

    def hosts_of(self, tor):
        rail = tor // self.leaves
        return [host for host in range(self.hosts) if self.tor_of(host, rail) == tor]

    def uplink_rate(self, tor):
        """Of the link from a ToR to each spine."""
        return len(self.hosts_of(tor)) * self.rail_of(tor).rate / self.oversubscription / self.spines


def _number(low, high, whole):
    kinds = int if whole else (int, float)

    def check(value):
        right = isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high
        return None if right else "%s from %s to %s" % ("a whole number" if whole else "a number", low, high)
    return check


def _rate(value):
    return None if value == 0 and not isinstance(value, bool) or _number(1, 100000, whole=False)(value) is None else (
        "0 (as fast as the machine) or a number of Mbit/s from 1 to 100000")


def _boolean(value):
    return None if isinstance(value, bool) else "true or false"


def _text(value):
    return None if isinstance(value, str) else "a text"


def _counts(value):
    one = _number(1, MAX_RANKS, whole=True)
    right = one(value) is None or isinstance(value, list) and value and all(one(each) is None for each in value)
    return None if right else "a whole number from 1 to %d, or a list of one for each host" % MAX_RANKS


def _objects(value):
    right = isinstance(value, list) and 1 <= len(value) <= MAX_RAILS and all(isinstance(each, dict) for each in value)
    return None if right else 'a list of 1 to %d objects such as {"rate": 200}' % MAX_RAILS


# Each key: what refuses a value, by saying what is allowed.
RAIL_KEYS = {
    "rate": _rate,
    "mtu": _number(1280, 65535, whole=True),
    "queue_ms": _number(1, 10000, whole=False),
    "delay_ms": _number(0, 10000, whole=False),
    "jitter_ms": _number(0, 10000, whole=False),
    "loss_percent": _number(0, 100, whole=False),
}
KEYS = {
    "about": _text,
    "hosts": _number(1, MAX_HOSTS, whole=True),
    "ranks": _counts,
    "rails": _objects,
    "nic_per_rank": _boolean,
    "leaves": _number(1, MAX_TORS, whole=True),
    "spines": _number(0, MAX_SPINES, whole=True),
    "oversubscription": _number(0.1, 1000, whole=False),
    "ecmp": _boolean,
    "hash_seed": _number(1, 2**32 - 1, whole=True),
}


def _checked(values, keys, where, path):
    for key, value in values.items():
        if key not in keys:
            raise LabError("%s: %s%s is no key of a fabric; there are: %s" % (path, where, key, ", ".join(keys)))
        allowed = keys[key](value)
        if allowed:
            raise LabError("%s: %s%s is %s; it has to be %s" % (path, where, key, json.dumps(value), allowed))


def fabric_of(values, path):
    """`path` is what messages name: the file, or the command line."""
    if not isinstance(values, dict):
        raise LabError("%s: a fabric is a JSON object such as {\"hosts\": 2}" % path)
    _checked(values, KEYS, "", path)
    if "hosts" not in values:
        raise LabError('%s: the key hosts is missing; say how many, such as "hosts": 2' % path)
    rails = values.get("rails", [{}])
    for number, rail in enumerate(rails):
        _checked(rail, RAIL_KEYS, "rails[%d]." % number, path)
    hosts, ranks = values["hosts"], values.get("ranks", 1)
    if isinstance(ranks, int):
        ranks = [ranks] * hosts
    rest = {key: value for key, value in values.items() if key not in ("hosts", "ranks", "rails")}
    fabric = Fabric(hosts=hosts, ranks=tuple(ranks), rails=tuple(Rail(**rail) for rail in rails), **rest)

    def refuse(wrong, sentence):
        if wrong:
            raise LabError("%s: %s" % (path, sentence))
    refuse(len(ranks) != hosts, "ranks has %d entries for %d hosts; it has to have one for each" % (len(ranks), hosts))
    refuse(fabric.nic_per_rank and any(count != len(rails) for count in ranks),
           "nic_per_rank needs as many ranks on each host as there are rails, %d" % len(rails))
    refuse(fabric.leaves > hosts, "leaves is %d: more ToRs on each rail than there are hosts, %d" % (fabric.leaves, hosts))
    refuse(fabric.tors() > MAX_TORS, "leaves times rails is %d ToRs; there may be %d" % (fabric.tors(), MAX_TORS))
    refuse(fabric.leaves > 1 and fabric.spines == 0, "leaves is %d, but nothing joins them; spines has to be 1 or more"
           % fabric.leaves)
    refuse(fabric.spines == 0 and any(key in values for key in ("oversubscription", "ecmp", "hash_seed")),
           "oversubscription, ecmp and hash_seed are about the way over spines; spines has to be 1 or more")
    refuse("hash_seed" in values and not fabric.ecmp, "hash_seed has no meaning where ecmp is false")
    refuse("oversubscription" in values and any(rail.rate == 0 for rail in fabric.rails),
           "oversubscription needs a rate above 0 on every rail")
    return fabric


def shipped():
    return sorted(entry[:-len(".json")] for entry in os.listdir(FOLDER) if entry.endswith(".json"))


def load(name):
    """A file, or the name of one that ships."""
    path = name if os.path.sep in name or os.path.exists(name) else os.path.join(FOLDER, name + ".json")
    try:
        with open(path, encoding="utf-8") as file:
            return fabric_of(json.load(file), name)
    except FileNotFoundError:
        raise LabError("%s: there is no such file, and no such fabric that ships: %s" % (name, ", ".join(shipped()))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise LabError("%s: cannot be read: %s" % (name, error)) from None
    except json.JSONDecodeError as error:
        raise LabError("%s: is not JSON: %s" % (name, error)) from None
