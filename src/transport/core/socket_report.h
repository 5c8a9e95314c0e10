// What the kernel knows of a TCP socket: the facts by which one finds the link that is slow or loses packets.
#pragma once

#include <cstdint>
#include <string>

#include "transport/net/socket_ends.h"
#include "transport/net/stream.h"

namespace eccl::transport {

/// A value. Bytes are those of TCP's stream, headers of ECCL's messages and of TLS included, since the socket
/// was made.
struct SocketReport {
  SocketEnds
      ends;  ///< ports 0: the sums over those between these hosts that were closed when not needed any more
  std::string interface;   ///< of this host; empty until nameInterfaces()
  std::string cipher;      ///< Stream::cipher(); empty: not encrypted
  uint64_t sentBytes = 0;  ///< that the peer's kernel has acknowledged
  uint64_t receivedBytes = 0;
  uint64_t waitingBytes = 0;   ///< that are to be sent, or have not been acknowledged
  uint64_t unsentBytes = 0;    ///< of these
  uint64_t retransmitted = 0;  ///< packets that were sent again, up to the kernel's size of them
  uint64_t retransmittedBytes = 0;
  uint64_t packets = 0;                ///< sent, those that were sent again included
  uint64_t needless = 0;               ///< sent again though they had come, as the peer says
  uint64_t busyMicroseconds = 0;       ///< in which there was something to send
  uint64_t arrivingPerSecond = 0;      ///< bytes, at this moment, by the peer's acknowledgements
  uint32_t roundTripMicroseconds = 0;  ///< smoothed; includes the time in queues on the way
  bool known = false;                  ///< false: the kernel did not say, and all numbers are 0

  /// Sent in the time in which there was something to send; 0: not known.
  uint64_t bytesPerSecond() const;
  /// Counts what another one has carried as well.
  void add(const SocketReport& other);
};

/// Three system calls. For any socket: what cannot be found out stays empty.
SocketReport reportOf(const Stream& socket);

}  // namespace eccl::transport
