// The ways on which the conformance suite runs, and what goes wrong on them.
#pragma once

#include <string>
#include <tuple>

#include "transport/traffic.h"

namespace eccl {

enum class Way { thread, shm, shmFork, tcp4, tcp6 };
enum class Weather { bare, delay, partial, stall };

inline const char* nameOf(Way way) {
  const char* names[] = {"Thread", "Shm", "ShmFork", "Tcp4", "Tcp6"};
  return names[static_cast<int>(way)];
}
inline const char* nameOf(Weather weather) {
  const char* names[] = {"Bare", "Delay", "Partial", "Stall"};
  return names[static_cast<int>(weather)];
}
inline const char* pathOf(Way way) {
  return way == Way::thread ? "thread" : way == Way::shm || way == Way::shmFork ? "shm" : "tcp";
}
inline bool forks(Way way) {
  return way == Way::shmFork;
}
inline bool isTcp(Way way) {
  return way == Way::tcp4 || way == Way::tcp6;
}

inline PartySetup setupFor(Way way, Weather weather = Weather::bare) {
  PartySetup setup;
  setup.thread = way == Way::thread;
  setup.shm = way == Way::shm || way == Way::shmFork;
  setup.tcp = isTcp(way);
  setup.family = way == Way::tcp6 ? AF_INET6 : AF_INET;
  setup.faulty = weather != Weather::bare;
  if (weather == Weather::delay) setup.faults.delay = std::chrono::microseconds(300);
  if (weather == Weather::partial) {
    setup.faults.bytesPerCall = 7;
    setup.ring.slotBytes = 256;
    setup.directFrom = 100;
  }
  if (weather == Weather::stall) {
    setup.faults.stallAt = 20;
    setup.faults.stallFor = std::chrono::milliseconds(60);
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

/// The ways, whatever the weather.
class OnEveryWay : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (way() == Way::tcp6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
  }
  Way way() const { return GetParam(); }
  void run(const PartySetup& setup, const Role& zero, const Role& one) {
    runTwo(setup, forks(way()), zero, one);
  }
};

class OnEveryWayInAnyWeather : public ::testing::TestWithParam<std::tuple<Way, Weather>> {
 protected:
  void SetUp() override {
    if (way() == Way::tcp6 && !haveIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback address";
  }
  Way way() const { return std::get<0>(GetParam()); }
  Weather weather() const { return std::get<1>(GetParam()); }
};

inline const auto kWays = ::testing::Values(Way::thread, Way::shm, Way::shmFork, Way::tcp4, Way::tcp6);
inline const auto kWeathers =
    ::testing::Values(Weather::bare, Weather::delay, Weather::partial, Weather::stall);
inline std::string nameOfWay(const ::testing::TestParamInfo<Way>& info) {
  return nameOf(info.param);
}
inline std::string nameOfBoth(const ::testing::TestParamInfo<std::tuple<Way, Weather>>& info) {
  return std::string(nameOf(std::get<0>(info.param))) + nameOf(std::get<1>(info.param));
}

}  // namespace eccl
