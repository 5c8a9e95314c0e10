// The lane kernels, compiled for the host from the same source. Every block is a set of real threads.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "cuda_emulation/emulation.h"
#include "runtime/cuda/lanes/run_block.h"

namespace eccl::cuda_emulation {
class BlockThread;
}  // namespace eccl::cuda_emulation

namespace eccl::runtime::cuda {
struct FunctionOf {
  const char* name;
  void (*run)(eccl::cuda_emulation::BlockThread&, lanes::BlockState&, const lanes::Calls&, uint32_t);
};
}  // namespace eccl::runtime::cuda

namespace eccl::cuda_emulation {

/// What the threads of a block have in common: a barrier at which they vote.
class BlockBarrier {
 public:
  explicit BlockBarrier(uint32_t threads) : threads_(threads) {}
  /// Whether all, and whether any, have said yes.
  std::pair<bool, bool> meet(bool mine) {
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    Votes& votes = votes_[turn % 2];
    if (mine) votes.yes.fetch_add(1, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      ++control().barriers;
      arrived_.store(0, std::memory_order_relaxed);
      votes_[(turn + 1) % 2].yes.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      turn_.notify_all();
    } else {
      for (int looks = 0; turn_.load(std::memory_order_acquire) == turn; ++looks) {
        if (looks < 20)
          std::this_thread::yield();
        else
          turn_.wait(turn, std::memory_order_acquire);
      }
    }
    const uint32_t yes = votes.yes.load(std::memory_order_relaxed);
    return {yes == threads_, yes > 0};
  }

 private:
  struct Votes {
    std::atomic<uint32_t> yes{0};
  };
  const uint32_t threads_;
  std::atomic<uint32_t> arrived_{0}, turn_{0};
  Votes votes_[2];
};

/// EMULATED_CUDA_WITHOUT_BARRIER=FILE:LINE leaves one out: tests have to notice.
bool isLeftOut(const char* file, int line) {
  static const char* const which = std::getenv("EMULATED_CUDA_WITHOUT_BARRIER");
  if (which == nullptr) return false;
  const char* const name = std::strrchr(file, '/');
  return std::string(name != nullptr ? name + 1 : file) + ":" + std::to_string(line) == which;
}

/// As a thread of a kernel's block sees it.
class BlockThread {
 public:
  static constexpr uint32_t kLong = 1 << 10, kWarp = 2;
  BlockThread(BlockBarrier& barrier, uint32_t thread, uint32_t threads)
      : barrier_(barrier), thread_(thread), threads_(threads) {}
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return threads_; }
  // Clang 14 has no std::source_location.
  void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!isLeftOut(file, line)) barrier_.meet(false);
  }
  bool all(bool mine) { return barrier_.meet(mine).first; }
  bool any(bool mine) { return barrier_.meet(mine).second; }
  void pause() { std::this_thread::yield(); }

 private:
  BlockBarrier& barrier_;
  const uint32_t thread_, threads_;
};

Function kernelOf(const char* name) {
#define KERNEL(its, Element, text) {"eccl_lanes_" #its, lanes::runBlock<Element, BlockThread>},
  static FunctionOf kernels[] = {ECCL_DATA_TYPES(KERNEL)};
#undef KERNEL
  for (FunctionOf& each : kernels)
    if (std::strcmp(each.name, name) == 0) return &each;
  return nullptr;
}

size_t argumentBytes(Function) {
  return sizeof(lanes::Calls);
}

/// The numbers of a ring's messages go on to just before its lines are cleaned next, as if many messages had
/// gone by slots. Both ends are idle, and come to the same numbers, each in its own kernel.
void advance(lanes::End& end, bool receives) {
  constexpr uint64_t kBefore = 2 * lanes::kSlots, kEvery = lanes::kCleanEvery;
  const uint64_t next = (end.next / kEvery + 1) * kEvery - kBefore + end.next % lanes::kSlots;
  if (next <= end.next) return;
  const uint64_t by = next - end.next;
  end.next += by;
  if (receives) {
    end.considered += by;
    return;
  }
  end.releasedSeen += by;
  end.lastReference += by;
  if (end.sender->released != 0) end.sender->released += by;
}

/// Calls visit(end, whether it receives) for each end that calls have.
template <class Visit>
void forEnds(const lanes::Calls& calls, const Visit& visit) {
  for (uint32_t c = 0; c < calls.count; ++c) {
    const lanes::BlockProgram& program = *calls.call[c].program;
    const auto* const bytes = reinterpret_cast<const std::byte*>(&program);
    const auto* const plans = reinterpret_cast<const lanes::LanePlan*>(bytes + program.laneList);
    const auto* const ends = reinterpret_cast<const lanes::EndOf*>(bytes + program.endList);
    for (uint32_t lane = 0; lane < program.lanes; ++lane)
      for (uint32_t e = plans[lane].firstEnd; e < plans[lane].firstEnd + plans[lane].ends; ++e)
        for (uint32_t strip = 0; strip < program.width; ++strip) visit(ends[e].strips[strip], ends[e].receives);
  }
}

/// As Control::advances says, once for each end.
void advanceRings(const lanes::Calls& calls) {
  static std::mutex mutex;
  static auto* const advanced = new std::map<const lanes::End*, int>;
  const int times = control().advances;
  if (times == 0) return;
  const std::lock_guard lock(mutex);
  forEnds(calls, [&](lanes::End& end, bool receives) {
    if (std::exchange((*advanced)[&end], times) != times) advance(end, receives);
  });
}

/// As Control::referred says. The host may know that the kernel is over, and have freed a ring.
void noteWays(const lanes::Calls& calls) {
  forEnds(calls, [](const lanes::End& end, bool receives) {
    if (!receives || end.shown == nullptr) return;
    lanes::Header last;
    if (!Memory::get().read(&last, &end.receiver->headers[(end.next - 1) % lanes::kSlots], sizeof last)) return;
    if (last.sequence != end.next || last.reference == 0) return;
    ++(last.reference == lanes::kPlaced ? control().placed : control().referred);
  });
}

void runKernel(Function kernel, unsigned blocks, const std::vector<std::byte>& arguments, int ordinal) {
  static std::atomic<int> resident[kDevices];
  lanes::Calls calls;
  std::memcpy(&calls, arguments.data(), sizeof calls);
  ++control().kernels;
  Memory::get().kernelBegins();
  if ((resident[ordinal] += static_cast<int>(blocks)) > kRoom)
    violation(kInvalidValue, "%d blocks are asked for on a device that has room for %d",
              resident[ordinal].load(), kRoom);
  advanceRings(calls);
  const auto count = static_cast<uint32_t>(control().blockThreads);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<BlockBarrier>> barriers;
  std::vector<std::unique_ptr<lanes::BlockState>> states;
  for (unsigned b = 0; b < blocks; ++b) {
    barriers.push_back(std::make_unique<BlockBarrier>(count));
    states.push_back(std::make_unique<lanes::BlockState>());
  }
  for (unsigned b = 0; b < blocks; ++b) {
    for (uint32_t t = 0; t < count; ++t)
      threads.emplace_back([&, b, t] {
        BlockThread thread(*barriers[b], t, count);
        kernel->run(thread, *states[b], calls, b);
      });
  }
  for (std::thread& thread : threads) thread.join();
  noteWays(calls);
  resident[ordinal] -= static_cast<int>(blocks);
  Memory::get().kernelEnds();
}

}  // namespace eccl::cuda_emulation
