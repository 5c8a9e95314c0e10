#include "runtime/cuda/reach.h"

#include <algorithm>
#include <cstddef>

#include "base/log.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {
namespace {

constexpr uint64_t kMostBytes = (uint64_t{1} << lanes::Reach::kOffsetBits) - 1;

}  // namespace

Result<ReachedMemory::Peer*> ReachedMemory::peer(int rank) {
  Peer& peer = peers_[rank];
  if (peer.table == 0) { ECCL_ASSIGN(peer.table, gpu_.take(sizeof(lanes::Reach))); }
  return &peer;
}

Result<const lanes::Reach*> ReachedMemory::table(int rank) {
  ECCL_ASSIGN(const Peer* its, peer(rank));
  return reinterpret_cast<const lanes::Reach*>(its->table);
}

void ReachedMemory::giveBack() {
  for (auto& [rank, peer] : peers_) gpu_.giveBack(peer.table, sizeof(lanes::Reach));
}

Status ReachedMemory::offer(int rank, const UserMemory::Block& block, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(rank));
  const auto same = [&](const UserMemory::Block& each) { return each.begin == block.begin; };
  if (std::any_of(its->ours.begin(), its->ours.end(), same)) return {};
  if (its->ours.size() == lanes::Reach::kMost || block.bytes > kMostBytes) return {};
  ECCL_ASSIGN(const Ticket ticket, UserMemory::of(gpu_).lend(block));
  ECCL_TRY(add(*its, true, its->ours.size(), block));
  its->ours.push_back(block);
  meeting.tell(
      rank,
      transport::ByteWriter().put(Said::block).put(static_cast<uint64_t>(block.bytes)).put(ticket).take());
  return {};
}

Status ReachedMemory::hear(int from, std::string_view message) {
  transport::ByteReader reader(message);
  Heard heard{from, reader.get<Said>(), reader.get<uint64_t>(), {}};
  if (heard.what == Said::block) heard.ticket = reader.get<Ticket>();
  const uint64_t most = heard.what == Said::block ? kMostBytes : lanes::Reach::kMost;
  std::lock_guard lock(hearing_);
  if (!reader.finished() || (heard.what != Said::block && heard.what != Said::opened) || heard.number == 0 ||
      heard.number > most || ++told_[from] > 2 * lanes::Reach::kMost)
    return Status::error(
        eccl::Code::remote,
        "rank %d says of memory that two processes reach what cannot be: is another version of ECCL there?",
        from);
  heard_.push_back(heard);
  any_.store(true, std::memory_order_release);
  return {};
}

Status ReachedMemory::goOn(const Meeting& meeting) {
  if (!any_.load(std::memory_order_acquire)) return {};
  std::vector<Heard> heard;
  {
    std::lock_guard lock(hearing_);
    heard.swap(heard_);
    any_.store(false, std::memory_order_release);
  }
  for (const Heard& each : heard) ECCL_TRY(each.what == Said::block ? open(each, meeting) : reachable(each));
  return {};
}

/// A block of another rank's. Where it cannot be opened messages go by slots, as before.
Status ReachedMemory::open(const Heard& heard, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(heard.from));
  if (its->refused || its->theirs == lanes::Reach::kMost) return {};
  const Result<Address> address = Loans::of(gpu_).reach(heard.ticket);
  if (!address.ok()) {
    its->refused = true;
    ECCL_INFO("%s does not reach memory of %s, and gets its messages by slots: %s", gpu_.name().c_str(),
              meeting.describe(heard.from).c_str(), address.status().message().c_str());
    return {};
  }
  ECCL_TRY(add(*its, false, its->theirs, {*address, static_cast<size_t>(heard.number)}));
  ECCL_TRY(count(*its, false, ++its->theirs));
  meeting.tell(heard.from, transport::ByteWriter().put(Said::opened).put(its->theirs).take());
  return {};
}

/// Blocks of this rank's that another one has opened.
Status ReachedMemory::reachable(const Heard& heard) {
  ECCL_ASSIGN(const Peer* const its, peer(heard.from));
  if (heard.number > its->ours.size())
    return Status::error(eccl::Code::remote,
                         "rank %d says that it reaches memory that it was not offered: is another version of "
                         "ECCL there?",
                         heard.from);
  reached_.store(true, std::memory_order_relaxed);
  return count(*its, true, heard.number);
}

Status ReachedMemory::add(const Peer& its, bool own, uint64_t number, const UserMemory::Block& block) {
  const lanes::Reach::Block entry{block.begin, block.bytes};
  const size_t list = own ? offsetof(lanes::Reach, our) : offsetof(lanes::Reach, their);
  return gpu_.upload(its.table + list + number * sizeof entry, &entry, sizeof entry);
}

Status ReachedMemory::count(const Peer& its, bool own, uint64_t blocks) {
  const size_t at = own ? offsetof(lanes::Reach, ours) : offsetof(lanes::Reach, theirs);
  return gpu_.upload(its.table + at, &blocks, sizeof blocks);
}

}  // namespace eccl::runtime::cuda
