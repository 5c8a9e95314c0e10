// One object per thread that can be used as long as the thread can run any code.
#pragma once

namespace eccl {

/// An object of type T for each thread. It is made on first use and ends with its thread. Code that runs
/// later, in the main thread's atexit handlers and destructors of static objects, gets a new one, which
/// nobody ends.
template <class T>
class PerThread {
 public:
  /// The calling thread's object. Allocates on first use and may then throw bad_alloc. Other threads must not
  /// use it.
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
