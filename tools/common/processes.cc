#include "tools/common/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace eccl::tools {
namespace {

bool writeAll(int fd, const void* data, size_t bytes) {
  return write(fd, data, bytes) == static_cast<ssize_t>(bytes);
}

// An id is far below PIPE_BUF, so it arrives in one piece or, when the writer died, not at all.
bool readAll(int fd, void* data, size_t bytes) {
  ssize_t got;
  do got = read(fd, data, bytes);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes);
}

// A child's part: child 0 makes the id and sends it up, the parent sends it down to the others. An end of the
// pipe that closes early means that its process has ended.
class PipeRendezvous final : public Rendezvous {
 public:
  PipeRendezvous(int proc, int fromParent, int toParent)
      : proc_(proc), fromParent_(fromParent), toParent_(toParent) {}
  ~PipeRendezvous() override { closeBoth(); }
  Outcome id(ecclUniqueId* id) override {
    if (proc_ == 0) TOOLS_TRY(Outcome::library(ecclGetUniqueId(id), nullptr, "ecclGetUniqueId"));
    const bool passed = proc_ == 0 ? writeAll(toParent_, id, sizeof *id) : readAll(fromParent_, id, sizeof *id);
    closeBoth();
    if (passed) return {};
    return Outcome::error(Exit::system,
                          "process %d got no id: process 0 or the process that started both has ended", proc_);
  }

 private:
  void closeBoth() {
    if (fromParent_ >= 0) close(fromParent_);
    if (toParent_ >= 0) close(toParent_);
    fromParent_ = toParent_ = -1;
  }
  const int proc_;
  int fromParent_, toParent_;
};

struct Child {
  pid_t pid = -1;
  int toChild = -1;
  bool running = true;
};

// The parent's part: owns the pipes and the children. One thread; SIGCHLD is blocked, so that waiting for it
// with a time limit needs no polling.
class Parent {
 public:
  Parent(std::vector<Child> children, int fromFirst, int ranksPerProcess)
      : children_(std::move(children)), fromFirst_(fromFirst), ranksPerProcess_(ranksPerProcess) {}

  // Waits without limit while all is well. After the first bad end the others get time to notice by themselves,
  // because their own errors say more than a signal does.
  int run() {
    passId();
    while (alive() > 0) {
      if (exitCode_ == 0) {
        waitForChild(-1);
      } else if (!waitForChild(told_ ? 2 : kGraceSeconds)) {
        signalAll(told_ ? SIGKILL : SIGTERM);
        told_ = true;
      }
      reap();
    }
    return exitCode_;
  }

 private:
  void passId() {
    ecclUniqueId id;
    const bool got = readAll(fromFirst_, &id, sizeof id);
    close(fromFirst_);
    for (Child& child : children_) {
      // A child that is gone is reported when it is reaped; the others learn of it from the library.
      if (got && &child != &children_.front() && !writeAll(child.toChild, &id, sizeof id)) errno = 0;
      close(child.toChild);
    }
  }

  int alive() const {
    return static_cast<int>(
        std::count_if(children_.begin(), children_.end(), [](const Child& c) { return c.running; }));
  }

  // False when `seconds` passed without a child ending; -1 waits for ever.
  static bool waitForChild(int seconds) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec limit{seconds, 0};
    return (seconds < 0 ? sigwaitinfo(&set, nullptr) : sigtimedwait(&set, nullptr, &limit)) == SIGCHLD ||
           errno == EINTR;
  }

  // One SIGCHLD may stand for several children: take all that have ended.
  void reap() {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto child =
          std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.pid == pid; });
      if (child == children_.end() || WIFSTOPPED(status)) continue;
      child->running = false;
      describe(static_cast<int>(child - children_.begin()), *child, status);
    }
  }

  void describe(int proc, const Child& child, int status) {
    const int first = proc * ranksPerProcess_;
    const std::string who =
        formatted("process %d (pid %d, rank%s %s)", proc, child.pid, ranksPerProcess_ > 1 ? "s" : "",
                  ranksPerProcess_ > 1 ? formatted("%d-%d", first, first + ranksPerProcess_ - 1).c_str()
                                       : formatted("%d", first).c_str());
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "%s died by signal %d (%s)\n", who.c_str(), WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
      // The others end because of it, and may be seen to end before it.
      if (exitCode_ == 0 || (exitCode_ < 128 && !told_)) exitCode_ = 128 + WTERMSIG(status);
    } else if (WEXITSTATUS(status) != 0) {
      std::fprintf(stderr, "%s ended with exit code %d\n", who.c_str(), WEXITSTATUS(status));
      // So does a call of the library, when another process aborted the communicator for reasons of its own.
      if (exitCode_ == 0 || exitCode_ == static_cast<int>(Exit::library)) exitCode_ = WEXITSTATUS(status);
    }
  }

  void signalAll(int signal) {
    for (const Child& child : children_)
      if (child.running) kill(child.pid, signal);
  }

  std::vector<Child> children_;
  const int fromFirst_;
  const int ranksPerProcess_;
  int exitCode_ = 0;
  bool told_ = false;  // to end, by this process
};

}  // namespace

Outcome forkProcesses(int procs, int ranksPerProcess, Fork* result) {
  // A child that is gone is seen by waitpid, not by writing to it.
  const auto pipeHandler = signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // an inherited "ignore" would take the exit codes away
  sigset_t childSignal, before;
  sigemptyset(&childSignal);
  sigaddset(&childSignal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &childSignal, &before);
  int up[2];
  if (pipe2(up, O_CLOEXEC) != 0) return Outcome::fromErrno(errno, "making a pipe for process 0");
  std::vector<Child> children(procs);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  for (int proc = 0; proc < procs; ++proc) {
    int down[2];
    if (pipe2(down, O_CLOEXEC) != 0)
      return Outcome::fromErrno(errno, formatted("making a pipe for process %d", proc));
    const pid_t pid = fork();
    if (pid < 0) return Outcome::fromErrno(errno, formatted("starting process %d of %d", proc, procs));
    if (pid > 0) {
      close(down[0]);
      children[proc].pid = pid;
      children[proc].toChild = down[1];
      continue;
    }
    // The parent's end, however it comes, ends the children.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(static_cast<int>(Exit::system));
    sigprocmask(SIG_SETMASK, &before, nullptr);
    signal(SIGPIPE, pipeHandler);
    close(up[0]);
    close(down[1]);
    for (int earlier = 0; earlier < proc; ++earlier) close(children[earlier].toChild);
    result->proc = proc;
    if (proc != 0) close(up[1]);
    result->rendezvous = std::make_unique<PipeRendezvous>(proc, down[0], proc == 0 ? up[1] : -1);
    return {};
  }
  close(up[1]);
  result->exitCode = Parent(std::move(children), up[0], ranksPerProcess).run();
  return {};
}

}  // namespace eccl::tools
