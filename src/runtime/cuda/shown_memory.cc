#include "runtime/cuda/shown_memory.h"

#include <algorithm>
#include <cstddef>

#include "base/log.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << lanes::Shown::kOffsetBits;

}  // namespace

Result<ShownMemory::Peer*> ShownMemory::peer(int rank) {
  Peer& peer = peers_[rank];
  if (peer.table == 0) { ECCL_ASSIGN(peer.table, gpu_.take(sizeof(lanes::Shown))); }
  return &peer;
}

Result<const lanes::Shown*> ShownMemory::table(int rank) {
  ECCL_ASSIGN(const Peer* its, peer(rank));
  return reinterpret_cast<const lanes::Shown*>(its->table);
}

void ShownMemory::giveBack() {
  for (auto& [rank, peer] : peers_) gpu_.giveBack(peer.table, sizeof(lanes::Shown));
}

// The table has the block at once, and counts it when the other rank has opened it.
Status ShownMemory::show(int rank, const UserMemory::Block& block, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(rank));
  const uint64_t number = its->ours.size();
  const bool known = std::find(its->ours.begin(), its->ours.end(), block.begin) != its->ours.end();
  if (known || !its->shows || number == lanes::Shown::kMost || block.bytes > kMostBytes) return {};
  const Result<Ticket> ticket = UserMemory::of(gpu_).lend(block);
  if (!ticket.ok()) {
    its->shows = false;
    ECCL_INFO("messages from %s to %s go by slots: %s", gpu_.name().c_str(), meeting.describe(rank).c_str(),
              ticket.status().message().c_str());
    return {};
  }
  const Address entry = its->table + offsetof(lanes::Shown, our) + number * sizeof(lanes::Shown::Block);
  gpu_.note(entry + offsetof(lanes::Shown::Block, begin), block.begin);
  gpu_.note(entry + offsetof(lanes::Shown::Block, bytes), block.bytes);
  its->ours.push_back(block.begin);
  const auto bytes = static_cast<uint64_t>(block.bytes);
  meeting.tell(rank, transport::ByteWriter().put(Said::shown).put(bytes).put(*ticket).take());
  return {};
}

Status ShownMemory::hear(int from, std::string_view message) {
  transport::ByteReader reader(message);
  Heard heard{from, reader.get<Said>(), 0, {}, 0};
  bool valid = false;
  if (heard.what == Said::shown) {
    heard.bytes = reader.get<uint64_t>();
    heard.ticket = reader.get<Ticket>();
    valid = heard.bytes > 0 && heard.bytes <= kMostBytes;
  } else if (heard.what == Said::opened) {
    heard.blocks = reader.get<uint64_t>();
    valid = heard.blocks > 0 && heard.blocks <= lanes::Shown::kMost;
  }
  std::lock_guard lock(hearing_);
  if (!valid || !reader.finished() || ++told_[from] > 2 * lanes::Shown::kMost)
    return Status::error(
        eccl::Code::remote,
        "rank %d sent a message about memory that it shows, and it makes no sense: is another version of ECCL "
        "there?",
        from);
  heard_.push_back(heard);
  any_.store(true, std::memory_order_release);
  return {};
}

Status ShownMemory::goOn(const Meeting& meeting) {
  if (!any_.load(std::memory_order_acquire)) return {};
  std::vector<Heard> heard;
  {
    std::lock_guard lock(hearing_);
    heard.swap(heard_);
    any_.store(false, std::memory_order_release);
  }
  for (const Heard& each : heard) ECCL_TRY(each.what == Said::shown ? open(each, meeting) : opened(each));
  return {};
}

/// Where this GPU finds another rank's block, which is as large as that says.
Result<UserMemory::Block> ShownMemory::find(const Heard& shown) const {
  ECCL_ASSIGN(const Address address, Loans::of(gpu_).reach(shown.ticket));
  Address begin = 0;
  size_t bytes = 0;
  ECCL_TRY(gpu_.driver().check(gpu_.driver().cuMemGetAddressRange(&begin, &bytes, address),
                               "cuMemGetAddressRange", "of another process's memory on %s",
                               gpu_.name().c_str()));
  if (address - begin > bytes || shown.bytes > bytes - (address - begin))
    return Status::error(eccl::Code::remote, "it has %zu bytes, and is said to have %llu", bytes,
                         static_cast<unsigned long long>(shown.bytes));
  return UserMemory::Block{address, static_cast<size_t>(shown.bytes)};
}

/// Where a block cannot be opened messages go by slots, as before. It is in the table before the other rank may
/// refer to it.
Status ShownMemory::open(const Heard& shown, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(shown.from));
  if (its->refused || its->theirs == lanes::Shown::kMost) return {};
  const Result<UserMemory::Block> block =
      meeting.showsMemory ? find(shown) : Status::error(eccl::Code::invalidUsage, "ECCL_P2P_DISABLE is set");
  if (!block.ok()) {
    its->refused = true;
    ECCL_INFO("messages from %s to %s go by slots: %s", meeting.describe(shown.from).c_str(),
              gpu_.name().c_str(), block.status().message().c_str());
    return {};
  }
  const lanes::Shown::Block entry{block->begin, block->bytes};
  const Address at = its->table + offsetof(lanes::Shown, their) + its->theirs * sizeof entry;
  const uint64_t blocks = ++its->theirs;
  ECCL_TRY(gpu_.upload(at, &entry, sizeof entry));
  ECCL_TRY(gpu_.upload(its->table + offsetof(lanes::Shown, theirs), &blocks, sizeof blocks));
  meeting.tell(shown.from, transport::ByteWriter().put(Said::opened).put(blocks).take());
  return {};
}

Status ShownMemory::opened(const Heard& heard) {
  ECCL_ASSIGN(const Peer* const its, peer(heard.from));
  if (heard.blocks > its->ours.size())
    return Status::error(eccl::Code::remote,
                         "rank %d says that it has opened memory that it was not shown: is another version of "
                         "ECCL there?",
                         heard.from);
  written_.store(true, std::memory_order_relaxed);
  gpu_.note(its->table + offsetof(lanes::Shown, ours), heard.blocks);
  return {};
}

}  // namespace eccl::runtime::cuda
