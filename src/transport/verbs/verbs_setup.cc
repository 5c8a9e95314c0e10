#include "transport/verbs/verbs_setup.h"

#include <algorithm>
#include <cstring>

#include "transport/verbs/verbs_receiver.h"

namespace eccl::transport::verbs {
namespace {

constexpr uint32_t kVersion = 4;  // of what follows, and of VerbsFrame

struct GidText {
  uint8_t raw[16];
  uint8_t index, kind, unused[2];
};
struct OfferText {
  uint32_t version, rail;
  QueueAddresses queues;  // from whichever GID is chosen
  uint32_t gids;
  GidText gid[kMostGidsToOffer];
};
struct AnswerText {
  uint32_t version, gid;  // of those that were offered
  QueueAddresses queues;
  LandingPlace landing;
};
struct ConfirmationText {
  uint32_t version;
};

template <class PathEnd, class End, class... Arguments>
Result<std::unique_ptr<Path>> openPath(VerbsEnd& made, End& end, Opening& opening,
                                       const Arguments&... arguments) {
  const TransportContext& context = *made.context;
  context.attach(end, made.memory.get(), made.shape);
  end.directFrom = context.zeroCopyFrom;
  end.mine = kOwnAddressSpace;
  constexpr MemoryFor kUse = std::is_same_v<End, SendEnd> ? MemoryFor::sending : MemoryFor::receiving;
  end.mine.reachable = &made.rail->registrations->reachable(kUse);
  auto path = std::make_unique<PathEnd>(made.wire(opening), end, arguments...);
  if (Status status = path->start(); !status.ok()) {
    path.reset();
    static_cast<RingEnd&>(end) = {};  // its memory is gone
    return status;
  }
  return std::unique_ptr<Path>(std::move(path));
}

class VerbsOffer final : public Offer {
 public:
  VerbsOffer(VerbsEnd end, std::vector<Gid> gids) : end_(std::move(end)), gids_(std::move(gids)) {}
  Status onAnswer(SetupData& answer, SetupData* confirmation) override {
    const auto text = answer.as<AnswerText>();
    if (!text.has_value() || text->version != kVersion)
      return Status::error(Code::remote, "the answer is of another version of this transport");
    if (text->landing.places != end_.shape.mostLong() || text->landing.slotBytes != end_.shape.slotBytes)
      return Status::error(Code::remote, "the answer is for slots of another size");
    if (text->gid >= gids_.size())
      return Status::error(Code::remote, "the answer is to GID number %u of %zu", text->gid, gids_.size());
    landing_ = text->landing;
    for (const auto& queue : end_.queues) queue->goFrom(gids_[text->gid]);
    ECCL_TRY(end_.connect(text->queues));
    confirmation->set(ConfirmationText{kVersion});
    return {};
  }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) override {
    return openPath<VerbsSender>(end_, end, opening, landing_);
  }

 private:
  VerbsEnd end_;
  const std::vector<Gid> gids_;
  LandingPlace landing_{};
};

class VerbsAcceptance final : public Acceptance {
 public:
  explicit VerbsAcceptance(VerbsEnd end) : end_(std::move(end)) {}
  Status onConfirmation(SetupData& confirmation) override {
    const auto text = confirmation.as<ConfirmationText>();
    if (text.has_value() && text->version == kVersion) return {};
    return Status::error(Code::remote, "the confirmation is of another version of this transport");
  }
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening opening) override {
    return openPath<VerbsReceiver>(end_, end, opening);
  }

 private:
  VerbsEnd end_;
};

/// Which of the GIDs that a peer offers meets one of `port`'s, and that one. On InfiniBand any two are tried.
/// Error (system): none.
Result<std::pair<uint32_t, Gid>> gidsThatMeet(const Port& port, const OfferText& offer,
                                              const VerbsOptions& options) {
  std::string theirs;
  for (uint32_t i = 0; i < offer.gids; ++i) {
    const GidText& its = offer.gid[i];
    const Gid peers = gidOf(its.raw, its.index, its.kind);
    const auto own = port.ethernet ? gidLike(port, peers, options) : chooseGid(port, options);
    if (own.has_value()) return std::pair(i, *own);
    theirs += (i == 0 ? "" : "; ") + textOf(peers);
  }
  return Status::error(Code::system,
                       "%s has no GID that meets one of the peer's: %s (ECCL_IB_HCA, ECCL_IB_GID_INDEX)",
                       port.text().c_str(), theirs.c_str());
}

/// What each side of a connection may have sent that the other has not taken: by the bounds that credits set.
/// `first`: of the queue pair that has more than long messages.
QueueNeed needOf(const RingShape& ring, bool sends, bool first) {
  constexpr uint32_t kOthers = 4;  // poison, the end, a question
  QueueNeed need;
  need.headerBytes = sizeof(VerbsFrame);
  need.receiveBytes = sizeof(VerbsFrame);
  need.writable = !sends;
  if (!first) {
    need.sends = sends ? 4 * ring.mostLong() + kOthers : 1;
    need.receives = sends ? 1 : ring.mostLong() + kOthers;
  } else if (sends) {
    // Two for a long message, one for others, and as many that are not known to be done.
    need.sends = 2 * (ring.slots + ring.mostLong()) + kOthers;
    need.receives = 4 * ring.slots + kOthers;  // credits for a ring of messages, grants for three
  } else {
    need.sends = 4 * ring.mostLong() + kOthers;  // what there is no room for can wait
    need.receives = ring.slots + kOthers;
    need.receiveBytes += std::min(kInFrame, ring.slotBytes);
  }
  return need;
}

}  // namespace

