#include "runtime/cuda/gpu_introduction.h"

#include "runtime/cuda/rings.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {

std::string GpuIntroduction::write() const {
  return transport::ByteWriter()
      .put(boot)
      .put(process)
      .put(gpu)
      .put(multiprocessors)
      .put(door.handle)
      .put(door.name)
      .take();
}

std::optional<GpuIntroduction> GpuIntroduction::read(std::string_view bytes) {
  transport::ByteReader reader(bytes);
  GpuIntroduction its;
  its.boot = reader.get<decltype(its.boot)>();
  its.process = reader.get<decltype(its.process)>();
  its.gpu = reader.get<Uuid>();
  its.multiprocessors = reader.get<uint32_t>();
  its.door.handle = reader.get<IpcHandle>();
  its.door.name = reader.get<decltype(its.door.name)>();
  if (!reader.finished() || its.multiprocessors > Rings::kMostStrips) return std::nullopt;
  return its;
}

}  // namespace eccl::runtime::cuda
