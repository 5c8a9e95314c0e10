#include "transport/connect/lent_descriptor.h"

#include "transport/connect/setup.h"
#include "transport/net/descriptors.h"

namespace eccl::transport {

namespace {

constexpr const char* kShort = "this process has no descriptors left (ulimit -n)";

/// One call. Nothing: either side was short of descriptors, *why.
Result<std::optional<Fd>> askOnce(const DescriptorCall& call, const DescriptorName& name, const Wait& wait,
                                  std::string* why) {
  constexpr size_t kTaken = 3;  // the socket, the dialer's set, and what comes
  if (!descriptorsLeft(kTaken)) return *why = kShort, std::optional<Fd>();
  Hello hello;
  hello.purpose = Purpose::memory;
  hello.communicator = call.communicator;
  hello.rank = call.rank;
  hello.setPayload(name);
  DialOptions options;
  options.peer = call.peer;
  options.via = Via::unixOnly;
  options.connectLimit = options.handshakeLimit = wait.left();
  options.system = wait.system;
  ECCL_ASSIGN(Stream socket, dial(call.endpoint, call.secret, hello, options, wait));
  SetupSocket answers(std::move(socket));
  std::optional<SetupMessage> answer;
  for (;;) {
    ECCL_ASSIGN(answer, answers.receive());
    if (answer) break;
    if (wait.aborted()) return abortedWhile("asking another rank for memory");
    if (wait.expired())
      return Status::error(Code::timeout, "%s does not answer a call for its memory", call.peer.c_str());
    wait.onFd(answers.fd());
  }
  if (answers.lostDescriptors() || answer->kind == SetupKind::later)
    return *why = answer->why.empty() ? kShort : answer->why, std::optional<Fd>();
  if (answer->kind == SetupKind::refused)
    return Status::error(Code::invalidArgument, "%s does not give its memory: %s", call.peer.c_str(),
                         answer->why.c_str());
  if (answer->kind != SetupKind::accepted || answer->data.descriptors.size() != 1)
    return Status::error(Code::remote, "%s answers a call for its memory with something else",
                         call.peer.c_str());
  return std::optional<Fd>(std::move(answer->data.descriptors.front()));
}

}  // namespace

Result<Fd> fetchDescriptor(const DescriptorCall& call, const DescriptorName& name, const Wait& wait) {
  constexpr int kTries = 20;
  constexpr Duration kPause = std::chrono::milliseconds(50);
  std::string why = "there was no time for it";
  for (int time = 0; time < kTries && !wait.expired() && !wait.aborted(); ++time) {
    if (time > 0) wait.onFd(-1, wait.system->now() + kPause);
    ECCL_ASSIGN(std::optional<Fd> descriptor, askOnce(call, name, wait, &why));
    if (descriptor) return *std::move(descriptor);
  }
  if (wait.aborted()) return abortedWhile("asking another rank for memory");
  return Status::error(Code::system, "the memory of %s cannot be had: %s", call.peer.c_str(), why.c_str());
}

std::optional<DescriptorName> namedBy(const Incoming& incoming) {
  if (!incoming.viaUnix) return std::nullopt;
  return incoming.hello.payloadAs<DescriptorName>();
}

void answerWith(Incoming& incoming, Result<Fd> descriptor) {
  const bool isNone = descriptor.status().code() == Code::invalidArgument;
  SetupMessage message =
      descriptor.ok() ? saying(SetupKind::accepted, "")
                      : saying(isNone ? SetupKind::refused : SetupKind::later, descriptor.status().message());
  if (descriptor.ok()) message.data.descriptors.push_back(descriptor.take());
  SetupSocket socket(std::move(incoming.socket));
  const Status sent = socket.send(std::move(message));
  if (!sent.ok() && socket.lostDescriptors())
    socket.send(saying(SetupKind::later, "too many descriptors are in messages that nobody has read")).ignore();
}

}  // namespace eccl::transport
