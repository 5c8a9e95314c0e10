// The same as all_reduce.c, with eccl.hpp: failures are exceptions, and everything cleans up after itself.
#include <eccl/eccl.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

int fromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set; use examples/launch");
  return std::stoi(text);
}

void run() {
  constexpr int kCount = 1 << 20;
  const int rank = fromEnvironment("RANK"), size = fromEnvironment("WORLD_SIZE");
  eccl::Communicator communicator(size, eccl::uniqueId(), rank);  // the id is made from ECCL_COMM_ID
  eccl::MemBuffer<float> data(kCount);
  for (int i = 0; i < kCount; ++i) data[i] = static_cast<float>(rank + i % 7);

  communicator.allReduce(data.data(), data.data(), data.size());

  for (int i = 0; i < kCount; ++i) {  // 0 + 1 + ... + size-1, and size times i % 7
    if (data[i] != static_cast<float>(size * (size - 1) / 2 + size * (i % 7))) {
      throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(data[i]));
    }
  }
  std::printf("rank %d of %d: %d sums are right\n", rank, size, kCount);
}

}  // namespace

int main() {
  try {
    run();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
