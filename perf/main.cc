// One binary per collective: CMake defines ECCL_PERF_COLLECTIVE as the function that gives it.
#include "common/runner.h"

int main(int argc, char** argv) {
  return eccl::perf::runTool(argc, argv, eccl::perf::ECCL_PERF_COLLECTIVE());
}
