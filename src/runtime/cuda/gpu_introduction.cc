#include "runtime/cuda/gpu_introduction.h"

#include "runtime/cuda/rings.h"
#include "transport/net/bytes.h"

namespace eccl::runtime::cuda {

std::string GpuIntroduction::write() const {
  transport::ByteWriter writer;
  writer.put(boot).put(process).put(gpu).put(multiprocessors);
  for (const Loans::Door& door : doors) writer.put(door.ticket).put(door.name);
  return writer.take();
}

std::optional<GpuIntroduction> GpuIntroduction::read(std::string_view bytes) {
  transport::ByteReader reader(bytes);
  GpuIntroduction its;
  its.boot = reader.get<decltype(its.boot)>();
  its.process = reader.get<decltype(its.process)>();
  its.gpu = reader.get<Uuid>();
  its.multiprocessors = reader.get<uint32_t>();
  for (Loans::Door& door : its.doors) {
    door.ticket = reader.get<Ticket>();
    door.name = reader.get<Name>();
  }
  if (!reader.finished() || its.multiprocessors > Rings::kMostStrips) return std::nullopt;
  return its;
}

}  // namespace eccl::runtime::cuda
