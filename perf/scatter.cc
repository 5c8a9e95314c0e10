// scatter_perf: every rank gets its block of the root's buffer.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class Scatter final : public Collective {
 public:
  const char* call() const override { return "ecclScatter"; }
  bool rooted() const override { return true; }
  bool blocks() const override { return true; }
  Shape shape(size_t count, size_t elementBytes, int n) const override {
    const size_t block = blockOf(count, elementBytes, n);
    return {block * static_cast<size_t>(n), block, block, 0, block};
  }
  std::vector<Segment> input(const Part& p) const override {
    if (p.rank != p.root) return {};
    return {{Segment::Kind::copied, 0, p.param * static_cast<size_t>(p.nranks), p.root}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    return {{Segment::Kind::copied, 0, p.param, p.root, static_cast<size_t>(p.rank) * p.param}};
  }
  ecclResult_t run(const Call& c) const override {
    return ecclScatter(c.send, c.receive, c.part.param, c.part.type->type, c.part.root, c.comm, c.stream);
  }
};
}  // namespace

Collective& scatterPerf() {
  static Scatter collective;
  return collective;
}
}  // namespace eccl::perf
