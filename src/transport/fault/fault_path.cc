#include "transport/fault/fault_path.h"

#include <algorithm>
#include <cstring>

namespace eccl::transport {

FaultPath::FaultPath(const FaultPlan& plan, System& system, RingMemory memory, SendEnd& outer,
                     std::function<void(const Breakage&)> onCut)
    : plan_(plan),
      system_(system),
      memory_(std::move(memory)),
      outer_(outer),
      onCut_(std::move(onCut)),
      first_(outer.next),
      random_(plan.seed) {
  messages_.seen = credits_.seen = first_;
}

void FaultPath::wrap(std::unique_ptr<Path> path) {
  path_ = std::move(path);
}

Duration FaultPath::randomDelay() {
  if (plan_.delay <= Duration::zero()) return Duration::zero();
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
  return Duration(static_cast<int64_t>((random_ >> 33) % static_cast<uint64_t>(plan_.delay.count())));
}

// Gives every message or credit that is new the time at which it may pass.
void FaultPath::admit(Way& way, uint64_t upTo, bool mayStall) {
  for (; way.seen != upTo; ++way.seen) {
    TimePoint due = system_.now() + randomDelay();
    if (mayStall && way.seen - first_ == plan_.stallAt) due += plan_.stallFor;
    way.last = std::max(way.last, due);
    way.due.push_back(way.last);
  }
}

void FaultPath::moveMessages(TimePoint now) {
  admit(messages_, outer_.next, true);
  while (path_ != nullptr && !messages_.due.empty() && messages_.due.front() <= now) {
    const uint64_t message = inner_.next;
    if (message - first_ == plan_.cutAfter) {
      if (!path_->drained()) return;  // those before it do arrive
      path_.reset();
      storeRelease(&outer_.control->receiverPoison, 1u);
      return onCut_(
          format("cut on purpose after %llu messages", static_cast<unsigned long long>(plan_.cutAfter)));
    }
    Slot* from = outer_.slot(message);
    Slot* to = inner_.reserve(from->length);
    if (to == nullptr) return;
    std::memcpy(to->inlineData, from->inlineData, sizeof to->inlineData);  // or the offset of a reference
    if ((from->flags & kSlotGet) == 0 && from->length > kInlineBytes)
      std::memcpy(inner_.place(from->length), outer_.dataOf(*from, from->length), from->length);
    inner_.publish(from->length, from->flags, from->signature);
    messages_.due.pop_front();
  }
}

void FaultPath::moveCredits(TimePoint now) {
  if (path_ == nullptr) return;
  admit(credits_, loadAcquire(&inner_.control->released), false);  // pairs with ReceiveEnd::release
  uint64_t released = outer_.control->released;
  for (; !credits_.due.empty() && credits_.due.front() <= now; ++released) credits_.due.pop_front();
  storeRelease(&outer_.control->released, released);
  // The end follows the last credit, and counts only when no message is on its way any more.
  bool final = false;
  if (inner_.untaken(&final); final && credits_.due.empty() && messages_.due.empty())
    storeRelease(&outer_.control->receiverEnded, 1u);
  if (inner_.poisoned()) storeRelease(&outer_.control->receiverPoison, 1u);
}

TimePoint FaultPath::nextDue() const {
  TimePoint next = TimePoint::max();
  // A message that waits for a slot is moved when a credit or the reactor says so.
  if (path_ == nullptr) return next;
  const bool mayMove = inner_.next - loadAcquire(&inner_.control->released) < inner_.most &&
                       inner_.next - first_ != plan_.cutAfter;
  if (mayMove && !messages_.due.empty()) next = messages_.due.front();
  if (!credits_.due.empty()) next = std::min(next, credits_.due.front());
  return next;
}

// Credits first: they make room for messages.
void FaultPath::kick() {
  const TimePoint now = system_.now();
  moveCredits(now);
  moveMessages(now);
  if (path_ != nullptr) path_->kick();
}

void FaultPath::poll() {
  if (path_ != nullptr) path_->poll();
  kick();
}

void FaultPath::askForReleases() {
  kick();
  if (path_ != nullptr) path_->askForReleases();
}

void FaultPath::limitAhead(uint32_t messages) {
  if (path_ != nullptr) path_->limitAhead(messages);
}

Status FaultPath::addSocket(Stream socket) {
  return path_ != nullptr ? path_->addSocket(std::move(socket)) : Status();
}

Status FaultPath::moveDeviceFlow(size_t flow, uint16_t port) {
  return path_ != nullptr ? path_->moveDeviceFlow(flow, port) : Status();
}

void FaultPath::weighSockets(const std::function<uint32_t(const SocketEnds&)>& megabits) {
  if (path_ != nullptr) path_->weighSockets(megabits);
}

void FaultPath::preferSockets(const std::function<bool(const SocketEnds&)>& takesLongOnes) {
  if (path_ != nullptr) path_->preferSockets(takesLongOnes);
}

void FaultPath::closeSpareSockets() {
  if (path_ != nullptr) path_->closeSpareSockets();
}

std::string FaultPath::checkSockets(const std::function<std::string(const SocketAddress& mine)>& downAt) {
  return path_ != nullptr ? path_->checkSockets(downAt) : "";
}

void FaultPath::flush() {
  kick();
  if (path_ != nullptr) path_->flush();
}

void FaultPath::beforeSleep() {
  if (path_ != nullptr) path_->beforeSleep();
  kick();  // "looks once more" for the lane, which only sees its own ring
}

void FaultPath::afterSleep() {
  if (path_ != nullptr) path_->afterSleep();
  kick();
}

void FaultPath::poison() {
  if (path_ != nullptr) path_->poison();
}

void FaultPath::closeAfterFork() {
  if (path_ != nullptr) path_->closeAfterFork();
}

}  // namespace eccl::transport
