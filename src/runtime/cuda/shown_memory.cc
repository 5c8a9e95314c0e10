#include "runtime/cuda/shown_memory.h"

#include <algorithm>
#include <cstddef>

#include "base/log.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {
namespace {

constexpr size_t kOur = offsetof(lanes::Shown, our), kTheir = offsetof(lanes::Shown, their);
static_assert(kPage == size_t{1} << lanes::Shown::kPageBits);

std::string saying(Said what, uint32_t number) {
  return transport::ByteWriter().put(what).put(number).take();
}

Status makesNoSense(int rank) {
  return Status::error(eccl::Code::remote,
                       "rank %d sent a message about memory that it shows, and it makes no sense: is another "
                       "version of ECCL there?",
                       rank);
}

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
  peers_.clear();
}

void ShownMemory::keep() {
  for (auto& [rank, peer] : peers_)
    for (Theirs& block : peer.theirs) MappedBlock::keep(std::move(block.mapped));
}

Status ShownMemory::show(int rank, const UserMemory::Block& block, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(rank));
  const auto isKnown = [&](const Ours& each) {
    return (each.state == Ours::shown || each.state == Ours::opened) && each.block.begin == block.begin;
  };
  bool& hidden = its->hidden[static_cast<size_t>(block.by())];
  if (hidden || block.bytes > lanes::Shown::kMostBytes || std::ranges::any_of(its->ours, isKnown)) return {};
  const auto free = std::ranges::find(its->ours, Ours::none, &Ours::state);
  if (free == its->ours.end()) return {};
  const Result<Ticket> ticket = UserMemory::of(gpu_).lend(block);
  if (!ticket.ok()) {
    hidden = true;
    ECCL_INFO("messages from %s to %s go by slots: %s", gpu_.name().c_str(), meeting.describe(rank).c_str(),
              ticket.status().message().c_str());
    return {};
  }
  *free = {Ours::shown, block};
  const auto number = static_cast<uint32_t>(free - its->ours.begin());
  meeting.tell(rank, transport::ByteWriter()
                         .put(Said::shown)
                         .put(number)
                         .put(static_cast<uint64_t>(block.bytes))
                         .put(*ticket)
                         .take());
  return {};
}

/// Their addresses are nobody else's until kernels have forgotten them.
Status ShownMemory::takeBack(const Meeting& meeting) {
  const uint64_t frees = UserMemory::of(gpu_).frees();
  if (frees == frees_) return {};
  frees_ = frees;
  for (auto& [rank, peer] : peers_) {
    for (uint32_t number = 0; number < kMost; ++number) {
      Ours& ours = peer.ours[number];
      if (ours.block.mapped == nullptr || ours.block.mapped->isMapped()) continue;
      if (ours.state == Ours::opened) ECCL_TRY(gpu_.write(peer.entry(kOur, number), 0));
      ours = {Ours::taken, {}};
      meeting.tell(rank, saying(Said::taken, number));
    }
  }
  return {};
}

Status ShownMemory::hear(int from, std::string_view message) {
  transport::ByteReader reader(message);
  Heard heard{from, reader.get<Said>(), reader.get<uint32_t>(), 0, {}};
  bool valid = heard.what > Said::ring && heard.what <= Said::closed && heard.number < kMost;
  if (heard.what == Said::shown) {
    heard.bytes = reader.get<uint64_t>();
    heard.ticket = reader.get<Ticket>();
    valid &= heard.bytes > 0 && heard.bytes % kPage == 0 && heard.bytes <= lanes::Shown::kMostBytes;
  }
  std::lock_guard lock(hearing_);
  // Of each block of theirs two that are not answered yet, and two answers for each of ours.
  if (!valid || !reader.finished() || ++waiting_[from] > 4 * kMost) return makesNoSense(from);
  heard_.push_back(heard);
  any_.store(true, std::memory_order_release);
  return {};
}

Status ShownMemory::goOn(const Meeting& meeting) {
  ECCL_TRY(takeBack(meeting));
  if (!any_.load(std::memory_order_acquire)) return {};
  std::vector<Heard> heard;
  {
    std::lock_guard lock(hearing_);
    heard.swap(heard_);
    waiting_.clear();
    any_.store(false, std::memory_order_release);
  }
  for (const Heard& each : heard) ECCL_TRY(goOn(each, meeting));
  return {};
}

