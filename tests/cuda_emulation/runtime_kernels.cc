// The kernels that programs bring: what a compiler generates to register and launch them. They are not run.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_emulation/runtime.h"

namespace eccl::cuda_emulation {
namespace {

struct Launch {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
std::vector<Launch>& launches() {
  static thread_local std::vector<Launch> made;
  return made;
}

struct Kernels {
  std::mutex mutex;
  std::map<const void*, std::string> names;
};
Kernels& kernels() {
  static auto* const made = new Kernels;
  return *made;
}

cudaError_t launch(const void* kernel) {
  const char* const what = std::getenv("EMULATED_CUDA_KERNELS");
  if (what != nullptr && std::strcmp(what, "skip") == 0) return cudaSuccess;
  std::lock_guard lock(kernels().mutex);
  const auto found = kernels().names.find(kernel);
  std::fprintf(stderr, "emulated CUDA: the program's kernel %s cannot be run\n",
               found == kernels().names.end() ? "?" : found->second.c_str());
  return result(kNotSupported);
}

}  // namespace

CUDART void** __cudaRegisterFatBinary(void*) {
  static void* handle[1];
  return handle;
}
CUDART void __cudaRegisterFatBinaryEnd(void**) {}
CUDART void __cudaUnregisterFatBinary(void**) {}
CUDART void __cudaRegisterFunction(void**, const char* kernel, char*, const char* name, int, uint3*, uint3*,
                                   dim3*, dim3*, int*) {
  std::lock_guard lock(kernels().mutex);
  kernels().names[kernel] = name;
}
CUDART void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
CUDART char __cudaInitModule(void**) {
  return 1;
}
CUDART unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  launches().push_back({grid, block, shared, stream});
  return 0;
}
CUDART cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Launch its = launches().back();
  launches().pop_back();
  *grid = its.grid;
  *block = its.block;
  *shared = its.shared;
  *static_cast<void**>(stream) = its.stream;
  return cudaSuccess;
}
CUDART cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
CUDART cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  return launch(function);
}
CUDART cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  return launch(kernel);
}
CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* its, const void*) {
  *its = {};
  its->maxThreadsPerBlock = 1024;
  its->binaryVersion = its->ptxVersion = 90;
  return cudaSuccess;
}
CUDART cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  return *blocks = 1, cudaSuccess;
}

}  // namespace eccl::cuda_emulation
