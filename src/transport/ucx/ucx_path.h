// What both ends of a UCX connection share: the set-up's socket, what is under way, and how the connection
// breaks.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/connection.h"
#include "transport/core/reactor.h"
#include "transport/core/ring_memory.h"
#include "transport/messages/assemblies.h"
#include "transport/ucx/ucx_peer.h"
#include "transport/ucx/ucx_worker.h"

namespace eccl::transport {

class UcxPath;

/// A send or a receive that UCX may not have ended yet. Its place stays the same until then.
struct UcxOperation {
  UcxPath* path = nullptr;  ///< nullptr: it has gone
  UcxPeer* peer = nullptr;
  bool underWay = false;
  UcxHeader header{};                      ///< of a send
  Assemblies::Message* message = nullptr;  ///< of a receive
};

/// The lane's ring is private memory. Messages travel as active messages of UCX, each with a UcxHeader,
/// straight from and to where they lie: short ones as UCX sends them, long ones by rendezvous. They may be
/// complete in any order. Credits and what asks for them are active messages without data.
///
/// The socket of the set-up stays. Each side says over it when UCX has a way to the other, and the sender waits
/// for both: before that the receiver may not know the connection. Over it go also the words after which
/// nothing comes any more (the end with the last credit, and poison), and its end is the end of the peer: UCX
/// itself finds that out after seconds, if at all, and an endpoint that is taken back loses what was about to
/// be sent.
///
/// Owner: the Connection. Threads: the driver's. Failure: a peer or socket that is lost, or a message that
/// cannot be, is told to `onBroken` once; the peer's poison word in the ring is set.
class UcxPath : public Path, public UcxEnd, public ReadyHandler {
 public:
  /// What an end is made of.
  struct Wiring {
    UcxWorker* worker = nullptr;
    std::shared_ptr<UcxPeer> peer;
    bool begins = false;  ///< this side begins to meet the other
    UcxEndId mine = 0, theirs = 0;
    RingMemory memory;
    Stream socket;
    std::function<void(const Breakage& why)> onBroken;  ///< Opening's
  };
  /// Begins to watch the socket; needed before anything else. Error: see Poller. Not logged.
  Status open();
  const char* name() const override { return "ucx"; }
  bool polls() const override { return true; }
  void beforeSleep() override { worker_.beforeSleep(); }
  void afterSleep() override { worker_.afterSleep(); }
  void poison() override;
  void closeAfterFork() override;

 protected:
  /// `peerPoison`: the word by which this side's lanes see that the peer has failed. `operations`: how many
  /// there are at most.
  UcxPath(Wiring wiring, uint32_t* peerPoison, size_t operations);
  /// Of the last class: nothing is called any more, and what has not ended is taken back.
  void close();

  bool live() const { return live_; }
  UcxOperation& operation(size_t index) { return (*operations_)[index]; }
  /// Sends a frame with `bytes` bytes from `data` on. True: UCX has taken them; else the operation is under
  /// way, or the connection about to be broken.
  bool send(UcxOperation& operation, const MessageFrame& frame, const void* data, size_t bytes);
  /// In take(): has the data come to `to`. True: it is there.
  bool receive(UcxOperation& operation, const UcxData& data, void* to);
  /// A word over the socket, as far as that takes it.
  void tell(UcxWord word);
  /// A credit, or the end, has come over the socket. False: it cannot be.
  virtual bool hear(const UcxWord& word) = 0;
  /// Messages may go.
  virtual void onMet() {}
  /// An operation that was under way has ended well. In a callback of UCX.
  virtual void ended(UcxOperation& operation) = 0;
  /// What ends have put off until no callback of UCX is under way.
  virtual void goOn() = 0;
  void callLater() { worker_.callLater(this); }
  /// One look for all connections, as Transport::progress() does.
  void look() { worker_.progress(); }
  /// UCX has a way from each side to the other.
  bool met() const { return toldMet_ && heardMet_; }
  /// Before that the peer has nothing to send.
  bool toldMet() const { return toldMet_; }
  /// The connection is broken; it is told later. The first reason counts.
  void breakLater(std::string reason);

 private:
  void onReady(uint32_t events) override;
  void later() final;
  void peerMet() final { callLater(); }
  void peerFailed(const char* why) final;
  bool begin(UcxOperation& operation, ucs_status_ptr_t request, const char* what);
  void end(UcxOperation& operation, ucs_status_t status, const char* what);
  static void onSent(void* request, ucs_status_t status, void* operation);
  static void onReceived(void* request, ucs_status_t status, size_t bytes, void* operation);
  std::optional<Breakage> listen();
  bool take(const UcxWord& word);
  void tellMet();
  void lookForLastMessages();
  void awaitMeeting();
  void breakOff(const Breakage& why);
  void stop();

  UcxWorker& worker_;
  std::shared_ptr<UcxPeer> peer_;
  const UcxEndId mine_, theirs_;
  const RingMemory memory_;
  Stream socket_;
  const std::function<void(const Breakage&)> onBroken_;
  uint32_t* const peerPoison_;
  const bool begins_;
  std::shared_ptr<std::vector<UcxOperation>> operations_;
  bool toldMet_ = false, heardMet_ = false;
  UcxWord heard_{};  // of the socket, as far as it has come
  size_t heardBytes_ = 0;
  std::string fault_;  // to be told later
  bool live_ = false, closed_ = false;
};

}  // namespace eccl::transport
