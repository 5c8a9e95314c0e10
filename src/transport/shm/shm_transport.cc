#include "transport/shm/shm_transport.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/log.h"
#include "transport/shm/memory_path.h"
#include "transport/shm/shared_heap.h"

namespace eccl::transport {
namespace {

/// Each rank of another process has one doorbell, whatever the number of connections, and this process one
/// descriptor of it, whatever the number of its own ranks: descriptors are scarce.
class Doorbells {
 public:
  std::shared_ptr<Fd> of(int rank, const Identity& identity, Fd offered) {
    static std::mutex* const mutex = new std::mutex;
    static auto* const ofProcess = new std::map<Identity, std::weak_ptr<Fd>>;
    std::shared_ptr<Fd>& known = ofRank_[rank];
    if (known != nullptr) return known;
    std::lock_guard lock(*mutex);
    std::erase_if(*ofProcess, [](const auto& item) { return item.second.expired(); });
    known = (*ofProcess)[identity].lock();
    if (known == nullptr) (*ofProcess)[identity] = known = std::make_shared<Fd>(std::move(offered));
    return known;
  }
  void closeAfterFork() {
    for (auto& [rank, bell] : ofRank_) bell->reset();
  }

 private:
  std::map<int, std::shared_ptr<Fd>> ofRank_;
};

/// An eventfd that never waits, as far as can be seen. A write to a pipe or socket could wait, or end the
/// process.
Result<Fd> doorbellIn(Fd& offered) {
  struct stat about {};
  const bool anonymous = fstat(offered.get(), &about) == 0 && (about.st_mode & S_IFMT) == 0;
  if (!anonymous || (fcntl(offered.get(), F_GETFL) & O_NONBLOCK) == 0)
    return Status::error(Code::remote, "what the peer sent is no doorbell");
  return std::move(offered);
}

/// The memory that the messages of a rank's connections go round in: TransportContext::slotSpread.
class SlotSpread {
 public:
  /// `end`, attached to its ring, gets its share of `bytes`: the first all, as few connections are used much.
  void give(SendEnd& end, uint64_t bytes) {
    const uint64_t share = std::min(bytes, kMostSlotSpread) / ++given_ / kCacheLine;
    // Touched now, as the first messages would take several times as long.
    for (uint64_t line = 0; line < share; line += kPage / kCacheLine)
      *static_cast<volatile std::byte*>(end.data + line * kCacheLine) = std::byte{0};
    end.places.spread = share;
  }

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t given_ = 0;
};

/// What the connections of a rank have in common.
struct ShmRank {
  Doorbells doorbells;
  SlotSpread spread;
  Exchanges exchanges;
  RingMemory aside;  // for messages that are read from processes: a place for each source of a move
  bool saidUnreadable = false;
};

/// What both sides of a set-up do.
struct ShmSide {
  const TransportContext& context;
  ShmRank& rank;
  const ConnectionId id;
  RingMemory memory;
  PeerHeap theirs;                         // what this side can get at
  Window mine;                             // what the peer can get at
  std::unique_ptr<ProcessMemory> process;  // the receiver's: of the sender
  std::optional<WayChoices> choices;       // the receiver's