Status VerbsEnd::make(const TransportContext& its, const Rail& over, const Gid& from, bool sends, size_t count,
                      const VerbsOptions& options) {
  const Status status = tryToMake(its, over, from, sends, count, options);
  if (status.ok() || !over.registrations->giveBack()) return status;
  return tryToMake(its, over, from, sends, count, options);
}

Status VerbsEnd::tryToMake(const TransportContext& its, const Rail& over, const Gid& from, bool sends,
                           size_t count, const VerbsOptions& options) {
  context = &its;
  rail = &over;
  shape = withShortSlots(its.ring);
  ECCL_ASSIGN(memory, mapPrivate(ringMemoryBytes(shape)));
  formatRing(memory.get(), shape, its.firstMessage);
  // Of the receiver's ring peers may write to what lies in slots alone.
  auto* const base = static_cast<std::byte*>(memory.get());
  const size_t begin = sends ? 0 : shape.dataAt();
  const int access = sends ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ECCL_ASSIGN(ring, registerWith(over.adapter->domain(), base + begin, shape.bytes() - begin, access));
  queues.clear();
  for (size_t i = 0; i < count; ++i) {
    ECCL_ASSIGN(auto queue, QueuePair::make(*over.adapter, over.port, from, needOf(shape, sends, i == 0),
                                            options, *its.system));
    queues.push_back(std::move(queue));
  }
  return {};
}

QueueAddresses VerbsEnd::addresses() const {
  QueueAddresses all{};
  for (const auto& queue : queues) all.queues[all.count++] = queue->address();
  return all;
}

Status VerbsEnd::connect(const QueueAddresses& peers) {
  if (peers.count < 1 || peers.count > queues.size())
    return Status::error(Code::remote, "the peer has %u queue pairs for this side's %zu", peers.count,
                         queues.size());
  queues.resize(peers.count);
  for (size_t i = 0; i < queues.size(); ++i) ECCL_TRY(queues[i]->connect(peers.queues[i]));
  return {};
}

LandingPlace VerbsEnd::landing() const {
  const auto address = reinterpret_cast<uintptr_t>(memory.get()) + shape.dataAt();
  return {address, ring->rkey, shape.mostLong(), shape.slotBytes};
}

VerbsPath::Wiring VerbsEnd::wire(Opening& opening) {
  VerbsPath::Wiring wiring;
  wiring.adapter = rail->adapter;
  wiring.registrations = rail->registrations;
  wiring.memory = std::move(memory);
  wiring.ring = std::move(ring);
  wiring.queues = std::move(queues);
  wiring.context = context;
  wiring.socket = std::move(opening.socket);
  wiring.onBroken = std::move(opening.onBroken);
  wiring.onWantsMore = std::move(opening.onWantsMore);
  return wiring;
}

Result<std::unique_ptr<Offer>> offerVerbs(const TransportContext& context, const Rails& rails, int channel,
                                          const VerbsOptions& options, SetupData* offer) {
  VerbsEnd end;
  const uint32_t rail = rails.numberFor(channel);
  const Port& port = rails[rail].port;
  const std::vector<Gid> gids = gidsToOffer(port, options);
  if (gids.empty())
    return Status::error(
        Code::system, "%s has no GID%s", port.text().c_str(),
        options.gidIndex >= 0 ? format(" number %d (ECCL_IB_GID_INDEX)", options.gidIndex).c_str() : "");
  ECCL_TRY(end.make(context, rails[rail], gids[0], true, options.queuePairs, options));
  OfferText text{kVersion, rail, end.addresses(), static_cast<uint32_t>(gids.size()), {}};
  for (size_t i = 0; i < gids.size(); ++i) {
    text.gid[i] = {{}, static_cast<uint8_t>(gids[i].index), static_cast<uint8_t>(gids[i].kind), {}};
    std::memcpy(text.gid[i].raw, gids[i].raw.raw, sizeof text.gid[i].raw);
  }
  offer->set(text);
  return std::unique_ptr<Offer>(std::make_unique<VerbsOffer>(std::move(end), gids));
}

Result<std::unique_ptr<Acceptance>> acceptVerbs(const TransportContext& context, const Rails& rails,
                                                const VerbsOptions& options, const SetupData& offer,
                                                SetupData* answer) {
  const auto text = offer.as<OfferText>();
  if (!text.has_value() || text->version != kVersion)
    return Status::error(Code::remote, "the offer is of another version of this transport");
  if (text->queues.count < 1 || text->queues.count > QueueAddresses::kMost)
    return Status::error(Code::remote, "the offer is of %u queue pairs", text->queues.count);
  if (text->gids < 1 || text->gids > kMostGidsToOffer)
    return Status::error(Code::remote, "the offer is of %u GIDs", text->gids);
  const Rail& rail = rails[text->rail];
  ECCL_ASSIGN(const auto meeting, gidsThatMeet(rail.port, *text, options));
  const GidText& peers = text->gid[meeting.first];
  QueueAddresses theirs = text->queues;
  theirs.count = std::min(theirs.count, options.queuePairs);
  for (QueueAddress& queue : theirs.queues) {
    std::memcpy(queue.gid, peers.raw, sizeof queue.gid);
    queue.gidIndex = peers.index;
    queue.gidKind = peers.kind;
  }
  VerbsEnd end;
  ECCL_TRY(end.make(context, rail, meeting.second, false, theirs.count, options));
  ECCL_TRY(end.connect(theirs));
  answer->set(AnswerText{kVersion, meeting.first, end.addresses(), end.landing()});
  return std::unique_ptr<Acceptance>(std::make_unique<VerbsAcceptance>(std::move(end)));
}

}  // namespace eccl::transport::verbs
