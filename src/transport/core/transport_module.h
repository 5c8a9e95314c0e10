// A transport as a module (base/module.h), libeccl_transport_NAME.so. Its function comes from
// ECCL_TRANSPORT_MODULE(entry) in one of its files.
#pragma once

#include "base/module.h"
#include "transport/core/transport.h"

namespace eccl::transport {

inline constexpr const char* kModuleSymbol = "eccl_transport_module";

/// What the one function of a module returns. Static, and constant.
struct TransportModule : ModuleHeader {
  explicit TransportModule(const TransportEntry* its) : entry(its) {}
  const TransportEntry* entry;
};

}  // namespace eccl::transport

/// `entry`: a TransportEntry that lives as long as the process. Outside any namespace.
#define ECCL_TRANSPORT_MODULE(transportEntry)                                                           \
  extern "C" __attribute__((visibility("default"))) const eccl::ModuleHeader* eccl_transport_module() { \
    static const eccl::transport::TransportModule module(&transportEntry);                              \
    return &module;                                                                                     \
  }
