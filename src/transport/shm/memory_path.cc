#include "transport/shm/memory_path.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"

namespace eccl {
namespace {

/// The peer is in the middle of one message; even preempted it comes back before this. A process may also have
/// died or been stopped there, and whoever aborts waits for it: not longer than that may take.
constexpr Duration kThreadLimit = std::chrono::seconds(1), kProcessLimit = std::chrono::milliseconds(80);

}  // namespace

MemoryPath::MemoryPath(const char* name, RingMemory memory, PeerHeap peerHeap, SendEnd* sendEnd,
                       ReceiveEnd* receiveEnd, std::shared_ptr<Fd> doorbell)
    : name_(name),
      memory_(std::move(memory)),
      peerHeap_(std::move(peerHeap)),
      sendEnd_(sendEnd),
      receiveEnd_(receiveEnd),
      control_(end().control),
      myNews_(sendEnd != nullptr ? &control_->senderHeap : &control_->receiverHeap),
      theirNews_(sendEnd != nullptr ? &control_->receiverHeap : &control_->senderHeap),
      showsHeap_(end().mine.base != nullptr && end().mine.size > 0),
      doorbell_(std::move(doorbell)),
      kicked_(end().next) {}

MemoryPath::~MemoryPath() {
  poison();
}

void MemoryPath::kick() {
  const uint64_t next = end().next;
  if (next == kicked_) return;
  kicked_ = next;
  if (heapHasNews()) shareHeap();
  fullFence();  // pairs with the storeFenced in the peer's beforeSleep()
  uint32_t* asleep = sendEnd_ != nullptr ? &control_->receiverAsleep : &control_->senderAsleep;
  if (loadRelaxed(asleep) == 0) return;
  // Lowered so that one sleep is rung for once. If the peer has raised it anew meanwhile, the ring that follows
  // wakes that sleep too.
  storeRelease(asleep, 0u);
  ringPeer();
}

// A few words that are in the cache already, or seldom written.
bool MemoryPath::heapHasNews() const {
  return (showsHeap_ && (loadRelaxed(&myNews_->used) < SharedHeap::used() ||
                         loadRelaxed(&theirNews_->mapped) > end().mine.size)) ||
         loadRelaxed(&theirNews_->used) > peerHeap_.wanted;
}

// Until the other side has mapped what this one has allocated since, it travels in slots. Nothing here is
// waited for.
void MemoryPath::shareHeap() {
  if (showsHeap_) {
    storeRelease(&myNews_->used, SharedHeap::used());
    const uint64_t most = SharedHeap::ofThisProcess().window().size;
    end().mine.size = std::max(end().mine.size, std::min(loadAcquire(&theirNews_->mapped), most));
  }
  peerHeap_.extend(loadAcquire(&theirNews_->used));
  if (peerHeap_.memory != nullptr) {
    end().theirs = peerHeap_.window;
    storeRelease(&myNews_->mapped, peerHeap_.window.size);
  }
}

void MemoryPath::ringPeer() {
  const uint64_t one = 1;
  // A full counter (EAGAIN) rings already.
  if (doorbell_ != nullptr) [[maybe_unused]]
    ssize_t put = write(doorbell_->get(), &one, sizeof one);
}

void MemoryPath::beforeSleep() {
  storeFenced(sendEnd_ != nullptr ? &control_->senderAsleep : &control_->receiverAsleep, 1u);
}

void MemoryPath::afterSleep() {
  storeRelease(sendEnd_ != nullptr ? &control_->senderAsleep : &control_->receiverAsleep, 0u);
}

bool MemoryPath::drained() const {
  return sendEnd_ == nullptr || loadAcquire(&control_->released) == sendEnd_->next;  // pairs with release()
}

void MemoryPath::poison() {
  if (poisoned_ || doorbell_ == nullptr) return;
  poisoned_ = true;
  // The driver is stopped, so a move of this side that failed half-way reads and writes no more; the peer may
  // be waiting for that.
  if (sendEnd_ != nullptr) {
    storeFenced(&control_->senderPoison, 1u);  // pairs with ReceiveEnd::beginReading
    storeRelease(&control_->writing, 0u);
  } else {
    storeFenced(&control_->receiverPoison, 1u);  // pairs with SendEnd::beginWriting
    storeRelease(&control_->reading, 0u);
  }
  ringPeer();
  if (sendEnd_ != nullptr && !sendEnd_->referencesReleased()) awaitPeer(&control_->reading, "reads");
  if (sendEnd_ == nullptr && end().mine.size > 0) awaitPeer(&control_->writing, "writes to");
}

// Until the peer is not in the middle of using this side's memory. New uses are refused by the poison.
void MemoryPath::awaitPeer(const uint32_t* busy, const char* doing) const {
  const bool thread = std::strcmp(name_, "thread") == 0;
  const Duration patience = thread ? kThreadLimit : kProcessLimit;
  const TimePoint limit = Clock::system().now() + patience;
  for (int turn = 0; loadAcquire(busy) != 0; ++turn) {  // pairs with endReading() and endWriting()
    if (turn < 100) {
      sched_yield();
      continue;
    }
    if (Clock::system().now() >= limit) {
      ECCL_WARN(
          "a %s that is stopped, or has died, still %s this rank's memory %d ms after it was told to leave it; "
          "memory handed to the failed operation must not be freed while that can go on",
          thread ? "thread of this process" : "process on this host", doing,
          static_cast<int>(patience / std::chrono::milliseconds(1)));
      return;
    }
    const timespec rest{0, 100'000};
    nanosleep(&rest, nullptr);
  }
}

void MemoryPath::closeAfterFork() {
  doorbell_.reset();
}

}  // namespace eccl
