// CUDA communicators whose ranks are in several processes of one host: staged, and by lanes over memory that
// the processes lend each other.
#include "cuda/processes.h"
#include "cuda/cases.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::HostWord;
using test::inProcesses;
using test::kUnseen;
using test::LaneProcesses;
using test::Process;
using test::Ranks;
using ::testing::HasSubstr;

int64_t kernels() {
  return Cuda::get().emulated() ? Cuda::get().control->kernels.load() : -1;
}

struct Deal {
  int processes, ranks;
  const char* kind;
  int devices;
};
void PrintTo(const Deal& deal, std::ostream* out) {
  *out << deal.processes << " processes, " << deal.ranks << " ranks, " << deal.kind << ", " << deal.devices
       << " devices";
}

class DeviceProcesses : public ::testing::TestWithParam<Deal> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer && std::string_view(GetParam().kind) == "lanes") GTEST_SKIP() << kUnseen;
  }
  /// `graphs`: which the host launches.
  static void run(const std::function<void(Process&, Ranks&, Ranks&)>& body, bool graphs = false) {
    const Deal its = GetParam();
    inProcesses(its.processes, [&](Process& process) {
      setenv("ECCL_SLOT_BYTES", "4096", 1);
      Ranks host(&process, its.ranks, "host"), device(&process, its.ranks, its.kind, its.devices);
      unsetenv("ECCL_SLOT_BYTES");
      const int64_t before = kernels();
      body(process, host, device);
      const bool byKernels =
          std::string_view(its.kind) == "lanes" || (std::string_view(its.kind) == "relayed" && !graphs);
      if (before >= 0) { EXPECT_EQ(kernels() > before, byKernels); }
    });
  }
};

TEST_P(DeviceProcesses, GiveTheBitsOfTheHost) {
  run([](Process&, Ranks& host, Ranks& device) { test::sweep(host, device); });
}

TEST_P(DeviceProcesses, RunsOfGraphsGiveTheBitsOfTheHost) {
  run([](Process&, Ranks& host, Ranks& device) { test::sweep(host, device, test::Way::replayed); }, true);
}

