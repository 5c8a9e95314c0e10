#include "transport/verbs/verbs_path.h"

#include <algorithm>

namespace eccl::transport::verbs {

VerbsPath::VerbsPath(Wiring wiring, uint32_t* peerPoison)
    : system_(*wiring.context->system),
      adapter_(*wiring.adapter),
      registrations_(*wiring.registrations),
      memory_(std::move(wiring.memory)),
      ring_(std::move(wiring.ring)),
      queues_(std::move(wiring.queues)),
      socket_(std::move(wiring.socket), *wiring.context->reactor, [this] { onPeerGone(); }),
      onBroken_(std::move(wiring.onBroken)),
      onWantsMore_(std::move(wiring.onWantsMore)),
      partBytes_(wiring.context->partBytes),
      peerPoison_(peerPoison) {}

Status VerbsPath::start() {
  ECCL_TRY(socket_.open());
  starting_ = true;
  for (size_t i = 0; i < queues_.size(); ++i) lines_.emplace_back(*this, i);
  for (size_t i = 0; i < queues_.size(); ++i) queues_[i]->start(&lines_[i]);
  starting_ = false;
  return fault_.empty() ? Status() : Status::error(Code::remote, "%s", fault_.c_str());
}

// What it sent before counts.
void VerbsPath::onPeerGone() {
  while (live() && adapter_.completions().poll()) {}
  breakOff(Breakage::ofSocket("receiving from it", 0));
}

// A peer that only waits for messages sees the end of the socket alone.
bool VerbsPath::end() {
  if (std::exchange(ended_, true)) return false;
  stopQueues();
  socket_.close();
  return true;
}

void VerbsPath::stopQueues() {
  for (const auto& each : queues_) each->stop();
  letGo();
}

void VerbsPath::breakOff(const Breakage& why) {
  if (!end()) return;
  storeRelease(peerPoison_, 1u);
  if (starting_)
    fault_ = why.reason;
  else
    onBroken_(why);
}

void VerbsPath::refuse(const std::string& what) {
  breakOff("it sent what cannot be: " + what + "; is it another version of ECCL?");
}

void VerbsPath::onPeerPoison() {
  if (end()) storeRelease(peerPoison_, 1u);
}

// Of several queue pairs, which go between the same ports, the first stands for all.
LinkReport VerbsPath::link() const {
  return {queue().device(), queue().local(), queue().remote()};
}

// All or none: they go between the same ports.
std::vector<DeviceFlow> VerbsPath::deviceFlows() const {
  std::vector<DeviceFlow> flows;
  for (const auto& each : queues_)
    if (auto flow = each->flow()) flows.push_back(*std::move(flow));
  return flows;
}

void VerbsPath::poison() {
  if (!live()) return;
  if (queue().room() > 0) {
    VerbsFrame last{};
    last.frame.kind = FrameKind::poison;
    queue().send(&last, sizeof last, nullptr, 0, 0, 0);
    queue().submit(true);
    ended_ = true;  // what comes meanwhile counts for nothing
    const TimePoint begun = system_.now();
    TimePoint now = begun;
    for (; !queue().idle() && !queue().stopped() && now - begun < adapter_.forLastWords; now = system_.now())
      if (!adapter_.completions().poll()) system_.yield();
    // A peer that does not hear them sees the end of the socket.
    adapter_.forLastWords -= std::min<Duration>(now - begun, adapter_.forLastWords);
  }
  ended_ = true;
  stopQueues();
  socket_.close();
}

void VerbsPath::closeAfterFork() {
  ended_ = true;
  socket_.closeAfterFork();
  for (const auto& each : queues_) each->closeAfterFork();
  ring_.release();
}

}  // namespace eccl::transport::verbs
