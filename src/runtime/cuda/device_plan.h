// What calls of one shape need on a GPU besides their buffers: the resolved Program, and what its kernels
// write.
#pragma once

#include <memory>

#include "runtime/cuda/lanes/compile.h"
#include "runtime/cuda/neighbourhood.h"

namespace eccl::runtime::cuda {

/// Owner: the plan of the library, and the calls that are under way. One thread at a time until it is complete;
/// then constant.
class DevicePlan {
 public:
  DevicePlan(Gpu& gpu, std::shared_ptr<Neighbourhood> neighbours)
      : gpu_(gpu), neighbours_(std::move(neighbours)) {}
  ~DevicePlan() {
    if (!neighbours_->lost()) gpu_.giveBack(memory_, bytes_);
  }
  DevicePlan(const DevicePlan&) = delete;
  DevicePlan& operator=(const DevicePlan&) = delete;

  /// First. Error: lanes::compile()'s.
  Status compile(const Work& work);
  /// From then until it is complete: which ends it has, and how many strips.
  const std::vector<lanes::EndOf>& ends() const { return made_.ends; }
  uint32_t width() const { return made_.program.width; }
  /// Puts it into the GPU's memory, whose context is current. `places`: of ends(), in their order. Error:
  /// Gpu::take()'s or upload()'s.
  Status complete(const Work& work, const std::vector<lanes::End*>& places);

  bool isComplete() const { return memory_ != 0; }
  const lanes::BlockProgram* program() const { return reinterpret_cast<const lanes::BlockProgram*>(memory_); }
  /// How much of that blocks keep.
  uint32_t programBytes() const { return programBytes_; }
  bool isShort() const { return isShort_; }
  bool tells() const { return tells_; }
  uint32_t blocks() const { return blocks_; }
  /// Two buffers of an element for each rank, for calls without any: barriers.
  std::byte* own() const { return own_; }

 private:
  Gpu& gpu_;
  const std::shared_ptr<Neighbourhood> neighbours_;
  lanes::Compiled made_;
  Address memory_ = 0;
  size_t bytes_ = 0;
  uint32_t blocks_ = 0, programBytes_ = 0;
  bool isShort_ = false, tells_ = false;
  std::byte* own_ = nullptr;
};

}  // namespace eccl::runtime::cuda
