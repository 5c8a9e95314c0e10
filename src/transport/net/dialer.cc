// The states of an attempt: resting, connecting, shaking hands, over. A candidate that fails leads back to
// resting, with the next one.
#include "transport/net/dialer.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "transport/net/descriptors.h"

namespace eccl::transport {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(50);  // between rounds; doubles up to 8 times that
// A listener without room is called again before another candidate is tried: after 5 ms, doubling. Behind an
// AF_UNIX name is the peer and nobody else. A TCP port may have become another program's, which closes every
// connection, so that is given up sooner.
constexpr Duration kBusyRest = std::chrono::milliseconds(5);
constexpr Duration kUnixPatience = std::chrono::seconds(10), kTcpPatience = std::chrono::milliseconds(1500);

}  // namespace

bool connectedToItself(const Fd& socket) {
  const SocketEnds ends = endsOf(socket);
  return ends.local.valid() && ends.local == ends.remote;
}

std::string Dialer::Candidate::text(const Endpoint& endpoint) const {
  return isUnix ? "unix @" + endpoint.unixName() : address.text();
}

Dialer::Dialer(const Endpoint& endpoint, const Secret& secret, const Hello& hello, const DialOptions& options,
               TimePoint deadline)
    : endpoint_(endpoint),
      secret_(secret),
      hello_(hello),
      options_(options),
      begun_(options.system->now()),
      deadline_(deadline) {
  if (options.via != Via::tcp && endpoint.hasUnix) candidates_.push_back({true, {}, {}});
  if (options.via != Via::unixOnly) {
    for (const SocketAddress& address : endpoint.addresses) candidates_.push_back({false, address, {}});
  }
  Status status = poller_.open(*options.system);
  if (status.ok() && candidates_.empty()) {
    status = Status::error(Code::internal, "cannot connect to %s: it offers no %s", options.peer.c_str(),
                           options.via == Via::unixOnly ? "AF_UNIX socket" : "address");
  }
  if (!status.ok()) finish(std::move(status));
}

TimePoint Dialer::nextDeadline() const {
  return state_ == State::over ? TimePoint::max() : std::min(until_, deadline_);
}

// One step of the state machine, then the limits: an answer that is there counts even if it is late.
bool Dialer::progress() {
  epoll_event events[1];
  const int ready = poller_.ready(events);
  const TimePoint now = options_.system->now();
  if (state_ == State::resting && now >= until_)
    start();
  else if (state_ == State::connecting && ready > 0)
    onConnected();
  else if (state_ == State::shaking && ready > 0)
    shake();

  if (state_ == State::connecting && now >= until_)
    fail(format("no connection within %.3g s", seconds(stretched(options_.connectLimit))));
  if (state_ == State::shaking && now >= until_) {
    fail(format("connected, but no answer to the handshake within %.3g s",
                seconds(stretched(options_.handshakeLimit))));
  }
  if (state_ != State::over && now >= deadline_) {
    if (candidates_[current_].why.empty()) candidates_[current_].why = "no answer yet";
    std::string tried;
    for (const Candidate& one : candidates_) {
      tried += "; " + one.text(endpoint_) + ": " + (one.why.empty() ? "not tried" : one.why);
    }
    // Rounded up to tenths: the limit that was set, though a little of it had passed before.
    const double limit = std::ceil(10 * seconds(deadline_ - begun_)) / 10;
    finish(Status::error(Code::timeout, "could not connect to %s within %.3g s%s", options_.peer.c_str(), limit,
                         tried.c_str()));
  }
  return state_ == State::over;
}

// Begins with the current candidate. AF_UNIX connects or fails at once; TCP reports through EPOLLOUT.
void Dialer::start() {
  const Candidate& candidate = candidates_[current_];
  sockaddr_un local;
  const sockaddr* address = candidate.address.raw();
  socklen_t size = candidate.address.rawSize();
  if (candidate.isUnix) {
    size = abstractAddress(endpoint_.unixName(), &local);
    address = reinterpret_cast<const sockaddr*>(&local);
  }
  System& system = *options_.system;
  socket_ = Fd(system.socket(candidate.isUnix ? AF_UNIX : candidate.address.family()), system);
  if (!socket_) return fail(std::strerror(errno));
  const int on = 1;
  if (!candidate.isUnix) system.setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!candidate.isUnix && !options_.interface.empty()) {
    // Unprivileged since Linux 5.7. Without it the kernel may route the interface's address through another.
    const std::string& name = options_.interface;
    if (system.setsockopt(socket_.get(), SOL_SOCKET, SO_BINDTODEVICE, name.c_str(),
                          static_cast<socklen_t>(name.size())) != 0 ||
        system.bind(socket_.get(), options_.from.raw(), options_.from.rawSize()) != 0)
      return fail(
          format("binding to %s (%s): %s", name.c_str(), options_.from.text().c_str(), std::strerror(errno)));
  }
  state_ = State::connecting;
  until_ = options_.system->now() + stretched(options_.connectLimit);
  if (system.connect(socket_.get(), address, size) == 0) return onConnected();
  if (errno == EAGAIN)
    return listenerBusy("too many wait there already");  // AF_UNIX: the listener's queue is full
  if (errno != EINPROGRESS) return fail(std::strerror(errno));
  if (Status status = poller_.watch(socket_.get(), EPOLLOUT, 0); !status.ok()) fail(status.message());
}

