// What a process finds out once for each key, and keeps.
#pragma once

#include <pthread.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace eccl {

/// Values by key: the first who asks makes one, in which time others who ask, and who fork, wait; the others
/// find it. An error is not kept: the next one makes it anew. One object for each pair of types.
///
/// Owner: the process, for good, so that it outlives whoever asks while the process ends. Threads: any, also of
/// a forked child.
template <class Key, class Value>
class OnceByKey {
 public:
  static OnceByKey& get() {
    static auto* one = new OnceByKey;
    return *one;
  }

  /// `make` returns Result<Value>.
  template <class Make>
  Result<Value> at(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    ECCL_ASSIGN(Value made, make());
    return known_.emplace(key, std::move(made)).first->second;
  }

 private:
  // A child forked while another thread makes a value would find the lock taken for good.
  OnceByKey() {
    pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().mutex_.unlock(); });
  }

  std::mutex mutex_;
  std::map<Key, Value> known_;
};

}  // namespace eccl
