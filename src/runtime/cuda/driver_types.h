// The types and constants of CUDA's driver API that the module uses, so that it builds without NVIDIA's
// headers. Names and values are those of cuda.h of CUDA 12.0 and later; tests/cuda/driver_types_test.cc
// compares them with it where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eccl::runtime::cuda {

using Device = int;                     // CUdevice
using Context = struct ContextOf*;      // CUcontext
using NativeStream = struct StreamOf*;  // CUstream
using Address = unsigned long long;     // CUdeviceptr
using HostFunction = void (*)(void*);   // CUhostFn
using Module = struct ModuleOf*;        // CUmodule
using Function = struct FunctionOf*;    // CUfunction
using Event = struct EventOf*;          // CUevent
using Graph = struct GraphOf*;          // CUgraph
using GraphNode = struct GraphNodeOf*;  // CUgraphNode
using UserObject = struct ObjectOf*;    // CUuserObject
struct Uuid {                           // CUuuid
  char bytes[16];
};
struct IpcHandle {  // CUipcMemHandle
  char reserved[64];
  auto operator<=>(const IpcHandle&) const = default;
};
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle
struct MemoryLocation {                   // CUmemLocation
  int type = 0, id = 0;
};
struct MemoryProperties {  // CUmemAllocationProp
  int type = 0, handleTypes = 0;
  MemoryLocation location;
  void* windows = nullptr;
  unsigned char compression = 0, rdma = 0;  // allocFlags
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct MemoryAccess {  // CUmemAccessDesc
  MemoryLocation location;
  int flags = 0;
};

/// CUresult. Others exist.
enum DriverCode : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kAlreadyMapped = 208,
  kNoPeerAccess = 217,
  kNotFound = 500,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kIllegalAddress = 700,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCaptureWrongThread = 908,
  kUnknown = 999,
};

/// CUdevice_attribute
enum DeviceAttribute : int {
  kMultiprocessors = 16,  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kUsesHostPageTables = 100,              // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
  kCanMapMemory = 102,                    // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
  kCanExportDescriptors = 103,            // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
  kCanMapForRdma = 110,                   // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
  kRdmaWritesOrdering = 118,              // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
  kCanUseStreamMemoryOperations64 = 122,  // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
  kCanExportDmabufs = 124,                // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
};
/// CUpointer_attribute
enum PointerAttribute : int {
  kMemoryType = 2,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
};
/// CUmemorytype. 0: none that CUDA knows.
enum MemoryType : unsigned { kHostMemory = 1, kDeviceMemory = 2 };

inline constexpr int kPinnedMemory = 1;             // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kOnDevice = 1;                 // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kByDescriptor = 1;             // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kAsDmabuf = 1;                 // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
inline constexpr int kOrderedForOwner = 100;        // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
inline constexpr int kReadAndWrite = 3;             // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kLeastGranularity = 0;         // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr uintptr_t kLegacyHandle = 1;       // CU_STREAM_LEGACY; NULL is that stream, too
inline constexpr uintptr_t kPerThreadHandle = 2;    // CU_STREAM_PER_THREAD
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kWaitAtLeast = 0;         // CU_STREAM_WAIT_VALUE_GEQ
inline constexpr unsigned kHostPortable = 1;        // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostMapped = 2;          // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kLazyPeerAccess = 1;      // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kCaptureNone = 0;              // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureActive = 1;            // CU_STREAM_CAPTURE_STATUS_ACTIVE
inline constexpr int kCaptureRelaxed = 2;           // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr unsigned kRecordExternal = 1;      // CU_EVENT_RECORD_EXTERNAL
inline constexpr unsigned kWaitExternal = 1;        // CU_EVENT_WAIT_EXTERNAL
inline constexpr unsigned kWithoutSync = 1;         // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
inline constexpr unsigned kMoveReference = 1;       // CU_GRAPH_USER_OBJECT_MOVE
inline constexpr int kOldestDriver = 12000;         // CUDA 12.0, as cuDriverGetVersion says it
inline constexpr uint64_t kLegacyStreams = 1;  // CU_GET_PROC_ADDRESS_LEGACY_STREAM: NULL is that of the device

