// Two ranks whose connections go by verbs, as threads, on the emulation.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/traffic.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_emulation/verbs_emulation.h"

namespace eccl::transport::verbs {

/// A fresh world, and at the end nothing may be left in it.
class OnEmulation : public ::testing::Test {
 protected:
  OnEmulation() { verbsEmulationReset(); }
  ~OnEmulation() override { EXPECT_EQ(verbsEmulationReset(), 0) << "objects are left"; }
  static PartySetup setup() {
    PartySetup setup;
    setup.unknown = {&kVerbsTransport};
    setup.transports = {};
    return setup;
  }
  static VerbsEmulationCounters counters() {
    VerbsEmulationCounters all;
    verbsEmulationCounters(&all);
    return all;
  }
};

#define CONNECT_BY_VERBS(connection, id)                                                                       \
  Connection* connection = party.connect(id);                                                                  \
  if (connection->state() != Connection::State::ready) return "not ready: " + connection->failure().message(); \
  PARTY_CHECK(std::string(connection->path()->name()) == "verbs");

/// What a party does that only waits for the other to break, until its lanes see that. Returns the reason.
inline std::string untilBroken(Party& party, Connection& connection) {
  const bool seen = party.until(
      [&] { return connection.sends() ? connection.sendEnd.poisoned() : connection.receiveEnd.poisoned(); });
  return seen ? "" : "nothing has broken";
}

}  // namespace eccl::transport::verbs
