// Each barrier of the lane kernels is needed, and ThreadSanitizer sees it where one is missing: the emulated
// device leaves one out, in a process of its own.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cctype>
#include <fstream>
#include <thread>

#include "cuda/ranks.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace {

enum Outcome { kWell, kWrong, kReported, kHangs };
bool reportEnds = false;

}  // namespace

#ifdef __SANITIZE_THREAD__
extern "C" __attribute__((visibility("default"))) void __tsan_on_report(void*) {
  if (reportEnds) _exit(kReported);
}
#endif

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;

/// As "FILE:LINE". Not those of which the source says that no test sees them.
std::vector<std::string> barriers() {
  std::vector<std::string> found;
  for (const char* file : {"run_block.h", "short_block.h", "block_carry.h", "block_lines.h", "block_messages.h",
                           "block_state.h", "combine.h"}) {
    std::ifstream source(std::string(ECCL_SOURCE_DIR "/src/runtime/cuda/lanes/") + file);
    std::string text;
    for (int line = 1; std::getline(source, text); ++line)
      if (text.find(".sync();") != std::string::npos && text.find("no test sees") == std::string::npos)
        found.push_back(file + (":" + std::to_string(line)));
  }
  return found;
}

std::atomic<int> callsEnded{0};

/// Calls whose messages go by lines, by slots, and directly; in one direction and in both; of one piece and of
/// several; with a scalar on the device and without.
void makeCalls(int ranks, size_t longest = 40000) {
  Ranks device(ranks, "lanes");
  std::barrier all(ranks);
  device.each([&](int rank) {
    const DeviceStream stream;
    const std::vector<int> ones(longest, 1);
    const DeviceBuffer<int> data(ones), more(std::vector<int>(4 * ones.size())), one(std::vector<int>{1});
    ecclRedOp_t timesOne;
    EXPECT_EQ(ecclRedOpCreatePreMulSum(&timesOne, one.data(), ecclInt32, ecclScalarDevice, device.comm(rank)),
              ecclSuccess);
    for (const size_t count : {size_t{1}, size_t{40}, size_t{2000}, longest}) {
      data.write(ones);
      for (int call = 0; call < 3; ++call) {
        ecclAllReduce(data.data(), data.data(), count, ecclInt32, call == 0 ? timesOne : ecclSum,
                      device.comm(rank), asStream(stream.native()));
        ecclBroadcast(data.data(), data.data(), count, ecclInt32, 1, device.comm(rank),
                      asStream(stream.native()));
        ecclAllGather(data.data(), more.data(), count, ecclInt32, device.comm(rank), asStream(stream.native()));
      }
      stream.synchronize();
      auto results = data.read();
      results.resize(count);
      EXPECT_EQ(results, std::vector<int>(count, ranks * ranks * ranks));
      ++callsEnded;
    }
    all.arrive_and_wait();  // to free memory waits for all streams, and holds up what others ask of the driver
  });
}

/// Of one element most parts of a ring are empty, so most moves are passed over. `recursive` has moves of
/// several pieces.
void makeAllCalls() {
  makeCalls(2);
  setenv("ECCL_ALGO", "AllReduce:ring", 1);
  makeCalls(3, 400000);
  setenv("ECCL_ALGO", "AllReduce:recursive,AllGather:recursive", 1);
  makeCalls(4);
  unsetenv("ECCL_ALGO");
}

/// Ends the process where no call ends for so long.
void watch() {
  std::thread([] {
    for (int before = -1; before != callsEnded; std::this_thread::sleep_for(std::chrono::seconds(15)))
      before = callsEnded;
    _exit(kHangs);
  }).detach();
}

/// What comes of the calls, in a process of their own, without that barrier: kWell, or how it is noticed. A
/// report of ThreadSanitizer ends the process.
int run(const char* without) {
  const auto outcomes = test::runProcesses(
      1,
      [&](int, test::Board&, std::string&) {
        if (without != nullptr) setenv("EMULATED_CUDA_WITHOUT_BARRIER", without, 1);
        setenv("ECCL_DEBUG", "NONE", 1);
        reportEnds = true;
        if (without != nullptr) watch();
        Cuda::get().use(0);
        makeAllCalls();
        return ::testing::Test::HasFailure() ? kWrong : kWell;
      },
      200);
  return outcomes[0].code;
}

/// ThreadSanitizer remembers a few accesses to a word alone, so it may miss some race in some run.
constexpr int kAttempts = 8;

class LaneBarriers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!kThreadSanitizer) GTEST_SKIP() << "needs ThreadSanitizer";
  }
};

TEST_P(LaneBarriers, IsNeeded) {
  int outcome = kWell;
  for (int attempt = 0; attempt < kAttempts && outcome == kWell; ++attempt) outcome = run(GetParam().c_str());
  EXPECT_NE(outcome, kWell) << GetParam() << " can be left out, and nobody notices";
}

INSTANTIATE_TEST_SUITE_P(, LaneBarriers, ::testing::ValuesIn(barriers()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(AllLaneBarriers, AreEnough) {
  EXPECT_GE(barriers().size(), 8U);
  EXPECT_EQ(run(nullptr), kWell);
}

}  // namespace
}  // namespace eccl
