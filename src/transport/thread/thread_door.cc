#include "transport/thread/thread_door.h"

#include <unistd.h>

#include <map>

namespace eccl::transport {
namespace {

struct Doors {
  std::mutex mutex;  // before that of a door
  std::map<Identity, ThreadDoor*> open;
};
Doors& doors() {
  static Doors* const doors = new Doors;  // never destroyed: threads may outlive static destructors
  return *doors;
}

}  // namespace

void ringBell(const Fd& bell) {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t put = write(bell.get(), &one, sizeof one);  // full: it rings already
}

bool ThreadOffer::answer(State with) {
  State expected = State::open;
  const bool told = state_.compare_exchange_strong(expected, with, std::memory_order_acq_rel);
  if (told) ringBell(*senderBell);
  return told;
}

bool ThreadOffer::withdraw() {
  State expected = State::open;
  return state_.compare_exchange_strong(expected, State::withdrawn, std::memory_order_acq_rel);
}

ThreadDoor::ThreadDoor(const Identity& identity, std::shared_ptr<Fd> bell)
    : identity_(identity), bell_(std::move(bell)) {
  if (identity_ == Identity{}) return;  // it has no name to be found by
  std::lock_guard lock(doors().mutex);
  doors().open[identity_] = this;
}

ThreadDoor::~ThreadDoor() {
  if (forked_) return;
  {
    std::lock_guard lock(doors().mutex);
    auto found = doors().open.find(identity_);
    if (found != doors().open.end() && found->second == this) doors().open.erase(found);
  }
  for (auto& offer : take()) offer->answer(ThreadOffer::State::gone);
}

bool ThreadDoor::knock(const Identity& identity, const std::shared_ptr<ThreadOffer>& offer) {
  std::lock_guard lock(doors().mutex);
  auto found = doors().open.find(identity);
  if (found == doors().open.end()) return false;
  ThreadDoor& door = *found->second;
  {
    std::lock_guard its(door.mutex_);
    door.offers_.push_back(offer);
    door.arrived_.store(true, std::memory_order_release);
  }
  ringBell(*door.bell_);
  return true;
}

std::vector<std::shared_ptr<ThreadOffer>> ThreadDoor::take() {
  std::lock_guard lock(mutex_);
  arrived_.store(false, std::memory_order_release);
  return std::exchange(offers_, {});
}

}  // namespace eccl::transport
