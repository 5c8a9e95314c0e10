#include "transport/bootstrap/gather.h"

#include <algorithm>

#include "transport/bootstrap/ranks.h"
#include "transport/net/bytes.h"
#include "transport/net/wait.h"

namespace eccl::transport {

namespace {

/// False if that is not what encodeParts() writes.
template <class Each>
bool readParts(std::string_view body, size_t count, const Each& each) {
  ByteReader in(body);
  std::string part, before;
  size_t bytes = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    const size_t size = in.get<uint32_t>();
    bytes += size;
    if (!in.ok() || bytes > Frame::kMaxBody) return false;
    std::swap(part, before);
    for (part.clear(); part.size() < size;) {
      const size_t same = in.get<uint16_t>(), fresh = in.get<uint16_t>(), at = part.size();
      if (same + fresh == 0 || at + same + fresh > size) return false;
      if (same > 0 && at + same > before.size()) return false;
      part.append(std::string_view(before).substr(std::min(at, before.size()), same)).append(in.raw(fresh));
      if (!in.ok()) return false;
    }
    each(rank, part);
  }
  return in.finished();
}

}  // namespace

std::string encodeParts(const std::vector<std::string>& parts) {
  constexpr size_t kMostOfRun = UINT16_MAX, kLeastSame = 8;  // fewer cost more than they spare
  ByteWriter out;
  std::string_view before;
  for (const std::string_view part : parts) {
    const auto sameFrom = [&](size_t at) {
      const size_t most = std::min({part.size(), before.size(), at + kMostOfRun});
      size_t end = at;
      while (end < most && part[end] == before[end]) ++end;
      return end - at;
    };
    out.put(static_cast<uint32_t>(part.size()));
    for (size_t at = 0; at < part.size();) {
      const size_t same = sameFrom(at);
      at += same;
      size_t end = at;
      while (end < part.size() && end - at < kMostOfRun && sameFrom(end) < kLeastSame) ++end;
      out.put(static_cast<uint16_t>(same)).put(static_cast<uint16_t>(end - at)).raw(part.substr(at, end - at));
      at = end;
    }
    before = part;
  }
  return out.take();
}

Result<Parts> decodeParts(std::string_view body, size_t count) {
  if (readParts(body, count, [](size_t, std::string_view) {})) return Parts(body, count);
  return Status::error(Code::remote, "the result of an allGather is malformed (%zu bytes for %zu ranks)",
                       body.size(), count);
}

void Parts::visit(const std::function<void(size_t rank, std::string_view part)>& each) const {
  readParts(*body_, count_, each);
}

std::vector<std::string> Parts::list() const {
  std::vector<std::string> all;
  visit([&](size_t, std::string_view part) { all.emplace_back(part); });
  return all;
}

// The order of checks matters: a gather that has failed stays failed for latecomers, whatever they bring.
void GatherRoot::add(Frame&& part, Duration limit, TimePoint now, std::vector<Frame>* out) {
  const uint64_t sequence = part.header.sequence;
  const auto rank = static_cast<size_t>(part.header.origin);
  if (auto failed = failed_.find(sequence); failed != failed_.end()) return out->push_back(failed->second);
  Pending& gather = pending_[sequence];
  if (gather.parts.empty()) {
    gather.parts.resize(static_cast<size_t>(nranks_));
    gather.have.resize(static_cast<size_t>(nranks_));
  }
  if (gather.have[rank]) return;  // cannot come from a rank that keeps to the protocol
  gather.have[rank] = true;
  gather.bytes += part.body.size() + sizeof(uint32_t);
  gather.parts[rank] = std::move(part.body);
  if (now + limit < gather.deadline) {
    gather.deadline = now + limit;
    gather.limit = limit;
  }
  if (gather.bytes > Frame::kMaxBody) {
    return fail(sequence, Code::invalidArgument,
                format("the parts of allGather number %llu exceed %u MiB together",
                       static_cast<unsigned long long>(sequence), Frame::kMaxBody >> 20),
                out);
  }
  if (pending_.size() > kMaxPending) {
    const uint64_t oldest = pending_.begin()->first;
    fail(oldest, Code::internal, "too many allGathers are under way at once", out);
    if (oldest == sequence) return;
  }
  for (auto& [absent, why] : absent_) {
    if (!gather.have[static_cast<size_t>(absent)]) return fail(sequence, Code::remote, why, out);
  }
  if (++gather.count < nranks_) return;
  out->push_back({{.type = FrameType::parts, .sequence = sequence}, encodeParts(gather.parts)});
  pending_.erase(sequence);
}

void GatherRoot::expire(TimePoint now, std::vector<Frame>* out) {
  for (auto next = pending_.begin(); next != pending_.end();) {
    auto& [sequence, gather] = *next++;  // fail() erases the current one
    if (now < gather.deadline) continue;
    std::vector<int> missing;
    for (int rank = 0; rank < nranks_; ++rank) {
      if (!gather.have[static_cast<size_t>(rank)]) missing.push_back(rank);
    }
    fail(sequence, Code::timeout,
         format("%s of %d %s not taken part in a collective step of the set-up within %.3g s (allGather number "
                "%llu)",
                nameRanks(missing).c_str(), nranks_, missing.size() == 1 ? "has" : "have",
                seconds(gather.limit), static_cast<unsigned long long>(sequence)),
         out);
  }
}

// Gathers that have the rank's part already can still complete.
void GatherRoot::forget(int rank, const std::string& why, std::vector<Frame>* out) {
  absent_[rank] = why;
  for (auto next = pending_.begin(); next != pending_.end();) {
    auto& [sequence, gather] = *next++;
    if (!gather.have[static_cast<size_t>(rank)]) fail(sequence, Code::remote, why, out);
  }
}

TimePoint GatherRoot::nextDeadline() const {
  TimePoint next = TimePoint::max();
  for (auto& [sequence, gather] : pending_) next = std::min(next, gather.deadline);
  return next;
}

void GatherRoot::fail(uint64_t sequence, Code code, std::string why, std::vector<Frame>* out) {
  constexpr size_t kRemembered = 64;
  const Frame verdict{{.type = FrameType::noParts, .kind = static_cast<uint16_t>(code), .sequence = sequence},
                      std::move(why)};
  pending_.erase(sequence);
  failed_[sequence] = verdict;
  if (failed_.size() > kRemembered) failed_.erase(failed_.begin());
  out->push_back(verdict);
}

}  // namespace eccl::transport
