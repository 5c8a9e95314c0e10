// CUDA's driver, loaded at run time: a table of its functions. Nothing of CUDA is linked.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/cuda/driver_types.h"

namespace eccl::runtime::cuda {

/// The functions, each under its own name. Owner: the process, for ever. Any thread.
class Driver {
 public:
  /// The driver of this process, which is opened and initialised once. Error (system): there is none, it is too
  /// old, or it finds no device; the sentence says what to do. The same each time. Not logged.
  static Result<const Driver*> get();

#define ECCL_CUDA_MEMBER(name, parameters) DriverCode(*name) parameters = nullptr;
  ECCL_CUDA_FUNCTIONS(ECCL_CUDA_MEMBER)
#undef ECCL_CUDA_MEMBER

  /// ok, or (device) a sentence that names the function, what it was to do, and the driver's reason. `what` is
  /// a format, as printf's.
  Status check(DriverCode code, const char* function, const char* what, ...) const
      __attribute__((format(printf, 4, 5)));
  /// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string nameOf(DriverCode code) const;

 private:
  Status open();
};

/// Has a context be current in this thread while the value lives, and has the thread be relaxed about captures:
/// what the library asks of the driver has nothing to do with the streams that are captured meanwhile.
class Entered {
 public:
  Entered(const Driver& driver, Context context)
      : driver_(driver),
        status_(driver.check(driver.cuCtxPushCurrent(context), "cuCtxPushCurrent", "of %p",
                             static_cast<void*>(context))) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Entered() {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    Context before;
    if (status_.ok()) driver_.cuCtxPopCurrent(&before);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  const Status status_;
  int mode_ = kCaptureRelaxed;
};

inline Address addressOf(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

}  // namespace eccl::runtime::cuda
