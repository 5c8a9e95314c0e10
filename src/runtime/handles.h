// What the C API's opaque pointers point to, and how its functions report.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "eccl/eccl.h"
#include "runtime/communicator.h"
#include "runtime/stream.h"

/// Handles of destroyed objects are kept (a few words each), so that a stale pointer is recognised.
struct ecclComm {
  uint32_t magic;
  std::shared_ptr<eccl::Communicator> communicator;  // null once destroyed
  std::thread job;                                   // non-blocking init or finalize
  std::mutex mutex;                                  // of lastError
  std::string lastError;
};

struct ecclStream {
  uint32_t magic;
  std::shared_ptr<eccl::Stream> stream;  // null once destroyed
};

namespace eccl {

inline constexpr uint32_t kCommMagic = 0x6d6d6f63, kStreamMagic = 0x6d727473;

/// Remembers the sentence of a failure for ecclGetLastError and turns it into a code.
ecclResult_t report(const Status& status, ecclComm* comm = nullptr);

/// The live communicator behind a handle. `function` is the API function's name, for the message.
Result<std::shared_ptr<Communicator>> communicatorOf(ecclComm_t comm, const char* function);
/// The stream behind a handle; NULL gives the communicator's default stream.
Result<std::shared_ptr<Stream>> streamOf(ecclStream_t stream, const Communicator& communicator,
                                         const char* function);

ecclComm_t newHandle(std::shared_ptr<Communicator> communicator);
ecclStream_t newHandle(std::shared_ptr<Stream> stream);

/// Settings and config → options. `config` may be null.
Result<CommunicatorOptions> optionsFrom(const ecclConfig_t* config, const char* function);

}  // namespace eccl
