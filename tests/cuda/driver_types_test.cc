// The module's own declarations of CUDA's driver against NVIDIA's, where its header is.
#include <gtest/gtest.h>

#include <type_traits>

#include "cuda_emulation/control.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace {

namespace own = eccl::runtime::cuda;

static_assert(std::is_same_v<own::Device, CUdevice> && std::is_same_v<own::Address, CUdeviceptr>);
static_assert(std::is_same_v<own::HostFunction, CUhostFn>);
static_assert(sizeof(own::NativeStream) == sizeof(CUstream) && sizeof(own::Context) == sizeof(CUcontext));
static_assert(sizeof(own::DriverCode) == sizeof(CUresult) &&
              sizeof(own::DeviceAttribute) == sizeof(CUdevice_attribute) &&
              sizeof(own::PointerAttribute) == sizeof(CUpointer_attribute));
static_assert(own::kSuccess == static_cast<int>(CUDA_SUCCESS));
static_assert(own::kInvalidValue == static_cast<int>(CUDA_ERROR_INVALID_VALUE));
static_assert(own::kOutOfMemory == static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(own::kNotInitialized == static_cast<int>(CUDA_ERROR_NOT_INITIALIZED));
static_assert(own::kNoDevice == static_cast<int>(CUDA_ERROR_NO_DEVICE));
static_assert(own::kInvalidDevice == static_cast<int>(CUDA_ERROR_INVALID_DEVICE));
static_assert(own::kInvalidContext == static_cast<int>(CUDA_ERROR_INVALID_CONTEXT));
static_assert(own::kInvalidHandle == static_cast<int>(CUDA_ERROR_INVALID_HANDLE));
static_assert(sizeof(own::Uuid) == sizeof(CUuuid) && sizeof(own::IpcHandle) == sizeof(CUipcMemHandle));
static_assert(own::kAlreadyMapped == static_cast<int>(CUDA_ERROR_ALREADY_MAPPED));
static_assert(own::kNoPeerAccess == static_cast<int>(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
static_assert(sizeof(own::MemoryHandle) == sizeof(CUmemGenericAllocationHandle) &&
              sizeof(own::MemoryLocation) == sizeof(CUmemLocation) &&
              sizeof(own::MemoryAccess) == sizeof(CUmemAccessDesc) &&
              sizeof(own::MemoryProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(own::MemoryProperties, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(own::MemoryProperties, rdma) ==
                  offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) &&
              offsetof(own::MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(own::kCanMapMemory == static_cast<int>(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
              own::kCanExportDescriptors ==
                  static_cast<int>(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) &&
              own::kCanMapForRdma ==
                  static_cast<int>(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) &&
              own::kUsesHostPageTables ==
                  static_cast<int>(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) &&
              own::kRdmaWritesOrdering ==
                  static_cast<int>(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) &&
              own::kCanExportDmabufs == static_cast<int>(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED));
static_assert(own::kAsDmabuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD &&
              own::kOrderedForOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(own::kPinnedMemory == CU_MEM_ALLOCATION_TYPE_PINNED &&
              own::kOnDevice == CU_MEM_LOCATION_TYPE_DEVICE &&
              own::kByDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              own::kReadAndWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
              own::kLeastGranularity == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(own::kLazyPeerAccess == static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
static_assert(own::kNotFound == static_cast<int>(CUDA_ERROR_NOT_FOUND));
static_assert(own::kNotReady == static_cast<int>(CUDA_ERROR_NOT_READY));
static_assert(own::kIllegalAddress == static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(own::kNotPermitted == static_cast<int>(CUDA_ERROR_NOT_PERMITTED));
static_assert(own::kNotSupported == static_cast<int>(CUDA_ERROR_NOT_SUPPORTED));
static_assert(own::kUnknown == static_cast<int>(CUDA_ERROR_UNKNOWN));
static_assert(own::kComputeCapabilityMajor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(own::kComputeCapabilityMinor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(own::kCanUseStreamMemoryOperations64 ==
              static_cast<int>(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
static_assert(own::kMemoryType == static_cast<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(own::kIsManaged == static_cast<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED));
static_assert(own::kDeviceOrdinal == static_cast<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(own::kHostMemory == static_cast<int>(CU_MEMORYTYPE_HOST));
static_assert(own::kDeviceMemory == static_cast<int>(CU_MEMORYTYPE_DEVICE));
static_assert(own::kStreamNonBlocking == static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
static_assert(own::kWaitAtLeast == static_cast<unsigned>(CU_STREAM_WAIT_VALUE_GEQ));
static_assert(own::kHostPortable == CU_MEMHOSTALLOC_PORTABLE && own::kHostMapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(own::kCaptureNone == static_cast<int>(CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(own::kCaptureActive == static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE) &&
              own::kCaptureRelaxed == static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(own::kRecordExternal == CU_EVENT_RECORD_EXTERNAL && own::kWaitExternal == CU_EVENT_WAIT_EXTERNAL);
static_assert(own::kWithoutSync == static_cast<unsigned>(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) &&
              own::kMoveReference == static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE));
static_assert(sizeof(own::Graph) == sizeof(CUgraph) && sizeof(own::UserObject) == sizeof(CUuserObject) &&
              sizeof(own::GraphExec) == sizeof(CUgraphExec));
static_assert(own::kCaptureUnsupported == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) &&
              own::kCaptureInvalidated == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) &&
              own::kCaptureMerge == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_MERGE) &&
              own::kCaptureUnmatched == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) &&
              own::kCaptureUnjoined == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_UNJOINED) &&
              own::kCaptureIsolation == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) &&
              own::kCaptureImplicit == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) &&
              own::kCaptureWrongThread == static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
static_assert(own::kLegacyStreams == static_cast<uint64_t>(CU_GET_PROC_ADDRESS_LEGACY_STREAM));

TEST(CudaDriverTypes, AreThoseOfCudaH) {
  EXPECT_GE(CUDA_VERSION, own::kOldestDriver);  // the rest has been compiled
}

}  // namespace
#else
TEST(CudaDriverTypes, AreThoseOfCudaH) {
  GTEST_SKIP() << "there is no cuda.h here";
}
#endif
