// What each tool says about its collective, played by a plain oracle in memory.
#include "common/collective.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace eccl::perf {
namespace {

struct Tool {
  const char* name;
  Collective& (*get)();
  // The collective by definition: fills every rank's receive buffer from the send buffers. Bytes.
  void (*play)(const std::vector<std::vector<char>>& send, std::vector<std::vector<char>>& receive,
               size_t param, int root);
};

using Buffers = std::vector<std::vector<char>>;

void copyAt(std::vector<char>& to, size_t at, const std::vector<char>& from, size_t start, size_t bytes) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(start), bytes, to.begin() + static_cast<ptrdiff_t>(at));
}

const Tool kMoving[] = {
    {"all_gather", allGatherPerf,
     [](const Buffers& s, Buffers& r, size_t p, int) {
       for (auto& to : r)
         for (size_t i = 0; i < s.size(); ++i) copyAt(to, i * p, s[i], 0, p);
     }},
    {"alltoall", alltoallPerf,
     [](const Buffers& s, Buffers& r, size_t p, int) {
       for (size_t d = 0; d < r.size(); ++d)
         for (size_t i = 0; i < s.size(); ++i) copyAt(r[d], i * p, s[i], d * p, p);
     }},
    {"broadcast", broadcastPerf,
     [](const Buffers& s, Buffers& r, size_t p, int root) {
       for (auto& to : r) copyAt(to, 0, s[root], 0, p);
     }},
    {"gather", gatherPerf,
     [](const Buffers& s, Buffers& r, size_t p, int root) {
       for (size_t i = 0; i < s.size(); ++i) copyAt(r[root], i * p, s[i], 0, p);
     }},
    {"scatter", scatterPerf,
     [](const Buffers& s, Buffers& r, size_t p, int root) {
       for (size_t d = 0; d < r.size(); ++d) copyAt(r[d], 0, s[root], d * p, p);
     }},
    {"sendrecv", sendrecvPerf,
     [](const Buffers& s, Buffers& r, size_t p, int) {
       for (size_t d = 0; d < r.size(); ++d) copyAt(r[d], 0, s[(d + s.size() - 1) % s.size()], 0, p);
     }},
};

Part partOf(int rank, int nranks, int root, size_t param) {
  return {rank, nranks, root, param, &kTypeInfos[ecclInt8]};
}

TEST(Collectives, TheExpectationIsTheDefinition) {
  constexpr int kRanks = 3;
  for (const Tool& tool : kMoving) {
    Collective& collective = tool.get();
    for (int root = 0; root < (collective.rooted() ? kRanks : 1); ++root) {
      const Shape shape = collective.shape(200, 1, kRanks);
      ASSERT_GT(shape.param, 0u) << tool.name;
      Generator g(kTypeInfos[ecclInt8], Op::sum, kRanks);
      Buffers send(kRanks, std::vector<char>(shape.send)), receive(kRanks, std::vector<char>(shape.receive));
      for (int rank = 0; rank < kRanks; ++rank)
        g.fill(send[rank].data(), collective.input(partOf(rank, kRanks, root, shape.param)), 5);
      tool.play(send, receive, shape.param, root);
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto expected = collective.expected(partOf(rank, kRanks, root, shape.param), false);
        EXPECT_EQ(g.countWrong(receive[rank].data(), expected, 5), 0) << tool.name << " rank " << rank;
        size_t covered = 0;
        for (const Segment& segment : expected) covered += segment.count;
        EXPECT_EQ(covered, shape.receive) << tool.name << " rank " << rank << ": not everything is checked";
        receive[rank][shape.receive / 2] ^= 1;
        EXPECT_EQ(g.countWrong(receive[rank].data(), expected, 5), 1) << tool.name << " rank " << rank;
      }
    }
  }
}

TEST(Collectives, ReductionsExpectTheirPartOfTheResult) {
  const auto all = allReducePerf().expected(partOf(1, 3, -1, 100), false);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, Segment::Kind::reduced);
  EXPECT_EQ(all[0].count, 100u);
  EXPECT_EQ(all[0].index, 0u);

  const auto scattered = reduceScatterPerf().expected(partOf(2, 3, -1, 100), false);
  EXPECT_EQ(scattered[0].kind, Segment::Kind::reduced);
  EXPECT_EQ(scattered[0].index, 200u);  // its block of the whole result
  EXPECT_EQ(reduceScatterPerf().input(partOf(2, 3, -1, 100))[0].count, 300u);

  EXPECT_EQ(reducePerf().expected(partOf(1, 3, 1, 100), false)[0].kind, Segment::Kind::reduced);
  EXPECT_EQ(reducePerf().expected(partOf(0, 3, 1, 100), false)[0].kind, Segment::Kind::zero);
  const auto kept = reducePerf().expected(partOf(0, 3, 1, 100), true);
  EXPECT_EQ(kept[0].kind, Segment::Kind::contribution);  // in place, a rank that is not root keeps its input
  EXPECT_EQ(kept[0].source, 0);
}

