#include "transport/verbs/locked_memory.h"

#include <sys/resource.h>

#include <cerrno>

#include "base/status.h"

namespace eccl::transport::verbs {

std::string limitOnLockedMemory(int error) {
  rlimit limit{};
  if (error != ENOMEM && error != EPERM) return "";
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return format(
      "; this process may lock %llu bytes of memory: if that is too little, raise the limit "
      "(ulimit -l unlimited, LimitMEMLOCK=infinity for a service, --ulimit memlock=-1 for a container)",
      static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace eccl::transport::verbs
