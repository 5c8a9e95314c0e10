// Handles that the C API gives out. They are numbers in the shape of pointers, looked up and never followed.
//
// One rule holds for all of them. A call that finds the object behind a handle keeps it alive until the call
// returns. One call takes the handle out of the table (destroy, abort). From then on nobody finds it, and the
// object ends when the last call that had found it returns. So any two calls may be made at once, on any
// handle. A handle that was never given out, is of another kind, or is no longer valid, is told apart from
// one that is.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace eccl::runtime {

/// A handle's lowest byte: what it is a handle of. Odd, so that none is an address of an object.
enum class HandleKind : uint8_t { communicator = 0xc5, stream = 0x57, registration = 0x4d };

/// The table of one kind of handle. Owner: the process; it is never destroyed, as calls may come while the
/// process ends. Any thread. Looking up takes no lock and allocates nothing.
template <class T>
class HandleTable {
  // A handle is [use of the place: 32][place: 24][kind: 8].
  static_assert(sizeof(void*) == 8);
  // A place's state is [use: 32][ended: 1][calls that have found it: 31]. A free one has ended, and no calls.
  static constexpr uint64_t kEnded = uint64_t{1} << 31, kCalls = kEnded - 1;

  struct Place {
    std::atomic<uint64_t> state{kEnded};
    uint32_t index = 0;
    std::shared_ptr<T> object;  // written while nobody can find it
  };

