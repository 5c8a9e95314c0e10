// What a peer may say while a connection by verbs is set up: each lie is refused, in a sentence.
#include "transport/verbs/verbs_setup.h"

#include "verbs/verbs_meeting.h"

namespace eccl::transport::verbs {
namespace {

using ::testing::HasSubstr;

// Where things lie: the version first, then the rail (or which GID), the queue pairs, and the GIDs (or where
// slots are).
constexpr size_t kCount = 8, kQueues = kCount + 8,
                 kLanding = kQueues + QueueAddresses::kMost * sizeof(QueueAddress), kGids = kLanding;

/// Turns the bits of `by` in one byte.
std::string at(size_t place, char by) {
  return std::string(place, '\0') + by;
}

TEST(VerbsSetup, HonestEndsAgree) {
  VerbsMeeting meeting;
  EXPECT_TRUE(meeting.offer().ok());
  EXPECT_TRUE(meeting.answer().ok());
  EXPECT_TRUE(meeting.confirm().ok());
}

TEST(VerbsSetup, AnyRailMayBeAskedFor) {
  VerbsMeeting meeting;
  EXPECT_TRUE(meeting.offer(at(4, 77)).ok());
}

TEST(VerbsSetup, OffersThatCannotBeAreRefused) {
  const auto refused = [](const std::string& by) { return VerbsMeeting().offer(by).message(); };
  EXPECT_THAT(refused(at(0, 1)), HasSubstr("of another version"));
  EXPECT_THAT(refused(std::string(700, '\0')), HasSubstr("of another version"));
  EXPECT_THAT(refused(at(kCount, 1)), HasSubstr("the offer is of 0 queue pairs"));
  EXPECT_THAT(refused(at(kCount, 16)), HasSubstr("the offer is of 17 queue pairs"));
  EXPECT_THAT(refused(at(kGids, 1)), HasSubstr("the offer is of 0 GIDs"));
  EXPECT_THAT(refused(at(kGids, 5)), HasSubstr("the offer is of 4 GIDs"));
  EXPECT_THAT(refused(at(kQueues + offsetof(QueueAddress, ethernet), 1)), HasSubstr("the peer's port is not"));
}

TEST(VerbsSetup, AnswersThatCannotBeAreRefused) {
  const auto refused = [](const std::string& by) {
    VerbsMeeting meeting;
    EXPECT_TRUE(meeting.offer().ok());
    return meeting.answer(by).message();
  };
  EXPECT_THAT(refused(at(0, 1)), HasSubstr("of another version"));
  EXPECT_THAT(refused(at(kCount, 1)), HasSubstr("the peer has 0 queue pairs for this side's 1"));
  EXPECT_THAT(refused(at(4, 1)), HasSubstr("the answer is to GID number 1 of 1"));
  EXPECT_THAT(refused(at(kCount, 3)), HasSubstr("the peer has 2 queue pairs for this side's 1"));
  EXPECT_THAT(refused(at(kLanding + offsetof(LandingPlace, places), 1)), HasSubstr("slots of another size"));
  EXPECT_THAT(refused(at(kLanding + offsetof(LandingPlace, slotBytes), 1)), HasSubstr("slots of another size"));
}

// Nobody is told of it yet.
TEST(VerbsSetup, ADeviceThatFailsMeanwhileIsNotUsed) {
  VerbsMeeting meeting;
  ASSERT_TRUE(meeting.offer().ok());
  ASSERT_EQ(verbsEmulationFailCall("ibv_poll_cq", 1, EIO), 0);
  meeting.look();
  EXPECT_THAT(meeting.answer().message(),
              HasSubstr("the RDMA device emu0 of rank 0 (test): its completion queue cannot be read"));
  EXPECT_FALSE(meeting.offer().ok()) << "nor is it for connections that begin later";
}

TEST(VerbsSetup, AConfirmationIsOfThisVersion) {
  VerbsMeeting meeting;
  ASSERT_TRUE(meeting.offer().ok() && meeting.answer().ok());
  EXPECT_THAT(meeting.confirm(at(0, 2)).message(), HasSubstr("of another version"));
  EXPECT_TRUE(meeting.confirm().ok()) << "the same end hears an honest one";
}

}  // namespace
}  // namespace eccl::transport::verbs
