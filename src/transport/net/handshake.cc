// Each message has a fixed size. So each step is a number of bytes to move, and then a check of what they
// say.
#include "transport/net/handshake.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace eccl::transport {
namespace {

struct Challenge {
  uint32_t magic = kWireMagic;
  uint16_t version = kWireVersion;
  uint16_t zero = 0;
  std::array<uint8_t, 16> nonce{};
  Tag proof{};
};
static_assert(sizeof(Challenge) == 40);

struct Admission {
  uint32_t magic = kWireMagic;
  uint16_t version = kWireVersion;
  uint16_t zero = 0;
};
static_assert(sizeof(Admission) == 8);

// Common to all four messages. What is wrong, or nothing.
std::string checkHeader(uint32_t magic, uint16_t version) {
  if (magic != kWireMagic) return "does not speak ECCL's protocol";
  if (version == kWireVersion) return {};
  return format("speaks version %u of ECCL's protocol, this library version %u: all ranks need the same ECCL",
                version, kWireVersion);
}

bool known(Purpose purpose) {
  return purpose >= Purpose::rendezvous && purpose <= Purpose::data;
}

template <class T>
Result<T> decodeHeaded(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) return Status::error(Code::remote, "sent a message of the wrong size");
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
  if (std::string wrong = checkHeader(value.magic, value.version); !wrong.empty()) {
    return Status::error(Code::remote, "%s", wrong.c_str());
  }
  return value;
}

}  // namespace

const char* nameOf(Purpose purpose) {
  switch (purpose) {
    case Purpose::rendezvous:
      return "rendezvous";
    case Purpose::control:
      return "control";
    case Purpose::data:
      return "data";
  }
  return "unknown";
}

Result<Greeting> decodeGreeting(std::string_view bytes) {
  ECCL_ASSIGN(Greeting greeting, decodeHeaded<Greeting>(bytes));
  if (!known(greeting.purpose) || greeting.zero != 0)
    return Status::error(Code::remote, "sent a malformed greeting");
  return greeting;
}

Result<Hello> decodeHello(std::string_view bytes) {
  ECCL_ASSIGN(Hello hello, decodeHeaded<Hello>(bytes));
  if (!known(hello.purpose) || hello.zero != 0 || hello.zero2 != 0 || hello.rank < 0) {
    return Status::error(Code::remote, "sent a malformed introduction");
  }
  return hello;
}

Handshake Handshake::dialing(Fd socket, const Secret& secret, const Identity& identity, const Hello& mine) {
  Handshake h;
  h.socket_ = std::move(socket);
  h.secret_ = secret;
  h.identity_ = identity;
  h.hello_ = mine;
  h.greeting_.purpose = mine.purpose;
  h.socket_.system().random(h.greeting_.nonce.data(), h.greeting_.nonce.size());
  h.sendNext(Step::sendGreeting, std::string(bytesOf(h.greeting_)));
  return h;
}

Handshake Handshake::accepting(Fd socket, const Secret& secret, const Identity& identity) {
  Handshake h;
  h.socket_ = std::move(socket);
  h.secret_ = secret;
  h.identity_ = identity;
  h.socket_.system().random(h.acceptorNonce_.data(), h.acceptorNonce_.size());
  h.receiveNext(Step::readGreeting, sizeof(Greeting));
  return h;
}

// What a side shows to know the secret: bound to its role, the acceptor, the purpose (in the greeting) and both
// nonces.
Tag Handshake::proof(char role, std::string_view covered) const {
  ByteWriter message;
  message.raw("ECCL handshake 1").put(role).put(identity_).put(greeting_).put(acceptorNonce_).raw(covered);
  return secret_.mac(message.take());
}

uint32_t Handshake::awaits() const {
  const bool reading = step_ == Step::readChallenge || step_ == Step::readAdmission ||
                       step_ == Step::readGreeting || step_ == Step::readHello;
  return reading ? EPOLLIN : EPOLLOUT;
}

Handshake::State Handshake::advance() {
  while (step_ != Step::idle && step_ != Step::end) {
    if (!transfer()) break;
    onStepComplete();
  }
  if (step_ != Step::end) return State::working;
  return why_.empty() ? State::done : State::failed;
}

