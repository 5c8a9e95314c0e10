// Over which ports a rank sends.
#include "transport/verbs/rails.h"

#include <gtest/gtest.h>

namespace eccl::transport::verbs {
namespace {

Rail rail(const char* device, int port = 1) {
  Rail made;
  made.port.device = device;
  made.port.number = static_cast<uint8_t>(port);
  return made;
}

TEST(Rails, WhatIsNearComesFirstAndWhatIsNotKnownLast) {
  Rails rails;
  rails.add(rail("mlx5_0"));
  rails.add(rail("mlx5_1", 1));
  rails.add(rail("mlx5_1", 2));
  rails.add(rail("rxe0"));
  rails.add(rail("mlx5_2"));
  const std::vector<std::string> near = {"eth0", "mlx5_1:2", "mlx5_2", "mlx5_1:1", "mlx5_0"};
  rails.order(near);
  EXPECT_EQ(rails.text(), "mlx5_1:2, mlx5_2:1, mlx5_1:1, mlx5_0:1, rxe0:1");
  // Channels go round; numbers are those of the host, whoever uses them.
  EXPECT_EQ(rails.numberFor(0), 2u);
  EXPECT_EQ(rails.numberFor(1), 4u);
  EXPECT_EQ(rails.numberFor(6), 4u);
  EXPECT_EQ(rails[2].port.text(), "mlx5_1:2");
  EXPECT_EQ(rails[UINT32_MAX].port.text(), "mlx5_0:1");
}

TEST(Rails, WhereNothingIsKnownTheyKeepTheirOrder) {
  Rails rails;
  rails.add(rail("b"));
  rails.add(rail("a"));
  rails.order({});
  EXPECT_EQ(rails.text(), "b:1, a:1");
}

}  // namespace
}  // namespace eccl::transport::verbs
