// What sanitizers find in UCX, which is built without them. In programs of tests that load it.
#include "support/sanitizers.h"

#include <fstream>
#include <iterator>
#include <string>

#if ECCL_ADDRESS_SANITIZER
// The worker of a communicator that has failed stays behind (src/transport/ucx/ucx_worker.h), and UCX finds
// what it has allocated by words that the sanitizer does not take for pointers.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libucs.so\nleak:libucp.so\nleak:libuct.so\n";
}
// Clang 14's search for leaks crashes in processes that have used UCX ("Tracer caught signal 11"): in those
// tests, which their names tell, only leaks are not looked for.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  std::ifstream file("/proc/self/cmdline");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return line.find("--gtest_filter") == line.npos || line.find("Ucx") != line.npos ||
         line.find("ucx_tests") != line.npos;
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
