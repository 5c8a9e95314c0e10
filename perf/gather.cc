// gather_perf: the root gets the blocks of all ranks.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class Gather final : public Collective {
 public:
  const char* call() const override { return "ecclGather"; }
  bool rooted() const override { return true; }
  bool blocks() const override { return true; }
  Shape shape(size_t count, size_t elementBytes, int n) const override {
    const size_t block = blockOf(count, elementBytes, n);
    return {block, block * static_cast<size_t>(n), block, block, 0};
  }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::copied, 0, p.param, p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool inPlace) const override {
    std::vector<Segment> blocks;
    for (int rank = 0; rank < p.nranks; ++rank) {
      // Elsewhere than on the root the buffer must not have been touched: only in-place input is in it.
      const bool filled = p.rank == p.root || (inPlace && rank == p.rank);
      blocks.push_back({filled ? Segment::Kind::copied : Segment::Kind::zero,
                        static_cast<size_t>(rank) * p.param, p.param, rank});
    }
    return blocks;
  }
  ecclResult_t run(const Call& c) const override {
    return ecclGather(c.send, c.receive, c.part.param, c.part.type->type, c.part.root, c.comm, c.stream);
  }
};
}  // namespace

Collective& gatherPerf() {
  static Gather collective;
  return collective;
}
}  // namespace eccl::perf
