// Which transports there are, and what settings make of them.
#include "transport/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "transport/connect/setup.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

std::string namesOf(const std::vector<const TransportEntry*>& entries) {
  std::string names;
  for (const TransportEntry* entry : entries) names += entry->name + std::string(" ");
  return names;
}

TEST(Registry, ListsTheBestFirst) {
  const auto known = knownTransports();
  EXPECT_TRUE(
      std::is_sorted(known.begin(), known.end(), [](auto* a, auto* b) { return a->priority > b->priority; }));
  std::set<std::string> names;
  std::set<uint16_t> ids;
  for (const TransportEntry* entry : known) {
    names.insert(entry->name);
    ids.insert(transportId(entry->name));
  }
  EXPECT_EQ(names.size(), known.size());
  EXPECT_EQ(ids.size(), known.size()) << "two names are the same in a Hello: rename one";
  EXPECT_EQ(ids.count(0), 0u);
}

TEST(Registry, SettingsAllowByAListAndForbidByASwitch) {
  const auto allowed = [](const Settings& settings) {
    Result<TransportChoice> choice = chooseTransports(settings);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    for (const char* name : {"thread", "shm", "tcp"}) {
      EXPECT_EQ(namesOf(choice->allowed).find(name) != std::string::npos, allows(settings, name)) << name;
    }
    return namesOf(choice->allowed);
  };
  Settings settings;
  EXPECT_EQ(allowed(settings), "thread shm tcp ");
  settings.transport = "tcp,shm";
  EXPECT_EQ(allowed(settings), "shm tcp ");
  settings.shmDisable = true;
  EXPECT_EQ(allowed(settings), "tcp ");
  settings.transport = "thread";
  EXPECT_EQ(allowed(settings), "thread ");
  settings.p2pDisable = true;
  EXPECT_EQ(allowed(settings), "");
  settings.transport = "";
  EXPECT_EQ(allowed(settings), "tcp ");
}

TEST(Registry, SaysWhatForbidsATransport) {
  Settings settings;
  settings.shmDisable = true;
  settings.transport = "shm,thread";
  Result<TransportChoice> choice = chooseTransports(settings);
  ASSERT_TRUE(choice.ok());
  ASSERT_EQ(choice->forbidden.size(), 2u);
  EXPECT_EQ(choice->forbidden[0].name + " " + choice->forbidden[0].why, "shm ECCL_SHM_DISABLE=1");
  EXPECT_EQ(choice->forbidden[1].name + " " + choice->forbidden[1].why, "tcp ECCL_TRANSPORT=shm,thread");
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsThoseThatExist) {
  Settings settings;
  for (const char* wrong : {"tcp,infiniband", "infiniband", "infiniband,shm"}) {
    settings.transport = wrong;
    const Status status = chooseTransports(settings).status();
    EXPECT_EQ(status.code(), Code::invalidUsage);
    EXPECT_THAT(status.message(), HasSubstr(std::string("ECCL_TRANSPORT=") + wrong));
    EXPECT_THAT(status.message(), HasSubstr("there is no transport 'infiniband'"));
    EXPECT_THAT(status.message(), HasSubstr("thread, shm, tcp"));
  }
}

}  // namespace
}  // namespace eccl::transport
