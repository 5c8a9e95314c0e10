// Loaded into a rank (LD_PRELOAD), brings its queue pairs to the error state as soon as there is a file of the
// name that BREAK_QUEUE_PAIRS has: what a device does that has found an error of its own.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace {

std::mutex mutex;
std::set<ibv_qp*> pairs;

void breakThem(const char* when) {
  while (access(when, F_OK) != 0) usleep(10'000);
  const std::lock_guard lock(mutex);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  for (ibv_qp* const each : pairs) ibv_modify_qp(each, &attributes, IBV_QP_STATE);
  std::fprintf(stderr, "%zu queue pairs are broken\n", pairs.size());
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  static auto* const create = next<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)>("ibv_create_qp");
  ibv_qp* const pair = create(domain, attributes);
  const std::lock_guard lock(mutex);
  if (pair != nullptr && pairs.insert(pair).second && pairs.size() == 1) {
    if (const char* const when = std::getenv("BREAK_QUEUE_PAIRS"); when != nullptr)
      std::thread(breakThem, when).detach();
  }
  return pair;
}

VISIBLE int ibv_destroy_qp(ibv_qp* pair) {
  static auto* const destroy = next<int(ibv_qp*)>("ibv_destroy_qp");
  const std::lock_guard lock(mutex);
  pairs.erase(pair);
  return destroy(pair);
}
