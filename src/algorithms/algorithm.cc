#include "algorithms/algorithm.h"

#include "algorithms/builders.h"

namespace eccl {
namespace {

constexpr Algorithm kAlgorithms[] = {
    {"ring", Collective::allReduce, allReduceRing},
};

}  // namespace

std::span<const Algorithm> algorithms() {
  return kAlgorithms;
}

const Algorithm* findAlgorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && name == algorithm.name) return &algorithm;
  }
  return nullptr;
}

std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape, int channels) {
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.ranks; ++rank) programs.push_back(algorithm.build(shape, rank, channels));
  return programs;
}

}  // namespace eccl
