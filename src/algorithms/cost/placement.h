// What the ranks of a communicator share: cores, memory and network ports. The cost model's view of a cluster.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace eccl::algorithms {

/// Where one rank is. Names are compared only.
struct Seat {
  std::string machine;  ///< ranks of one machine share its cores
  std::string memory;   ///< ranks with the same look at the same memory; empty: the rank shares it with none
  std::string port;     ///< messages between ranks of different ports go through both of them
  double cores = 1;     ///< of the machine, that the rank may run on: their work at once, within its quota
};

/// A value. The vectors but `cores` are by rank and hold small numbers that only tell same from different.
struct Placement {
  std::vector<int> machine, memory, port;
  std::vector<double> cores;  ///< by machine: the most that one of its ranks may run on

  Placement() = default;
  explicit Placement(std::span<const Seat> seats);
  /// `ranks` of them on one machine.
  static Placement oneHost(int ranks, double cores);
  /// Hosts with one rank and one port each.
  static Placement hosts(int ranks);

  /// What these ranks are to each other.
  Placement of(std::span<const int> some) const;

  int ranks() const { return static_cast<int>(machine.size()); }
  int ranksOf(int whichMachine) const;
  /// Whether all of them look at the same memory.
  bool sharesMemory() const;
  /// Whether there are more ranks than cores anywhere.
  bool crowded() const;
  bool operator==(const Placement&) const = default;
};

}  // namespace eccl::algorithms
