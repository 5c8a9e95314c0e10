// A rank's part of UCX: its context and worker, which all its connections share.
#pragma once

#include <ucp/api/ucp.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/reactor.h"
#include "transport/core/transport.h"
#include "transport/net/log_limiter.h"
#include "transport/ucx/ucx_words.h"

namespace eccl::transport {

class UcxPeer;

/// Data of an active message, in UCX's callback.
struct UcxData {
  void* at;  // the data, or what UCX knows of it while it is still with the sender
  size_t bytes;
  bool rendezvous;  // it is still with the sender
};

/// One end of a connection, as the worker finds it. Owner: the Connection, being its Path.
class UcxEnd {
 public:
  virtual ~UcxEnd() = default;
  /// A message for this end has come. In a callback of UCX, so it is neither the time to tell of a break nor to
  /// send: for that there is UcxWorker::callLater().
  virtual void take(const MessageFrame& frame, const UcxData& data) = 0;
  /// See UcxWorker::callLater().
  virtual void later() = 0;
  /// Messages can go both ways. In a callback of UCX.
  virtual void peerMet() = 0;
  /// UCX has given the peer up, and says why. In a callback of UCX.
  virtual void peerFailed(const char* why) = 0;
};

/// Owner: the UcxTransport. It outlives all ends and peers. Threads: the driver's. Failure: open() says why; a
/// peer that is lost is told to its ends.
///
/// While the driver sleeps, what arrives wakes it by UCX's own descriptor. The reactor watches that for good,
/// by its edges: UCX leaves it readable until it is armed again, and it is armed for sleeps only.
class UcxWorker final : public ReadyHandler {
 public:
  explicit UcxWorker(const TransportContext& context) : context_(context) {}
  ~UcxWorker() override;
  UcxWorker(const UcxWorker&) = delete;
  /// Once, before the rest. Error (system): UCX cannot be had. Not logged.
  Status open();

  const TransportContext& context() const { return context_; }
  ucp_worker_h handle() const { return worker_; }
  /// Where peers reach it. If that is too long to be told, where those on other hosts do.
  const std::string& address() const { return address_; }

  /// A number for a new end; messages for it find `end` until remove().
  UcxEndId newId();
  void add(UcxEndId id, UcxEnd* end) { ends_[id] = end; }
  /// From now on nothing calls `end`.
  void remove(UcxEndId id, UcxEnd* end);
  /// Has `end` called, as soon as no callback of UCX is under way, by progress().
  void callLater(UcxEnd* end);
  /// The peer at that address, shared by all connections with this rank.
  std::shared_ptr<UcxPeer> peer(int rank, const std::string& address);

  /// Takes what has come, and calls the ends that asked for it.
  void progress();
  /// The same without calling anybody, for those who wait: false if nothing has happened.
  bool look() { return ucp_worker_progress(worker_) > 0; }
  /// Has the driver woken by what comes from now on. Once for each sleep is enough.
  void beforeSleep();
  void afterSleep() { sleeping_ = armed_ = false; }
  /// Something was begun that UCX may have to go on with.
  void begun() {
    if (sleeping_) context_.reactor->ring();  // it may not count among what the sleep was armed for
  }
  /// Goes on without calling anybody until `done`; false: not within `limit`.
  template <class Done>
  bool goOn(Duration limit, Done&& done) {
    const TimePoint until = context_.system->now() + limit;
    while (!done()) {
      if (look()) continue;
      if (context_.system->now() >= until) return false;
      context_.system->yield();
    }
    return true;
  }
  /// Keeps `memory` as long as the worker, as UCX may still use it.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// Something has failed or was taken back. UCX 1.13 ends the process if its worker is destroyed while a peer
  /// that may not answer any more is asked for something, and nobody can tell whether one is. So the worker
  /// stays behind.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  /// In a forked child: UCX is the parent's from now on.
  void closeAfterFork();
  bool forked() const { return forked_; }

 private:
  /// UCX is the parent's, or all that used it has ended here: nothing has it go on, so that nothing is written for
  /// a peer either.
  bool atRest() const { return forked_ || (abandoned_ && ends_.empty()); }
  void onReady(uint32_t) override;
  Status openWorker();
  bool drain();
  Status readAddress();
  static ucs_status_t onMessage(void* worker, const void* header, size_t headerBytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  void ignore(const char* what);

  const TransportContext& context_;
  ucp_context_h ucp_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int bell_ = -1;  // UCX's
  std::string address_;
  std::unordered_map<UcxEndId, UcxEnd*> ends_;
  std::map<int, std::weak_ptr<UcxPeer>> peers_;
  std::vector<UcxEnd*> waiting_;  // for later()
  std::vector<std::shared_ptr<void>> kept_;
  LogLimiter limiter_;
  bool sleeping_ = false, armed_ = false;
  bool forked_ = false, abandoned_ = false;
};

}  // namespace eccl::transport
