"""Delay, jitter and loss on a host's link: a relay program in the ToR's namespace, between the port and the bridge."""

import contextlib
import glob
import os
import subprocess
import time
from dataclasses import dataclass

from . import system
from .errors import LabError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ONE_BY_ONE, AS_USUAL = 1, 65535  # packets in a frame of the kernel's (GSO)


@dataclass(frozen=True)
class Way:
    delay_ms: float
    jitter_ms: float
    loss_percent: float


def check(links):
    for link in links:
        if link.host is None:
            raise LabError("%s: delay, jitter and loss are for the links of hosts, HOST:RAIL" % link.name)
    program()


def program():
    """LAB_RELAY, or the newest that was built."""
    named = os.environ.get("LAB_RELAY")
    built = [named] if named else sorted(glob.glob(os.path.join(ROOT, "build/*/tests/lab/lab_relay")), key=os.path.getmtime)
    if not built or not os.access(built[-1], os.X_OK):
        raise LabError("delay, jitter and loss need the program lab_relay%s; build it: cmake --build --preset release --target lab_relay"
                       % (", and LAB_RELAY=%s is none" % named if named else ""))
    return built[-1]


def _running(link):
    """Process ids of the relay at that link's port."""
    name, port = link.high
    return [pid for pid in system.processes([name]).get(name, ()) if system.arguments_of(pid)[1:2] == [port]]


def _outer(link):
    return "r%d" % link.host


def _inserted(link):
    return link.host is not None and system.run("ip", "-n", link.high[0], "-o", "link", "show", "dev", _outer(link), quiet=True) != ""


def upper(link):
    """The device that the bridge sees."""
    return _outer(link) if _inserted(link) else link.high[1]


def put(link, way):
    """Makes the link like that; without delay and loss it is a plain one again."""
    name, port = link.high
    outer, inner = _outer(link), "q%d" % link.host  # towards the bridge, towards the relay
    plain, old = way == Way(0, 0, 0), _inserted(link)
    if not plain:
        check([link])
    while pids := _running(link):
        system.end(pids)
        time.sleep(0.005)
    if plain and old:
        system.batch("ip", name, ["link del %s" % outer, "link set %s master br0" % port])
    if not plain and not old:
        system.batch("ip", name, ["link add %s mtu %d type veth peer name %s mtu %d" % (outer, link.rail.mtu, inner, link.rail.mtu),
                                  "link set %s up" % inner, "link set %s nomaster" % port, "link set %s master br0 up" % outer])
    # Packets are lost one by one, not 64 KiB at a time.
    packets = ONE_BY_ONE if way.loss_percent else AS_USUAL
    system.batch("ip", link.low[0], ["link set %s gso_max_segs %d" % (link.low[1], packets)])
    if not plain:
        system.batch("ip", name, ["link set %s gso_max_segs %d" % (outer, packets)])
        _start(name, port, inner, way)


def _start(name, port, inner, way):
    microseconds = ["%d" % round(1000 * value) for value in (way.delay_ms, way.jitter_ms)]
    relay = subprocess.Popen(["ip", "netns", "exec", name, program(), port, inner, *microseconds, "%g" % way.loss_percent],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    with contextlib.closing(relay.stdout):
        said = relay.stdout.readline().strip()
    if said != "ready":
        relay.wait()
        raise LabError("the relay at %s in %s did not start: %s" % (port, name, said or "exit code %d" % relay.returncode))
