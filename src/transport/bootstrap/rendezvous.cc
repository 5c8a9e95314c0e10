// The root's side of the rendezvous: who is there. rendezvous_answers.cc has what they are told, and join.cc
// the side of the ranks.
#include "transport/bootstrap/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/bootstrap/ranks.h"
#include "transport/net/descriptors.h"
#include "transport/net/doorbell.h"

namespace eccl::transport {
namespace {

constexpr uint64_t kStopTag = UINT64_MAX;
constexpr uint64_t kAcceptorTag = UINT64_MAX - 1;
constexpr Duration kAbsentLimit = std::chrono::seconds(60);  // to come back: longer than anybody is away
constexpr int kMaxRanks = 1 << 20;
constexpr size_t kMostHeld = 4096;

}  // namespace

Result<std::unique_ptr<Rendezvous>> Rendezvous::start(UniqueId* id, const Options& options) {
  std::unique_ptr<Rendezvous> root(new Rendezvous(options));
  Acceptor::Options listener;
  listener.interfaces = options.interfaces;
  listener.system = options.system;
  listener.handshakeLimit = options.handshakeLimit;
  listener.unixListener = false;
  listener.identity = id->root().identity;
  listener.onDisagreement = [self = root.get()](const Hello& hello, const std::string& peer,
                                                const std::string& why) {
    self->onDisagreement(hello, peer, why);
  };
  if (id->rootByRank0 && !id->addresses.empty()) listener.port = id->addresses[0].port();
  ECCL_ASSIGN(root->acceptor_, Acceptor::open(id->secret, listener, [self = root.get()](Incoming incoming) {
                self->onIncoming(std::move(incoming));
              }));
  if (!id->rootByRank0) id->addresses = root->acceptor_->endpoint().addresses;
  for (const SocketAddress& address : id->addresses) {
    root->where_ += (root->where_.empty() ? "" : " or ") + address.text();
  }
  Result<Fd> stopEvent = openBell(*options.system);
  Status ready = stopEvent.ok() ? root->poller_.open(*options.system) : stopEvent.status();
  if (stopEvent.ok()) root->stopEvent_ = stopEvent.take();
  if (ready.ok()) ready = root->poller_.watch(root->stopEvent_.get(), EPOLLIN, kStopTag);
  if (ready.ok()) ready = root->poller_.watch(root->acceptor_->fd(), EPOLLIN, kAcceptorTag);
  if (ready.ok()) {
    std::lock_guard lock(root->mutex_);  // the thread may be through before it is known here
    Result<Thread> thread = options.system->start("eccl-rendezvous", [self = root.get()] {
      const Status ran = guarded("eccl-rendezvous", [&] { return self->run(), Status(); });
      if (!ran.ok())
        ECCL_WARN("the rendezvous at %s has ended: %s", self->where_.c_str(), ran.message().c_str());
      self->close();
    });
    ready = thread.status();
    if (thread.ok()) root->thread_ = thread.take();
  }
  if (!ready.ok()) {
    ECCL_WARN("the rendezvous root cannot start: %s", ready.message().c_str());
    return ready;
  }
  return root;
}

void Rendezvous::stop() {
  stop_.store(true, std::memory_order_release);
  Thread thread;
  {
    std::lock_guard lock(mutex_);
    ringBell(stopEvent_);
    std::swap(thread, thread_);
  }
  if (thread.joinable()) thread.join();
}

void Rendezvous::closeAfterFork() {
  poller_.close();
  stopEvent_.reset();
  // When the thread was at work at the moment of the fork, joiners_ and acceptor_ may be half changed: those
  // few descriptors stay open in the child rather than be looked for in a broken map.
  if (mutex_.try_lock()) {
    if (acceptor_) acceptor_->closeAfterFork();
    for (auto& [fd, joiner] : joiners_) joiner.socket.close();
    mutex_.unlock();
  }
  thread_.closeAfterFork();
}

// One turn: time limits, sleep, listener, joiners. Joiners are only marked as gone while a turn iterates over
// them, and erased, which closes them, at the start of the next: until then no descriptor number is used
// anew.
void Rendezvous::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.load(std::memory_order_acquire)) {
    TimePoint now = options_.system->now();
    expire(now);
    std::erase_if(joiners_, [&](auto& item) {
      const bool gone = item.second.state == Joiner::State::gone;
      if (gone) poller_.forget(item.first);
      return gone;
    });
    if (finished(now)) break;

    const TimePoint next = nextDeadline();
    lock.unlock();
    options_.system->poll(poller_.fd(), POLLIN,
                          next == TimePoint::max() ? System::kForever : next - options_.system->now());
    lock.lock();

    acceptor_->progress();
    epoll_event events[64];
    const int count = poller_.ready(events);
    for (int i = 0; i < count; ++i) {
      auto found = joiners_.find(static_cast<int>(events[i].data.u64));
      if (events[i].data.u64 < kAcceptorTag && found != joiners_.end()) service(found->second);
    }
  }
}

