// Two ranks for tests of connections: each with a reactor, an Acceptor and a Connector, in a thread or a
// process of its own, driven as an engine would.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "support/sanitizers.h"
#include "transport/connect/connector.h"
#include "transport/fault/fault_plan.h"
#include "transport/registry/registry.h"

namespace eccl {

inline constexpr int kSlower = kSanitized ? 10 : 1;

/// What may differ between two parties.
struct PartySetup {
  std::vector<std::string> transports;                    // names
  std::vector<const transport::TransportEntry*> unknown;  // to be tried before those
  bool unixListener = true, direct = true;
  int family = AF_INET;
  RingShape ring{8, 4096};
  uint64_t first = 0;
  uint16_t epoch = 1;
  uint32_t directFrom = 1000;
  uint64_t slotSpread = 20'000;  // half of what the slots hold
  transport::FaultPlan faults;
  bool faulty = false;
  Duration connectLimit = std::chrono::seconds(20);
  std::string restrictions;  // what forbids the other transports
  uint64_t communicator = 77;
  size_t mostUnasked = 0;
  int socketsPerRail = 1;
  bool encrypts = false;
  uint32_t partBytes = 32 << 10;
  std::map<std::string, std::string, std::less<>> settings;  // by name in the table
  System* system = &System::real();                          // of its reactor and connections
  bool placesFlows = false;                                  // rank 0's

  bool allows(const std::string& name) const {
    return std::find(transports.begin(), transports.end(), name) != transports.end();
  }
  transport::TransportChoice choice() const {
    transport::TransportChoice choice;
    choice.allowed = unknown;
    for (const transport::TransportEntry* entry : transport::knownTransports()) {
      if (allows(entry->name))
        choice.allowed.push_back(entry);
      else
        choice.forbidden.push_back({entry->name, restrictions});
    }
    return choice;
  }
};

/// One rank of two.
class Party {
 public:
  /// `gate`: a socket pair's end, for endpoints and for signal()/await().
  Party(int rank, const PartySetup& setup, transport::Fd gate)
      : rank_(rank), setup_(setup), gate_(std::move(gate)), acceptorHandler_(this), gateHandler_(this) {
    EXPECT_TRUE(reactor.open(*setup.system).ok());
    transport::Acceptor::Options options;
    options.unixListener = setup.unixListener;
    transport::Secret secret;
    secret.bytes.fill(7);
    secret.encrypts = setup.encrypts;
    acceptor = transport::Acceptor::open(secret, options, [this](transport::Incoming incoming) {
                 connector->adopt(std::move(incoming));
               }).take();
    transport::ConnectorOptions choices;
    choices.communicator = setup.communicator;
    choices.secret = secret;
    choices.rank = rank;
    choices.identity = acceptor->endpoint().identity;
    choices.ring = setup.ring;
    choices.firstMessage = setup.first;
    choices.epoch = setup.epoch;
    choices.transports = setup.choice();
    choices.allowDirect = setup.direct;
    choices.directFrom = choices.zeroCopyFrom = setup.directFrom;
    choices.connectLimit = setup.connectLimit;
    choices.mostUnasked = setup.mostUnasked;
    choices.describe = [](int r) { return format("rank %d (test)", r); };
    choices.setting = [this](std::string_view name) {
      const auto found = setup_.settings.find(name);
      return found != setup_.settings.end() ? found->second : std::string();
    };
    choices.socketsPerRail = setup.socketsPerRail;
    choices.partBytes = setup.partBytes;
    choices.endpoint = [this](int r) -> const transport::Endpoint& {
      return r == rank_ ? acceptor->endpoint() : peer;
    };
    choices.onBroken = [this](int r, const std::string& reason) {
      brokenRank = r;
      brokenReason = reason;
    };
    choices.system = setup.system;
    if (setup.placesFlows) choices.tellFlows = [](int, const std::string&) {};
    if (setup.faulty) choices.faults = &setup_.faults;
    connector = std::make_unique<transport::Connector>(choices, reactor);
    connector->setRings(setup.ring, setup.directFrom, setup.slotSpread);
    EXPECT_TRUE(reactor.watch(acceptor->fd(), EPOLLIN, &acceptorHandler_).ok());
    tellEndpoint();
    EXPECT_TRUE(reactor.watch(gate_.get(), EPOLLIN, &gateHandler_).ok());
  }

  transport::ConnectionId sending(int16_t tag = 0) const { return {rank_, 1 - rank_, 0, tag}; }
  transport::ConnectionId receiving(int16_t tag = 0) const { return {1 - rank_, rank_, 0, tag}; }
  /// Until the connection is ready or failed.
  transport::Connection* connect(const transport::ConnectionId& id) {
    transport::Connection* connection = connector->get(id);
    until([&] { return connection->state() != transport::Connection::State::connecting; });
    return connection;
  }

  /// Drives, and sleeps as an engine does, until `done`; false after the limit. A sleep that ends by itself
  /// although `done` has come true is a lost wake-up.
  bool until(const std::function<bool()>& done, Duration limit = std::chrono::seconds(20) * kSlower) {
    const TimePoint deadline = System::real().now() + limit;
    bool is = done();
    for (int idle = 0; !is && System::real().now() < deadline;) {
      connector->progress();
      if (acceptor->nextDeadline() <= System::real().now()) acceptor->progress();
      visit([](transport::Path& path) { path.kick(); });
      const bool busy = reactor.poll(Duration::zero()) || ++idle < spins;
      if ((is = done()) || busy) continue;
      visit([](transport::Path& path) {
        path.flush();
        path.beforeSleep();
      });
      connector->progress();
      is = done();
      if (!is) is = sleep(deadline, done);
      visit([](transport::Path& path) { path.afterSleep(); });
      idle = 0;
    }
    connector->progress();
    visit([](transport::Path& path) { path.kick(); });
    return is;
  }

