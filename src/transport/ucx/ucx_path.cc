#include "transport/ucx/ucx_path.h"

#include <cerrno>
#include <utility>

namespace eccl::transport {
namespace {

/// When the peer has gone: what it sent before is here, or soon.
constexpr int kLastLooks = 64;
/// A peer that is there answers while it computes, too.
constexpr Duration kMeeting = std::chrono::seconds(2);

}  // namespace

UcxPath::UcxPath(Wiring wiring, uint32_t* peerPoison, size_t operations)
    : worker_(*wiring.worker),
      peer_(std::move(wiring.peer)),
      mine_(wiring.mine),
      theirs_(wiring.theirs),
      memory_(std::move(wiring.memory)),
      socket_(std::move(wiring.socket)),
      onBroken_(std::move(wiring.onBroken)),
      peerPoison_(peerPoison),
      begins_(wiring.begins),
      operations_(std::make_shared<std::vector<UcxOperation>>(operations)) {
  for (UcxOperation& each : *operations_) {
    each.path = this;
    each.peer = peer_.get();
  }
}

Status UcxPath::open() {
  ECCL_TRY(worker_.context().reactor->watch(socket_.get(), EPOLLIN, this));
  live_ = true;
  worker_.add(mine_, this);
  peer_->add(this);
  if (begins_) ECCL_TRY(peer_->meet());
  tellMet();
  return {};
}

void UcxPath::tellMet() {
  if (toldMet_ || !peer_->met()) return;
  toldMet_ = true;
  tell({UcxWord::Kind::met});
  if (met() && live_) onMet();
}

// Messages that come from now on are for nobody. The socket stays: there may be a last word to say.
void UcxPath::stop() {
  if (!std::exchange(live_, false)) return;
  worker_.remove(mine_, this);
  worker_.context().reactor->forget(socket_.get(), this);
}

void UcxPath::close() {
  if (std::exchange(closed_, true) || worker_.forked()) return;
  stop();
  peer_->remove(this);
  const auto underWay = [this] {
    bool any = false;
    for (const UcxOperation& each : *operations_) any |= each.underWay;
    return any;
  };
  awaitMeeting();
  // Where nothing has failed all has ended, but for what the peer has not asked for yet.
  for (int look = 0; look < kLastLooks && underWay(); ++look) worker_.look();
  if (underWay() && !peer_->revoke()) {
    for (UcxOperation& each : *operations_) each.path = nullptr;
    worker_.keep(operations_);
    worker_.keep(memory_);
    worker_.keep(peer_);
  }
  peer_.reset();  // before the socket ends: what was sent comes before that
  socket_.reset();
}

bool UcxPath::send(UcxOperation& operation, const MessageFrame& frame, const void* data, size_t bytes) {
  if (peer_->closed()) return breakLater("another connection with it has been taken back"), false;
  if (peer_->handle() == nullptr) return breakLater("the two have not met"), false;
  operation.header = {theirs_, frame};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = onSent;
  param.user_data = &operation;
  return begin(operation,
               ucp_am_send_nbx(peer_->handle(), kUcxMessages, &operation.header, sizeof operation.header, data,
                               bytes, &param),
               "sending to it failed");
}

bool UcxPath::receive(UcxOperation& operation, const UcxData& data, void* to) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = onReceived;
  param.user_data = &operation;
  return begin(operation, ucp_am_recv_data_nbx(worker_.handle(), data.at, to, data.bytes, &param),
               "receiving from it failed");
}

bool UcxPath::begin(UcxOperation& operation, ucs_status_ptr_t request, const char* what) {
  if (request == nullptr) return true;
  if (UCS_PTR_IS_ERR(request)) {
    breakLater(format("%s: %s", what, ucs_status_string(UCS_PTR_STATUS(request))));
    return false;
  }
  operation.underWay = true;
  peer_->begin();
  worker_.begun();
  return false;
}

void UcxPath::onSent(void* request, ucs_status_t status, void* operation) {
  auto* const its = static_cast<UcxOperation*>(operation);
  ucp_request_free(request);
  its->peer->ended();
  if (its->path != nullptr) its->path->end(*its, status, "sending to it failed");
}

