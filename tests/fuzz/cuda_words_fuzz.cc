// What another process says of its GPU, and of the memory that it lends. The first byte chooses: an
// introduction, which says the same again if it is read; or offers of parts of rings, or what is said of memory
// that both reach, each behind a byte with its length.
#include <cstdlib>

#include "runtime/cuda/gpu_introduction.h"
#include "runtime/cuda/rings.h"
#include "runtime/cuda/shown_memory.h"

using namespace eccl;
using namespace eccl::runtime::cuda;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const int what = bytes[0] % 3;
  bytes.remove_prefix(1);
  if (what == 0) {
    const auto said = GpuIntroduction::read(bytes);
    if (said && said->write() != bytes) std::abort();
    return 0;
  }
  const std::vector<Gpu*> elsewhere(3);
  Rings rings(elsewhere, System::real());
  alignas(Gpu) static std::byte gpu[sizeof(Gpu)];  // nothing asks it
  ShownMemory shown(reinterpret_cast<Gpu&>(gpu));
  while (!bytes.empty()) {
    const auto length = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    const std::string_view offer = bytes.substr(0, length);
    const Status heard = what == 1 ? rings.hear(0, 1, offer) : shown.hear(1, offer);
    if (!heard.ok() && heard.code() != eccl::Code::remote) std::abort();
    bytes.remove_prefix(offer.size());
  }
  return 0;
}
