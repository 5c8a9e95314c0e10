// The little that a process has once: which communicators live, which rendezvous roots listen, and what a fork
// does to them. Everything else has an owner.
#pragma once

#include <functional>
#include <memory>

#include "runtime/communicator.h"

namespace eccl {

/// Any thread. The first use installs the fork handlers: in a forked child (a data loader) the communicators of
/// the parent are closed and refuse to be used, so that the child never keeps a dead parent's sockets alive.
class Process {
 public:
  static Process& get();

  void add(const std::shared_ptr<Communicator>& communicator);
  void remove(const Communicator* communicator);
  /// Every live communicator.
  std::vector<std::shared_ptr<Communicator>> communicators();
  /// Keeps a root until it has served its ranks.
  void keep(std::unique_ptr<Rendezvous> root);

 private:
  Process();
  static void beforeFork();
  static void afterForkInParent();
  static void afterForkInChild();

  std::mutex mutex_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Rendezvous>> roots_;
};

}  // namespace eccl
