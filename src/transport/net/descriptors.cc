// The limit is the process's. So is the state here: all communicators of the process share it.
#include "transport/net/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "transport/net/fd.h"
#include "transport/net/log_limiter.h"

namespace eccl::transport {
namespace {

std::atomic<bool> mayBeRaised{false};
std::atomic<size_t> turnsTaken{0};
std::atomic<int> turnsAwaited{0};

/// True if there are more now.
bool raise() {
  static std::mutex* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  rlimit limit{};
  if (!mayBeRaised || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  ECCL_INFO(
      "raised this process's limit on descriptors from %llu to %llu (ECCL_RAISE_LIMITS=0 leaves it alone)",
      static_cast<unsigned long long>(before), static_cast<unsigned long long>(limit.rlim_max));
  return true;
}

size_t inUse() {
  DIR* const listed = opendir("/proc/self/fd");
  if (listed == nullptr) return 0;
  size_t count = 0;
  while (readdir(listed) != nullptr) ++count;
  closedir(listed);
  return count;
}

}  // namespace

size_t descriptorShare(size_t most) {
  constexpr size_t kMin = 8;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMin;
  return std::clamp(static_cast<size_t>(limit.rlim_cur) / 16, kMin, most);
}

bool descriptorsLeft(size_t count) {
  do {
    std::vector<Fd> tried;
    while (tried.size() < count) {
      tried.emplace_back(open("/", O_PATH | O_CLOEXEC));
      if (!tried.back()) break;
    }
    if (tried.size() == count && tried.back()) return true;
  } while (raise());
  return false;
}

void expectDescriptors(int ranks, bool mayRaise) {
  mayBeRaised = mayRaise;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  // Its own, some connections to each other rank, and as many again for the application.
  constexpr size_t kOwn = 64, kPerRank = 4;
  if (2 * (kOwn + kPerRank * static_cast<size_t>(ranks)) + inUse() > limit.rlim_cur) raise();
}

void sayThatDescriptorsAreShort(const char* who, const char* why) {
  static std::mutex* mutex = new std::mutex;
  static LogLimiter* limiter = new LogLimiter;
  std::lock_guard lock(*mutex);
  int suppressed = 0;
  if (!limiter->allow(System::real().now(), &suppressed)) return;
  ECCL_WARN("%s waits: %s; connections are made one after the other (raise 'ulimit -n')", who, why);
}

bool SetupTurn::take() {
  if (held_) return true;
  const size_t most = descriptorShare();
  size_t taken = turnsTaken.load();
  while (taken < most) {
    if (!turnsTaken.compare_exchange_weak(taken, taken + 1)) continue;
    held_ = true;
    break;
  }
  if (waits_ != !held_) turnsAwaited += held_ ? -1 : 1;
  waits_ = !held_;
  return held_;
}

void SetupTurn::give() {
  if (held_) --turnsTaken;
  if (waits_) --turnsAwaited;
  held_ = waits_ = false;
}

int SetupTurn::waiting() {
  return turnsAwaited.load(std::memory_order_relaxed);
}

}  // namespace eccl::transport