// The thread's last act. Ranks that still wait see the connection end. Nobody need join it any more, as the
// object may live on for long.
void Rendezvous::close() {
  std::lock_guard lock(mutex_);
  if (thread_.joinable()) thread_.detach();
  acceptor_.reset();
  joiners_.clear();
  poller_.close();
  stopEvent_.reset();
  done_.store(true, std::memory_order_release);
}

// Everybody who can still come has been told.
bool Rendezvous::finished(TimePoint now) const {
  if (!joiners_.empty()) return false;
  if (welcomed_) return absent_.empty();
  const bool allAnswered = nranks_ > 0 && static_cast<int>(answeredRanks_.size()) >= nranks_;
  return !failure_.empty() && (now >= lingerUntil_ || allAnswered);
}

TimePoint Rendezvous::nextDeadline() const {
  TimePoint next = std::min(acceptor_->nextDeadline(), lingerUntil_);
  for (auto& [fd, joiner] : joiners_) next = std::min(next, joiner.deadline);
  for (auto& [rank, absent] : absent_) {
    next = std::min(next, absent.lostAt);
    if (!welcomed_ && failure_.empty()) next = std::min(next, absent.claim.deadline);
  }
  return next;
}

// From acceptor_->progress(): a rank has proved the secret, and its join frame will follow.
void Rendezvous::onIncoming(Incoming incoming) {
  if (incoming.hello.purpose != Purpose::rendezvous) {
    ECCL_WARN("the rendezvous root dropped a %s connection from %s", nameOf(incoming.hello.purpose),
              incoming.peer.c_str());
    return;
  }
  const int fd = incoming.socket.get();
  Joiner& joiner = joiners_[fd];
  joiner.socket = FrameSocket(std::move(incoming.socket));
  joiner.rank = incoming.hello.rank;
  joiner.peer = incoming.peer;
  joiner.deadline = options_.system->now() + kDawdlerLimit;
  if (Status status = poller_.watch(fd, EPOLLIN, static_cast<uint64_t>(fd)); !status.ok()) {
    ECCL_WARN("the rendezvous root cannot serve rank %d: %s", joiner.rank, status.message().c_str());
    joiners_.erase(fd);
  }
}

// Reads and writes one joiner's socket; its end before the answer means that the rank has died.
void Rendezvous::service(Joiner& joiner) {
  if (joiner.state == Joiner::State::gone) return;
  bool ended = false;
  Status status =
      joiner.socket.receive([&](Frame&& frame) { return onFrame(joiner, std::move(frame)); }, &ended);
  if (status.ok() && !ended) status = joiner.socket.flush();
  if (!status.ok() || ended) return remove(joiner);
  if (joiner.state == Joiner::State::answered && !joiner.socket.hasQueued()) joiner.state = Joiner::State::gone;
}

Result<bool> Rendezvous::onFrame(Joiner& joiner, Frame&& frame) {
  if (frame.header.type != FrameType::join || joiner.state != Joiner::State::connected) {
    return Status::error(Code::remote, "sent an unexpected message");
  }
  joiner.nranks = frame.header.target;
  joiner.limit = std::chrono::milliseconds(std::min<uint64_t>(frame.header.sequence, UINT32_MAX));
  joiner.deadline = options_.system->now() + joiner.limit;
  ECCL_ASSIGN(joiner.endpoint, Endpoint::decode(frame.body));
  joiner.peer = joiner.endpoint.who() + " at " + joiner.peer;
  join(joiner);
  return true;
}

