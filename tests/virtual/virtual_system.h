// A host of its own in the process of the test: the System that tests put in place of the machine.
#pragma once

#include <netinet/in.h>

#include <map>
#include <memory>
#include <string>

#include "base/system.h"
#include "virtual/network.h"
#include "virtual/world.h"

namespace eccl::test {

/// Hosts that reach each other by TCP, over IPv4: host k is 10.0.0.k+1, called "node<k>", and runs one process,
/// of id 1000+k. AF_UNIX reaches only oneself, and carries no descriptors; there are no pidfds. Every call
/// takes a microsecond, the time costs a tenth of one. Descriptors are numbers that the kernel would not give
/// out, so that a call around the seam fails. Tasks only; the test itself may read.
class VirtualSystem final : public System {
 public:
  VirtualSystem(World& world, std::vector<VirtualSystem*>& network);
  ~VirtualSystem() override = default;

  /// A task of this host.
  std::shared_ptr<World::Task> spawn(const std::string& name, std::function<void()> body);
  /// Descriptors that are open.
  size_t open() const { return table_.size(); }
  sockaddr_in address(uint16_t port) const;

  TimePoint now() override;
  void random(void* to, size_t count) override;
  ProcessIdentity identity() override;
  Result<std::vector<InterfaceAddress>> interfaces() override;
  Result<Thread> start(const char* name, std::function<void()> body) override;
  void yield() override { world_.yield(); }
  Parking* parking() override { return &world_; }
  int socket(int family) override;
  int datagramSocket(int family) override;
  int bind(int fd, const sockaddr* address, socklen_t size) override;
  int listen(int fd, int backlog) override;
  int accept(int fd, sockaddr* from, socklen_t* size) override;
  int connect(int fd, const sockaddr* address, socklen_t size) override;
  int getsockname(int fd, sockaddr* address, socklen_t* size) override;
  int getpeername(int fd, sockaddr* address, socklen_t* size) override;
  int getsockopt(int fd, int level, int name, void* value, socklen_t* size) override;
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override;
  int shutdown(int fd, int how) override;
  ssize_t sendmsg(int fd, const msghdr* message) override;
  ssize_t recvmsg(int fd, msghdr* message, int flags) override;
  int poll(int fd, short events, Duration limit) override;
  int epollCreate() override;
  int epollControl(int set, int operation, int fd, epoll_event* event) override;
  int epollWait(int set, epoll_event* events, int most, Duration limit) override;
  int eventFd() override;
  void ringEvent(int fd) override;
  void clearEvent(int fd) override;
  int processFd(int socket, pid_t* pid) override;
  void close(int fd) override;

 private:
  bool enter(const char* call);
  template <class Answer>
  Answer leave(const char* call, int fd, Answer answer);
  int add(std::shared_ptr<Object> object);
  template <class Kind>
  std::shared_ptr<Kind> find(int fd);
  std::shared_ptr<Listener> listenerAt(const std::string& address);
  int collect(EpollSet& set, epoll_event* events, int most);

  World& world_;
  std::vector<VirtualSystem*>& network_;
  const int index_;
  std::map<int, std::shared_ptr<Object>> table_;
  std::map<std::string, std::weak_ptr<Listener>> listeners_;  // by the key of their address
  uint16_t nextPort_ = 40'000;
};

}  // namespace eccl::test
