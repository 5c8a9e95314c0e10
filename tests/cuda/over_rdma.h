// Tests of ranks whose messages go by the emulated RDMA devices (verbs_emulation/).
#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "cuda/ranks.h"

#ifdef ECCL_VERBS_EMULATION
#include "verbs_emulation/verbs_emulation.h"

namespace eccl::test {

/// A function of the emulation, in an OverRdma: ECCL_EMULATED(verbsEmulationHold)(1).
#define ECCL_EMULATED(name) emulated<decltype(::name)>(#name)

/// The emulated libibverbs, in place of the real one from now on, and settings that lead to it.
class OverRdma : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(ECCL_VERBS_EMULATION, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    setenv("ECCL_TRANSPORT", "verbs", 1);
    setenv("ECCL_TRANSPORT_MODULES", ECCL_VERBS_MODULE, 1);
  }
  void TearDown() override {
    for (const char* name : {"ECCL_TRANSPORT", "ECCL_TRANSPORT_MODULES", "ECCL_IB_CACHE_BYTES"}) unsetenv(name);
  }
  VerbsEmulationCounters counters() const {
    VerbsEmulationCounters now;
    ECCL_EMULATED(verbsEmulationCounters)(&now);
    return now;
  }
  template <class Function>
  Function* emulated(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;
};

}  // namespace eccl::test
#endif
