// TLS by OpenSSL. What leaves is encrypted record by record into a buffer, and some records go with one call of
// the socket; what comes is read by OpenSSL into its own buffer, and decrypted from there.
#include "transport/net/tls.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "transport/net/openssl.h"

namespace eccl::transport {
namespace {

constexpr const char* kCipher = "TLS_AES_128_GCM_SHA256";
constexpr const char* kKeyName = "eccl";  // a connection has one key, which needs no name; empty is not allowed
constexpr size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr size_t kPerCall = 4 * kRecord;  // encrypted, then sent
constexpr int kReadBuffer = 64 << 10;

using Key = std::array<uint8_t, 32>;

class OpenSslTls;

/// What all connections of the process share. Owner: the process, for ever.
struct Shared {
  const OpenSsl* openSsl = nullptr;
  SSL_CTX* context = nullptr;
  BIO_METHOD* method = nullptr;
  static Result<const Shared*> get();
};

class OpenSslTls final : public Tls {
 public:
  OpenSslTls(const Shared& shared, const Fd& socket, const Key& key)
      : shared_(shared), fd_(socket.get()), system_(socket.system()), process_(getpid()), key_(key) {}
  ~OpenSslTls() override {
    // In a forked child OpenSSL's locks may be those of a thread that is not there.
    if (ssl_ != nullptr && getpid() == process_) shared_.openSsl->SSL_free(ssl_);
  }
  Status open(Side side);

  Result<uint32_t> handshake() override;
  ssize_t send(iovec* parts, size_t count) override;
  ssize_t receive(iovec* parts, size_t count) override;
  bool pending() const override { return shared_.openSsl->SSL_has_pending(ssl_) != 0; }
  void readAhead() override { shared_.openSsl->SSL_set_read_ahead(ssl_, 1); }
  void limitCalls(size_t bytes) override { most_ = bytes; }
  const char* cipher() const override { return kCipher; }

  // Called by OpenSSL.
  int readSocket(BIO* bio, char* to, int count);
  int keep(const char* from, int count);
  unsigned int tellKey(unsigned char* to, unsigned int most) const;

 private:
  bool flush();
  bool encrypt(iovec*& parts, iovec* end, size_t* bytes);
  ssize_t failed();

  const Shared& shared_;
  const int fd_;
  System& system_;
  const pid_t process_;
  const Key key_;
  SSL* ssl_ = nullptr;
  std::string out_;       // records that are to be sent
  size_t gone_ = 0;       // of out_
  bool owed_ = false;     // a byte of what is in out_ has not been reported as sent
  bool empty_ = false;    // the socket has brought less than was asked: not again in this call
  bool blocked_ = false;  // OpenSSL was told so
  bool ended_ = false;    // the peer has closed it
  int error_ = 0;         // errno that ended it
  size_t most_ = SIZE_MAX;
};

OpenSslTls* tlsOf(const OpenSsl& openSsl, BIO* bio) {
  return static_cast<OpenSslTls*>(openSsl.BIO_get_data(bio));
}

Result<const Shared*> makeShared() {
  ECCL_ASSIGN(const OpenSsl* const ssl, OpenSsl::get());
  auto shared = std::make_unique<Shared>();
  shared->openSsl = ssl;
  shared->context = ssl->SSL_CTX_new(ssl->TLS_method());
  shared->method = ssl->BIO_meth_new(ssl->BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "eccl");
  const bool made = shared->context != nullptr && shared->method != nullptr;
  SSL_CTX* const context = shared->context;
  if (!made || ssl->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) != 1 ||
      ssl->SSL_CTX_set_ciphersuites(context, kCipher) != 1 || ssl->SSL_CTX_set_num_tickets(context, 0) != 1) {
    const char* const why = ssl->ERR_reason_error_string(ssl->ERR_get_error());
    ssl->ERR_clear_error();
    return Status::error(
        Code::system,
        "ECCL_ENCRYPT=1 needs TLS 1.3 with %s, which OpenSSL does not allow here (%s): look at its "
        "openssl.cnf, or set ECCL_ENCRYPT=0 on all ranks",
        kCipher, why != nullptr ? why : "no reason given");
  }
  ssl->SSL_CTX_set_default_read_buffer_len(context, kReadBuffer);
  static const OpenSsl* const table = ssl;  // for the functions below, which have no context of their own
  ssl->SSL_CTX_set_psk_client_callback(
      context,
      [](SSL* of, const char*, char* name, unsigned int mostName, unsigned char* key,
         unsigned int most) -> unsigned int {
        if (mostName <= std::strlen(kKeyName)) return 0;
        std::strcpy(name, kKeyName);
        return static_cast<OpenSslTls*>(table->SSL_get_ex_data(of, 0))->tellKey(key, most);
      });
  ssl->SSL_CTX_set_psk_server_callback(
      context, [](SSL* of, const char*, unsigned char* key, unsigned int most) -> unsigned int {
        return static_cast<OpenSslTls*>(table->SSL_get_ex_data(of, 0))->tellKey(key, most);
      });
  ssl->BIO_meth_set_write(shared->method, [](BIO* bio, const char* from, int count) {
    return tlsOf(*table, bio)->keep(from, count);
  });
  ssl->BIO_meth_set_read(shared->method, [](BIO* bio, char* to, int count) {
    return tlsOf(*table, bio)->readSocket(bio, to, count);
  });
  ssl->BIO_meth_set_ctrl(
      shared->method, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH ? 1 : 0; });
  return shared.release();
}

