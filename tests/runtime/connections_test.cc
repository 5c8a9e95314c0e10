// ecclCommGetConnections and ECCL_CONNECTIONS_DUMP_FILE: in every state of a communicator, by any thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/communicator/connection_list.h"
#include "support/processes.h"
#include "support/temporary_folder.h"
#include "transport/net/tls.h"

namespace eccl::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StrEq;

/// All entries; none and a failure of the test if the call fails.
std::vector<ecclConnectionInfo_t> list(ecclComm_t comm) {
  size_t count = 64;
  std::vector<ecclConnectionInfo_t> infos(count);
  infos[0].size = sizeof infos[0];
  EXPECT_EQ(ecclCommGetConnections(comm, infos.data(), &count), ecclSuccess) << ecclGetLastError(nullptr);
  infos.resize(std::min<size_t>(count, 64));
  std::erase_if(infos,
                [](const ecclConnectionInfo_t& info) { return info.peer < 0; });  // rails of this machine
  return infos;
}

class Connections : public test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    setenv("ECCL_DEBUG", "NONE", 1);
  }
  void TearDown() override {
    unsetenv("ECCL_TRANSPORT");
    unsetenv("ECCL_ENCRYPT");
    unsetenv("ECCL_CONNECTIONS_DUMP_FILE");
    TemporaryFolder::TearDown();
  }
  void make(int ranks, const char* transport = nullptr) {
    if (transport != nullptr) setenv("ECCL_TRANSPORT", transport, 1);
    comms_.assign(static_cast<size_t>(ranks), nullptr);
    ASSERT_EQ(ecclCommInitAll(comms_.data(), ranks, nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void each(const std::function<void(ecclComm_t)>& body) {
    std::vector<std::thread> threads;
    for (ecclComm_t comm : comms_) threads.emplace_back([&body, comm] { body(comm); });
    for (auto& thread : threads) thread.join();
  }
  static ecclResult_t allReduce(ecclComm_t comm, size_t count) {
    std::vector<float> values(count, 1);
    return ecclAllReduce(values.data(), values.data(), count, ecclFloat32, ecclSum, comm, nullptr);
  }
  void destroy() {
    each([](ecclComm_t comm) { EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess) << ecclGetLastError(nullptr); });
  }
  /// The dumps, by the end of their names: ".0" for rank 0.
  std::vector<std::string> dumps(const std::string& end) const {
    std::vector<std::string> texts;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!entry.path().string().ends_with(end)) continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      texts.push_back(text.str());
    }
    return texts;
  }
  std::vector<ecclComm_t> comms_;
};

