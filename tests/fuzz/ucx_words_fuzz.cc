// What another rank says of UCX while a connection is set up: read, or refused; and what is read says the same
// again. The address is UCX's own to read, which nothing here calls.
#include <cstdlib>

#include "transport/ucx/ucx_words.h"

using namespace eccl;
using namespace eccl::transport;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > SetupData::kMaxBytes) return 0;
  SetupData said;
  said.bytes.assign(reinterpret_cast<const char*>(data), size);
  const UcxVersion version{1, 13};
  const Result<UcxWords> words = readUcx(said, version);
  if (!words.ok()) return 0;
  SetupData again;
  if (!sayUcx(*words, version, &again).ok() || again.bytes != said.bytes) std::abort();
  return 0;
}
