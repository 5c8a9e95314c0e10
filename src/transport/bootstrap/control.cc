// Control, the service thread's side: sockets, routing, signs of life.
#include "transport/bootstrap/control.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/net/doorbell.h"

namespace eccl::transport {
namespace {

constexpr uint64_t kWakeTag = UINT64_MAX;
constexpr size_t kMaxReason = 4096;
enum Departure : uint16_t { kLost = 0, kLeft = 1 };  // FrameHeader::kind of `departed`

// Is `ancestor` on the way from `rank` to rank 0?
bool isAbove(int ancestor, int rank) {
  while (rank > ancestor) rank = treeParent(rank);
  return rank == ancestor;
}

// The kernel of a live host acknowledges even when the process there is stopped. TCP_USER_TIMEOUT would ask the
// same, but it also counts the time during which a live receiver's window is closed. Such a receiver may drop
// what it has no room for and acknowledge that it did: then this side asks again ever more rarely, and no
// answer counts only after a question.
bool hostIsSilent(const Fd& socket, Duration limit) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (socket.system().getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return false;  // AF_UNIX: the host is this one
  // A host that is there may put an acknowledgement off for 200 ms (Linux: TCP_DELACK_MAX) while nobody reads.
  constexpr uint32_t kAnswerMs = 220;
  const bool unanswered =
      info.tcpi_last_data_sent >= kAnswerMs && info.tcpi_last_data_sent < info.tcpi_last_ack_recv;
  // Where this host has no way to the other any more (its own link is down) nothing counts as sent, but there
  // are probes without an answer.
  const bool asked = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  return asked && unanswered && std::chrono::milliseconds(info.tcpi_last_ack_recv) >= limit;
}

}  // namespace

Control::Control(uint64_t communicator, const Secret& secret, int rank, int nranks, const Options& options,
                 ControlHandler* handler)
    : communicator_(communicator),
      secret_(secret),
      rank_(rank),
      nranks_(nranks),
      options_(options),
      handler_(handler),
      departed_(static_cast<size_t>(nranks)),
      gathers_(nranks),
      lastProgress_(options.system->now()),
      changed_(*options.system) {
  neighbours_[0].rank = treeParent(rank);
  size_t next = 1;
  for (int child : treeChildren(rank, nranks)) neighbours_[next++].rank = child;
}

Control::~Control() = default;

Status Control::open() {
  Result<Fd> wake = openBell(*options_.system);
  Status status = wake.ok() ? poller_.open(*options_.system) : wake.status();
  if (wake.ok()) wake_ = wake.take();
  if (status.ok()) status = poller_.watch(wake_.get(), EPOLLIN, kWakeTag);
  if (!status.ok()) ECCL_WARN("rank %d: the control tree cannot start: %s", rank_, status.message().c_str());
  return status;
}

TimePoint Control::nextDeadline() const {
  if (leaving_) return TimePoint::max();
  TimePoint next = gathers_.nextDeadline();
  for (const Neighbour& n : neighbours_) {
    if (n.state != Neighbour::State::open) continue;
    next = std::min(next, n.sent + options_.heartbeat);
    next = std::min(next, n.heard + (n.warned ? options_.silenceLimit
                                              : std::min(options_.hostLimit, options_.silenceLimit)));
  }
  return next;
}

void Control::progress() {
  const TimePoint now = options_.system->now();
  // After a stop of this process (a debugger, a frozen virtual machine) the others' silence proves nothing.
  if (now - lastProgress_ > options_.silenceLimit / 2) {
    for (Neighbour& n : neighbours_) n.heard = now;
  }
  lastProgress_ = now;

  epoll_event events[kTreeFanout + 2];
  const int ready = poller_.ready(events);
  // The event is cleared before the queue is emptied: a command posted in between wakes once too often, never
  // once too rarely.
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.u64 == kWakeTag) clearBell(wake_);
  }
  std::vector<Command> commands;
  {
    std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) execute(std::move(command));

  for (int i = 0; i < ready; ++i) {
    if (events[i].data.u64 == kWakeTag) continue;
    Neighbour& n = neighbours_[events[i].data.u64];
    if ((events[i].events & EPOLLOUT) != 0) flush(n);
    if ((events[i].events & ~EPOLLOUT) != 0) readFrom(n);
  }
  if (!leaving_) {
    beat(now);  // after reading: what has arrived counts
    std::vector<Frame> outcomes;
    gathers_.expire(now, &outcomes);
    conclude(outcomes);
    return;
  }
  const bool drained =
      std::all_of(neighbours_.begin(), neighbours_.end(), [](auto& n) { return n.socket.fd() < 0; });
  if (!drained) return;
  std::lock_guard lock(mutex_);
  drained_ = true;
  changed_.notifyAll();
}

