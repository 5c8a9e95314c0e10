#include "transport/connect/lent_descriptor.h"

#include "transport/connect/setup.h"

namespace eccl::transport {

Result<Fd> fetchDescriptor(const DescriptorCall& call, const DescriptorName& name, const Wait& wait) {
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
  for (;;) {
    ECCL_ASSIGN(std::optional<SetupMessage> answer, answers.receive());
    if (!answer) {
      if (wait.aborted()) return abortedWhile("asking another rank for memory");
      if (wait.expired())
        return Status::error(Code::timeout, "%s does not answer a call for its memory", call.peer.c_str());
      wait.onFd(answers.fd());
      continue;
    }
    if (answers.lostDescriptors())
      return Status::error(Code::system, "this process has no descriptors left for the memory of %s",
                           call.peer.c_str());
    if (answer->kind == SetupKind::otherWay)
      return Status::error(Code::system, "%s cannot give its memory: %s", call.peer.c_str(),
                           answer->why.c_str());
    if (answer->kind == SetupKind::refused)
      return Status::error(Code::invalidArgument, "%s does not give its memory: %s", call.peer.c_str(),
                           answer->why.c_str());
    if (answer->kind != SetupKind::accepted || answer->data.descriptors.size() != 1)
      return Status::error(Code::remote, "%s answers a call for its memory with something else",
                           call.peer.c_str());
    return std::move(answer->data.descriptors.front());
  }
}

std::optional<DescriptorName> namedBy(const Incoming& incoming) {
  if (!incoming.viaUnix) return std::nullopt;
  return incoming.hello.payloadAs<DescriptorName>();
}

void answerWith(Incoming& incoming, Result<Fd> descriptor) {
  SetupMessage message = saying(SetupKind::accepted, "");
  if (descriptor.ok()) {
    message.data.descriptors.push_back(descriptor.take());
  } else {
    const bool isNone = descriptor.status().code() == Code::invalidArgument;
    message = saying(isNone ? SetupKind::refused : SetupKind::otherWay, descriptor.status().message());
  }
  SetupSocket socket(std::move(incoming.socket));
  socket.send(std::move(message)).ignore();  // the caller may be gone
}

}  // namespace eccl::transport
