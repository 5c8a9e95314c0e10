// Streams, copies, events, captures and graphs.
#include "cuda_emulation/runtime.h"

namespace eccl::cuda_emulation {
namespace {

bool isKnown(const void* pointer) {
  cudaPointerAttributes its;
  cudaPointerGetAttributes(&its, pointer);
  return its.type != cudaMemoryTypeUnregistered;
}

}  // namespace

CUDART cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return result(entered().cuStreamCreate(reinterpret_cast<NativeStream*>(stream), flags));
}
CUDART cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
CUDART cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
CUDART cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return result(entered().cuStreamDestroy(native(stream)));
}
CUDART cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  return *priority = 0, cudaSuccess;
}
CUDART cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return result(entered().cuStreamGetFlags(native(stream), flags));
}
CUDART cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return result(entered().cuStreamSynchronize(native(stream)));
}
CUDART cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return result(entered().cuStreamQuery(native(stream)));
}
CUDART cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return result(entered().cuStreamWaitEvent(native(stream), native(event), flags));
}
CUDART cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return result(entered().cuLaunchHostFunc(native(stream), function, argument));
}

/// From or to memory that CUDA does not know it is made before the call returns.
CUDART cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  const DriverTable& driver = entered();
  if (bytes == 0) return cudaSuccess;
  if (isKnown(to) && isKnown(from))
    return result(driver.cuMemcpyAsync(address(to), address(from), bytes, native(stream)));
  const DriverCode code = driver.cuStreamSynchronize(native(stream));
  return result(code != kSuccess ? code : driver.cuMemcpy(address(to), address(from), bytes));
}
CUDART cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t begun = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return begun != cudaSuccess ? begun : cudaStreamSynchronize(nullptr);
}
CUDART cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                       cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
CUDART cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return result(
      entered().cuMemsetD8Async(address(at), static_cast<unsigned char>(value), bytes, native(stream)));
}
CUDART cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  const cudaError_t begun = cudaMemsetAsync(at, value, bytes, nullptr);
  return begun != cudaSuccess ? begun : cudaStreamSynchronize(nullptr);
}

CUDART cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return result(entered().cuEventCreate(reinterpret_cast<Event*>(event), flags));
}
CUDART cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
CUDART cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return result(entered().cuEventDestroy(native(event)));
}
CUDART cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return result(entered().cuEventRecordWithFlags(native(event), native(stream), flags));
}
CUDART cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
CUDART cudaError_t cudaEventQuery(cudaEvent_t event) {
  return result(entered().cuEventQuery(native(event)));
}
CUDART cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return result(entered().cuEventSynchronize(native(event)));
}
CUDART cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return result(entered().cuEventElapsedTime(milliseconds, native(begin), native(end)));
}

CUDART cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return result(entered().cuThreadExchangeStreamCaptureMode(reinterpret_cast<int*>(mode)));
}
CUDART cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return result(entered().cuStreamBeginCapture(native(stream), mode));
}
CUDART cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return result(entered().cuStreamEndCapture(native(stream), reinterpret_cast<Graph*>(graph)));
}
CUDART cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return result(entered().cuStreamIsCapturing(native(stream), reinterpret_cast<int*>(status)));
}
CUDART cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** after, const cudaGraphEdgeData**,
                                            size_t* afterCount) {
  if (after != nullptr || afterCount != nullptr) return result(kNotSupported);
  uint64_t its = 0;
  Graph into = nullptr;
  const DriverCode code = entered().cuStreamGetCaptureInfo(native(stream), reinterpret_cast<int*>(status), &its,
                                                           &into, nullptr, nullptr);
  if (id != nullptr) *id = its;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(into);
  return result(code);
}
CUDART cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* its, cudaHostFn_t destroy,
                                        unsigned references, unsigned flags) {
  return result(
      entered().cuUserObjectCreate(reinterpret_cast<UserObject*>(object), its, destroy, references, flags));
}
CUDART cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned references) {
  return result(entered().cuUserObjectRelease(reinterpret_cast<UserObject>(object), references));
}
CUDART cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned references,
                                             unsigned flags) {
  return result(entered().cuGraphRetainUserObject(reinterpret_cast<Graph>(graph),
                                                  reinterpret_cast<UserObject>(object), references, flags));
}
CUDART cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return result(
      entered().cuGraphGetNodes(reinterpret_cast<Graph>(graph), reinterpret_cast<GraphNode*>(nodes), count));
}
CUDART cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  return result(entered().cuGraphInstantiateWithFlags(reinterpret_cast<GraphExec*>(made),
                                                      reinterpret_cast<Graph>(graph), flags));
}
CUDART cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}
CUDART cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return result(entered().cuGraphLaunch(reinterpret_cast<GraphExec>(graph), native(stream)));
}
CUDART cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return result(entered().cuGraphExecDestroy(reinterpret_cast<GraphExec>(graph)));
}
CUDART cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return result(entered().cuGraphDestroy(reinterpret_cast<Graph>(graph)));
}

}  // namespace eccl::cuda_emulation
