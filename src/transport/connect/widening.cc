#include "transport/connect/widening.h"

#include <algorithm>

#include "base/log.h"
#include "transport/net/socket_ends.h"

namespace eccl::transport {
namespace {

constexpr size_t kDescriptorsOfDial = 3;
constexpr Duration kConnectLimit = std::chrono::seconds(2), kTurnRest = std::chrono::milliseconds(2),
                   kDescriptorsRest = std::chrono::seconds(1);
/// A peer that leaves cannot be called either: that is no news.
constexpr Duration kBeforeWarning = std::chrono::seconds(1);

/// The speed of the rail that has this address; 0: not known.
uint32_t megabitsAt(const std::vector<Rail>& rails, const SocketAddress& address) {
  const Rail* const rail = findAt(rails, address);
  return rail != nullptr ? rail->megabits : 0;
}

}  // namespace

Widening::Widening(LinkContext& context, Connection& connection, const Hello& hello)
    : context_(context), connection_(connection), hello_(hello) {
  const ConnectorOptions& options = context.options;
  pairs_ = railPairs(endpoint(options.rank).rails, endpoint(connection.peer()).rails, options.socketsPerRail,
                     options.crossRail);
}

const Rail& Widening::mine() const {
  return endpoint(context_.options.rank).rails[static_cast<size_t>(pairs_[current_].mine)];
}

const Rail& Widening::theirs() const {
  return endpoint(connection_.peer()).rails[static_cast<size_t>(pairs_[current_].theirs)];
}

bool Widening::pending() const {
  return current_ < pairs_.size() && connection_.state() == Connection::State::ready;
}

TimePoint Widening::nextDeadline() const {
  if (!pending()) return TimePoint::max();
  return dialer_ != nullptr ? dialer_->nextDeadline() : until_;
}

void Widening::progress() {
  if (!pending()) return stopDialing();
  const TimePoint now = context_.options.system->now();
  if (dialer_ == nullptr && now >= until_) {
    if (!failure_.empty()) {
      ECCL_WARN("%s", failure_.c_str());
      next();
    }
    if (pending()) dial();
  }
  if (dialer_ == nullptr || !dialer_->progress()) return;
  Result<Stream> socket = dialer_->result();
  stopDialing();
  dialed(std::move(socket));
}

void Widening::dial() {
  const ConnectorOptions& options = context_.options;
  const TimePoint now = options.system->now();
  if (!turn_.take()) {
    until_ = now + kTurnRest;
    return;
  }
  if (!descriptorsLeft(kDescriptorsOfDial)) {  // others need them more
    turn_.give();
    until_ = now + kDescriptorsRest;
    return;
  }
  Endpoint peer = endpoint(connection_.peer());
  peer.addresses = {theirs().address};
  DialOptions how;
  how.peer = context_.describe(connection_.peer());
  how.connectLimit = kConnectLimit;
  how.system = options.system;
  const SocketAddress& from = mine().address;
  if (way_ == Way::bound) {
    how.interface = mine().interface;
    how.from = from.withPort(0);
  } else if (way_ == Way::routed && endpoint(options.rank).rails.size() > 1) {
    how.suits = [from](const SocketEnds& ends) { return ends.local.sharesHost(from); };
  }
  Hello hello = hello_;
  DataHello payload = hello.payloadAs<DataHello>();
  payload.transport = kFurtherSocket;
  hello.setPayload(payload);
  dialer_ = std::make_unique<Dialer>(peer, options.secret, hello, how, now + options.connectLimit);
  Status status =
      dialer_->fd() < 0 ? dialer_->result().status() : context_.reactor.watch(dialer_->fd(), EPOLLIN, this);
  if (status.ok()) return;
  stopDialing();
  dialed(std::move(status));
}

void Widening::stopDialing() {
  if (dialer_ != nullptr) context_.reactor.forget(dialer_->fd(), this);
  dialer_.reset();
  turn_.give();
}

void Widening::dialed(Result<Stream> socket) {
  Status status = socket.status();
  if (status.ok()) status = connection_.path()->addSocket(socket.take());
  if (status.ok()) {
    ECCL_INFO("%s goes also by %s to %s", context_.transports.context().text(connection_.id()).c_str(),
              mine().interface.c_str(), theirs().interface.c_str());
    context_.rails.start(endpoint(context_.options.rank).rails);
    connection_.path()->weighSockets([this](const SocketEnds& ends) {
      return std::min(megabitsAt(endpoint(context_.options.rank).rails, ends.local),
                      megabitsAt(endpoint(connection_.peer()).rails, ends.remote));
    });
    return next();
  }
  if (way_ == Way::routed && endpoint(context_.options.rank).rails.size() > 1) {
    way_ = Way::bound;
  } else if (way_ == Way::bound && context_.options.crossRail) {
    way_ = Way::anyInterface;
  } else {
    const std::string both =
        format("%s through %s and %s at %s (%s)", context_.describe(context_.options.rank).c_str(),
               mine().interface.c_str(), context_.describe(connection_.peer()).c_str(),
               theirs().address.text().c_str(), theirs().interface.c_str());
    failure_ = format(
        "no connection between %s: %s. They go on without this pair of rails: mend the network, or "
        "leave the interface out by ECCL_SOCKET_IFNAME",
        both.c_str(), status.message().c_str());
    if (!context_.lostRails.insert(theirs().interface + " of " + endpoint(connection_.peer()).host).second) {
      ECCL_INFO("%s", failure_.c_str());
      return next();
    }
    until_ = context_.options.system->now() + kBeforeWarning;
  }
}

void Widening::next() {
  ++current_;
  way_ = Way::routed;
  failure_.clear();
}

void Widening::closeAfterFork() {
  if (dialer_ != nullptr) dialer_->closeAfterFork();
}

}  // namespace eccl::transport
