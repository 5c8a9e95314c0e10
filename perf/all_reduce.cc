// all_reduce_perf: every rank gives a whole buffer and gets the reduction of all of them.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class AllReduce final : public Collective {
 public:
  const char* call() const override { return "ecclAllReduce"; }
  bool reduces() const override { return true; }
  Shape shape(size_t count, size_t, int) const override { return {count, count, count}; }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::contribution, 0, p.param, p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    return {{Segment::Kind::reduced, 0, p.param}};
  }
  ecclResult_t run(const Call& c) const override {
    return ecclAllReduce(c.send, c.receive, c.part.param, c.part.type->type, c.op, c.comm, c.stream);
  }
  // The least that any algorithm moves: each byte leaves a rank reduced and comes back whole.
  double busFactor(int n) const override { return 2.0 * (n - 1) / n; }
};
}  // namespace

Collective& allReducePerf() {
  static AllReduce collective;
  return collective;
}
}  // namespace eccl::perf
