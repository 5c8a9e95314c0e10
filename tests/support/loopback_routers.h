// Routers between addresses of the loopback device, for what traces ways through a network (FlowProbe).
#pragma once

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/forwarding_system.h"

namespace eccl::test {

/// What the kernel puts into a message that asks for errors (MSG_ERRQUEUE), where a router has answered by
/// ICMP.
inline void tellAnswer(msghdr* message, const sockaddr_in& router, uint8_t type) {
  struct {
    sock_extended_err error;
    sockaddr_in offender;
  } told{};
  told.error.ee_origin = SO_EE_ORIGIN_ICMP;
  told.error.ee_type = type;
  told.offender = router;
  message->msg_controllen = CMSG_SPACE(sizeof told);
  cmsghdr* const header = CMSG_FIRSTHDR(message);
  header->cmsg_level = IPPROTO_IP;
  header->cmsg_type = IP_RECVERR;
  header->cmsg_len = CMSG_LEN(sizeof told);
  std::memcpy(CMSG_DATA(header), &told, sizeof told);
}

/// A socket that is bound to a device goes by `Way` of its source port: its packets come back from the router
/// that is as far away as they live. Those of other sockets know no routers. Datagrams really go to a port of
/// the loopback device where nobody listens, so that the kernel says when there is an answer to take. Any
/// thread.
class LoopbackRouters : public ForwardingSystem {
 public:
  /// IPv4 addresses, the nearest first.
  using Way = std::function<std::vector<std::string>(uint16_t port)>;
  explicit LoopbackRouters(Way way) : ForwardingSystem(System::real()), way_(std::move(way)) {}

  int socket(int family) override {
    ++sockets;
    return to_.socket(family);
  }
  int datagramSocket(int family) override {
    const int fd = to_.datagramSocket(family);
    const std::lock_guard lock(mutex_);
    probes_[fd].datagrams = true;
    return fd;
  }
  int setsockopt(int fd, int level, int name, const void* value, socklen_t size) override {
    const std::lock_guard lock(mutex_);
    if (level == SOL_SOCKET && name == SO_BINDTODEVICE) return probes_[fd], 0;
    if (level == IPPROTO_IP && name == IP_TTL) return std::memcpy(&probes_[fd].ttl, value, sizeof(int)), 0;
    return to_.setsockopt(fd, level, name, value, size);
  }
  int connect(int fd, const sockaddr* address, socklen_t size) override {
    const std::lock_guard lock(mutex_);
    const auto probe = probes_.find(fd);
    if (probe == probes_.end() || probe->second.datagrams || address->sa_family == AF_UNSPEC)
      return to_.connect(fd, address, size);
    Probe& its = probe->second;
    its.answers = static_cast<size_t>(its.ttl) <= hopsOf(fd).size();
    return errno = its.answers ? EHOSTUNREACH : ECONNREFUSED, -1;
  }
  ssize_t sendmsg(int fd, const msghdr* message) override {
    const std::lock_guard lock(mutex_);
    const auto probe = probes_.find(fd);
    if (!repeats || probe == probes_.end() || !probe->second.datagrams) return to_.sendmsg(fd, message);
    const ssize_t sent = to_.sendmsg(fd, message);
    int error = 0;  // of the first
    socklen_t size = sizeof error;
    to_.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return to_.sendmsg(fd, message) < 0 ? -1 : sent;
  }
  ssize_t recvmsg(int fd, msghdr* message, int flags) override {
    const std::lock_guard lock(mutex_);
    const auto probe = probes_.find(fd);
    if (probe == probes_.end() || (flags & MSG_ERRQUEUE) == 0) return to_.recvmsg(fd, message, flags);
    Probe& its = probe->second;
    if (!its.datagrams) {
      if (!std::exchange(its.answers, false)) return errno = EAGAIN, -1;
      return tell(message, hopsOf(fd)[static_cast<size_t>(its.ttl) - 1]), 0;
    }
    const std::vector<std::string> hops = hopsOf(fd);
    auto* const quoted = static_cast<char*>(message->msg_iov->iov_base);
    const ssize_t got = to_.recvmsg(fd, message, flags);
    if (got < 1) return got;
    const auto lived = static_cast<size_t>(*quoted);
    datagrams.insert({localPort(fd), lived});
    ++answered;
    if (lived <= hops.size()) tell(message, hops[lived - 1]);
    return got;
  }
  void close(int fd) override {
    {
      const std::lock_guard lock(mutex_);
      probes_.erase(fd);
    }
    to_.close(fd);
  }

  bool repeats = false;                             // each datagram is sent twice, so that it has two answers
  std::atomic<int> sockets = 0;                     // of streams that were made
  std::set<std::pair<uint16_t, size_t>> datagrams;  // that were sent: source port and for how many hops
  int answered = 0;                                 // of them

 private:
  struct Probe {
    bool datagrams = false, answers = false;
    int ttl = 0;
  };
  uint16_t localPort(int fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    to_.getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  std::vector<std::string> hopsOf(int fd) { return way_(localPort(fd)); }
  static void tell(msghdr* message, const std::string& router) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, router.c_str(), &address.sin_addr);
    tellAnswer(message, address, ICMP_TIME_EXCEEDED);
  }

  const Way way_;
  std::mutex mutex_;
  std::map<int, Probe> probes_;  // by descriptor
};

}  // namespace eccl::test
