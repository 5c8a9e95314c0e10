// Notices at once when a process on this host dies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "transport/core/reactor.h"
#include "transport/net/fd.h"

namespace eccl::transport {

/// Watches the processes of peers by one descriptor each, which all communicators and ranks of this process
/// share. It is a pidfd where the kernel has them (5.3, by socket 6.5): that tells when the process itself
/// ends, even if a child it forked still holds all its sockets. Else it is the AF_UNIX socket over which a
/// connection was set up, whose end of stream says the same while no such child exists.
///
/// Owner: the Connector. Threads: the driver's. Failure: a peer that cannot be watched is logged (INFO); its
/// death is then left to heartbeats.
class PeerWatch {
 public:
  /// `onDeath` is called once for each rank of a process that has ended. It may call forget(), not destroy
  /// this.
  PeerWatch(Reactor& reactor, std::function<void(int rank, const std::string& reason)> onDeath)
      : reactor_(reactor), onDeath_(std::move(onDeath)) {}
  ~PeerWatch();

  /// Watches the process at the other end of an AF_UNIX socket, unless that rank is watched already. False if
  /// the kernel has no pidfd for it. The socket stays the caller's. To be called before a message from the
  /// peer is awaited: its arrival proves that the process id had not been given to another process.
  bool add(int rank, const Fd& socket);
  /// Watches the socket instead. For when add() returned false and the socket is not needed any more.
  void addSocket(int rank, Fd socket);
  /// Stops watching for this rank; does nothing if it is not watched.
  void forget(int rank);
  void closeAfterFork();

 private:
  struct Watch : ReadyHandler {
    PeerWatch* owner = nullptr;
    std::set<int> ranks;  // that are threads of the process
    std::shared_ptr<Fd> fd;
    std::string reason;
    void onReady(uint32_t events) override;
  };
  void watch(int rank, std::shared_ptr<Fd> fd, const char* reason);

  Reactor& reactor_;
  const std::function<void(int, const std::string&)> onDeath_;
  std::map<const Fd*, std::unique_ptr<Watch>> watches_;
  std::map<int, Watch*> ofRank_;
  std::unique_ptr<Watch> ended_;  // whose handler is running
};

}  // namespace eccl::transport
