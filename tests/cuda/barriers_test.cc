// Each barrier of the lane kernels is needed, and ThreadSanitizer sees it where one is missing: the emulated
// device leaves one out, in a process of its own.
#include <fstream>

#include "cuda/ranks.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;

/// As "FILE:LINE".
std::vector<std::string> barriers() {
  std::vector<std::string> found;
  for (const char* file : {"run_block.h", "block_carry.h", "block_messages.h", "block_state.h", "combine.h"}) {
    std::ifstream source(std::string(ECCL_SOURCE_DIR "/src/runtime/cuda/lanes/") + file);
    std::string text;
    for (int line = 1; std::getline(source, text); ++line)
      if (text.find(".sync();") != std::string::npos) found.push_back(file + (":" + std::to_string(line)));
  }
  return found;
}

/// Calls whose messages go by lines, by slots, and directly; in one direction and in both; of one piece and of
/// several.
void makeCalls(int ranks) {
  Ranks device(ranks, "lanes");
  device.each([&](int rank) {
    const DeviceStream stream;
    for (const size_t count : {size_t{1}, size_t{40}, size_t{2000}, size_t{40000}}) {
      const DeviceBuffer<int> data(std::vector<int>(count, 1)), more(std::vector<int>(4 * count));
      for (int call = 0; call < 3; ++call) {
        ecclAllReduce(data.data(), data.data(), count, ecclInt32, ecclSum, device.comm(rank),
                      asStream(stream.native()));
        ecclBroadcast(data.data(), data.data(), count, ecclInt32, 1, device.comm(rank),
                      asStream(stream.native()));
        ecclAllGather(data.data(), more.data(), count, ecclInt32, device.comm(rank), asStream(stream.native()));
      }
      stream.synchronize();
      EXPECT_EQ(data.read(), std::vector<int>(count, ranks * ranks * ranks));
    }
  });
}

/// Of one element most parts of a ring are empty, so most moves are passed over. `recursive` has moves of
/// several pieces.
void makeAllCalls() {
  makeCalls(2);
  setenv("ECCL_ALGO", "AllReduce:ring", 1);
  makeCalls(3);
  setenv("ECCL_ALGO", "AllReduce:recursive,AllGather:recursive", 1);
  makeCalls(4);
  unsetenv("ECCL_ALGO");
}

/// ThreadSanitizer remembers a few accesses to a word alone, so it may miss some race in some run.
constexpr int kAttempts = 8;

/// Whether that is noticed: a report, a wrong result, or a call that does not end.
bool isNoticed(const char* without) {
  const auto outcomes = test::runProcesses(
      1,
      [&](int, test::Board&, std::string&) {
        if (without != nullptr) setenv("EMULATED_CUDA_WITHOUT_BARRIER", without, 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        Cuda::get().use(0);
        makeAllCalls();
        return ::testing::Test::HasFailure() ? 1 : 0;
      },
      60);
  return !outcomes[0].ended || outcomes[0].code != 0;
}

TEST(LaneBarriers, EachIsMissedWhereItIsLeftOut) {
  if (!kThreadSanitizer || std::getenv("ECCL_TESTS_BARRIERS") == nullptr)
    GTEST_SKIP()
        << "takes minutes, in a build with ThreadSanitizer where ECCL_TESTS_BARRIERS=1 is in the environment";
  ASSERT_FALSE(isNoticed(nullptr));
  const std::vector<std::string> all = barriers();
  EXPECT_GE(all.size(), 10U);
  for (const std::string& each : all) {
    bool noticed = false;
    for (int attempt = 0; attempt < kAttempts && !noticed; ++attempt) noticed = isNoticed(each.c_str());
    EXPECT_TRUE(noticed) << each << " is not needed";
  }
}

}  // namespace
}  // namespace eccl
