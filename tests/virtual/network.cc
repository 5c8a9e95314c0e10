#include "virtual/network.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace eccl::test {
namespace {

constexpr size_t kTakenWhole = 512;
constexpr uint64_t kMinDelay = 20'000, kMaxDelay = 500'000;  // ns

ssize_t failed(int error) {
  errno = error;
  return -1;
}

}  // namespace

void Stream::join(const std::shared_ptr<Stream>& one, const std::shared_ptr<Stream>& other) {
  one->peer_ = other;
  other->peer_ = one;
}

// Whatever becomes of this end meanwhile, what was sent comes.
void Stream::deliver(std::function<void(Stream&)> what) {
  const Duration delay(isUnix ? 1000 : kMinDelay + world_.draw(kMaxDelay - kMinDelay));
  last_ = std::max(last_, world_.now() + delay);
  world_.at(last_, [peer = peer_.lock(), what = std::move(what)] {
    if (peer != nullptr) what(*peer);
  });
}

ssize_t Stream::send(const std::string& bytes) {
  if (reset_) return failed(std::exchange(error_, 0) != 0 ? ECONNRESET : EPIPE);
  if (finished_) return failed(EPIPE);
  if (state_ != State::established) return failed(ENOTCONN);
  size_t count = std::min(bytes.size(), room());
  if (count == 0 && !bytes.empty()) return failed(EAGAIN);
  // A kernel takes little whole, where there is room, and library code relies on it (connect/setup.h).
  if (count > kTakenWhole && world_.draw(4) == 0) count = kTakenWhole + world_.draw(count - kTakenWhole);
  unread_ += count;
  deliver([part = bytes.substr(0, count)](Stream& peer) {
    if (peer.closed_)
      peer.deliver([](Stream& sender) { sender.reset(); });
    else if (!peer.reset_)
      peer.arrived_ += part;
  });
  return static_cast<ssize_t>(count);
}

ssize_t Stream::receive(char* to, size_t count, bool peek) {
  if (arrived_.empty()) {
    if (reset_) return std::exchange(error_, 0) != 0 ? failed(ECONNRESET) : 0;
    if (ended_) return 0;
    return failed(state_ == State::established ? EAGAIN : ENOTCONN);
  }
  size_t got = std::min(count, arrived_.size());
  if (got > 1 && world_.draw(4) == 0) got = 1 + world_.draw(got);
  arrived_.copy(to, got);
  if (peek) return static_cast<ssize_t>(got);
  arrived_.erase(0, got);
  if (const auto peer = peer_.lock()) peer->unread_ -= std::min(got, peer->unread_);
  return static_cast<ssize_t>(got);
}

void Stream::shutdown(bool reading, bool writing) {
  ended_ |= reading;
  if (!writing || std::exchange(finished_, true)) return;
  deliver([](Stream& peer) { peer.ended_ = true; });
}

void Stream::connected(int error) {
  state_ = error == 0 ? State::established : State::failed;
  error_ = error;
}

// What has arrived can still be read, as on Linux.
void Stream::reset() {
  if (!std::exchange(reset_, true)) error_ = ECONNRESET;
}

uint32_t Stream::ready() const {
  if (state_ == State::fresh) return 0;
  if (state_ == State::failed || reset_) return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  uint32_t events = 0;
  if (!arrived_.empty() || ended_) events |= EPOLLIN;
  if (ended_) events |= EPOLLRDHUP;
  if (ended_ && finished_) events |= EPOLLHUP;
  if (room() > 0 || finished_) events |= EPOLLOUT;
  return events;
}

// With unread bytes, or if asked to, by a reset: as the kernel does.
void Stream::closed() {
  closed_ = true;
  if (const auto peer = peer_.lock(); peer != nullptr && !peer->closed_) peer->keptPeer_ = shared_from_this();
  if (resetOnClose || !arrived_.empty())
    deliver([](Stream& peer) { peer.reset(); });
  else
    shutdown(false, true);
  arrived_.clear();
}

void Listener::closed() {
  for (const auto& caller : waiting) {
    caller->resetOnClose = true;
    caller->closed();
  }
  waiting.clear();
}

uint32_t EpollSet::Watch::happened() const {
  const auto watched = object.lock();
  return watched == nullptr || disarmed ? 0 : watched->ready() & (event.events | EPOLLERR | EPOLLHUP);
}

uint32_t EpollSet::ready() const {
  const bool any =
      std::any_of(watches.begin(), watches.end(), [](auto& watch) { return watch.second.happened() != 0; });
  return any ? uint32_t{EPOLLIN} : 0U;
}

}  // namespace eccl::test
