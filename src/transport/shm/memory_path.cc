#include "transport/shm/memory_path.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

namespace eccl {
namespace {

/// A reader is in the middle of copying one slot; even preempted it comes back long before this.
constexpr Duration kReaderLimit = std::chrono::seconds(1);

}  // namespace

MemoryPath::MemoryPath(const char* name, RingMemory memory, SendEnd* sendEnd, ReceiveEnd* receiveEnd,
                       std::shared_ptr<Fd> doorbell)
    : name_(name),
      memory_(std::move(memory)),
      sendEnd_(sendEnd),
      receiveEnd_(receiveEnd),
      control_(end().control),
      doorbell_(std::move(doorbell)),
      kicked_(end().next) {}

MemoryPath::~MemoryPath() {
  poison();
}

void MemoryPath::kick() {
  const uint64_t next = end().next;
  if (next == kicked_) return;
  kicked_ = next;
  fullFence();  // pairs with the storeFenced in the peer's beforeSleep()
  uint32_t* asleep = sendEnd_ != nullptr ? &control_->receiverAsleep : &control_->senderAsleep;
  if (loadRelaxed(asleep) == 0) return;
  // Lowered so that one sleep is rung for once. If the peer has raised it anew meanwhile, the ring that follows
  // wakes that sleep too.
  storeRelease(asleep, 0u);
  ringPeer();
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
  if (sendEnd_ != nullptr) {
    storeFenced(&control_->senderPoison, 1u);  // pairs with ReceiveEnd::beginReading
  } else {
    storeFenced(&control_->receiverPoison, 1u);
    // The driver is stopped, so a move that failed half-way reads no more; the sender may be waiting for that.
    storeRelease(&control_->reading, 0u);
  }
  ringPeer();
  if (sendEnd_ != nullptr && !sendEnd_->referencesReleased()) awaitReader();
}

// Until the receiver is not in the middle of reading this side's memory. New reads are refused by the poison.
void MemoryPath::awaitReader() {
  const TimePoint limit = Clock::system().now() + kReaderLimit;
  for (int turn = 0; loadAcquire(&control_->reading) != 0; ++turn) {  // pairs with endReading()
    if (turn < 100) {
      sched_yield();
      continue;
    }
    if (Clock::system().now() >= limit) {
      ECCL_WARN(
          "a thread of this process still reads this rank's memory %d s after it was told to stop; memory "
          "handed to the failed operation must not be freed yet",
          static_cast<int>(kReaderLimit / std::chrono::seconds(1)));
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
