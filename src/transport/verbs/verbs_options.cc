#include "transport/verbs/verbs_options.h"

#include <charconv>

namespace eccl::transport::verbs {

VerbsOptions optionsBy(const std::function<std::string(std::string_view name)>& setting) {
  VerbsOptions options;
  // The table has checked what a number may be.
  const auto number = [&](std::string_view name, auto* value) {
    const std::string text = setting(name);
    int64_t parsed = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), parsed).ec == std::errc())
      *value = static_cast<std::remove_pointer_t<decltype(value)>>(parsed);
  };
  options.hca = setting("IB_HCA");
  options.family = setting("SOCKET_FAMILY");
  options.onDemand = setting("IB_ON_DEMAND") == "1";
  number("IB_GID_INDEX", &options.gidIndex);
  number("IB_TC", &options.trafficClass);
  number("IB_SL", &options.serviceLevel);
  number("IB_TIMEOUT", &options.timeout);
  number("IB_RETRY_CNT", &options.retries);
  number("IB_PKEY", &options.pkeyIndex);
  number("IB_QPS_PER_CONNECTION", &options.queuePairs);
  number("IB_CACHE_BYTES", &options.cacheBytes);
  return options;
}

}  // namespace eccl::transport::verbs
