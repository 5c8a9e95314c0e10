#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

namespace eccl::test {
namespace {

sigset_t maskOfThisThread() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(StartThread, BlocksAllSignalsInTheThreadAndNoneInTheCaller) {
  const sigset_t before = maskOfThisThread();
  sigset_t inside;
  sigemptyset(&inside);
  Result<std::thread> started = startThread("eccl-test", [&] { inside = maskOfThisThread(); });
  ASSERT_TRUE(started.ok()) << started.status().message();
  started->join();
  const sigset_t after = maskOfThisThread();
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << strsignal(signal);
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << strsignal(signal);
  }
}

TEST(StartThread, GivesTheThreadItsNameAsFarAsTheKernelKeepsIt) {
  for (auto [given, kept] :
       {std::pair("eccl-short", "eccl-short"), {"eccl-0123456789-more", "eccl-0123456789"}}) {
    char name[32] = "";
    Result<std::thread> started =
        startThread(given, [&] { pthread_getname_np(pthread_self(), name, sizeof name); });
    ASSERT_TRUE(started.ok()) << started.status().message();
    started->join();
    EXPECT_STREQ(name, kept);
  }
}

// What stands for the limit on threads, which binds no superuser: stacks that no address space has room for.
TEST(StartThread, SaysWhichLimitIsInTheWay) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 52), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const sigset_t before = maskOfThisThread();
  bool ran = false;
  Result<std::thread> started = startThread("eccl-test", [&] { ran = true; });
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  const sigset_t after = maskOfThisThread();
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
  ASSERT_FALSE(started.ok());
  EXPECT_FALSE(ran);
  EXPECT_EQ(started.status().code(), Code::system);
  for (const char* part : {"eccl-test", "ulimit -u", "pids.max", "Resource temporarily unavailable"})
    EXPECT_NE(started.status().message().find(part), std::string::npos) << started.status().message();
  EXPECT_EQ(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
}

}  // namespace
}  // namespace eccl::test