Result<const Shared*> Shared::get() {
  static const auto* const made = new Result<const Shared*>(makeShared());
  return *made;
}

Status OpenSslTls::open(Side side) {
  const OpenSsl& ssl = *shared_.openSsl;
  ssl_ = ssl.SSL_new(shared_.context);
  BIO* const bio = ssl_ != nullptr ? ssl.BIO_new(shared_.method) : nullptr;
  if (bio == nullptr || ssl.SSL_set_ex_data(ssl_, 0, this) != 1) {
    ssl.ERR_clear_error();
    return Status::error(Code::system, "no memory for encryption");
  }
  ssl.BIO_set_data(bio, this);
  ssl.BIO_set_init(bio, 1);
  ssl.SSL_set_bio(ssl_, bio, bio);
  if (side == Side::acceptor) return ssl.SSL_set_accept_state(ssl_), Status();
  ssl.SSL_set_connect_state(ssl_);
  // The acceptor has no other proof than the key: no certificate is believed.
  ssl.SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
  return {};
}

unsigned int OpenSslTls::tellKey(unsigned char* to, unsigned int most) const {
  if (most < key_.size()) return 0;
  std::memcpy(to, key_.data(), key_.size());
  return static_cast<unsigned int>(key_.size());
}

int OpenSslTls::readSocket(BIO* bio, char* to, int count) {
  const OpenSsl& ssl = *shared_.openSsl;
  ssl.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (ended_ || error_ != 0) return -1;
  const size_t asked = std::min(static_cast<size_t>(count), most_);
  ssize_t got = -1;
  int why = EAGAIN;
  if (!empty_) {
    got = system_.recv(fd_, to, asked);
    why = errno;
  }
  empty_ = empty_ || got < count;
  if (got > 0) return static_cast<int>(got);
  if (got == 0)
    ended_ = true;
  else if (why != EAGAIN && why != EWOULDBLOCK && why != EINTR)
    error_ = why;
  blocked_ = !ended_ && error_ == 0;
  if (blocked_) ssl.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return -1;
}

int OpenSslTls::keep(const char* from, int count) {
  try {  // OpenSSL's functions are no place for exceptions
    out_.append(from, static_cast<size_t>(count));
  } catch (const std::bad_alloc&) {
    error_ = ENOMEM;
    return -1;
  }
  return count;
}

