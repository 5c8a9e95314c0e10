// The machine.
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "base/system.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace eccl {
namespace {

class KernelThread final : public Thread::Handle {
 public:
  void join() override { thread.join(); }
  void detach() override { thread.detach(); }
  bool isCurrent() const override { return std::this_thread::get_id() == thread.get_id(); }
  std::thread thread;
};

/// Rounded up: a sleep of 0.4 ms must not become a busy loop.
int milliseconds(Duration limit) {
  constexpr int64_t kMax = 3'600'000;  // then the caller looks again
  if (limit == System::kForever) return -1;
  return static_cast<int>(std::min(kMax, (std::max<int64_t>(0, limit.count()) + 999'999) / 1'000'000));
}

class RealSystem final : public System {
 public:
  TimePoint now() override { return std::chrono::steady_clock::now(); }
  void random(void* to, size_t count) override;
  ProcessIdentity identity() override;
  Result<std::vector<InterfaceAddress>> interfaces() override;

  Result<Thread> start(const char* name, std::function<void()> body) override {
    auto handle = std::make_unique<KernelThread>();
    ECCL_ASSIGN(handle->thread, startThread(name, std::move(body)));
    return Thread(std::move(handle));
  }
  void yield() override { sched_yield(); }

  int socket(int family) override { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
  int datagramSocket(int family) override {
    return ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  }
  int bind(int fd, const sockaddr* address, socklen_t size) override { return ::bind(fd, address, size); }
  int listen(int fd, int backlog) override { return ::listen(fd, backlog); }
  int accept(int fd, sockaddr* from, socklen_t* size) override {
    return accept4(fd, from, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }
  int connect(int fd, const sockaddr* address, socklen_t size) override { return ::connect(fd, address, size); }
  int getsockname(int fd, sockaddr* address, socklen_t* size) override {
    return ::getsockname(fd, address, size);
  }
  int getpeername(int fd, sockaddr* address, socklen_t* size) override {
    return ::getpeername(fd, address, size);
  }
  int getsockopt(int fd, int level, int name, void* value, socklen_t* size) override {
    return ::getsockopt(fd, level, name, value, size);
  }
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override {
    return ::setsockopt(fd, level, name, value, size);
  }
  int shutdown(int fd, int how) override { return ::shutdown(fd, how); }
  ssize_t sendmsg(int fd, const msghdr* message) override {
    return ::sendmsg(fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ssize_t recvmsg(int fd, msghdr* message, int flags) override {
    return ::recvmsg(fd, message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }

  int poll(int fd, short events, Duration limit) override {
    pollfd entry{fd, events, 0};
    return ::poll(&entry, 1, milliseconds(limit));
  }
  int epollCreate() override { return epoll_create1(EPOLL_CLOEXEC); }
  int epollControl(int set, int operation, int fd, epoll_event* event) override {
    return epoll_ctl(set, operation, fd, event);
  }
  int epollWait(int set, epoll_event* events, int most, Duration limit) override;

  int eventFd() override { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
  void ringEvent(int fd) override { eventfd_write(fd, 1); }  // full: it rings already
  void clearEvent(int fd) override {
    eventfd_t count;
    eventfd_read(fd, &count);  // how often is of no interest
  }
  int processFd(int socket, pid_t* pid) override;
  void close(int fd) override { ::close(fd); }
};

void RealSystem::random(void* to, size_t count) {
  char* cursor = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = getrandom(cursor, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {  // never on Linux 3.17 and later, unless it is forbidden
      ECCL_WARN("getrandom: %s: no secret can be made; allow the getrandom system call", std::strerror(errno));
      std::abort();
    }
    cursor += got;
    count -= static_cast<size_t>(got);
  }
}

ProcessIdentity RealSystem::identity() {
  ProcessIdentity result;
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0) result.host = host;
  result.pid = getpid();
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return result;
  if (read(file, result.bootId.data(), result.bootId.size()) != static_cast<ssize_t>(result.bootId.size()))
    result.bootId = {};
  ::close(file);
  return result;
}

Result<std::vector<InterfaceAddress>> RealSystem::interfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0)
    return Status::fromErrno(errno, "the network interfaces cannot be listed (getifaddrs)");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(all, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* item = all; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0 || (item->ifa_flags & IFF_RUNNING) == 0)
      continue;
    const int family = item->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    InterfaceAddress& one = found.emplace_back();
    one.name = item->ifa_name;
    std::memcpy(&one.address, item->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  return found;
}

// Whole milliseconds by the older call. What is finer needs Linux 5.11, and a container that does not forbid
// the call (EPERM of old seccomp profiles); else it is rounded up.
int RealSystem::epollWait(int set, epoll_event* events, int most, Duration limit) {
  if (limit != kForever && limit.count() % 1'000'000 != 0 && limit.count() > 0) {
    const timespec left{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
    const int count = epoll_pwait2(set, events, most, &left, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
  }
  return epoll_wait(set, events, most, milliseconds(limit));
}

// By the socket where the kernel can (6.5: the process it names is the one that connected, whatever became of
// its id), else by the id that the kernel noted at connect (5.3).
int RealSystem::processFd(int socket, pid_t* pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.pid = 0;
  *pid = peer.pid;
  int fd = -1;
  size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return fd;
  return peer.pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)) : -1;
}

}  // namespace

System& System::real() {
  static RealSystem* const system = new RealSystem;  // threads may outlive static destructors
  return *system;
}

ssize_t System::send(int fd, const void* from, size_t count) {
  iovec part{const_cast<void*>(from), count};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return sendmsg(fd, &message);
}

ssize_t System::recv(int fd, void* to, size_t count, int flags) {
  iovec part{to, count};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return recvmsg(fd, &message, flags);
}

}  // namespace eccl
