// Ranks whose GPUs do not reach each other: messages pass through the hosts (src/runtime/cuda/relay.h). What
// collectives give is the matter of collectives_test.cc and processes_test.cc.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "cuda/cases.h"
#include "cuda/processes.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::inProcesses;
using test::Process;
using test::Ranks;
using test::What;
using ::testing::HasSubstr;

int64_t kernelsSoFar() {
  return Cuda::get().emulated() ? Cuda::get().control->kernels.load() : -1;
}

struct RelayWay {
  const char *transport, *slotBytes;
};
void PrintTo(const RelayWay& way, std::ostream* out) {
  *out << way.transport << ", messages of " << way.slotBytes << " bytes";
}

class RelayWays : public ::testing::TestWithParam<RelayWay> {};

// A message of a ring takes many of a connection, one, or a part of one.
TEST_P(RelayWays, GiveTheBitsOfTheHost) {
  inProcesses(2, [](Process& process) {
    setenv("ECCL_TRANSPORT", GetParam().transport, 1);
    setenv("ECCL_SLOT_BYTES", GetParam().slotBytes, 1);
    Ranks host(&process, 2, "host"), device(&process, 2, "relayed");
    test::compareSome(host, device);
  });
}

INSTANTIATE_TEST_SUITE_P(, RelayWays,
                         ::testing::Values(RelayWay{"shm", "64"}, RelayWay{"shm", "0"}, RelayWay{"tcp", "4096"},
                                           RelayWay{"tcp", "0"}, RelayWay{"tcp", "1048576"}));

class RelayProcesses : public test::LaneProcesses {
 protected:
  static bool isRoot() { return geteuid() == 0; }
  /// This process is on a host of its own, as far as files tell. False: it may not be.
  static bool moveToHost(char name) {
    char path[] = "/tmp/eccl-boot-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return false;
    const std::string id(36, name);
    const bool written = write(file, id.data(), id.size()) == static_cast<ssize_t>(id.size());
    close(file);
    const bool moved = written && unshare(CLONE_NEWNS) == 0 &&
                       mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount(path, "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr) == 0;
    unlink(path);
    return moved;
  }
};

// Two hosts with two ranks each, which reach each other's memory there. Processes 0 and 2 have ranks of the
// first.
TEST_F(RelayProcesses, RanksOfTwoHosts) {
  if (!isRoot()) GTEST_SKIP() << "only root may pretend to be on another host";
  for (const char* relay : {"0", "1"}) {
    inProcesses(4, [&](Process& process) {
      ASSERT_TRUE(moveToHost(static_cast<char>('a' + process.number % 2)));
      Ranks host(&process, 4, "host");
      const int64_t before = kernelsSoFar();
      test::askFor("lanes");
      setenv("ECCL_CUDA_RELAY", relay, 1);
      const ecclUniqueId id = process.nextId();
      ecclComm_t comm = nullptr;
      ASSERT_EQ(ecclCommInitRank(&comm, 4, id, process.number), ecclSuccess) << ecclGetLastError(nullptr);
      test::askForNothing();
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(process.number + 1));
      EXPECT_EQ(sum(comm, data, stream), ecclSuccess) << ecclGetLastError(comm);
      stream.synchronize();
      EXPECT_EQ(data.read(), numbers(10));
      if (before >= 0) { EXPECT_EQ(kernelsSoFar() > before, relay[0] == '1'); }
      process.meet();
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
    });
  }
}

// The call does not wait for the receiver's; the end of the communicator does.
TEST_F(RelayProcesses, ASenderMayLeaveWhenTheReceiverHasCome) {
  inProcesses(2, [](Process& process) {
    for (const bool late : {false, true}) {
      Ranks ranks(&process, 2, "relayed");
      ecclComm_t& comm = ranks.comm(process.number);
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(process.number == 0 ? 7 : 0));
      if (process.number == 0) {
        EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, 1, comm, asStream(stream.native())), ecclSuccess);
        stream.synchronize();
        EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
        comm = nullptr;
        continue;
      }
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      EXPECT_EQ(ecclRecv(data.data(), kCount, ecclInt32, 0, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
      EXPECT_EQ(data.read(), numbers(7));
    }
  });
}