  /// As a service thread does that has nothing of its own to do.
  void driveOnce(Duration limit) {
    if (connector != nullptr) connector->progress();
    reactor.poll(limit);
  }
  /// A byte to the other party; and waiting for one while driving.
  void signal() { EXPECT_EQ(write(gate_.get(), "!", 1), 1); }
  bool await() {
    return until([&] { return signals_ > 0; }) && signals_-- > 0;
  }

  void visit(const std::function<void(transport::Path&)>& what) {
    connector->forEach([&](transport::Connection& each) {
      if (each.path() != nullptr) what(*each.path());
    });
  }

  transport::Reactor reactor;
  std::unique_ptr<transport::Acceptor> acceptor;
  std::unique_ptr<transport::Connector> connector;
  transport::Endpoint peer;
  int brokenRank = -1;
  std::string brokenReason;
  int sleeps = 0, lostWakeUps = 0;
  int spins = 20;

 private:
  bool sleep(TimePoint deadline, const std::function<bool()>& done) {
    const Duration most = std::chrono::milliseconds(1000) * kSlower;
    const TimePoint now = System::real().now();
    const Duration rest = std::max(
        Duration::zero(),
        std::min({most, deadline - now, connector->nextDeadline() - now, acceptor->nextDeadline() - now}));
    ++sleeps;
    const bool woken = reactor.poll(std::chrono::ceil<std::chrono::milliseconds>(rest));
    const bool is = done();
    if (!woken && rest == most && is) ++lostWakeUps;
    return is;
  }

  struct AcceptorHandler : transport::ReadyHandler {
    Party* party;
    explicit AcceptorHandler(Party* p) : party(p) {}
    void onReady(uint32_t) override { party->acceptor->progress(); }
  };
  struct GateHandler : transport::ReadyHandler {
    Party* party;
    explicit GateHandler(Party* p) : party(p) {}
    void onReady(uint32_t) override {
      char byte;
      const ssize_t got = recv(party->gate_.get(), &byte, 1, MSG_DONTWAIT);
      if (got == 1) ++party->signals_;
      if (got == 0) party->reactor.forget(party->gate_.get(), this);  // the other party is through
    }
  };

  void tellEndpoint() {
    transport::Endpoint mine = acceptor->endpoint();
    std::erase_if(mine.addresses, [&](const transport::SocketAddress& a) {
      return a.family() != setup_.family || !a.isLoopback();
    });
    std::string bytes = mine.encode();
    EXPECT_EQ(write(gate_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    char buffer[4096];
    const ssize_t got = recv(gate_.get(), buffer, sizeof buffer, 0);
    Result<transport::Endpoint> theirs =
        transport::Endpoint::decode({buffer, static_cast<size_t>(std::max<ssize_t>(got, 0))});
    EXPECT_TRUE(theirs.ok());
    if (theirs.ok()) peer = *theirs;
  }

  const int rank_;
  PartySetup setup_;
  transport::Fd gate_;
  AcceptorHandler acceptorHandler_;
  GateHandler gateHandler_;
  int signals_ = 0;
};

/// What a party does; returns what went wrong, empty if nothing.
using Role = std::function<std::string(Party&)>;

/// Returns "what, file line" from a Role unless `condition`.
#define PARTY_CHECK(condition)                                                                    \
  do {                                                                                            \
    if (!(condition))                                                                             \
      return ::eccl::format("%s, line %d, broken: %d %s", #condition, __LINE__, party.brokenRank, \
                            party.brokenReason.c_str());                                          \
  } while (0)

struct Gates {
  transport::Fd side[2];
  Gates() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    side[0] = transport::Fd(pair[0]);
    side[1] = transport::Fd(pair[1]);
  }
};

/// Rank 0 and rank 1, as two threads, or with rank 1 in a forked process.
inline void runTwo(const PartySetup& setup, bool fork, const Role& zero, const Role& one,
                   const PartySetup* other = nullptr) {
  Gates gates;
  const PartySetup& second = other != nullptr ? *other : setup;
  if (!fork) {
    std::string failed;
    std::atomic<bool> through = false;
    std::thread thread([&] {
      {
        Party party(1, second, std::move(gates.side[1]));
        failed = one(party);
      }
      through = true;
    });
    {
      Party party(0, setup, std::move(gates.side[0]));
      EXPECT_EQ(zero(party), "");
      while (!through) party.driveOnce(std::chrono::milliseconds(1));  // the other one may end with its help
      thread.join();
    }
    EXPECT_EQ(failed, "");
    return;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    gates.side[0].reset();
    std::string failed;
    {
      Party party(1, second, std::move(gates.side[1]));
      failed = one(party);
    }
    if (!failed.empty()) fprintf(stderr, "rank 1: %s\n", failed.c_str());
    _exit(failed.empty() && !::testing::Test::HasFailure() ? 0 : 1);
  }
  gates.side[1].reset();
  {
    Party party(0, setup, std::move(gates.side[0]));
    EXPECT_EQ(zero(party), "");
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank 1 ended with status " << status;
}

}  // namespace eccl
