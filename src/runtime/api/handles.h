// The objects behind the C API's handles, and how the API's functions report their results.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "eccl/eccl.h"
#include "runtime/api/handle_table.h"
#include "runtime/api/jobs.h"
#include "runtime/communicator/communicator.h"
#include "runtime/execution/stream.h"

namespace eccl::runtime {

/// What an ecclComm_t names. Owner: the handle table. The communicator may outlive it, as Runs in streams
/// keep it. The handles of its registrations end with it.
struct ApiCommunicator {
  explicit ApiCommunicator(CommunicatorOptions options)
      : communicator(std::make_shared<Communicator>(std::move(options))) {}
  ~ApiCommunicator();

  const std::shared_ptr<Communicator> communicator;
  Jobs jobs;         // of non-blocking calls on this handle
  std::mutex mutex;  // of what follows
  Status failure;    // the last one, for ecclGetLastError
  std::vector<void*> registrations;
};
using CommunicatorUse = HandleTable<ApiCommunicator>::Use;

/// What the handle of ecclCommRegister names.
struct Registration {
  const Communicator* communicator;  // to compare with, not to be followed
  Window memory;
};

/// The communicator behind a handle; empty if there is none that can be used here.
CommunicatorUse liveCommunicator(ecclComm_t comm);
/// The same. `take`: nobody else finds it from now on. Errors name the API function
/// `function` and say why the handle is no good: invalidArgument if it is none or not any more, invalidUsage
/// in a forked child. Not logged.
Result<CommunicatorUse> communicatorOf(ecclComm_t comm, const char* function, bool take = false);
/// The stream behind a handle that is not NULL. `take` and error (invalidArgument) as above.
Result<std::shared_ptr<Stream>> streamOf(ecclStream_t stream, const char* function, bool take = false);
/// The stream of a call on `communicator`, which is usable. For one of the host: that behind the handle, and
/// null for NULL. For one of a device: what stands for the device's own stream, NULL included.
Result<std::shared_ptr<Stream>> streamFor(const Communicator& communicator, ecclStream_t stream,
                                          const char* function);

/// Remembers the sentence of a failure for ecclGetLastError, of the thread and of the communicator, and
/// returns the code. ok and inProgress are no failures. Any thread.
ecclResult_t report(const Status& status, ApiCommunicator* communicator = nullptr) noexcept;

/// The body of an API function: `body` returns a Status, which is reported. Nothing is thrown out of it.
template <class Body>
ecclResult_t apiCall(const char* function, Body&& body) noexcept {
  return report(guarded(function, body));
}

/// The same for a function of a communicator: `body` gets its CommunicatorUse, and the communicator remembers
/// the failure as well. `judge` may look at the Status before it is reported.
template <class Body, class Judge>
ecclResult_t apiCall(const char* function, ecclComm_t comm, Body&& body, Judge&& judge) noexcept {
  CommunicatorUse use;
  const Status status = guarded(function, [&]() -> Status {
    ECCL_ASSIGN(use, communicatorOf(comm, function));
    return body(use);
  });
  judge(status);
  return report(status, use ? &*use : nullptr);
}
template <class Body>
ecclResult_t apiCall(const char* function, ecclComm_t comm, Body&& body) noexcept {
  return apiCall(function, comm, body, [](const Status&) {});
}

/// The options of a communicator, from settings and `config`, which may be null and of an older or newer
/// header. `device`: as chooseDevice(). Errors name the field and what it may be, or are loadSettings()'s or
/// chooseDevice()'s.
Result<CommunicatorOptions> optionsFrom(const ecclConfig_t* config, const char* function, int device);

}  // namespace eccl::runtime
