// alltoall_perf: block d of rank s becomes block s of rank d.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class AlltoAll final : public Collective {
 public:
  const char* call() const override { return "ecclAlltoAll"; }
  InPlace inPlace() const override { return InPlace::staged; }
  bool blocks() const override { return true; }
  Shape shape(size_t count, size_t elementBytes, int n) const override {
    const size_t block = blockOf(count, elementBytes, n);
    return {block * static_cast<size_t>(n), block * static_cast<size_t>(n), block};
  }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::copied, 0, p.param * static_cast<size_t>(p.nranks), p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    std::vector<Segment> blocks;
    for (int rank = 0; rank < p.nranks; ++rank)
      blocks.push_back({Segment::Kind::copied, static_cast<size_t>(rank) * p.param, p.param, rank,
                        static_cast<size_t>(p.rank) * p.param});
    return blocks;
  }
  ecclResult_t run(const Call& c) const override {
    return ecclAlltoAll(c.send, c.receive, c.part.param, c.part.type->type, c.comm, c.stream);
  }
};
}  // namespace

Collective& alltoallPerf() {
  static AlltoAll collective;
  return collective;
}
}  // namespace eccl::perf
