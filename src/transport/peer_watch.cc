#include "transport/peer_watch.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace eccl {

PeerWatch::~PeerWatch() {
  for (auto& [rank, watch] : watches_) reactor_.forget(watch->fd.get(), watch.get());
}

// By the socket where the kernel can (the process it names is the one that connected, whatever became of its
// id), else by the id that the kernel noted at connect.
bool PeerWatch::add(int rank, int socket) {
  if (watches_.count(rank) != 0) return true;
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) {
    ucred peer{};
    size = sizeof peer;
    pidfd = -1;
    // pid 0: a process that this pid namespace does not show.
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0)
      pidfd = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  }
  if (pidfd < 0) return false;
  watch(rank, Fd(pidfd), "its process has ended");
  return true;
}

void PeerWatch::addSocket(int rank, Fd socket) {
  if (watches_.count(rank) == 0) watch(rank, std::move(socket), "its process closed its AF_UNIX socket");
}

void PeerWatch::watch(int rank, Fd fd, const char* reason) {
  auto made = std::make_unique<Watch>();
  made->owner = this;
  made->rank = rank;
  made->fd = std::move(fd);
  made->reason = reason;
  if (Status status = reactor_.watch(made->fd.get(), EPOLLIN, made.get()); !status.ok()) {
    ECCL_INFO("the process of rank %d cannot be watched, its death will be noticed late: %s", rank,
              status.message().c_str());
    return;
  }
  watches_[rank] = std::move(made);
}

void PeerWatch::Watch::onReady(uint32_t) {
  PeerWatch* const watcher = owner;
  watcher->reactor_.forget(fd.get(), this);
  // Out of the table, so that whatever onDeath does cannot end this object under our feet.
  watcher->ended_ = std::move(watcher->watches_[rank]);
  watcher->watches_.erase(rank);
  watcher->onDeath_(rank, reason);
}

void PeerWatch::forget(int rank) {
  auto found = watches_.find(rank);
  if (found == watches_.end()) return;
  reactor_.forget(found->second->fd.get(), found->second.get());
  watches_.erase(found);
}

void PeerWatch::closeAfterFork() {
  for (auto& [rank, watch] : watches_) watch->fd.reset();
}

}  // namespace eccl
