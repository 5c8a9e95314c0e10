#include "runtime/communicator/circles.h"

#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

/// Longer chains are not followed.
constexpr size_t kMaxChain = 8 << 10;  // bytes of text
/// A call lets a probe pass once in so long. Stalls are told less often, and a probe takes less to go round.
constexpr Duration kBetween = std::chrono::milliseconds(300);

}  // namespace

std::string Circles::write(const Probe& probe) {
  return transport::ByteWriter().put(probe.origin).put(probe.awaited).text(probe.chain).take();
}

bool Circles::read(std::string_view bytes, Probe* probe) {
  transport::ByteReader reader(bytes);
  probe->origin = reader.get<Origin>();
  probe->awaited = reader.get<CallRecord>();
  probe->chain = reader.text(kMaxChain);
  return reader.finished();
}

std::string Circles::textOf(const CallRecord& record) const {
  return format("%s number %llu of communicator %016llx%s%s", record.text().c_str(),
                static_cast<unsigned long long>(record.sequence),
                static_cast<unsigned long long>(communicator_), name_.empty() ? "" : " ", name_.c_str());
}

void Circles::onAwaited(int origin, const CallRecord& record) {
  follow({{communicator_, record.scope, record.sequence, origin}, record, {}});
}

void Circles::onProbe(std::string_view bytes) {
  Probe probe;
  if (read(bytes, &probe)) follow(std::move(probe));
}

void Circles::follow(Probe probe) {
  const HeldUp found = Stream::heldUp(engine_, probe.awaited.scope, probe.awaited.sequence);
  if (found.run == nullptr) return;
  probe.chain += format("%s%s has put %s behind ", probe.chain.empty() ? "" : "; ",
                        handler_.describe(rank_).c_str(), textOf(found.run->record).c_str());
  const std::string bytes = write(probe);
  for (const StreamItem& ahead : found.ahead) ahead.engine->pass(*ahead.run, bytes);
}

void Circles::pass(const Run& run, std::string_view bytes) {
  Probe probe;
  if (!read(bytes, &probe)) return;
  const CallRecord& record = run.record;
  probe.chain += textOf(record);
  const Origin& origin = probe.origin;
  if (origin.communicator == communicator_ && origin.scope == record.scope &&
      origin.sequence == record.sequence && (origin.rank == kAnyRank || origin.rank == rank_)) {
    return handler_.onCircle(Status::error(
        Code::invalidUsage,
        "calls wait for each other in a circle: %s. On all ranks put calls that share a stream into it in the "
        "same order, or give each communicator a stream of its own, or put Sends and Recvs into one group",
        probe.chain.c_str()));
  }
  const std::vector<int> needed = handler_.neededBy(run);
  if (needed.empty()) return;
  {
    std::lock_guard lock(mutex_);
    const TimePoint now = system_.now();
    std::erase_if(passed_, [&](const auto& each) { return now - each.second >= kBetween; });
    if (!passed_.emplace(std::make_tuple(origin, record.scope, record.sequence), now).second) return;
  }
  probe.awaited = record;
  const std::string further = write(probe);
  for (int peer : needed) handler_.sendProbe(peer, further);
}

}  // namespace eccl::runtime
