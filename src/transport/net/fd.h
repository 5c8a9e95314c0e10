// A file descriptor with an owner.
#pragma once

#include <array>
#include <utility>

#include "base/system.h"

namespace eccl::transport {

/// By what one process asks another for a descriptor. Random: nobody has the same, and nobody guesses it.
using DescriptorName = std::array<char, 16>;

/// Owns one descriptor of a System and closes it. Empty by default and after a move. Whoever creates the
/// descriptor opens it close-on-exec, so that a program started by the application never keeps a rank's
/// connections alive. Threads: one at a time, as for an int.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd, System& system = System::real()) : fd_(fd), system_(&system) {}
  Fd(Fd&& other) noexcept : fd_(other.release()), system_(other.system_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = other.release();
    system_ = other.system_;
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  /// The System that the descriptor is of. Undefined for an Fd that never had one.
  System& system() const { return *system_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Gives the descriptor up without closing it, and returns it; -1 if there is none.
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (const int old = release(); old >= 0) system_->close(old);
  }

 private:
  int fd_ = -1;
  System* system_ = nullptr;
};

}  // namespace eccl::transport
