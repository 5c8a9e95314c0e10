// The settings of this transport, ECCL_IB_..., as numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace eccl::transport::verbs {

/// Defaults are those of the table of settings (base/settings_table.cc). A value.
struct VerbsOptions {
  std::string hca;           // IB_HCA
  int gidIndex = -1;         // IB_GID_INDEX; -1: chosen
  std::string family;        // SOCKET_FAMILY: of the addresses in GIDs
  uint8_t trafficClass = 0;  // IB_TC
  uint8_t serviceLevel = 0;  // IB_SL
  uint8_t timeout = 18;      // IB_TIMEOUT: 4.096 us * 2^timeout
  uint8_t retries = 7;       // IB_RETRY_CNT
  uint16_t pkeyIndex = 0;    // IB_PKEY
  uint32_t queuePairs = 1;   // IB_QPS_PER_CONNECTION
  uint64_t cacheBytes = 0;   // IB_CACHE_BYTES
  bool onDemand = false;     // IB_ON_DEMAND
};

/// `setting`: TransportContext's.
VerbsOptions optionsBy(const std::function<std::string(std::string_view name)>& setting);

}  // namespace eccl::transport::verbs
