// What virtual descriptors stand for: sockets with delays and partial transfers, event counters, epoll sets.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "virtual/world.h"

namespace eccl::test {

/// What a descriptor stands for.
class Object {
 public:
  virtual ~Object() = default;
  /// EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR, as it stands.
  virtual uint32_t ready() const = 0;
  /// Its last descriptor is gone.
  virtual void closed() {}
};

/// One end of a stream of bytes. What is sent arrives after a random delay, in order; calls move random parts
/// of what they could. -1 and errno, as system calls do.
class Stream final : public Object, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(World& world) : world_(world) {}
  static void join(const std::shared_ptr<Stream>& one, const std::shared_ptr<Stream>& other);

  ssize_t send(const std::string& bytes);
  ssize_t receive(char* to, size_t count, bool peek);
  void shutdown(bool reading, bool writing);
  /// The connection attempt has ended; errno, 0: established.
  void connected(int error);
  /// SO_ERROR: told once.
  int takeError() { return std::exchange(error_, 0); }
  bool isClosed() const { return closed_; }
  uint32_t ready() const override;
  void closed() override;

  std::string local, remote;  // sockaddr bytes
  bool isUnix = false;
  bool resetOnClose = false;

 private:
  enum class State : uint8_t { fresh, established, failed };
  static constexpr size_t kWindow = 64u << 10;
  void deliver(std::function<void(Stream&)> what);
  void reset();
  size_t room() const { return kWindow - std::min(kWindow, unread_); }

  World& world_;
  State state_ = State::fresh;
  int error_ = 0;
  std::weak_ptr<Stream> peer_;
  std::shared_ptr<Stream> keptPeer_;  // one that is closed still answers, by resets
  std::string arrived_;
  size_t unread_ = 0;  // bytes sent that the other end has not taken
  TimePoint last_{};   // nothing sent arrives before what was sent before it
  bool ended_ = false, reset_ = false, finished_ = false, closed_ = false;
};

class Listener final : public Object {
 public:
  uint32_t ready() const override { return waiting.empty() ? 0U : uint32_t{EPOLLIN}; }
  void closed() override;
  std::string local;  // sockaddr bytes
  std::deque<std::shared_ptr<Stream>> waiting;
};

/// A socket before it is known what it will be.
class Socket final : public Object {
 public:
  explicit Socket(int family) : family(family) {}
  uint32_t ready() const override { return 0; }
  const int family;
  std::string bound;  // sockaddr bytes
};

class Event final : public Object {
 public:
  uint32_t ready() const override { return rung ? uint32_t{EPOLLIN} : 0U; }
  bool rung = false;
};

class EpollSet final : public Object {
 public:
  struct Watch {
    std::weak_ptr<Object> object;
    epoll_event event{};
    bool disarmed = false;
    /// What of it is ready.
    uint32_t happened() const;
  };
  uint32_t ready() const override;
  std::map<int, Watch> watches;  // by descriptor
};

}  // namespace eccl::test
