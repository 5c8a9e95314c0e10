// More streams with staged calls than CUDA copies for side by side are told of.
#include <filesystem>
#include <fstream>
#include <list>

#include "cuda/processes.h"

namespace eccl {
namespace {

using test::asStream;
using test::DeviceBuffer;
using test::DeviceStream;

/// How often it is told, where six streams have calls that wait for the other rank.
int toldOf(const char* connections) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("eccl-copy-queues-" + std::to_string(getpid()));
  setenv("ECCL_DEBUG", "WARN", 1);
  setenv("ECCL_DEBUG_FILE", file.c_str(), 1);
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  unsetenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS");
  if (connections != nullptr) setenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS", connections, 1);
  test::inProcesses(2, [](test::Process& process) {
    test::Ranks ranks(&process, 2, "cuda");
    const auto call = [&](const DeviceBuffer<int>& data, const DeviceStream& stream) {
      EXPECT_EQ(ecclAllReduce(data.data(), data.data(), 100, ecclInt32, ecclSum, ranks.comm(process.number),
                              asStream(stream.native())),
                ecclSuccess);
    };
    ranks.each([&](int rank) {
      std::list<DeviceStream> streams(6);
      std::list<DeviceBuffer<int>> data;  // streams of their own have no order
      for (size_t i = 0; i < streams.size(); ++i) data.emplace_back(std::vector<int>(100, 1));
      auto its = data.begin();
      if (rank == 1) process.meet();  // rank 0 has made its calls
      for (const DeviceStream& stream : streams) {
        call(*its++, stream);
        if (rank == 1) stream.synchronize();  // one at a time are none too many
      }
      if (rank == 0) process.meet();
      for (const DeviceStream& stream : streams) stream.synchronize();
      process.meet();
    });
  });
  std::ifstream log(file);
  int lines = 0;
  for (std::string line; std::getline(log, line);)
    lines +=
        line.find("5 streams of this process have staged calls at once on CUDA device 0") != std::string::npos;
  std::filesystem::remove(file);
  for (const char* name : {"ECCL_DEBUG", "ECCL_DEBUG_FILE", "CUDA_DEVICE_MAX_COPY_CONNECTIONS"}) unsetenv(name);
  return lines;
}

TEST(CopyQueues, StreamsThatMayHoldEachOtherUpAreToldOfOnce) {
  EXPECT_EQ(toldOf(nullptr), 1);
  EXPECT_EQ(toldOf("8"), 0);
}

}  // namespace
}  // namespace eccl
