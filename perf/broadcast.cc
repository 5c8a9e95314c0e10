// broadcast_perf: every rank gets the root's buffer. Elsewhere the send buffer is not read, so it stays
// unfilled: a tool that read it would find an older repetition's data.
#include "common/collective.h"

namespace eccl::perf {
namespace {
class Broadcast final : public Collective {
 public:
  const char* call() const override { return "ecclBroadcast"; }
  bool rooted() const override { return true; }
  Shape shape(size_t count, size_t, int) const override { return {count, count, count}; }
  std::vector<Segment> input(const Part& p) const override {
    if (p.rank != p.root) return {};
    return {{Segment::Kind::copied, 0, p.param, p.root}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    return {{Segment::Kind::copied, 0, p.param, p.root}};
  }
  ecclResult_t run(const Call& c) const override {
    return ecclBroadcast(c.send, c.receive, c.part.param, c.part.type->type, c.part.root, c.comm, c.stream);
  }
};
}  // namespace

Collective& broadcastPerf() {
  static Broadcast collective;
  return collective;
}
}  // namespace eccl::perf
