// What the root of the rendezvous tells the ranks: where their parent is, or why there will be no communicator.
#include <algorithm>

#include "base/log.h"
#include "transport/bootstrap/ranks.h"
#include "transport/bootstrap/rendezvous.h"

namespace eccl::transport {

// Each rank learns only its parent: what it needs to enter the tree, where everything else is exchanged.
void Rendezvous::welcomeAll() {
  endpoints_.resize(static_cast<size_t>(nranks_));
  for (auto& [fd, joiner] : joiners_) {
    if (joiner.state == Joiner::State::joined)
      endpoints_[static_cast<size_t>(joiner.rank)] = joiner.endpoint.encode();
  }
  for (auto& [rank, absent] : absent_) endpoints_[static_cast<size_t>(rank)] = absent.claim.endpoint.encode();
  welcomed_ = true;
  for (auto& [fd, joiner] : joiners_) {
    if (joiner.state == Joiner::State::joined) welcome(joiner);
  }
  ECCL_INFO("rendezvous: all %d ranks have joined", nranks_);
}

void Rendezvous::welcome(Joiner& joiner) {
  const int parent = treeParent(joiner.rank);
  answer(joiner, FrameType::welcome, parent < 0 ? "" : endpoints_[static_cast<size_t>(parent)]);
}

void Rendezvous::failAll(Code code, std::string why) {
  ECCL_WARN("rendezvous at %s failed: %s", where_.c_str(), why.c_str());
  failure_ = std::move(why);
  failureCode_ = code;
  lingerUntil_ = options_.system->now() + options_.linger;
  // The rank in this very process comes last: its program may end at once, and this thread with it.
  const int32_t here = options_.system->identity().pid;
  for (bool own : {false, true}) {
    for (auto& [fd, joiner] : joiners_) {
      if (joiner.state != Joiner::State::joined || (joiner.endpoint.pid == here) != own) continue;
      answer(joiner, FrameType::refusal, failure_);
    }
  }
}

// Gives up when the first joiner has waited as long as it was willing to.
void Rendezvous::expire(TimePoint now) {
  const Claim* waited = nullptr;
  std::vector<bool> present(static_cast<size_t>(nranks_));
  for (auto& [fd, joiner] : joiners_) {
    if (joiner.state == Joiner::State::joined) present[static_cast<size_t>(joiner.rank)] = true;
    if (now < joiner.deadline) continue;
    if (joiner.state == Joiner::State::joined)
      waited = &joiner;
    else
      remove(joiner);  // never asked, or never read its answer
  }
  std::erase_if(absent_, [&](auto& item) {
    auto& [rank, absent] = item;
    if (now >= absent.lostAt) {
      gone_[rank] = absent.claim.peer;
      return true;
    }
    present[static_cast<size_t>(rank)] = true;
    if (now >= absent.claim.deadline && waited == nullptr) waited = &absent.claim;
    return false;
  });
  if (waited == nullptr || welcomed_ || !failure_.empty()) return;
  std::vector<int> missing;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (!present[static_cast<size_t>(rank)]) missing.push_back(rank);
  }
  std::string text =
      format("%s of %d %s not joined after %.3g s: check that they run, can reach %s, and use the same id",
             nameRanks(missing).c_str(), nranks_, missing.size() == 1 ? "has" : "have", seconds(waited->limit),
             where_.c_str());
  int named = 0;
  for (auto& [rank, peer] : gone_) {
    if (++named <= 8) text += format("; rank %d (%s) had joined, but its connection broke", rank, peer.c_str());
  }
  failAll(Code::timeout, std::move(text));
}

void Rendezvous::answer(Joiner& joiner, FrameType type, std::string body) {
  const Frame frame{{.type = type, .kind = static_cast<uint16_t>(failureCode_)}, std::move(body)};
  joiner.socket.queue(frame);
  answeredRanks_.insert(joiner.rank);
  finish(joiner);
}

void Rendezvous::finish(Joiner& joiner) {
  joiner.state = Joiner::State::answered;
  joiner.deadline = options_.system->now() + kDawdlerLimit;
  // What does not fit into the socket now follows when it is writable.
  if (!joiner.socket.flush().ok()) return remove(joiner);
  if (!joiner.socket.hasQueued())
    joiner.state = Joiner::State::gone;
  else if (!poller_.watch(joiner.socket.fd(), EPOLLIN | EPOLLOUT, static_cast<uint64_t>(joiner.socket.fd()))
                .ok())
    remove(joiner);
}

// A rank that encrypts, or not, unlike the root, and knows that by now. The others would wait for it.
void Rendezvous::onDisagreement(const Hello& hello, const std::string& peer, const std::string& why) {
  if (hello.purpose != Purpose::rendezvous) return;
  answeredRanks_.insert(hello.rank);
  if (welcomed_ || !failure_.empty()) return;
  failAll(Code::invalidUsage,
          format("rank %d at %s %s (the other side is the root of the rendezvous, %s)", hello.rank,
                 peer.c_str(), why.c_str(), localEndpoint(*options_.system).who().c_str()));
}

}  // namespace eccl::transport