 public:
  /// An object that was found, kept alive while this is. Empty if there is none; the rest then is undefined.
  /// Used by one thread at a time. With the last Use of a taken handle the table lets go of the object.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : table_(other.table_), place_(std::exchange(other.place_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~Use() {
      if (place_ != nullptr) table_->leave(*place_);
    }
    explicit operator bool() const { return place_ != nullptr; }
    T* operator->() const { return place_->object.get(); }
    T& operator*() const { return *place_->object; }
    /// Another Use of the same object, for work that goes on when the call has returned.
    Use again() const {
      place_->state.fetch_add(1, std::memory_order_relaxed);
      return {table_, place_};
    }
    /// The object, for owners that outlive the handle.
    const std::shared_ptr<T>& shared() const { return place_->object; }
    /// After take(): waits until every other Use of the object is gone. Two threads that both hold one and
    /// call this would wait for each other for good.
    void awaitOthers() const {
      for (uint64_t state; ((state = place_->state.load(std::memory_order_acquire)) & kCalls) > 1;)
        place_->state.wait(state, std::memory_order_acquire);
    }

   private:
    friend HandleTable;
    Use(HandleTable* table, Place* place) : table_(table), place_(place) {}
    HandleTable* table_ = nullptr;
    Place* place_ = nullptr;
  };

  /// `mutex` is held where places are given out and returned; it must outlive the table.
  HandleTable(HandleKind kind, std::mutex& mutex) : kind_(kind), mutex_(mutex) {}
  HandleTable(const HandleTable&) = delete;

  /// Puts an object into the table and returns its handle, never null. Throws bad_alloc, like new; nothing
  /// has changed then.
  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    const uint32_t index = free_.back();
    free_.pop_back();
    Place& place = *at(index);
    place.object = std::move(object);
    const uint64_t use = place.state.load(std::memory_order_relaxed) >> 32;
    place.state.store(use << 32, std::memory_order_release);  // pairs with enter()
    return reinterpret_cast<void*>(use << 32 | uint64_t{index} << 8 | static_cast<uint8_t>(kind_));
  }

  /// The object behind a handle; empty if the handle is not valid. Any bits may be asked for.
  Use find(const void* handle) { return enter(handle, 0); }
  /// As find(), for one caller only: nobody finds the object afterwards.
  Use take(const void* handle) { return enter(handle, kEnded); }

  /// Whether find() would find an object now. Keeps nothing alive.
  bool holds(const void* handle) const {
    const Place* place = placeOf(handle);
    if (place == nullptr) return false;
    const uint64_t state = place->state.load(std::memory_order_acquire);
    return state >> 32 == useOf(handle) && (state & kEnded) == 0;
  }
  /// How many times a handle has been taken. One that was held after this was asked is held while it stays the
  /// same, but for a take that is under way.
  uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
  /// For a handle that is not found: whether it was given out and has been taken out since.
  bool existed(const void* handle) const {
    const Place* place = placeOf(handle);
    if (place == nullptr) return false;
    const uint64_t state = place->state.load(std::memory_order_acquire), use = state >> 32;
    const bool free = (state & kEnded) != 0 && (state & kCalls) == 0;
    return useOf(handle) < use || (useOf(handle) == use && !free);
  }

  /// Visits every object, also those whose handle has been taken while a call still uses them. The caller
  /// holds the mutex.
  template <class Visit>
  void forEach(Visit&& visit) {
    for (uint32_t i = 0; i < places_.load(std::memory_order_relaxed); ++i) {
      if (T* object = at(i)->object.get()) visit(*object);
    }
  }

 private:
  // Places lie in chunks that stay where they are, each as large as all before it together.
  static constexpr uint32_t kFirstChunk = 64, kMaxPlaces = 1u << 24;
  static constexpr int kChunks = std::bit_width(kMaxPlaces / kFirstChunk);

  static uint64_t useOf(const void* handle) { return reinterpret_cast<uintptr_t>(handle) >> 32; }
  Place* at(uint32_t index) const {
    const int chunk = std::bit_width(index / kFirstChunk);
    const uint32_t begin = chunk == 0 ? 0 : kFirstChunk << (chunk - 1);
    return chunks_[static_cast<size_t>(chunk)].load(std::memory_order_acquire) + (index - begin);
  }
  // The place that a handle names, used or not; nullptr if the handle is of another kind or beyond all
  // places.
  Place* placeOf(const void* handle) const {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    const auto index = static_cast<uint32_t>(value >> 8 & 0xffffff);
    const bool exists =
        (value & 0xff) == static_cast<uint8_t>(kind_) && index < places_.load(std::memory_order_acquire);
    return exists ? at(index) : nullptr;
  }

  // Counts one more call on a place, if the handle is that of its present use, and sets `ended`.
  Use enter(const void* handle, uint64_t ended) {
    Place* place = placeOf(handle);
    if (place == nullptr) return {};
    uint64_t state = place->state.load(std::memory_order_relaxed);
    do {
      if (state >> 32 != useOf(handle) || (state & kEnded) != 0) return {};
    } while (!place->state.compare_exchange_weak(state, (state + 1) | ended, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed));
    if (ended != 0) taken_.fetch_add(1, std::memory_order_release);
    return {this, place};
  }

  // One call less. The last one to leave an ended place ends the object and frees the place for another use.
  void leave(Place& place) {
    const uint64_t state = place.state.fetch_sub(1, std::memory_order_acq_rel);
    if ((state & kEnded) == 0) return;
    if ((state & kCalls) > 1) return place.state.notify_all();
    std::shared_ptr<T> object;  // ends when the lock is gone
    std::lock_guard lock(mutex_);
    object = std::move(place.object);
    const uint64_t use = (state >> 32) + 1;
    if (use >> 32 != 0) return;  // its numbers are used up; there are others
    place.state.store(use << 32 | kEnded, std::memory_order_release);
    free_.push_back(place.index);  // there is room: see grow()
  }

  // Under the mutex.
  void grow() {
    const uint32_t has = places_.load(std::memory_order_relaxed);
    if (has == kMaxPlaces) throw std::bad_alloc();
    const uint32_t more = has == 0 ? kFirstChunk : has;
    free_.reserve(has + more);
    auto* chunk = new Place[more];
    chunks_[static_cast<size_t>(std::bit_width(has / kFirstChunk))].store(chunk, std::memory_order_release);
    for (uint32_t i = more; i-- > 0;) {
      chunk[i].index = has + i;
      free_.push_back(has + i);
    }
    places_.store(has + more, std::memory_order_release);
  }

  const HandleKind kind_;
  std::mutex& mutex_;
  std::atomic<uint32_t> places_{0};
  std::atomic<uint64_t> taken_{0};
  std::array<std::atomic<Place*>, kChunks> chunks_{};
  std::vector<uint32_t> free_;
};

}  // namespace eccl::runtime