void Control::execute(Command command) {
  if (leaving_) return;  // nothing follows a disconnect; an adopted socket closes with its command
  switch (command.what) {
    case Command::What::transmit:
      return transmit(std::move(command.frame));
    case Command::What::report:
      return depart(command.frame, -1);
    case Command::What::adopt:
      return attach(std::move(command));
    case Command::What::leave:
      return leave();
  }
}

void Control::attach(Command command) {
  Neighbour& n = *neighbour(command.rank);
  if (n.state != Neighbour::State::absent) {
    ECCL_WARN("rank %d dropped a second control connection from %s", rank_, command.who.c_str());
    return;
  }
  n.who = std::move(command.who);
  n.socket = FrameSocket(std::move(command.socket));
  n.heard = n.sent = options_.system->now();
  n.state = Neighbour::State::open;
  if (Status s = poller_.watch(n.socket.fd(), EPOLLIN, static_cast<uint64_t>(&n - neighbours_.data()));
      !s.ok()) {
    return lose(n, s.message());
  }
  for (Encoded& bytes : std::exchange(n.early, {})) write(n, std::move(bytes));
  std::lock_guard lock(mutex_);
  connected_.push_back(n.rank);
  changed_.notifyAll();
}

Control::Neighbour* Control::neighbour(int rank) {
  for (Neighbour& n : neighbours_) {
    if (n.rank == rank && rank >= 0) return &n;
  }
  return nullptr;
}

void Control::readFrom(Neighbour& from) {
  if (from.socket.fd() < 0) return;  // closed since the event was made
  from.heard = options_.system->now();
  from.warned = false;
  bool ended = false;
  Status status = from.socket.receive([&](Frame&& frame) { return onFrame(from, std::move(frame)); }, &ended);
  if (from.socket.fd() < 0) return;  // a frame ended it
  if (leaving_) {
    if (ended || !status.ok()) close(from);
    return;
  }
  if (!status.ok())
    lose(from, status.message());
  else if (ended)
    lose(from, "closed its control connection without disconnecting: the process died or was killed");
}

// Routes one frame. The peer is authenticated but may be mad: ranks and directions are checked before use. An
// error ends the connection; false means that it has ended, and that nothing more may be read from it.
Result<bool> Control::onFrame(Neighbour& from, Frame&& frame) {
  if (leaving_) return true;  // read only to keep the peer's closing free of resets
  const FrameHeader& header = frame.header;
  const bool fromParent = &from == &neighbours_[0];
  if (header.origin >= nranks_ || (header.type != FrameType::part && header.target >= nranks_)) {
    return Status::error(Code::remote, "sent a control message of rank %d to rank %d of %d", header.origin,
                         header.target, nranks_);
  }
  switch (header.type) {
    case FrameType::heartbeat:
      break;
    case FrameType::disconnect:
      close(from);
      depart({{.type = FrameType::departed, .kind = kLeft, .target = from.rank},
              from.who + " has left the communicator (it was destroyed there, or its creation failed)"},
             from.rank);
      break;
    case FrameType::flood:  // a tree has one way between two nodes: nothing arrives twice
      spread(frame, from.rank);
      handler_->onMessage(header.origin, header.kind, frame.body);
      break;
    case FrameType::routed:
      if (header.target == rank_)
        handler_->onMessage(header.origin, header.kind, frame.body);
      else
        transmit(std::move(frame));
      break;
    case FrameType::departed:
      depart(frame, from.rank);
      break;
    case FrameType::part:
      if (fromParent) return Status::error(Code::remote, "sent a part of an allGather the wrong way");
      transmit(std::move(frame));
      break;
    case FrameType::parts:
    case FrameType::noParts:
      if (!fromParent) return Status::error(Code::remote, "sent the result of an allGather the wrong way");
      spread(frame, from.rank);
      settle(frame);
      break;
    default:
      return Status::error(Code::remote, "sent an unexpected frame of type %u",
                           static_cast<unsigned>(header.type));
  }
  return from.state == Neighbour::State::open;
}