TEST_F(Connections, CountWhatBothEndsHaveCarried) {
  for (const char* transport : {"thread", "tcp"}) {
    make(2, transport);
    for (ecclComm_t comm : comms_) EXPECT_THAT(list(comm), SizeIs(0));
    each([](ecclComm_t comm) {
      for (size_t count : {1, 1000, 100'000}) EXPECT_EQ(allReduce(comm, count), ecclSuccess);
    });
    const std::vector<ecclConnectionInfo_t> zero = list(comms_[0]), one = list(comms_[1]);
    EXPECT_GE(zero.size(), 2u);
    EXPECT_EQ(zero.size(), one.size());
    for (const ecclConnectionInfo_t& mine : zero) {
      EXPECT_EQ(mine.size, sizeof mine);
      EXPECT_EQ(mine.peer, 1);
      EXPECT_EQ(mine.state, ecclSuccess);
      EXPECT_STREQ(mine.path, transport);
      EXPECT_STRNE(mine.peerHost, "");
      const auto theirs = std::find_if(one.begin(), one.end(), [&](const ecclConnectionInfo_t& other) {
        return other.sends != mine.sends && other.channel == mine.channel && other.tag == mine.tag;
      });
      ASSERT_NE(theirs, one.end());
      EXPECT_GT(mine.messages, 0u);
      EXPECT_EQ(mine.messages, theirs->messages);
      EXPECT_EQ(mine.bytes, theirs->bytes);
      if (std::string(transport) == "thread") {
        EXPECT_EQ(mine.socket, -1);
        continue;
      }
      EXPECT_EQ(mine.socket, 0);
      EXPECT_EQ(mine.sockets, 1);
      EXPECT_STREQ(mine.local, theirs->remote);
      EXPECT_STREQ(mine.remote, theirs->local);
      EXPECT_STRNE(mine.interface, "");
      EXPECT_GE((mine.sends != 0 ? *theirs : mine).received, mine.bytes);
    }
    destroy();
  }
}

TEST_F(Connections, WrongArgumentsAreRefusedAndNothingIsWritten) {
  make(2, "thread");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 10), ecclSuccess); });
  const ecclComm_t comm = comms_[0];
  EXPECT_EQ(ecclCommGetConnections(comm, nullptr, nullptr), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(comm), HasSubstr("count is NULL"));
  ecclConnectionInfo_t infos[4];
  for (size_t size : {size_t{0}, size_t{8}, sizeof infos[0] - 8, sizeof infos[0] + 1, size_t{1} << 40}) {
    std::memset(infos, 0x5a, sizeof infos);
    infos[0].size = size;
    size_t count = 4;
    EXPECT_EQ(ecclCommGetConnections(comm, infos, &count), ecclInvalidArgument) << size;
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("sizeof(ecclConnectionInfo_t)"));
    EXPECT_EQ(count, 4u);
    EXPECT_EQ(infos[0].peer, 0x5a5a5a5a);
  }
  size_t count = 0;
  EXPECT_EQ(ecclCommGetConnections(nullptr, nullptr, &count), ecclInvalidArgument);
  EXPECT_EQ(ecclCommGetConnections(reinterpret_cast<ecclComm_t>(uintptr_t{77}), nullptr, &count),
            ecclInvalidArgument);
  destroy();
  EXPECT_EQ(ecclCommGetConnections(comm, nullptr, &count), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("has been destroyed"));
}

// As many as there is room for; the count says how many there are.
TEST_F(Connections, FillsTheRoomThereIs) {
  make(3, "thread");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 100'000), ecclSuccess); });
  size_t all = 7;  // of no meaning: there is no room
  ASSERT_EQ(ecclCommGetConnections(comms_[0], nullptr, &all), ecclSuccess);
  ASSERT_GE(all, 2u);
  std::vector<ecclConnectionInfo_t> infos(all);
  std::memset(infos.data(), 0x5a, all * sizeof infos[0]);
  size_t count = 0;
  EXPECT_EQ(ecclCommGetConnections(comms_[0], infos.data(), &count), ecclSuccess);
  EXPECT_EQ(count, all);
  EXPECT_EQ(infos[0].peer, 0x5a5a5a5a);
  infos[0].size = sizeof infos[0];
  count = 1;
  EXPECT_EQ(ecclCommGetConnections(comms_[0], infos.data(), &count), ecclSuccess);
  EXPECT_EQ(count, all);
  EXPECT_NE(infos[0].peer, 0x5a5a5a5a);
  EXPECT_EQ(infos[1].peer, 0x5a5a5a5a);
  // A program of a newer header has larger entries: what this library does not know is zero.
  struct Newer {
    ecclConnectionInfo_t known;
    uint64_t more;
  };
  std::vector<Newer> newer(all);
  std::memset(newer.data(), 0x5a, all * sizeof newer[0]);
  newer[0].known.size = sizeof newer[0];
  count = all;
  EXPECT_EQ(ecclCommGetConnections(comms_[0], &newer[0].known, &count), ecclSuccess);
  for (const Newer& each : newer) {
    EXPECT_EQ(each.known.size, sizeof(Newer));
    EXPECT_EQ(each.more, 0u);
  }
  EXPECT_EQ(newer[0].known.peer, infos[0].peer);
  destroy();
}

