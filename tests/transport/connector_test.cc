// How connections come about, and what is said when they do not.
#include "transport/connect/connector.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "transport/roles.h"

namespace eccl::transport {
namespace {

TEST(Connector, ThreadsOfOneProcessShareTheirMemory) {
  runTwo(allowing(true, true, true), false, sender("thread"), receiver("thread"));
}

TEST(Connector, ProcessesOfOneHostShareASegment) {
  runTwo(allowing(true, true, true), true, sender("shm"), receiver("shm"));
}

TEST(Connector, RefusesConnectionsThatAreNotItsOwn) {
  const Role role = [](Party& party) -> std::string {
    for (const ConnectionId& id : {ConnectionId{0, 0, 0, 0}, {1, 1, 0, 0}, {2, 3, 0, 0}})
      PARTY_CHECK(party.connector->get(id)->state() == State::failed);
    return "";
  };
  runTwo(allowing(true, true, true), false, role, role);
}

TEST(Connector, TakesTcpWhenTheUnixListenerIsNotThere) {
  PartySetup setup = allowing(true, true, true);
  setup.unixListener = false;
  runTwo(setup, true, sender("tcp"), receiver("tcp"));
}

TEST(Connector, TakesTcpWhenTheReceiverForbidsWhatIsOffered) {
  PartySetup zero = allowing(true, true, true), one = allowing(false, false, true);
  runTwo(zero, false, sender("tcp"), receiver("tcp"), &one);
  runTwo(zero, true, sender("tcp"), receiver("tcp"), &one);
}

TEST(Connector, TakesTcpWhenOnlyThreadsMayShareAndThePeerIsAProcess) {
  runTwo(allowing(true, false, true), true, sender("tcp"), receiver("tcp"));
}

// Both report which way, and rank 1, that never gets a call, just goes on waiting.
Role failing(std::vector<std::string> parts) {
  return [parts](Party& party) -> std::string {
    Connection* connection = party.connect(party.sending());
    PARTY_CHECK(connection->state() == State::failed);
    const std::string& text = connection->failure().message();
    for (const std::string& part : parts) {
      if (text.find(part) == std::string::npos) return "'" + part + "' is not in: " + text;
    }
    PARTY_CHECK(connection->path() == nullptr);
    party.signal();
    return "";
  };
}
Role waitingInVain() {
  return [](Party& party) -> std::string {
    Connection* connection = party.connector->get(party.receiving());
    PARTY_CHECK(party.await());
    PARTY_CHECK(connection->state() == State::connecting);
    return "";
  };
}

TEST(Connector, NamesTheSettingsThatForbidTheOnlyWay) {
  PartySetup setup = allowing(true, true, false);
  setup.restrictions = "ECCL_PATHS=shm";
  setup.unixListener = false;
  runTwo(setup, true, failing({"rank 1 (test)", "tcp (ECCL_PATHS=shm)", "AF_UNIX"}), waitingInVain());
  setup = allowing(true, false, false);
  setup.restrictions = "ECCL_PATHS=thread";
  runTwo(setup, true, failing({"rank 1 (test)", "tcp (ECCL_PATHS=thread)", "another process"}),
         waitingInVain());
  setup = allowing(false, false, false);
  setup.restrictions = "ECCL_PATHS=none";
  runTwo(setup, false, failing({"every transport is switched off", "ECCL_PATHS=none"}), waitingInVain());
}

TEST(Connector, TurnsAwayRingsOfAnotherShape) {
  for (auto [thread, shm, tcp] : {std::tuple{true, true, true}, {false, true, true}, {false, false, true}}) {
    PartySetup zero = allowing(thread, shm, tcp), one = zero;
    one.ring.slotBytes = 8192;
    runTwo(zero, false, failing({"rank 1 (test)", "refused", "8 slots of 4096 bytes", "8192"}), waitingInVain(),
           &one);
    one = zero;
    one.ring.slots = 4;
    runTwo(zero, false, failing({"refused", "4 of 4096"}), waitingInVain(), &one);
    one = zero;
    one.epoch = 9;
    runTwo(zero, false, failing({"refused", "epoch"}), waitingInVain(), &one);
    one = zero;
    one.first = 100;
    runTwo(zero, false, failing({"refused"}), waitingInVain(), &one);
    one = zero;
    one.communicator = 78;
    runTwo(zero, false, failing({"refused", "another communicator"}), waitingInVain(), &one);
  }
}

// Ranks are found to share memory while others are ready already, and call.
TEST(Connector, LooksAtCallersAgainWhenItsRingsAreKnown) {
  for (auto [thread, shm, tcp, path] :
       {std::tuple{true, true, true, "thread"}, {false, true, true, "shm"}, {false, false, true, "tcp"}}) {
    const PartySetup zero = allowing(thread, shm, tcp);
    PartySetup one = zero;
    one.ring = {};
    for (const bool fits : {true, false}) {
      RingShape ring = zero.ring;
      if (!fits) ring.slotBytes *= 2;
      const auto later = [=](const auto& then) {
        return [=](Party& party) {
          party.until([] { return false; }, std::chrono::milliseconds(100));
          party.connector->setRings(ring, kDirectFrom, 0);
          return then(party);
        };
      };
      if (fits)
        runTwo(zero, false, sender(path), later(receiver(path)), &one);
      else
        runTwo(zero, false, failing({"rank 1 (test)", "refused", "8 slots of 4096 bytes", "8192"}),
               later(waitingInVain()), &one);
    }
  }
}

// The limit is for reaching the peer. How long the peer takes to come to the same collective is its business.
TEST(Connector, WaitsForAPeerThatAsksLate) {
  for (auto [thread, shm, tcp, path] :
       {std::tuple{true, true, true, "thread"}, {false, true, true, "shm"}, {false, false, true, "tcp"}}) {
    PartySetup setup = allowing(thread, shm, tcp);
    setup.connectLimit = std::chrono::milliseconds(300) * kSlower;
    runTwo(setup, false, sender(path), [&, path = path](Party& party) -> std::string {
      party.until([] { return false; }, 2 * setup.connectLimit);
      return receiver(path)(party);
    });
  }
}

Fd listeningOn(sockaddr_in& address, bool listens) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(!listens || listen(fd.get(), 16) == 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return fd;
}

TEST(Connector, SaysAfterItsLimitWhomItTriedAndHow) {
  for (bool listens : {false, true}) {  // refused, and connected but never answered
    PartySetup setup = allowing(false, false, true);
    setup.connectLimit = std::chrono::milliseconds(400);
    sockaddr_in address{};
    Fd fd = listeningOn(address, listens);
    const SocketAddress listener = SocketAddress::from(reinterpret_cast<sockaddr*>(&address));
    runTwo(
        setup, false,
        [&](Party& party) -> std::string {
          party.peer.addresses = {listener};
          const TimePoint begun = System::real().now();
          if (std::string wrong =
                  failing({"rank 0 (test)", "rank 1 (test)", listener.text(), "within 0.4 s"})(party);
              !wrong.empty()) {
            return wrong;
          }
          PARTY_CHECK(System::real().now() - begun >= setup.connectLimit);
          return "";
        },
        waitingInVain());
  }
}

TEST(Connector, PoisonEndsWhatIsUnfinishedAndWhatComesLater) {
  for (bool local : {true, false}) {
    runTwo(
        allowing(local, local, true), false,
        [&](Party& party) -> std::string {
          Connection* connection = party.connector->get(party.sending());
          PARTY_CHECK(party.await());  // rank 1 is poisoned now; what it kept is told
          PARTY_CHECK(party.until([&] { return connection->state() == State::failed; }));
          PARTY_CHECK(party.connect(party.sending(1))->state() == State::failed);
          PARTY_CHECK(connection->failure().message().find("aborted") != std::string::npos);
          party.connector->poison();
          PARTY_CHECK(party.connector->get(party.sending(2))->state() == State::failed);
          PARTY_CHECK(party.connector->get(party.receiving(2))->state() == State::failed);
          party.signal();
          return "";
        },
        [](Party& party) -> std::string {
          Connection* unfinished = party.connector->get(party.sending(5));
          // Time for the call of rank 0 to arrive and to be kept.
          party.until([] { return false; }, std::chrono::milliseconds(50) * kSlower);
          party.connector->poison();
          PARTY_CHECK(unfinished->state() == State::failed);
          party.signal();
          PARTY_CHECK(party.await());
          PARTY_CHECK(party.brokenRank == -1);
          return "";
        });
  }
}

// A child that got all descriptors closes them without disturbing its parent's connections.
TEST(Connector, AForkedChildLetsGoSilently) {
  for (auto [thread, shm, tcp] : {std::tuple{true, true, true}, {false, true, true}, {false, false, true}}) {
    runTwo(
        allowing(thread, shm, tcp), false,
        [](Party& party) -> std::string {
          Connection* connection = party.connect(party.sending());
          PARTY_CHECK(connection->state() == State::ready);
          party.connector->get(party.sending(9));  // and one that is not ready
          const pid_t child = fork();
          if (child == 0) {
            party.connector->closeAfterFork();
            party.reactor.closeAfterFork();
            party.connector.reset();
            _exit(0);
          }
          int status = 0;
          PARTY_CHECK(waitpid(child, &status, 0) == child && status == 0);
          PARTY_CHECK(connection->state() == State::ready && !connection->sendEnd.poisoned());
          return sendAll(party, *connection, 20);
        },
        [](Party& party) -> std::string {
          Connection* connection = party.connect(party.receiving());
          PARTY_CHECK(connection->state() == State::ready);
          return receiveAll(party, *connection, 20);
        });
  }
}

}  // namespace
}  // namespace eccl::transport
