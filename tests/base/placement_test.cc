#include "base/placement.h"

#include <gtest/gtest.h>

namespace eccl {
namespace {

Placement of(std::vector<RankLocation> locations) {
  return Placement(locations);
}

TEST(Placement, NumbersNamesInTheirOrder) {
  const Placement placement =
      of({{"x", "m", "p", 2}, {"y", "n", "p", 4}, {"x", "m", "q", 3}, {"z", "m", "q", 1}});
  EXPECT_EQ(placement.ranks(), 4);
  EXPECT_EQ(placement.machine, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(placement.memory, (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(placement.port, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(placement.ranksOf(0), 2);
  EXPECT_EQ(placement.ranksOf(2), 1);
  EXPECT_EQ(placement.ranksOf(3), 0);
}

TEST(Placement, OfAMachinesCoresTheMostCount) {
  EXPECT_EQ(of({{"x", "", "", 2}, {"y", "", "", 4}, {"x", "", "", 3}}).cores, (std::vector<double>{3, 4}));
}

TEST(Placement, NoNameOfAMemoryIsSharedWithNobody) {
  const Placement alone = of({{"x", "", "p"}, {"x", "", "p"}, {"x", "m", "p"}});
  EXPECT_EQ(alone.memory, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(alone.sharesMemory());
  EXPECT_TRUE(of({{"x", "", "p"}}).sharesMemory());
}

TEST(Placement, NamesSayWhetherAllShareMemory) {
  EXPECT_TRUE(of({{"x", "m", "p"}, {"y", "m", "q"}}).sharesMemory());
  EXPECT_FALSE(of({{"x", "m", "p"}, {"x", "m", "p"}, {"x", "n", "p"}}).sharesMemory());
}

TEST(Placement, IsOversubscribedWhereThereAreMoreRanksThanCores) {
  EXPECT_FALSE(of({{"x", "", "", 2}, {"x", "", "", 2}, {"y", "", "", 1}}).oversubscribed());
  EXPECT_TRUE(of({{"x", "", "", 4}, {"y", "", "", 1}, {"y", "", "", 1}}).oversubscribed());
  EXPECT_FALSE(Placement::oneHost(8, 8).oversubscribed());
  EXPECT_TRUE(Placement::oneHost(9, 8).oversubscribed());
}

// Ranks without shared memory have none in common, even at one location.
TEST(Placement, OfFewLocationsIsThatOfAll) {
  std::vector<RankLocation> few = {{"m0", "", "p0", 2}, {"m1", "mem", "p1", 3}, {"m1", "mem", "p0", 5}};
  few[1].ports.push_back(few[0].ports[0]);
  few[2].accelerator = "gpu";
  const std::vector<int> locationOf = {1, 0, 1, 2, 0, 2, 1};
  std::vector<RankLocation> all;
  for (const int each : locationOf) all.push_back(few[static_cast<size_t>(each)]);
  EXPECT_EQ(Placement(few, locationOf), Placement(all));
  EXPECT_EQ(Placement(few, locationOf).memory, (std::vector<int>{0, 1, 0, 0, 2, 0, 0}));
}

TEST(Placement, OneHostAndHosts) {
  const Placement host = Placement::oneHost(3, 6), hosts = Placement::hosts(3);
  EXPECT_EQ(host.machine, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(host.port, host.machine);
  EXPECT_EQ(host.cores, std::vector<double>{6});
  EXPECT_TRUE(host.sharesMemory());
  EXPECT_EQ(hosts.machine, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(hosts.port, hosts.machine);
  EXPECT_EQ(hosts.memory, hosts.machine);
  EXPECT_EQ(hosts.cores, (std::vector<double>{1, 1, 1}));
  EXPECT_FALSE(hosts.sharesMemory());
  EXPECT_FALSE(hosts.oversubscribed());
  EXPECT_FALSE(host == hosts);
  EXPECT_EQ(hosts, of({{"c", "c", "c"}, {"b", "b", "b"}, {"a", "a", "a"}}));
}

}  // namespace
}  // namespace eccl
