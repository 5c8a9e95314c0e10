#include "transport/ucx/ucx_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_peer.h"

namespace eccl::transport {
namespace {

/// Calls of UCX one after the other, as long as each finds something. Then the lanes have their turn.
constexpr int kCalls = 16;
/// The first attempt to arm may only take away what woke the last sleep.
constexpr int kArmings = 4;

}  // namespace

Status UcxWorker::open() {
  ECCL_ASSIGN(ucp_, openUcx());
  return openWorker();
}

Status UcxWorker::openWorker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ECCL_TRY(ucxStatus(ucp_worker_create(ucp_, &params, &worker_), "making a worker"));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessages;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = onMessage;
  handler.arg = this;
  ECCL_TRY(ucxStatus(ucp_worker_set_am_recv_handler(worker_, &handler), "active messages"));
  ECCL_TRY(readAddress());
  ECCL_TRY(ucxStatus(ucp_worker_get_efd(worker_, &bell_), "waking up"));
  return context_.reactor->watch(bell_, EPOLLIN | EPOLLET, this);
}

Status UcxWorker::readAddress() {
  for (const uint32_t flags : {0u, static_cast<uint32_t>(UCP_WORKER_ADDRESS_FLAG_NET_ONLY)}) {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = flags;
    ECCL_TRY(ucxStatus(ucp_worker_query(worker_, &attributes), "its address"));
    address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
    if (address_.size() <= mostUcxAddress()) break;
  }
  return {};
}

UcxWorker::~UcxWorker() {
  if (forked_) return;  // nothing of UCX may be touched here
  if (bell_ >= 0) context_.reactor->forget(bell_, this);
  if (abandoned_) {
    leaveUcx(worker_, std::move(kept_));
    return;
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (ucp_ != nullptr) closeUcx(ucp_);
}

UcxEndId UcxWorker::newId() {
  UcxEndId id = 0;
  while (id == 0 || ends_.count(id) > 0) context_.system->random(&id, sizeof id);
  return id;
}

void UcxWorker::remove(UcxEndId id, UcxEnd* end) {
  ends_.erase(id);
  std::erase(waiting_, end);
}

void UcxWorker::callLater(UcxEnd* end) {
  if (std::find(waiting_.begin(), waiting_.end(), end) == waiting_.end()) waiting_.push_back(end);
}

std::shared_ptr<UcxPeer> UcxWorker::peer(int rank, const std::string& address) {
  std::weak_ptr<UcxPeer>& known = peers_[rank];
  auto peer = known.lock();
  if (peer == nullptr || peer->closed() || peer->address() != address) {
    peer = std::make_shared<UcxPeer>(*this, rank, address);
    known = peer;
  }
  return peer;
}

// One look, as the driver comes again after each move, and looking in vain costs UCX a system call over TCP.
void UcxWorker::progress() {
  if (atRest()) return;
  if (look()) begun();
  // Each may begin something, and break; that may end in all paths being poisoned.
  while (!waiting_.empty()) {
    UcxEnd* const end = waiting_.back();
    waiting_.pop_back();
    end->later();
  }
}

// What is left makes no new edge.
void UcxWorker::onReady(uint32_t) {
  if (!atRest() && !drain()) context_.reactor->ring();
  progress();
}

// TCP is always armed, whatever is there: only what comes after all has been taken makes a new edge.
void UcxWorker::beforeSleep() {
  sleeping_ = true;
  if (armed_ || atRest()) return;
  for (int i = 0; i < kArmings && !armed_ && drain(); ++i) armed_ = ucp_worker_arm(worker_) == UCS_OK;
  if (!armed_) context_.reactor->ring();  // there is something to do
}

/// Takes all that has come; false: there is too much of it, or the ends have to hear of it first.
bool UcxWorker::drain() {
  int calls = 0;
  while (calls < kCalls && look()) ++calls;
  return calls < kCalls && waiting_.empty();
}

// In a callback of UCX. Nothing in the header is to be believed.
ucs_status_t UcxWorker::onMessage(void* worker, const void* header, size_t headerBytes, void* data,
                                  size_t bytes, const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<UcxWorker*>(worker);
  UcxHeader said;
  if (headerBytes != sizeof said) {
    self->ignore("its header has another length");
    return UCS_OK;
  }
  std::memcpy(&said, header, sizeof said);
  const auto found = self->ends_.find(said.end);
  if (found == self->ends_.end())
    self->ignore("it is for no connection that is there");
  else
    found->second->take(said.frame, {data, bytes, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0});
  return UCS_OK;
}

// Of a connection that has ended here something may still come.
void UcxWorker::ignore(const char* what) {
  int suppressed = 0;
  if (!limiter_.allow(context_.system->now(), &suppressed)) return;
  ECCL_INFO("%s ignores a message that came by ucx: %s%s", context_.describe(context_.rank).c_str(), what,
            suppressed > 0 ? format(" (and %d more)", suppressed).c_str() : "");
}

// The bell is this process's own descriptor of it, closed by hand as UCX must not be called.
void UcxWorker::closeAfterFork() {
  forked_ = true;
  if (bell_ >= 0) ::close(std::exchange(bell_, -1));
}

}  // namespace eccl::transport
