// Which transports there are, and what settings make of them.
#include "transport/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/modules.h"
#include "transport/connect/setup.h"

namespace eccl::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Without the modules that other tests may have opened.
std::string namesOf(const std::vector<const TransportEntry*>& entries) {
  std::string names;
  for (const TransportEntry* entry : entries) {
    if (moduleFileOf(*entry).empty()) names += entry->name + std::string(" ");
  }
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

TEST(Registry, TheOrderOfTheListCountsAmongThoseThatReachEquallyFar) {
  Settings settings;
  settings.transportModules = test::builtModule("verbs");
  if (settings.transportModules.empty()) GTEST_SKIP() << "the transport module 'verbs' was not built";
  const auto order = [&](const char* list) {
    settings.transport = list;
    const Result<TransportChoice> choice = chooseTransports(settings);
    if (!choice.ok()) return choice.status().message();
    std::string names;
    for (const TransportEntry* entry : choice->allowed)
      names += entry->name + std::string(" ");
    for (const char* name : {"verbs", "tcp", "shm"}) {
      const bool first = names.find("verbs ") < names.find("tcp ");
      const bool preferred = name == std::string(first ? "verbs" : "tcp") && names.find(name) != names.npos;
      EXPECT_EQ(prefersOverNetwork(settings, name), preferred) << name << " of " << names;
    }
    return names;
  };
  EXPECT_EQ(order("verbs,tcp"), "verbs tcp ");
  EXPECT_EQ(order("tcp,verbs"), "tcp verbs ");
  EXPECT_EQ(order("tcp,verbs,shm"), "shm tcp verbs ");
  EXPECT_EQ(order("tcp,tcp,shm,thread"), "thread shm tcp ");
  EXPECT_EQ(order("shm"), "shm ");
  settings.ibDisable = true;
  EXPECT_EQ(order("verbs,tcp"), "tcp ");
}

TEST(Registry, SaysWhatForbidsATransport) {
  Settings settings;
  settings.shmDisable = true;
  settings.transport = "shm,thread";
  Result<TransportChoice> choice = chooseTransports(settings);
  ASSERT_TRUE(choice.ok());
  std::string text;
  for (const TransportChoice::Forbidden& each : choice->forbidden) text += each.name + " " + each.why + "; ";
  EXPECT_THAT(text, HasSubstr("shm ECCL_SHM_DISABLE=1; "));
  EXPECT_THAT(text, HasSubstr("tcp ECCL_TRANSPORT=shm,thread; "));
  EXPECT_EQ(text.rfind("thread ", 0), text.npos) << "thread is allowed";
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsThoseThatExist) {
  Settings settings;
  for (const char* wrong : {"tcp,infiniband", "infiniband", "infiniband,shm"}) {
    settings.transport = wrong;
    const Status status = chooseTransports(settings).status();
    EXPECT_EQ(status.code(), Code::invalidUsage);
    EXPECT_THAT(status.message(), HasSubstr(std::string("ECCL_TRANSPORT=") + wrong));
    EXPECT_THAT(status.message(), HasSubstr("there is no transport 'infiniband'"));
    EXPECT_THAT(status.message(), HasSubstr("there are thread, shm, "));
  }
}

TEST(TransportModules, AreOpenedOnceAndKnownByName) {
  const std::string path = test::transportModule("unix");
  ASSERT_TRUE(openTransportModule(path).ok()) << openTransportModule(path).message();
  ASSERT_TRUE(openTransportModule(path).ok());
  const auto known = knownTransports();
  EXPECT_EQ(
      std::count_if(known.begin(), known.end(), [](auto* entry) { return entry->name == std::string("unix"); }),
      1);
  Settings settings;
  settings.transport = "unix";
  EXPECT_TRUE(allows(settings, "unix"));
  EXPECT_FALSE(allows(settings, "tcp"));
}

TEST(TransportModules, WhatCannotBeOpenedSaysWhatToDo) {
  const auto said = [](const std::string& path) { return openTransportModule(path).message(); };
  const std::string wrong = test::transportModule("wrong"), none = test::transportModule("none");
  EXPECT_THAT(said(wrong), AllOf(HasSubstr("'wrong' (" + wrong + ")"), HasSubstr("ECCL 0.0.9 (interface 77)"),
                                 HasSubstr("build it again from this version's headers")));
  EXPECT_EQ(said(wrong), said(wrong));
  EXPECT_THAT(said(none), AllOf(HasSubstr(none), HasSubstr("is no transport module")));
  EXPECT_THAT(said("/no/such/file.so"), AllOf(HasSubstr("/no/such/file.so"), HasSubstr("cannot be loaded")));
}

}  // namespace
}  // namespace eccl::transport
