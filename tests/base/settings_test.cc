#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

namespace eccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;
using Files = std::vector<std::pair<std::string, std::string>>;

Result<Settings> parse(const Variables& variables, const Files& files = {},
                       std::vector<SettingValue>* explained = nullptr) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  auto environment = [&](const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return parseSettings(environment, names, files, explained);
}

std::string errorOf(const Variables& variables, const Files& files = {}) {
  Result<Settings> settings = parse(variables, files);
  EXPECT_TRUE(settings.ok() || settings.status().code() == Code::invalidArgument);
  return settings.ok() ? "accepted" : settings.status().message();
}

std::string fileError(const std::string& text) {
  return errorOf({}, {{"/some/file", text}});
}

std::string sourceOf(const SettingInfo& info, const std::vector<SettingValue>& values) {
  for (const SettingValue& value : values) {
    if (value.info->name == std::string(info.name)) return value.source;
  }
  return "missing";
}

TEST(Settings, DefaultsHoldWhenNothingIsSet) {
  Result<Settings> settings = parse({{"PATH", "/bin"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->slots, 8);
  EXPECT_EQ(settings->initTimeout, 120);
  EXPECT_FALSE(settings->blockingSet);
  EXPECT_EQ(settings->wireText(), Settings().wireText());
}

// Every row that takes a value must reach a member of its own: set each, and see exactly that one change.
TEST(Settings, EveryRowReachesAMemberOfItsOwn) {
  const std::map<std::string, std::string> samples = {{"ALGO", "ring"},
                                                      {"CHANNELS", "4"},
                                                      {"SLOTS", "16"},
                                                      {"SLOT_BYTES", "4096"},
                                                      {"SLOT_SPREAD", "65536"},
                                                      {"COMM_ID", "host:123"},
                                                      {"COMM_SECRET", "00112233445566778899aabbccddeeff"},
                                                      {"COMM_SECRET_FILE", "/a"},
                                                      {"ENCRYPT", "1"},
                                                      {"SOCKET_IFNAME", "=eth0"},
                                                      {"SOCKET_FAMILY", "AF_INET6"},
                                                      {"SOCKETS_PER_RAIL", "2"},
                                                      {"CROSS_RAIL", "0"},
                                                      {"PLACE_FLOWS", "0"},
                                                      {"DEVICE", "cuda"},
                                                      {"CUDA_LANES", "0"},
                                                      {"CUDA_RELAY", "1"},
                                                      {"CUMEM_ENABLE", "0"},
                                                      {"DMABUF_ENABLE", "0"},
                                                      {"TRANSPORT", "tcp,shm"},
                                                      {"TRANSPORT_MODULES", "/m.so"},
                                                      {"SHM_DISABLE", "1"},
                                                      {"RAISE_LIMITS", "0"},
                                                      {"COST_FILE", "/c"},
                                                      {"SPEEDS_FILE", "/p"},
                                                      {"TABLE_FILE", "/t"},
                                                      {"TABLE_DUMP_FILE", "/u"},
                                                      {"CONNECTIONS_DUMP_FILE", "/n"},
                                                      {"IB_DISABLE", "1"},
                                                      {"IB_HCA", "^=mlx5_0:1"},
                                                      {"IB_GID_INDEX", "3"},
                                                      {"IB_TC", "106"},
                                                      {"IB_SL", "2"},
                                                      {"IB_TIMEOUT", "20"},
                                                      {"IB_RETRY_CNT", "5"},
                                                      {"IB_PKEY", "1"},
                                                      {"IB_QPS_PER_CONNECTION", "4"},
                                                      {"IB_ON_DEMAND", "1"},
                                                      {"IB_CACHE_BYTES", "1048576"},
                                                      {"TOPO_FILE", "/t.xml"},
                                                      {"TOPO_DUMP_FILE", "/d.xml"},
                                                      {"TOPO_DUMP_FILE_RANK", "3"},
                                                      {"P2P_DISABLE", "1"},
                                                      {"SINGLE_COPY", "65536"},
                                                      {"SLOT_STREAMING", "65536"},
                                                      {"DETERMINISTIC", "1"},
                                                      {"COMM_BLOCKING", "0"},
                                                      {"INIT_TIMEOUT", "2.5"},
                                                      {"HEARTBEAT_TIMEOUT", "9"},
                                                      {"STALL_TIME", "0.25"},
                                                      {"SPIN_US", "50"},
                                                      {"VERIFY", "always"},
                                                      {"DEBUG", "info"},
                                                      {"DEBUG_FILE", "/x"},
                                                      {"CONF_FILE", "/y"}};
  std::vector<SettingValue> before, after;
  ASSERT_TRUE(parse({}, {}, &before).ok());
  ASSERT_EQ(before.size(), settingTable().size());
  for (const SettingInfo& info : settingTable()) {
    ASSERT_EQ(samples.count(info.name), 1U) << "give " << info.name << " a sample value";
    const std::string value = samples.at(info.name), name = std::string("ECCL_") + info.name;
    Result<Settings> settings = parse({{name, value}}, {}, &after);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    for (size_t i = 0; i < after.size(); ++i) {
      const bool changes = std::string(info.name) == after[i].info->name;
      EXPECT_EQ(before[i].value != after[i].value, changes) << name << " and " << after[i].info->name;
      EXPECT_EQ(after[i].source, changes ? "environment (" + name + ")" : "default");
    }
    EXPECT_EQ(settings->wireText() != Settings().wireText(), info.wire) << name;
    if (info.ncclName != nullptr) {
      ASSERT_TRUE(parse({{info.ncclName, value}}, {}, &after).ok());
      EXPECT_EQ(sourceOf(info, after), std::string("environment (") + info.ncclName + ")");
    }
    if (std::string(info.description).find("Environment only") != std::string::npos) continue;
    ASSERT_TRUE(parse({}, {{"/f", "\n " + name + " = " + value + " # why\r\n"}}, &after).ok()) << name;
    EXPECT_EQ(sourceOf(info, after), "/f:2");
  }
}

TEST(Settings, BlanksInAlgorithmsDoNotCount) {
  Result<Settings> settings = parse({{"ECCL_ALGO", "allreduce: tree, ring"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->algo, "allreduce:tree,ring");
}

TEST(Settings, BetterSourcesWin) {
  const Files files = {{"/home/conf", "ECCL_SLOTS=16\nECCL_CHANNELS=2\nECCL_SPIN_US=7"},
                       {"/etc/conf", "ECCL_SLOTS=32\nECCL_CHANNELS=3\nECCL_SPIN_US=8\nECCL_ALGO=tree"}};
  Result<Settings> settings =
      parse({{"ECCL_SLOTS", "4"}, {"ECCL_SHM_DISABLE", "0"}, {"NCCL_SHM_DISABLE", "1"}}, files);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->slots, 4);
  EXPECT_EQ(settings->channels, 2);
  EXPECT_EQ(settings->spinMicroseconds, 7);
  EXPECT_EQ(settings->algo, "tree");
  EXPECT_FALSE(settings->shmDisable);
}

TEST(Settings, ValuesOutOfRangeAreErrorsThatSayWhatIsAllowed) {
  EXPECT_THAT(errorOf({{"ECCL_SLOTS", "3"}}),
              AllOf(HasSubstr("ECCL_SLOTS=3"), HasSubstr("environment"), HasSubstr("2..1024, a power of two")));
  for (const char* bad : {"1", "2048", "", "8 ", "0x8", "8.0", "-8", "99999999999999999999"}) {
    EXPECT_THAT(errorOf({{"ECCL_SLOTS", bad}}), HasSubstr("is not allowed")) << bad;
  }
  for (const char* bad : {"nan", "inf", "-1", "0", "1e9", "1,5", "5s"}) {
    EXPECT_THAT(errorOf({{"ECCL_INIT_TIMEOUT", bad}}), HasSubstr("0.1..86400 seconds")) << bad;
  }
  EXPECT_THAT(errorOf({{"ECCL_SLOT_BYTES", "100"}}), HasSubstr("a multiple of 64"));
  EXPECT_THAT(errorOf({{"NCCL_SHM_DISABLE", "yes"}}), HasSubstr("NCCL_SHM_DISABLE=yes"));
  EXPECT_THAT(errorOf({{"ECCL_TRANSPORT", "tcp|shm"}}), HasSubstr("is not allowed"));
  EXPECT_THAT(errorOf({{"ECCL_VERIFY", "auto|always"}}), HasSubstr("is not allowed"));
  EXPECT_THAT(errorOf({{"ECCL_ALGO", "ring\nECCL_SLOTS=2"}}), HasSubstr("is not allowed"));
  EXPECT_THAT(errorOf({{"ECCL_DEBUG", "INOF"}}), HasSubstr("NONE|WARN|INFO|TRACE"));
  EXPECT_EQ(errorOf({{"NCCL_DEBUG", "VERSION"}}), "accepted");
  EXPECT_THAT(errorOf({{"ECCL_COMM_ID", "host:1\x1b[2J"}}), HasSubstr("is not allowed"));
  EXPECT_LT(errorOf({{"ECCL_ALGO", std::string(5000, '?')}}).size(), 300U);
}

TEST(Settings, UnknownNamesAreErrorsWithAHint) {
  EXPECT_THAT(errorOf({{"ECCL_SLOT", "8"}}), AllOf(HasSubstr("ECCL_SLOT in the environment"),
                                                   HasSubstr("Did you mean ECCL_SLOTS?"), HasSubstr("env -u")));
  EXPECT_THAT(errorOf({{"ECCL_SHM_DISABEL", "1"}}), HasSubstr("Did you mean ECCL_SHM_DISABLE?"));
  EXPECT_THAT(errorOf({{"ECCL_PORT_8080_TCP", "tcp://10.0.0.1"}}), Not(HasSubstr("Did you mean")));
  EXPECT_THAT(fileError("# comment\nECCL_ALGOO=ring"), HasSubstr("ECCL_ALGOO in /some/file:2"));
  EXPECT_THAT(fileError("ALGO=ring"), HasSubstr("ALGO in /some/file:1 is not a setting"));
}

TEST(Settings, NamesOfOthersAreLeftAlone) {
  EXPECT_EQ(errorOf({{"ECCL_TESTS_SPLIT", "MOD 2"}, {"ECCL_ROOT", "/opt/eccl"}, {"NCCL_NOT_OURS", "?"}}),
            "accepted");
  EXPECT_EQ(fileError("NCCL_NET=IB\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth0"), "accepted");
}

TEST(Settings, MalformedFilesNameTheLine) {
  EXPECT_THAT(fileError("\n\nECCL_SLOTS"), HasSubstr("/some/file:3: this line is not of the form"));
  EXPECT_THAT(fileError("=8"), HasSubstr("/some/file:1: this line is not of the form"));
  EXPECT_THAT(fileError("ECCL_SLOTS=8\nECCL_SLOTS=16"), HasSubstr("/some/file:2: ECCL_SLOTS is set in line 1"));
  EXPECT_THAT(fileError("ECCL_DEBUG=INFO"), HasSubstr("works in the environment only"));
  // A better source does not hide a wrong line.
  EXPECT_THAT(errorOf({{"ECCL_SLOTS", "8"}}, {{"/etc/conf", "ECCL_SLOTS=9"}}),
              HasSubstr("ECCL_SLOTS=9 (/etc/conf:1)"));
}

TEST(Settings, SecretsAreNeverShown) {
  const std::string secret = "00112233445566778899aabbccddeeff";
  std::vector<SettingValue> explained;
  ASSERT_TRUE(parse({{"ECCL_COMM_SECRET", secret}}, {}, &explained).ok());
  for (const SettingValue& value : explained) EXPECT_THAT(value.value, Not(HasSubstr(secret)));
  EXPECT_THAT(fileError("ECCL_COMM_SECRET " + secret), Not(HasSubstr(secret)));
  EXPECT_THAT(errorOf({{"ECCL_COMM_SECRET", secret + "\n"}}), Not(HasSubstr(secret)));
}

// loadSettings() reads the real environment, so these change it and put it back.
class LoadSettings : public ::testing::Test {
 protected:
  void SetUp() override { path_ = ::testing::TempDir() + "eccl_conf_" + std::to_string(getpid()); }
  void TearDown() override {
    unsetenv("ECCL_CONF_FILE");
    unsetenv("ECCL_SLOTS");
    unlink(path_.c_str());
  }
  std::string path_;
};

TEST_F(LoadSettings, ReadsTheNamedFileAndTheEnvironment) {
  std::ofstream(path_) << "ECCL_SLOTS=32\nECCL_CHANNELS=3\n";
  setenv("ECCL_CONF_FILE", path_.c_str(), 1);
  setenv("ECCL_SLOTS", "64", 1);
  std::vector<SettingValue> explained;
  Result<Settings> settings = loadSettings(&explained);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->slots, 64);
  EXPECT_EQ(settings->channels, 3);
  const auto channels = std::find_if(explained.begin(), explained.end(), [](const SettingValue& value) {
    return value.info->name == std::string("CHANNELS");
  });
  ASSERT_NE(channels, explained.end());
  EXPECT_EQ(channels->source, path_ + ":2");
}

TEST_F(LoadSettings, AFileThatIsNamedMustBeReadable) {
  setenv("ECCL_CONF_FILE", path_.c_str(), 1);
  Result<Settings> settings = loadSettings();
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(), AllOf(HasSubstr(path_), HasSubstr("No such file")));
  setenv("ECCL_CONF_FILE", "/", 1);
  settings = loadSettings();
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(), HasSubstr("cannot be read"));
  std::ofstream(path_) << std::string((1 << 20) + 1, '#');
  setenv("ECCL_CONF_FILE", path_.c_str(), 1);
  settings = loadSettings();
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.status().message(),
              AllOf(HasSubstr(path_ + " is longer than 1048576 bytes"), HasSubstr("ECCL_CONF_FILE")));
}

TEST(Settings, AreReadByName) {
  Settings settings;
  EXPECT_EQ(settings.valueOf("SHM_DISABLE"), "0");
  settings.shmDisable = true;
  settings.transport = "tcp,shm";
  EXPECT_EQ(settings.valueOf("SHM_DISABLE"), "1");
  EXPECT_EQ(settings.valueOf("TRANSPORT"), "tcp,shm");
  EXPECT_EQ(settings.valueOf("NO_SUCH_THING"), "");
}

}  // namespace
}  // namespace eccl
