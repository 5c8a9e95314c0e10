// Which of its sockets a TCP connection uses, and how it goes on without one.
#include <algorithm>
#include <cerrno>

#include "transport/tcp/tcp_sender.h"

namespace eccl::transport {

void TcpSender::joined(size_t subflow) {
  if (subflow == outboxes_.size()) outboxes_.emplace_back();
  Outbox& added = outboxes_[subflow];
  added = {};
  added.given = mostGiven();
  added.number = joined_++;
  lossy_.forget(subflow);
}

/// For one that is used from now on: nothing is to be made up for.
double TcpSender::mostGiven() const {
  double most = 0;
  for (const Outbox& box : outboxes_)
    if (box.takesLong) most = std::max(most, box.given / box.share);
  return most;
}

void TcpSender::weighSockets(const std::function<uint32_t(const SocketEnds&)>& megabits) {
  std::vector<uint32_t> speeds(subflows());
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < subflows(); ++i)
    if (isOpen(i)) least = std::min(least, speeds[i] = megabits(endsOfSubflow(i)));
  for (size_t i = 0; i < subflows(); ++i) {
    if (!isOpen(i)) continue;
    const double share = least > 0 ? static_cast<double>(speeds[i]) / least : 1;
    outboxes_[i].given *= share / outboxes_[i].share;
    outboxes_[i].share = share;
  }
}

void TcpSender::preferSockets(const std::function<bool(const SocketEnds&)>& takesLongOnes) {
  for (size_t i = 0; i < subflows(); ++i) outboxes_[i].takesLong = takes(i) && takesLongOnes(endsOfSubflow(i));
  useOneAtLeast();
}

void TcpSender::useOneAtLeast() {
  const auto takesLong = [](const Outbox& box) { return box.takesLong; };
  const auto used = [](const Outbox& box) { return box.takesLong && !box.leftOut; };
  if (std::none_of(outboxes_.begin(), outboxes_.end(), takesLong))
    for (size_t i = 0; i < subflows(); ++i) outboxes_[i].takesLong = takes(i);
  if (std::none_of(outboxes_.begin(), outboxes_.end(), used))
    for (Outbox& box : outboxes_) box.leftOut = false;
}

std::vector<LossySocket> TcpSender::leaveOutLossy(TimePoint now) {
  if (subflows() == 1 || !live()) return {};
  std::vector<std::optional<LossySockets::Counts>> counts(subflows());
  for (size_t i = 0; i < subflows(); ++i) {
    if (!outboxes_[i].takesLong) continue;
    const SocketReport report = reportOfSubflow(i);
    const uint64_t lost = report.retransmitted - std::min(report.needless, report.retransmitted);
    counts[i] = {report.sentBytes, report.arrivingPerSecond, report.busyMicroseconds, report.packets, lost};
  }
  std::vector<LossySocket> found;
  for (const LossySockets::Verdict& one : lossy_.judge(now, counts))
    found.push_back({endsOfSubflow(one.socket), one.packets, one.lost, one.during, one.rest, one.again});
  for (size_t i = 0; i < subflows(); ++i) {
    Outbox& box = outboxes_[i];
    if (std::exchange(box.leftOut, lossy_.leftOut(i)) && !box.leftOut) box.given = box.share * mostGiven();
  }
  useOneAtLeast();
  if (!found.empty()) sendMessages();
  return found;
}

// A socket closed with bytes in it would lose them if they had to be sent again.
void TcpSender::closeSpareSockets() {
  for (size_t i = 1; i < subflows() && live(); ++i) {
    Outbox& box = outboxes_[i];
    if (!isOpen(i) || isAside(i) || box.takesLong || box.count > 0) continue;
    if (box.leaveLeft == 0 && loadOf(i) > 0) continue;
    if (box.leaveLeft == 0) box.leaveLeft = sizeof(MessageFrame);
    if (!sendRest(i, {.kind = FrameKind::leave}, &box.leaveLeft))
      sendingFailed(i, errno);
    else if (box.leaveLeft == 0)
      close(i);
  }
}

// It ends as one that has been lost (giveUp()), unless the whole connection does, which the first socket tells.
void TcpSender::lookAway(size_t subflow, const std::string& why) {
  if (isAside(subflow)) return;
  setAside(subflow, why);
  Outbox& box = outboxes_[subflow];
  box.spare = !box.takesLong;
  box.takesLong = false;
  box.blocked = true;
  useOneAtLeast();
}

// The first socket carries what went over it, so that the receiver has heard of the loss when that comes.
void TcpSender::giveUp(size_t subflow, const std::string& why) {
  Outbox& box = outboxes_[subflow];
  for (size_t i = 0; i < box.count; ++i)
    box.sent.add(end_, box.parts[i].message, box.parts[i].offset, box.parts[i].bytes);
  say({.sequence = box.number, .kind = FrameKind::lost});
  words_ += box.sent.again(end_);
  const SocketEnds ends = endsOfSubflow(subflow);
  const bool spare = isAside(subflow) ? box.spare : !box.takesLong;
  box = {};
  box.takesLong = false;
  reset(subflow);
  useOneAtLeast();
  sendMessages();
  if (live() && !spare) socketLost(ends, why);
}

}  // namespace eccl::transport
