"""Where everything of a lab is: its namespaces, links, addresses and routes. Nothing is run here."""

from dataclasses import dataclass

from .errors import LabError
from .fabric import Fabric, Rail


@dataclass(frozen=True)
class Link:
    """Two ends, each a namespace and a device in it. The low end is the host's, or the ToR's where it leads to a spine."""
    name: str  # HOST:RAIL or torT:spineS
    low: tuple
    high: tuple
    rate: float  # Mbit/s; 0: not shaped
    rail: Rail
    host: int = None  # of a host's link; a link between switches has none
    tor: int = None
    spine: int = None

    def ends(self):
        return self.low, self.high

    def nodes(self):
        return "tor%d" % self.tor, str(self.host) if self.spine is None else "spine%d" % self.spine


class Plan:
    def __init__(self, name, fabric: Fabric):
        self.name, self.fabric = name, fabric
        self.hosts = ["%s-%d" % (name, host) for host in range(fabric.hosts)]
        self.tors = ["%s-tor%d" % (name, tor) for tor in range(fabric.tors())]
        self.spines = ["%s-spine%d" % (name, spine) for spine in range(fabric.spines)]
        self.links = [self._host_link(host, rail) for host in range(fabric.hosts) for rail in range(len(fabric.rails))]
        self.links += [self._spine_link(tor, spine) for tor in range(fabric.tors()) for spine in range(fabric.spines)]

    def _host_link(self, host, rail):
        tor = self.fabric.tor_of(host, rail)
        one = self.fabric.rails[rail]
        return Link("%d:%d" % (host, rail), (self.hosts[host], "e%d" % rail), (self.tors[tor], "p%d" % host), one.rate, one,
                    host=host, tor=tor)

    def _spine_link(self, tor, spine):
        return Link("tor%d:spine%d" % (tor, spine), (self.tors[tor], "u%d" % spine), (self.spines[spine], "d%d" % tor),
                    self.fabric.uplink_rate(tor), self.fabric.rail_of(tor), tor=tor, spine=spine)

    def namespaces(self):
        return self.hosts + self.tors + self.spines

    def links_at(self, target):
        """The link of that name, or all links of that host, ToR or spine."""
        found = [link for link in self.links if target == link.name or target in link.nodes()]
        if not found:
            raise LabError("%s: lab %s has no link or node of that name; links are HOST:RAIL%s, nodes 0 to %d, %s" % (
                target, self.name, " or torT:spineS" if self.spines else "", len(self.hosts) - 1,
                "tor0 to tor%d%s" % (len(self.tors) - 1, " and spine0 to spine%d" % (len(self.spines) - 1) if self.spines else "")))
        return found

    def subnet(self, tor):
        return "10.77.%d.0/24" % tor

    def gateway(self, tor):
        return "10.77.%d.254" % tor

    def address(self, host, rail):
        return "10.77.%d.%d" % (self.fabric.tor_of(host, rail), host + 1)

    def _uplink(self, tor, spine, end):
        return "10.78.%d.%d" % (tor, 4 * spine + end)

    def making(self):
        """Commands of `ip` by namespace, in order: all links first, as both ends have to be there."""
        batches = []
        for tor in self.tors:
            batches.append((tor, ["link set lo up", "link add br0 type bridge"]))
        for link in self.links:
            batches.append((link.low[0], ["link add %s mtu %d type veth peer name %s netns %s mtu %d" % (
                link.low[1], link.rail.mtu, link.high[1], link.high[0], link.rail.mtu)]))
        for host, name in enumerate(self.hosts):
            batches.append((name, ["link set lo up", *self._host_addresses(host)]))
        for link in self.links:
            if link.host is not None:
                batches.append((link.high[0], ["link set %s master br0 up" % link.high[1]]))
        for tor, name in enumerate(self.tors):
            if self.spines:
                batches.append((name, ["addr add %s/24 dev br0" % self.gateway(tor)]))
            batches.append((name, ["link set br0 up"]))
        for link in self.links:
            if link.spine is not None:
                for (name, device), end in ((link.low, 1), (link.high, 2)):
                    batches.append((name, ["addr add %s/30 dev %s" % (self._uplink(link.tor, link.spine, end), device),
                                           "link set %s up" % device]))
        if self.spines:
            for host, name in enumerate(self.hosts):
                batches.append((name, self._host_routes(host)))
            batches += self.switch_routes(down=())
        return merged(batches)

    def _host_addresses(self, host):
        return [line for rail in range(len(self.fabric.rails)) for line in (
            "addr add %s/24 dev e%d" % (self.address(host, rail), rail), "link set e%d up" % rail)]

    def _host_routes(self, host):
        """What is bound to an address of a NIC leaves by that NIC; what is not takes the NIC of the destination's rail."""
        lines = []
        for rail in range(len(self.fabric.rails)):
            tor, own = self.fabric.tor_of(host, rail), self.address(host, rail)
            lines += ["route add %s dev e%d src %s table %d" % (self.subnet(tor), rail, own, 100 + rail),
                      "route add default via %s dev e%d table %d" % (self.gateway(tor), rail, 100 + rail),
                      "rule add from %s lookup %d priority 100" % (own, 100 + rail)]
            lines += ["route add %s via %s dev e%d src %s" % (self.subnet(other), self.gateway(tor), rail, own)
                      for other in range(rail * self.fabric.leaves, (rail + 1) * self.fabric.leaves) if other != tor]
        return lines

    def switch_routes(self, down):
        """The routes between ToRs without the links of those names: what a routing protocol would have made of it."""
        up = {(link.tor, link.spine) for link in self.links if link.spine is not None and link.name not in down}
        batches = []
        for tor, name in enumerate(self.tors):
            lines = []
            for other in range(len(self.tors)):
                ways = [spine for spine in range(len(self.spines)) if {(tor, spine), (other, spine)} <= up]
                if other == tor:
                    continue
                if ways and not self.fabric.ecmp:
                    ways = [ways[other % len(ways)]]
                hops = "".join(" nexthop via %s dev u%d weight 1" % (self._uplink(tor, spine, 2), spine) for spine in ways)
                lines.append("route replace %s%s" % (self.subnet(other), hops) if ways else
                             "route replace unreachable %s" % self.subnet(other))
            batches.append((name, lines))
        for spine, name in enumerate(self.spines):
            batches.append((name, ["route replace %s via %s dev d%d" % (self.subnet(tor), self._uplink(tor, spine, 1), tor)
                                   for tor in range(len(self.tors)) if (tor, spine) in up]))
        return batches

    def settings(self, name):
        """Files below /proc/sys/net/ipv4 and what is written into them."""
        values = {"conf/all/rp_filter": 0, "conf/default/rp_filter": 0}  # answers may take another way than questions
        if name not in self.hosts and self.spines:
            values["ip_forward"] = 1
            values["icmp_ratelimit"] = 10  # ms between two answers to one prober; 1000 is less than switches give
            values["icmp_errors_use_inbound_ifaddr"] = 1  # as switches do; the address then names the link
        if name in self.tors and len(self.spines) > 1 and self.fabric.ecmp:
            # Addresses, protocol and ports. Policy 1 cannot be steered by ports: local sockets carry a random hash.
            values.update({"fib_multipath_hash_policy": 3, "fib_multipath_hash_fields": 55})
        return values


def shape(rate, rail):
    """A tbf. With less burst than a GSO packet the kernel cuts each into pieces; at high rates it is what may pass
    between two looks at the clock."""
    burst = max(80 if rate < 400 else 256, rate / 16)  # kB; the latter is half a millisecond
    return "root tbf rate %dkbit burst %dkb latency %gms" % (max(rate * 1000, 8), burst, rail.queue_ms)


def merged(batches):
    """Neighbours of the same namespace in one."""
    result = []
    for name, lines in batches:
        if result and result[-1][0] == name:
            result[-1][1].extend(lines)
        else:
            result.append((name, list(lines)))
    return result
