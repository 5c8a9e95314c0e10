#include "runtime/cuda/rings.h"

#include "runtime/cuda/said.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {
namespace {

/// After such a wait for another rank's part of a ring it is told that it lasts.
constexpr Duration kPatience = std::chrono::milliseconds(100);

/// In such a time a rank hears that another has failed, or has left, also on a busy host.
constexpr Duration kNewsLimit = std::chrono::seconds(10);

Status failureOf(const Meeting& meeting) {
  const Status why = meeting.failure();
  return why.ok() ? Status::error(eccl::Code::internal, "the communicator was aborted") : why;
}

/// For the strips of one end of a ring.
size_t bytesOf(bool receiver, size_t strips) {
  return strips * (receiver ? sizeof(lanes::AtReceiver) : sizeof(lanes::AtSender));
}

}  // namespace

void Rings::giveBack() {
  for (auto& [id, ring] : rings_) {
    for (auto& [gpu, address, bytes] : ring.memory) gpu->giveBack(address, bytes);
    if (aborted_) continue;  // other processes may still have kernels that use what was lent by handle
    for (auto& [gpu, loan] : ring.borrowed) {
      const Entered entered(gpu->driver(), gpu->context());
      if (entered.status().ok()) Loans::of(*gpu, loan.by()).giveBack(std::move(loan));
    }
    for (auto& [gpu, loan] : ring.lent) Loans::of(*gpu, loan.ticket.by()).end(std::move(loan));
  }
  if (aborted_) return;
  // What was offered for calls that were never made: by descriptor it is the lender's alone.
  for (auto& [id, heard] : heard_) {
    const auto& [from, to, channel, tag] = id;
    Gpu& gpu = *gpus_[static_cast<size_t>(isHere(to) ? to : from)];
    const Entered entered(gpu.driver(), gpu.context());
    if (!entered.status().ok()) continue;
    for (const Offer& offer : heard.offers) {
      if (offer.ticket.by() == LendBy::descriptor) continue;
      Loans& loans = Loans::of(gpu, LendBy::handle);
      if (auto loan = loans.borrow(offer.ticket, 0, nullptr); loan.ok()) loans.giveBack(loan.take());
    }
  }
}

void Rings::keep() {
  for (auto& [id, ring] : rings_) {
    for (auto& [gpu, loan] : ring.borrowed) MappedBlock::keep(std::move(loan.mapped));
    for (auto& [gpu, loan] : ring.lent) MappedBlock::keep(std::move(loan.mapped));
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
  ECCL_ASSIGN(const Loan loan, Loans::of(gpu, by_).lend(bytesOf(receives, more)));
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
    if (aborted_) return failureOf(meeting);
    changed_.waitFor(lock, kPatience);
    const Duration waited = system_.now() - begun;
    if (waited < 2 * told) continue;
    told = waited;
    lock.unlock();
    waits(waited, from);
    lock.lock();
  }
}

/// In place of a part that the other rank could not be asked for. If it has failed everybody is about to hear
/// that. If it has left in order, all that it has sent lies here, and nobody reads what it is told.
Result<Address> Rings::standIn(const RingId& id, size_t bytes, int own, const Meeting& meeting,
                               const Status& why) {
  const int from = std::get<0>(id), to = std::get<1>(id), other = own == to ? from : to;
  // Else it is there, or this rank could not go on.
  if (why.code() != eccl::Code::remote && why.code() != eccl::Code::internal) return why;
  std::unique_lock lock(hearing_);
  const TimePoint end = system_.now() + kNewsLimit;
  while (!aborted_ && !meeting.hasLeft(other) && system_.now() < end) changed_.waitFor(lock, kNewsLimit / 1000);
  if (aborted_) return failureOf(meeting);
  lock.unlock();
  if (!meeting.hasLeft(other)) return why;
  if (other == to)
    return Status::error(eccl::Code::remote, "%s has left the communicator or died, and is to receive",
                         meeting.describe(other).c_str());
  return gpus_[static_cast<size_t>(own)]->take(bytes);
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
    const size_t bytes = bytesOf(other == to, offer.strips);
    Result<Borrowed> loan =
        Loans::of(gpu, offer.ticket.by()).borrow(offer.ticket, bytes, fetchFrom(other, meeting));
    Address instead = 0;
    if (!loan.ok()) { ECCL_ASSIGN(instead, standIn(id, bytes, own, meeting, loan.status())); }
    lock.lock();
    ring.add(other == to, loan.ok() ? loan->data() : instead, offer.strips);
    if (loan.ok())
      ring.borrowed.emplace_back(&gpu, loan.take());
    else
      ring.memory.emplace_back(&gpu, instead, bytes);
  }
  for (const bool receiver : {true, false}) {
    const size_t have = ring.parts(receiver);
    if (have >= width) continue;
    Gpu& gpu = *gpus_[static_cast<size_t>(receiver ? to : from)];
    const size_t bytes = bytesOf(receiver, width - have);
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