TEST_P(DeviceProcesses, LongMessages) {
  run([](Process&, Ranks& host, Ranks& device) {
    for (const test::What what : test::kAll) {
      test::compare(host, device,
                    {what, ecclFloat32, ecclSum,
                     (kSanitized ? 3u << 14 : 3u << 18) / static_cast<size_t>(host.size()), host.size() - 1},
                    false);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, DeviceProcesses,
                         ::testing::Values(Deal{2, 2, "cuda", 1}, Deal{2, 2, "lanes", 1},
                                           Deal{2, 2, "lanes", 2}, Deal{3, 3, "lanes", 1},
                                           Deal{2, 4, "lanes", 2}, Deal{2, 2, "relayed", 1},
                                           Deal{2, 4, "relayed", 2}));

// No Send waits for a Recv that comes behind another Send, and no group for what another rank puts into its
// streams in another order.
TEST_F(LaneProcesses, SendsAndGroupsInEveryOrder) {
  inProcesses(3, [](Process& process) {
    Ranks ranks(&process, 3, "lanes");
    ranks.each([&](int rank) {
      const int next = (rank + 1) % 3, before = (rank + 2) % 3;
      ecclComm_t comm = ranks.comm(rank);
      const DeviceStream sends, receives;
      const DeviceBuffer<int> out({rank, rank + 10}), in({-1, -1}), far(numbers(rank)), near(numbers(-1));
      EXPECT_EQ(ecclSend(out.data(), 1, ecclInt32, next, comm, asStream(sends.native())), ecclSuccess);
      EXPECT_EQ(ecclSend(out.data() + 1, 1, ecclInt32, before, comm, asStream(sends.native())), ecclSuccess);
      EXPECT_EQ(ecclRecv(in.data(), 1, ecclInt32, before, comm, asStream(receives.native())), ecclSuccess);
      EXPECT_EQ(ecclRecv(in.data() + 1, 1, ecclInt32, next, comm, asStream(receives.native())), ecclSuccess);
      receives.synchronize();
      sends.synchronize();
      EXPECT_EQ(in.read(), (std::vector<int>{before, next + 10}));

      const DeviceStream a, b;
      ecclGroupStart();
      if (rank == 1) ecclRecv(near.data(), kCount, ecclInt32, before, comm, asStream(a.native()));
      ecclSend(far.data(), kCount, ecclInt32, next, comm, asStream(b.native()));
      if (rank != 1) ecclRecv(near.data(), kCount, ecclInt32, before, comm, asStream(a.native()));
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(comm);
      a.synchronize();
      b.synchronize();
      EXPECT_EQ(near.read(), numbers(before));
    });
  });
}

// What one communicator has lent is given back, or lent again by the next ones; children of a split have rings
// of their own.
TEST_F(LaneProcesses, MemoryIsTakenOnce) {
  for (const char* descriptors : {"1", "0"})
    inProcesses(2, [&](Process& process) {
      setenv("ECCL_CUMEM_ENABLE", descriptors, 1);
      int64_t taken = 0, mapped = 0;
      for (int time = 0; time < 12; ++time) {
        Ranks ranks(&process, 4, "lanes", 2);
        ranks.each([&](int rank) {
          const DeviceStream stream;
          const DeviceBuffer<int> data(numbers(rank));
          EXPECT_EQ(sum(ranks.comm(rank), data, stream), ecclSuccess);
          stream.synchronize();
          EXPECT_EQ(data.read(), numbers(6));
          // It offers memory to all, and one rank takes it.
          if (rank == 0) ecclSend(data.data(), kCount, ecclInt32, 1, ranks.comm(0), asStream(stream.native()));
          if (rank == 1) ecclRecv(data.data(), kCount, ecclInt32, 0, ranks.comm(1), asStream(stream.native()));
          ecclComm_t child = nullptr;
          ASSERT_EQ(ecclCommSplit(ranks.comm(rank), rank / 2, rank, &child, nullptr), ecclSuccess);
          EXPECT_EQ(sum(child, data, stream), ecclSuccess);
          stream.synchronize();
          EXPECT_EQ(data.read(), numbers(12));
          EXPECT_EQ(ecclCommDestroy(child), ecclSuccess);
        });
        if (!Cuda::get().emulated()) continue;
        // By handle the borrower may give back a little later than the lender ends.
        const int64_t now = Cuda::get().control->deviceBytes;
        const int64_t blocks = Cuda::get().control->mappedBlocks;
        if (time == 3) taken = now, mapped = blocks;
        if (time > 3) {
          EXPECT_LE(now, *descriptors == '1' ? taken : taken + taken / 2);
          EXPECT_LE(blocks, mapped);
        }
      }
    });
}

// A process that does not reach the others' memory, or whose driver lends none, has all of them stage. They do
// not where there is a way for all.
TEST_F(LaneProcesses, AreStagedWhereOneDoesNotReachTheOthers) {
  using Controls = std::vector<std::atomic<int> cuda_emulation::Control::*>;
  using Its = cuda_emulation::Control;
  const auto make = [](Process& process, const Controls& missing, bool staged) {
    if (!Cuda::get().emulated()) return;
    if (process.number == 1)
      for (const auto each : missing) Cuda::get().control->*each = 0;
    Cuda::get().use(process.number);
    setenv("ECCL_DEVICE", "cuda", 1);
    ecclComm_t comm = nullptr;
    ASSERT_EQ(ecclCommInitRank(&comm, 2, process.nextId(), process.number), ecclSuccess);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    EXPECT_EQ(sum(comm, data, stream), ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read(), numbers(2));
    EXPECT_EQ(kernels() == 0, staged);
    EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
  };
  struct {
    Controls missing;
    bool staged;
  } const cases[] = {{{&Its::peersReach}, true},
                     {{&Its::maps, &Its::lends}, true},
                     {{&Its::mapsOthers, &Its::lends}, true},
                     {{&Its::lends}, false},
                     {{&Its::maps}, false},
                     {{&Its::mapsOthers}, false},
                     {{}, false}};
  for (const auto& each : cases)
    inProcesses(2, [&](Process& process) { make(process, each.missing, each.staged); });
}

TEST_F(LaneProcesses, ThreadsNeedNoMemoryThatIsLent) {
  inProcesses(1, [](Process& process) {
    if (!Cuda::get().emulated()) return;
    Cuda::get().control->lends = Cuda::get().control->maps = 0;
    Ranks ranks(&process, 2, "lanes");
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(1));
      EXPECT_EQ(sum(ranks.comm(rank), data, stream), ecclSuccess);
      stream.synchronize();
      EXPECT_EQ(data.read(), numbers(2));
    });
    EXPECT_GT(kernels(), 0);
  });
}

