#include "transport/connect/peer_watch.h"

#include <poll.h>

#include <mutex>

#include "base/log.h"

namespace eccl::transport {
namespace {

bool hasEnded(const Fd& process) {
  return process.system().poll(process.get(), POLLIN, Duration::zero()) != 0;
}

// One for each process, whoever of this one watches it. An id means the same process as long as that lives.
std::shared_ptr<Fd> processAt(const Fd& socket) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const known = new std::map<pid_t, std::weak_ptr<Fd>>;
  pid_t pid = 0;
  Fd fresh(socket.system().processFd(socket.get(), &pid), socket.system());
  if (!fresh || pid <= 0 || hasEnded(fresh)) return fresh ? std::make_shared<Fd>(std::move(fresh)) : nullptr;
  std::lock_guard lock(*mutex);
  std::erase_if(*known, [](const auto& item) { return item.second.expired(); });
  std::shared_ptr<Fd> shared = (*known)[pid].lock();
  if (shared == nullptr || hasEnded(*shared)) (*known)[pid] = shared = std::make_shared<Fd>(std::move(fresh));
  return shared;
}

}  // namespace

PeerWatch::~PeerWatch() {
  for (auto& [fd, watch] : watches_) reactor_.forget(fd->get(), watch.get());
}

bool PeerWatch::add(int rank, const Fd& socket) {
  if (ofRank_.count(rank) != 0) return true;
  std::shared_ptr<Fd> process = processAt(socket);
  if (process == nullptr) return false;
  watch(rank, std::move(process), "its process has ended");
  return true;
}

void PeerWatch::addSocket(int rank, Fd socket) {
  if (ofRank_.count(rank) == 0)
    watch(rank, std::make_shared<Fd>(std::move(socket)), "its process closed its AF_UNIX socket");
}

void PeerWatch::watch(int rank, std::shared_ptr<Fd> fd, const char* reason) {
  std::unique_ptr<Watch>& made = watches_[fd.get()];
  if (made == nullptr) {
    made = std::make_unique<Watch>();
    made->owner = this;
    made->fd = std::move(fd);
    made->reason = reason;
    if (Status status = reactor_.watch(made->fd->get(), EPOLLIN, made.get()); !status.ok()) {
      ECCL_INFO("the process of rank %d cannot be watched, its death will be noticed late: %s", rank,
                status.message().c_str());
      const std::shared_ptr<Fd> unwatched = made->fd;
      watches_.erase(unwatched.get());
      return;
    }
  }
  made->ranks.insert(rank);
  ofRank_[rank] = made.get();
}

void PeerWatch::Watch::onReady(uint32_t) {
  PeerWatch* const watcher = owner;
  watcher->reactor_.forget(fd->get(), this);
  // Out of the tables, so that whatever onDeath does cannot end this object under our feet.
  auto found = watcher->watches_.find(fd.get());
  watcher->ended_ = std::move(found->second);
  watcher->watches_.erase(found);
  for (int rank : ranks) watcher->ofRank_.erase(rank);
  for (int rank : ranks) watcher->onDeath_(rank, reason);
}

void PeerWatch::forget(int rank) {
  auto found = ofRank_.find(rank);
  if (found == ofRank_.end()) return;
  Watch& watch = *found->second;
  ofRank_.erase(found);
  watch.ranks.erase(rank);
  if (!watch.ranks.empty()) return;
  reactor_.forget(watch.fd->get(), &watch);
  const std::shared_ptr<Fd> fd = watch.fd;
  watches_.erase(fd.get());
}

void PeerWatch::closeAfterFork() {
  for (auto& [fd, watch] : watches_) watch->fd->reset();
}

}  // namespace eccl::transport
