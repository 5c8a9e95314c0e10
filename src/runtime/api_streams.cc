// The C API: memory and host streams.

#include "runtime/handles.h"
#include "runtime/process.h"
#include "transport/shm/shared_heap.h"

using namespace eccl;

namespace {

/// The NULL stream stands for every communicator's default stream.
std::vector<std::shared_ptr<Stream>> defaultStreams() {
  std::vector<std::shared_ptr<Stream>> streams;
  for (auto& communicator : Process::get().communicators()) streams.push_back(communicator->defaultStream());
  return streams;
}

Result<std::shared_ptr<Stream>> liveStream(ecclStream_t stream, const char* function) {
  if (stream->magic != kStreamMagic)
    return Status::error(Code::invalidArgument, "%s: stream is no ECCL host stream", function);
  if (stream->stream == nullptr)
    return Status::error(Code::invalidArgument, "%s: the stream has been destroyed", function);
  return stream->stream;
}

template <class Ask>
Status askStreams(ecclStream_t stream, const char* function, Ask&& ask) {
  std::vector<std::shared_ptr<Stream>> streams;
  if (stream == nullptr) {
    streams = defaultStreams();
  } else {
    ECCL_ASSIGN(auto one, liveStream(stream, function));
    streams.push_back(one);
  }
  Status first;
  for (auto& each : streams) {
    Status status = ask(*each);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace

ecclResult_t ecclMemAlloc(void** ptr, size_t size) {
  if (ptr == nullptr) return report(Status::error(Code::invalidArgument, "ecclMemAlloc: ptr is NULL"));
  *ptr = nullptr;
  auto memory = SharedHeap::ofThisProcess().allocate(size);
  if (!memory.ok()) return report(memory.status());
  *ptr = *memory;
  return ecclSuccess;
}

ecclResult_t ecclMemFree(void* ptr) {
  return ptr == nullptr ? ecclSuccess : report(SharedHeap::ofThisProcess().free(ptr));
}

ecclResult_t ecclCommRegister(ecclComm_t comm, void* buff, size_t size, void** handle) {
  auto communicator = communicatorOf(comm, "ecclCommRegister");
  if (!communicator.ok()) return report(communicator.status());
  if (buff == nullptr || handle == nullptr || size == 0) {
    return report(
        Status::error(Code::invalidArgument, "ecclCommRegister: buff and handle must not be NULL, nor size 0"),
        comm);
  }
  auto registered = (*communicator)->registerMemory(buff, size);
  if (!registered.ok()) return report(registered.status(), comm);
  *handle = *registered;
  return ecclSuccess;
}

ecclResult_t ecclCommDeregister(ecclComm_t comm, void* handle) {
  auto communicator = communicatorOf(comm, "ecclCommDeregister");
  if (!communicator.ok()) return report(communicator.status());
  return report((*communicator)->deregisterMemory(handle), comm);
}

ecclResult_t ecclStreamCreate(ecclStream_t* stream) {
  if (stream == nullptr)
    return report(Status::error(Code::invalidArgument, "ecclStreamCreate: stream is NULL"));
  *stream = newHandle(std::make_shared<Stream>());
  return ecclSuccess;
}

ecclResult_t ecclStreamSynchronize(ecclStream_t stream) {
  return report(askStreams(stream, "ecclStreamSynchronize", [](Stream& each) { return each.synchronize(); }));
}

ecclResult_t ecclStreamQuery(ecclStream_t stream) {
  return report(askStreams(stream, "ecclStreamQuery", [](Stream& each) { return each.query(); }));
}

ecclResult_t ecclStreamDestroy(ecclStream_t stream) {
  if (stream == nullptr)
    return report(
        Status::error(Code::invalidArgument, "ecclStreamDestroy: the NULL stream cannot be destroyed"));
  auto live = liveStream(stream, "ecclStreamDestroy");
  if (!live.ok()) return report(live.status());
  Status status = (*live)->synchronize();
  stream->stream.reset();
  return report(status);
}
