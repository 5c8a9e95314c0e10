// What a rank says of a call that does not go on, when there is nobody to ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/communicator/diagnosis.h"
#include "runtime/executor/host_executor.h"
#include "virtual/virtual_system.h"

namespace eccl::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Handler final : public DiagnosisHandler {
 public:
  void fault(const Status& why, bool) override { faults.push_back(why.message()); }
  void faultOfOthers(const Status& why) override { faults.push_back(why.message()); }
  void sendComparison(int peer, std::string_view) override { asked.push_back(peer); }
  void onAwaited(int, const CallRecord&) override {}
  bool isBehind(const CallRecord&) const override { return false; }
  bool makesNoMoreCalls() const override { return false; }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  std::vector<std::string> faults;
  std::vector<int> asked;
};

std::string told(Diagnosis& diagnosis, Run& run, const std::vector<int>& peers) {
  ::testing::internal::CaptureStderr();
  diagnosis.onStall(run, std::chrono::seconds(7), {peers, {}});
  return ::testing::internal::GetCapturedStderr();
}

TEST(Diagnosis, AStalledCallSaysForWhomItWaits) {
  Handler handler;
  Diagnosis diagnosis(handler, System::real());
  diagnosis.begin(1, 4, 5s);
  HostExecutor host;
  const auto run = std::make_shared<runtime::Run>();
  run->executor = &host;
  EXPECT_THAT(told(diagnosis, *run, {0, 3}), HasSubstr("rank 1 has waited 7 s in "));
  EXPECT_THAT(told(diagnosis, *run, {0, 3}), HasSubstr("for ranks 0, 3\n"));
  EXPECT_THAT(told(diagnosis, *run, {}), HasSubstr("for its own work in host memory\n"));
  EXPECT_TRUE(handler.faults.empty());
}

/// Rank 12 of 80. In the control tree, of eight children a rank, it reaches 13 by 1, and 20 by 1, 0 and 2.
class BrokenConnection : public ::testing::Test {
 protected:
  BrokenConnection() { diagnosis_.begin(12, 80, 5s); }
  /// What is told after `time`.
  const std::vector<std::string>& after(Duration time) {
    world_.pass(time);
    diagnosis_.tick();
    return handler_.faults;
  }
  test::World world_{1};
  std::vector<test::VirtualSystem*> network_;
  test::VirtualSystem system_{world_, network_};
  Handler handler_;
  Diagnosis diagnosis_{handler_, system_};
};

TEST_F(BrokenConnection, OfACallBecomesTheFaultSoon) {
  runtime::Run run;
  diagnosis_.onPeerFailed(run, 20, {"it is gone"});
  EXPECT_THAT(after(299ms), IsEmpty());
  EXPECT_THAT(after(1ms), ElementsAre(HasSubstr("rank 20 failed during")));
}

// The peer has 300 ms for the cause as well, and its word of it takes time to get here.
TEST_F(BrokenConnection, ThatThePeerEndedBecomesTheFaultLater) {
  runtime::Run run;
  diagnosis_.onPeerFailed(run, 20, transport::Breakage::ofSocket("receiving from it", 0));
  EXPECT_THAT(after(599ms), IsEmpty());
  EXPECT_THAT(after(1ms), ElementsAre(HasSubstr("the peer closed the connection")));
}

TEST_F(BrokenConnection, IsNotHeldBackByOneThatThePeerEnded) {
  runtime::Run run;
  diagnosis_.onPeerFailed(run, 20, transport::Breakage::ofSocket("sending to it", EPIPE));
  EXPECT_THAT(after(100ms), IsEmpty());
  diagnosis_.onPeerFailed(run, 13, {"a cable is loose"});
  diagnosis_.onPeerFailed(run, 14, {"another one, too"});
  EXPECT_THAT(after(299ms), IsEmpty());
  EXPECT_THAT(after(1ms), ElementsAre(HasSubstr("rank 13 failed during")));
  EXPECT_THAT(after(1s), SizeIs(1));
}

TEST_F(BrokenConnection, ByWhichMessagesAreLostBecomesTheFaultLater) {
  diagnosis_.onMessagesLost(Status::error(Code::remote, "the peer refused"));
  EXPECT_THAT(after(599ms), IsEmpty());
  EXPECT_THAT(after(1ms), ElementsAre(HasSubstr("rank 12 cannot go on: the peer refused")));
}

TEST_F(BrokenConnection, OfAnIdlePeerIsNoNewsIfItsWordOfLeavingIsLate) {
  diagnosis_.onPeerGone(20, "it is gone");
  EXPECT_THAT(after(4999ms), IsEmpty());
  diagnosis_.onLeft(20);
  EXPECT_THAT(after(1min), IsEmpty());
}

TEST_F(BrokenConnection, OfAnIdlePeerBecomesTheFaultLater) {
  diagnosis_.onPeerGone(20, "it is gone");
  diagnosis_.onPeerGone(13, "it is gone, too");
  diagnosis_.onLeft(20);
  diagnosis_.onLeft(3);
  EXPECT_THAT(after(5s), ElementsAre(HasSubstr("rank 13 failed: it is gone, too (seen by rank 12)")));
}

TEST_F(BrokenConnection, OfACallDoesNotWaitForTheGraceOfAnIdlePeer) {
  runtime::Run run;
  diagnosis_.onPeerGone(20, "it is gone");
  diagnosis_.onPeerFailed(run, 20, {"it is gone"});
  EXPECT_THAT(after(299ms), IsEmpty());
  EXPECT_THAT(after(1ms), ElementsAre(HasSubstr("rank 20 failed during")));
}

TEST_F(BrokenConnection, OfAnIdlePeerIsNoNewsIfItsWordOfLeavingCannotArrive) {
  diagnosis_.onPeerGone(20, "it is gone");
  diagnosis_.onLeft(2);  // it would have passed on what 20 says
  EXPECT_THAT(after(5s), IsEmpty());
}

}  // namespace
}  // namespace eccl::runtime
