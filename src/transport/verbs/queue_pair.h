// One end of a reliable connection between two ports.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/core/device_flow.h"
#include "transport/core/ring_memory.h"
#include "transport/verbs/adapter.h"

namespace eccl::transport::verbs {

/// What a queue pair's peer has to know of it. Goes over the wire as it lies in memory.
struct QueueAddress {
  uint32_t number, sequence;  // of the queue pair, and of its first packet
  uint8_t gid[16];
  uint16_t lid;
  uint8_t gidIndex, gidKind;
  uint8_t mtu, ethernet;
  uint8_t unused[2];
};
static_assert(sizeof(QueueAddress) == 32);

/// Who uses a queue pair. Calls come from CompletionQueues::poll(), and for failures from any call of the pair.
class QueueUser {
 public:
  virtual ~QueueUser() = default;
  /// A message of the peer has come. Its bytes are valid during the call.
  virtual void onFrame(const std::byte* bytes, uint32_t length) = 0;
  /// Requests up to the one with this tag are done; what they read is free.
  virtual void onSent(uint64_t tag) = 0;
  /// The queue pair is of no use any more. Once.
  virtual void onFailure(const std::string& why) = 0;
};

/// What a queue pair is to hold.
struct QueueNeed {
  uint32_t sends = 0;         // requests
  uint32_t receives = 0;      // messages that the peer may send before they are taken
  uint32_t receiveBytes = 0;  // of each
  uint32_t headerBytes = 0;   // the most that send() copies
  bool writable = false;      // the peer writes to memory of this side
};

/// A queue pair with the memory for what comes, which is given to the device anew as soon as it was taken.
///
/// Requests are put together by write() and send() and given to the device by submit(), all at once. The device
/// does them in order. Only some ask for a completion.
///
/// Owner: the path. Threads: the driver's. Failure: onFailure(), once.
class QueuePair final : public CompletionUser, public PortUser {
 public:
  /// Not connected. Error (system): what the device refuses, and the limits that it has. Not logged.
  static Result<std::unique_ptr<QueuePair>> make(Adapter& adapter, const Port& port, const Gid& gid,
                                                 const QueueNeed& need, const VerbsOptions& options,
                                                 System& system);
  ~QueuePair() override;
  QueueAddress address() const;
  /// Before connect(): goes from this GID of its port instead.
  void goFrom(const Gid& gid);
  /// Ready to receive and to send. What comes is kept until start(). Error: the peer's address cannot be, or is
  /// not to be reached from this port. Not logged.
  Status connect(const QueueAddress& peer);
  /// `user` is told of what has come and of what comes.
  void start(QueueUser* user);
  /// "rxea:1, GID 1, RoCE v2, 10.0.1.1", and the peer's GID.
  const std::string& text() const { return text_; }
  const std::string& peerText() const { return peerText_; }
  /// Both ends of a connected pair: "10.0.1.1:17", the number of the queue pair behind its port's address,
  /// which on InfiniBand is the LID ("lid-5:17").
  const std::string& local() const { return local_; }
  const std::string& remote() const { return remote_; }
  /// "rxea:1".
  std::string device() const { return port_.text(); }
  /// Of a connected pair: what switches see, where they may choose among several ways and the device changes
  /// the port that they go by (udp_port.h); else nothing.
  std::optional<DeviceFlow> flow() const;
  /// Of such a pair: its packets come from this UDP port from now on. Error (system): the device refuses, or
  /// the pair has stopped. Not logged.
  Status goFromPort(uint16_t port);

  /// How many more requests can be put together.
  uint32_t room() const;
  /// Puts `length` bytes at `to` of the peer's memory.
  void write(const std::byte* from, uint32_t key, uint32_t length, uint64_t to, uint32_t remoteKey);
  /// Sends a header, which is copied, and `length` bytes behind it, which must stay until onSent() with this
  /// tag, or a later one.
  void send(const void* header, uint32_t headerBytes, const std::byte* data, uint32_t key, uint32_t length,
            uint64_t tag);
  /// Gives the device what was put together. `completion`: it says when the last of it is done; else at times.
  void submit(bool completion);
  /// All that was submitted is done, as far as it was asked for.
  bool idle() const { return signalled_ == completed_; }
  /// Stops: from the return of this on the peer writes nothing here, and the device reads nothing.
  void stop();
  bool stopped() const { return stopped_; }

  void onCompletion(const ibv_wc& completion) override;
  const Gid& gid() const override { return gid_; }
  uint8_t port() const override { return port_.number; }
  uint16_t lid() const override { return port_.lid; }
  void onPortLost(const std::string& why) override { fail(why); }
  /// In a forked child, which must not touch what the parent uses.
  void closeAfterFork();

 private:
  static constexpr uint32_t kBatch = 32;
  QueuePair(Adapter& adapter, const Port& port, const Gid& gid, const QueueNeed& need,
            const VerbsOptions& options, System& system);
  Status create();
  Status toReadyToReceive(const QueueAddress& peer);
  Status toReadyToSend();
  ibv_send_wr& add(ibv_wr_opcode what);
  bool postReceive(uint32_t index);
  std::byte* frames() const { return static_cast<std::byte*>(memory_.get()); }
  void take(const ibv_wc& completion);
  void fail(const std::string& why);

  Adapter& adapter_;
  const Port port_;
  Gid gid_, peerGid_;
  const QueueNeed need_;
  const VerbsOptions options_;
  uint32_t firstPacket_ = 0;
  std::string text_, peerText_, local_, remote_;
  QueueUser* user_ = nullptr;
  uint32_t completionNumber_ = 0;
  bool joined_ = false;
  uint32_t inlineBytes_ = 0;
  // The messages that come, then the headers of those that are sent. In pages of its own: on kernels
  // before 5.12 libibverbs takes such pages from forked children.
  RingMemory memory_;
  MemoryHandle framesMemory_;
  QueueHandle queue_;
  // Requests are numbered from 0; so many have been put together, submitted with a completion, and are done.
  uint64_t added_ = 0, signalled_ = 0, completed_ = 0;
  std::vector<uint64_t> tags_;  // by number of request, modulo need_.sends
  uint32_t batch_ = 0;
  ibv_send_wr requests_[kBatch];
  ibv_sge parts_[kBatch][2];
  std::vector<ibv_wc> early_;  // until there is a user
  std::string failure_;        // likewise
  bool stopped_ = false, failed_ = false;
};

}  // namespace eccl::transport::verbs
