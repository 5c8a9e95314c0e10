// The UCX endpoint that leads to a peer rank.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "transport/ucx/ucx_words.h"

namespace eccl::transport {

class UcxEnd;
class UcxWorker;

/// All connections with that rank share it. One each would cost a set-up and sockets or queue pairs each, and
/// would not keep them apart: UCX joins the endpoints of two workers in the order in which they were made, so
/// two ends of one connection need not lead to each other, and closing one may break another.
///
/// It is made with UCX's error handling, without which UCX ends the process where a connection breaks, and can
/// take nothing back. UCX 1.13 leaves shared memory out for such endpoints, unless UCX_MM_ERROR_HANDLING=y says
/// otherwise.
///
/// Owners: the paths. Threads: the driver's. Failure: told to all its ends, once.
class UcxPeer {
 public:
  UcxPeer(UcxWorker& worker, int rank, std::string address)
      : worker_(worker), rank_(rank), address_(std::move(address)) {}
  /// Lets the peer have what has been sent, for a moment.
  ~UcxPeer();
  UcxPeer(const UcxPeer&) = delete;
  /// Begins to meet its worker; again without effect. Of two ranks the lower one begins, and the other one when
  /// it hears that the two have met: UCX 1.13 may wait for ever where both begin over TCP at the same time.
  /// Error (system): UCX does not reach that address. Not logged.
  Status meet();
  bool begun() const { return begun_; }
  /// Messages can go both ways; the ends are told once.
  bool met() const { return begun_ && meeting_ == nullptr; }
  void add(UcxEnd* end) { ends_.insert(end); }
  void remove(UcxEnd* end) { ends_.erase(end); }

  /// Not null from meet() until it is closed.
  ucp_ep_h handle() const { return endpoint_; }
  bool closed() const { return begun_ && endpoint_ == nullptr; }
  const std::string& address() const { return address_; }
  /// What UCX has begun and not ended: it may read and write the memory of messages.
  int underWay() const { return underWay_; }
  void begin() { ++underWay_; }
  void ended() { --underWay_; }
  /// Takes back all that has not ended. Afterwards UCX touches no memory of messages any more. False: something
  /// has not ended in time. Again without effect.
  bool revoke();

 private:
  /// Where UCX finds the peer. It may know of it as long as the worker is there, which keeps it.
  struct Link {
    UcxPeer* peer;
  };
  static void onMet(void* request, ucs_status_t status, void* link);
  static void onError(void* link, ucp_ep_h endpoint, ucs_status_t status);
  void close(unsigned flags, Duration limit);

  UcxWorker& worker_;
  const int rank_;
  const std::string address_;
  const std::shared_ptr<Link> link_ = std::make_shared<Link>(Link{this});
  ucp_ep_h endpoint_ = nullptr;
  void* meeting_ = nullptr;  // UCX's request; nullptr: it has ended
  std::set<UcxEnd*> ends_;
  int underWay_ = 0;
  bool begun_ = false, failed_ = false;
};

}  // namespace eccl::transport
