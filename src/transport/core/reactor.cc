#include "transport/core/reactor.h"

namespace eccl::transport {
namespace {

// Tags of events: a handler's address, or one of these.
constexpr uint64_t kDoorbell = 0;
constexpr uint64_t kForgotten = 1;

uint64_t tagOf(ReadyHandler* handler) {
  return reinterpret_cast<uintptr_t>(handler);
}

}  // namespace

Status Reactor::open(System& system) {
  ECCL_TRY(poller_.open(system));
  ECCL_ASSIGN(*doorbell_, openBell(system));
  return poller_.watch(doorbell_->get(), EPOLLIN, kDoorbell);
}

Status Reactor::watch(int fd, uint32_t events, ReadyHandler* handler) {
  return poller_.watch(fd, events, tagOf(handler));
}

void Reactor::forget(int fd, ReadyHandler* handler) {
  poller_.forget(fd);
  // Dropping an event of another descriptor of this handler does no harm: epoll reports it again.
  for (int i = fetchedAt_; i < fetchedCount_; ++i) {
    if (fetched_[i].data.u64 == tagOf(handler)) fetched_[i].data.u64 = kForgotten;
  }
}

bool Reactor::poll(Duration limit) {
  fetchedCount_ = poller_.wait(fetched_, kBatch, limit);
  for (fetchedAt_ = 0; fetchedAt_ < fetchedCount_;) {
    const epoll_event event = fetched_[fetchedAt_++];
    if (event.data.u64 == kForgotten) continue;
    if (event.data.u64 == kDoorbell) {
      clearBell(*doorbell_);
    } else {
      reinterpret_cast<ReadyHandler*>(event.data.u64)->onReady(event.events);
    }
  }
  const bool happened = fetchedCount_ > 0;
  fetchedCount_ = fetchedAt_ = 0;
  return happened;
}

void Reactor::ring() {
  ringBell(*doorbell_);
}

void Reactor::closeAfterFork() {
  poller_.close();
  doorbell_->reset();
}

}  // namespace eccl::transport
