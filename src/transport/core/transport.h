// What a transport is: a way to connect two ranks, with a folder of its own and one line in the registry
// (transport/registry/registry.cc), or a module that is opened at run time (transport_module.h).
//
// A connection is set up in three messages, which connect/ carries, and whose content only the transport knows:
//
//   dialing rank  → offer         Transport::offer() fills it in
//   receiving     → answer        Transport::accept() reads the offer and fills in the answer
//   dialing       → confirmation  Offer::onAnswer() reads the answer and fills in the confirmation
//
// Then both sides open() their end. An answer without content is the last word, as any is between threads of
// one process; and over the network an offer without content is made by the call itself. Until the last word
// either side may change its mind, and the next transport is tried: connect/ goes through those that are
// allowed, in order. It also owns what all have in common: who the caller is, the queue of dials and its
// limits, refusals, and the watch over the peer's process.
//
// No call of this interface blocks. What takes longer than a call goes on in Transport::progress() or in
// handlers of the reactor. Threads: the driver's, except where said.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "base/system.h"
#include "transport/core/connection.h"
#include "transport/core/memory_use.h"
#include "transport/core/reactor.h"
#include "transport/net/endpoint.h"
#include "transport/net/stream.h"

namespace eccl::transport {

/// Over what a connection is set up: how far away a peer of this transport may be.
enum class Reach : uint8_t {
  process,  ///< threads of one process: messages may carry an object, and take no descriptor
  host,     ///< processes of one host: an AF_UNIX socket, whose messages may carry descriptors
  network,  ///< a TCP socket
};

/// The content of one message of a set-up. Within the bounds below, a transport says in it what it likes.
/// Descriptors that came and are not moved out are closed with it.
struct SetupData {
  static constexpr size_t kMaxBytes = 4096, kMaxDescriptors = 8;

  std::string bytes;
  std::vector<Fd> descriptors;   ///< Reach::host: passed to the peer, or received from it
  std::vector<int> lent;         ///< Reach::host: passed after those; they stay the transport's
  std::shared_ptr<void> object;  ///< Reach::process
  int32_t process = 0;           ///< Reach::host: whose offer it is, by the kernel; 0: not known

  /// A message without content is the last word; see the head of this file.
  bool empty() const { return bytes.empty() && descriptors.empty() && lent.empty() && object == nullptr; }
  /// The bytes are those of `value`, as they lie in memory.
  template <class T>
  void set(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxBytes);
    bytes.assign(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// Nothing if the bytes are not of T's size. Nothing in them is to be believed.
  template <class T>
  std::optional<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() != sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};

/// The most that TransportContext::slotSpread is of use.
inline constexpr uint64_t kMostSlotSpread = 8 << 20;

/// What a transport needs to know of its rank. Constant but for ring, directFrom, slotSpread and nearPorts,
/// which are set before the first connection. Outlives the transport.
struct TransportContext {
  int rank = 0;
  Reactor* reactor = nullptr;
  System* system = nullptr;
  RingShape ring;  // of all connections, on all ranks
  uint64_t firstMessage = 0;
  uint16_t epoch = 0;
  bool allowDirect = true;     // ranks of this host read and write each other's user memory
  uint32_t directFrom = 0;     // bytes from which they do; for connections to come
  int64_t singleCopy = -1;     // bytes from which they read plain memory; 0: never; -1: as measured
  int64_t slotStreaming = -1;  // likewise: from which they write messages past the caches
  /// Network ports of this host by name (mlx5_0, eth0; mlx5_0:2 where a device has several), those first that
  /// this rank best uses. Ports that the topology does not know are not among them.
  std::vector<std::string> nearPorts;
  uint64_t slotSpread = 0;    // bytes of shared memory that its messages go round in; for connections to come
  uint32_t zeroCopyFrom = 0;  // bytes from which a socket sends straight from the user's memory
  uint32_t partBytes = 0;     // over several sockets, a message travels in parts of so many; longer ones are
                              // worth a way of their own through the network
  size_t bytesPerCall = 0;    // for tests: most bytes that one socket call moves; SIZE_MAX: no limit
  std::function<const Endpoint&(int rank)> endpoint;  // valid as long as the communicator
  std::function<std::string(int rank)> describe;      // "rank 3 (host pid 12)", for messages
  /// A setting as text, by its name in the table, without ECCL_: Settings::valueOf().
  std::function<std::string(std::string_view name)> setting;

