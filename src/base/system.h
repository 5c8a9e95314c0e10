// The operating system, as far as communicators use it: the host seam.
//
// A communicator and everything it owns gets its System by construction and asks nobody else for the time,
// randomness, threads, sockets or sleep. A descriptor keeps the System it came from (transport/net/fd.h).
// System::real() is the machine. Tests put another one in its place (tests/virtual): several hosts in one
// thread, on virtual time.
//
// Not behind the seam, because they concern the process or its memory and not a communicator's work: files and
// settings, logging, limits (getrlimit), shared memory, the probing of this machine's topology, and mutexes.
// Mutexes stay std::mutex, for one rule: no thread sleeps, yields, joins or waits by its System while it holds
// one, except that a Condition gives its mutex up. So threads that take turns never meet a locked one.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"

namespace eccl {

/// Who this process is, for messages and as a hint of what is near.
struct ProcessIdentity {
  std::string host;                  ///< its name; may be empty
  int32_t pid = 0;                   ///< in its own pid namespace
  std::array<char, 36> bootId = {};  ///< of the kernel, as text; zeros when unreadable
};

/// An address of a network interface that is up and has a carrier.
struct InterfaceAddress {
  std::string name;
  sockaddr_storage address{};
};

/// Where threads sleep on a System that is not the machine; see Condition. Owner: the System. Threads: any.
class Parking {
 public:
  virtual ~Parking() = default;
  /// Sleeps until unpark() of the same key, at most for `limit`. May wake without a reason.
  virtual void park(const void* key, Duration limit) = 0;
  /// Wakes all who sleep at the key.
  virtual void unpark(const void* key) = 0;
};

/// Descriptor calls are the system calls of the same name: -1 and errno when they fail. Descriptors are
/// non-blocking and close-on-exec from the start. Owner: whoever makes it; it outlives all that was made with
/// it. Threads: any.
class System {
 public:
  /// Sleeps without limit.
  static constexpr Duration kForever = Duration::max();

  virtual ~System() = default;
  /// This machine. Never destroyed.
  static System& real();

  /// Of the monotonic clock: never goes back.
  virtual TimePoint now() = 0;
  /// Unpredictable bytes. Ends the process if there are none to be had: a guessable secret would be worse.
  virtual void random(void* to, size_t count) = 0;
  /// Never fails: what cannot be found out stays empty.
  virtual ProcessIdentity identity() = 0;
  /// The IPv4 and IPv6 addresses of all interfaces that are up and have a carrier. Error (system): they cannot
  /// be listed. Not logged.
  virtual Result<std::vector<InterfaceAddress>> interfaces() = 0;

  /// See startThread() (base/thread.h).
  virtual Result<Thread> start(const char* name, std::function<void()> body) = 0;
  /// Lets other threads run.
  virtual void yield() = 0;
  /// nullptr: threads are the kernel's and sleep there.
  virtual Parking* parking() { return nullptr; }

  /// A stream socket.
  virtual int socket(int family) = 0;
  /// A UDP socket.
  virtual int datagramSocket(int family) = 0;
  virtual int bind(int fd, const sockaddr* address, socklen_t size) = 0;
  virtual int listen(int fd, int backlog) = 0;
  virtual int accept(int fd, sockaddr* from, socklen_t* size) = 0;
  virtual int connect(int fd, const sockaddr* address, socklen_t size) = 0;
  virtual int getsockname(int fd, sockaddr* address, socklen_t* size) = 0;
  virtual int getpeername(int fd, sockaddr* address, socklen_t* size) = 0;
  virtual int getsockopt(int fd, int level, int name, void* value, socklen_t* size) = 0;
  virtual int setsockopt(int fd, int level, int name, const void* value, socklen_t size) = 0;
  virtual int shutdown(int fd, int how) = 0;
  /// Never sleep, raise no signal. Received descriptors are close-on-exec.
  virtual ssize_t sendmsg(int fd, const msghdr* message) = 0;
  virtual ssize_t recvmsg(int fd, msghdr* message, int flags) = 0;
  /// The same for bytes alone.
  ssize_t send(int fd, const void* from, size_t count);
  ssize_t recv(int fd, void* to, size_t count, int flags = 0);

  /// Sleeps until one of `events` (POLLIN, ...) is there, and returns 1; or until `limit` has passed, and
  /// returns 0, which may come earlier where the limit is hours. -1: it failed, or a signal came. fd -1: only
  /// sleeps.
  virtual int poll(int fd, short events, Duration limit) = 0;
  virtual int epollCreate() = 0;
  virtual int epollControl(int set, int operation, int fd, epoll_event* event) = 0;
  /// The number of events, at most `most`; sleeps for them until `limit` has passed. -1: it failed, or a
  /// signal came.
  virtual int epollWait(int set, epoll_event* events, int most, Duration limit) = 0;

  /// A doorbell: readable from ringEvent() until clearEvent(). Rings in between count as one. The caller
  /// closes it.
  virtual int eventFd() = 0;
  virtual void ringEvent(int fd) = 0;
  virtual void clearEvent(int fd) = 0;
  /// A descriptor that is readable once the process at the other end of an AF_UNIX socket has ended; the
  /// caller closes it. -1: the kernel has none. `*pid`: what the kernel noted of the process at connect, 0 if
  /// this pid namespace does not show it.
  virtual int processFd(int socket, pid_t* pid) = 0;
  virtual void close(int fd) = 0;
};

}  // namespace eccl
