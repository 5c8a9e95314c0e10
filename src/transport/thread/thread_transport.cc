#include "transport/thread/thread_transport.h"

#include <optional>

#include "transport/core/ring_memory.h"
#include "transport/shm/memory_path.h"

namespace eccl::transport {
namespace {

/// What both threads hold. Each field has one writer, before its message.
struct ThreadRing {
  RingMemory memory;
  bool senderDirect = false, receiverDirect = false;  // shows its memory
  std::shared_ptr<Fd> senderBell, receiverBell;
};

/// The path of either end; one of the two is not null.
std::unique_ptr<MemoryPath> makePath(const TransportContext& context, const ThreadRing& ring,
                                     std::shared_ptr<Exchange> exchange, SendEnd* send, ReceiveEnd* receive) {
  RingEnd& end = send != nullptr ? static_cast<RingEnd&>(*send) : *receive;
  if (ring.senderDirect && ring.receiverDirect) end.mine = end.theirs = kOwnAddressSpace;
  end.directFrom = context.directFrom;
  auto path = std::make_unique<MemoryPath>(MemoryPath::Between::threads, ring.memory, PeerHeap(), send, receive,
                                           send != nullptr ? ring.receiverBell : ring.senderBell);
  path->exchange(std::move(exchange));
  if (send != nullptr) {
    send->weighed = weighsWays(context);
    send->mayStream = context.slotStreaming != 0;
  }
  return path;
}

class ThreadOffer final : public Offer {
 public:
  ThreadOffer(const TransportContext& context, std::shared_ptr<ThreadRing> ring,
              std::shared_ptr<Exchange> exchange)
      : context_(context), ring_(std::move(ring)), exchange_(std::move(exchange)) {}
  // As a path would.
  ~ThreadOffer() override {
    if (!answered_ || opened_) return;
    storeFenced(&static_cast<RingControl*>(ring_->memory.get())->senderPoison, 1u);
    ringBell(*ring_->receiverBell);
  }
  Status onAnswer(SetupData&, SetupData*) override {
    answered_ = true;
    return {};
  }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening) override {
    context_.attach(end, ring_->memory.get(), withShortSlotsInMemory(context_.ring));
    std::unique_ptr<Path> path = makePath(context_, *ring_, exchange_, &end, nullptr);
    opened_ = true;
    return path;
  }

 private:
  const TransportContext& context_;
  const std::shared_ptr<ThreadRing> ring_;
  const std::shared_ptr<Exchange> exchange_;
  bool answered_ = false, opened_ = false;
};

class ThreadAcceptance final : public Acceptance {
 public:
  /// The sender may look at what is wanted as soon as it is answered.
  ThreadAcceptance(const TransportContext& context, std::shared_ptr<ThreadRing> ring,
                   std::shared_ptr<Exchange> exchange)
      : context_(context), ring_(std::move(ring)), exchange_(std::move(exchange)) {
    // What cannot be used in place goes by slots: a thread's memory is never asked of the kernel.
    if (weighsWays(context))
      choices_ = firstChoices(context, false, *static_cast<RingControl*>(ring_->memory.get()));
  }
  Status onConfirmation(SetupData&) override { return {}; }
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening) override {
    context_.attach(end, ring_->memory.get(), withShortSlotsInMemory(context_.ring));
    auto path = makePath(context_, *ring_, exchange_, nullptr, &end);
    if (choices_) path->choose(*choices_, nullptr);
    return std::unique_ptr<Path>(std::move(path));
  }

 private:
  const TransportContext& context_;
  const std::shared_ptr<ThreadRing> ring_;
  const std::shared_ptr<Exchange> exchange_;
  std::optional<WayChoices> choices_;
};

class ThreadTransport final : public Transport {
 public:
  explicit ThreadTransport(const TransportContext& context) : context_(context) {}

  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) override {
    const RingShape shape = withShortSlotsInMemory(context_.ring);
    auto ring = std::make_shared<ThreadRing>();
    ECCL_ASSIGN(ring->memory, mapPrivate(ringMemoryBytes(shape)));
    formatRing(ring->memory.get(), shape, context_.firstMessage);
    ring->senderDirect = context_.allowDirect;
    ring->senderBell = context_.reactor->sharedDoorbell();
    offer->object = ring;
    return std::unique_ptr<Offer>(
        std::make_unique<ThreadOffer>(context_, std::move(ring), exchanges_.of(id.to, id)));
  }

  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData& offer, SetupData*) override {
    auto ring = std::static_pointer_cast<ThreadRing>(offer.object);
    ring->receiverDirect = context_.allowDirect;
    ring->receiverBell = context_.reactor->sharedDoorbell();
    return std::unique_ptr<Acceptance>(
        std::make_unique<ThreadAcceptance>(context_, std::move(ring), exchanges_.of(id.from, id)));
  }

 private:
  const TransportContext& context_;
  Exchanges exchanges_;
};

}  // namespace

const TransportEntry kThreadTransport = {
    "thread", 300, Reach::process, "P2P_DISABLE",
    [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<ThreadTransport>(context));
    }};

}  // namespace eccl::transport
