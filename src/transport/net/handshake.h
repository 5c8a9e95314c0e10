// Proof, on a fresh stream socket, that both ends belong to the same communicator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "transport/net/bytes.h"
#include "transport/net/fd.h"
#include "transport/net/secret.h"
#include "transport/net/stream.h"

namespace eccl::transport {

inline constexpr uint32_t kWireMagic = 0x4c434345;  // "ECCL"
inline constexpr uint16_t kWireVersion = 3;

/// What a connection is for.
enum class Purpose : uint8_t { rendezvous = 1, control = 2, data = 3, memory = 4 };
/// A static text; "unknown" for a value that is none.
const char* nameOf(Purpose purpose);

/// The dialing side's introduction, authenticated as a whole. Fixed size, sent as it lies in memory.
struct Hello {
  uint32_t magic = kWireMagic;
  uint16_t version = kWireVersion;
  Purpose purpose = Purpose::data;
  uint8_t zero = 0;
  uint64_t communicator = 0;
  int32_t rank = 0;  ///< of the sender
  uint32_t zero2 = 0;
  uint8_t payload[32] = {};  ///< means what `purpose` says; zero where unused

  template <class T>
  void setPayload(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof payload);
    std::memcpy(payload, &value, sizeof value);
  }
  template <class T>
  T payloadAs() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof payload);
    T value;
    std::memcpy(&value, payload, sizeof value);
    return value;
  }
};
static_assert(sizeof(Hello) == 56);

/// First bytes on every connection, from the dialing side.
struct Greeting {
  uint32_t magic = kWireMagic;
  uint16_t version = kWireVersion;
  Purpose purpose = Purpose::data;
  uint8_t encrypts = 0;  ///< 0 or 1: Secret::encrypts
  std::array<uint8_t, 16> nonce{};
};
static_assert(sizeof(Greeting) == 24);

/// Bounded parsers of outside bytes. Errors (remote) are the end of a sentence about the peer, such as "sent
/// a malformed greeting". Not logged.
Result<Greeting> decodeGreeting(std::string_view bytes);
Result<Hello> decodeHello(std::string_view bytes);

/// The state machine of one side, over a non-blocking stream socket that it owns meanwhile. Four messages:
///   dialer   -> Greeting  { purpose, nonce D }
///   acceptor -> Challenge { nonce A, MAC(acceptor, identity, purpose, D, A) }
///   dialer   -> Hello,     MAC(dialer,   identity, purpose, D, A, Hello)
///   TLS, if Secret::encrypts; its key is bound to all of the above
///   acceptor -> Admission: a dialer that was dropped for others learns so here, while it may still come again
/// The roles in the MACs make a reflected message useless. The acceptor's identity makes one that reached the
/// wrong acceptor useless. The nonces make an old one useless. Nothing is believed before the MAC over it is
/// checked, and no byte after the Hello or the Admission is read. Greeting and Challenge also say whether a
/// side encrypts. If one does and the other does not, both know after the Hello, with its MAC, who is wrong.
///
/// Owner and thread: the Acceptor or Dialer, which also minds the time. Failure: the state failed, with
/// why().
class Handshake {
 public:
  enum class State : uint8_t { working, done, failed };

  Handshake() = default;
  /// The dialing side: proves `secret` to the acceptor called `identity`, then sends `mine`.
  static Handshake dialing(Fd socket, const Secret& secret, const Identity& identity, const Hello& mine);
  /// The accepting side.
  static Handshake accepting(Fd socket, const Secret& secret, const Identity& identity);

  /// Goes as far as the socket allows without waiting. working: to be called again when fd() is ready for
  /// awaits(). done and failed are final.
  State advance();
  /// EPOLLIN or EPOLLOUT: what advance() is waiting for.
  uint32_t awaits() const;
  int fd() const { return socket_.get(); }
  /// After done: the introduction, mine or the peer's, which is authentic.
  const Hello& hello() const { return hello_; }
  /// The socket, encrypted if that was asked for, after done or to give the handshake up. Only once.
  Stream takeSocket() { return std::move(socket_); }
  /// After failed: a sentence part such as "sent no ECCL greeting".
  const std::string& why() const { return why_; }
  /// After failed: the connection ended, and nothing wrong had been said.
  bool cutOff() const { return cutOff_; }
  /// After failed: the connection ended before the peer had said anything.
  bool unsaid() const { return unsaid_; }
  /// After failed: one side encrypts and the other does not. hello() is authentic on both.
  bool disagrees() const { return disagrees_; }
  /// The accepting side, while working: the peer has sent a greeting that makes sense.
  bool greeted() const {
    return step_ == Step::sendChallenge || step_ == Step::readHello || step_ == Step::encrypt;
  }

 private:
  enum class Step : uint8_t {
    idle,
    sendGreeting,
    readChallenge,
    sendHello,
    encrypt,
    readAdmission,
    readGreeting,
    sendChallenge,
    readHello,
    sendAdmission,
    end
  };

  std::string context(char role) const;
  Tag proof(char role, std::string_view covered) const;
  bool transfer();
  void onIntroduced();
  bool encrypt();
  void admit();
  void onStepComplete();
  void receiveNext(Step step, size_t bytes);
  void sendNext(Step step, std::string bytes);
  void fail(std::string why);

  Stream socket_;
  Secret secret_;
  Identity identity_{};
  Hello hello_;
  Greeting greeting_;
  std::array<uint8_t, 16> acceptorNonce_{};
  Step step_ = Step::idle;
  std::string buffer_;  // being sent, or received so far (already of its final size)
  size_t moved_ = 0;
  Tls::Side side_ = Tls::Side::dialer;
  bool peerEncrypts_ = false;
  std::unique_ptr<Tls> tls_;  // while it is set up
  uint32_t awaits_ = 0;       // of tls_
  bool cutOff_ = false, unsaid_ = false, disagrees_ = false;
  std::string why_;
};

}  // namespace eccl::transport
