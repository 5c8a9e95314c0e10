#include <chrono>
#include <thread>

#include "cuda_emulation/graph.h"

namespace eccl::cuda_emulation {
namespace {

/// So much a stream holds; who gives it more waits.
constexpr size_t kQueue = 200;
/// How often a wait for a word looks: nobody rings.
constexpr auto kLook = std::chrono::microseconds(20);

struct Streams {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::shared_ptr<Stream>> live;
  std::shared_ptr<Stream> legacy[kDevices];
};

Streams& streams() {
  static Streams* const made = new Streams;
  return *made;
}

}  // namespace

std::shared_ptr<Stream> Stream::make(int ordinal, bool blocking) {
  auto stream = std::make_shared<Stream>(ordinal, blocking);
  std::thread([stream] { stream->run(); }).detach();
  std::lock_guard lock(streams().mutex);
  streams().live.insert(stream);
  return stream;
}

std::shared_ptr<Stream> Stream::of(NativeStream handle, int ordinal) {
  auto& all = streams();
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) {
    static std::mutex making;
    std::lock_guard lock(making);
    if (all.legacy[ordinal] == nullptr) all.legacy[ordinal] = make(ordinal, false);
    return all.legacy[ordinal];
  }
  std::lock_guard lock(all.mutex);
  for (const auto& each : all.live) {
    if (each->handle() == handle) return each;
  }
  return nullptr;
}

bool Stream::drop(NativeStream handle) {
  std::lock_guard lock(streams().mutex);
  for (const auto& each : streams().live) {
    if (each->handle() != handle) continue;
    each->dropped_ = true;
    streams().live.erase(each);
    streams().changed.notify_all();
    return true;
  }
  return false;
}

void Stream::put(Work work) {
  if (capture != nullptr) return capture->add(&tips, {{}, std::move(work), nullptr, nullptr});
  auto& all = streams();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [this] { return queue_.size() < kQueue; });
  Item item{std::move(work), {}};
  auto& legacy = all.legacy[ordinal];
  if (this == legacy.get()) {
    for (const auto& each : all.live)
      if (each->blocking && each->ordinal == ordinal) item.after.emplace_back(each, each->put_);
  } else if (blocking && legacy != nullptr) {
    item.after.emplace_back(legacy, legacy->put_);
  }
  queue_.push_back(std::move(item));
  ++put_;
  all.changed.notify_all();
}

void Stream::run() {
  auto& all = streams();
  std::unique_lock lock(all.mutex);
  for (;;) {
    all.changed.wait(lock, [this] { return !queue_.empty() || dropped_; });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    all.changed.notify_all();
    for (const auto& [stream, count] : item.after)
      all.changed.wait(lock, [&, its = stream.get(), least = count] { return its->made_ >= least; });
    lock.unlock();
    while (!item.work()) std::this_thread::sleep_for(kLook);
    item = {};
    lock.lock();
    ++made_;
    all.changed.notify_all();
  }
}

uint64_t Stream::given() {
  std::lock_guard lock(streams().mutex);
  return put_;
}

bool Stream::made(uint64_t count) {
  std::lock_guard lock(streams().mutex);
  return made_ >= count;
}

bool Stream::idle() {
  std::lock_guard lock(streams().mutex);
  return made_ == put_;
}

void Stream::await() {
  std::unique_lock lock(streams().mutex);
  const uint64_t least = put_;
  streams().changed.wait(lock, [&] { return made_ >= least; });
}

void Stream::awaitAll() {
  std::vector<std::shared_ptr<Stream>> now;
  {
    std::lock_guard lock(streams().mutex);
    now.assign(streams().live.begin(), streams().live.end());
  }
  for (const auto& each : now) each->await();
}

bool& inHostFunction() {
  static thread_local bool in = false;
  return in;
}

}  // namespace eccl::cuda_emulation
