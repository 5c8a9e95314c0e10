// Where a rank says that it is, and what it believes of others.
#include "runtime/init/seat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "topology/probe/host_summary.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

void expectSame(const algorithms::Seat& found, const algorithms::Seat& expected) {
  EXPECT_EQ(found.machine, expected.machine);
  EXPECT_EQ(found.memory, expected.memory);
  EXPECT_EQ(found.port, expected.port);
  EXPECT_EQ(found.cores, expected.cores);
}

std::string bytesOf(const std::string& machine, double cores) {
  return transport::ByteWriter().text(machine).text("memory").text("port").put(cores).take();
}

std::string errorOf(std::string_view bytes) {
  const auto seat = decodeSeat(bytes);
  if (seat.ok()) return "it is read";
  EXPECT_EQ(seat.status().code(), Code::remote);
  return seat.status().message();
}

/// What a child of this process says of itself under these settings.
algorithms::Seat seatOfAChild(const Settings& settings) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string bytes = encode(localSeat(settings));
    _exit(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : 1);
  }
  close(ends[1]);
  char bytes[4096];
  const ssize_t got = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  auto seat = decodeSeat({bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))});
  EXPECT_TRUE(seat.ok()) << seat.status().message();
  return seat.ok() ? seat.take() : algorithms::Seat{};
}

TEST(SeatBytes, ComeBackAsTheyWere) {
  for (const algorithms::Seat& seat :
       {algorithms::Seat{}, algorithms::Seat{"machine", "memory", "port", 1e6},
        algorithms::Seat{std::string(512, 'x'), "", "p", 2.5},
        algorithms::Seat{std::string("\0\xff", 2), std::string(512, '\0'), std::string(512, 'y'), 1}}) {
    const auto again = decodeSeat(encode(seat));
    ASSERT_TRUE(again.ok()) << again.status().message();
    expectSame(*again, seat);
  }
}

TEST(SeatBytes, WhatIsCutOffOrTooLongIsRefused) {
  const std::string bytes = encode({"machine", "memory", "port", 4});
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THAT(errorOf(std::string_view(bytes).substr(0, length)), HasSubstr("cut off")) << length;
  EXPECT_THAT(errorOf(bytes + '\0'), HasSubstr("cut off"));
}

TEST(SeatBytes, AbsurdOnesAreRefused) {
  EXPECT_EQ(errorOf(bytesOf(std::string(512, 'x'), 1)), "it is read");
  EXPECT_NE(errorOf(bytesOf(std::string(513, 'x'), 1)), "it is read");
  EXPECT_NE(errorOf(std::string(64, '\xff')), "it is read");
  for (double cores : {0.0, -1.0, 0.999, 1e6 + 1, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(errorOf(bytesOf("machine", cores)), HasSubstr("cores")) << cores;
}

TEST(LocalSeat, IsTheSameInEveryProcessOfTheMachine) {
  const algorithms::Seat here = localSeat({});
  EXPECT_FALSE(here.machine.empty());
  EXPECT_FALSE(here.port.empty());
  EXPECT_FALSE(here.memory.empty());
  EXPECT_GE(here.cores, 1);
  EXPECT_LE(here.cores, static_cast<double>(sysconf(_SC_NPROCESSORS_CONF)));
  expectSame(seatOfAChild({}), here);
}

TEST(LocalSeat, SettingsSayWhatMemoryIsShared) {
  Settings settings;
  settings.shmDisable = true;  // then threads of one process share it, unless they may not either
  const algorithms::Seat here = localSeat(settings);
  EXPECT_FALSE(here.memory.empty());
  EXPECT_EQ(localSeat(settings).memory, here.memory);
  EXPECT_NE(seatOfAChild(settings).memory, here.memory);
  EXPECT_EQ(seatOfAChild(settings).machine, here.machine);
  EXPECT_EQ(seatOfAChild(settings).port, here.port);
  settings.p2pDisable = true;
  EXPECT_EQ(localSeat(settings).memory, "");
  settings.shmDisable = false;
  EXPECT_EQ(localSeat(settings).memory, localSeat({}).memory);
}

TEST(LocalSeat, TransportsSayWhatMemoryIsShared) {
  const algorithms::Seat any = localSeat({});
  Settings settings;
  for (const char* transport : {"shm", "shm,tcp", "thread,shm"}) {
    settings.transport = transport;
    EXPECT_EQ(localSeat(settings).memory, any.memory) << transport;
  }
  for (const char* transport : {"thread", "tcp,thread"}) {
    settings.transport = transport;
    EXPECT_NE(localSeat(settings).memory, any.memory) << transport;
    EXPECT_NE(localSeat(settings).memory, "") << transport;
  }
  settings.transport = "tcp";
  EXPECT_EQ(localSeat(settings).memory, "");
}

TEST(LocalSeat, ARankOnOneCoreMayShareItWithOthers) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const algorithms::Seat pinned = localSeat({});
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  const double quota = topology::cpuQuota();
  EXPECT_EQ(pinned.cores, topology::usableCores(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), quota));
  if (CPU_COUNT(&before) > 1) {
    EXPECT_EQ(localSeat({}).cores, topology::usableCores(CPU_COUNT(&before), quota));
  }
}

}  // namespace
}  // namespace eccl::runtime
