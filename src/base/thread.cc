#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <new>
#include <string>
#include <system_error>

#include "base/log.h"

namespace eccl {

Result<std::thread> startThread(const char* name, std::function<void()> body) {
  constexpr size_t kMaxName = 15;  // the kernel's
  std::string shown(name, strnlen(name, kMaxName));
  // Blocked here already, because a thread inherits the mask: in its body a signal could come first.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = Status();
  try {
    started = std::thread([shown, body = std::move(body)] {
      pthread_setname_np(pthread_self(), shown.c_str());
      const Status status = guarded(shown.c_str(), [&] { return body(), Status(); });
      if (!status.ok()) ECCL_WARN("the thread %s has ended: %s", shown.c_str(), status.message().c_str());
    });
  } catch (const std::system_error& error) {
    started =
        Status::fromErrno(error.code().value(),
                          "cannot start the thread %s (too many threads: raise 'ulimit -u' or the "
                          "control group's pids.max; or no address space for its stack: raise 'ulimit -v')",
                          name);
  } catch (const std::bad_alloc&) {
    started = Status::error(Code::system, "cannot start the thread %s: out of memory", name);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace eccl
