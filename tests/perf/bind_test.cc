// Where --procs puts its processes.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "tools/common/job.h"

namespace eccl::tools {
namespace {

/// The processors of process `proc` of `procs`, in a thread of its own.
cpu_set_t shareOf(int proc, int procs) {
  cpu_set_t share;
  std::thread([&] {
    bindToShare({proc, procs, 1, 1});
    sched_getaffinity(0, sizeof share, &share);
  }).join();
  return share;
}

TEST(BindToShare, GivesPartsThatDoNotMeet) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int processors = CPU_COUNT(&allowed);
  for (int procs = 1; procs <= processors; ++procs) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int proc = 0; proc < procs; ++proc) {
      const cpu_set_t share = shareOf(proc, procs);
      EXPECT_EQ(CPU_COUNT(&share), processors / procs);
      CPU_OR(&all, &all, &share);
    }
    EXPECT_EQ(CPU_COUNT(&all), processors / procs * procs);
    CPU_AND(&all, &all, &allowed);
    EXPECT_EQ(CPU_COUNT(&all), processors / procs * procs);
  }
}

TEST(BindToShare, BindsNobodyWhereProcessorsAreFewer) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const cpu_set_t share = shareOf(1, CPU_COUNT(&allowed) + 1);
  EXPECT_TRUE(CPU_EQUAL(&share, &allowed));
}

}  // namespace
}  // namespace eccl::tools