  int peer() const { return id.from == context.rank ? id.to : id.from; }
  /// Adds this process's heap to what the peer is given.
  ShmHeap giveHeap(SetupData& data) const {
    if (!context.allowDirect) return {};
    const ShmHeap heap{SharedHeap::ofThisProcess().window().size, SharedHeap::used()};
    if (heap.bytes > 0) data.lent.push_back(SharedHeap::ofThisProcess().fd());
    return heap;
  }
  /// Maps the peer's heap, if the message came with one. Returns how much of it; 0: nothing.
  uint64_t takeHeap(const ShmHeap& heap, const SetupData& data) {
    if (heap.bytes == 0 || !context.allowDirect) return 0;
    Result<PeerHeap> mapped = mapPeerHeap(data.descriptors.back().get(), heap.bytes, heap.used);
    if (mapped.ok())
      theirs = mapped.take();
    else
      ECCL_INFO("%s: the peer's memory is not used in place: %s", context.text(id).c_str(),
                mapped.status().message().c_str());
    return theirs.window.size;
  }
  /// The peer has mapped so much of this process's heap.
  void showHeap(uint64_t mapped) {
    if (!context.allowDirect) return;  // it was given nothing
    mine = SharedHeap::ofThisProcess().window();
    mine.size = std::min(mine.size, mapped);
  }
  bool mayRead() const { return context.allowDirect && context.singleCopy != 0; }
  /// The receiver's choices; the sender finds what is wanted with the answer.
  void choose(int32_t pid, const ProcessMark& mark) {
    if (!weighsWays(context)) return;
    if (mayRead()) lookInto(pid, mark);
    choices = firstChoices(context, process != nullptr, *static_cast<RingControl*>(memory.get()));
  }
  /// Finds out whether the sender's process can be read. What cannot travels in slots.
  void lookInto(int32_t pid, const ProcessMark& mark) {
    Status status;
    if (rank.aside == nullptr) {
      Result<RingMemory> aside = mapPrivate(size_t{context.ring.slotBytes} * kMaxOperands);
      if (aside.ok()) rank.aside = aside.take();
      status = aside.status();
    }
    if (status.ok()) {
      process = std::make_unique<ProcessMemory>(pid, mark, rank.aside, context.ring.slotBytes);
      status = process->check();
    }
    if (status.ok()) return;
    process = nullptr;
    if (std::exchange(rank.saidUnreadable, true)) return;
    ECCL_INFO("%s: plain memory goes through slots, with two copies: %s", context.text(id).c_str(),
              status.message().c_str());
  }
  /// One of the two ends is not null. It is attached.
  std::unique_ptr<Path> open(SendEnd* send, ReceiveEnd* receive, Fd doorbell) {
    if (send != nullptr) rank.spread.give(*send, context.slotSpread);
    RingEnd& end = send != nullptr ? static_cast<RingEnd&>(*send) : *receive;
    end.mine = mine;
    end.theirs = theirs.window;
    end.directFrom = context.directFrom;
    if (send != nullptr) {
      send->weighed = weighsWays(context);
      send->mayStream = context.slotStreaming != 0;
      send->mayGrow = true;
      if (mayRead()) send->legible = legibleToOthers;
    }
    auto path = std::make_unique<MemoryPath>(
        MemoryPath::Between::processes, memory, theirs, send, receive,
        rank.doorbells.of(peer(), context.endpoint(peer()).identity, std::move(doorbell)));
    if (choices) path->choose(*choices, std::move(process));
    path->exchange(rank.exchanges.of(peer(), id));
    return path;
  }
};

// The offer does not wait for the receiver to ask for the connection: it lies in the socket until then. Its
// pages cost nothing before they are touched, and of a ring that is refused only the headers have been.
class OfferedRing final : public Offer {
 public:
  explicit OfferedRing(ShmSide side) : side_(std::move(side)) {}
  Status make(SetupData* offer) {
    const TransportContext& context = side_.context;
    const RingShape shape = shmRing(context.ring);
    const size_t bytes = ringMemoryBytes(shape);
    ECCL_ASSIGN(SharedMemory shared, createShared("eccl-ring", bytes));
    side_.memory = std::move(shared.memory);
    ShmOffer message;
    context.system->random(message.nonce.data(), message.nonce.size());
    formatRing(side_.memory.get(), shape, context.firstMessage);
    proofIn(side_.memory.get(), shape).sender = message.nonce;
    message.bytes = bytes;
    offer->descriptors.push_back(std::move(shared.fd));
    offer->lent.push_back(context.reactor->doorbell());
    message.heap = side_.giveHeap(*offer);
    if (context.allowDirect) message.process = markOfThisProcess(*context.system);
    offer->set(message);
    return {};
  }
  Status onAnswer(SetupData& data, SetupData* confirmation) override {
    const std::optional<ShmAnswer> answer = data.as<ShmAnswer>();
    if (!answer || data.descriptors.size() != (answer->heap.bytes > 0 ? 2u : 1u))
      return Status::error(Code::remote, "the peer's descriptors did not come through");
    if (proofIn(side_.memory.get(), shmRing(side_.context.ring)).receiver != answer->nonce)
      return Status::error(Code::remote, "what the peer wrote does not show in the shared memory");
    confirmation->set(ShmConfirmation{side_.takeHeap(answer->heap, data)});
    side_.showHeap(answer->mapped);
    ECCL_ASSIGN(doorbell_, doorbellIn(data.descriptors[0]));
    return {};
  }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening) override {
    side_.context.attach(end, side_.memory.get(), shmRing(side_.context.ring));
    return side_.open(&end, nullptr, std::move(doorbell_));
  }