// Nobody is there to take it.
TEST_F(RelayProcesses, ASendToARankThatHasLeftFails) {
  for (const bool met : {true, false}) {
    inProcesses(2, [&](Process& process) {
      Ranks ranks(&process, 2, "relayed");
      ecclComm_t& comm = ranks.comm(process.number);
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(1));
      if (met) {
        EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
        stream.synchronize();
      }
      if (process.number == 1) {
        EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
        comm = nullptr;
      }
      process.meet();
      if (process.number == 1) return;
      if (ecclSend(data.data(), kCount, ecclInt32, 1, comm, asStream(stream.native())) == ecclSuccess)
        expectFailed(comm, "rank 1", 15);
      EXPECT_THAT(ecclGetLastError(comm), HasSubstr("has left the communicator"));
      stream.synchronize();
    });
  }
}

// Nor is there time to find out why.
TEST_F(RelayProcesses, ASendToARankThatHasLeftFailsTheEnd) {
  inProcesses(2, [&](Process& process) {
    Ranks ranks(&process, 2, "relayed");
    ecclComm_t& comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    if (process.number == 1) {
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
      comm = nullptr;
    }
    process.meet();
    if (process.number == 1) return;
    EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, 1, comm, asStream(stream.native())), ecclSuccess);
    stream.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it is found to be lost
    EXPECT_EQ(ecclCommFinalize(comm), ecclRemoteError);
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("has left the communicator"));
  });
}

// Its connections end before the others hear that it leaves in order, some of them by way of others. That is no
// matter of those who need nothing of it any more.
TEST_F(RelayProcesses, ARankMayLeaveWhileOthersGoOn) {
  inProcesses(4, [](Process& process) {
    setenv("ECCL_TRANSPORT", "tcp", 1);
    Ranks ranks(&process, 4, "relayed");
    ecclComm_t& comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1)), other(numbers(-1));
    EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
    stream.synchronize();
    if (process.number == 3) {
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
      comm = nullptr;
    }
    for (int i = 0; i < 50 && process.number < 2; ++i) {
      if (process.number == 0)
        EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, 1, comm, asStream(stream.native())), ecclSuccess);
      else
        EXPECT_EQ(ecclRecv(other.data(), kCount, ecclInt32, 0, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process.meet();
    ecclResult_t error = ecclSuccess;
    if (comm != nullptr) { EXPECT_EQ(ecclCommGetAsyncError(comm, &error), ecclSuccess); }
    EXPECT_EQ(error, ecclSuccess) << ecclGetLastError(comm);
    if (process.number == 1) { EXPECT_EQ(other.read(), numbers(4)); }
    process.meet();
  });
}

// Rank 0 ends when the receiver of one of its messages has left, and that of the other one has come.
TEST_F(RelayProcesses, AnEndWaitsForReceiversThatCome) {
  inProcesses(3, [](Process& process) {
    Ranks ranks(&process, 3, "relayed");
    ecclComm_t& comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(7)), other(numbers(-1));
    const auto leave = [&] {
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess) << ecclGetLastError(nullptr);
      comm = nullptr;
    };
    if (process.number == 0) {
      for (const int to : {1, 2})
        EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, to, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
    }
    process.meet();
    if (process.number == 0) return leave();
    // It waits for both by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(500 * process.number));
    if (process.number == 1) return leave();
    EXPECT_EQ(ecclRecv(other.data(), kCount, ecclInt32, 0, comm, asStream(stream.native())), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(other.read(), numbers(7));
  });
}

