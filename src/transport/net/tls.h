// TLS 1.3 on a socket, by OpenSSL, which is opened at run time when it is first needed. Nothing of it is
// linked.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "transport/net/fd.h"
#include "transport/net/secret.h"

namespace eccl::transport {

/// Whether this process can encrypt: opens OpenSSL, once. Returns its version, "OpenSSL 3.0.19 27 Jan 2026".
/// Error (system): what is missing, and what to do. The same each time. Any thread. Not logged.
Result<std::string> tlsLibrary();

/// One side of an encrypted connection. Both sides show that they have the same key; each connection has one of
/// its own, derived from the secret, and the keys of its data are made by an exchange (X25519), so that who
/// learns the secret later cannot read what was recorded.
///
/// It reads and writes the socket by the System, in send(), receive() and handshake(), and never waits. Owner:
/// the Stream or Handshake that also owns the socket. One thread at a time.
class Tls {
 public:
  enum class Side : uint8_t { dialer, acceptor };

  /// `context`: what the key is bound to; alike on both sides, and different for each connection. Error
  /// (system): tlsLibrary()'s, or no memory. Not logged.
  static Result<std::unique_ptr<Tls>> over(const Fd& socket, Side side, const Secret& secret,
                                           std::string_view context);
  virtual ~Tls() = default;

  /// Goes as far as the socket allows. 0: it is complete; else to be called again at EPOLLIN or EPOLLOUT,
  /// whichever it returns. Takes no byte of what follows out of the socket. Errors are the end of a sentence
  /// about the peer: system if the connection broke, remote if the peer has another key or does not speak TLS.
  /// Not logged.
  virtual Result<uint32_t> handshake() = 0;

  /// As Stream's.
  virtual ssize_t send(iovec* parts, size_t count) = 0;
  virtual ssize_t receive(iovec* parts, size_t count) = 0;
  virtual bool pending() const = 0;
  virtual void readAhead() = 0;
  virtual void limitCalls(size_t bytes) = 0;
  /// Of the data: "TLS_AES_128_GCM_SHA256". A static text.
  virtual const char* cipher() const = 0;
};

}  // namespace eccl::transport
