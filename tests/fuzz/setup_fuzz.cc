// What a peer says while a connection is set up and on its socket afterwards. The first byte says who dials,
// over what, and how; the next two which transport a call names. Pieces follow: descriptors, a length, bytes.
//
// The peer knows the secret. The nonces by which it proves that it shares memory are put right, so that what is
// behind the proof is reached too.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "transport/connect/connector.h"
#include "transport/connect/setup.h"
#include "transport/registry/registry.h"
#include "transport/shm/shared_heap.h"
#include "transport/shm/shm_transport.h"

namespace eccl::transport {
namespace {

enum Flag : uint8_t {
  kDials = 1,      // the library, else the peer
  kNetwork = 2,    // over TCP
  kUnproved = 4,   // the nonces stay wrong
  kNotDirect = 8,  // ECCL_P2P_DISABLE
  kEarly = 16,     // the peer answers a dial at once
  kNoOffer = 32,   // the best transport can offer nothing
};
constexpr RingShape kRing{4, 256};
constexpr RingShape kShmRing = shmRing(kRing);
constexpr size_t kRingBytes = ringMemoryBytes(kShmRing), kHeapBytes = size_t{256} << 20;
constexpr size_t kHeaderBytes = 128;  // of a message
constexpr int kMostTurns = 5000;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Bytes, and zeros behind them.
struct Input {
  std::string_view left;
  std::string_view take(size_t count) {
    const std::string_view taken = left.substr(0, count);
    left.remove_prefix(taken.size());
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
};

struct NoOffer : Transport {
  Result<std::unique_ptr<Offer>> offer(const ConnectionId&, SetupData*) override {
    return Status::error(Code::system, "no device is free");
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId&, SetupData&, SetupData*) override {
    return Status::error(Code::system, "no device is free");
  }
};
const TransportEntry kWithoutOffer{"none", 900, Reach::host, nullptr,
                                   [](const TransportContext&) -> Result<std::unique_ptr<Transport>> {
                                     return std::unique_ptr<Transport>(std::make_unique<NoOffer>());
                                   }};

/// Where the library dials: an Acceptor with the secret.
struct Door {
  Incoming incoming;
  std::unique_ptr<Acceptor> acceptor;
  Endpoint endpoint;
  Door() {
    acceptor = Acceptor::open({}, {}, [this](Incoming caller) { incoming = std::move(caller); }).take();
    endpoint = acceptor->endpoint();
    std::erase_if(endpoint.addresses, [](const SocketAddress& each) { return !each.isLoopback(); });
  }
};

/// Made once: what the peer can pass, and its door.
struct Things {
  Door door;
  SharedMemory ring = createShared("fuzz-ring", kRingBytes).take();
  SharedMemory heap = createShared("fuzz-heap", kHeapBytes).take();
  SharedMemory small = createShared("fuzz-small", kRingBytes - 64).take();
  PeerHeap known = mapPeerHeap(heap.fd.get(), kHeapBytes, 0).take();  // as by another connection
  Fd bell{System::real().eventFd()}, unsealed{memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)},
      nothing{open("/dev/null", O_RDWR | O_CLOEXEC)}, unread, full, reader;

  Things() {
    SharedHeap::ofThisProcess().window();  // which stays open
    int cut[2], stuffed[2];
    require(pipe2(cut, O_CLOEXEC) == 0 && pipe2(stuffed, O_CLOEXEC | O_NONBLOCK) == 0);
    unread = Fd(cut[1]);
    Fd(cut[0]).reset();
    reader = Fd(stuffed[0]);
    full = Fd(stuffed[1]);
    const char zeros[4096] = {};
    while (write(full.get(), zeros, sizeof zeros) > 0) continue;
    require(fcntl(full.get(), F_SETFL, 0) == 0);  // whoever writes there now waits
    require(ftruncate(unsealed.get(), static_cast<off_t>(kRingBytes)) == 0);
  }
  int of(uint8_t kind) const {
    const int all[] = {ring.fd.get(),  bell.get(),   heap.fd.get(), small.fd.get(),
                       unsealed.get(), unread.get(), full.get(),    nothing.get()};
    return all[kind % std::size(all)];
  }
};

/// The library is rank 0, and the peer rank 1.
class SetUp : ReadyHandler {
 public:
  SetUp(uint8_t flags, uint16_t named, Things& things) : flags_(flags), named_(named), things_(things) {
    require(reactor_.open(System::real()).ok());
    require(reactor_.watch(things_.door.acceptor->fd(), EPOLLIN, this).ok());
    ConnectorOptions options;
    options.ring = kRing;
    options.allowDirect = !has(kNotDirect);
    if (has(kNoOffer)) options.transports.allowed.push_back(&kWithoutOffer);
    for (const TransportEntry* entry : knownTransports()) {
      if (!has(kDials) || !has(kNetwork) || entry->reach == Reach::network)
        options.transports.allowed.push_back(entry);
    }
    options.endpoint = [this](int) -> const Endpoint& { return things_.door.endpoint; };
    connector_ = std::make_unique<Connector>(options, reactor_);
    connection_ = connector_->get(has(kDials) ? ConnectionId{0, 1, 0, 0} : ConnectionId{1, 0, 0, 0});
  }
  ~SetUp() override {
    called_.reset();
    drive();
    connector_.reset();
    things_.door.acceptor->progress();
    things_.door.incoming = {};
  }