// The next step of a frame's way through the tree. Parts of an allGather are not combined on their way up:
// inner nodes then keep no state for it, and rank 0 knows exactly who is missing.
void Control::transmit(Frame&& frame) {
  if (frame.header.type == FrameType::flood) return spread(frame, -1);
  const bool upwards = frame.header.type == FrameType::part;
  if (upwards && rank_ == 0) {
    std::vector<Frame> outcomes;
    const Duration limit = std::chrono::milliseconds(frame.header.target);
    gathers_.add(std::move(frame), limit, options_.system->now(), &outcomes);
    return conclude(outcomes);
  }
  Neighbour* next = neighbour(upwards ? treeParent(rank_) : treeNextHop(rank_, frame.header.target));
  if (next != nullptr) write(*next, frame.encode());
}

void Control::spread(const Frame& frame, int exceptRank) {
  const Encoded bytes = frame.encode();
  for (Neighbour& n : neighbours_) {
    if (n.rank != exceptRank) write(n, bytes);
  }
}

// All writing goes through here, and counts as a sign of life.
void Control::write(Neighbour& to, Encoded bytes) {
  // A child may have the whole tree below it, and messages for all, before this rank's parent is there.
  if (to.state == Neighbour::State::absent && to.rank >= 0) return to.early.push_back(std::move(bytes));
  if (to.state != Neighbour::State::open) return;
  to.socket.queue(std::move(bytes));
  to.sent = options_.system->now();
  if (!to.watchesOutput) flush(to);
}

void Control::flush(Neighbour& to) {
  if (to.state != Neighbour::State::open) return;
  Status status = to.socket.flush();
  const bool blocked = to.socket.hasQueued();
  if (status.ok() && blocked != to.watchesOutput) {
    to.watchesOutput = blocked;
    status = poller_.watch(to.socket.fd(), blocked ? EPOLLIN | EPOLLOUT : EPOLLIN,
                           static_cast<uint64_t>(&to - neighbours_.data()));
  }
  if (!status.ok()) return leaving_ ? close(to) : lose(to, status.message());
  if (leaving_ && !blocked) {
    // Not close(): unread heartbeats would make the kernel reset the connection and destroy the disconnect on
    // its way.
    to.socket.finishSending();
    to.state = Neighbour::State::draining;
  }
}

// Out of the epoll set first: a forked child may hold the same socket open (poller.h).
void Control::close(Neighbour& n) {
  poller_.forget(n.socket.fd());
  n.socket.close();
  n.state = Neighbour::State::closed;
}

// A neighbour is gone without disconnecting. This rank is the first to know, so it logs, and tells its side of
// the tree.
void Control::lose(Neighbour& n, const std::string& reason) {
  if (n.state == Neighbour::State::closed) return;
  close(n);
  const Frame loss{{.type = FrameType::departed, .kind = kLost, .target = n.rank},
                   format("%s %s (seen by rank %d)", n.who.c_str(), reason.c_str(), rank_)};
  ECCL_WARN("rank %d: %s", rank_, loss.body.c_str());
  depart(loss, n.rank);
}

