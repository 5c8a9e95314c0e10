// Hierarchical algorithms executed by processes that are told to be on hosts with unequal numbers of ranks.
// (execution_test.cc executes all algorithms, on one host.)
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "algorithms/library/algorithm.h"
#include "support/processes.h"
#include "support/temporary_folder.h"
#include "support/told_hosts.h"
#include "topology/data_files.h"
#include "topology/formats/host_json.h"

namespace eccl::runtime {
namespace {

constexpr int kHostOf[] = {0, 1, 0, 2, 1, 0, 1, 2};  // of each rank: hosts of three, three and two
constexpr int kRanksOnHosts = 8;
using Values = std::vector<float>;

/// Element i of what rank `from` gives to rank `to`. Small, so that sums are exact.
float valueOf(int from, int to, size_t i) {
  return static_cast<float>((static_cast<size_t>(from) * 7 + static_cast<size_t>(to) * 3 + i) % 13);
}

float sumFor(int to, size_t i) {
  float sum = 0;
  for (int from = 0; from < kRanksOnHosts; ++from) sum += valueOf(from, to, i);
  return sum;
}

/// `blocks` blocks of `count` elements.
Values filled(int blocks, size_t count, const std::function<float(int, size_t)>& value) {
  Values values;
  for (int block = 0; block < blocks; ++block)
    for (size_t i = 0; i < count; ++i) values.push_back(value(block, i));
  return values;
}

/// Makes a call with blocks of `count` elements. Whether it succeeds, and its result is right.
bool isRight(Collective collective, size_t count, int rank, ecclComm_t comm) {
  const auto toOne = [&](int, size_t i) { return valueOf(rank, 0, i); };
  const auto toEach = [&](int to, size_t i) { return valueOf(rank, to, i); };
  const std::vector<size_t> counts(kRanksOnHosts, count);
  std::vector<size_t> offsets;
  for (size_t i = 0; i < kRanksOnHosts; ++i) offsets.push_back(i * count);
  const int root = 3;
  Values in, out, expected;
  ecclResult_t result = ecclInvalidArgument;
  const auto expect = [&](int blocks, const std::function<float(int, size_t)>& value) {
    expected = filled(blocks, count, value);
    out.assign(expected.size(), -1);
  };
  switch (collective) {
    case Collective::allReduce:
      in = filled(1, count, toOne);
      expect(1, sumFor);
      result = ecclAllReduce(in.data(), out.data(), count, ecclFloat32, ecclSum, comm, nullptr);
      break;
    case Collective::reduce:
      in = filled(1, count, toOne);
      expect(rank == root ? 1 : 0, sumFor);
      result = ecclReduce(in.data(), out.data(), count, ecclFloat32, ecclSum, root, comm, nullptr);
      break;
    case Collective::broadcast:
      in = filled(1, count, toOne);
      expect(1, [&](int, size_t i) { return valueOf(root, 0, i); });
      result = ecclBroadcast(in.data(), out.data(), count, ecclFloat32, root, comm, nullptr);
      break;
    case Collective::allGather:
    case Collective::allGatherv:
      in = filled(1, count, toOne);
      expect(kRanksOnHosts, [](int from, size_t i) { return valueOf(from, 0, i); });
      result = collective == Collective::allGather
                   ? ecclAllGather(in.data(), out.data(), count, ecclFloat32, comm, nullptr)
                   : ecclAllGatherv(in.data(), count, out.data(), counts.data(), offsets.data(), ecclFloat32,
                                    comm, nullptr);
      break;
    case Collective::reduceScatter:
    case Collective::reduceScatterv:
      in = filled(kRanksOnHosts, count, toEach);
      expect(1, [&](int, size_t i) { return sumFor(rank, i); });
      result =
          collective == Collective::reduceScatter
              ? ecclReduceScatter(in.data(), out.data(), count, ecclFloat32, ecclSum, comm, nullptr)
              : ecclReduceScatterv(in.data(), out.data(), counts.data(), ecclFloat32, ecclSum, comm, nullptr);
      break;
    case Collective::allToAll:
    case Collective::allToAllv:
      in = filled(kRanksOnHosts, count, toEach);
      expect(kRanksOnHosts, [&](int from, size_t i) { return valueOf(from, rank, i); });
      result = collective == Collective::allToAll
                   ? ecclAlltoAll(in.data(), out.data(), count, ecclFloat32, comm, nullptr)
                   : ecclAlltoAllv(in.data(), counts.data(), offsets.data(), out.data(), counts.data(),
                                   offsets.data(), ecclFloat32, comm, nullptr);
      break;
    default:
      return false;
  }
  return result == ecclSuccess && out == expected;
}

std::vector<algorithms::Algorithm> hierarchicalOnes() {
  std::vector<algorithms::Algorithm> found;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms())
    if (algorithm.hierarchical()) found.push_back(algorithm);
  return found;
}

class HierarchicalExecution : public test::TemporaryFolder,
                              public ::testing::WithParamInterface<algorithms::Algorithm> {};

TEST_P(HierarchicalExecution, GivesTheResults) {
  if (!canReadXml() || !topology::haveJson()) GTEST_SKIP() << "built without pugixml or nlohmann-json";
  const Collective collective = GetParam().collective;
  for (const char* host : {"0", "1", "2"}) test::toldHost(folder_, host, 1000);
  for (const char* transport : {"shm", "tcp"}) {
    SCOPED_TRACE(transport);
    const auto outcomes =
        test::runProcesses(kRanksOnHosts, [&](int rank, test::Board& board, std::string& report) {
          setenv("ECCL_DEBUG", "NONE", 1);
          setenv("ECCL_TRANSPORT", transport, 1);
          setenv("ECCL_SLOT_BYTES", "16384", 1);  // several tiles of what is long
          setenv("ECCL_TOPO_FILE", (folder_ + std::to_string(kHostOf[rank])).c_str(), 1);
          setenv("ECCL_ALGO", (std::string(nameOf(collective)) + ":" + GetParam().name).c_str(), 1);
          ecclComm_t comm = test::join(rank, kRanksOnHosts, board, report);
          if (comm == nullptr) return 2;
          for (const size_t count : {size_t{1}, size_t{3001}, size_t{40'000}}) {
            for (int time = 0; time < 3; ++time)
              if (!isRight(collective, count, rank, comm))
                return report = std::to_string(count) + " elements: " + ecclGetLastError(comm), 3;
          }
          return ecclCommDestroy(comm) == ecclSuccess ? 0 : 4;
        });
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HierarchicalExecution, ::testing::ValuesIn(hierarchicalOnes()),
                         [](const auto& info) {
                           return std::string(nameOf(info.param.collective)) + "_" + info.param.name;
                         });

}  // namespace
}  // namespace eccl::runtime
