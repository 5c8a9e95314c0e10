#include "transport/connect/widening.h"

#include <algorithm>

#include "base/log.h"
#include "transport/net/socket_ends.h"

namespace eccl::transport {
namespace {

/// A peer that leaves cannot be called either: that is no news.
constexpr Duration kBeforeWarning = std::chrono::seconds(1);
/// A rail that was lost is tried again after the first, then twice as long, up to the second.
constexpr Duration kFirstRest = std::chrono::seconds(4), kLongestRest = std::chrono::minutes(5);
/// One that was well for so long has been mended.
constexpr Duration kMended = std::chrono::minutes(1);

void tell(bool isNews, const std::string& text) {
  if (isNews)
    ECCL_WARN("%s", text.c_str());
  else
    ECCL_INFO("%s", text.c_str());
}

}  // namespace

Widening::Widening(LinkContext& context, Connection& connection, const Hello& hello)
    : context_(context), connection_(connection), socket_(context, connection, hello, [this] { progress(); }) {
  const ConnectorOptions& options = context.options;
  pairs_ = railPairs(endpoint(options.rank).rails, endpoint(connection.peer()).rails, options.socketsPerRail,
                     options.crossRail);
  atFirst_ = pairs_.size();
}

const Rail& Widening::mine() const {
  return endpoint(context_.options.rank).rails[static_cast<size_t>(pairs_[current_].mine)];
}

const Rail& Widening::theirs() const {
  return endpoint(connection_.peer()).rails[static_cast<size_t>(pairs_[current_].theirs)];
}

bool Widening::pending() const {
  return current_ < pairs_.size() && connection_.state() == Connection::State::ready;
}

TimePoint Widening::nextDeadline() const {
  if (!pending()) return TimePoint::max();
  return socket_.calling() ? socket_.nextDeadline() : until_;
}

void Widening::progress() {
  if (!pending()) return socket_.stop();
  if (!socket_.calling() && context_.options.system->now() >= until_) {
    if (!failure_.empty()) {
      ECCL_WARN("%s", failure_.c_str());
      next();
    }
    if (pending()) dial();
  }
  if (const auto status = socket_.progress()) dialed(*status);
}

void Widening::dial() {
  DialOptions how;
  const SocketAddress& from = mine().address;
  if (way_ == Way::bound) {
    how.interface = mine().interface;
    how.from = from.withPort(0);
  } else if (way_ == Way::routed && endpoint(context_.options.rank).rails.size() > 1) {
    how.suits = [from](const SocketEnds& ends) { return ends.local.sharesHost(from); };
  }
  socket_.call(theirs().address, std::move(how));
}

void Widening::dialed(const Status& status) {
  if (status.ok()) {
    ECCL_INFO("%s goes %s by %s to %s", context_.transports.context().text(connection_.id()).c_str(),
              again() ? "again" : "also", mine().interface.c_str(), theirs().interface.c_str());
    if (again())
      back_[{pairs_[current_].mine, pairs_[current_].theirs}] = {context_.options.system->now(), rest_};
    return next();
  }
  if (way_ == Way::routed && endpoint(context_.options.rank).rails.size() > 1) {
    way_ = Way::bound;
  } else if (way_ == Way::bound && context_.options.crossRail && !again()) {
    way_ = Way::anyInterface;
  } else {
    const std::string both =
        format("%s through %s and %s at %s (%s)", context_.describe(context_.options.rank).c_str(),
               mine().interface.c_str(), context_.describe(connection_.peer()).c_str(),
               theirs().address.text().c_str(), theirs().interface.c_str());
    failure_ = format(
        "no connection between %s: %s. They go on without this pair of rails: mend the network, or "
        "leave the interface out by ECCL_SOCKET_IFNAME",
        both.c_str(), status.message().c_str());
    if (again()) {
      ECCL_INFO("%s", failure_.c_str());
      tryLater(pairs_[current_], rest_);
      return next();
    }
    if (!context_.saidOfRails.insert(theirs().interface + " of " + endpoint(connection_.peer()).host).second) {
      ECCL_INFO("%s", failure_.c_str());
      return next();
    }
    until_ = context_.options.system->now() + kBeforeWarning;
  }
}

void Widening::look() {
  Connection& connection = connection_;
  if (connection.state() != Connection::State::ready) return;
  const TimePoint now = context_.options.system->now();
  const std::vector<LossySocket> lossy = connection.path()->leaveOutLossy(now);
  if (connection.state() != Connection::State::ready) return;  // and this is gone
  for (const LossySocket& one : lossy) say(one);
  const auto due = std::find_if(lost_.begin(), lost_.end(), [&](const Lost& one) { return now >= one.until; });
  if (due == lost_.end() || pending()) return;
  pairs_.push_back(due->pair);
  rest_ = due->rest;
  lost_.erase(due);
}

void Widening::lost(const SocketEnds& ends, const std::string& why) {
  const int self = context_.options.rank, peer = connection_.peer();
  const std::string here = railAt(self, ends.local), there = railAt(peer, ends.remote);
  const std::string text = format(
      "the rail between %s of %s and %s of %s is lost: %s. They go on without it, and try it again from "
      "time to time",
      here.c_str(), context_.describe(self).c_str(), there.c_str(), context_.describe(peer).c_str(),
      why.c_str());
  tell(context_.saidOfRails
           .insert(format("%s to %s of %s lost", here.c_str(), there.c_str(), endpoint(peer).host.c_str()))
           .second,
       text);
  for (const RailPair& pair : pairs_) {
    if (!endpoint(self).rails[static_cast<size_t>(pair.mine)].address.sharesHost(ends.local) ||
        !endpoint(peer).rails[static_cast<size_t>(pair.theirs)].address.sharesHost(ends.remote))
      continue;
    const auto before = back_.find({pair.mine, pair.theirs});
    const bool fails = before != back_.end() && context_.options.system->now() - before->second.since < kMended;
    return tryLater(pair, fails ? before->second.rest : Duration::zero());
  }
}

// Later than the last time.
void Widening::tryLater(const RailPair& pair, Duration before) {
  const Duration rest = std::clamp<Duration>(2 * before, kFirstRest, kLongestRest);
  lost_.push_back({pair, context_.options.system->now() + rest, rest});
}

std::string Widening::railAt(int rank, const SocketAddress& address) const {
  const Rail* const rail = findAt(endpoint(rank).rails, address);
  return rail != nullptr ? rail->interface : address.text();
}

// A queue that overflows for a moment is no news to the user. Every connection over a pair of rails finds the
// same.
void Widening::say(const LossySocket& socket) {
  const int self = context_.options.rank, peer = connection_.peer();
  const std::string here = railAt(self, socket.ends.local), there = railAt(peer, socket.ends.remote);
  const std::string text = format(
      "packets are lost between %s of %s and %s of %s: %llu of %llu in %.1f s (%s). That holds the other rails "
      "up, so messages leave this one out for %.0f s. Look for a bad cable, port or switch ('ethtool -S %s')",
      here.c_str(), context_.describe(self).c_str(), there.c_str(), context_.describe(peer).c_str(),
      static_cast<unsigned long long>(socket.lost), static_cast<unsigned long long>(socket.packets),
      seconds(socket.during), socket.ends.text().c_str(), seconds(socket.rest), here.c_str());
  tell(socket.again && context_.saidOfRails
                           .insert(format("losses from %s to %s of %s", here.c_str(), there.c_str(),
                                          endpoint(peer).host.c_str()))
                           .second,
       text);
}

void Widening::next() {
  ++current_;
  way_ = Way::routed;
  failure_.clear();
}

}  // namespace eccl::transport
