#include "runtime/cuda/rings.h"

#include "runtime/cuda/said.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {
namespace {

/// After such a wait for another rank's part of a ring it is told that it lasts.
constexpr Duration kPatience = std::chrono::milliseconds(100);

}  // namespace

void Rings::giveBack() {
  for (auto& [id, ring] : rings_) {
    for (auto& [gpu, address, bytes] : ring.memory) gpu->giveBack(address, bytes);
    if (aborted_) continue;  // other processes may still have kernels that use the ring: it stays as it is
    for (auto& [gpu, address] : ring.borrowed) {
      const Entered entered(gpu->driver(), gpu->context());
      if (entered.status().ok()) Loans::of(*gpu).giveBack(address);
    }
    for (auto& [gpu, loan] : ring.lent) Loans::of(*gpu).end(loan);
  }
  if (aborted_) return;
  // What was offered for calls that were never made.
  for (auto& [id, heard] : heard_) {
    const auto& [from, to, channel, tag] = id;
    Gpu& gpu = *gpus_[static_cast<size_t>(isHere(to) ? to : from)];
    const Entered entered(gpu.driver(), gpu.context());
    if (!entered.status().ok()) continue;
    for (const Offer& offer : heard.offers) {
      if (const auto data = Loans::of(gpu).borrow(offer.ticket); data.ok()) Loans::of(gpu).giveBack(*data);
    }
  }
}

void Rings::abort() {
  std::lock_guard lock(hearing_);
  aborted_ = true;
  changed_.notifyAll();
}

void Rings::Ring::add(bool receiver, Address at, size_t strips) {
  for (size_t i = 0; i < strips; ++i) {
    if (receiver)
      receivers.push_back(reinterpret_cast<lanes::AtReceiver*>(at) + i);
    else
      senders.push_back(reinterpret_cast<lanes::AtSender*>(at) + i);
  }
}

Status Rings::offer(const RingId& id, uint32_t width, int own, const Meeting& meeting) {
  const auto& [from, to, channel, tag] = id;
  const bool receives = to == own;
  const int other = receives ? from : to;
  if (isHere(other)) return {};
  Gpu& gpu = *gpus_[static_cast<size_t>(own)];
  std::lock_guard lock(mutex_);
  Ring& ring = rings_[id];
  const size_t have = ring.parts(receives);
  if (have >= width) return {};
  const size_t more = width - have;
  ECCL_ASSIGN(const Loan loan,
              Loans::of(gpu).lend(more * (receives ? sizeof(lanes::AtReceiver) : sizeof(lanes::AtSender))));
  ring.lent.emplace_back(&gpu, loan);
  ring.add(receives, loan.data(), more);
  meeting.tell(other, transport::ByteWriter()
                          .put(Said::ring)
                          .put(from)
                          .put(to)
                          .put(channel)
                          .put(tag)
                          .put(static_cast<uint32_t>(more))
                          .put(loan.ticket)
                          .take());
  return {};
}

Status Rings::hear(int own, int from, std::string_view message) {
  transport::ByteReader reader(message);
  const auto said = reader.get<Said>();
  const auto source = reader.get<int32_t>(), target = reader.get<int32_t>();
  const auto channel = reader.get<int16_t>(), tag = reader.get<int16_t>();
  const auto strips = reader.get<uint32_t>();
  const auto ticket = reader.get<Ticket>();
  const bool ours = (source == from && target == own) || (source == own && target == from);
  std::lock_guard lock(hearing_);
  if (!reader.finished() || said != Said::ring || !ours || isHere(from) || strips == 0 || strips > kMostStrips)
    return Status::error(
        eccl::Code::remote,
        "rank %d sent rank %d an offer of memory that is none: is another version of ECCL there?", from, own);
  Heard& heard = heard_[{source, target, channel, tag}];
  if (heard.strips += strips; heard.strips > kMostStrips)
    return Status::error(eccl::Code::remote,
                         "rank %d offers rank %d more strips of a ring than a GPU has blocks", from, own);
  heard.offers.push_back({strips, ticket});
  changed_.notifyAll();
  return {};
}

Result<Rings::Offer> Rings::await(const RingId& id, int from, const Meeting& meeting, const Waits& waits) {
  const TimePoint begun = system_.now();
  Duration told = kPatience / 2;  // at twice that again
  std::unique_lock lock(hearing_);
  for (;;) {
    std::deque<Offer>& offers = heard_[id].offers;
    if (!offers.empty()) {
      const Offer offer = offers.front();
      offers.pop_front();
      return offer;
    }
    if (aborted_) {
      const Status why = meeting.failure();
      return why.ok() ? Status::error(eccl::Code::internal, "the communicator was aborted") : why;
    }
    changed_.waitFor(lock, kPatience);
    const Duration waited = system_.now() - begun;
    if (waited < 2 * told) continue;
    told = waited;
    lock.unlock();
    waits(waited, from);
    lock.lock();
  }
}

Result<std::vector<Rings::RingStrip>> Rings::ring(const RingId& id, uint32_t width, int own,
                                                  const Meeting& meeting, const Waits& waits) {
  const int from = std::get<0>(id), to = std::get<1>(id), other = own == to ? from : to;
  std::unique_lock lock(mutex_);
  Ring& ring = rings_[id];  // stays where it is
  while (!isHere(other) && ring.parts(other == to) < width) {
    lock.unlock();
    ECCL_ASSIGN(const Offer offer, await(id, other, meeting, waits));
    Gpu& gpu = *gpus_[static_cast<size_t>(own)];
    ECCL_ASSIGN(const Address data, Loans::of(gpu).borrow(offer.ticket));
    lock.lock();
    ring.borrowed.emplace_back(&gpu, data);
    ring.add(other == to, data, offer.strips);
  }
  for (const bool receiver : {true, false}) {
    const size_t have = ring.parts(receiver);
    if (have >= width) continue;
    Gpu& gpu = *gpus_[static_cast<size_t>(receiver ? to : from)];
    const size_t bytes = (width - have) * (receiver ? sizeof(lanes::AtReceiver) : sizeof(lanes::AtSender));
    const Entered entered(gpu.driver(), gpu.context());
    ECCL_TRY(entered.status());
    ECCL_ASSIGN(const Address address, gpu.take(bytes));
    ring.memory.emplace_back(&gpu, address, bytes);
    ring.add(receiver, address, width - have);
  }
  std::vector<RingStrip> strips;
  for (uint32_t i = 0; i < width; ++i) strips.push_back({ring.receivers[i], ring.senders[i]});
  return strips;
}

}  // namespace eccl::runtime::cuda
