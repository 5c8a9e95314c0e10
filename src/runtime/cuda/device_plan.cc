#include "runtime/cuda/device_plan.h"

#include <cstring>

namespace eccl::runtime::cuda {

Status DevicePlan::compile(const Work& work) {
  ECCL_ASSIGN(made_, lanes::compile(*work.program, *work.view.plan, neighbours_->blocks()));
  blocks_ = made_.blocks;
  isShort_ = made_.isShort;
  tells_ = made_.tells;
  return {};
}

Status DevicePlan::complete(const Work& work, const std::vector<lanes::End*>& places) {
  for (size_t e = 0; e < places.size(); ++e) made_.ends[e].strips = places[e];
  // One after the other: the program, its lists, then what kernels write.
  lanes::BlockProgram& program = made_.program;
  const size_t words = program.lanes * program.width;
  std::vector<std::byte> image(sizeof program);
  const auto place = [&](size_t bytes) {
    const size_t at = lanes::Compiled::aligned(image.size());
    image.resize(at + bytes);
    return at;
  };
  made_.forLists([&](const auto& list, uint32_t& where) {
    const size_t bytes = list.size() * sizeof(list[0]);
    where = static_cast<uint32_t>(place(bytes));
    if (bytes > 0) std::memcpy(image.data() + where, list.data(), bytes);
  });
  programBytes_ = static_cast<uint32_t>((image.size() + 15) / 16 * 16);
  if (programBytes_ > sizeof program + lanes::kListBytes) programBytes_ = sizeof program;
  const size_t done = place(words * sizeof(uint64_t)), ended = place(sizeof(uint64_t)),
               failed = place(sizeof(uint32_t)),
               own = place(2 * static_cast<size_t>(work.program->ranks) * work.view.plan->elementBytes);
  const size_t uploaded = image.size();
  const size_t scratch = (uploaded + 127) / 128 * 128;
  bytes_ = scratch + made_.scratchBytes;
  ECCL_ASSIGN(const Address memory, gpu_.take(bytes_));
  const auto at = [&]<class T>(T*& pointer, size_t offset) { pointer = reinterpret_cast<T*>(memory + offset); };
  at(program.done, done);
  at(program.ended, ended);
  at(program.failed, failed);
  at(program.scratch, scratch);
  at(own_, own);
  std::memcpy(image.data(), &program, sizeof program);
  ECCL_TRY(gpu_.upload(memory, image.data(), uploaded));
  memory_ = memory;
  made_ = {};
  return {};
}

}  // namespace eccl::runtime::cuda
