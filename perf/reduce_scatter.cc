// reduce_scatter_perf: every rank gives a whole buffer and gets its block of the reduction. In place, the block
// replaces the rank's own block of the input; the rest of the input is left alone.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class ReduceScatter final : public Collective {
 public:
  const char* call() const override { return "ecclReduceScatter"; }
  bool reduces() const override { return true; }
  bool blocks() const override { return true; }
  Shape shape(size_t count, size_t elementBytes, int n) const override {
    const size_t block = blockOf(count, elementBytes, n);
    return {block * static_cast<size_t>(n), block, block, 0, block};
  }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::contribution, 0, p.param * static_cast<size_t>(p.nranks), p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    return {{Segment::Kind::reduced, 0, p.param, 0, static_cast<size_t>(p.rank) * p.param}};
  }
  ecclResult_t run(const Call& c) const override {
    return ecclReduceScatter(c.send, c.receive, c.part.param, c.part.type->type, c.op, c.comm, c.stream);
  }
};
}  // namespace

Collective& reduceScatterPerf() {
  static ReduceScatter collective;
  return collective;
}
}  // namespace eccl::perf
