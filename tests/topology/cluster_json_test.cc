#include "topology/formats/cluster_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/clusters.h"
#include "topology/formats/host_json.h"
#include "topology/model/clos.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

class ClusterJson : public ::testing::Test {
 protected:
  void SetUp() override {
    if (toJson(railHost(1)).status().code() == Code::invalidUsage)
      GTEST_SKIP() << "built without nlohmann-json";
  }
};

Result<Host> noFiles(const std::string& path) {
  return Status::error(Code::system, "%s: no files here", path.c_str());
}

/// Returns the text.
std::string expectIdentity(const Cluster& cluster) {
  const Result<std::string> text = toJson(cluster);
  EXPECT_TRUE(text.ok()) << text.status().message();
  if (!text.ok()) return "";
  const Result<Cluster> again = parseClusterJson(*text, "text", noFiles);
  EXPECT_TRUE(again.ok()) << again.status().message();
  if (again.ok()) {
    EXPECT_EQ(*again, cluster);
    EXPECT_EQ(*toJson(*again), *text);
  }
  return *text;
}

TEST_F(ClusterJson, EveryFactSurvives) {
  Cluster cluster = pairOnOneLeaf();
  cluster.name = "lab \"7\" <&>";
  cluster.types.push_back(railHost(1));
  cluster.switches[0].ports = 0;
  cluster.switches[0].pod = 3;
  cluster.switches.push_back({"spine", 2, 64, {}, 1, 2});
  cluster.trunks = {{0, 1, 4, 25, 0.25}};
  cluster.hosts.push_back({"c", 1, {{cluster.types[1].find("mlx5_0"), 1, 12.5, 0}}});
  const int first = cluster.types[0].find("0000:01:00.0"), only = cluster.types[1].find("0000:01:00.0");
  cluster.ranks = {{2, only}, {0, first}, {1, first}, {1, 0}};
  expectIdentity(cluster);
}

TEST_F(ClusterJson, HostsThatAreNumberedAndWiredAlikeAreOneEntry) {
  Cluster cluster = pairOnOneLeaf();
  cluster.switches[0].ports = 0;
  const ClusterHost like = cluster.hosts[0];
  cluster.hosts.clear();
  for (const char* name : {"n8", "n9", "n10", "n012", "n13", "m14", "99", "100", "n999999999", "n1000000000"})
    cluster.hosts.push_back({name, 0, like.uplinks});
  cluster.hosts[4].uplinks[0].gigabytes = 25;
  cluster.ranks = allPlaces(cluster);
  const std::string text = expectIdentity(cluster);
  EXPECT_THAT(text, HasSubstr(R"({"name":"n","count":3,"first":8,"type":"rails2")"));
  EXPECT_THAT(text, HasSubstr(R"({"name":"n012","type")"));
  EXPECT_THAT(text, HasSubstr(R"({"name":"","count":2,"first":99)"));
  EXPECT_THAT(text, HasSubstr(R"({"host":"n8","hosts":10,"devices":["0000:01:00.0","0000:02:00.0"]})"));
}

TEST_F(ClusterJson, AClusterOfThousandsIsShort) {
  ClosShape shape;
  shape.host = railHost(8);
  shape.hosts = 2000;
  Result<Cluster> cluster = makeClos(shape);
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  cluster->ranks = allPlaces(*cluster);
  EXPECT_LT(expectIdentity(*cluster).size(), 3'000'000U);
}

TEST_F(ClusterJson, HostsComeFromFilesToo) {
  const std::string text = R"({"format": "eccl-cluster", "version": 1,
    "types": [{"name": "big", "file": "host.json"}], "hosts": [{"name": "n", "count": 2, "type": "big"}]})";
  const auto load = [](const std::string& path) -> Result<Host> {
    EXPECT_EQ(path, "host.json");
    return railHost(2);
  };
  const Result<Cluster> cluster = parseClusterJson(text, "f.json", load);
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_EQ(cluster->types[0].name, "big");
  EXPECT_EQ(cluster->hosts[1].name, "n1");
  EXPECT_TRUE(looksLikeCluster(text));
  EXPECT_FALSE(looksLikeCluster(*toJson(railHost(1))));
  expectIdentity(*cluster);
}

