#include "runtime/handles.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "runtime/process.h"

namespace eccl {
namespace {

thread_local std::string lastError;

/// Owns every handle ever made, so that none is a leak and none is ever reused.
struct Graveyard {
  std::mutex mutex;
  std::vector<std::unique_ptr<ecclComm>> comms;
  std::vector<std::unique_ptr<ecclStream>> streams;
  static Graveyard& get() {
    static Graveyard* graveyard = new Graveyard;
    return *graveyard;
  }
};

}  // namespace

ecclResult_t report(const Status& status, ecclComm* comm) {
  if (status.ok()) return ecclSuccess;
  if (status.code() != Code::inProgress) {
    lastError = status.message();
    if (comm != nullptr) {
      std::lock_guard lock(comm->mutex);
      comm->lastError = status.message();
    }
    ECCL_INFO("returns %s: %s", ecclGetErrorString(static_cast<ecclResult_t>(status.code())),
              status.message().c_str());
  }
  return static_cast<ecclResult_t>(status.code());
}

Result<std::shared_ptr<Communicator>> communicatorOf(ecclComm_t comm, const char* function) {
  if (comm == nullptr) return Status::error(Code::invalidArgument, "%s: comm is NULL", function);
  if (comm->magic != kCommMagic) {
    return Status::error(Code::invalidArgument, "%s: comm is no communicator; was it ever initialised?",
                         function);
  }
  if (comm->communicator == nullptr) {
    return Status::error(Code::invalidArgument, "%s: the communicator has been destroyed or aborted", function);
  }
  if (comm->communicator->inherited()) {
    return Status::error(Code::invalidUsage,
                         "%s: this process was forked from a rank; communicators stay with the parent. "
                         "Make a new one here, in a process started by exec",
                         function);
  }
  return comm->communicator;
}

Result<std::shared_ptr<Stream>> streamOf(ecclStream_t stream, const Communicator& communicator,
                                         const char* function) {
  if (stream == nullptr) return communicator.defaultStream();
  if (stream->magic != kStreamMagic)
    return Status::error(Code::invalidArgument, "%s: stream is no ECCL host stream", function);
  if (stream->stream == nullptr)
    return Status::error(Code::invalidArgument, "%s: the stream has been destroyed", function);
  return stream->stream;
}

ecclComm_t newHandle(std::shared_ptr<Communicator> communicator) {
  auto handle = std::make_unique<ecclComm>();
  handle->magic = kCommMagic;
  handle->communicator = std::move(communicator);
  std::lock_guard lock(Graveyard::get().mutex);
  Graveyard::get().comms.push_back(std::move(handle));
  return Graveyard::get().comms.back().get();
}

ecclStream_t newHandle(std::shared_ptr<Stream> stream) {
  auto handle = std::make_unique<ecclStream>();
  handle->magic = kStreamMagic;
  handle->stream = std::move(stream);
  std::lock_guard lock(Graveyard::get().mutex);
  Graveyard::get().streams.push_back(std::move(handle));
  return Graveyard::get().streams.back().get();
}

Result<CommunicatorOptions> optionsFrom(const ecclConfig_t* config, const char* function) {
  CommunicatorOptions options;
  ECCL_ASSIGN(options.settings, loadSettings());
  if (config != nullptr) {
    // The caller's header may be older or newer than this library: take what both know.
    ecclConfig_t mine = ECCL_CONFIG_INITIALIZER;
    if (config->magic != ECCL_CONFIG_MAGIC || config->size < offsetof(ecclConfig_t, cgaClusterSize)) {
      return Status::error(Code::invalidArgument, "%s: config was not made with ECCL_CONFIG_INITIALIZER",
                           function);
    }
    std::memcpy(&mine, config, std::min(config->size, sizeof mine));
    auto given = [](int value) { return value != ECCL_CONFIG_UNDEF_INT; };
    // A field means something only if the caller's version already had it (NCCL's rule;
    // docs: 2.14, 2.17, 2.18).
    bool has217 = mine.version >= 21700;
    if (given(mine.blocking)) {
      if (mine.blocking != 0 && mine.blocking != 1) {
        return Status::error(Code::invalidArgument, "%s: config.blocking is %d; it is 0 or 1", function,
                             mine.blocking);
      }
      options.blocking = mine.blocking == 1;
    }
    if (has217 && given(mine.minCTAs)) options.minChannels = mine.minCTAs;
    if (has217 && given(mine.maxCTAs)) options.maxChannels = mine.maxCTAs;
    constexpr int kMostChannels = 32;
    if (options.minChannels < 0 || options.maxChannels < 0 || options.minChannels > kMostChannels ||
        (options.maxChannels > 0 && options.maxChannels < options.minChannels)) {
      return Status::error(Code::invalidArgument,
                           "%s: config.minCTAs %d and maxCTAs %d are not 1 <= min <= max, min <= %d", function,
                           options.minChannels, options.maxChannels, kMostChannels);
    }
    if (has217 && mine.netName != nullptr && strcasecmp(mine.netName, "tcp") != 0 &&
        strcasecmp(mine.netName, "socket") != 0) {
      return Status::error(Code::invalidUsage,
                           "%s: config.netName is \"%s\"; this library has \"tcp\" between hosts", function,
                           mine.netName);
    }
    if (mine.commName != nullptr) options.name = mine.commName;
  }
  if (options.settings.blockingSet)
    options.blocking = options.settings.blocking;  // the environment beats the config
  return options;
}

}  // namespace eccl

using namespace eccl;

const char* ecclGetErrorString(ecclResult_t result) {
  switch (result) {
    case ecclSuccess:
      return "no error";
    case ecclUnhandledCudaError:
      return "unhandled CUDA error";
    case ecclSystemError:
      return "system error";
    case ecclInternalError:
      return "internal error";
    case ecclInvalidArgument:
      return "invalid argument";
    case ecclInvalidUsage:
      return "invalid usage";
    case ecclRemoteError:
      return "remote process failed or a network error";
    case ecclInProgress:
      return "operation in progress";
    case ecclTimeout:
      return "timeout";
    default:
      return "unknown result code";
  }
}

const char* ecclGetLastError(ecclComm_t comm) {
  thread_local std::string copy;  // valid until this thread's next call
  copy = lastError;
  if (comm != nullptr && comm->magic == kCommMagic) {
    std::lock_guard lock(comm->mutex);
    copy = comm->lastError;
    if (copy.empty() && comm->communicator != nullptr) {
      Status status = comm->communicator->asyncStatus();
      if (!status.ok() && status.code() != Code::inProgress) copy = status.message();
    }
  }
  return copy.c_str();
}

ecclResult_t ecclGetVersion(int* version) {
  if (version == nullptr)
    return report(Status::error(Code::invalidArgument, "ecclGetVersion: version is NULL"));
  *version = ECCL_VERSION_CODE;
  return ecclSuccess;
}
