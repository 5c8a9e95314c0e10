// Which interfaces are rails, and which rails of two ranks are joined.
#include "transport/net/rails.h"

#include <gmock/gmock.h>

namespace eccl::transport {
namespace {

using ::testing::ElementsAre;

Interface at(const char* name, const char* address) {
  return {name, SocketAddress::resolve(std::string(address) + ":1")->front().withPort(0)};
}

std::vector<std::string> railsFor(const std::vector<Interface>& all, const std::string& names) {
  InterfaceOptions options;
  options.names = names;
  std::vector<std::string> texts;
  for (const Rail& rail : railsOf(chooseInterfaces(all, options).take(), options, [](int) { return 7; }))
    texts.push_back(rail.interface + " " + rail.address.text());
  return texts;
}

std::vector<Rail> rails(std::initializer_list<const char*> addresses) {
  std::vector<Rail> made;
  for (const char* address : addresses) {
    made.push_back({"eth" + std::to_string(made.size()), at("", address).address.withPort(7), 0});
  }
  return made;
}

TEST(Rails, AreTheInterfacesOfTheBestKind) {
  const std::vector<Interface> all = {at("lo", "127.0.0.1"), at("docker0", "172.17.0.1"),
                                      at("eth0", "10.0.0.1"), at("eth0", "[fd00::1]"), at("eth1", "10.1.0.1")};
  EXPECT_THAT(railsFor(all, ""), ElementsAre("eth0 10.0.0.1:7", "eth1 10.1.0.1:7"));
  EXPECT_THAT(railsFor(all, "^eth0"), ElementsAre("eth1 10.1.0.1:7"));
  // What the user lists counts, in that order.
  EXPECT_THAT(railsFor(all, "eth1,docker0"), ElementsAre("eth1 10.1.0.1:7", "docker0 172.17.0.1:7"));
  EXPECT_THAT(railsFor(all, "eth0,lo"), ElementsAre("eth0 10.0.0.1:7"));
  EXPECT_THAT(railsFor({at("lo", "127.0.0.1")}, ""), ElementsAre("lo 127.0.0.1:7"));
}

TEST(Rails, MuchSlowerOnesAreLeftOutUnlessListed) {
  const auto weighed = [](const std::string& names, std::initializer_list<uint32_t> speeds) {
    InterfaceOptions options;
    options.names = names;
    std::vector<Rail> made = rails({"10.0.0.1", "10.1.0.1", "10.2.0.1"});
    weighRails(made, options,
               [&](const std::string& interface) { return speeds.begin()[interface.back() - '0']; });
    std::vector<uint32_t> kept;
    for (const Rail& rail : made) kept.push_back(rail.megabits);
    return kept;
  };
  EXPECT_THAT(weighed("", {1000, 100'000, 50'000}), ElementsAre(100'000u, 50'000u));
  EXPECT_THAT(weighed("", {12'500, 100'000, 0}), ElementsAre(12'500u, 100'000u, 0u));  // 0: not known
  EXPECT_THAT(weighed("eth", {1000, 100'000, 50'000}), ElementsAre(1000u, 100'000u, 50'000u));
}

TEST(RailPairs, JoinLikeToLike) {
  const std::vector<Rail> two = rails({"10.0.0.1", "10.1.0.1"}), others = rails({"10.0.0.2", "10.1.0.2"});
  EXPECT_THAT(railPairs(two, others, 1, true), ElementsAre(RailPair{0, 0}, RailPair{1, 1}));
  EXPECT_THAT(railPairs(two, others, 2, true),
              ElementsAre(RailPair{0, 0}, RailPair{1, 1}, RailPair{0, 0}, RailPair{1, 1}));
}

TEST(RailPairs, WhereHostsDifferEachRailIsUsed) {
  const std::vector<Rail> three = rails({"10.0.0.1", "10.1.0.1", "10.2.0.1"}), one = rails({"10.0.0.2"});
  EXPECT_THAT(railPairs(three, one, 1, true), ElementsAre(RailPair{0, 0}, RailPair{1, 0}, RailPair{2, 0}));
  EXPECT_THAT(railPairs(one, three, 1, true), ElementsAre(RailPair{0, 0}, RailPair{0, 1}, RailPair{0, 2}));
  EXPECT_THAT(railPairs(three, one, 1, false), ElementsAre(RailPair{0, 0}));
}

TEST(RailPairs, OneHostHasOneRail) {
  const std::vector<Rail> two = rails({"10.0.0.1", "10.1.0.1"});
  EXPECT_THAT(railPairs(two, two, 1, true), ElementsAre(RailPair{0, 0}));
  EXPECT_THAT(railPairs(two, two, 3, true), ElementsAre(RailPair{0, 0}, RailPair{0, 0}, RailPair{0, 0}));
  EXPECT_TRUE(railPairs(two, {}, 3, true).empty());
  EXPECT_EQ(railPairs(two, two, 100, true).size(), kMaxSockets);
}

}  // namespace
}  // namespace eccl::transport