Status ShownMemory::goOn(const Heard& heard, const Meeting& meeting) {
  ECCL_ASSIGN(Peer* const its, peer(heard.from));
  Ours& ours = its->ours[heard.number];
  Theirs& theirs = its->theirs[heard.number];
  switch (heard.what) {
    case Said::shown:
      if (theirs.state != Theirs::none) return makesNoSense(heard.from);
      return open(*its, heard, meeting);
    case Said::taken:
      if (theirs.state == Theirs::none) return makesNoSense(heard.from);
      ECCL_TRY(close(*its, heard.number));
      meeting.tell(heard.from, saying(Said::closed, heard.number));
      return {};
    case Said::opened:
      if (ours.state == Ours::none || ours.state == Ours::opened) return makesNoSense(heard.from);
      if (ours.state == Ours::taken) return {};  // it has been freed meanwhile
      ours.state = Ours::opened;
      return nowOpened(*its, heard.number);
    default:  // closed
      if (ours.state != Ours::taken) return makesNoSense(heard.from);
      ours.state = Ours::none;
      return {};
  }
}

/// Where this GPU finds another rank's block, which is as large as that says.
Result<UserMemory::Block> ShownMemory::find(const Heard& shown, const Meeting& meeting) const {
  if (!meeting.showsMemory) return Status::error(eccl::Code::invalidUsage, "ECCL_P2P_DISABLE is set");
  ECCL_ASSIGN(
      Borrowed found,
      Loans::of(gpu_, shown.ticket.by()).reach(shown.ticket, shown.bytes, fetchFrom(shown.from, meeting)));
  if (found.memory % kPage != 0)
    return Status::error(eccl::Code::system, "it does not begin where a page of the driver's does");
  return UserMemory::Block{found.memory, static_cast<size_t>(shown.bytes), std::move(found.mapped)};
}

/// Where a block cannot be opened messages go by slots, as before. It is in the table before the other rank may
/// refer to it.
Status ShownMemory::open(Peer& peer, const Heard& shown, const Meeting& meeting) {
  Theirs& theirs = peer.theirs[shown.number];
  theirs.state = Theirs::refused;
  bool& refused = peer.refused[static_cast<size_t>(shown.ticket.by())];
  if (refused) return {};
  const Result<UserMemory::Block> block = find(shown, meeting);
  if (!block.ok()) {
    refused = block.status().code() != eccl::Code::invalidArgument;  // that one has been freed meanwhile
    ECCL_INFO("messages from %s to %s go by slots: %s", meeting.describe(shown.from).c_str(),
              gpu_.name().c_str(), block.status().message().c_str());
    return {};
  }
  theirs = {Theirs::opened, block->mapped};
  ECCL_TRY(gpu_.write(peer.entry(kTheir, shown.number), lanes::Shown::block(block->begin, block->bytes)));
  ECCL_TRY(gpu_.write(peer.table + offsetof(lanes::Shown, theirs), 1));
  meeting.tell(shown.from, saying(Said::opened, shown.number));
  return {};
}

/// No message that is under way refers to it: the other rank's user has freed it.
Status ShownMemory::close(Peer& peer, uint32_t number) {
  Theirs& theirs = peer.theirs[number];
  if (theirs.state == Theirs::opened) ECCL_TRY(gpu_.write(peer.entry(kTheir, number), 0));
  theirs = {};
  return {};
}

Status ShownMemory::nowOpened(Peer& peer, uint32_t number) {
  written_.store(true, std::memory_order_relaxed);
  peer.most = std::max(peer.most, number + 1);
  const UserMemory::Block& block = peer.ours[number].block;
  ECCL_TRY(gpu_.note(peer.entry(kOur, number), lanes::Shown::block(block.begin, block.bytes)));
  return gpu_.note(peer.table + offsetof(lanes::Shown, ours), peer.most);
}

}  // namespace eccl::runtime::cuda
