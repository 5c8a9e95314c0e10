#include "algorithms/cost/placement.h"

#include <algorithm>
#include <map>

namespace eccl::algorithms {
namespace {

/// Numbers names in the order in which they come.
class Numbers {
 public:
  int operator()(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, int> numbers_;
};

}  // namespace

Placement::Placement(std::span<const Seat> seats) {
  Numbers machines, memories, ports;
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    const Seat& seat = seats[rank];
    machine.push_back(machines(seat.machine));
    memory.push_back(memories(seat.memory.empty() ? "of rank " + std::to_string(rank) : seat.memory));
    port.push_back(ports(seat.port));
    cores.resize(std::max(cores.size(), static_cast<size_t>(machine.back()) + 1));
    double& most = cores[static_cast<size_t>(machine.back())];
    most = std::max(most, seat.cores);
  }
}

Placement Placement::oneHost(int ranks, double cores) {
  return Placement(std::vector<Seat>(static_cast<size_t>(ranks), {"host", "host", "host", cores}));
}

Placement Placement::hosts(int ranks) {
  std::vector<Seat> seats;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = std::to_string(rank);
    seats.push_back({name, name, name, 1});
  }
  return Placement(seats);
}

Placement Placement::of(std::span<const int> some) const {
  std::vector<Seat> seats;
  for (int rank : some) {
    const auto at = static_cast<size_t>(rank);
    seats.push_back({std::to_string(machine[at]), std::to_string(memory[at]), std::to_string(port[at]),
                     cores[static_cast<size_t>(machine[at])]});
  }
  return Placement(seats);
}

int Placement::ranksOf(int whichMachine) const {
  return static_cast<int>(std::count(machine.begin(), machine.end(), whichMachine));
}

bool Placement::sharesMemory() const {
  return std::adjacent_find(memory.begin(), memory.end(), std::not_equal_to<>()) == memory.end();
}

bool Placement::crowded() const {
  for (size_t which = 0; which < cores.size(); ++which) {
    if (ranksOf(static_cast<int>(which)) > cores[which]) return true;
  }
  return false;
}

}  // namespace eccl::algorithms