  void play(Input input) {
    input_ = input;
    if (has(kDials)) wait();
    while (!input_.left.empty()) {
      const std::string_view bytes = say();
      drive();
      check(bytes);
    }
  }

 private:
  bool has(Flag flag) const { return (flags_ & flag) != 0; }
  bool is(const char* path) const {
    return connection_->state() == Connection::State::ready &&
           connection_->path()->name() == std::string_view(path);
  }

  void onReady(uint32_t) override {
    things_.door.acceptor->progress();
    if (!things_.door.incoming.socket) return;
    called_ = things_.door.incoming.socket.takeFd();
    offered_.reset();
    const linger none{1, 0};  // many thousand sockets would wait for their ports
    if (!things_.door.incoming.viaUnix) setsockopt(called_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    if (has(kEarly) && !input_.left.empty()) say();
  }
  bool turn(Duration rest) {
    connector_->progress();
    if (connection_->path() != nullptr) {
      connection_->path()->kick();
      connection_->path()->flush();
    }
    return reactor_.poll(rest);
  }
  void drive() {
    int turns = 0;
    while (turn(Duration::zero())) require(++turns < kMostTurns);
  }
  void wait() {
    for (int turns = 0; !called_; ++turns) {
      turn(std::chrono::milliseconds(1));
      require(turns < kMostTurns);
    }
  }

  /// The peer calls: at first, and again when the library has hung up.
  void call() {
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    called_ = Fd(pair[0]);
    void* const ring = std::memset(things_.ring.memory.get(), 0, kShmRing.dataAt());  // no data comes
    formatRing(ring, kShmRing, 0);
    proofIn(ring, kShmRing) = {};
    Incoming incoming;
    incoming.hello.rank = 1;
    incoming.hello.setPayload(DataHello{1, 0, 0, 0, kRing.slots, kRing.slotBytes, 0, named_, 0});
    incoming.socket = Fd(pair[1]);
    incoming.viaUnix = !has(kNetwork);
    connector_->adopt(std::move(incoming));
  }

  /// Writes the nonce of an offer or answer into the memory.
  void prove(std::string_view bytes) {
    if (has(kUnproved)) return;
    if (has(kDials) && offered_ == nullptr && called_ && !has(kNetwork)) {
      SetupSocket socket(std::move(called_));
      Result<std::optional<SetupMessage>> offer = socket.receive();
      called_ = socket.take().takeFd();
      if (offer.ok() && *offer && !(*offer)->data.descriptors.empty())
        offered_ = mapShared((*offer)->data.descriptors[0].get(), kRingBytes).take();
    }
    const size_t at = kHeaderBytes + (has(kDials) ? offsetof(ShmAnswer, nonce) : offsetof(ShmOffer, nonce));
    void* const memory = has(kDials) ? offered_.get() : things_.ring.memory.get();
    if (memory == nullptr || bytes.size() < at + sizeof(Nonce)) return;
    RingProof& proof = proofIn(memory, kShmRing);
    std::memcpy(has(kDials) ? &proof.receiver : &proof.sender, bytes.data() + at, sizeof(Nonce));
  }

  /// The next piece. Returns its bytes.
  std::string_view say() {
    std::vector<int> descriptors(input_.number<uint8_t>() % 16);
    for (int& fd : descriptors) fd = things_.of(input_.number<uint8_t>());
    const std::string_view bytes = input_.take(input_.number<uint16_t>());
    if (!called_ && !has(kDials)) call();
    prove(bytes);
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty() && !has(kNetwork)) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
    }
    if (called_ && sendmsg(called_.get(), &message, MSG_NOSIGNAL) < 0)
      called_.reset();  // the library has hung up
    return bytes;
  }

  /// Once the connection is ready: takes what came, or sends something and lets the peer speak of its heap.
  void check(std::string_view bytes) {
    if (connection_->state() != Connection::State::ready) return;
    if (connection_->sends()) {
      SendEnd& end = connection_->sendEnd;
      if (is("shm"))
        std::memcpy(&end.control->receiverHeap, bytes.data(), std::min(bytes.size(), sizeof(HeapNews)));
      if (end.reserve() != nullptr) end.publish(0, 0, 0);
    } else {
      for (Received received; connection_->receiveEnd.peek(received);) connection_->receiveEnd.release();
    }
    drive();
    const RingEnd& end =
        connection_->sends() ? static_cast<RingEnd&>(connection_->sendEnd) : connection_->receiveEnd;
    require(end.theirs.size <= kHeapBytes);
    require(!is("shm") || !has(kNotDirect) || (end.theirs.size == 0 && end.mine.size == 0));
  }

  const uint8_t flags_;
  const uint16_t named_;
  Things& things_;
  Input input_;
  Reactor reactor_;
  std::unique_ptr<Connector> connector_;
  Connection* connection_ = nullptr;
  Fd called_;           // the peer's end
  RingMemory offered_;  // by the library
};

}  // namespace
}  // namespace eccl::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eccl::transport;
  static Things* const things = new Things;
  const auto lowestFree = [] { return Fd(fcntl(things->nothing.get(), F_DUPFD_CLOEXEC, 0)).get(); };
  const int before = lowestFree();
  Input input{{reinterpret_cast<const char*>(data), size}};
  const auto flags = input.number<uint8_t>();
  SetUp(flags, input.number<uint16_t>(), *things).play(input);
  require(lowestFree() == before);  // no descriptor is left open
  return 0;
}
