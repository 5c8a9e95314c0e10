// Callers that a Connector must turn away, or survive.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <climits>

#include "transport/connect/setup.h"
#include "transport/roles.h"
#include "transport/shm/shm_transport.h"

namespace eccl::transport {
namespace {

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
    Dialer dialer(party.peer, secret, hello, how, System::real().now() + std::chrono::seconds(10));
    PARTY_CHECK(party.until([&] { return dialer.progress(); }));
    Result<Stream> fd = dialer.result();
    PARTY_CHECK(fd.ok());
    socket = SetupSocket(fd.take());
    return "";
  }
  SetupMessage answer(Party& party) {
    std::optional<SetupMessage> message;
    party.until([&] {
      Result<std::optional<SetupMessage>> got = socket.receive();
      if (got.ok() && *got) message = std::move(**got);
      return message.has_value() || !got.ok();
    });
    return message ? std::move(*message) : SetupMessage{};
  }
};

Hello helloFor(DataHello data, int32_t rank = 0) {
  Hello hello;
  hello.communicator = 77;
  hello.rank = rank;
  hello.setPayload(data);
  return hello;
}
const DataHello kGood{0, 1, 0, 0, 8, 4096, 1, 0, 0};  // an offer follows
DataHello goodByTcp() {
  DataHello data = kGood;
  data.transport = transportId("tcp");
  return data;
}

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
            PARTY_CHECK(!answer.why.empty());
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
        if (std::string wrong = first.call(party, helloFor(goodByTcp())); !wrong.empty()) return wrong;
        if (std::string wrong = second.call(party, helloFor(goodByTcp())); !wrong.empty()) return wrong;
        const SetupMessage early = second.answer(party);  // nobody has asked for the first one yet
        PARTY_CHECK(early.kind == SetupKind::refused);
        PARTY_CHECK(early.why.find("waits already") != std::string::npos);
        party.signal();
        PARTY_CHECK(first.answer(party).kind == SetupKind::accepted);
        if (std::string wrong = third.call(party, helloFor(goodByTcp())); !wrong.empty()) return wrong;
        const SetupMessage late = third.answer(party);
        PARTY_CHECK(late.kind == SetupKind::refused);
        PARTY_CHECK(late.why.find("already") != std::string::npos);
        party.signal();
        PARTY_CHECK(party.await());  // hangs up only now
        return "";
      },
      [](Party& party) -> std::string {
        PARTY_CHECK(party.await());
        Connection* connection = party.connect(party.receiving());
        PARTY_CHECK(connection->state() == State::ready);
        PARTY_CHECK(party.await());
        PARTY_CHECK(connection->state() == State::ready);
        party.signal();
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
          DataHello data = goodByTcp();
          data.tag = tag;
          if (std::string wrong = callers[tag].call(party, helloFor(data)); !wrong.empty()) return wrong;
        }
        const SetupMessage later = callers[3].answer(party);
        PARTY_CHECK(later.kind == SetupKind::later && later.milliseconds >= 10 && later.milliseconds <= 5000);
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

// What is wrong with the memory offered leads to the next transport; nonsense instead of an offer, to the next
// call.
TEST(Connector, RefusesMemoryThatIsNotWhatWasAgreedOn) {
  runTwo(
      allowing(true, true, true), false,
      [&](Party& party) -> std::string {
        const size_t bytes = ringMemoryBytes(shmRing({8, 4096}));
        Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        PARTY_CHECK(ftruncate(unsealed.get(), static_cast<off_t>(bytes)) == 0);
        Result<SharedMemory> good = createShared("eccl-test", bytes),
                             small = createShared("eccl-test", bytes - 64);
        PARTY_CHECK(good.ok() && small.ok());
        struct Offered {
          SetupKind kind;
          uint64_t bytes;
          int fd;
          uint8_t nonce;
          const char* why;
          int bell = -1;
        };
        int ends[2];
        PARTY_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        const Fd unread(ends[1]), waiting(eventfd(0, EFD_CLOEXEC));
        Fd(ends[0]).reset();
        const int bell = party.reactor.doorbell();
        for (const Offered& offer :
             {Offered{SetupKind::offer, bytes, unsealed.get(), 0, "sealed"},
              Offered{SetupKind::offer, bytes, small->fd.get(), 0, "agreed"},
              Offered{SetupKind::offer, bytes - 64, small->fd.get(), 0, "expected"},
              Offered{SetupKind::offer, bytes, good->fd.get(), 1, "does not show"},
              Offered{SetupKind::offer, bytes, -1, 0, "descriptors"},
              Offered{SetupKind::offer, 0, -1, 0, "no sense"},
              Offered{SetupKind::accepted, bytes, -1, 3, "no sense"},
              Offered{SetupKind::confirmed, bytes, -1, 3, "no sense"},
              Offered{SetupKind::offer, bytes, good->fd.get(), 0, "no doorbell", unread.get()},
              Offered{SetupKind::offer, bytes, good->fd.get(), 0, "no doorbell", waiting.get()}}) {
          Caller caller;
          if (std::string wrong = caller.call(party, helloFor(kGood), true); !wrong.empty()) return wrong;
          SetupMessage message = saying(offer.kind, "");
          message.transport = "shm";
          ShmOffer content;
          content.bytes = offer.bytes;
          content.nonce.fill(offer.nonce);
          if (offer.bytes > 0) message.data.set(content);
          if (offer.fd >= 0) message.data.lent.push_back(offer.fd);
          message.data.lent.push_back(offer.bell >= 0 ? offer.bell : bell);
          PARTY_CHECK(caller.socket.send(std::move(message)).ok());
          const SetupMessage answer = caller.answer(party);
          PARTY_CHECK(answer.kind == SetupKind::otherWay);
          if (answer.why.find(offer.why) == std::string::npos) return answer.why;
        }
        return sender("thread")(party);
      },
      receiver("thread"));
}

// What passes between threads of one process, or of one host, cannot come over TCP.
TEST(Connector, RefusesOffersOverASocketThatTheirTransportDoesNotUse) {
  runTwo(
      allowing(true, true, true), false,
      [](Party& party) -> std::string {
        for (const char* transport : {"thread", "shm"}) {
          for (bool named : {false, true}) {
            DataHello data = kGood;
            if (named) data.transport = transportId(transport);
            Caller caller;
            if (std::string wrong = caller.call(party, helloFor(data)); !wrong.empty()) return wrong;
            SetupMessage message = saying(SetupKind::offer, "");
            message.transport = transport;
            if (!named) PARTY_CHECK(caller.socket.send(std::move(message)).ok());
            const SetupMessage answer = caller.answer(party);
            PARTY_CHECK(answer.kind == SetupKind::otherWay);
            PARTY_CHECK(answer.why.find("no sense over this socket") != std::string::npos);
          }
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

}  // namespace
}  // namespace eccl::transport