// The kernel has connected, or failed to.
void Dialer::onConnected() {
  int failure = 0;
  socklen_t size = sizeof failure;
  options_.system->getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) return fail(std::strerror(failure));
  if (connectedToItself(socket_.fd())) return fail("nobody listens there");
  if (options_.suits && !options_.suits(endsOf(socket_.fd())))
    return fail("it is routed through another interface");
  poller_.forget(socket_.get());
  handshake_ =
      Handshake::dialing(socket_.takeFd(), candidates_[current_].isUnix ? secret_.withinHost() : secret_,
                         endpoint_.identity, hello_);
  state_ = State::shaking;
  until_ = options_.system->now() + stretched(options_.handshakeLimit);
  shake();
}

void Dialer::shake() {
  const Handshake::State state = handshake_.advance();
  if (state == Handshake::State::failed) {
    const std::string why = "the peer " + handshake_.why();
    if (handshake_.disagrees()) {  // another try would say the same
      Status status = Status::error(Code::invalidUsage, "%s, at %s, %s", options_.peer.c_str(),
                                    candidates_[current_].text(endpoint_).c_str(), handshake_.why().c_str());
      hangUp(why);
      return finish(std::move(status));
    }
    return handshake_.cutOff() ? listenerBusy(why) : fail(why);
  }
  if (state == Handshake::State::working) {
    Status status = poller_.watch(handshake_.fd(), handshake_.awaits(), 0);
    if (!status.ok()) fail(status.message());
    return;
  }
  poller_.forget(handshake_.fd());
  socket_ = handshake_.takeSocket();
  finish({});
}

// There is an acceptor, which had no room or dropped this call for others. It is called again: the next
// candidate may be a slower way.
void Dialer::listenerBusy(const std::string& why) {
  const TimePoint now = options_.system->now();
  if (attempts_ == 0) busySince_ = now;
  if (now - busySince_ >= (candidates_[current_].isUnix ? kUnixPatience : kTcpPatience)) return fail(why);
  hangUp(why);
  until_ += kBusyRest * (1 << std::min(attempts_++, 5));
}

void Dialer::hangUp(const std::string& why) {
  candidates_[current_].why = why;
  poller_.forget(socket_.get());
  poller_.forget(handshake_.fd());
  socket_.reset();
  handshake_ = Handshake();
  state_ = State::resting;
  until_ = options_.system->now();
}

// On to the next candidate; after the last one, a rest and another round, or the end.
void Dialer::fail(const std::string& why) {
  hangUp(why);
  attempts_ = 0;
  if (++current_ < candidates_.size()) return;
  if (options_.retry) {
    current_ = 0;
    until_ += kRest * (1 << std::min(round_++, 3));
    return;
  }
  std::string tried;
  for (const Candidate& one : candidates_) tried += "; " + one.text(endpoint_) + ": " + one.why;
  finish(Status::error(Code::remote, "could not connect to %s%s", options_.peer.c_str(), tried.c_str()));
}

void Dialer::finish(Status status) {
  status_ = std::move(status);
  state_ = State::over;
}

Result<Stream> Dialer::result() {
  if (!status_.ok()) return status_;
  return std::move(socket_);
}

void Dialer::closeAfterFork() {
  poller_.close();
  socket_.reset();
  handshake_.takeSocket().reset();
}

// Of many threads that dial at the same time a few do at a time, and one that found no descriptor does so
// again.
Result<Stream> dial(const Endpoint& endpoint, const Secret& secret, const Hello& hello,
                    const DialOptions& options, const Wait& wait) {
  constexpr size_t kDescriptors = 3;
  // The more that wait, the longer: so that all together do not look more than 20,000 times a second.
  constexpr Duration kRestEach = std::chrono::microseconds(50);
  const auto aborted = [&] { return abortedWhile(format("connecting to %s", options.peer.c_str()).c_str()); };
  DialOptions how = options;
  how.system = wait.system;
  SetupTurn turn;
  while (true) {
    const bool mine = turn.take();
    if (mine && !descriptorsLeft(kDescriptors)) {
      sayThatDescriptorsAreShort(format("a connection to %s", options.peer.c_str()).c_str());
    } else if (mine) {
      Dialer dialer(endpoint, secret, hello, how, wait.deadline);
      while (!dialer.progress()) {
        if (wait.aborted()) return aborted();
        wait.onFd(dialer.fd(), dialer.nextDeadline());
      }
      Result<Stream> socket = dialer.result();
      if (socket.ok() || wait.expired() || descriptorsLeft(kDescriptors)) return socket;
    }
    if (wait.aborted()) return aborted();
    if (wait.expired()) {
      return Status::error(
          Code::timeout,
          "could not connect to %s: other connections of this process, or a lack of descriptors, "
          "left no turn to do so (raise 'ulimit -n'?)",
          options.peer.c_str());
    }
    wait.onFd(-1, wait.system->now() + std::max<Duration>(SetupTurn::kRest, SetupTurn::waiting() * kRestEach));
  }
}

}  // namespace eccl::transport
