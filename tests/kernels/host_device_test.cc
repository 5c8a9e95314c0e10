#include "kernels/host_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/sanitizers.h"

namespace eccl::kernels {
namespace {

class HostDeviceTest : public ::testing::Test {
 protected:
  HostDeviceTest() {
    task_.type = DataType::int32;
    task_.sources = 2;
    task_.destinations = 1;
    task_.count = inputs_[0].size();
    for (int s = 0; s < 2; ++s) task_.source[s] = inputs_[s].data();
    task_.destination[0] = output_.data();
  }

  HostDevice device_;
  std::vector<int32_t> inputs_[2] = {{1, 2, 3}, {10, 20, 30}}, output_ = {0, 0, 0};
  ReduceTask task_;
};

TEST_F(HostDeviceTest, CompletesInSubmit) {
  Device& device = device_;
  EXPECT_EQ(MemoryKind::host, device.memoryKind());
  Result<Ticket> ticket = device.submit(task_);
  ASSERT_TRUE(ticket.ok()) << ticket.status().message();
  EXPECT_EQ((std::vector<int32_t>{11, 22, 33}), output_);
  Result<bool> done = device.test(*ticket);
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(*done);
}

TEST_F(HostDeviceTest, AllocatesAlignedMemory) {
  for (size_t bytes : {1, 63, 4096, 1000001}) {
    Result<void*> memory = device_.allocate(bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(0U, reinterpret_cast<uintptr_t>(*memory) % 64);
    static_cast<char*>(*memory)[bytes - 1] = 1;
    device_.release(*memory);
  }
  device_.release(nullptr);
}

TEST_F(HostDeviceTest, ReportsExhaustedMemory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer ends the process when an allocation is too large";
  Result<void*> memory = device_.allocate(SIZE_MAX / 2);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(Code::system, memory.status().code());
  EXPECT_NE(std::string::npos, memory.status().message().find("could not allocate"));
}

TEST_F(HostDeviceTest, RefusesMalformedTasks) {
  const auto refusal = [&](auto spoil) {
    ReduceTask task = task_;
    spoil(task);
    Result<Ticket> ticket = device_.submit(task);
    return ticket.ok() ? std::string("accepted") : ticket.status().message();
  };
  const auto expect = [](const char* reason, const std::string& message) {
    EXPECT_NE(std::string::npos, message.find(reason)) << message;
  };
  expect("number of sources", refusal([](ReduceTask& task) { task.sources = 0; }));
  expect("number of sources", refusal([](ReduceTask& task) { task.sources = 9; }));
  expect("number of destinations", refusal([](ReduceTask& task) { task.destinations = 0; }));
  expect("number of destinations", refusal([](ReduceTask& task) { task.destinations = 9; }));
  expect("data type", refusal([](ReduceTask& task) { task.type = static_cast<DataType>(12); }));
  expect("operation", refusal([](ReduceTask& task) { task.op = RedOp::avg; }));
  expect("divisor", refusal([](ReduceTask& task) { task.post = Scale::divideBy(0); }));
  expect("divisor", refusal([](ReduceTask& task) { task.pre[1] = Scale::divideBy(-1); }));
  EXPECT_EQ((std::vector<int32_t>{0, 0, 0}), output_);
}

}  // namespace
}  // namespace eccl::kernels
