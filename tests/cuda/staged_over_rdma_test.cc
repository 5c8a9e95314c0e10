// What is staged goes from and to the twins in pinned memory by RDMA, without a copy on the host.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cuda/over_rdma.h"

#ifdef ECCL_VERBS_EMULATION

namespace eccl {
namespace {

using test::asStream;
using test::DeviceBuffer;
using test::DeviceStream;

class StagedOverRdma : public test::OverRdma {
 protected:
  /// Bytes that are registered by calls after the first ones, by which ranks are connected.
  uint64_t registeredByCalls(size_t elements) {
    test::Ranks ranks(2, "cuda");
    uint64_t before = 0, after = 0;
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<int> from(std::vector<int>(elements, rank + 1)), to(std::vector<int>(elements, 0));
      for (int call = 0; call < 4; ++call) {
        EXPECT_EQ(ecclAllReduce(from.data(), to.data(), elements, ecclInt32, ecclSum, ranks.comm(rank),
                                asStream(stream.native())),
                  ecclSuccess);
        stream.synchronize();
        ranks.meet();
        if (rank == 0) (call == 0 ? before : after) = counters().registeredBytes;
        ranks.meet();
      }
      EXPECT_EQ(to.read(), std::vector<int>(elements, 3));
    });
    return after - before;
  }
};

constexpr size_t kStagedElements = 1 << 20;

// Input and output of both ranks, each with the device of its own.
TEST_F(StagedOverRdma, MessagesGoFromTwinToTwin) {
  constexpr uint64_t kBytes = kStagedElements * sizeof(int);
  EXPECT_GE(registeredByCalls(kStagedElements), 4 * kBytes);
  EXPECT_GE(counters().largestRegionSent, kBytes) << "messages still come from slots";
  EXPECT_GE(counters().largestRegionWritten, kBytes) << "messages still go to slots";
}

TEST_F(StagedOverRdma, WhatFitsInAMessageIsCopied) {
  EXPECT_EQ(registeredByCalls(1 << 12), 0u);
}

// GPUs of the emulation are at a0 and a1, its devices are emu0 and emu1. Rank 0's GPU hangs below a switch with
// the second of them, rank 1's with the first.
TEST_F(StagedOverRdma, RanksSendOverThePortNearestToTheirGpu) {
#ifndef ECCL_READS_XML
  GTEST_SKIP() << "built without pugixml";
#endif
  const std::string path = ::testing::TempDir() + "eccl-near-ports-" + std::to_string(getpid()) + ".xml";
  const auto pci = [](const std::string& address, const char* kind, const std::string& below) {
    return "<pci busid=\"0000:" + address + ":00.0\" class=\"" + kind +
           "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + below + "</pci>";
  };
  const auto port = [&](const std::string& n) {
    return pci("b" + n, "0x020700",
               "<nic><net name=\"emu" + n + "\" dev=\"" + n + "\" speed=\"100000\" port=\"1\" guid=\"0x1" + n +
                   "\" maxconn=\"128\" gdr=\"0\"/></nic>");
  };
  std::ofstream(path) << "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\" "
                         "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
                      << pci("01", "0x060400", pci("a0", "0x030200", "") + port("1"))
                      << pci("02", "0x060400", pci("a1", "0x030200", "") + port("0")) << "</cpu></system>";
  setenv("ECCL_TOPO_FILE", path.c_str(), 1);
  test::Ranks ranks(2, "cuda", 2);
  ranks.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> from(std::vector<int>(100, 1)), to(std::vector<int>(100, 0));
    EXPECT_EQ(ecclAllReduce(from.data(), to.data(), 100, ecclInt32, ecclSum, ranks.comm(rank),
                            asStream(stream.native())),
              ecclSuccess);
    stream.synchronize();
    size_t count = 0;
    EXPECT_EQ(ecclCommGetConnections(ranks.comm(rank), nullptr, &count), ecclSuccess);
    std::vector<ecclConnectionInfo_t> infos(count);
    for (ecclConnectionInfo_t& each : infos) each.size = sizeof each;
    EXPECT_EQ(ecclCommGetConnections(ranks.comm(rank), infos.data(), &count), ecclSuccess);
    int sending = 0;
    for (const ecclConnectionInfo_t& each : infos) {
      if (each.sends == 0) continue;
      ++sending;
      EXPECT_STREQ(each.interface, rank == 0 ? "emu1:1" : "emu0:1");
    }
    EXPECT_GT(sending, 0);
  });
  unsetenv("ECCL_TOPO_FILE");
  std::remove(path.c_str());
}

TEST_F(StagedOverRdma, NothingIsRegisteredWhereThatIsNotWanted) {
  setenv("ECCL_IB_CACHE_BYTES", "0", 1);
  EXPECT_EQ(registeredByCalls(kStagedElements), 0u);
}

}  // namespace
}  // namespace eccl
#endif
