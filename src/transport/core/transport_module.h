// A transport as a shared library, libeccl_transport_NAME.so, opened at run time: libeccl.so needs none of the
// libraries that it needs.
//
// It exports one C function, by ECCL_TRANSPORT_MODULE(entry) in one of its files. What passes between it and
// the library are the C++ objects of core/transport.h, so it must be built from the headers of exactly this
// version; eccl_add_transport_module() of CMake does that. It contains the functions of the library that it
// uses: what is one for each process, as SharedHeap, it has once more.
#pragma once

#include "eccl/version.h"
#include "transport/core/transport.h"

#define ECCL_MODULE_TEXT_(x) #x
#define ECCL_MODULE_TEXT(x) ECCL_MODULE_TEXT_(x)

namespace eccl::transport {

/// Counts changes of core/transport.h and of what it includes between releases.
inline constexpr uint32_t kModuleInterface = 1;
inline constexpr const char* kModuleVersion =
    ECCL_MODULE_TEXT(ECCL_MAJOR) "." ECCL_MODULE_TEXT(ECCL_MINOR) "." ECCL_MODULE_TEXT(ECCL_PATCH);
inline constexpr uint32_t kModuleMagic = 0x4d434345;  // "ECCM"
inline constexpr const char* kModuleSymbol = "eccl_transport_module";

/// What the one function of a module returns. Static, and constant.
struct TransportModule {
  // These stay as they are in all versions: another version reads them to say what is wrong.
  uint32_t magic = kModuleMagic;
  uint32_t interface = kModuleInterface;
  const char* version = kModuleVersion;  ///< of ECCL
  // What follows is of that version.
  const TransportEntry* entry = nullptr;
};
using TransportModuleFunction = const TransportModule*();

}  // namespace eccl::transport

/// `entry`: a TransportEntry that lives as long as the process. Outside any namespace.
#define ECCL_TRANSPORT_MODULE(transportEntry)                                                               \
  extern "C" __attribute__((visibility("default"))) const eccl::transport::TransportModule*                 \
  eccl_transport_module() {                                                                                 \
    static const eccl::transport::TransportModule module{eccl::transport::kModuleMagic,                     \
                                                         eccl::transport::kModuleInterface,                 \
                                                         eccl::transport::kModuleVersion, &transportEntry}; \
    return &module;                                                                                         \
  }
