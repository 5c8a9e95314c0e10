// A transport module for tests: the AF_UNIX socket over which a connection was set up, as a stream of frames.
// It polls: while the driver runs it looks at its sockets itself, and only while the driver sleeps the reactor
// does.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/log.h"
#include "transport/core/ring_memory.h"
#include "transport/core/transport_module.h"

namespace eccl::transport {
namespace {

enum class Kind : uint32_t { message, credit, end, poison };
struct Frame {
  Kind kind;
  uint32_t length, signature;  // of a message, whose data follows
  uint16_t flags, epoch;
  uint64_t number;  // of a message; of a credit: messages released so far
};

class UnixPath;

struct UnixTransport final : Transport {
  explicit UnixTransport(const TransportContext& its) : context(its) {}
  Result<std::unique_ptr<Offer>> offer(const ConnectionId&, SetupData*) override;
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId&, SetupData&, SetupData*) override;
  bool polls() const override { return true; }
  void progress() override;
  // What a device would do with it is written down instead.
  void registerMemory(const MemoryRange& memory) override {
    ECCL_INFO("unix: %zu bytes registered", memory.bytes);
  }
  void deregisterMemory(const MemoryRange& memory) override {
    ECCL_INFO("unix: %zu bytes deregistered", memory.bytes);
  }

  const TransportContext& context;
  std::set<UnixPath*> paths;
};

/// What both ends do: frames out of `out_` into the socket, and out of the socket into take().
class UnixPath : public Path, public ReadyHandler {
 public:
  UnixPath(UnixTransport& transport, RingMemory memory, Opening opening, uint32_t* peerPoison)
      : transport_(transport),
        memory_(std::move(memory)),
        socket_(opening.socket.takeFd()),
        onBroken_(std::move(opening.onBroken)),
        peerPoison_(peerPoison) {
    transport_.paths.insert(this);
  }
  ~UnixPath() override {
    transport_.paths.erase(this);
    afterSleep();
  }
  const char* name() const override { return "unix"; }
  void progress() {
    for (fill(); writing(); fill()) {
      write();
      if (writing()) break;  // the socket is full
    }
    read();
    if (watching_) watch();
  }
  void kick() override { progress(); }
  void flush() override { progress(); }
  void beforeSleep() override {
    progress();
    if (socket_ && !poisoned_) watch();
  }
  void afterSleep() override {
    if (std::exchange(watching_, false)) transport_.context.reactor->forget(socket_.get(), this);
  }
  void onReady(uint32_t) override { progress(); }
  void poison() override {
    if (!socket_ || poisoned_) return;
    // In the middle of a frame there is no place for it, and the peer sees the stream end instead.
    write();
    if (out_.empty()) put({Kind::poison, 0, 0, 0, 0, 0});
    write();
    poisoned_ = true;
    afterSleep();
    socket_.system().shutdown(socket_.get(), SHUT_WR);
  }
  void closeAfterFork() override {
    watching_ = false;
    socket_.reset();
  }

 protected:
  /// The next frame, unless one is still being written, into put().
  virtual void fill() = 0;
  /// A frame has come: where its data goes.
  virtual std::byte* take(const Frame& frame) = 0;
  virtual void taken(const Frame& frame) = 0;
  void put(const Frame& frame, const void* data = nullptr, size_t length = 0) {
    const auto* bytes = reinterpret_cast<const char*>(&frame);
    out_.insert(out_.end(), bytes, bytes + sizeof frame);
    if (length > 0)
      out_.insert(out_.end(), static_cast<const char*>(data), static_cast<const char*>(data) + length);
  }
  bool writing() const { return !out_.empty(); }
  void breakOff(const Breakage& why) {
    if (!socket_) return;
    storeRelease(peerPoison_, 1u);
    afterSleep();
    socket_.reset();
    onBroken_(why);
  }

 private:
  void watch() {
    const uint32_t events = writing() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    watching_ = transport_.context.reactor->watch(socket_.get(), events, this).ok();
  }
  void write() {
    while (!out_.empty() && socket_ && !poisoned_) {
      const ssize_t sent = socket_.system().send(socket_.get(), out_.data(),
                                                 std::min(out_.size(), transport_.context.bytesPerCall));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) out_.clear();  // the break shows when reading
      if (sent <= 0) return;
      out_.erase(out_.begin(), out_.begin() + sent);
    }
  }
  void read() {
    while (socket_ && !poisoned_) {
      const bool head = got_ < sizeof frame_;
      std::byte* const to =
          head ? reinterpret_cast<std::byte*>(&frame_) + got_ : target_ + (got_ - sizeof frame_);
      const size_t missing = head ? sizeof frame_ - got_ : sizeof frame_ + frame_.length - got_;
      const ssize_t got =
          socket_.system().recv(socket_.get(), to, std::min(missing, transport_.context.bytesPerCall));
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) {
        return breakOff({got == 0 ? "the peer closed the connection" : std::strerror(errno),
                         got == 0 || errno == ECONNRESET});
      }
      got_ += static_cast<size_t>(got);
      if (got_ == sizeof frame_ && frame_.kind == Kind::poison) {
        storeRelease(peerPoison_, 1u);
        poisoned_ = true;
        return afterSleep();
      }
      if (got_ == sizeof frame_ && (target_ = take(frame_)) == nullptr)
        return breakOff({"it sent a frame that cannot be"});
      if (got_ < sizeof frame_ + frame_.length) continue;
      taken(frame_);
      got_ = 0;
    }
  }

  UnixTransport& transport_;
  const RingMemory memory_;
  Fd socket_;
  const std::function<void(const Breakage&)> onBroken_;
  uint32_t* const peerPoison_;
  std::vector<char> out_;
  Frame frame_{};
  std::byte* target_ = nullptr;
  size_t got_ = 0;  // of frame_ and its data
  bool watching_ = false, poisoned_ = false;
};

