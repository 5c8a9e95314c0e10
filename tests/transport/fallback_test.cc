// From one transport to the next: those that this host or this peer cannot use, and those that settings forbid.
#include <gtest/gtest.h>

#include "transport/connect/rank_transports.h"
#include "transport/roles.h"

namespace eccl::transport {
namespace {

/// A transport whose every call says no.
struct Refusing : Transport {
  Result<std::unique_ptr<Offer>> offer(const ConnectionId&, SetupData*) override {
    return Status::error(Code::system, "no device is free");
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId&, SetupData&, SetupData*) override {
    return Status::error(Code::system, "no device is free");
  }
};
struct Unreachable : Refusing {
  bool reachable(int, const Endpoint&) const override { return false; }
};
/// An offer whose receiver does not like it, or whose answer its sender does not like.
struct Disputed : Transport {
  struct Side : Offer, Acceptance {
    Status onAnswer(SetupData&, SetupData*) override { return Status::error(Code::remote, "a bad answer"); }
    Status onConfirmation(SetupData&) override { return {}; }
    Result<std::unique_ptr<Path>> open(SendEnd&, Opening) override {
      return Status::error(Code::internal, "?");
    }
    Result<std::unique_ptr<Path>> open(ReceiveEnd&, Opening) override {
      return Status::error(Code::internal, "?");
    }
  };
  Result<std::unique_ptr<Offer>> offer(const ConnectionId&, SetupData* data) override {
    data->bytes = std::string(SetupData::kMaxBytes, 'o');
    return std::unique_ptr<Offer>(std::make_unique<Side>());
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId&, SetupData& data, SetupData* answer) override {
    if (data.bytes != std::string(SetupData::kMaxBytes, 'o')) return Status::error(Code::remote, "a bad offer");
    answer->bytes = "a";
    return std::unique_ptr<Acceptance>(std::make_unique<Side>());
  }
};

template <class Made>
Result<std::unique_ptr<Transport>> make(const TransportContext&) {
  return std::unique_ptr<Transport>(std::make_unique<Made>());
}
Result<std::unique_ptr<Transport>> makeNothing(const TransportContext&) {
  return Status::error(Code::system, "there is no such device");
}
const TransportEntry kMissing{"missing", 900, Reach::network, nullptr, makeNothing},
    kUnreachable{"unreachable", 900, Reach::host, nullptr, make<Unreachable>},
    kRefusing{"refusing", 900, Reach::network, nullptr, make<Refusing>},
    kRefusingHere{"refusing-here", 900, Reach::host, nullptr, make<Refusing>},
    kDisputed{"disputed", 900, Reach::network, nullptr, make<Disputed>},
    kDisputedHere{"disputed-here", 900, Reach::host, nullptr, make<Disputed>};

TEST(Fallback, LeadsToATransportThatWorks) {
  PartySetup setup = allowing(false, false, true);
  setup.unknown = {&kMissing, &kUnreachable, &kRefusing, &kRefusingHere, &kDisputed, &kDisputedHere};
  runTwo(setup, false, sender("tcp"), receiver("tcp"));
  PartySetup one = allowing(false, false, true);  // that knows none of them
  runTwo(setup, false, sender("tcp"), receiver("tcp"), &one);
}

TEST(Fallback, WithoutOneSaysWhatEachLacks) {
  PartySetup setup;
  setup.restrictions = "ECCL_PATHS=x";
  setup.unknown = {&kMissing, &kUnreachable, &kRefusing, &kDisputed};
  runTwo(
      setup, false,
      [](Party& party) -> std::string {
        Connection* connection = party.connect(party.sending());
        PARTY_CHECK(connection->state() == State::failed);
        const std::string& text = connection->failure().message();
        for (const char* part : {"missing: there is no such device; ",
                                 "unreachable: it does not reach the peer; ", "refusing: no device is free; ",
                                 "disputed: a bad answer; switched off: ", "tcp (ECCL_PATHS=x)"}) {
          if (text.find(part) == std::string::npos) return std::string(part) + " is not in: " + text;
        }
        party.signal();
        return "";
      },
      [](Party& party) -> std::string {
        Connection* connection = party.connector->get(party.receiving());
        PARTY_CHECK(party.await());
        PARTY_CHECK(connection->state() == State::connecting);
        return "";
      });
}

// Neither waits for the other.
TEST(Fallback, BothSidesReportThatTheReceiverForbidsTheOnlyWay) {
  for (const char* way : {"thread", "shm", "tcp"}) {
    PartySetup zero, one;
    zero.transports = {way};
    one.transports = {way == std::string("tcp") ? "shm" : "tcp"};
    one.restrictions = "ECCL_PATHS=other";
    const auto failing = [](bool sends, std::vector<std::string> parts) {
      return [=](Party& party) -> std::string {
        Connection* connection = party.connect(sends ? party.sending() : party.receiving());
        PARTY_CHECK(connection->state() == State::failed);
        const std::string& text = connection->failure().message();
        for (const std::string& part : parts) {
          if (text.find(part) == std::string::npos) return part + " is not in: " + text;
        }
        party.signal();
        PARTY_CHECK(party.await());
        return "";
      };
    };
    const std::string why = "the receiver's settings forbid it (ECCL_PATHS=other)";
    runTwo(zero, false, failing(true, {"the peer refused", why}),
           failing(false, {std::string("the sender can come by ") + way + " only", why}), &one);
  }
}

struct Told {
  std::vector<std::string> calls;
}* told = nullptr;
struct Remembering : Refusing {
  void registerMemory(const MemoryRange& memory) override {
    told->calls.push_back(format("+%zu", memory.bytes));
  }
  void deregisterMemory(const MemoryRange& memory) override {
    told->calls.push_back(format("-%zu", memory.bytes));
  }
};

TEST(RegisteredMemory, IsToldOnceAndToTransportsMadeLater) {
  const TransportEntry entry{"remembering", 900, Reach::network, nullptr, make<Remembering>};
  Told calls;
  told = &calls;
  TransportContext context;
  context.describe = [](int) { return std::string("rank 0"); };
  RankTransports transports({{&entry, &kMissing}, {}}, context);
  std::byte memory[100];
  const MemoryRange early{memory, 10}, gone{memory, 20}, late{memory, 30};
  transports.registerMemory(early);
  transports.registerMemory(early);
  transports.registerMemory(gone);
  transports.deregisterMemory(gone);
  ASSERT_TRUE(transports.get(0).ok());
  EXPECT_FALSE(transports.get(1).ok());
  transports.registerMemory(late);
  transports.deregisterMemory(early);
  transports.registerMemory(late);
  transports.deregisterMemory(late);
  EXPECT_EQ(calls.calls, (std::vector<std::string>{"+10", "+30"}));
  transports.deregisterMemory(late);
  transports.deregisterMemory(early);
  transports.deregisterMemory(early);  // one too many
  EXPECT_EQ(calls.calls, (std::vector<std::string>{"+10", "+30", "-30", "-10"}));
}

}  // namespace
}  // namespace eccl::transport