TEST_F(ClusterJson, SaysWhereATextIsWrong) {
  const std::string good = *toJson(pairOnOneLeaf());
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    const Result<Cluster> cluster = parseClusterJson(text, "f.json", noFiles);
    EXPECT_FALSE(cluster.ok()) << to;
    return cluster.status().message();
  };
  EXPECT_THAT(error("\"version\": 1", "\"version\": "), HasSubstr("line "));
  EXPECT_EQ(error("eccl-cluster", "eccl-host"), "f.json: format is not \"eccl-cluster\"");
  EXPECT_EQ(error("\"name\":\"a\"", "\"name\":\"b\""), "f.json: hosts[1].name is \"b\", as another's is");
  EXPECT_EQ(error("\"name\":\"a\",\"type\":\"rails2\"", "\"name\":\"a\",\"type\":\"x\""),
            "f.json: hosts[0].type is \"x\", which no host type is called");
  EXPECT_EQ(error("\"port\":\"mlx5_1\"", "\"port\":\"eth9\""),
            "f.json: hosts[0].uplinks[1].port is \"eth9\", which no device of that host type is called");
  EXPECT_EQ(error("\"switch\":\"leaf\"", "\"switch\":\"oak\""),
            "f.json: hosts[0].uplinks[0].switch is \"oak\", which no switch is called");
  EXPECT_EQ(error("\"gigabytes\":50.0", "\"gigabytes\":0"),
            "f.json: hosts[0].uplinks[0].gigabytes is not a bandwidth above zero");
  EXPECT_EQ(error("\"microseconds\":0.5", "\"microseconds\":\"quick\""),
            "f.json: hosts[0].uplinks[0].microseconds is not a number");
  EXPECT_EQ(error("\"port\":\"mlx5_1\"", "\"port\":\"mlx5_0\""),
            "f.json: cluster: port mlx5_0 of host a is wired twice");
  EXPECT_EQ(error("\"name\":\"a\",", "\"name\":\"a\",\"count\":200000,"),
            "f.json: hosts[0].count is not from 1 to 131072: 131072 there can be in all");
  EXPECT_EQ(error("\"name\":\"a\",", "\"name\":\"a\",\"count\":0,"),
            "f.json: hosts[0].count is not from 1 to 131072: 131072 there can be in all");
  EXPECT_EQ(error("\"name\":\"a\",", "\"name\":\"a\",\"first\":2000000000,"),
            "f.json: hosts[0].first leads above 999999999");
  EXPECT_EQ(error("\"name\":\"a\",", "\"name\":\"a\",\"colour\":1,"), "f.json: hosts[0].colour is not known");
  EXPECT_EQ(error("\"tier\":1", "\"tier\":17"), "f.json: cluster: switch leaf is of tier 17, not of 1 to 16");
  EXPECT_EQ(error("\"ports\":4", "\"ports\":3"), "f.json: cluster: switch leaf has 3 ports, but 4 are wired");
  EXPECT_EQ(
      error("{\"name\":\"leaf\"", "{\"name\":\"oak\"},{\"name\":\"leaf\""),
      "f.json: cluster: host a and switch oak are not connected: wire them, or describe them as two clusters");
  EXPECT_THAT(error("\"kind\":\"cpu\"", "\"kind\":\"gpu\""),
              HasSubstr("f.json: types[0].devices[0].kind is none of cpu"));
  EXPECT_THAT(error("\"parent\":\"cpu0\"", "\"parent\":\"cpu1\""),
              HasSubstr("f.json: types[0].devices[1].parent"));
  EXPECT_EQ(error("\"types\": [\n", "\"types\": [{\"name\":\"t\",\"file\":\"x\"},"),
            "f.json: types[0].file cannot be used: x: no files here");
  EXPECT_EQ(error("]\n}\n", "],\"ranks\":[{\"host\":\"a\",\"hosts\":3,\"devices\":[\"cpu0\"]}]}"),
            "f.json: ranks[0].hosts is not from 1 to 2: 2 there can be in all");
  EXPECT_EQ(error("]\n}\n", "],\"ranks\":[{\"host\":\"a\",\"devices\":[\"cpu7\"]}]}"),
            "f.json: ranks[0].devices[0] is \"cpu7\", which no device of host a is called");
}

}  // namespace
}  // namespace eccl::topology