// A first call waits for the other rank's, which never comes: another thread ends that.
TEST_F(LaneProcesses, AbortEndsAFirstCall) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    ecclComm_t& comm = ranks.comm(process.number);
    process.meet();
    if (process.number == 1) return expectFailed(comm, "aborted the communicator");
    std::thread caller([&] {
      Cuda::get().use(0);
      const DeviceStream stream;
      const DeviceBuffer<int> data(numbers(1));
      EXPECT_NE(sum(comm, data, stream), ecclSuccess);
      stream.synchronize();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double start = test::now();
    EXPECT_EQ(ecclCommAbort(comm), ecclSuccess);
    caller.join();
    EXPECT_LT(test::now() - start, 1);
    comm = nullptr;
  });
}

// In streams of their own that is well, in one stream it is an error.
TEST_F(LaneProcesses, CallsOfTwoCommunicatorsInTwoOrders) {
  for (const int way : {0, 1, 2, 3}) {
    const bool oneStream = way % 2 == 1;
    inProcesses(2, [&](Process& process) {
      Ranks ranks(&process, 2, way < 2 ? "lanes" : "cuda");
      ecclComm_t comms[] = {ranks.comm(process.number), nullptr};
      ASSERT_EQ(ecclCommSplit(comms[0], 0, process.number, &comms[1], nullptr), ecclSuccess);
      const DeviceStream streams[2];
      const DeviceBuffer<int> data(numbers(1)), other(numbers(10));
      for (const int which : {0, 1}) {  // the first calls wait for each other
        const DeviceBuffer<int> first(numbers(1));
        EXPECT_EQ(sum(comms[which], first, streams[0]), ecclSuccess);
        streams[0].synchronize();
      }
      for (const int which : {process.number, 1 - process.number})
        EXPECT_EQ(sum(comms[which], which == 0 ? data : other, streams[oneStream ? 0 : which]), ecclSuccess);
      if (oneStream) {
        ecclResult_t errors[2] = {};
        for (const double start = test::now(); errors[0] + errors[1] == 0 && test::now() - start < 8;)
          for (const int which : {0, 1}) ecclCommGetAsyncError(comms[which], &errors[which]);
        const ecclComm_t failed = comms[errors[0] != ecclSuccess ? 0 : 1];
        EXPECT_THAT(ecclGetLastError(failed), HasSubstr("calls wait for each other in a circle: rank "));
      }
      for (const DeviceStream& stream : streams) stream.synchronize();
      if (!oneStream) {
        EXPECT_EQ(data.read(), numbers(2));
        EXPECT_EQ(other.read(), numbers(20));
      }
      process.meet();
      EXPECT_EQ(ecclCommAbort(comms[1]), ecclSuccess);
    });
  }
}

