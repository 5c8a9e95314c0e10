// Looking handles up, reporting failures, and the options that a config gives. Also the calls of the C API
// about versions and errors.
#include "runtime/api/handles.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/per_thread.h"
#include "runtime/api/process.h"
#include "runtime/executor/devices.h"

namespace eccl::runtime {
namespace {

/// Of one thread.
struct LastFailure {
  Status failure;
  std::string told;  // what ecclGetLastError returned: valid until this thread's next call
};

/// "was destroyed" or "never existed".
Status unknownHandle(bool ended, const char* function, const char* what, const char* madeBy) {
  if (ended) {
    return Status::error(Code::invalidArgument, "%s: the %s has been destroyed%s", function, what,
                         std::strcmp(what, "communicator") == 0 ? " or aborted" : "");
  }
  return Status::error(Code::invalidArgument, "%s: this handle is not a %s; %s makes one", function, what,
                       madeBy);
}

}  // namespace

ApiCommunicator::~ApiCommunicator() {
  for (void* handle : registrations) Process::get().registrations.take(handle);
}

ecclResult_t report(const Status& status, ApiCommunicator* communicator) noexcept {
  if (status.ok()) return ecclSuccess;
  if (status.code() == Code::inProgress) return ecclInProgress;
  // What fails for want of memory here costs the sentence, not the code.
  guarded("report", [&] {
    PerThread<LastFailure>::get().failure = status;
    ECCL_INFO("returns %s: %s", ecclGetErrorString(static_cast<ecclResult_t>(status.code())),
              status.message().c_str());
    return Status();
  }).ignore();
  if (communicator != nullptr) {
    std::lock_guard lock(communicator->mutex);
    communicator->failure = status;
  }
  return static_cast<ecclResult_t>(status.code());
}

CommunicatorUse liveCommunicator(ecclComm_t comm) {
  CommunicatorUse use = Process::get().communicators.find(comm);
  if (use && use->communicator->inherited()) return {};
  return use;
}

Result<CommunicatorUse> communicatorOf(ecclComm_t comm, const char* function, bool take) {
  if (comm == nullptr) return Status::error(Code::invalidArgument, "%s: comm is NULL", function);
  auto& table = Process::get().communicators;
  CommunicatorUse use = table.find(comm);
  if (use && use->communicator->inherited()) {
    return Status::error(Code::invalidUsage,
                         "%s: this process was forked from a rank; communicators stay with the parent. "
                         "Make a new one here, in a process started by exec",
                         function);
  }
  if (use && take) use = table.take(comm);  // another call may be faster
  if (use) return use;
  return unknownHandle(table.existed(comm), function, "communicator", "ecclCommInitRank or ecclCommSplit");
}

Result<std::shared_ptr<Stream>> streamOf(ecclStream_t stream, const char* function, bool take) {
  auto& table = Process::get().streams;
  if (auto use = take ? table.take(stream) : table.find(stream)) return use.shared();
  return unknownHandle(table.existed(stream), function, "host stream", "ecclStreamCreate");
}

Result<std::shared_ptr<Stream>> streamFor(const Communicator& communicator, ecclStream_t stream,
                                          const char* function) {
  const auto& device = communicator.device();
  if (device == nullptr) return stream != nullptr ? streamOf(stream, function) : std::shared_ptr<Stream>();
  if (Process::get().streams.existed(stream) || Process::get().streams.find(stream)) {
    return Status::error(
        Code::invalidArgument,
        "%s: the stream is a host stream and rank %d is of a %s communicator: pass a stream of "
        "that device, or NULL for its default stream",
        function, communicator.rank(), device->memory());
  }
  return nativeStream(*device, stream);
}

Result<CommunicatorOptions> optionsFrom(const ecclConfig_t* config, const char* function, int device) {
  CommunicatorOptions options;
  ECCL_ASSIGN(options.settings, loadSettings());
  ECCL_ASSIGN(options.device, chooseDevice(options.settings, device));
  if (config != nullptr) {
    // The caller's header may be older or newer than this library: take what both know.
    ecclConfig_t mine = ECCL_CONFIG_INITIALIZER;
    if (config->magic != ECCL_CONFIG_MAGIC || config->size < offsetof(ecclConfig_t, cgaClusterSize)) {
      return Status::error(Code::invalidArgument, "%s: config was not made with ECCL_CONFIG_INITIALIZER",
                           function);
    }
    std::memcpy(&mine, config, std::min(config->size, sizeof mine));
    // No pointer of which only a part was there.
    if (config->size < offsetof(ecclConfig_t, splitShare)) mine.netName = nullptr;
    if (config->size < offsetof(ecclConfig_t, collnetEnable)) mine.commName = nullptr;
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
    constexpr int kMaxChannels = 32;
    if (options.minChannels < 0 || options.maxChannels < 0 || options.minChannels > kMaxChannels ||
        (options.maxChannels > 0 && options.maxChannels < options.minChannels)) {
      return Status::error(Code::invalidArgument,
                           "%s: config.minCTAs %d and maxCTAs %d are not 1 <= min <= max, min <= %d", function,
                           options.minChannels, options.maxChannels, kMaxChannels);
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

}  // namespace eccl::runtime

using namespace eccl;
using namespace eccl::runtime;

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
  const char* told = "out of memory, also for a message";
  guarded("ecclGetLastError", [&] {
    LastFailure& last = PerThread<LastFailure>::get();
    Status failure = last.failure;
    if (auto use = Process::get().communicators.find(comm); use && !use->communicator->inherited()) {
      std::lock_guard lock(use->mutex);
      failure = use->failure;
      if (failure.ok()) failure = use->communicator->asyncStatus();
    }
    last.told = failure.code() == Code::inProgress ? "" : failure.message();
    told = last.told.c_str();
    return Status();
  }).ignore();  // told already
  return told;
}

ecclResult_t ecclGetVersion(int* version) {
  return apiCall("ecclGetVersion", [&] {
    if (version == nullptr) return Status::error(Code::invalidArgument, "ecclGetVersion: version is NULL");
    *version = ECCL_VERSION_CODE;
    return Status();
  });
}