void UcxPath::onReceived(void* request, ucs_status_t status, size_t, void* operation) {
  auto* const its = static_cast<UcxOperation*>(operation);
  ucp_request_free(request);
  its->peer->ended();
  if (its->path != nullptr) its->path->end(*its, status, "receiving from it failed");
}

void UcxPath::end(UcxOperation& operation, ucs_status_t status, const char* what) {
  operation.underWay = false;
  if (!live_) return;
  if (status != UCS_OK) return breakLater(format("%s: %s", what, ucs_status_string(status)));
  ended(operation);
}

// A socket in which nothing has been waiting takes these few bytes at once.
void UcxPath::tell(UcxWord word) {
  const auto* at = reinterpret_cast<const char*>(&word);
  for (size_t left = sizeof word; left > 0 && socket_;) {
    const ssize_t sent = socket_.send(at, left);
    if (sent <= 0) return;  // the peer has gone, and that is found out otherwise
    at += sent;
    left -= static_cast<size_t>(sent);
  }
}

void UcxPath::onReady(uint32_t) {
  if (!live_) return;
  const std::optional<Breakage> end = listen();
  if (!end || !live_) return;
  lookForLastMessages();
  if (live_) breakOff(*end);
}

/// Takes what has come over the socket; returns why it is the end of the connection, or nothing.
std::optional<Breakage> UcxPath::listen() {
  while (live_) {
    const ssize_t got =
        socket_.receive(reinterpret_cast<char*>(&heard_) + heardBytes_, sizeof heard_ - heardBytes_);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
    if (got <= 0) return Breakage::ofSocket("receiving from it", got == 0 ? 0 : errno);
    heardBytes_ += static_cast<size_t>(got);
    if (heardBytes_ < sizeof heard_) continue;
    heardBytes_ = 0;
    if (!take(heard_)) {
      return format("it said what cannot be (%u, %llu messages released); is it another version of ECCL?",
                    static_cast<unsigned>(heard_.kind), static_cast<unsigned long long>(heard_.released));
    }
  }
  return {};
}

bool UcxPath::take(const UcxWord& word) {
  if (word.kind == UcxWord::Kind::poison) {
    lookForLastMessages();
    storeRelease(peerPoison_, 1u);
    stop();
    return true;
  }
  if (word.kind != UcxWord::Kind::met) return hear(word);
  if (std::exchange(heardMet_, true)) return false;
  if (const Status status = peer_->meet(); !status.ok()) breakLater(status.message());
  tellMet();
  if (met() && live_) onMet();
  return true;
}

// What the peer sent before its last word counts.
void UcxPath::lookForLastMessages() {
  for (int look = 0; look < kLastLooks && live_ && worker_.look(); ++look) {}
  if (live_ && fault_.empty()) goOn();
}

// Of two that have not met, one that ends would take the other's UCX with it. The side that begins says nothing
// before they have met.
void UcxPath::awaitMeeting() {
  if (worker_.abandoned() || (peer_->begun() && peer_->met()) || (!begins_ && heardMet_)) return;
  char word[sizeof(UcxWord)];
  bool ended = false;
  const auto over = [&] {
    if (begins_ && peer_->met()) return true;
    const ssize_t got = ended ? -1 : socket_.receive(word, sizeof word);
    ended |= got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    return ended || (got > 0 && !begins_);
  };
  if (!worker_.goOn(kMeeting, over) || ended) worker_.abandon();
}

void UcxPath::breakLater(std::string reason) {
  if (!live_ || !fault_.empty()) return;
  fault_ = std::move(reason);
  callLater();
}

void UcxPath::peerFailed(const char* why) {
  breakLater(format("UCX has lost it: %s", why));
}

void UcxPath::later() {
  if (!live_) return;
  if (fault_.empty()) {
    tellMet();
    return goOn();
  }
  // The peer may have said why.
  const std::string fault = std::exchange(fault_, "");
  const std::optional<Breakage> heard = listen();
  if (live_) breakOff(heard.value_or(fault));
}

void UcxPath::breakOff(const Breakage& why) {
  storeRelease(peerPoison_, 1u);
  stop();
  onBroken_(why);
}

void UcxPath::poison() {
  if (worker_.forked()) return;
  if (live_) tell({UcxWord::Kind::poison});
  stop();
  worker_.abandon();
  peer_->revoke();
}

void UcxPath::closeAfterFork() {
  socket_.reset();
}

}  // namespace eccl::transport
