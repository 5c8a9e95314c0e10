// reduce_perf: the root gets the reduction of all buffers.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class Reduce final : public Collective {
 public:
  const char* call() const override { return "ecclReduce"; }
  bool reduces() const override { return true; }
  bool rooted() const override { return true; }
  Shape shape(size_t count, size_t, int) const override { return {count, count, count}; }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::contribution, 0, p.param, p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool inPlace) const override {
    if (p.rank == p.root) return {{Segment::Kind::reduced, 0, p.param}};
    // Elsewhere the receive buffer must not have been touched.
    if (inPlace) return input(p);
    return {{Segment::Kind::zero, 0, p.param}};
  }
  ecclResult_t run(const Call& c) const override {
    return ecclReduce(c.send, c.receive, c.part.param, c.part.type->type, c.op, c.part.root, c.comm, c.stream);
  }
};
}  // namespace

Collective& reducePerf() {
  static Reduce collective;
  return collective;
}
}  // namespace eccl::perf