// While the ranks make calls, and while one waits for another that does not come.
TEST_F(Connections, MayBeAskedForByAnyThreadAtAnyTime) {
  make(2, "tcp");
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop) {
      for (ecclComm_t comm : comms_) list(comm);
    }
  });
  each([](ecclComm_t comm) {
    for (int i = 0; i < 300; ++i) EXPECT_EQ(allReduce(comm, i % 3 == 0 ? 50'000 : 2), ecclSuccess);
  });
  stop = true;
  asker.join();
  std::thread waiting([&] { EXPECT_EQ(allReduce(comms_[0], 2), ecclSuccess); });
  usleep(50'000);  // it sleeps by now
  for (int i = 0; i < 3; ++i) EXPECT_GE(list(comms_[0]).size(), 2u);
  EXPECT_EQ(allReduce(comms_[1], 2), ecclSuccess);
  waiting.join();
  destroy();
}

TEST_F(Connections, AreThereAfterAFailureAndAfterTheEnd) {
  make(2, "tcp");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 1000), ecclSuccess); });
  const uint64_t messages = list(comms_[1])[0].messages;
  EXPECT_EQ(ecclCommAbort(comms_[0]), ecclSuccess);
  size_t count = 0;
  EXPECT_EQ(ecclCommGetConnections(comms_[0], nullptr, &count), ecclInvalidArgument);
  ecclResult_t state = ecclSuccess;
  while (state == ecclSuccess) ASSERT_EQ(ecclCommGetAsyncError(comms_[1], &state), ecclSuccess);
  const auto after = list(comms_[1]);
  ASSERT_GE(after.size(), 2u);
  EXPECT_EQ(after[0].messages, messages);
  for (const ecclConnectionInfo_t& info : after) {
    EXPECT_STRNE(info.local, "");
    EXPECT_GT(info.sent + info.received, 0u);
  }
  EXPECT_EQ(ecclCommDestroy(comms_[1]), ecclSuccess);

  make(2, "tcp");
  each([](ecclComm_t comm) {
    EXPECT_EQ(allReduce(comm, 1000), ecclSuccess);
    EXPECT_EQ(ecclCommFinalize(comm), ecclSuccess);
  });
  EXPECT_GE(list(comms_[0]).size(), 2u);
  destroy();
}

TEST_F(Connections, OfOneRankThereAreNone) {
  make(1);
  EXPECT_EQ(allReduce(comms_[0], 10), ecclSuccess);
  EXPECT_THAT(list(comms_[0]), SizeIs(0));
  destroy();
}

TEST_F(Connections, AreNotKnownBeforeTheRanksHaveMet) {
  ecclUniqueId id;
  ASSERT_EQ(ecclGetUniqueId(&id), ecclSuccess);
  ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ecclComm_t comm = nullptr;
  ASSERT_EQ(ecclCommInitRankConfig(&comm, 2, id, 0, &config), ecclInProgress);
  size_t count = 5;
  EXPECT_EQ(ecclCommGetConnections(comm, nullptr, &count), ecclInvalidUsage);
  EXPECT_THAT(ecclGetLastError(comm), HasSubstr("still being made"));
  EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
}

TEST_F(Connections, TheDumpSaysWhatIsEncrypted) {
  setenv("ECCL_CONNECTIONS_DUMP_FILE", (folder_ + "links").c_str(), 1);
  for (const bool encrypts : {false, true}) {
    if (const auto tls = transport::tlsLibrary(); encrypts && !tls.ok()) GTEST_SKIP() << tls.status().message();
    setenv("ECCL_ENCRYPT", encrypts ? "1" : "0", 1);
    make(2, "tcp");
    each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 1000), ecclSuccess); });
    destroy();
    for (const std::string& text : dumps("")) {
      EXPECT_THAT(text, ContainsRegex(encrypts ? "\nsocket .* cipher=TLS_AES_128_GCM_SHA256\n"
                                               : "\nsocket .* cipher=-\n"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      std::filesystem::remove(entry.path());
  }
}

TEST_F(Connections, EachRankWritesADump) {
  setenv("ECCL_CONNECTIONS_DUMP_FILE", (folder_ + "links").c_str(), 1);
  make(2, "tcp");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 1000), ecclSuccess); });
  EXPECT_THAT(dumps(""), SizeIs(0));
  destroy();
  for (const char* rank : {"0", "1"}) {
    const std::string other = *rank == '0' ? "1" : "0";
    const std::vector<std::string> texts = dumps(std::string(".") + rank);
    ASSERT_THAT(texts, SizeIs(1));
    const std::string &text = texts[0], mine = std::string("rank=") + rank;
    EXPECT_THAT(text, ContainsRegex("^communicator " + mine + " of=2 id=[0-9a-f]{16} .* end: destroyed\n"));
    EXPECT_THAT(text, ContainsRegex("\nrail " + mine + " .* sockets=[1-9].* share=1.000 retransmits="));
    for (const char* way : {"to", "from"}) {
      EXPECT_THAT(text,
                  ContainsRegex("\nconnection " + mine + " " + way + "=" + other +
                                " .* path=tcp messages=[1-9][0-9]* bytes=[0-9]{4} state=(ready|closed)\n"));
      EXPECT_THAT(text, ContainsRegex("\nsocket " + mine + " " + way + "=" + other + " .* local=[0-9.:[]+"));
    }
  }
}

