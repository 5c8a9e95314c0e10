// What a process has once, and its fork handlers.
#include "runtime/api/process.h"

#include <pthread.h>

namespace eccl::runtime {

Process* Process::make() {
  return new Process;
}

Process::Process() {
  pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
}

void Process::beforeFork() {
  get().mutex_.lock();
}
void Process::afterForkInParent() {
  get().mutex_.unlock();
}

void Process::afterForkInChild() {
  Process& process = get();
  process.communicators.forEach([](ApiCommunicator& each) { each.communicator->closeAfterFork(); });
  process.streams.forEach([](Stream& each) { each.closeAfterFork(); });
  for (auto& root : process.roots_) root->closeAfterFork();
  // Their threads do not exist here, so they cannot be destroyed; the child starts with none of its own.
  new auto(std::move(process.roots_));
  process.roots_.clear();
  process.mutex_.unlock();
}

void Process::keep(std::unique_ptr<transport::Rendezvous> root) {
  dropRoots();
  std::lock_guard lock(mutex_);
  roots_.push_back(std::move(root));
}

void Process::dropRoots() {
  std::vector<std::unique_ptr<transport::Rendezvous>> done;  // ends when the lock is gone: that joins threads
  std::lock_guard lock(mutex_);
  for (auto& each : roots_) {
    if (each->done()) done.push_back(std::move(each));
  }
  std::erase(roots_, nullptr);
}

}  // namespace eccl::runtime
