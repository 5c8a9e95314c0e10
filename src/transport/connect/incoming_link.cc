#include "transport/connect/incoming_link.h"

#include "base/log.h"
#include "transport/net/descriptors.h"

namespace eccl::transport {
namespace {

constexpr size_t kDescriptorsOfOffer = 4;  // what comes with an offer, and one to watch the peer
constexpr uint32_t kDescriptorsRestMs = 20;
const char* kNonsense = "the peer's answer makes no sense";

}  // namespace

bool IncomingLink::adopt(Incoming& incoming) {
  if (connection.state() != Connection::State::connecting) return false;
  if (socket_.fd() >= 0) lose("the peer calls anew");
  socket_ = SetupSocket(std::move(incoming.socket));
  local_ = incoming.viaUnix;
  caller_ = incoming.pid;
  const uint16_t named = incoming.hello.payloadAs<DataHello>().transport;
  if (Status status = context_.reactor.watch(socket_.fd(), EPOLLIN, this); !status.ok()) {
    lose(status.message());
  } else if (named == 0) {
    onReady(EPOLLIN);  // the offer follows the handshake closely
  } else {
    const auto id = static_cast<uint16_t>(named & ~kLastTransport);
    SetupMessage offer = saying(SetupKind::offer, "");
    offer.last = (named & kLastTransport) != 0;
    offer.transport = context_.transports.nameOf(id);
    takeOffer(context_.transports.find(id), offer);
  }
  return true;
}

bool IncomingLink::adopt(ThreadCall& call) {
  if (connection.state() != Connection::State::connecting) return false;
  if (socket_.fd() >= 0) lose("the peer calls anew");
  const size_t transport = context_.transports.find(call.transport);
  if (transport == RankTransports::kNone) {
    call.why = context_.transports.refusal(call.transport);
    call.reply(call.last ? ThreadCall::State::refused : ThreadCall::State::otherWay);
    if (call.last) forbid(call.transport, call.why);
    return true;
  }
  Result<std::unique_ptr<Acceptance>> acceptance = accept(transport, call.offer, &call.answer);
  if (!acceptance.ok()) {
    call.why = acceptance.status().message();
    call.reply(ThreadCall::State::otherWay);
    return true;
  }
  if (!call.reply(ThreadCall::State::accepted)) return true;  // withdrawn; perhaps it comes again
  acceptance_ = acceptance.take();
  open();
  return true;
}

// An offer, then the confirmation. Nothing offered is used before that: the sender may change its mind.
void IncomingLink::onReady(uint32_t) {
  Result<std::optional<SetupMessage>> message = socket_.receive();
  if (!message.ok()) return lose(message.status().message());
  if (!*message) return;
  if (acceptance_ == nullptr)
    takeOffer(context_.transports.find((*message)->transport), **message);
  else
    takeConfirmation(**message);
}

Result<std::unique_ptr<Acceptance>> IncomingLink::accept(size_t index, SetupData& offer, SetupData* answer) {
  ECCL_ASSIGN(Transport * transport, context_.transports.get(index));
  return transport->accept(connection.id(), offer, answer);
}

void IncomingLink::takeOffer(size_t index, SetupMessage& offer) {
  Status status;
  if (offer.kind != SetupKind::offer) {
    status = Status::error(Code::remote, "the sender's offer makes no sense");
  } else if (index == RankTransports::kNone) {
    const std::string why = context_.transports.refusal(offer.transport);
    socket_.send(saying(offer.last ? SetupKind::refused : SetupKind::otherWay, why)).ignore();
    return offer.last ? forbid(offer.transport, why) : lose(why);
  } else if (context_.transports.entry(index).reach != (local_ ? Reach::host : Reach::network)) {
    status = Status::error(Code::remote, "the sender's offer makes no sense over this socket");
  } else {
    offer.data.process = caller_;
    SetupMessage answer = saying(SetupKind::accepted, "");
    Result<std::unique_ptr<Acceptance>> acceptance = accept(index, offer.data, &answer.data);
    status = acceptance.status();
    if (status.ok()) {
      const bool final = answer.data.empty();
      if (local_) context_.peers.add(connection.peer(), socket_.socket());
      status = socket_.send(std::move(answer));
      if (status.ok()) {
        acceptance_ = acceptance.take();
        return final ? open() : void();
      }
    }
  }
  if (socket_.lostDescriptors() || !descriptorsLeft(kDescriptorsOfOffer)) {
    sayThatDescriptorsAreShort(text().c_str());
    SetupMessage later = saying(SetupKind::later, status.message());
    later.milliseconds = kDescriptorsRestMs;
    socket_.send(std::move(later)).ignore();
  } else {  // the end of the stream says the same
    socket_.send(saying(SetupKind::otherWay, status.message())).ignore();
  }
  lose(status.message());
}

void IncomingLink::takeConfirmation(SetupMessage& message) {
  if (message.kind != SetupKind::confirmed) return lose(kNonsense);
  if (Status status = acceptance_->onConfirmation(message.data); !status.ok()) return lose(status.message());
  open();
}

void IncomingLink::open() {
  const bool called = socket_.fd() >= 0;
  if (called) context_.reactor.forget(socket_.fd(), this);
  Stream socket = socket_.take();
  const bool watched = !called || !local_ || context_.peers.add(connection.peer(), socket.fd());
  Result<std::unique_ptr<Path>> path = acceptance_->open(connection.receiveEnd, opening(socket));
  acceptance_.reset();
  if (!path.ok()) return fail(path.status().code(), path.status().message());
  if (!watched && socket) context_.peers.addSocket(connection.peer(), socket.takeFd());
  connection.becomeReady(path.take());
}

// The sender can come by nothing else: both fail, each in its own words.
void IncomingLink::forbid(const std::string& transport, const std::string& why) {
  fail(Code::invalidUsage, format("the sender can come by %s only, but %s", transport.c_str(), why.c_str()));
}

// Not the end of the connection: the dialer hangs up too and comes by another transport, or its death is
// noticed.
void IncomingLink::lose(const std::string& why) {
  ECCL_INFO("%s: an attempt failed (%s), waiting for the peer to try another way", text().c_str(), why.c_str());
  hangUp();
  acceptance_.reset();
}

void IncomingLink::abandon(const Status& why) {
  acceptance_.reset();
  Link::abandon(why);
}

}  // namespace eccl::transport
