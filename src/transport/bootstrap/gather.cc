#include "transport/bootstrap/gather.h"

#include <algorithm>

#include "transport/bootstrap/ranks.h"
#include "transport/net/bytes.h"
#include "transport/net/wait.h"

namespace eccl::transport {

std::string encodeParts(const std::vector<std::string>& parts) {
  ByteWriter out;
  for (const std::string& part : parts) out.text(part);
  return out.take();
}

Result<std::vector<std::string>> decodeParts(std::string_view body, size_t count) {
  ByteReader in(body);
  std::vector<std::string> parts;
  for (size_t i = 0; i < count && in.ok(); ++i) parts.emplace_back(in.text(body.size()));
  if (in.finished()) return parts;
  return Status::error(Code::remote, "the result of an allGather is malformed (%zu bytes for %zu ranks)",
                       body.size(), count);
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
