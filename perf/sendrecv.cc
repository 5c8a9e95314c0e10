// sendrecv_perf: point to point, around a ring.
#include "common/collective.h"

namespace eccl::perf {
namespace {
// Every rank sends to the next one and receives from the one before, at the same time.
class SendRecv final : public Collective {
 public:
  const char* call() const override { return "ecclSend/ecclRecv"; }
  bool listsOps() const override { return true; }
  InPlace inPlace() const override { return InPlace::staged; }
  Shape shape(size_t count, size_t, int) const override { return {count, count, count}; }
  std::vector<Segment> input(const Part& p) const override {
    return {{Segment::Kind::copied, 0, p.param, p.rank}};
  }
  std::vector<Segment> expected(const Part& p, bool) const override {
    return {{Segment::Kind::copied, 0, p.param, (p.rank + p.nranks - 1) % p.nranks}};
  }
  ecclResult_t run(const Call& c) const override {
    const int next = (c.part.rank + 1) % c.part.nranks;
    const int previous = (c.part.rank + c.part.nranks - 1) % c.part.nranks;
    if (ecclResult_t result = ecclGroupStart(); result != ecclSuccess) return result;
    const ecclResult_t sent = ecclSend(c.send, c.part.param, c.part.type->type, next, c.comm, c.stream);
    const ecclResult_t received =
        sent == ecclSuccess ? ecclRecv(c.receive, c.part.param, c.part.type->type, previous, c.comm, c.stream)
                            : sent;
    const ecclResult_t ended = ecclGroupEnd();  // the group must be closed whatever happened in it
    return received != ecclSuccess ? received : ended;
  }
};
}  // namespace

Collective& sendrecvPerf() {
  static SendRecv collective;
  return collective;
}
}  // namespace eccl::perf