// CUDA closes what another process has lent by handle only when no stream of this one waits. So it stays open,
// for the next communicator. What is mapped it unmaps.
TEST_F(LaneProcesses, CommunicatorsComeAndGoWhileAStreamWaits) {
  for (const char* descriptors : {"1", "0"})
    inProcesses(
        2,
        [&](Process& process) {
          setenv("ECCL_CUMEM_ENABLE", descriptors, 1);
          const DeviceStream stream, other;
          const DeviceBuffer<int> data(numbers(1));
          HostWord held;
          for (int time = 0; time < 3; ++time) {
            Ranks ranks(&process, 2, "lanes");
            EXPECT_EQ(sum(ranks.comm(process.number), data, stream), ecclSuccess);
            stream.synchronize();
            EXPECT_EQ(data.read(), numbers(2 << time));
            if (time == 0) held.heldBackBy(other.native());
          }
          held.release();
          other.synchronize();
        },
        {}, 30);
}

// In the mode that forbids what is unsafe to all threads.
TEST_F(LaneProcesses, ACommunicatorMayEndWhileAnotherThreadCaptures) {
  inProcesses(2, [](Process& process) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    auto ranks = std::make_unique<Ranks>(&process, 2, "lanes");
    EXPECT_EQ(sum(ranks->comm(process.number), data, stream), ecclSuccess);
    stream.synchronize();
    const auto end = [&] { std::thread([&] { ranks.reset(); }).join(); };
    const test::DeviceGraph graph(stream, end, test::DeviceGraph::kGlobal, true);
    EXPECT_EQ(graph.captured(), test::cu::kSuccess);
    process.meet();
  });
}

// More calls than a stream has room for, which holds up all that is asked of the driver, are made before the
// other rank makes its first one.
TEST_F(LaneProcesses, ManyCallsMayWaitForTheFirst) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(process.number == 0 ? 1 : 0));
    if (process.number == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int call = 0; call < 300; ++call)
      ASSERT_EQ(ecclBroadcast(data.data(), data.data(), 10, ecclInt32, 0, comm, asStream(stream.native())),
                ecclSuccess);
    stream.synchronize();
    EXPECT_EQ(data.read()[9], 1);
  });
}

// The one waits for the other's first call, which would need less of it.
TEST_F(LaneProcesses, DifferentFirstCallsAreNamed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const ecclComm_t comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    const ecclResult_t made = process.number == 0 ? sum(comm, data, stream)
                                                  : ecclBroadcast(data.data(), data.data(), kCount, ecclInt32,
                                                                  0, comm, asStream(stream.native()));
    if (made == ecclSuccess) expectFailed(comm, "Broadcast(count 5000");
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("AllReduce(count 5000"));
    stream.synchronize();
  });
}

// Its kernel has begun, or it waits for the first call.
TEST_F(LaneProcesses, AProcessThatDiesIsNamed) {
  oneDies("lanes", 5);
}

// The last rank to come says so; the others say for whom they wait.
TEST_F(LaneProcesses, ARankThatLeavesBeforeItsFirstCallIsNamed) {
  inProcesses(2, [](Process& process) {
    Ranks ranks(&process, 2, "lanes");
    const ecclComm_t comm = ranks.comm(process.number);
    if (process.number == 1) return;
    const DeviceStream stream;
    const DeviceBuffer<int> data(numbers(1));
    if (sum(comm, data, stream) == ecclSuccess) expectFailed(comm, "rank 1");
    EXPECT_THAT(ecclGetLastError(comm), HasSubstr("rank 1"));
    stream.synchronize();
  });
}

// The one that leaves has sent all that the other one waits for, and cannot be asked for its part of the ring.
TEST_F(LaneProcesses, ASenderMayLeaveBeforeTheFirstRecv) {
  for (const char* descriptors : {"1", "0"})
    inProcesses(3, [&](Process& process) {
      setenv("ECCL_CUMEM_ENABLE", descriptors, 1);
      Ranks ranks(&process, 3, "lanes");
      ecclComm_t& comm = ranks.comm(process.number);
      const DeviceStream stream;
      const DeviceBuffer<int> few({7, 8}), other({-1, -1});
      const auto send = [&](int to) {
        EXPECT_EQ(ecclSend(few.data(), 2, ecclInt32, to, comm, asStream(stream.native())), ecclSuccess);
        stream.synchronize();
      };
      const auto receive = [&](int from) {
        EXPECT_EQ(ecclRecv(other.data(), 2, ecclInt32, from, comm, asStream(stream.native())), ecclSuccess)
            << ecclGetLastError(comm);
        stream.synchronize();
        EXPECT_EQ(other.read(), (std::vector<int>{7, 8}));
      };
      if (process.number == 0) {
        send(1);
      } else if (process.number == 1) {
        receive(0);  // offers its parts of all rings
      } else {
        send(1);
        EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
        comm = nullptr;
      }
      process.meet();
      if (process.number == 1) {
        other.write({-1, -1});
        receive(2);
      }
      process.meet();  // by handle the lender's process has to be there
    });
}

