#include "transport/verbs/hca_filter.h"

#include <gtest/gtest.h>

namespace eccl::transport::verbs {
namespace {

std::string allowedBy(const char* text) {
  const HcaFilter filter(text);
  std::string names;
  for (const char* device : {"mlx5_0", "mlx5_1", "mlx5_10"}) {
    for (int port : {1, 2})
      if (filter.allows(device, port)) names += std::string(device + 5) + ":" + std::to_string(port) + " ";
  }
  return names;
}

TEST(HcaFilter, TakesTheWholeSyntaxOfNccl) {
  const std::string all = "0:1 0:2 1:1 1:2 10:1 10:2 ";
  EXPECT_EQ(allowedBy(""), all);
  EXPECT_EQ(allowedBy("mlx5"), all);
  EXPECT_EQ(allowedBy("mlx5_1"), "1:1 1:2 10:1 10:2 ");  // prefixes
  EXPECT_EQ(allowedBy("=mlx5_1"), "1:1 1:2 ");
  EXPECT_EQ(allowedBy("=mlx5_1:2"), "1:2 ");
  EXPECT_EQ(allowedBy("mlx5_0:1,mlx5_1:2"), "0:1 1:2 10:2 ");
  EXPECT_EQ(allowedBy("^mlx5_1"), "0:1 0:2 ");
  EXPECT_EQ(allowedBy("^=mlx5_1"), "0:1 0:2 10:1 10:2 ");
  EXPECT_EQ(allowedBy("^=mlx5_0:1,mlx5_10"), "0:2 1:1 1:2 ");
  EXPECT_EQ(allowedBy("mthca0"), "");
}

TEST(HcaFilter, SaysWhatIsNoPort) {
  for (const char* text : {"mlx5_0:", "mlx5_0:one", "mlx5_0:1x", "mlx5_0:-1", "mlx5_0:99999999999"}) {
    const HcaFilter filter(text);
    EXPECT_EQ(filter.senseless(), std::vector<std::string>{text});
    EXPECT_FALSE(filter.allows("mlx5_0", 1)) << text;
  }
  EXPECT_EQ(allowedBy("mlx5_0:one,=mlx5_1:1"), "");  // '=' counts at the beginning only
}

}  // namespace
}  // namespace eccl::transport::verbs
