// What two ends that look at one ring need beside it: waking each other, seeing more of each other's heaps,
// and taking memory back when one of them fails.
#include "transport/shm/memory_path.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/net/doorbell.h"
#include "transport/shm/shared_heap.h"

namespace eccl::transport {
namespace {

/// The peer is in the middle of one message, and if it is not preempted comes back before this. Another process
/// may have died or been stopped there, and whoever aborts waits for it.
constexpr Duration kPatience = std::chrono::milliseconds(80);
constexpr Duration kWorthTelling = std::chrono::seconds(1);

/// The whole pages of it.
void giveBackPages(const std::byte* memory, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
  if (end <= begin) return;
  void* const pages = reinterpret_cast<void*>(begin);
  if (madvise(pages, end - begin, MADV_REMOVE) != 0) madvise(pages, end - begin, MADV_DONTNEED);
}

}  // namespace

WayChoices firstChoices(const TransportContext& context, bool readable, RingControl& control) {
  // Among ranks that share cores a sender that is read waits for its turn after the reader's.
  const uint32_t readBelow = context.directFrom == kOversubscribedDirectFrom ? 0 : kWriteFrom;
  WayChoices choices{WayChoice(context.slotStreaming, context.singleCopy),
                     WayChoice::ofShown(context.slotStreaming, readBelow), WayChoice(context.slotStreaming, 0)};
  if (!readable) choices.front().neverRead();
  for (size_t kind = 0; kind < kMessageKinds; ++kind)
    control.receiverWants[kind] = {choices[kind].read(), choices[kind].streamed()};
  return choices;
}

MemoryPath::MemoryPath(Between between, RingMemory memory, PeerHeap peerHeap, SendEnd* sendEnd,
                       ReceiveEnd* receiveEnd, std::shared_ptr<Fd> doorbell)
    : between_(between),
      memory_(std::move(memory)),
      peerHeap_(std::move(peerHeap)),
      sendEnd_(sendEnd),
      receiveEnd_(receiveEnd),
      control_(end().control),
      myNews_(sendEnd != nullptr ? &control_->senderHeap : &control_->receiverHeap),
      theirNews_(sendEnd != nullptr ? &control_->receiverHeap : &control_->senderHeap),
      showsHeap_(end().mine.base != nullptr && end().mine.size > 0),
      doorbell_(std::move(doorbell)),
      kicked_(end().next) {
  if (receiveEnd_ != nullptr) receiveEnd_->claiming = true;
}

MemoryPath::~MemoryPath() {
  poison();
  end().exchange = nullptr;
  if (receiveEnd_ == nullptr) return;
  receiveEnd_->remote = nullptr;
  receiveEnd_->choices = nullptr;
  receiveEnd_->claimed = nullptr;
  receiveEnd_->claiming = false;
}

void MemoryPath::choose(const WayChoices& choices, std::unique_ptr<RemoteReads> process) {
  choices_ = choices;
  process_ = std::move(process);
  receiveEnd_->choices = &*choices_;
  receiveEnd_->claimed = &claimed_;
  receiveEnd_->remote = process_.get();
}

void MemoryPath::exchange(std::shared_ptr<Exchange> with) {
  const RingShape& shape = end().shape;
  if (!shape.exchanges) return;
  exchange_ = std::move(with);
  const int which = sendEnd_ != nullptr ? 0 : 1;
  ExchangeAreas& areas = exchange_->areas;
  exchange_->rings[which] = memory_;
  areas.memory[which] = static_cast<std::byte*>(memory_.get()) + shape.exchangeAt();
  areas.areaBytes = static_cast<uint32_t>(shape.areaStride());
  for (uint32_t area = 0; sendEnd_ != nullptr && area < ExchangeAreas::kEach; ++area) areas.take(area);
  end().exchange = &areas;
}

void MemoryPath::kick() {
  if (end().next == kicked_) return;
  fullFence();  // pairs with the storeFenced in the peer's beforeSleep()
  kickAfterBarrier();
}

void MemoryPath::kickAfterBarrier() {
  const uint64_t next = end().next;
  if (next == kicked_) return;
  kicked_ = next;
  if (heapHasNews()) shareHeap();
  wake();
}

void MemoryPath::wake() {
  uint32_t* asleep = sendEnd_ != nullptr ? &control_->receiverAsleep : &control_->senderAsleep;
  if (loadRelaxed(asleep) == 0) return;
  // Lowered so that one sleep is rung for once. If the peer has raised it anew meanwhile, the ring that follows
  // wakes that sleep too.
  storeRelease(asleep, 0u);
  ringPeer();
}

bool MemoryPath::waitsOn(uint32_t processor) {
  uint32_t *mine = &control_->senderProcessor, *theirs = &control_->receiverProcessor;
  if (sendEnd_ == nullptr) std::swap(mine, theirs);
  // Seldom another: who writes takes the line from the peer.
  if (loadRelaxed(mine) != processor) storeRelease(mine, processor);
  return loadRelaxed(theirs) == processor;
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
  if (doorbell_ != nullptr) ringBell(*doorbell_);
}

void MemoryPath::beforeSleep() {
  storeFenced(sendEnd_ != nullptr ? &control_->senderAsleep : &control_->receiverAsleep, 1u);
}

void MemoryPath::afterSleep() {
  storeRelease(sendEnd_ != nullptr ? &control_->senderAsleep : &control_->receiverAsleep, 0u);
}

// The pages of a file go with it, those of threads with the mapping.
void MemoryPath::giveBack() {
  if (exchange_ != nullptr) {  // what the other side owns it may be writing
    const ExchangeAreas& areas = exchange_->areas;
    for (uint32_t i = 0; i < areas.count; ++i) giveBackPages(areas.at(areas.owned[i]), areas.areaBytes);
  }
  if (sendEnd_ == nullptr || !drained()) return;
  giveBackPages(sendEnd_->data, (sendEnd_->lastLine + 1) * kCacheLine + sendEnd_->shape.slotBytes);
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
  // Another process that still reads finds the poison afterwards, and its result counts for nothing.
  if (sendEnd_ != nullptr && !sendEnd_->getsReleased()) awaitPeer(&control_->reading, "reads");
  if (sendEnd_ == nullptr && end().mine.size > 0 && !awaitPeer(&control_->writing, "writes to"))
    withdrawGrants();
}

// Until the peer is not in the middle of using this side's memory. New uses are refused by the poison. False:
// it is another process and takes too long. A thread of this one always comes back, and has to: it would reach
// into memory that may be gone.
bool MemoryPath::awaitPeer(const uint32_t* busy, const char* doing) const {
  System& system = System::real();  // whoever shares memory shares the machine
  const TimePoint begun = system.now();
  bool told = false;
  for (int turn = 0; loadAcquire(busy) != 0; ++turn) {  // pairs with endReading() and endWriting()
    if (turn < 100) {
      system.yield();
      continue;
    }
    const Duration waited = system.now() - begun;
    if (between_ == Between::processes && waited >= kPatience) return false;
    if (waited >= kWorthTelling && !std::exchange(told, true)) {
      ECCL_WARN(
          "waiting for a thread of this process that is stopped (in a debugger?) while it %s this rank's "
          "memory",
          doing);
    }
    const timespec rest{0, 100'000};
    nanosleep(&rest, nullptr);
  }
  return true;
}

// Messages are written in order, and a host's executor has one move of a connection under way. So those that
// are being written are the first that have a place and have not been published: as many as the sender has
// moves under way. (Of several, one before could be a reference, though it has a place.)
void MemoryPath::withdrawGrants() const {
  const uint32_t most = receiveEnd_->shape.offers();
  uint64_t message = receiveEnd_->next, bytes = 0;
  while (message - receiveEnd_->next < receiveEnd_->shape.slots &&
         loadAcquire(&receiveEnd_->slot(message)->sequence) == message + 1)
    ++message;
  uint32_t moves = loadAcquire(&control_->writing);
  for (; moves > 0 && message - receiveEnd_->next < most; ++message) {
    const PutOffer offer = receiveEnd_->offers[message & (most - 1)];
    if (offer.sequence != message + 1 || !receiveEnd_->mine.holds(offer.offset, offer.length)) continue;
    --moves;
    if (SharedHeap::ofThisProcess().withdraw(offer.offset, offer.length)) bytes += offer.length;
  }
  if (bytes == 0) return;
  ECCL_INFO(
      "a process on this host that is stopped, or has died, was in the middle of writing to this rank's "
      "memory: %llu bytes have been taken away from it",
      static_cast<unsigned long long>(bytes));
}

void MemoryPath::closeAfterFork() {
  doorbell_.reset();
}

}  // namespace eccl::transport
