#include "transport/core/socket_report.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>

namespace eccl::transport {

// Kernels before 4.19 fill in less: what they leave out stays 0.
SocketReport reportOf(const Stream& socket) {
  SocketReport report;
  report.ends = endsOf(socket.fd());
  if (socket.cipher() != nullptr) report.cipher = socket.cipher();
  tcp_info info{};
  socklen_t size = sizeof info;
  if (socket.system().getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return report;
  report.known = true;
  // The caller's first acknowledgement is that of its SYN, which carries nothing.
  report.sentBytes = info.tcpi_bytes_acked;
  report.receivedBytes = info.tcpi_bytes_received;
  // Packets may be short, and what a full queue of this host has dropped counts as sent twice: the less is
  // right.
  const uint64_t sentOnce = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  const uint64_t unacked = sentOnce > info.tcpi_bytes_acked ? sentOnce - info.tcpi_bytes_acked : 0;
  report.waitingBytes =
      info.tcpi_notsent_bytes + std::min(unacked, uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss);
  report.unsentBytes = info.tcpi_notsent_bytes;
  report.retransmitted = info.tcpi_total_retrans;
  report.retransmittedBytes = info.tcpi_bytes_retrans;
  report.packets = info.tcpi_data_segs_out;
  report.needless = info.tcpi_dsack_dups;
  report.busyMicroseconds = info.tcpi_busy_time;
  report.arrivingPerSecond = info.tcpi_delivery_rate;
  report.roundTripMicroseconds = info.tcpi_rtt;
  return report;
}

// Not the kernel's delivery rate, which is that of a moment: bursts and the last short message decide it.
uint64_t SocketReport::bytesPerSecond() const {
  if (busyMicroseconds == 0) return 0;
  return static_cast<uint64_t>(static_cast<double>(sentBytes) * 1e6 / static_cast<double>(busyMicroseconds));
}

void SocketReport::add(const SocketReport& other) {
  sentBytes += other.sentBytes;
  receivedBytes += other.receivedBytes;
  retransmitted += other.retransmitted;
  retransmittedBytes += other.retransmittedBytes;
}

}  // namespace eccl::transport
