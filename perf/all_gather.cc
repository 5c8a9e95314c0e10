// all_gather_perf: every rank gives a block and gets the blocks of all. In place, its own block already lies
// where it belongs in the receive buffer.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class AllGather final : public Collective {
 public:
  const char* call() const override { return "ecclAllGather"; }
  bool blocks() const override { return true; }
  Shape shape(size_t count, size_t elementBytes, int n) const override {
    const size_t block = blockOf(count, elementBytes, n);
    return {block, block * static_cast<size_t>(n), block, block, 0};
  }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::copied, 0, p.param, p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    std::vector<Segment> blocks;
    for (int rank = 0; rank < p.nranks; ++rank)
      blocks.push_back({Segment::Kind::copied, static_cast<size_t>(rank) * p.param, p.param, rank});
    return blocks;
  }
  ecclResult_t run(const Call& c) const override {
    return ecclAllGather(c.send, c.receive, c.part.param, c.part.type->type, c.comm, c.stream);
  }
};
}  // namespace

Collective& allGatherPerf() {
  static AllGather collective;
  return collective;
}
}  // namespace eccl::perf
