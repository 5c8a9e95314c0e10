#include "transport/tcp/tcp_transport.h"

#include <map>
#include <tuple>

#include "transport/core/ring_memory.h"
#include "transport/tcp/tcp_receiver.h"
#include "transport/tcp/tcp_sender.h"

namespace eccl::transport {
namespace {

/// One end of a connection. The call says all there is to say.
class TcpSetup final : public Offer, public Acceptance {
 public:
  TcpSetup(const TransportContext& context, std::shared_ptr<Twins> twins, bool fromLower)
      : context_(context), twins_(std::move(twins)), fromLower_(fromLower) {}
  Status onAnswer(SetupData&, SetupData*) override { return {}; }
  Status onConfirmation(SetupData&) override { return {}; }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) override {
    return openEnd<TcpSender>(end, std::move(opening));
  }
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening opening) override {
    return openEnd<TcpReceiver>(end, std::move(opening));
  }

 private:
  template <class TcpEnd, class End>
  Result<std::unique_ptr<Path>> openEnd(End& end, Opening opening) {
    ECCL_ASSIGN(RingMemory memory, mapPrivate(ringMemoryBytes(context_.ring)));
    formatRing(memory.get(), context_.ring, context_.firstMessage);
    context_.attach(end, memory.get());
    end.mine = kOwnAddressSpace;  // the path reads and writes there for the peer
    end.directFrom = context_.zeroCopyFrom;
    TcpPath::Wiring wiring;
    wiring.socket = std::move(opening.socket);
    wiring.twins = twins_;
    wiring.fromLower = fromLower_;
    wiring.reactor = context_.reactor;
    wiring.memory = std::move(memory);
    wiring.onBroken = std::move(opening.onBroken);
    wiring.onWantsMore = std::move(opening.onWantsMore);
    wiring.onSocketLost = std::move(opening.onSocketLost);
    wiring.partBytes = context_.partBytes;
    wiring.bytesPerCall = context_.bytesPerCall;
    auto path = std::make_unique<TcpEnd>(std::move(wiring), end);
    if (Status status = path->open(); !status.ok()) {
      path.reset();
      static_cast<RingEnd&>(end) = {};  // its memory is gone
      return status;
    }
    return std::unique_ptr<Path>(std::move(path));
  }
  const TransportContext& context_;
  const std::shared_ptr<Twins> twins_;
  const bool fromLower_;
};

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context) : context_(context) {}
  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData*) override {
    return std::unique_ptr<Offer>(setup(id));
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData&, SetupData*) override {
    return std::unique_ptr<Acceptance>(setup(id));
  }

 private:
  std::unique_ptr<TcpSetup> setup(const ConnectionId& id) {
    const auto [lower, higher] = std::minmax(id.from, id.to);
    std::shared_ptr<Twins>& twins = twins_[{lower, higher, id.channel, id.tag}];
    if (twins == nullptr) twins = std::make_shared<Twins>();
    return std::make_unique<TcpSetup>(context_, twins, id.from == lower);
  }

  std::map<std::tuple<int, int, int16_t, int16_t>, std::shared_ptr<Twins>> twins_;
  const TransportContext& context_;
};

}  // namespace

const TransportEntry kTcpTransport = {
    "tcp", 100, Reach::network, nullptr,
    [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(context));
    }};

}  // namespace eccl::transport
