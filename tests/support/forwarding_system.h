// A System that passes all calls on, for tests that change some of them.
#pragma once

#include <utility>

#include "base/system.h"

namespace eccl::test {

/// What it makes belongs to it: descriptors come back here. `to` outlives it.
class ForwardingSystem : public System {
 public:
  explicit ForwardingSystem(System& to) : to_(to) {}

  TimePoint now() override { return to_.now(); }
  void random(void* to, size_t count) override { to_.random(to, count); }
  ProcessIdentity identity() override { return to_.identity(); }
  Result<std::vector<InterfaceAddress>> interfaces() override { return to_.interfaces(); }
  Result<Thread> start(const char* name, std::function<void()> body) override {
    return to_.start(name, std::move(body));
  }
  void yield() override { to_.yield(); }
  Parking* parking() override { return to_.parking(); }
  int socket(int family) override { return to_.socket(family); }
  int datagramSocket(int family) override { return to_.datagramSocket(family); }
  int bind(int fd, const sockaddr* address, socklen_t size) override { return to_.bind(fd, address, size); }
  int listen(int fd, int backlog) override { return to_.listen(fd, backlog); }
  int accept(int fd, sockaddr* from, socklen_t* size) override { return to_.accept(fd, from, size); }
  int connect(int fd, const sockaddr* address, socklen_t size) override {
    return to_.connect(fd, address, size);
  }
  int getsockname(int fd, sockaddr* address, socklen_t* size) override {
    return to_.getsockname(fd, address, size);
  }
  int getpeername(int fd, sockaddr* address, socklen_t* size) override {
    return to_.getpeername(fd, address, size);
  }
  int getsockopt(int fd, int level, int name, void* value, socklen_t* size) override {
    return to_.getsockopt(fd, level, name, value, size);
  }
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override {
    return to_.setsockopt(fd, level, name, value, size);
  }
  int shutdown(int fd, int how) override { return to_.shutdown(fd, how); }
  ssize_t sendmsg(int fd, const msghdr* message) override { return to_.sendmsg(fd, message); }
  ssize_t recvmsg(int fd, msghdr* message, int flags) override { return to_.recvmsg(fd, message, flags); }
  int poll(int fd, short events, Duration limit) override { return to_.poll(fd, events, limit); }
  int epollCreate() override { return to_.epollCreate(); }
  int epollControl(int set, int operation, int fd, epoll_event* event) override {
    return to_.epollControl(set, operation, fd, event);
  }
  int epollWait(int set, epoll_event* events, int most, Duration limit) override {
    return to_.epollWait(set, events, most, limit);
  }
  int eventFd() override { return to_.eventFd(); }
  void ringEvent(int fd) override { to_.ringEvent(fd); }
  void clearEvent(int fd) override { to_.clearEvent(fd); }
  int processFd(int socket, pid_t* pid) override { return to_.processFd(socket, pid); }
  void close(int fd) override { to_.close(fd); }

 protected:
  System& to_;
};

}  // namespace eccl::test
