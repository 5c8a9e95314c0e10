// The little that a process has once: the handles it gave out, the rendezvous roots that listen, and what a
// fork does to them. Everything else has an owner.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/api/handle_table.h"
#include "runtime/api/handles.h"
#include "transport/bootstrap/rendezvous.h"

namespace eccl::runtime {

/// The one object of this process; never destroyed. Any thread. The first use installs the fork handlers: in
/// a forked child (a data loader) the communicators and streams of the parent are closed and refuse to be
/// used, so that the child never keeps a dead parent's sockets alive.
class Process {
 private:
  std::mutex mutex_;

 public:
  static Process& get() {
    // Never destroyed: service threads of communicators that the application forgot may outlive main().
    static Process* const process = make();
    return *process;
  }

  HandleTable<ApiCommunicator> communicators{HandleKind::communicator, mutex_};
  HandleTable<Stream> streams{HandleKind::stream, mutex_};
  HandleTable<Registration> registrations{HandleKind::registration, mutex_};

  /// Keeps a root until it has served its ranks: it ends with a later keep() or dropRoots().
  void keep(std::unique_ptr<transport::Rendezvous> root);
  /// Ends the roots that have served their ranks, or have given up.
  void dropRoots();

 private:
  Process();
  static Process* make();
  static void beforeFork();
  static void afterForkInParent();
  static void afterForkInChild();

  std::vector<std::unique_ptr<transport::Rendezvous>> roots_;
};

}  // namespace eccl::runtime
