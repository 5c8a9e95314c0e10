#include "transport/tcp/tcp_path.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/messages/message_frame.h"
#include "transport/net/rails.h"
#include "transport/net/socket_ends.h"

namespace eccl::transport {
namespace {

/// Of several sockets none takes more than it can soon send: what waits in one cannot go over another. Two
/// parts keep a fast link busy while the next are on their way here.
constexpr int kMostUnsent = 64 << 10;

/// When a way that others go beside counts as lost. Kernels acknowledge also for processes that stand still. On
/// a bad line some packets in a row are lost, so what was sent has to have been sent again for a while, too:
/// the timeout doubles with each try. With 1.3 s without an acknowledgement and two tries, .6 s, one of some
/// 200 jobs over a line that loses 1 % ended like that, each with 200 MB.
constexpr uint32_t kSilentMs = 2600;
constexpr uint32_t kTriedUs = 1'300'000;
constexpr unsigned kTries = 3, kManyTries = 10;  // the latter where the timeout does not get that long

msghdr messageOf(iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<size_t>(count);
  return message;
}

void limitUnsent(const Fd& socket, int bytes) {
  socket.system().setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

/// What nobody has acknowledged is sent again so soon, or by as much later as the round trip takes. Linux waits
/// 200 ms at least, as long as receivers may put acknowledgements off; they do that for less than this where
/// they have it, too. Kernels before 6.15 know no such option, and headers rarely do.
void hurryRetransmissions(const Fd& socket) {
  constexpr int kTcpRtoMinUs = 45;         // linux/tcp.h: TCP_RTO_MIN_US
  for (const int us : {10'000, 20'000}) {  // less than two ticks of the kernel's clock cannot be
    if (socket.system().setsockopt(socket.get(), IPPROTO_TCP, kTcpRtoMinUs, &us, sizeof us) == 0) return;
    if (errno != EINVAL) return;
  }
}

bool isTransient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

TcpPath::TcpPath(Wiring wiring, uint32_t* peerPoison)
    : twins_(std::move(wiring.twins)),
      fromLower_(wiring.fromLower),
      first_(std::move(wiring.socket)),
      reactor_(wiring.reactor),
      memory_(std::move(wiring.memory)),
      onBroken_(std::move(wiring.onBroken)),
      onWantsMore_(std::move(wiring.onWantsMore)),
      onSocketLost_(std::move(wiring.onSocketLost)),
      partBytes_(wiring.partBytes),
      bytesPerCall_(wiring.bytesPerCall),
      peerPoison_(peerPoison) {}

Status TcpPath::addSocket(Stream socket) {
  if (!subflows_.empty() && !live()) return {};  // it makes no difference any more
  const auto free =
      std::find_if(subflows_.begin(), subflows_.end(), [](const Subflow& one) { return !one.socket; });
  const auto number = static_cast<size_t>(free - subflows_.begin());
  if (number == kMaxSockets)
    return Status::error(Code::remote, "the connection has %zu sockets already", kMaxSockets);
  const bool isNew = free == subflows_.end();
  Subflow& added = isNew ? subflows_.emplace_back(this, number) : *free;
  added.ends = endsOf(socket.fd());
  added.socket = std::move(socket);
  added.watched = EPOLLIN;
  added.asideFor = 0;
  if (Status status = reactor_->watch(added.socket.get(), EPOLLIN, &added); !status.ok()) {
    added.socket.reset();
    if (isNew) subflows_.pop_back();
    return status;
  }
  open_ = true;
  hurryRetransmissions(added.socket.fd());
  added.socket.limitCalls(bytesPerCall_);
  added.socket.readAhead();
  // The first gets it with the second: a connection of one socket is faster without.
  if (number > 0) limitUnsent(added.socket.fd(), kMostUnsent);
  if (number == 1) limitUnsent(subflows_[0].socket.fd(), kMostUnsent);
  several_ |= number > 0;
  joined(number);
  return {};
}

std::string TcpPath::checkSockets(const std::function<std::string(const SocketAddress& mine)>& downAt) {
  if (!several_ || !live()) return "";
  // If that is lost the others do not count.
  if (std::string why = troubleWith(0, downAt); !why.empty()) return why;
  for (size_t i = subflows(); i-- > 1 && live();) {  // those that are given up are closed
    const std::string why = i < subflows() && isOpen(i) ? troubleWith(i, downAt) : "";
    if (!why.empty()) giveUp(i, why);
  }
  return "";
}

/// Empty: none.
std::string TcpPath::troubleWith(size_t subflow,
                                 const std::function<std::string(const SocketAddress& mine)>& downAt) {
  Subflow& one = subflows_[subflow];
  if (one.aside()) return ++one.asideFor > 3 ? one.asideWhy : "";
  const Fd& socket = one.socket.fd();
  if (const std::string name = downAt(localAddress(socket)); !name.empty())
    return format("this host's interface %s is down (%s)", name.c_str(), nameOf(subflow).c_str());
  tcp_info info{};
  socklen_t size = sizeof info;
  if (socket.system().getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return "";
  // Of a socket that was idle for so long the tries alone decide.
  const unsigned tries = info.tcpi_unacked > 0 ? info.tcpi_retransmits : 0;
  const bool tried = tries >= kManyTries || (tries >= kTries && info.tcpi_rto >= kTriedUs);
  if (!tried || info.tcpi_last_ack_recv < kSilentMs) return "";
  return format(
      "nothing has been acknowledged for %.1f s (%s): a link or switch on the way is down, or drops packets",
      info.tcpi_last_ack_recv / 1e3, nameOf(subflow).c_str());
}

std::vector<SocketReport> TcpPath::sockets() const {
  if (!open_) return last_;
  std::vector<SocketReport> reports;
  for (const Subflow& one : subflows_)
    if (one.socket) reports.emplace_back(reportOf(one.socket)).ends = one.ends;
  reports.insert(reports.end(), closed_.begin(), closed_.end());
  return reports;
}

uint64_t TcpPath::loadOf(size_t subflow) const {
  const Fd& socket = subflows_[subflow].socket.fd();
  tcp_info info{};
  socklen_t size = sizeof info;
  if (socket.system().getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_notsent_bytes + uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss;
}

/// "socket 2 of 3, 10.0.0.1:4000 to 10.0.0.2:5000".
std::string TcpPath::nameOf(size_t subflow) const {
  return format("socket %zu of %zu, %s", subflow + 1, subflows(), subflows_[subflow].ends.text().c_str());
}

// Others are of the connection: bytes that nobody sent (EBADMSG), memory that is not there.
bool TcpPath::isLoss(int error) {
  switch (error) {
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
      return true;
    default:
      return false;
  }
}

ssize_t TcpPath::send(size_t subflow, iovec* parts, int count) {
  msghdr message = messageOf(parts, count);
  const ssize_t sent = subflows_[subflow].socket.send(message);
  return sent < 0 && isTransient(errno) ? 0 : sent;
}

bool TcpPath::sendRest(size_t subflow, const MessageFrame& frame, size_t* left) {
  auto* const end = reinterpret_cast<std::byte*>(const_cast<MessageFrame*>(&frame + 1));
  iovec part{end - *left, *left};
  const ssize_t sent = send(subflow, &part, 1);
  if (sent > 0) *left -= static_cast<size_t>(sent);
  return sent >= 0;
}

ssize_t TcpPath::receive(size_t subflow, iovec* parts, int count, Breakage* why) {
  msghdr message = messageOf(parts, count);
  const ssize_t got = subflows_[subflow].socket.receive(message);
  if (got > 0) return got;
  if (got < 0 && isTransient(errno)) return 0;
  const int error = got == 0 ? 0 : errno;
  *why = Breakage::ofSocket("receiving from it", error);
  if (subflow > 0 && error != 0 && !isLoss(error)) breakOff(subflow, *why);
  return got == 0 ? kClosed : -1;
}

// What it has carried counts on, not how well it fared.
void TcpPath::close(size_t subflow) {
  Subflow& one = subflows_[subflow];
  SocketReport report = reportOf(one.socket);
  report.ends = {one.ends.local.withPort(0), one.ends.remote.withPort(0)};
  report.waitingBytes = report.unsentBytes = 0;
  report.busyMicroseconds = report.arrivingPerSecond = report.roundTripMicroseconds = 0;
  const auto same = std::find_if(closed_.begin(), closed_.end(), [&](const SocketReport& each) {
    return each.ends.local == report.ends.local && each.ends.remote == report.ends.remote;
  });
  if (same == closed_.end())
    closed_.push_back(std::move(report));
  else
    same->add(report);
  reactor_->forget(one.socket.get(), &one);
  one.socket.reset();
  while (!subflows_.back().socket) subflows_.pop_back();
  if (subflows() == 1) limitUnsent(subflows_[0].socket.fd(), 0);  // as the system has it
}

void TcpPath::reset(size_t subflow) {
  const Fd& socket = subflows_[subflow].socket.fd();
  const linger none{1, 0};
  socket.system().setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  close(subflow);
}

void TcpPath::setAside(size_t subflow, const std::string& why) {
  Subflow& one = subflows_[subflow];
  if (one.aside()) return;
  reactor_->forget(one.socket.get(), &one);
  one.asideFor = 1;
  one.asideWhy = format("%s (%s)", why.c_str(), nameOf(subflow).c_str());
}

void TcpPath::watchFor(size_t subflow, uint32_t events) {
  Subflow& one = subflows_[subflow];
  if (events == one.watched || one.aside() || !live()) return;
  one.watched = events;
  if (Status status = reactor_->watch(one.socket.get(), events, &one); !status.ok()) breakOff(status.message());
}

void TcpPath::breakOff(const Breakage& why) {
  if (!live()) return;
  storeRelease(peerPoison_, 1u);
  last_ = sockets();
  shut();
  onBroken_(why);
}

void TcpPath::breakOff(size_t subflow, const Breakage& why) {
  if (!live()) return;
  if (subflows() == 1) return breakOff(why);
  breakOff({format("%s (%s)", why.reason.c_str(), nameOf(subflow).c_str()), why.byPeer});
}

void TcpPath::onPeerPoison() {
  storeRelease(peerPoison_, 1u);
  last_ = sockets();
  shut();
}

void TcpPath::finish() {
  if (!live()) return;
  poisoned_ = true;
  for (Subflow& one : subflows_) {
    if (!one.socket) continue;
    reactor_->forget(one.socket.get(), &one);
    // Not closed yet: closing with unread bytes would reset the connection and take the last words with it.
    one.socket.system().shutdown(one.socket.get(), SHUT_WR);
  }
}

void TcpPath::shut() {
  if (!open_) return;
  open_ = false;
  for (Subflow& one : subflows_) {
    if (!one.socket) continue;
    reactor_->forget(one.socket.get(), &one);
    one.socket.reset();
  }
}

void TcpPath::closeAfterFork() {
  first_.reset();
  for (Subflow& one : subflows_) one.socket.reset();
}

}  // namespace eccl::transport
