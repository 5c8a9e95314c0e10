// The emulated CUDA runtime over the emulated driver: libcudart.so.13 for programs as they come, such as
// PyTorch.
//
// A thread has a device, as with the runtime, whose primary context is current from its first call on. Kernels
// of the program are not run: a program that launches one fails, by its name, unless EMULATED_CUDA_KERNELS=skip
// is in the environment. A function that is not written fails, by its name.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda_emulation/control.h"

#define CUDART extern "C" __attribute__((visibility("default")))

namespace eccl::cuda_emulation {

using namespace runtime::cuda;

/// The driver's functions, under their own names.
struct DriverTable {
#define MEMBER(name, parameters) DriverCode(*name) parameters = nullptr;
  ECCL_CUDA_FUNCTIONS(MEMBER)
  ECCL_CUDA_TEST_FUNCTIONS(MEMBER)
#undef MEMBER
};
const DriverTable& driverTable();
/// The same, with the thread's device current.
const DriverTable& entered();
/// The thread's.
int currentDevice();
cudaError_t setDevice(int device);

/// What a function returns: the driver's codes are the runtime's. Kept for cudaGetLastError().
cudaError_t result(DriverCode code);
cudaError_t& lastError();
/// Says so.
extern "C" int cudartUnimplemented(const char* name);

inline NativeStream native(cudaStream_t stream) {
  return reinterpret_cast<NativeStream>(stream);
}
inline Event native(cudaEvent_t event) {
  return reinterpret_cast<Event>(event);
}
inline Address address(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

}  // namespace eccl::cuda_emulation
