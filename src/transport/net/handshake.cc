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
  uint16_t encrypts = 0;  // 0 or 1: Secret::encrypts
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

/// What the acceptor's proof covers, beside what both cover.
std::string_view coveredBy(uint16_t encrypts) {
  return encrypts != 0 ? "encrypts" : "";
}

bool known(Purpose purpose) {
  return purpose >= Purpose::rendezvous && purpose <= Purpose::memory;
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
    case Purpose::memory:
      return "memory";
  }
  return "unknown";
}

Result<Greeting> decodeGreeting(std::string_view bytes) {
  ECCL_ASSIGN(Greeting greeting, decodeHeaded<Greeting>(bytes));
  if (!known(greeting.purpose) || greeting.encrypts > 1)
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
  h.greeting_.encrypts = secret.encrypts;
  h.socket_.system().random(h.greeting_.nonce.data(), h.greeting_.nonce.size());
  h.sendNext(Step::sendGreeting, std::string(bytesOf(h.greeting_)));
  return h;
}

Handshake Handshake::accepting(Fd socket, const Secret& secret, const Identity& identity) {
  Handshake h;
  h.socket_ = std::move(socket);
  h.secret_ = secret;
  h.identity_ = identity;
  h.side_ = Tls::Side::acceptor;
  h.socket_.system().random(h.acceptorNonce_.data(), h.acceptorNonce_.size());
  h.receiveNext(Step::readGreeting, sizeof(Greeting));
  return h;
}

// What a side shows to know the secret, and the key of TLS, are bound to: a role, the acceptor, the purpose (in
// the greeting) and both nonces.
std::string Handshake::context(char role) const {
  ByteWriter message;
  return message.raw("ECCL handshake 1").put(role).put(identity_).put(greeting_).put(acceptorNonce_).take();
}

Tag Handshake::proof(char role, std::string_view covered) const {
  return secret_.mac(context(role).append(covered));
}

uint32_t Handshake::awaits() const {
  if (step_ == Step::encrypt) return awaits_;
  const bool reading = step_ == Step::readChallenge || step_ == Step::readAdmission ||
                       step_ == Step::readGreeting || step_ == Step::readHello;
  return reading ? EPOLLIN : EPOLLOUT;
}

Handshake::State Handshake::advance() {
  while (step_ != Step::idle && step_ != Step::end) {
    if (step_ == Step::encrypt ? !encrypt() : !transfer()) break;
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
    const ssize_t count = reading ? socket_.receive(at, left) : socket_.send(at, left);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    cutOff_ = count <= 0;
    unsaid_ = (count == 0 || (count < 0 && errno == ECONNRESET)) && step_ == Step::readGreeting && moved_ == 0;
    if (count < 0) fail(format("broke the connection during the handshake (%s)", describeError(errno).c_str()));
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
      if (!constantTimeEqual(challenge->proof, proof('A', coveredBy(challenge->encrypts)))) {
        return fail(
            "is not the one looked for, or does not know this job's secret (do all ranks use the same id?)");
      }
      peerEncrypts_ = challenge->encrypts != 0;
      const Tag mac = proof('D', bytesOf(hello_));
      return sendNext(Step::sendHello, std::string(bytesOf(hello_)).append(bytesOf(mac)));
    }
    case Step::readGreeting: {
      Result<Greeting> greeting = decodeGreeting(buffer_);
      if (!greeting.ok()) return fail(greeting.status().message());
      greeting_ = *greeting;
      peerEncrypts_ = greeting->encrypts != 0;
      Challenge challenge;
      challenge.encrypts = secret_.encrypts;
      challenge.nonce = acceptorNonce_;
      challenge.proof = proof('A', coveredBy(challenge.encrypts));
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
      return onIntroduced();
    }
    case Step::sendHello:
      return onIntroduced();
    case Step::encrypt:
      return admit();
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

// The Hello has gone or come: now both sides know each other, and whether they agree.
void Handshake::onIntroduced() {
  if (peerEncrypts_ != secret_.encrypts) {
    disagrees_ = true;
    return fail(peerEncrypts_
                    ? "encrypts (ECCL_ENCRYPT=1), and the other side does not: set it alike on all ranks"
                    : "does not encrypt, and the other side does (ECCL_ENCRYPT=1): set it alike on all "
                      "ranks");
  }
  if (!secret_.encrypts) return admit();
  Result<std::unique_ptr<Tls>> tls =
      Tls::over(socket_.fd(), side_, secret_, context('T').append(bytesOf(hello_)));
  if (!tls.ok()) return fail("was called in vain: " + tls.status().message());
  tls_ = tls.take();
  step_ = Step::encrypt;
}

// True when TLS is set up.
bool Handshake::encrypt() {
  Result<uint32_t> awaited = tls_->handshake();
  if (!awaited.ok()) {
    cutOff_ = awaited.status().code() == Code::system;
    return fail(awaited.status().message()), false;
  }
  awaits_ = *awaited;
  if (awaits_ != 0) return false;
  socket_ = Stream(socket_.takeFd(), std::move(tls_));
  return true;
}

void Handshake::admit() {
  if (side_ == Tls::Side::acceptor)
    sendNext(Step::sendAdmission, std::string(bytesOf(Admission())));
  else
    receiveNext(Step::readAdmission, sizeof(Admission));
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
