#include "runtime/process.h"

#include <pthread.h>

#include <algorithm>

namespace eccl {

Process& Process::get() {
  // Never destroyed: service threads of communicators that the application forgot may outlive main().
  static Process* process = new Process;
  return *process;
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
  for (auto& communicator : process.communicators_) communicator->closeAfterFork();
  for (auto& root : process.roots_) root->closeAfterFork();
  // Their threads do not exist here, so they cannot be destroyed; the child starts with none of its own.
  new auto(std::move(process.communicators_));
  new auto(std::move(process.roots_));
  process.communicators_.clear();
  process.roots_.clear();
  process.mutex_.unlock();
}

void Process::add(const std::shared_ptr<Communicator>& communicator) {
  std::lock_guard lock(mutex_);
  communicators_.push_back(communicator);
}

void Process::remove(const Communicator* communicator) {
  std::lock_guard lock(mutex_);
  std::erase_if(communicators_, [=](const auto& each) { return each.get() == communicator; });
  std::erase_if(roots_, [](const auto& each) { return each->done(); });
}

std::vector<std::shared_ptr<Communicator>> Process::communicators() {
  std::lock_guard lock(mutex_);
  return communicators_;
}

void Process::keep(std::unique_ptr<Rendezvous> root) {
  std::lock_guard lock(mutex_);
  std::erase_if(roots_, [](const auto& each) { return each->done(); });
  roots_.push_back(std::move(root));
}

}  // namespace eccl
