// The receiving end of a TCP connection.
#pragma once

#include "transport/messages/assemblies.h"
#include "transport/messages/credits.h"
#include "transport/messages/message_frame.h"
#include "transport/tcp/lost_sockets.h"
#include "transport/tcp/tcp_path.h"

namespace eccl::transport {

/// Reads messages into the ring, or straight into the user's memory where an offer allows, and sends the
/// sender credits for what was released. Owner, threads, failure: see TcpPath.
///
/// One system call reads the rest of the current payload into its place and whatever follows into a small
/// stage, so that a large message costs one call and many small ones share one.
class TcpReceiver final : public TcpPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  TcpReceiver(Wiring wiring, ReceiveEnd& end)
      : TcpPath(std::move(wiring), &end.control->senderPoison), end_(end), assemblies_(end), credits_(end) {
    twins_->receiver = this;
  }
  ~TcpReceiver() override { twins_->receiver = nullptr; }

  void kick() override;
  void poll() override;
  void settle() override;
  void flush() override;
  bool drained() const override { return !credits_.owed() && creditLeft_ == 0; }
  void endReceiving() override;
  void poison() override;

  // For the twin.

  /// Reads what has come over the twin's first socket, which begins with `begun`, for both. False: it is
  /// broken, *why says how.
  bool receiveOver(TcpSender& twin, std::string_view begun, Breakage* why);
  /// What the twin tells of releases with the message that it is about to send.
  uint64_t tell() { return credits_.tell(); }
  /// Whether messages of the twin may go over the first socket: no credit has been sent in part.
  bool carries() const { return live() && creditLeft_ == 0; }
  /// Has the reactor tell of the first socket: what comes, and room if a credit or the twin's messages wait.
  void watchFirst();
  void sendingFailed(int error);

 private:
  static constexpr size_t kStage = 4096;
  static constexpr int kCallsPerReady = 16;  // then others have their turn

  /// What has come over one socket and is not at its place.
  struct Inbox {
    Assemblies::Message* message = nullptr;  // of the current part; nullptr: it is dropped
    MessageFrame part{};                     // the current one
    std::byte* target = nullptr;             // where the rest of the current part goes
    uint32_t missing = 0;                    // how much of it has not come
    size_t staged = 0;
    TcpSender* twin = nullptr;            // whose socket it is, and whose credits come with the messages
    bool leaves = false;                  // nothing more will come over it
    uint64_t number = 0;                  // the sender's, once something has come; of the first: 0
    std::vector<LostSockets::Part> came;  // of messages of several parts, at least those not complete
    size_t many = 64;                     // when complete ones are looked for
    alignas(MessageFrame) std::byte stage[kStage];

    void take(Assemblies& assemblies, uint32_t bytes);
  };

  void onReady(size_t subflow, uint32_t events) override;
  void joined(size_t subflow) override;
  void receiveFrom(size_t subflow);
  bool lookAtTwin();
  bool read(Inbox& inbox, TcpPath& over, size_t subflow, Breakage* why);
  void takeStage(Inbox& inbox);
  bool begin(Inbox& inbox, MessageFrame frame);
  bool beginAgain(Inbox& inbox, MessageFrame& frame);
  void ended(size_t subflow, const std::string& why);
  void partCame(Inbox& inbox);
  void onLost(uint64_t number);
  /// What the kernel has acknowledged is still to be read. The sender gives the socket up.
  void giveUp(size_t, const std::string&) override {}
  void sendCredit();

  ReceiveEnd& end_;
  Assemblies assemblies_;
  std::deque<Inbox> inboxes_;  // by subflow
  Inbox twinsInbox_;           // of the twin's first socket
  unsigned polls_ = 0;  // the first socket is looked at in some of them, where most comes over the twin's
  size_t polled_ = 0;   // the socket besides the first that was looked at last
  CreditsDue credits_;
  MessageFrame credit_{};  // the last that was taken from there
  size_t creditLeft_ = 0;  // bytes of credit_ not yet sent
  LostSockets lost_;
  std::unique_ptr<std::byte[]> dropped_;  // where parts go that have come already
  bool failing_ = false;                  // the connection is about to be broken off
};

}  // namespace eccl::transport
