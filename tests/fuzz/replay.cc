// Stands in for libFuzzer where there is none: plays every seed, then mutations of the seeds.
//
//   <name>_fuzz <mutations> <folder or file>...
//
// Not a search: it takes the same inputs every time, so that a failure repeats.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

void play(const Bytes& input) {
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

/// Flips, overwrites, removes, repeats or joins, once to eight times.
Bytes mutated(const std::vector<Bytes>& seeds, std::mt19937_64& random) {
  auto below = [&](size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random() % limit); };
  Bytes bytes = seeds[below(seeds.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) {
    const size_t at = below(bytes.size());
    const size_t length = std::min(below(16) + 1, bytes.size() - at);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        if (!bytes.empty()) bytes[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes.erase(from, from + static_cast<std::ptrdiff_t>(length));
        break;
      case 3: {
        const Bytes piece(from, from + static_cast<std::ptrdiff_t>(length));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1)), piece.begin(),
                     piece.end());
        break;
      }
      default: {
        const Bytes& other = seeds[below(seeds.size())];
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())),
                     other.end());
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Bytes> seeds;
  for (int i = 2; i < argc; ++i) {
    std::vector<std::filesystem::path> paths;
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) paths.push_back(entry.path());
    } else {
      paths.emplace_back(argv[i]);
    }
    std::sort(paths.begin(), paths.end());  // the folder's own order is not the same everywhere
    for (const auto& path : paths) {
      std::ifstream in(path, std::ios::binary);
      if (!in) {
        std::fprintf(stderr, "%s cannot be read\n", path.c_str());
        return 2;
      }
      seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s MUTATIONS FOLDER..., with at least one seed\n", argv[0]);
    return 2;
  }
  for (const Bytes& seed : seeds) play(seed);
  const long mutations = std::strtol(argv[1], nullptr, 10);
  std::mt19937_64 random(1);
  for (long i = 0; i < mutations; ++i) play(mutated(seeds, random));
  std::printf("%zu seeds and %ld mutations played\n", seeds.size(), mutations);
  return 0;
}
