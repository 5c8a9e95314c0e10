#include "runtime/cuda/rank_state.h"

#include <vector>

#include "runtime/cuda/lanes/block.h"

namespace eccl::runtime::cuda {

RankState::~RankState() {
  if (neighbours->lost()) {
    shown.keep();
    relay.keep();
    return;
  }
  for (auto& [id, its] : ends) gpu.giveBack(its.memory, neighbours->blocks() * sizeof(lanes::End));
  shown.giveBack();
}

Result<lanes::End*> RankState::endsOf(const RingId& id, uint32_t width, const Meeting& meeting,
                                      const Rings::Waits& waits) {
  Ends& its = ends[id];
  const uint32_t most = neighbours->blocks();
  if (its.memory == 0) { ECCL_ASSIGN(its.memory, gpu.take(most * sizeof(lanes::End))); }
  auto* const memory = reinterpret_cast<lanes::End*>(its.memory);
  if (its.filled >= width) return memory;
  const int from = std::get<0>(id), to = std::get<1>(id), other = from == rank ? to : from;
  const lanes::Shown* table = nullptr;
  std::vector<Rings::RingStrip> strips;
  if (neighbours->relayed(rank, other)) {
    ECCL_ASSIGN(strips, relay.ring(id, width));
  } else {
    if (!neighbours->isHere(other)) { ECCL_ASSIGN(table, shown.table(other)); }
    ECCL_ASSIGN(strips, neighbours->rings().ring(id, width, rank, meeting, waits));
  }
  std::vector<lanes::End> more;
  for (uint32_t i = its.filled; i < width; ++i) {
    lanes::End end{};
    end.receiver = strips[i].receiver;
    end.sender = strips[i].sender;
    end.next = end.releasedSeen = end.lastReference = lanes::kFirstMessage;
    end.shown = table;
    end.near = neighbours->near(from, to);
    end.relayed = neighbours->relayed(from, to);
    more.push_back(end);
  }
  ECCL_TRY(
      gpu.upload(its.memory + its.filled * sizeof(lanes::End), more.data(), more.size() * sizeof(lanes::End)));
  its.filled = width;
  return memory;
}

bool RankState::hasEnds(const RingId& id, uint32_t width) const {
  const auto found = ends.find(id);
  return found != ends.end() && found->second.filled >= width;
}

Status RankState::showBuffers(const Work& work, const Meeting& meeting) {
  if (!meeting.showsMemory) return {};
  for (const Space space : {Space::input, Space::output}) {
    const std::byte* const buffer = work.view.buffers[static_cast<int>(space)];
    const auto block = buffer == nullptr ? std::nullopt : UserMemory::of(gpu).find(addressOf(buffer));
    if (!block) continue;
    for (const ConnectionSpec& connection : work.program->connections)
      if (!neighbours->isHere(connection.peer) && !neighbours->relayed(rank, connection.peer))
        ECCL_TRY(shown.show(connection.peer, *block, meeting));
  }
  return {};
}

}  // namespace eccl::runtime::cuda