// The failing call returns when the file is there: a program may end then.
TEST_F(Connections, AFailureLeavesADump) {
  setenv("ECCL_CONNECTIONS_DUMP_FILE", (folder_ + "links").c_str(), 1);
  make(2, "tcp");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 1000), ecclSuccess); });
  std::thread aborts([&] {
    usleep(20'000);
    EXPECT_EQ(ecclCommAbort(comms_[1]), ecclSuccess);
  });
  EXPECT_NE(allReduce(comms_[0], 1000), ecclSuccess);
  const std::vector<std::string> texts = dumps(".0");
  ASSERT_THAT(texts, SizeIs(1));
  EXPECT_THAT(texts[0], AllOf(HasSubstr("aborted the communicator"), ContainsRegex("\nsocket .* sent=[1-9]")));
  aborts.join();
  EXPECT_THAT(dumps(".1"), SizeIs(1));
  EXPECT_EQ(ecclCommDestroy(comms_[0]), ecclSuccess);
  EXPECT_THAT(dumps(".0"), Each(HasSubstr("aborted the communicator")));
}

TEST_F(Connections, ADumpThatCannotBeWrittenIsNoFailure) {
  setenv("ECCL_CONNECTIONS_DUMP_FILE", (folder_ + "no such folder/links").c_str(), 1);
  make(2, "thread");
  each([](ecclComm_t comm) { EXPECT_EQ(allReduce(comm, 10), ecclSuccess); });
  destroy();
}

TEST(ConnectionText, GoesToADeviceAsItIs) {
  EXPECT_TRUE(writeDump("/dev/null", {}, {}).ok());
  EXPECT_FALSE(std::filesystem::exists("/dev/null.0000000000000000.0"));
}

/// From rank 0 to rank 1 of node1.
ConnectionList oneConnection() {
  ConnectionList list;
  list.connections.resize(1);
  list.connections[0].id = {0, 1, 2, 3};
  list.connections[0].peer = 1;
  list.connections[0].sends = true;
  list.hosts = {"node1"};
  return list;
}

TEST(ConnectionText, IsOneLineForEachThing) {
  ConnectionList list = oneConnection();
  transport::ConnectionReport& connection = list.connections[0];
  connection.state = transport::Connection::State::failed;
  connection.failure = "it broke\nbadly";
  const std::string text =
      textOf(list, {0xabc, "my job", 0, 2, "node0", 7, 1.5, Status::error(Code::remote, "rank 1 is lost")});
  EXPECT_EQ(
      text,
      "communicator rank=0 of=2 id=0000000000000abc name=my_job host=node0 pid=7 seconds=1.500 end: rank 1 is "
      "lost\n"
      "connection rank=0 to=1 peer_host=node1 channel=2 tag=3 path=- messages=0 bytes=0 state=failed why: it "
      "broke\\x0abadly\n");
}

TEST(ConnectionText, NamesTheDeviceWhereThereIsNoSocket) {
  ConnectionList list = oneConnection();
  transport::ConnectionReport& connection = list.connections[0];
  connection.state = transport::Connection::State::ready;
  connection.path = "verbs";
  connection.link = {"mlx5_0:1", "10.0.0.1:17", "10.0.0.2:18"};
  EXPECT_THAT(textOf(list, {1, "", 0, 2, "node0", 7, 1.5, {}}),
              HasSubstr("\nconnection rank=0 to=1 peer_host=node1 channel=2 tag=3 path=verbs device=mlx5_0:1 "
                        "local=10.0.0.1:17 remote=10.0.0.2:18 messages=0 bytes=0 state=ready\n"));
}

}  // namespace
}  // namespace eccl::runtime
