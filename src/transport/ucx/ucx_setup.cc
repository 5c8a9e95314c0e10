#include "transport/ucx/ucx_setup.h"

#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_receiver.h"
#include "transport/ucx/ucx_sender.h"

namespace eccl::transport {

Status UcxSetup::say(SetupData* data) const {
  return sayUcx({mine_, worker_.address()}, ucxVersion(), data);
}

Status UcxSetup::read(const SetupData& data) {
  ECCL_ASSIGN(theirs_, readUcx(data, ucxVersion()));
  return {};
}

template <class End>
Result<UcxPath::Wiring> UcxSetup::wire(End& end, Opening& opening) {
  const TransportContext& context = worker_.context();
  UcxPath::Wiring wiring;
  wiring.worker = &worker_;
  const RingShape shape = withShortSlots(context.ring);
  ECCL_ASSIGN(wiring.memory, mapPrivate(ringMemoryBytes(shape)));
  const int peer = id_.from == context.rank ? id_.to : id_.from;
  wiring.peer = worker_.peer(peer, theirs_.address);
  wiring.begins = context.rank < peer;
  wiring.mine = mine_;
  wiring.theirs = theirs_.end;
  wiring.socket = std::move(opening.socket);
  wiring.onBroken = std::move(opening.onBroken);
  formatRing(wiring.memory.get(), shape, context.firstMessage);
  context.attach(end, wiring.memory.get(), shape);
  end.mine = kOwnAddressSpace;  // the path reads and writes there for the peer
  end.directFrom = context.zeroCopyFrom;
  return wiring;
}

template <class PathEnd, class End>
Result<std::unique_ptr<Path>> UcxSetup::openPath(End& end, Opening& opening) {
  ECCL_ASSIGN(UcxPath::Wiring wiring, wire(end, opening));
  auto path = std::make_unique<PathEnd>(std::move(wiring), end);
  if (Status status = path->open(); !status.ok()) {
    path.reset();
    static_cast<RingEnd&>(end) = {};  // its memory is gone
    return status;
  }
  return std::unique_ptr<Path>(std::move(path));
}

Result<std::unique_ptr<Path>> UcxSetup::open(SendEnd& end, Opening opening) {
  return openPath<UcxSender>(end, opening);
}

Result<std::unique_ptr<Path>> UcxSetup::open(ReceiveEnd& end, Opening opening) {
  return openPath<UcxReceiver>(end, opening);
}

}  // namespace eccl::transport
