// A descriptor that one rank asks another for by name.
#include "transport/connect/lent_descriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <optional>

#include "transport/net/acceptor_fixture.h"

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;

constexpr DescriptorName kName = {"a name"}, kOther = {"another name"}, kShort = {"none left"};

/// A rank that has one descriptor to give, asked by a thread.
struct LentDescriptor : test::AcceptorTest {
  Fd file{memfd_create("lent", MFD_CLOEXEC)};
  Secret its = secret;                  // the one that the caller has
  bool silent = false;                  // callers are not answered
  int asked = 0, shortTimes = INT_MAX;  // for the name that is short at first
  std::optional<Result<Fd>> answer;

  void answerAll() {
    acceptor->progress();
    for (Incoming& caller : arrived) {
      if (silent) continue;
      EXPECT_EQ(caller.hello.purpose, Purpose::memory);
      EXPECT_EQ(caller.hello.rank, 5);
      const auto name = namedBy(caller);
      Result<Fd> answer = Status::error(Code::invalidArgument, "there is none");
      if (name == kName) answer = Fd(dup(file.get()));
      if (name == kShort && ++asked < shortTimes)
        answer = Status::error(Code::system, "it has no descriptors left");
      if (name == kShort && asked >= shortTimes) answer = Fd(dup(file.get()));
      answerWith(caller, std::move(answer));
    }
    if (!silent) arrived.clear();
  }
  const Result<Fd>& ask(const DescriptorName& name, Wait wait = Wait::within(20s)) {
    std::atomic<bool> over{false};
    std::thread caller([&] {
      answer = fetchDescriptor({acceptor->endpoint(), its, 42, 5, "rank 3"}, name, wait);
      over = true;
    });
    while (!over) {
      answerAll();
      std::this_thread::sleep_for(1ms);
    }
    caller.join();
    return *answer;
  }
};

TEST_F(LentDescriptor, IsTheSameFile) {
  open();
  ASSERT_EQ(write(file.get(), "what is in it", 13), 13);
  const Result<Fd>& got = ask(kName);
  ASSERT_TRUE(got.ok()) << got.status().message();
  char text[14] = "";
  EXPECT_EQ(pread(got->get(), text, 13, 0), 13);
  EXPECT_STREQ(text, "what is in it");
  EXPECT_NE(fcntl(got->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(LentDescriptor, OfAnotherNameIsRefused) {
  open();
  const Result<Fd>& got = ask(kOther);
  EXPECT_EQ(got.status().code(), Code::invalidArgument);
  EXPECT_EQ(got.status().message(), "rank 3 does not give its memory: there is none");
}

TEST_F(LentDescriptor, MayBeShort) {
  open();
  const Result<Fd>& got = ask(kShort);
  EXPECT_EQ(got.status().code(), Code::system);
  EXPECT_EQ(got.status().message(), "the memory of rank 3 cannot be had: it has no descriptors left");
  EXPECT_GT(asked, 10) << "it is asked again";
  shortTimes = asked + 3;
  EXPECT_TRUE(ask(kShort).ok()) << "and may have some by then";
}

TEST_F(LentDescriptor, IsNotForStrangers) {
  open();
  its = Secret::random(System::real());
  EXPECT_EQ(ask(kName, Wait::within(3s)).status().code(), Code::remote);
}

// It cannot be passed over the network, and nobody tries.
TEST_F(LentDescriptor, IsForCallersOnThisHostAlone) {
  options.unixListener = false;
  open();
  EXPECT_FALSE(ask(kName).ok());
  Incoming far;
  far.hello.setPayload(kName);
  EXPECT_FALSE(namedBy(far).has_value());
}

TEST_F(LentDescriptor, IsNotWaitedForWithoutEnd) {
  open();
  silent = true;
  const Result<Fd>& late = ask(kName, Wait::within(2s));
  EXPECT_EQ(late.status().code(), Code::timeout);
  EXPECT_EQ(late.status().message(), "rank 3 does not answer a call for its memory");
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    std::this_thread::sleep_for(100ms);
    abort = true;
  });
  EXPECT_EQ(ask(kName, Wait::within(20s, &abort)).status().code(), Code::internal);
  aborts.join();
}

}  // namespace
}  // namespace eccl::transport
