// How many blocks of lane kernels are on a GPU at once.
//
// All blocks of a kernel wait for other ranks', so all have to be there at once. Each communicator keeps to
// what its ranks have room for. Here kernels of several communicators, in different streams, keep to it
// together: one for which there is no room follows earlier ones.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace eccl::runtime::cuda {

/// Of one GPU, in this process. A rank follows only kernels that it has launched itself, as if it had put them
/// into one stream. So ranks that launch in one order do not wait for each other. Which ranks of two
/// communicators are one rank of the program is guessed: the first of each in this process, and so on. What is
/// in graphs is not counted.
///
/// Owner: the process, for ever. Any thread; the GPU's context is current. Failure: the Status of the driver's
/// call.
class Residents {
 public:
  /// Blocks of a kernel, by its ranks' places among those of their communicator on this GPU in this process.
  using Blocks = std::map<int, uint32_t>;

  static Residents& of(Gpu& gpu);
  /// A communicator has a rank here, and so many on this GPU, in all processes.
  void join(uint64_t communicator, uint32_t sharers);
  void leave(uint64_t communicator, uint32_t sharers);
  /// How many blocks a rank may have here at once.
  uint32_t share();
  /// What `stream` is given next has room. `blocks` of each rank are its share at most.
  Status makeRoom(const Blocks& blocks, NativeStream stream);
  /// That was given.
  Status note(const Blocks& blocks, NativeStream stream);

 private:
  struct Kernel {
    Event behind;
    uint32_t blocks;
  };
  explicit Residents(Gpu& gpu) : gpu_(gpu) {}
  /// One alone follows its own calls.
  bool shared() const { return !members_.empty() && members_.begin()->first != members_.rbegin()->first; }
  uint32_t shareOf() const;
  void forgetEnded(std::deque<Kernel>& kernels);

  Gpu& gpu_;
  std::mutex mutex_;
  std::multiset<std::pair<uint64_t, uint32_t>> members_;  // communicators and their ranks on this GPU
  std::map<int, std::deque<Kernel>> kernels_;             // in the order of their launches
  std::vector<Event> events_;                             // not used now
};

}  // namespace eccl::runtime::cuda
