// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace eccl::transport {

/// Owns one descriptor and closes it. Whoever creates the descriptor opens it close-on-exec, so that a program
/// started by the application never keeps a rank's connections alive.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    int old = std::exchange(fd_, fd);
    if (old >= 0) close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace eccl::transport