// Nobody is there to take it.
TEST_F(LaneProcesses, ASendToARankThatHasLeftFails) {
  inProcesses(3, [](Process& process) {
    Ranks ranks(&process, 3, "lanes");
    ecclComm_t& comm = ranks.comm(process.number);
    const DeviceStream stream;
    const DeviceBuffer<int> data({7, 8});
    const auto send = [&](int to) {
      return ecclSend(data.data(), 2, ecclInt32, to, comm, asStream(stream.native()));
    };
    const auto receive = [&](int from) {
      EXPECT_EQ(ecclRecv(data.data(), 2, ecclInt32, from, comm, asStream(stream.native())), ecclSuccess);
      stream.synchronize();
    };
    // Each has offered its parts of all rings by then.
    if (process.number == 0) { EXPECT_EQ(send(2), ecclSuccess); }
    if (process.number == 2) receive(0);
    if (process.number == 0) { EXPECT_EQ(send(1), ecclSuccess); }
    if (process.number == 1) receive(0);
    stream.synchronize();
    if (process.number == 2) {
      EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess);
      comm = nullptr;
    }
    process.meet();
    if (process.number == 1) {
      if (send(2) == ecclSuccess) expectFailed(comm, "rank 2", 15);
      EXPECT_THAT(ecclGetLastError(comm), HasSubstr("has left the communicator"));
    }
    process.meet();
  });
}

// Each call into the driver that a first call makes fails once in the one process. Both say so. First with
// nothing there; then behind calls that went well, so that the same calls are made each time.
TEST_F(LaneProcesses, EachCallIntoTheDriverMayFail) {
  constexpr int kStep = kSanitized ? 7 : 1, kFirst = 40;
  for (const bool again : {false, true})
    inProcesses(2, [&](Process& process) {
      auto* const control = Cuda::get().control;
      if (control == nullptr) return;
      int failed = 0;
      bool over = false;
      for (int number = 0; !over; number += kStep) {
        const DeviceStream stream;
        if (again) {
          Ranks before(&process, 2, "lanes");
          const DeviceBuffer<int> data(numbers(1));
          EXPECT_EQ(sum(before.comm(process.number), data, stream), ecclSuccess);
          stream.synchronize();
        }
        Ranks ranks(&process, 2, "lanes");
        const ecclComm_t comm = ranks.comm(process.number);
        const DeviceBuffer<int> data(numbers(1));
        process.meet();  // else the one fails while the other one is not through with its init
        const int64_t which = control->calls + number, kernels = control->kernels;
        if (process.number == 0) control->failAt = which;
        ecclResult_t result = sum(comm, data, stream);
        over =
            process.count(process.number == 0 && control->calls <= which) > 0 || (!again && number >= kFirst);
        control->failAt = cuda_emulation::Control::kNever;
        stream.synchronize();
        if (process.number == 0 && over && again) {
          EXPECT_GT(control->kernels, kernels) << "not all calls have failed";
        }
        if (result == ecclSuccess) ecclCommGetAsyncError(comm, &result);
        if (result == ecclSuccess) {
          EXPECT_EQ(data.read(), numbers(2)) << number;
        } else {
          ++failed;
          EXPECT_THAT(ecclGetLastError(comm), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")) << number;
        }
      }
      EXPECT_GT(failed, 10 / kStep);
    });
}

}  // namespace
}  // namespace eccl