  /// The ring in `memory`, of this shape or of `ring`, as the end of a connection sees it.
  template <class End>
  void attach(End& end, void* memory, const RingShape& shape) const {
    attachRing(end, memory, shape, firstMessage, epoch);
  }
  template <class End>
  void attach(End& end, void* memory) const {
    attach(end, memory, ring);
  }
  /// "rank 0 (...) to rank 1 (...), channel 2, tag 3".
  std::string text(const ConnectionId& id) const {
    return format("%s to %s, channel %d, tag %d", describe(id.from).c_str(), describe(id.to).c_str(),
                  id.channel, id.tag);
  }
};

/// What open() gets besides the end of the ring. Several sockets or queue pairs are the path's own affair: it
/// may agree on them with its peer in the messages of the set-up.
struct Opening {
  /// Over which the connection was set up; none within a process. A path that wants it moves it out; else the
  /// caller closes it, or keeps it to watch the peer.
  Stream& socket;
  /// The path calls it once, when the connection breaks, as the last thing it does in a call. The path may be
  /// poisoned meanwhile, not destroyed.
  std::function<void(const Breakage& why)> onBroken;
  /// For a path of the sender that takes further sockets, or has flows that can be moved: to be called once,
  /// when that is worth while.
  std::function<void()> onWantsMore;
  /// For a path of the sender that takes further sockets: one of them is of no use any more, and the path goes
  /// on without it.
  std::function<void(const SocketEnds& ends, const std::string& why)> onSocketLost;
};

/// The dialing side of a set-up. Owner: the link that dials. Destroyed without open(), it takes back what it
/// has offered: a receiver that has accepted must not wait for it.
class Offer {
 public:
  virtual ~Offer() = default;
  /// The receiver has accepted. Fills in the confirmation. An error: the answer cannot be, or this way does
  /// not work; it is taken for the receiver's mistake, and the next transport is tried.
  virtual Status onAnswer(SetupData& answer, SetupData* confirmation) = 0;
  /// Makes the path, once, after the last word of the set-up. Attaches `end` to its ring and gives it the
  /// windows of memory that each side can reach. An error fails the connection for good.
  virtual Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) = 0;
};

/// The receiving side. Owner: the link that was called. Destroyed without open(), it lets go of what it was
/// offered.
class Acceptance {
 public:
  virtual ~Acceptance() = default;
  /// The sender's last word; an error gives the set-up up.
  virtual Status onConfirmation(SetupData& confirmation) = 0;
  /// As Offer::open().
  virtual Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening opening) = 0;
};

/// One rank's part of a transport: what its connections share (a device, a completion queue, a cache).
/// Owner: the Connector, which makes it when a connection first needs it and destroys it after all its paths.
class Transport {
 public:
  virtual ~Transport() = default;
  /// False: not worth trying. The endpoint is all that is known of the peer, and proves nothing.
  virtual bool reachable(int /*peer*/, const Endpoint& /*endpoint*/) const { return true; }
  /// Begins a set-up as the sender; fills in *offer. An error leads to the next transport; it is not logged
  /// here.
  virtual Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) = 0;
  /// Takes the offer of a sender, which may be anything, and fills in *answer. An error is told to the
  /// sender, which tries its next transport.
  virtual Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData& offer,
                                                     SetupData* answer) = 0;
  /// True: progress() is called with each pass of the driver, for what no descriptor of the reactor tells. One
  /// call serves all connections. Before the driver sleeps Path::beforeSleep() is called; what arrives from
  /// then on has to make a descriptor ready.
  virtual bool polls() const { return false; }
  virtual void progress() {}
  /// The user has registered this memory: it will be used often, and stays until it is deregistered. Told once,
  /// however often it is registered. Any thread, one at a time. What cannot be registered is used all the same.
  virtual void registerMemory(const MemoryRange& /*memory*/) {}
  /// The last registration of it has ended. Not called for what is registered when the transport is
  /// destroyed.
  virtual void deregisterMemory(const MemoryRange& /*memory*/) {}
  /// A call is about to use this memory, whether it is registered or not. The transport may see to it that its
  /// devices reach the memory while the call keeps what is returned, all of which ends before the transport.
  /// Empty: it does nothing. `dmabuf`: of lasting memory, a descriptor of all of it by which devices get at
  /// it, for the time of this call; -1: they get at it as at the processor's, if they can.
  virtual std::vector<std::unique_ptr<MemoryUse>> useMemory(const MemoryRange& /*memory*/, MemoryFor /*what*/,
                                                            MemoryKind /*kind*/, int /*dmabuf*/) {
    return {};
  }
  /// Whether useMemory() may be of use.
  virtual bool usesMemory() const { return false; }
  /// In a forked child: closes descriptors, touches nothing that the parent uses.
  virtual void closeAfterFork() {}
};

/// A line of the registry: how a rank gets its own part of a transport. Constant, and there as long as the
/// process.
struct TransportEntry {
  const char* name;  ///< for ECCL_TRANSPORT and messages
  int priority;      ///< the higher is tried first, of those that reach equally far
  Reach reach;
  const char* disabledBy;  ///< the setting, without ECCL_, that forbids it by 1; or nullptr
  /// `context` outlives what is made. An error says what is missing on this host; the transport is then not
  /// used.
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext& context);
  /// For people, a line each: what it would use on this host, and what not, and why. nullptr: nothing to say.
  std::vector<std::string> (*report)(const Settings& settings) = nullptr;
};

/// Which transports a communicator may use.
struct TransportChoice {
  struct Forbidden {
    std::string name, why;  ///< why: "ECCL_TRANSPORT=shm"
  };
  std::vector<const TransportEntry*> allowed;  ///< in the order in which they are tried
  std::vector<Forbidden> forbidden;            ///< the others
};

}  // namespace eccl::transport
