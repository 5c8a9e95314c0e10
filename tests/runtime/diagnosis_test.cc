// What a rank says of a call that does not go on, when there is nobody to ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/communicator/diagnosis.h"
#include "runtime/executor/host_executor.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

class Handler final : public DiagnosisHandler {
 public:
  void fault(const Status& why, bool) override { faults.push_back(why.message()); }
  void faultOfOthers(const Status& why) override { faults.push_back(why.message()); }
  void sendComparison(int peer, std::string_view) override { asked.push_back(peer); }
  bool makesNoMoreCalls() const override { return false; }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  std::vector<std::string> faults;
  std::vector<int> asked;
};

std::string told(Diagnosis& diagnosis, Run& run, const std::vector<int>& peers) {
  ::testing::internal::CaptureStderr();
  diagnosis.onStall(run, std::chrono::seconds(7), peers);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Diagnosis, AStalledCallSaysForWhomItWaits) {
  Handler handler;
  Diagnosis diagnosis(handler, System::real());
  diagnosis.begin(1, 4);
  HostExecutor host;
  const auto run = std::make_shared<runtime::Run>();
  run->executor = &host;
  EXPECT_THAT(told(diagnosis, *run, {0, 3}), HasSubstr("rank 1 has waited 7 s in "));
  EXPECT_THAT(told(diagnosis, *run, {0, 3}), HasSubstr("for ranks 0, 3\n"));
  EXPECT_THAT(told(diagnosis, *run, {}), HasSubstr("for its own work in host memory\n"));
  EXPECT_TRUE(handler.faults.empty());
}

}  // namespace
}  // namespace eccl::runtime
