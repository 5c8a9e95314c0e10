#include "transport/connect/further_socket.h"

#include <algorithm>

namespace eccl::transport {
namespace {

constexpr size_t kDescriptorsOfDial = 3;
constexpr Duration kConnectLimit = std::chrono::seconds(2), kDialDescriptorsRest = std::chrono::seconds(1);

/// The speed of the rail that has this address; 0: not known.
uint32_t megabitsAt(const std::vector<Rail>& rails, const SocketAddress& address) {
  const Rail* const rail = findAt(rails, address);
  return rail != nullptr ? rail->megabits : 0;
}

}  // namespace

void FurtherSocket::call(const SocketAddress& to, DialOptions how) {
  to_ = to;
  how_ = std::move(how);
  wanted_ = true;
  until_ = TimePoint{};
}

std::optional<Status> FurtherSocket::progress() {
  const TimePoint now = context_.options.system->now();
  if (wanted_ && now >= until_) {
    if (Status status = begin(now); !status.ok()) return stop(), status;
  }
  if (dialer_ == nullptr || !dialer_->progress()) return std::nullopt;
  Result<Stream> socket = dialer_->result();
  stop();
  return socket.ok() ? join(socket.take()) : socket.status();
}

// From now on the rails are watched, and messages spread by their speeds.
Status FurtherSocket::join(Stream socket) {
  ends_ = endsOf(socket.fd());
  ECCL_TRY(connection_.path()->addSocket(std::move(socket)));
  const std::vector<Rail>& mine = context_.options.endpoint(context_.options.rank).rails;
  const std::vector<Rail>& theirs = context_.options.endpoint(connection_.peer()).rails;
  context_.rails.start(mine);
  connection_.path()->weighSockets([&](const SocketEnds& ends) {
    return std::min(megabitsAt(mine, ends.local), megabitsAt(theirs, ends.remote));
  });
  return {};
}

Status FurtherSocket::begin(TimePoint now) {
  if (!turn_.take()) {
    until_ = now + SetupTurn::kRest;
    return {};
  }
  if (!descriptorsLeft(kDescriptorsOfDial)) {  // others need them more
    turn_.give();
    until_ = now + kDialDescriptorsRest;
    return {};
  }
  wanted_ = false;
  const ConnectorOptions& options = context_.options;
  Endpoint peer = options.endpoint(connection_.peer());
  peer.addresses = {to_};
  how_.peer = context_.describe(connection_.peer());
  how_.connectLimit = kConnectLimit;
  how_.system = options.system;
  Hello hello = hello_;
  DataHello payload = hello.payloadAs<DataHello>();
  payload.transport = kFurtherSocket;
  hello.setPayload(payload);
  dialer_ = std::make_unique<Dialer>(peer, options.secret, hello, how_, now + options.connectLimit);
  return dialer_->fd() < 0 ? dialer_->result().status() : context_.reactor.watch(dialer_->fd(), EPOLLIN, this);
}

TimePoint FurtherSocket::nextDeadline() const {
  if (dialer_ != nullptr) return dialer_->nextDeadline();
  return wanted_ ? until_ : TimePoint::max();
}

void FurtherSocket::stop() {
  wanted_ = false;
  if (dialer_ != nullptr) context_.reactor.forget(dialer_->fd(), this);
  dialer_.reset();
  turn_.give();
}

void FurtherSocket::closeAfterFork() {
  if (dialer_ != nullptr) dialer_->closeAfterFork();
}

}  // namespace eccl::transport