// A joiner is complete: compare it with those who are there, and answer everybody when it was the last.
void Rendezvous::join(Joiner& joiner) {
  if (joiner.nranks < 1 || joiner.nranks > kMaxRanks || joiner.rank >= joiner.nranks) {
    return answer(joiner, FrameType::refusal,
                  format("rank %d of %d ranks does not exist", joiner.rank, joiner.nranks));
  }
  if (comesBack(joiner)) return;
  if (welcomed_) {
    return answer(joiner, FrameType::refusal,
                  format("all %d ranks have joined already: a unique id serves one communicator", nranks_));
  }
  if (!failure_.empty()) return answer(joiner, FrameType::refusal, failure_);

  size_t held = 0;
  for (auto& [fd, other] : joiners_) {
    if (other.state != Joiner::State::joined) continue;
    if ((other.rank == joiner.rank || other.nranks != joiner.nranks) && !stillThere(other)) continue;
    ++held;
    if (!agrees(joiner, other)) return;
  }
  for (auto& [rank, absent] : absent_) {
    if (!agrees(joiner, absent.claim)) return;
  }
  joiner.state = Joiner::State::joined;
  nranks_ = joiner.nranks;
  gone_.erase(joiner.rank);
  if (static_cast<int>(held + absent_.size()) + 1 == nranks_ && allStillThere()) return welcomeAll();
  if (joiner.state == Joiner::State::gone) return;
  if (held >= (options_.mostHeld > 0 ? options_.mostHeld : descriptorShare(kMostHeld))) note(joiner);
}

// False, and everybody is told, if the two cannot both be right.
bool Rendezvous::agrees(Joiner& joiner, const Claim& other) {
  if (other.rank != joiner.rank && other.nranks == joiner.nranks) return true;
  joiner.state = Joiner::State::joined;
  nranks_ = std::max(joiner.nranks, other.nranks);
  if (other.nranks != joiner.nranks) {
    failAll(
        Code::invalidUsage,
        format("the ranks disagree about their number: rank %d (%s) says %d, rank %d (%s) says %d; pass the "
               "same nranks everywhere",
               other.rank, other.peer.c_str(), other.nranks, joiner.rank, joiner.peer.c_str(), joiner.nranks));
  } else {
    failAll(Code::invalidUsage,
            format("two processes are rank %d of %d: %s and %s; give every process its own rank, and every "
                   "communicator its own unique id",
                   joiner.rank, joiner.nranks, other.peer.c_str(), joiner.peer.c_str()));
  }
  return false;
}

// A rank that was noted and sent away is not counted twice, and has its answer if there is one. Whoever else
// says to be that rank may be the same, started anew: that shows when the first one comes back, or does not.
bool Rendezvous::comesBack(Joiner& joiner) {
  auto found = absent_.find(joiner.rank);
  if (found == absent_.end()) return false;
  Absent& absent = found->second;
  if (absent.claim.endpoint.identity != joiner.endpoint.identity) {
    if (welcomed_ || !failure_.empty() || absent.claim.nranks != joiner.nranks) return false;
    absent.rival = joiner.peer;
    sendAway(joiner);
    return true;
  }
  if (!absent.rival.empty() && failure_.empty() && !welcomed_) {
    absent.claim.peer = absent.rival;
    return !agrees(joiner, absent.claim);
  }
  joiner.limit = absent.claim.limit;  // it says what is left of them
  joiner.deadline = absent.claim.deadline;
  absent_.erase(found);
  if (!welcomed_) return false;
  welcome(joiner);
  return true;
}

// The more there are, the later: so that all together do not come back more than a thousand times in a
// second.
void Rendezvous::sendAway(Joiner& joiner) {
  constexpr size_t kMin = 20, kMax = 5000;  // ms
  const size_t wait = std::clamp(absent_.size(), kMin, kMax);
  joiner.socket.queue(Frame{{.type = FrameType::later, .sequence = wait}, ""});
  finish(joiner);
}

void Rendezvous::note(Joiner& joiner) {
  absent_[joiner.rank] = {joiner, options_.system->now() + kAbsentLimit, ""};
  sendAway(joiner);
}

// A restarted rank may be here before the end of its former connection has been noticed: a turn reads what has
// come, and the end only in the next.
bool Rendezvous::stillThere(Joiner& joiner) {
  char byte;
  const Fd& socket = joiner.socket.socket();
  const ssize_t count = socket.system().recv(socket.get(), &byte, 1, MSG_PEEK);
  if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return true;
  remove(joiner);
  return false;
}

// The last joiner is asked too: its end may have come together with its words.
bool Rendezvous::allStillThere() {
  bool all = true;
  for (auto& [fd, joiner] : joiners_) {
    if (joiner.state == Joiner::State::joined && !stillThere(joiner)) all = false;
  }
  return all;
}

// The connection ended or misbehaved. A rank that was waiting is remembered for the error message.
void Rendezvous::remove(Joiner& joiner) {
  if (joiner.state == Joiner::State::joined) gone_[joiner.rank] = joiner.peer;
  joiner.state = Joiner::State::gone;  // erased at the next turn of the loop
}

}  // namespace eccl::transport