class UnixSender final : public UnixPath {
 public:
  UnixSender(UnixTransport& transport, RingMemory memory, Opening opening, SendEnd& end)
      : UnixPath(transport, std::move(memory), std::move(opening), &end.control->receiverPoison),
        end_(end),
        sent_(end.next) {}
  bool drained() const override { return end_.control->released == end_.next; }
  void endReceiving() override {}

 private:
  void fill() override {
    if (writing() || sent_ == end_.next) return;
    Slot& slot = *end_.slot(sent_);
    const void* data =
        (slot.flags & kSlotGet) != 0 ? reinterpret_cast<void*>(slot.offset) : end_.dataOf(slot, slot.length);
    const auto flags = static_cast<uint16_t>(slot.flags & kSlotLast);
    put({Kind::message, slot.length, slot.signature, flags, slot.epoch, sent_++}, data, slot.length);
  }
  std::byte* take(const Frame& frame) override {
    const uint64_t released = end_.control->released;
    if ((frame.kind != Kind::credit && frame.kind != Kind::end) || frame.length != 0 ||
        frame.number - released > sent_ - released)
      return nullptr;
    return &nothing_;
  }
  void taken(const Frame& frame) override {
    storeRelease(&end_.control->released, frame.number);
    if (frame.kind == Kind::end) storeRelease(&end_.control->receiverEnded, 1u);
  }

  SendEnd& end_;
  uint64_t sent_;
  std::byte nothing_{};
};

class UnixReceiver final : public UnixPath {
 public:
  UnixReceiver(UnixTransport& transport, RingMemory memory, Opening opening, ReceiveEnd& end)
      : UnixPath(transport, std::move(memory), std::move(opening), &end.control->senderPoison),
        end_(end),
        told_(end.next) {
    static_cast<RingEnd&>(producer_) = end;
    producer_.releasedSeen = end.next;
  }
  bool drained() const override { return told_ == end_.next && !writing(); }
  void endReceiving() override {
    ends_ = true;
    progress();
  }

 private:
  void fill() override {
    if (writing() || (told_ == end_.next && !ends_)) return;
    told_ = end_.next;
    put({std::exchange(ends_, false) ? Kind::end : Kind::credit, 0, 0, 0, 0, told_});
  }
  std::byte* take(const Frame& frame) override {
    const uint64_t message = producer_.next;
    if (frame.kind != Kind::message || frame.number != message || frame.length > end_.shape.slotBytes ||
        message - end_.next >= end_.shape.slots || (frame.flags & ~kSlotLast) != 0)
      return nullptr;
    const PutOffer& offer = end_.offers[message & (end_.shape.offers() - 1)];
    const bool offered = loadAcquire(&offer.sequence) == message + 1 && offer.length == frame.length &&
                         frame.length > kInlineBytes;
    placed_ = offered ? kSlotPut : 0;
    return offered ? reinterpret_cast<std::byte*>(offer.offset) : producer_.place(frame.length);
  }
  void taken(const Frame& frame) override {
    producer_.epoch = frame.epoch;
    producer_.publish(frame.length, frame.flags | placed_, frame.signature);
  }

  ReceiveEnd& end_;
  SendEnd producer_;
  uint16_t placed_ = 0;
  uint64_t told_;
  bool ends_ = false;
};

class UnixSetup final : public Offer, public Acceptance {
 public:
  explicit UnixSetup(UnixTransport& transport) : transport_(transport) {}
  Status onAnswer(SetupData&, SetupData*) override { return {}; }
  Status onConfirmation(SetupData&) override { return {}; }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) override {
    return openEnd<UnixSender>(end, std::move(opening));
  }
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening opening) override {
    return openEnd<UnixReceiver>(end, std::move(opening));
  }

 private:
  template <class UnixEnd, class End>
  Result<std::unique_ptr<Path>> openEnd(End& end, Opening opening) {
    const TransportContext& context = transport_.context;
    ECCL_ASSIGN(RingMemory memory, mapPrivate(ringMemoryBytes(context.ring)));
    formatRing(memory.get(), context.ring, context.firstMessage);
    context.attach(end, memory.get());
    end.mine = kOwnAddressSpace;
    end.directFrom = context.zeroCopyFrom;
    return std::unique_ptr<Path>(
        std::make_unique<UnixEnd>(transport_, std::move(memory), std::move(opening), end));
  }
  UnixTransport& transport_;
};

Result<std::unique_ptr<Offer>> UnixTransport::offer(const ConnectionId&, SetupData*) {
  return std::unique_ptr<Offer>(std::make_unique<UnixSetup>(*this));
}
Result<std::unique_ptr<Acceptance>> UnixTransport::accept(const ConnectionId&, SetupData&, SetupData*) {
  return std::unique_ptr<Acceptance>(std::make_unique<UnixSetup>(*this));
}
void UnixTransport::progress() {
  for (UnixPath* each : paths) each->progress();
}

const TransportEntry kUnixTransport = {
    "unix", 150, Reach::host, nullptr,
    [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<UnixTransport>(context));
    }};

}  // namespace
}  // namespace eccl::transport

ECCL_TRANSPORT_MODULE(eccl::transport::kUnixTransport)