/// True: nothing is left to be sent. False: the socket takes no more now, or it has failed; errno says which.
bool OpenSslTls::flush() {
  while (gone_ < out_.size()) {
    const ssize_t sent = system_.send(fd_, out_.data() + gone_, std::min(out_.size() - gone_, most_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    gone_ += static_cast<size_t>(sent);
    if (most_ != SIZE_MAX && gone_ < out_.size()) return errno = EAGAIN, false;
  }
  out_.clear();
  gone_ = 0;
  return true;
}

Result<uint32_t> OpenSslTls::handshake() {
  const OpenSsl& ssl = *shared_.openSsl;
  empty_ = blocked_ = false;
  const int result = ssl.SSL_do_handshake(ssl_);
  const bool flushed = flush();
  const int why = errno;
  if (result != 1 && (ended_ || error_ != 0)) {
    ssl.ERR_clear_error();
    return Status::error(Code::system, "closed the connection during the handshake");
  }
  if (result != 1 && !blocked_) {
    const char* const reason = ssl.ERR_reason_error_string(ssl.ERR_get_error());
    ssl.ERR_clear_error();
    return Status::error(Code::remote, "does not agree on encryption (%s)",
                         reason != nullptr ? reason : "no reason given");
  }
  if (!flushed && why != EAGAIN && why != EWOULDBLOCK)
    return Status::error(Code::system, "broke the connection during the handshake (%s)", std::strerror(why));
  if (!flushed) return uint32_t{EPOLLOUT};
  if (result != 1) return uint32_t{EPOLLIN};
  if (ssl.SSL_session_reused(ssl_) != 1)
    return Status::error(Code::remote, "does not know this job's secret (it encrypts with another key)");
  return uint32_t{0};
}

/// Encrypts the next record, into out_: `parts` is advanced past what is in it. Several records at once where a
/// part is long enough, as no byte is copied for them.
bool OpenSslTls::encrypt(iovec*& parts, iovec* end, size_t* bytes) {
  char gathered[kRecord];
  const void* from = gathered;
  size_t length = 0;
  if (parts->iov_len >= kRecord) {
    from = parts->iov_base;
    length = std::min(parts->iov_len, kPerCall) / kRecord * kRecord;
  }
  const bool direct = length > 0;
  size_t left = direct ? length : kRecord;
  for (; parts != end && left > 0;) {
    const size_t here = std::min(parts->iov_len, left);
    if (!direct) {
      std::memcpy(gathered + length, parts->iov_base, here);
      length += here;
    }
    parts->iov_base = static_cast<char*>(parts->iov_base) + here;
    parts->iov_len -= here;
    left -= here;
    if (parts->iov_len == 0) ++parts;
  }
  *bytes += length;
  size_t written = 0;
  return shared_.openSsl->SSL_write_ex(ssl_, from, length, &written) == 1 && written == length;
}

// What is encrypted has to be sent. As long as the socket does not take it, its last byte counts as not sent,
// so that the caller comes back when the socket takes more.
ssize_t OpenSslTls::send(iovec* parts, size_t count) {
  if (!flush()) return -1;
  iovec* const end = parts + count;
  size_t sent = 0;
  const auto skipEmpty = [&] {
    while (parts != end && parts->iov_len == 0) ++parts;
    return parts != end;
  };
  if (owed_ && skipEmpty()) {
    parts->iov_base = static_cast<char*>(parts->iov_base) + 1;
    --parts->iov_len;
    sent = 1;
    owed_ = false;
  }
  while (skipEmpty()) {
    while (out_.size() < kPerCall && skipEmpty()) {
      if (!encrypt(parts, end, &sent)) {
        shared_.openSsl->ERR_clear_error();
        return errno = error_ != 0 ? error_ : EBADMSG, -1;
      }
    }
    if (flush()) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    owed_ = true;
    if (--sent > 0) return static_cast<ssize_t>(sent);
    return errno = EAGAIN, -1;
  }
  return static_cast<ssize_t>(sent);
}

ssize_t OpenSslTls::receive(iovec* parts, size_t count) {
  const OpenSsl& ssl = *shared_.openSsl;
  empty_ = blocked_ = false;
  size_t received = 0;
  for (; count > 0; ++parts, --count) {
    auto* to = static_cast<char*>(parts->iov_base);
    for (size_t left = parts->iov_len; left > 0;) {
      size_t got = 0;
      if (ssl.SSL_read_ex(ssl_, to, left, &got) != 1) {
        const bool wrong = !ended_ && error_ == 0 && !blocked_;
        return received > 0 && !wrong ? static_cast<ssize_t>(received) : failed();
      }
      to += got;
      left -= got;
      received += got;
      if (empty_ && !pending()) return static_cast<ssize_t>(received);
    }
  }
  return static_cast<ssize_t>(received);
}

/// Why nothing could be read.
ssize_t OpenSslTls::failed() {
  shared_.openSsl->ERR_clear_error();
  if (ended_) return 0;
  errno = error_ != 0 ? error_ : blocked_ ? EAGAIN : EBADMSG;
  return -1;
}

}  // namespace

Result<std::string> tlsLibrary() {
  ECCL_ASSIGN(const Shared* const shared, Shared::get());
  return std::string(shared->openSsl->OpenSSL_version(OPENSSL_VERSION));
}

// The expansion of HKDF (RFC 5869), one block of it: the secret is random.
Result<std::unique_ptr<Tls>> Tls::over(const Fd& socket, Side side, const Secret& secret,
                                       std::string_view context) {
  ECCL_ASSIGN(const Shared* const shared, Shared::get());
  const std::string info = "ECCL TLS key 1" + std::string(context) + '\x01';
  Key key{};
  unsigned int size = key.size();
  if (shared->openSsl->HMAC(shared->openSsl->EVP_sha256(), secret.bytes.data(), secret.bytes.size(),
                            reinterpret_cast<const unsigned char*>(info.data()), info.size(), key.data(),
                            &size) == nullptr)
    return Status::error(Code::system, "no key for encryption can be made");
  auto tls = std::make_unique<OpenSslTls>(*shared, socket, key);
  ECCL_TRY(tls->open(side));
  return std::unique_ptr<Tls>(std::move(tls));
}

}  // namespace eccl::transport
