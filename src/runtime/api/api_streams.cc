// The C API: memory and host streams.

#include "runtime/api/group.h"
#include "runtime/api/process.h"
#include "runtime/executor/devices.h"
#include "transport/shm/shared_heap.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

Status registerMemory(ApiCommunicator& its, void* base, size_t bytes, void** handle) {
  if (base == nullptr || handle == nullptr || bytes == 0)
    return Status::error(Code::invalidArgument,
                         "ecclCommRegister: buff and handle must not be NULL, nor size 0");
  ECCL_TRY(its.communicator->usable());
  std::lock_guard lock(its.mutex);
  its.registrations.reserve(its.registrations.size() + 1);
  *handle = Process::get().registrations.add(std::make_shared<Registration>(
      Registration{its.communicator.get(), {static_cast<std::byte*>(base), bytes}}));
  its.registrations.push_back(*handle);
  its.communicator->registerMemory({static_cast<std::byte*>(base), bytes});
  return {};
}

Status deregisterMemory(ApiCommunicator& its, void* handle) {
  auto& table = Process::get().registrations;
  if (auto known = table.find(handle);
      known && known->communicator == its.communicator.get() && table.take(handle)) {
    std::lock_guard lock(its.mutex);
    std::erase(its.registrations, handle);
    its.communicator->deregisterMemory({known->memory.base, known->memory.size});
    return {};
  }
  return Status::error(Code::invalidArgument,
                       "ecclCommDeregister: %p is no handle of this communicator, or was deregistered", handle);
}

}  // namespace

ecclResult_t ecclMemAlloc(void** ptr, size_t size) {
  return apiCall("ecclMemAlloc", [&]() -> Status {
    if (ptr == nullptr) return Status::error(Code::invalidArgument, "ecclMemAlloc: ptr is NULL");
    *ptr = nullptr;
    ECCL_ASSIGN(const Settings settings, loadSettings());
    ECCL_ASSIGN(*ptr, allocateDeviceMemory(settings, size));
    if (*ptr == nullptr) { ECCL_ASSIGN(*ptr, transport::SharedHeap::ofThisProcess().allocate(size)); }
    return {};
  });
}

ecclResult_t ecclMemFree(void* ptr) {
  return apiCall("ecclMemFree", [&]() -> Status {
    if (ptr == nullptr) return {};
    if (const std::optional<Status> freed = freeDeviceMemory(ptr)) return *freed;
    return transport::SharedHeap::ofThisProcess().free(ptr);
  });
}

ecclResult_t ecclCommRegister(ecclComm_t comm, void* buff, size_t size, void** handle) {
  return apiCall("ecclCommRegister", comm,
                 [&](CommunicatorUse& use) { return registerMemory(*use, buff, size, handle); });
}

ecclResult_t ecclCommDeregister(ecclComm_t comm, void* handle) {
  return apiCall("ecclCommDeregister", comm,
                 [&](CommunicatorUse& use) { return deregisterMemory(*use, handle); });
}

ecclResult_t ecclStreamCreate(ecclStream_t* stream) {
  return apiCall("ecclStreamCreate", [&] {
    if (stream == nullptr) return Status::error(Code::invalidArgument, "ecclStreamCreate: stream is NULL");
    *stream = static_cast<ecclStream_t>(Process::get().streams.add(std::make_shared<Stream>()));
    return Status();
  });
}

ecclResult_t ecclStreamSynchronize(ecclStream_t stream) {
  return apiCall("ecclStreamSynchronize", [&]() -> Status {
    if (stream == nullptr) return NullStream::ofThisThread().synchronize();
    ECCL_ASSIGN(const auto live, streamOf(stream, "ecclStreamSynchronize"));
    return live->synchronize();
  });
}

ecclResult_t ecclStreamQuery(ecclStream_t stream) {
  return apiCall("ecclStreamQuery", [&]() -> Status {
    if (stream == nullptr) return NullStream::ofThisThread().query();
    ECCL_ASSIGN(const auto live, streamOf(stream, "ecclStreamQuery"));
    return live->query();
  });
}

ecclResult_t ecclStreamDestroy(ecclStream_t stream) {
  return apiCall("ecclStreamDestroy", [&]() -> Status {
    if (stream == nullptr)
      return Status::error(Code::invalidArgument, "ecclStreamDestroy: the NULL stream cannot be destroyed");
    ECCL_ASSIGN(const auto mine, streamOf(stream, "ecclStreamDestroy", true));
    return mine->synchronize();
  });
}