// The ring is there, of a call before: the message has left, and is told to be lost.
TEST_F(RelayProcesses, AMessageThatNobodyReceivesIsNamed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "relayed");
    ecclComm_t& comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(7));
    const auto send = [&] {
      EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, 1, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
    };
    if (process.number == 0) {
      send();
      process.meet();
      send();
    } else {
      EXPECT_EQ(ecclRecv(data.data(), kCount, ecclInt32, 0, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
      process.meet();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ecclCommDestroy(comm);  // may hear of it, too
      comm = nullptr;
    }
    if (process.number == 0) {
      expectFailed(comm, "rank 1", 15);
      EXPECT_THAT(ecclGetLastError(comm), HasSubstr("has left the communicator"));
    }
    process.meet();
  });
}

// By way of rank 0, which has left, nobody hears of it.
TEST_F(RelayProcesses, AProcessThatDiesIsNamedWhereOthersHaveLeft) {
  inProcesses(3,
              [](Process& process) {
                setenv("ECCL_TRANSPORT", "tcp", 1);
                Ranks ranks(&process, 3, "relayed");
                ecclComm_t& comm = ranks.comm(process.number);
                const DeviceStream stream;
                const DeviceBuffer<int> data(numbers(1));
                EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
                stream.synchronize();
                if (process.number == 0) {
                  EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
                  comm = nullptr;
                }
                process.meet();
                if (process.number == 0) return;
                if (process.number == 2) _exit(7);
                EXPECT_EQ(ecclRecv(data.data(), kCount, ecclInt32, 2, comm, asStream(stream.native())),
                          ecclSuccess);
                expectFailed(comm, "rank 2", 30);
                stream.synchronize();
              },
              {0, 0, 7});
}

// Staged, it has a scalar of its own; and nothing has happened by a call that is refused.
TEST_F(RelayProcesses, ACapturedCallReadsNoScalarOfTheGpus) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "relayed");
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<float> data(std::vector<float>(100, 2)), scalar({0.5f});
    ecclRedOp_t op;
    ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, scalar.data(), ecclFloat32, ecclScalarDevice, comm), ecclSuccess);
    const auto call = [&] {
      return ecclAllReduce(data.data(), data.data(), 100, ecclFloat32, op, comm, asStream(stream.native()));
    };
    test::DeviceGraph graph(stream, [&] { EXPECT_EQ(call(), ecclInvalidUsage); });
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("whose scalar is in device memory"));
    EXPECT_EQ(call(), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(100, 2));
    process.meet();
  });
}

// Before its first call, or while a kernel waits for it.
TEST_F(RelayProcesses, AProcessThatDiesIsNamed) {
  oneDies("relayed", 15);
}

// The kernels wait for different messages; each is told what the other one is about.
TEST_F(RelayProcesses, DifferentCallsAreNamed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "relayed");
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    if (process.number == 0) {
      EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
    } else {
      EXPECT_EQ(ecclBroadcast(data.data(), data.data(), kCount, ecclInt32, 0, comm, asStream(stream.native())),
                ecclSuccess);
    }
    expectFailed(comm, "Broadcast(count 5000", 15);
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("AllReduce(count 5000"));
    stream.synchronize();
  });
}

// Rank 2 holds up neither the messages between the others, nor those of other calls of its own.
TEST_F(RelayProcesses, NoRingHoldsUpAnother) {
  inProcesses(3, [](Process& process) {
    Ranks ranks(&process, 3, "relayed");
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream first, second;
    const DeviceBuffer<int> data(numbers(process.number)), other(numbers(-1));
    const auto send = [&](int to, const DeviceStream& stream) {
      EXPECT_EQ(ecclSend(data.data(), kCount, ecclInt32, to, comm, asStream(stream.native())), ecclSuccess);
    };
    const auto receive = [&](int from, const DeviceStream& stream) {
      EXPECT_EQ(ecclRecv(other.data(), kCount, ecclInt32, from, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
      EXPECT_EQ(other.read(), numbers(from));
    };
    if (process.number == 0) {
      send(2, first);
      send(1, second);
      second.synchronize();
    } else if (process.number == 1) {
      receive(0, first);
    }
    process.meet();
    if (process.number == 2) receive(0, first);
    process.meet();
  });
}

}  // namespace
}  // namespace eccl