TEST(Collectives, ShapesAreThoseOfNcclTests) {
  const auto same = [](const Shape& a, const Shape& b) {
    return a.send == b.send && a.receive == b.receive && a.param == b.param && a.sendInPlace == b.sendInPlace &&
           a.receiveInPlace == b.receiveInPlace;
  };
  // 1000 floats for 3 ranks: blocks of 333, cut to a multiple of 16 bytes = 332.
  for (Collective* whole : {&allReducePerf(), &broadcastPerf(), &reducePerf(), &sendrecvPerf()})
    EXPECT_TRUE(same(whole->shape(1000, 4, 3), {1000, 1000, 1000, 0, 0})) << whole->call();
  for (Collective* gathering : {&allGatherPerf(), &gatherPerf()})
    EXPECT_TRUE(same(gathering->shape(1000, 4, 3), {332, 996, 332, 332, 0})) << gathering->call();
  for (Collective* scattering : {&reduceScatterPerf(), &scatterPerf()})
    EXPECT_TRUE(same(scattering->shape(1000, 4, 3), {996, 332, 332, 0, 332})) << scattering->call();
  EXPECT_TRUE(same(alltoallPerf().shape(1000, 4, 3), {996, 996, 332, 0, 0}));
  EXPECT_EQ(allGatherPerf().shape(1000, 1, 3).param, 320u);
  EXPECT_EQ(allGatherPerf().shape(1000, 8, 3).param, 332u);
  EXPECT_EQ(allGatherPerf().shape(2, 4, 3).param, 0u);
}

TEST(Collectives, BandwidthsAreThoseOfNcclTests) {
  const struct {
    Collective& collective;
    double bytes, factor;  // for param = 100 floats on 4 ranks
  } cases[] = {
      {allReducePerf(), 400, 1.5},   {reduceScatterPerf(), 1600, 0.75},
      {allGatherPerf(), 1600, 0.75}, {alltoallPerf(), 1600, 0.75},
      {gatherPerf(), 1600, 0.75},    {scatterPerf(), 1600, 0.75},
      {broadcastPerf(), 400, 1},     {reducePerf(), 400, 1},
      {sendrecvPerf(), 400, 1},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.collective.bandwidthBytes(100, 4, 4), c.bytes) << c.collective.call();
    EXPECT_EQ(c.collective.busFactor(4), c.factor) << c.collective.call();
  }
}

class AlltoAllvTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"SPREAD", "MATRIX_FILE", "MATRIX_SCALE"}) {
      unsetenv((std::string("NCCL_TESTS_ALLTOALLV_") + name).c_str());
    }
    ASSERT_TRUE(alltoallvPerf().prepare(4, 0, 1 << 20).ok());
  }
};

TEST_F(AlltoAllvTest, RanksAgreeAboutEveryBlock) {
  Collective& collective = alltoallvPerf();
  for (const char* spread : {"0", "0.5", "1"}) {
    setenv("NCCL_TESTS_ALLTOALLV_SPREAD", spread, 1);
    for (int n : {1, 2, 5}) {
      ASSERT_TRUE(collective.prepare(n, 0, 1 << 20).ok());
      const Shape shape = collective.shape(4096, 1, n);
      ASSERT_GT(shape.send, 0u);
      EXPECT_LE(shape.send, 4096u);
      Generator g(kTypeInfos[ecclInt8], Op::sum, n);
      for (int rank = 0; rank < n; ++rank) {
        std::vector<char> receive(shape.receive);
        size_t covered = 0;
        for (const Segment& block : collective.expected(partOf(rank, n, -1, shape.param), false)) {
          covered += block.count;
          if (block.kind == Segment::Kind::zero) continue;
          // The block lies within what its source says it sends.
          const auto sent = collective.input(partOf(block.source, n, -1, shape.param));
          EXPECT_LE(block.index + block.count, sent[0].count);
        }
        EXPECT_EQ(covered, shape.receive) << spread << " " << n;
      }
    }
  }
}

TEST_F(AlltoAllvTest, BandwidthCountsTheBusiestRank) {
  setenv("NCCL_TESTS_ALLTOALLV_SPREAD", "0", 1);
  ASSERT_TRUE(alltoallvPerf().prepare(4, 0, 1 << 20).ok());
  EXPECT_EQ(alltoallvPerf().bandwidthBytes(100, 4, 4), 4 * 400);
  EXPECT_EQ(alltoallvPerf().busFactor(4), 0.75);
}

TEST_F(AlltoAllvTest, WrongSettingsAreErrors) {
  setenv("NCCL_TESTS_ALLTOALLV_SPREAD", "2", 1);
  EXPECT_EQ(alltoallvPerf().prepare(4, 8, 64).code(), Exit::usage);
  unsetenv("NCCL_TESTS_ALLTOALLV_SPREAD");
  setenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/does/not/exist", 1);
  EXPECT_EQ(alltoallvPerf().prepare(4, 64, 64).code(), Exit::usage);
}

}  // namespace
}  // namespace eccl::perf
