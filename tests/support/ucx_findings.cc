// What sanitizers find in UCX, which is built without them. In programs of tests that load it.
#include "support/sanitizers.h"

#if ECCL_ADDRESS_SANITIZER
// The worker of a communicator that has failed stays behind (src/transport/ucx/ucx_worker.h), and UCX finds
// what it has allocated by words that the sanitizer does not take for pointers.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libucs.so\nleak:libucp.so\nleak:libuct.so\n";
}
#endif
#if ECCL_THREAD_SANITIZER
// For ECCL_UCX=ON; see src/transport/ucx/CMakeLists.txt. Its locks are not seen, and neither is that UCX brings
// what one rank has written to another in the same process.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:libucs.so\ncalled_from_lib:libucp.so\ncalled_from_lib:libuct.so\nrace:libucs."
         "so\nrace:libucp.so\n"
         "race:libuct.so\nmutex:libucs.so\nmutex:libucp.so\nmutex:libuct.so\nmutex:_dl_call_fini\n";
}
#endif
