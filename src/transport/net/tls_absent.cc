// A build without OpenSSL's headers.
#include "transport/net/tls.h"

namespace eccl::transport {

Result<std::string> tlsLibrary() {
  return Status::error(
      Code::system,
      "ECCL_ENCRYPT=1 needs an ECCL that was built with OpenSSL's headers, and this one was not: "
      "install them (Debian: libssl-dev) and build it again, or set ECCL_ENCRYPT=0 on all ranks");
}

Result<std::unique_ptr<Tls>> Tls::over(const Fd&, Side, const Secret&, std::string_view) {
  return tlsLibrary().status();
}

}  // namespace eccl::transport
