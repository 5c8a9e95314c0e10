// One object per thread that can be used as long as the thread can run anything.
#pragma once

namespace eccl {

/// Made on first use, ended with its thread. What runs later, in the main thread atexit handlers and
/// destructors of static objects, gets a new one, which nobody ends.
template <class T>
class PerThread {
 public:
  static T& get() {
    if (mine_ == nullptr) {
      mine_ = new T;
      static thread_local Owner owner;
      owner.holds = true;  // a use, without which it would not be made
    }
    return *mine_;
  }

 private:
  struct Owner {
    bool holds = false;
    ~Owner() {
      delete mine_;
      mine_ = nullptr;
    }
  };
  static inline thread_local T* mine_ = nullptr;
};

}  // namespace eccl
