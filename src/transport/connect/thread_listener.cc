#include "transport/connect/thread_listener.h"

#include <map>

namespace eccl::transport {
namespace {

struct Listeners {
  std::mutex mutex;  // before that of a listener
  std::map<Identity, ThreadListener*> open;
};
Listeners& listeners() {
  static Listeners* const listeners = new Listeners;  // never destroyed: threads may outlive static destructors
  return *listeners;
}

}  // namespace

bool ThreadCall::reply(State with) {
  State expected = State::open;
  const bool told = state_.compare_exchange_strong(expected, with, std::memory_order_acq_rel);
  if (told) ringBell(*senderBell);
  return told;
}

bool ThreadCall::withdraw() {
  State expected = State::open;
  return state_.compare_exchange_strong(expected, State::withdrawn, std::memory_order_acq_rel);
}

ThreadListener::ThreadListener(const Identity& identity, std::shared_ptr<Fd> bell)
    : identity_(identity), bell_(std::move(bell)) {
  if (identity_ == Identity{}) return;  // it has no name to be found by
  std::lock_guard lock(listeners().mutex);
  listeners().open[identity_] = this;
}

ThreadListener::~ThreadListener() {
  if (forked_) return;
  {
    std::lock_guard lock(listeners().mutex);
    auto found = listeners().open.find(identity_);
    if (found != listeners().open.end() && found->second == this) listeners().open.erase(found);
  }
  for (auto& call : take()) call->reply(ThreadCall::State::gone);
}

bool ThreadListener::call(const Identity& identity, const std::shared_ptr<ThreadCall>& call) {
  std::lock_guard lock(listeners().mutex);
  auto found = listeners().open.find(identity);
  if (found == listeners().open.end()) return false;
  ThreadListener& listener = *found->second;
  {
    std::lock_guard its(listener.mutex_);
    listener.calls_.push_back(call);
    listener.arrived_.store(true, std::memory_order_release);
  }
  ringBell(*listener.bell_);
  return true;
}

bool ThreadListener::hears(const Identity& identity) {
  std::lock_guard lock(listeners().mutex);
  return listeners().open.count(identity) != 0;
}

std::vector<std::shared_ptr<ThreadCall>> ThreadListener::take() {
  std::lock_guard lock(mutex_);
  arrived_.store(false, std::memory_order_release);
  return std::exchange(calls_, {});
}

}  // namespace eccl::transport
