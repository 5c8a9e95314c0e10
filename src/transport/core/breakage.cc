#include "transport/core/breakage.h"

#include <cerrno>

#include "base/status.h"
#include "transport/net/stream.h"

namespace eccl::transport {

Breakage Breakage::ofSocket(const char* call, int error) {
  if (error == 0) return {"the peer closed the connection", true};
  return {format("%s failed: %s", call, describeError(error).c_str()), error == ECONNRESET || error == EPIPE};
}

}  // namespace eccl::transport
