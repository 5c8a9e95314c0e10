// The rank's side of the rendezvous.
#include "base/log.h"
#include "transport/bootstrap/ranks.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/net/dialer.h"

namespace eccl::transport {
namespace {

constexpr Duration kVerdictGrace = std::chrono::seconds(2);  // the root's clock started later than this rank's
constexpr int kAttempts = 3;
constexpr uint64_t kMaxRest = 60'000;  // ms

Wait untilTheVerdict(const Wait& wait) {
  Wait patient = wait;
  if (wait.deadline <= TimePoint::max() - kVerdictGrace) patient.deadline += kVerdictGrace;
  return patient;
}

// Until the root has answered or closed; nothing on close.
Result<std::optional<Frame>> awaitAnswer(FrameSocket& socket, const Wait& wait) {
  std::optional<Frame> answer;
  bool ended = false;
  const Wait patient = untilTheVerdict(wait);
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

// Three quarters to five quarters of it, so that not all come at the same moment.
void rest(Duration time, int rank, const Wait& wait) {
  const TimePoint until = wait.system->now() + time * (48 + rank * 37 % 33) / 64;
  while (!wait.aborted() && !wait.expired() && wait.system->now() < until) wait.onFd(-1, until);
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
  bool noted = false;  // the root knows of this rank
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    // Before the first contact the root may not be up yet; one that has closed on us is either gone, or was too
    // busy.
    options.retry = attempt == 1;
    Result<Stream> connection = dial(root, id.secret, hello, options, noted ? untilTheVerdict(wait) : wait);
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
    if (answer->header.type == FrameType::later) {
      socket.close();
      rest(std::chrono::milliseconds(std::min<uint64_t>(answer->header.sequence, kMaxRest)), request.rank,
           wait);
      if (wait.aborted()) return abortedWhile("waiting for the other ranks to join");
      noted = true;
      attempt = 1;  // and no retry: the root is there
      continue;
    }
    if (answer->header.type == FrameType::refusal) {
      constexpr size_t kMaxText = 4096;
      const bool late = answer->header.kind == static_cast<uint16_t>(Code::timeout);
      return Status::error(late ? Code::timeout : Code::invalidUsage, "rank %d of %d: %s", request.rank,
                           request.nranks, answer->body.substr(0, kMaxText).c_str());
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

}  // namespace eccl::transport
