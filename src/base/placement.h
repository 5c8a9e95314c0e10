// Where the ranks of a communicator are: hosts, cores, memory, accelerators and network ports. The one model of
// this: it is derived from the topology, algorithms are built for it, and the cost model prices by it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace eccl {

/// A port of the network that a rank may send through.
struct NetworkPort {
  std::string name;         ///< unique among hosts
  double gigabytes = 0;     ///< 10^9 bytes per second, one way; 0: not known
  double microseconds = 0;  ///< latency to cross it, one way; 0: not known
  int rail = -1;            ///< of the network, that it is wired to; -1: not known
  bool operator==(const NetworkPort&) const = default;
};

/// Where one rank is. A value. Names are compared only.
struct RankLocation {
  RankLocation() = default;
  /// On a machine that is one host, with one port of unknown speed. An empty `memory`: shared with none.
  RankLocation(std::string machine, std::string memory, std::string port, double cores = 1);

  std::string machine;  ///< ranks of one machine share its cores
  std::string host;     ///< ranks of one host share its ports; a machine has several as containers
  std::string memory;   ///< ranks with the same look at the same memory; empty: the rank shares it with none
  int numaNode = -1;    ///< of the host, where the rank's cores or its accelerator are; -1: not known
  bool rdma = false;    ///< it exchanges messages with other hosts by RDMA, where these do, too
  bool ucx = false;     ///< likewise, by UCX
  std::string accelerator;         ///< of the host, that the rank works with; empty: none
  double cores = 1;                ///< of the machine, that its ranks may run on: their work at once
  std::vector<NetworkPort> ports;  ///< of the host; the one that is used first; at least one
  bool operator==(const RankLocation&) const = default;

  /// "NUMA node 1, 4 cores, port eth0 (12.5 GB/s)", for people.
  std::string text() const;
};

/// Where all ranks are. A value, equal on all ranks of a communicator; any thread may read it.
///
/// Names have become numbers, from 0 in the order in which ranks bring them. Numbers only tell same from
/// different.
struct Placement {
  /// What is known of one port.
  struct Port {
    double gigabytes = 0, microseconds = 0;  ///< as NetworkPort's
    int rail = -1;
    bool operator==(const Port&) const = default;
  };

  std::vector<int> machine, host, memory;  ///< by rank
  std::vector<int> numaNode, accelerator;  ///< by rank; -1: not known, none
  std::vector<bool> rdma, ucx;             ///< by rank
  std::vector<int> port;                   ///< by rank: index into `ports` of the one that is used first
  std::vector<std::vector<int>> portsOf;   ///< by rank: indices of all that it may use
  std::vector<Port> ports;
  std::vector<double> cores;  ///< by machine, that its ranks may run on

  Placement() = default;
  /// Each location has at least one port. Where ranks say different things of one port, the first rank
  /// counts; of the cores of a machine, the greatest number does.
  explicit Placement(std::span<const RankLocation> locations);
  /// Where ranks are at few different locations: `locationOf` is by rank the index of its location. Each is
  /// some rank's.
  Placement(std::span<const RankLocation> locations, std::span<const int> locationOf);
  /// `ranks` of them on one host, which is the machine, with one port and one memory.
  static Placement oneHost(int ranks, double cores);
  /// One rank for each host, which has one port and one core.
  static Placement hosts(int ranks);

  /// `ranks` on `hosts` hosts, as evenly as can be, neighbours together. Each host has one port, and as many
  /// cores as the fullest has ranks.
  static Placement blocks(int ranks, int hosts);

  /// The placement of these ranks alone: rank i of it is rank some[i] here. Machines, hosts, memories and
  /// ports are numbered anew.
  Placement of(std::span<const int> some) const;

  int ranks() const { return static_cast<int>(machine.size()); }
  /// How many ranks a machine has.
  int ranksOf(int whichMachine) const;
  /// Whether ranks are on different hosts.
  bool spansHosts() const;
  /// Whether there are several hosts, some with several ranks.
  bool hierarchical() const;
  /// Whether all ranks look at the same memory. True for a single rank.
  bool sharesMemory() const;
  /// Whether a machine has more ranks than cores.
  bool oversubscribed(int whichMachine) const {
    return ranksOf(whichMachine) > cores[static_cast<size_t>(whichMachine)];
  }
  /// Whether any machine has more ranks than cores.
  bool oversubscribed() const;
  bool operator==(const Placement&) const = default;
};

}  // namespace eccl
