// How connections come about, and what is said when they do not.
#include "transport/connector.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include <climits>

#include "transport/setup.h"
#include "transport/traffic.h"

namespace eccl {
namespace {

using State = Connection::State;
using ::testing::AllOf;
using ::testing::HasSubstr;

PartySetup allowing(bool thread, bool shm, bool tcp) {
  PartySetup setup;
  setup.thread = thread;
  setup.shm = shm;
  setup.tcp = tcp;
  return setup;
}

Role sender(const std::string& path) {
  return [path](Party& party) -> std::string {
    Connection* connection = party.connect(party.sending());
    PARTY_CHECK(connection->state() == State::ready);
    if (path != connection->path()->name()) return "went by " + std::string(connection->path()->name());
    return sendAll(party, *connection, 20);
  };
}
Role receiver(const std::string& path) {
  return [path](Party& party) -> std::string {
    Connection* connection = party.connect(party.receiving());
    PARTY_CHECK(connection->state() == State::ready);
    if (path != connection->path()->name()) return "came by " + std::string(connection->path()->name());
    return receiveAll(party, *connection, 20);
  };
}

TEST(Connector, ThreadsOfOneProcessShareTheirMemory) {
  runTwo(allowing(true, true, true), false, sender("thread"), receiver("thread"));
}

TEST(Connector, ProcessesOfOneHostShareASegment) {
  runTwo(allowing(true, true, true), true, sender("shm"), receiver("shm"));
}

TEST(Connector, TakesTcpWhenTheUnixDoorIsNotThere) {
  PartySetup setup = allowing(true, true, true);
  setup.unixDoor = false;
  runTwo(setup, false, sender("tcp"), receiver("tcp"));
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
  setup.unixDoor = false;
  runTwo(setup, false, failing({"rank 1 (test)", "ECCL_PATHS=shm", "TCP", "AF_UNIX"}), waitingInVain());
  setup = allowing(true, false, false);
  setup.restrictions = "ECCL_PATHS=thread";
  runTwo(setup, true, failing({"rank 1 (test)", "ECCL_PATHS=thread", "another process", "TCP"}),
         waitingInVain());
  setup = allowing(false, false, false);
  setup.restrictions = "ECCL_PATHS=none";
  runTwo(setup, false, failing({"every path is switched off", "ECCL_PATHS=none"}), waitingInVain());
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

// A caller in the guise of rank 0 with a Hello of its own making; what the Connector answers.
struct Caller {
  SetupSocket socket;
  std::string call(Party& party, const Hello& hello, bool viaUnix = false) {
    DialOptions how;
    how.peer = "rank 1";
    how.via = viaUnix ? Via::unixOnly : Via::tcp;
    party.spins = INT_MAX;  // the dialer's descriptor is not in the party's reactor
    Secret secret;
    secret.bytes.fill(7);
    Dialer dialer(party.peer, secret, hello, how, Clock::system().now() + std::chrono::seconds(10));
    PARTY_CHECK(party.until([&] { return dialer.progress(); }));
    Result<Fd> fd = dialer.result();
    PARTY_CHECK(fd.ok());
    socket = SetupSocket(fd.take());
    return "";
  }
  SetupMessage answer(Party& party) {
    std::optional<SetupMessage> message;
    party.until([&] {
      Result<std::optional<SetupMessage>> got = socket.receive();
      if (got.ok() && *got) message = **got;
      return message.has_value() || !got.ok();
    });
    return message.value_or(SetupMessage{});
  }
};

Hello helloFor(DataHello data, int32_t rank = 0) {
  Hello hello;
  hello.communicator = 77;
  hello.rank = rank;
  hello.setPayload(data);
  return hello;
}
const DataHello kGood{0, 1, 0, 0, 8, 4096, 1, 0, 0};

TEST(Connector, TurnsAwayCallsThatNameNoConnectionOfThisRank) {
  std::vector<Hello> bad;
  for (auto change : std::vector<std::function<void(DataHello&)>>{
           [](DataHello& d) { d.to = 5; }, [](DataHello& d) { d.to = 0; }, [](DataHello& d) { d.from = 1; },
           [](DataHello& d) { d.from = -3; }, [](DataHello& d) { d.slots = 0; },
           [](DataHello& d) { d.slotBytes = UINT32_MAX; },
           [](DataHello& d) { std::memset(&d, 0xff, sizeof d); }}) {
    DataHello data = kGood;
    change(data);
    bad.push_back(helloFor(data));
  }
  bad.push_back(helloFor(kGood, 3));  // rank 3 speaking for rank 0
  runTwo(
      allowing(true, true, true), false,
      [&](Party& party) -> std::string {
        for (const Hello& hello : bad) {
          for (bool viaUnix : {false, true}) {
            Caller caller;
            if (std::string wrong = caller.call(party, hello, viaUnix); !wrong.empty()) return wrong;
            const SetupMessage answer = caller.answer(party);
            PARTY_CHECK(answer.kind == SetupKind::refused);
            PARTY_CHECK(answer.why[0] != '\0');
          }
        }
        return sender("thread")(party);  // the job is unharmed
      },
      receiver("thread"));
}

TEST(Connector, TurnsAwayASecondCallForTheSameConnection) {
  runTwo(
      allowing(false, false, true), false,
      [&](Party& party) -> std::string {
        Caller first, second, third;
        if (std::string wrong = first.call(party, helloFor(kGood)); !wrong.empty()) return wrong;
        if (std::string wrong = second.call(party, helloFor(kGood)); !wrong.empty()) return wrong;
        const SetupMessage early = second.answer(party);  // nobody has asked for the first one yet
        PARTY_CHECK(early.kind == SetupKind::refused);
        PARTY_CHECK(std::string(early.why).find("waits already") != std::string::npos);
        party.signal();
        PARTY_CHECK(first.answer(party).kind == SetupKind::accepted);
        if (std::string wrong = third.call(party, helloFor(kGood)); !wrong.empty()) return wrong;
        const SetupMessage late = third.answer(party);
        PARTY_CHECK(late.kind == SetupKind::refused);
        PARTY_CHECK(std::string(late.why).find("already") != std::string::npos);
        party.signal();
        return "";
      },
      [](Party& party) -> std::string {
        PARTY_CHECK(party.await());
        Connection* connection = party.connect(party.receiving());
        PARTY_CHECK(connection->state() == State::ready);
        PARTY_CHECK(party.await());
        PARTY_CHECK(connection->state() == State::ready);
        return "";
      });
}

TEST(Connector, KeepsABoundedNumberOfCallersNobodyAskedFor) {
  PartySetup setup = allowing(false, false, true);
  setup.mostUnasked = 3;
  runTwo(
      setup, false,
      [&](Party& party) -> std::string {
        Caller callers[4];
        for (int16_t tag = 0; tag < 4; ++tag) {
          DataHello data = kGood;
          data.tag = tag;
          if (std::string wrong = callers[tag].call(party, helloFor(data)); !wrong.empty()) return wrong;
        }
        PARTY_CHECK(callers[3].answer(party).kind == SetupKind::refused);
        party.signal();
        for (int tag = 0; tag < 3; ++tag) PARTY_CHECK(callers[tag].answer(party).kind == SetupKind::accepted);
        party.signal();
        return "";
      },
      [](Party& party) -> std::string {
        PARTY_CHECK(party.await());
        for (int16_t tag = 0; tag < 3; ++tag)
          PARTY_CHECK(party.connect(party.receiving(tag))->state() == State::ready);
        PARTY_CHECK(party.await());
        return "";
      });
}

// What is wrong with the memory offered leads to TCP; nonsense instead of an offer, to the next call.
TEST(Connector, RefusesMemoryThatIsNotWhatWasAgreedOn) {
  runTwo(
      allowing(true, true, true), false,
      [&](Party& party) -> std::string {
        const size_t bytes = ringMemoryBytes({8, 4096});
        Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        PARTY_CHECK(ftruncate(unsealed.get(), static_cast<off_t>(bytes)) == 0);
        Result<SharedMemory> good = createShared(bytes), small = createShared(bytes - 64);
        PARTY_CHECK(good.ok() && small.ok());
        struct Offer {
          SetupKind kind;
          uint64_t bytes;
          int fd;
          uint8_t nonce;
          const char* why;
        };
        const int bell = party.reactor.doorbell();
        for (const Offer& offer : {Offer{SetupKind::shm, bytes, unsealed.get(), 0, "sealed"},
                                   Offer{SetupKind::shm, bytes, small->fd.get(), 0, "agreed"},
                                   Offer{SetupKind::shm, bytes - 64, small->fd.get(), 0, "expected"},
                                   Offer{SetupKind::shm, bytes, good->fd.get(), 1, "does not show"},
                                   Offer{SetupKind::shm, bytes, -1, 0, "descriptors"},
                                   Offer{SetupKind::thread, bytes, -1, 3, "no such ring"},
                                   Offer{SetupKind::go, bytes, -1, 3, "no sense"}}) {
          Caller caller;
          if (std::string wrong = caller.call(party, helloFor(kGood), true); !wrong.empty()) return wrong;
          SetupMessage message;
          message.kind = offer.kind;
          message.bytes = offer.bytes;
          message.nonce.fill(offer.nonce);
          Status sent = offer.fd >= 0 ? caller.socket.send(message, {bell, offer.fd})
                                      : caller.socket.send(message, {bell});
          PARTY_CHECK(sent.ok());
          const SetupMessage answer = caller.answer(party);
          PARTY_CHECK(answer.kind == SetupKind::otherWay);
          if (std::string(answer.why).find(offer.why) == std::string::npos) return answer.why;
        }
        return sender("thread")(party);
      },
      receiver("thread"));
}

TEST(Connector, ACallerThatHangsUpIsNoEnd) {
  runTwo(
      allowing(true, true, true), false,
      [&](Party& party) -> std::string {
        for (bool viaUnix : {true, true}) {
          Caller caller;
          if (std::string wrong = caller.call(party, helloFor(kGood), viaUnix); !wrong.empty()) return wrong;
          caller.socket = SetupSocket();
          party.signal();
          PARTY_CHECK(party.await());
        }
        return sender("thread")(party);
      },
      [](Party& party) -> std::string {
        Connection* connection = party.connector->get(party.receiving());
        for (int i = 0; i < 2; ++i) {
          PARTY_CHECK(party.await());
          PARTY_CHECK(connection->state() == State::connecting);
          party.signal();
        }
        return receiver("thread")(party);
      });
}

// The limit is for reaching the door. How long the peer takes to come to the same collective is its business.
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
    const SocketAddress door = SocketAddress::from(reinterpret_cast<sockaddr*>(&address));
    runTwo(
        setup, false,
        [&](Party& party) -> std::string {
          party.peer.addresses = {door};
          const TimePoint begun = Clock::system().now();
          if (std::string wrong =
                  failing({"rank 0 (test)", "rank 1 (test)", door.text(), "within 0.4 s"})(party);
              !wrong.empty()) {
            return wrong;
          }
          PARTY_CHECK(Clock::system().now() - begun >= setup.connectLimit);
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
}  // namespace eccl