 private:
  ShmSide side_;
  Fd doorbell_;
};

class AcceptedRing final : public Acceptance {
 public:
  explicit AcceptedRing(ShmSide side) : side_(std::move(side)) {}
  // Reads the sender's nonce in the memory and writes one for it to read. Nothing in the offer is believed:
  // size, number of descriptors and what they are get checked.
  Status take(SetupData& data, SetupData* answer) {
    const RingShape shape = shmRing(side_.context.ring);
    const size_t bytes = ringMemoryBytes(shape);
    const std::optional<ShmOffer> offer = data.as<ShmOffer>();
    if (!offer) return Status::error(Code::remote, "the sender's offer makes no sense");
    if (data.descriptors.size() != (offer->heap.bytes > 0 ? 3u : 2u)) {
      return Status::error(Code::system,
                           "descriptors got lost on the way (raise 'ulimit -n' of the receiver?)");
    }
    if (offer->bytes != bytes) {
      return Status::error(Code::remote, "%llu bytes offered, %zu expected",
                           static_cast<unsigned long long>(offer->bytes), bytes);
    }
    ECCL_ASSIGN(side_.memory, mapShared(data.descriptors[0].get(), bytes));
    if (proofIn(side_.memory.get(), shape).sender != offer->nonce)
      return Status::error(Code::remote, "what the sender wrote does not show in the shared memory");
    ShmAnswer message;
    side_.context.system->random(message.nonce.data(), message.nonce.size());
    proofIn(side_.memory.get(), shape).receiver = message.nonce;
    message.mapped = side_.takeHeap(offer->heap, data);
    side_.choose(data.process, offer->process);
    answer->lent.push_back(side_.context.reactor->doorbell());
    message.heap = side_.giveHeap(*answer);
    answer->set(message);
    ECCL_ASSIGN(doorbell_, doorbellIn(data.descriptors[1]));  // what is mapped needs no descriptor
    return {};
  }
  Status onConfirmation(SetupData& data) override {
    const std::optional<ShmConfirmation> confirmation = data.as<ShmConfirmation>();
    if (!confirmation) return Status::error(Code::remote, "the peer's answer makes no sense");
    side_.showHeap(confirmation->mapped);
    return {};
  }
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening) override {
    side_.context.attach(end, side_.memory.get(), shmRing(side_.context.ring));
    return side_.open(nullptr, &end, std::move(doorbell_));
  }

 private:
  ShmSide side_;
  Fd doorbell_;
};

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const TransportContext& context) : context_(context) {}
  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) override {
    auto made = std::make_unique<OfferedRing>(ShmSide{context_, rank_, id, {}, {}, {}, {}});
    ECCL_TRY(made->make(offer));
    return std::unique_ptr<Offer>(std::move(made));
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData& offer,
                                             SetupData* answer) override {
    auto made = std::make_unique<AcceptedRing>(ShmSide{context_, rank_, id, {}, {}, {}, {}});
    ECCL_TRY(made->take(offer, answer));
    return std::unique_ptr<Acceptance>(std::move(made));
  }
  void closeAfterFork() override { rank_.doorbells.closeAfterFork(); }

 private:
  const TransportContext& context_;
  ShmRank rank_;
};

}  // namespace

const TransportEntry kShmTransport = {
    "shm", 200, Reach::host, "SHM_DISABLE",
    [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<ShmTransport>(context));
    }};

}  // namespace eccl::transport
