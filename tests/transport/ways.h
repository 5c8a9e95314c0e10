// The ways on which the conformance suite runs, and what goes wrong on them.
#pragma once

#include <cctype>
#include <string>
#include <tuple>
#include <vector>

#include "base/tokens.h"
#include "support/modules.h"
#include "transport/traffic.h"

namespace eccl {

/// How two ranks are connected: by a transport, in one process or two, over which addresses.
struct Way {
  const transport::TransportEntry* transport;
  bool forks;  // rank 1 is a process of its own
  int family;  // of Reach::network
};
enum class Weather { bare, delay, partial, stall, spread, encrypted, encryptedPartial, encryptedSpread };

/// Every registered transport, modules among them, as far apart as it reaches. UCX goes by what every host has; those
/// that need a device are there if ECCL_TEST_MODULES names their modules, as the tests on such a device do.
inline std::vector<Way> everyWay() {
  std::vector<std::string> modules = {test::transportModule("unix")};
  if (const std::string ucx = test::builtModule("ucx"); !ucx.empty()) modules.push_back(ucx);
  if (const char* further = getenv("ECCL_TEST_MODULES"))
    for (const std::string& each : itemsOf(further)) modules.push_back(each);
  for (const std::string& each : modules) {
    if (const Status opened = transport::openTransportModule(each); !opened.ok()) {
      fprintf(stderr, "%s\n", opened.message().c_str());
      abort();
    }
  }
  std::vector<Way> ways;
  for (const transport::TransportEntry* entry : transport::knownTransports()) {
    ways.push_back({entry, false, AF_INET});
    if (entry->reach == transport::Reach::host) ways.push_back({entry, true, AF_INET});
    if (entry->reach != transport::Reach::network) continue;
    ways.push_back({entry, false, AF_INET6});
    if (!transport::moduleFileOf(*entry).empty()) ways.push_back({entry, true, AF_INET});
  }
  return ways;
}
inline Way wayBy(const std::string& name, bool forks = false) {
  for (const Way& way : everyWay()) {
    if (name == way.transport->name) return {way.transport, forks, way.family};
  }
  return {};
}

inline std::string nameOf(const Way& way) {
  std::string name = way.transport->name;
  name[0] = static_cast<char>(std::toupper(name[0]));
  if (way.transport->reach == transport::Reach::network) name += way.family == AF_INET6 ? "6" : "4";
  return name + (way.forks ? "Fork" : "");
}
inline const char* nameOf(Weather weather) {
  const char* names[] = {"Bare",   "Delay",     "Partial",          "Stall",
                         "Spread", "Encrypted", "EncryptedPartial", "EncryptedSpread"};
  return names[static_cast<int>(weather)];
}
inline std::string pathOf(const Way& way) {
  return way.transport->name;
}
inline bool forks(const Way& way) {
  return way.forks;
}

inline PartySetup setupFor(const Way& way, Weather weather = Weather::bare) {
  PartySetup setup;
  setup.transports = {way.transport->name};
  setup.family = way.family;
  setup.encrypts = weather >= Weather::encrypted;
  setup.faulty = weather == Weather::delay || weather == Weather::partial || weather == Weather::stall ||
                 weather == Weather::encryptedPartial;
  if (weather == Weather::delay) setup.faults.delay = std::chrono::microseconds(300);
  if (weather == Weather::partial || weather == Weather::encryptedPartial) {
    setup.faults.bytesPerCall = 7;
    setup.ring.slotBytes = 256;
    setup.directFrom = 100;
  }
  if (weather == Weather::stall) {
    setup.faults.stallAt = 20;
    setup.faults.stallFor = std::chrono::milliseconds(60);
  }
  if (weather == Weather::spread ||
      weather == Weather::encryptedSpread) {  // messages in parts, over several sockets
    setup.socketsPerRail = 3;
    setup.partBytes = 64;
  }
  return setup;
}

inline bool haveIpv6() {
  transport::Fd probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  return probe && bind(probe.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0;
}

#define CONNECT(connection, id)               \
  Connection* connection = party.connect(id); \
  PARTY_CHECK(connection->state() == Connection::State::ready)

/// UCX cannot be used in a process that was forked by one that uses it, and one that had to fail goes on using it.
inline bool forkedTooLate(const Way& way) {
  static bool used = false;
  if (std::string(way.transport->name) != "ucx") return false;
  if (!way.forks) used = true;
  return way.forks && used;
}
inline const char* const kForkedTooLate = "this process has used UCX already; ctest starts one for each test";

/// The ways, whatever the weather.
class OnEveryWay : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (way().family == AF_INET6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
    if (forkedTooLate(way())) GTEST_SKIP() << kForkedTooLate;
  }
  Way way() const { return GetParam(); }
  void run(const PartySetup& setup, const Role& zero, const Role& one) {
    runTwo(setup, forks(way()), zero, one);
  }
};

class OnEveryWayInAnyWeather : public ::testing::TestWithParam<std::tuple<Way, Weather>> {
 protected:
  void SetUp() override {
    if (way().family == AF_INET6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
    if (forkedTooLate(way())) GTEST_SKIP() << kForkedTooLate;
    if (const auto tls = transport::tlsLibrary(); weather() >= Weather::encrypted && !tls.ok())
      GTEST_SKIP() << tls.status().message();
  }
  Way way() const { return std::get<0>(GetParam()); }
  Weather weather() const { return std::get<1>(GetParam()); }
};

inline const auto kWays = ::testing::ValuesIn(everyWay());
inline const auto kWeathers =
    ::testing::Values(Weather::bare, Weather::delay, Weather::partial, Weather::stall);
/// Over TCP a connection may have several sockets, and be encrypted.
inline const auto kSpread = ::testing::Combine(
    ::testing::Values(wayBy("tcp")), ::testing::Values(Weather::spread, Weather::encrypted,
                                                       Weather::encryptedPartial, Weather::encryptedSpread));
inline std::string nameOfWay(const ::testing::TestParamInfo<Way>& info) {
  return nameOf(info.param);
}
inline std::string nameOfBoth(const ::testing::TestParamInfo<std::tuple<Way, Weather>>& info) {
  return nameOf(std::get<0>(info.param)) + nameOf(std::get<1>(info.param));
}

}  // namespace eccl
