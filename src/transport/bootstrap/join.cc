// The rank's side of the rendezvous.
#include "base/log.h"
#include "transport/bootstrap/ranks.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/net/dialer.h"

namespace eccl {
namespace {

constexpr Duration kVerdictGrace = std::chrono::seconds(2);  // the root's clock started later than this rank's
constexpr int kAttempts = 3;

// Until the root has answered or closed; nothing on close.
Result<std::optional<Frame>> awaitAnswer(FrameSocket& socket, const Wait& wait) {
  std::optional<Frame> answer;
  bool ended = false;
  const TimePoint giveUp =
      wait.deadline > TimePoint::max() - kVerdictGrace ? wait.deadline : wait.deadline + kVerdictGrace;
  const Wait patient{giveUp, wait.abort, wait.meanwhile};
  while (true) {
    Status status = socket.flush();
    if (status.ok()) {
      status = socket.receive(
          [&](Frame&& frame) -> Result<bool> {
            answer = std::move(frame);
            return false;
          },
          &ended);
    }
    if (answer) return answer;
    if (ended || !status.ok()) return std::optional<Frame>();
    if (wait.aborted()) return abortedWhile("waiting for the other ranks to join");
    if (patient.expired()) return Status::error(Code::timeout, "has not answered within the time limit");
    patient.onFd(socket.fd(), TimePoint::max(), socket.hasQueued() ? POLLIN | POLLOUT : POLLIN);
  }
}

// Every error names the rank; rendezvous() below logs it.
Result<std::optional<Endpoint>> joinOnce(const UniqueId& id, const JoinRequest& request, const Wait& wait) {
  const Endpoint root = id.root();
  Hello hello;
  hello.purpose = Purpose::rendezvous;
  hello.communicator = id.communicator;
  hello.rank = request.rank;
  DialOptions options;
  options.peer = "the rendezvous root";
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    // Before the first contact the root may not be up yet; one that has closed on us is either gone, or was too
    // busy.
    options.retry = attempt == 1;
    Result<Fd> connection = dial(root, id.secret, hello, options, wait);
    if (!connection.ok()) {
      return Status::error(connection.status().code(), "rank %d of %d: %s", request.rank, request.nranks,
                           connection.status().message().c_str());
    }
    FrameSocket socket(connection.take());
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(wait.left()).count();
    socket.queue(
        Frame{{.type = FrameType::join, .target = request.nranks, .sequence = static_cast<uint64_t>(limit)},
              request.endpoint.encode()});
    ECCL_ASSIGN(const std::optional<Frame> answer, awaitAnswer(socket, wait));
    if (!answer) continue;
    if (answer->header.type == FrameType::refusal) {
      constexpr size_t kMostText = 4096;
      const bool late = answer->header.kind == static_cast<uint16_t>(Code::timeout);
      return Status::error(late ? Code::timeout : Code::invalidUsage, "rank %d of %d: %s", request.rank,
                           request.nranks, answer->body.substr(0, kMostText).c_str());
    }
    if (answer->header.type != FrameType::welcome) break;
    if (answer->body.empty() != (request.rank == 0)) break;
    if (request.rank == 0) return std::optional<Endpoint>();
    ECCL_ASSIGN(Endpoint parent, Endpoint::decode(answer->body));
    return std::optional<Endpoint>(std::move(parent));
  }
  return Status::error(
      Code::remote,
      "rank %d of %d: the rendezvous root at %s closed the connection before all ranks had joined: has the "
      "process that called ecclGetUniqueId ended?",
      request.rank, request.nranks, root.addresses.empty() ? "?" : root.addresses[0].text().c_str());
}

}  // namespace

Result<std::optional<Endpoint>> rendezvous(const UniqueId& id, const JoinRequest& request, const Wait& wait) {
  return logged(joinOnce(id, request, wait));
}

}  // namespace eccl
