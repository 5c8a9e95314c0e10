// Configs of any size, version and content, exactly as long as they say. What is accepted is what it may be.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/handles.h"

using namespace eccl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  std::memcpy(&config.version, data, std::min(size, sizeof config - offsetof(ecclConfig_t, version)));
  // Strings, not wherever the bytes point to.
  const size_t texts = sizeof config - offsetof(ecclConfig_t, version);
  const std::string text(reinterpret_cast<const char*>(data) + std::min(size, texts),
                         size - std::min(size, texts));
  if (config.netName != nullptr) config.netName = text.c_str();
  if (config.commName != nullptr) config.commName = text.c_str();
  const size_t length = std::max<size_t>(16, data[0] % (sizeof config + 1));
  config.size = length;
  std::vector<char> bytes(length);
  std::memcpy(bytes.data(), &config, length);
  const auto options = runtime::optionsFrom(reinterpret_cast<const ecclConfig_t*>(bytes.data()), "fuzz", -1);
  if (!options.ok()) return 0;
  const bool possible = options->minChannels >= 0 && options->minChannels <= 32 &&
                        (options->maxChannels == 0 || options->maxChannels >= options->minChannels) &&
                        (options->name.empty() ||
                         (length >= offsetof(ecclConfig_t, collnetEnable) && options->name == text.c_str()));
  if (!possible) abort();
  return 0;
}
