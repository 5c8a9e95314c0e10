#include "transport/net/openssl.h"

#include <dlfcn.h>

#include <memory>

namespace eccl::transport {
namespace {

constexpr const char* kLibrary = "libssl.so.3";

Status missing(const char* why) {
  return Status::error(Code::system,
                       "ECCL_ENCRYPT=1 needs OpenSSL 3, which cannot be used here: %s. Install it (Debian: "
                       "libssl3), or set ECCL_ENCRYPT=0 on all ranks",
                       why);
}

}  // namespace

Result<const OpenSsl*> OpenSsl::get() {
  static const auto* const opened = new Result<const OpenSsl*>([]() -> Result<const OpenSsl*> {
    std::unique_ptr<OpenSsl> library(new OpenSsl);
    ECCL_TRY(library->open());
    return library.release();
  }());
  return *opened;
}

Status OpenSsl::open() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return missing(why != nullptr ? why : kLibrary);
  }
#define ECCL_OPENSSL_FIND(function)                                           \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function)); \
  if (function == nullptr) return missing("libssl.so.3 has no function " #function);
  ECCL_OPENSSL_FUNCTIONS(ECCL_OPENSSL_FIND)
#undef ECCL_OPENSSL_FIND
  // Threads of ours may outlive main(): what OpenSSL frees at exit they may still use.
  if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr) != 1) return missing("it does not start");
  return {};
}

}  // namespace eccl::transport
