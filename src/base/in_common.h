// Constant values that the ranks of a process have in common.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace eccl {

/// Values that many ranks of one process come to, each by itself: the first makes one, the others find it. So a
/// process with a thousand ranks holds one instead of a thousand. A value lasts as long as anybody has it.
///
/// Owner: the process, for good. Threads: any. Nothing is locked while a value is made, so ranks that come at
/// the same moment may make several.
template <class T>
class InCommon {
 public:
  /// A value for which `same` is true; null if there is none. `same` is called under a lock.
  template <class Same>
  std::shared_ptr<const T> find(const Same& same) {
    std::lock_guard lock(mutex_);
    for (const std::weak_ptr<const T>& each : all_) {
      if (std::shared_ptr<const T> value = each.lock(); value != nullptr && same(*value)) return value;
    }
    return nullptr;
  }
  /// Puts a value there for others to find.
  std::shared_ptr<const T> add(T value) {
    auto added = std::make_shared<const T>(std::move(value));
    std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& each) { return each.expired(); });
    all_.push_back(added);
    return added;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const T>> all_;
};

}  // namespace eccl