// True when the current step's bytes have all moved; false when the socket would block or has failed.
bool Handshake::transfer() {
  const bool reading = awaits() == EPOLLIN;
  while (moved_ < buffer_.size()) {
    char* at = buffer_.data() + moved_;
    const size_t left = buffer_.size() - moved_;
    const ssize_t count = reading ? socket_.system().recv(socket_.get(), at, left)
                                  : socket_.system().send(socket_.get(), at, left);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    cutOff_ = count <= 0;
    unsaid_ = (count == 0 || (count < 0 && errno == ECONNRESET)) && step_ == Step::readGreeting && moved_ == 0;
    if (count < 0) fail(format("broke the connection during the handshake (%s)", std::strerror(errno)));
    if (count == 0) {
      fail(step_ == Step::readHello ? "closed the connection instead of proving that it knows this job's secret"
                                    : "closed the connection during the handshake");
    }
    if (count <= 0) return false;
    moved_ += static_cast<size_t>(count);
  }
  return true;
}

// One complete message has been sent or received: check it and go on. A MAC is verified before anything that it
// covers is looked at; the greeting is covered by both.
void Handshake::onStepComplete() {
  switch (step_) {
    case Step::sendGreeting:
      return receiveNext(Step::readChallenge, sizeof(Challenge));
    case Step::readChallenge: {
      Result<Challenge> challenge = decodeHeaded<Challenge>(buffer_);
      if (!challenge.ok()) return fail(challenge.status().message());
      acceptorNonce_ = challenge->nonce;
      if (!constantTimeEqual(challenge->proof, proof('A', {}))) {
        return fail(
            "is not the one looked for, or does not know this job's secret (do all ranks use the same id?)");
      }
      const Tag mac = proof('D', bytesOf(hello_));
      return sendNext(Step::sendHello, std::string(bytesOf(hello_)).append(bytesOf(mac)));
    }
    case Step::readGreeting: {
      Result<Greeting> greeting = decodeGreeting(buffer_);
      if (!greeting.ok()) return fail(greeting.status().message());
      greeting_ = *greeting;
      Challenge challenge;
      challenge.nonce = acceptorNonce_;
      challenge.proof = proof('A', {});
      return sendNext(Step::sendChallenge, std::string(bytesOf(challenge)));
    }
    case Step::sendChallenge:
      return receiveNext(Step::readHello, sizeof(Hello) + sizeof(Tag));
    case Step::readHello: {
      const std::string_view covered = std::string_view(buffer_).substr(0, sizeof(Hello));
      Tag mac;
      std::memcpy(mac.data(), buffer_.data() + sizeof(Hello), mac.size());
      if (!constantTimeEqual(mac, proof('D', covered))) return fail("does not know this job's secret");
      Result<Hello> hello = decodeHello(covered);
      if (!hello.ok()) return fail(hello.status().message());
      if (hello->purpose != greeting_.purpose) return fail("changed its purpose during the handshake");
      hello_ = *hello;
      return sendNext(Step::sendAdmission, std::string(bytesOf(Admission())));
    }
    case Step::sendHello:
      return receiveNext(Step::readAdmission, sizeof(Admission));
    case Step::readAdmission: {
      Result<Admission> admission = decodeHeaded<Admission>(buffer_);
      if (!admission.ok()) return fail(admission.status().message());
      step_ = Step::end;
      return;
    }
    case Step::sendAdmission:
      step_ = Step::end;
      return;
    case Step::idle:
    case Step::end:
      return;
  }
}

// The exact size of the next message: no byte behind it may be taken out of the socket.
void Handshake::receiveNext(Step step, size_t bytes) {
  sendNext(step, std::string(bytes, '\0'));
}

void Handshake::sendNext(Step step, std::string bytes) {
  step_ = step;
  buffer_ = std::move(bytes);
  moved_ = 0;
}

void Handshake::fail(std::string why) {
  why_ = std::move(why);
  step_ = Step::end;
}

}  // namespace eccl::transport
