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
  /// On a machine that is one host, with one port of unknown speed.
  RankLocation(std::string machine, std::string memory, std::string port, double cores = 1);

  std::string machine;  ///< ranks of one machine share its cores
  std::string host;     ///< ranks of one host share its ports; a machine has several as containers
  std::string memory;   ///< ranks with the same look at the same memory; empty: the rank shares it with none
  int numaNode = -1;    ///< of the host, where the rank's cores or its accelerator are; -1: not known
  std::string accelerator;         ///< of the host, that the rank works with; empty: none
  double cores = 1;                ///< of the machine, that its ranks may run on: their work at once
  std::vector<NetworkPort> ports;  ///< of the host; the one that is used first; at least one
  bool operator==(const RankLocation&) const = default;

  /// "NUMA node 1, 4 cores, port eth0 (12.5 GB/s)", for people.
  std::string text() const;
};

/// Where all ranks are. A value, equal on all ranks of a communicator; any thread.
///
/// Names have become numbers, from 0 in the order of the ranks, that only tell same from different.
struct Placement {
  /// What is known of one port.
  struct Port {
    double gigabytes = 0, microseconds = 0;  ///< as NetworkPort's
    int rail = -1;
    bool operator==(const Port&) const = default;
  };

  std::vector<int> machine, host, memory;  ///< by rank
  std::vector<int> numaNode, accelerator;  ///< by rank; -1: not known, none
  std::vector<int> port;                   ///< by rank: index into `ports` of the one that is used first
  std::vector<std::vector<int>> portsOf;   ///< by rank: indices of all that it may use
  std::vector<Port> ports;
  std::vector<double> cores;  ///< by machine, that its ranks may run on

  Placement() = default;
  explicit Placement(std::span<const RankLocation> locations);
  /// `ranks` of them on one host, which is the machine.
  static Placement oneHost(int ranks, double cores);
  /// Hosts with one rank and one port each.
  static Placement hosts(int ranks);

  /// Hosts with one port each and as many cores as ranks, which are next to each other and as evenly many as
  /// can be.
  static Placement blocks(int ranks, int hosts);

  /// What these ranks are to each other.
  Placement of(std::span<const int> some) const;

  int ranks() const { return static_cast<int>(machine.size()); }
  /// How many ranks a machine has.
  int ranksOf(int whichMachine) const;
  /// Whether there are several hosts, some with several ranks.
  bool hierarchical() const;
  /// Whether all of them look at the same memory.
  bool sharesMemory() const;
  /// Whether a machine has more ranks than cores.
  bool oversubscribed(int whichMachine) const {
    return ranksOf(whichMachine) > cores[static_cast<size_t>(whichMachine)];
  }
  /// Whether any has.
  bool oversubscribed() const;
  bool operator==(const Placement&) const = default;
};

}  // namespace eccl