// Passes on that a rank is gone, and draws this rank's own conclusions. Only the first message about a rank
// counts: after a disconnect nobody is lost any more.
void Control::depart(const Frame& frame, int fromRank) {
  const int rank = frame.header.target;
  if (leaving_ || rank == rank_ || std::exchange(departed_[static_cast<size_t>(rank)], 1) != 0) return;
  spread(frame, fromRank);
  const bool lost = frame.header.kind == kLost;
  const std::string reason = frame.body.substr(0, kMaxReason);
  if (lost || isAbove(rank, rank_)) {
    // Rank 0 cannot be reached any more, or need not be: nothing will come of what is waited for.
    std::lock_guard lock(mutex_);
    breakGathers(Status::error(Code::remote, "%s", reason.c_str()));
  }
  if (rank_ == 0) {
    std::vector<Frame> outcomes;
    gathers_.forget(rank, reason, &outcomes);
    conclude(outcomes);
  }
  if (lost)
    handler_->onLost(rank, reason);
  else
    handler_->onLeft(rank);
}

void Control::conclude(const std::vector<Frame>& outcomes) {
  for (const Frame& outcome : outcomes) {
    spread(outcome, -1);
    settle(outcome);
  }
}

// Hands the outcome of an allGather to the thread that waits for it, unless that has given up.
void Control::settle(const Frame& outcome) {
  std::lock_guard lock(mutex_);
  auto waiting = outcomes_.find(outcome.header.sequence);
  if (waiting == outcomes_.end() || waiting->second) return;
  if (outcome.header.type == FrameType::parts) {
    waiting->second = decodeParts(outcome.body, static_cast<size_t>(nranks_));
  } else {
    const auto told = static_cast<Code>(outcome.header.kind);
    const Code code = told == Code::timeout || told == Code::invalidArgument ? told : Code::remote;
    waiting->second = Status::error(code, "%s", outcome.body.substr(0, kMaxReason).c_str());
  }
  changed_.notifyAll();
}

// Signs of life, in both directions.
void Control::beat(TimePoint now) {
  // Never destroyed: this thread may outlive main(), after which exit() destroys what is static.
  static const auto* const sign = new Encoded(Frame().encode());
  for (Neighbour& n : neighbours_) {
    if (n.state != Neighbour::State::open) continue;
    const Duration silence = now - n.heard;
    if (silence >= options_.silenceLimit) {
      lose(n, format("has shown no sign of life for %.3g s: its process is stopped or its host is overloaded",
                     seconds(silence)));
      continue;
    }
    if (silence >= options_.hostLimit && hostIsSilent(n.socket.socket(), options_.hostLimit)) {
      lose(n,
           format("has shown no sign of life for %.3g s, nor does its host acknowledge what is sent: the host "
                  "is down or the network is cut",
                  seconds(silence)));
      continue;
    }
    if (silence >= options_.hostLimit && !std::exchange(n.warned, true)) {
      ECCL_WARN("rank %d: %s has shown no sign of life for %.3g s; it counts as lost after %.3g s", rank_,
                n.who.c_str(), seconds(silence), seconds(options_.silenceLimit));
    }
    if (now - n.sent < options_.heartbeat) continue;
    if (n.socket.hasQueued())
      n.sent = now;  // what waits is sign enough, once it is read
    else
      write(n, *sign);
  }
}

void Control::leave() {
  leaving_ = true;
  const Encoded disconnect = Frame{{.type = FrameType::disconnect, .origin = rank_}, {}}.encode();
  for (Neighbour& n : neighbours_) write(n, disconnect);
}

void Control::closeAfterFork() {
  poller_.close();
  wake_.reset();
  // Closing is enough and all that is allowed: epoll_ctl or shutdown here would reach into the parent.
  for (Neighbour& n : neighbours_) n.socket.close();
  if (!mutex_.try_lock()) return;  // held at the moment of the fork: what is queued stays open in the child
  for (Command& command : commands_) command.socket.reset();
  mutex_.unlock();
}

}  // namespace eccl::transport