/// Calls F(name, parameters) for each function that the module uses, by the name that cuGetProcAddress takes.
#define ECCL_CUDA_FUNCTIONS(F)                                                                                \
  F(cuInit, (unsigned flags))                                                                                 \
  F(cuDriverGetVersion, (int* version))                                                                       \
  F(cuGetErrorName, (DriverCode code, const char** name))                                                     \
  F(cuGetErrorString, (DriverCode code, const char** text))                                                   \
  F(cuDeviceGetCount, (int* count))                                                                           \
  F(cuDeviceGet, (Device * device, int ordinal))                                                              \
  F(cuDeviceGetName, (char* name, int length, Device device))                                                 \
  F(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, Device device))                             \
  F(cuDeviceGetUuid, (Uuid * uuid, Device device))                                                            \
  F(cuDeviceGetPCIBusId, (char* text, int length, Device device))                                             \
  F(cuDevicePrimaryCtxRetain, (Context * context, Device device))                                             \
  F(cuCtxGetCurrent, (Context * context))                                                                     \
  F(cuCtxGetDevice, (Device * device))                                                                        \
  F(cuCtxPushCurrent, (Context context))                                                                      \
  F(cuCtxPopCurrent, (Context * context))                                                                     \
  F(cuPointerGetAttributes, (unsigned number, PointerAttribute* attributes, void** values, Address pointer))  \
  F(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                            \
  F(cuMemHostGetDevicePointer, (Address * address, void* memory, unsigned flags))                             \
  F(cuMemAlloc, (Address * address, size_t bytes))                                                            \
  F(cuMemFree, (Address address))                                                                             \
  F(cuMemGetAddressRange, (Address * begin, size_t * bytes, Address address))                                 \
  F(cuIpcGetMemHandle, (IpcHandle * handle, Address address))                                                 \
  F(cuIpcOpenMemHandle, (Address * address, IpcHandle handle, unsigned flags))                                \
  F(cuMemGetAllocationGranularity, (size_t * bytes, const MemoryProperties* its, int which))                  \
  F(cuMemCreate, (MemoryHandle * handle, size_t bytes, const MemoryProperties* its, uint64_t flags))          \
  F(cuMemRelease, (MemoryHandle handle))                                                                      \
  F(cuMemExportToShareableHandle, (void* shared, MemoryHandle handle, int type, uint64_t flags))              \
  F(cuMemImportFromShareableHandle, (MemoryHandle * handle, void* shared, int type))                          \
  F(cuMemAddressReserve, (Address * address, size_t bytes, size_t alignment, Address wanted, uint64_t flags)) \
  F(cuMemAddressFree, (Address address, size_t bytes))                                                        \
  F(cuMemMap, (Address address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags))            \
  F(cuMemSetAccess, (Address address, size_t bytes, const MemoryAccess* access, size_t count))                \
  F(cuMemGetHandleForAddressRange, (void* handle, Address address, size_t bytes, int type, uint64_t flags))   \
  F(cuMemUnmap, (Address address, size_t bytes))                                                              \
  F(cuMemsetD8Async, (Address address, unsigned char value, size_t bytes, NativeStream stream))               \
  F(cuMemcpyAsync, (Address to, Address from, size_t bytes, NativeStream stream))                             \
  F(cuStreamCreate, (NativeStream * stream, unsigned flags))                                                  \
  F(cuStreamDestroy, (NativeStream stream))                                                                   \
  F(cuStreamSynchronize, (NativeStream stream))                                                               \
  F(cuStreamGetFlags, (NativeStream stream, unsigned* flags))                                                 \
  F(cuStreamGetCaptureInfo, (NativeStream stream, int* status, uint64_t* id, Graph* graph,                    \
                             const GraphNode** after, size_t* afterCount))                                    \
  F(cuThreadExchangeStreamCaptureMode, (int* mode))                                                           \
  F(cuUserObjectCreate,                                                                                       \
    (UserObject * object, void* its, HostFunction destroy, unsigned references, unsigned flags))              \
  F(cuUserObjectRelease, (UserObject object, unsigned references))                                            \
  F(cuGraphRetainUserObject, (Graph graph, UserObject object, unsigned references, unsigned flags))           \
  F(cuStreamWaitValue64, (NativeStream stream, Address word, uint64_t value, unsigned flags))                 \
  F(cuStreamWriteValue64, (NativeStream stream, Address word, uint64_t value, unsigned flags))                \
  F(cuLaunchHostFunc, (NativeStream stream, HostFunction function, void* argument))                           \
  F(cuEventCreate, (Event * event, unsigned flags))                                                           \
  F(cuEventDestroy, (Event event))                                                                            \
  F(cuEventQuery, (Event event))                                                                              \
  F(cuEventRecord, (Event event, NativeStream stream))                                                        \
  F(cuEventRecordWithFlags, (Event event, NativeStream stream, unsigned flags))                               \
  F(cuStreamWaitEvent, (NativeStream stream, Event event, unsigned flags))                                    \
  F(cuDeviceCanAccessPeer, (int* can, Device device, Device peer))                                            \
  F(cuCtxEnablePeerAccess, (Context peer, unsigned flags))                                                    \
  F(cuModuleLoadData, (Module * module, const void* image))                                                   \
  F(cuModuleGetFunction, (Function * function, Module module, const char* name))                              \
  F(cuLaunchKernel, (Function function, unsigned blocksX, unsigned blocksY, unsigned blocksZ,                 \
                     unsigned threadsX, unsigned threadsY, unsigned threadsZ, unsigned sharedBytes,           \
                     NativeStream stream, void** arguments, void** extra))

}  // namespace eccl::runtime::cuda
