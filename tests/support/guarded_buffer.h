// Memory for the calls under test, with margins that show whether somebody wrote outside.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "eccl/eccl.h"

namespace eccl::test {

/// A buffer as a user may pass it: at any alignment, plain or of ecclMemAlloc.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, size_t misalignment, bool shared) : bytes_(bytes), misalignment_(misalignment) {
    size_t whole = bytes + 2 * kMargin + misalignment;
    void* memory = nullptr;
    if (shared) {
      EXPECT_EQ(ecclMemAlloc(&memory, whole), ecclSuccess);
      shared_ = static_cast<std::byte*>(memory);
    } else {
      plain_.resize(whole);
    }
    std::memset(base(), 0x5a, whole);
  }
  ~GuardedBuffer() {
    if (shared_ != nullptr) ecclMemFree(shared_);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  std::byte* data() { return base() + kMargin + misalignment_; }
  size_t size() const { return bytes_; }
  bool marginsIntact() {
    for (size_t i = 0; i < kMargin + misalignment_; ++i) {
      if (base()[i] != std::byte{0x5a}) return false;
    }
    for (size_t i = 0; i < kMargin; ++i) {
      if (data()[bytes_ + i] != std::byte{0x5a}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kMargin = 64;
  std::byte* base() { return shared_ != nullptr ? shared_ : plain_.data(); }
  size_t bytes_, misalignment_;
  std::vector<std::byte> plain_;
  std::byte* shared_ = nullptr;
};

}  // namespace eccl::test
