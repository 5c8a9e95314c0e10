// alltoallv_perf: as alltoall_perf, with blocks of different sizes. What goes where is common/traffic.h's
// matter; every rank computes the whole of it, but passes the library its own row and column only.
#include <cstdlib>
#include <map>

#include "common/collective.h"
#include "common/traffic.h"

namespace eccl::perf {
namespace {

// One rank's row and column of the traffic, as ecclAlltoAllv takes them: elements, packed in rank order.
struct Counts {
  size_t param = ~size_t{0};
  const TypeInfo* type = nullptr;
  int nranks = 0;
  std::vector<size_t> send, sendAt, receive, receiveAt;
};

class AlltoAllv final : public Collective {
 public:
  Outcome prepare(int nranks, size_t minBytes, size_t maxBytes) override {
    TOOLS_TRY(Traffic::fromEnvironment(::getenv, nranks, &traffic_));
    if (!traffic_.isMatrix()) return {};
    if (minBytes != maxBytes)
      return Outcome::error(Exit::usage,
                            "a traffic matrix fixes the sizes: give --minbytes and --maxbytes the same value");
    const size_t needed = traffic_.busiest(nranks, 0, 1);
    if (needed > maxBytes)
      return Outcome::error(Exit::usage, "the traffic matrix needs --maxbytes of at least %zu; it is %zu",
                            needed, maxBytes);
    return {};
  }

  const char* call() const override { return "ecclAlltoAllv"; }
  bool blocks() const override { return true; }
  InPlace inPlace() const override { return InPlace::staged; }

  Shape shape(size_t count, size_t elementBytes, int n) const override {
    return shapeOf(traffic_.isMatrix() ? 0 : blockOf(count, elementBytes, n), elementBytes, n);
  }

  std::vector<Segment> input(const Part& p) const override {
    const Counts counts = countsOf(p);
    return {{Segment::Kind::copied, 0, counts.sendAt.back() + counts.send.back(), p.rank}};
  }

  std::vector<Segment> expected(const Part& p, bool) const override {
    std::vector<Segment> blocks;
    size_t end = 0;
    for (int source = 0; source < p.nranks; ++source) {
      Part other = p;
      other.rank = source;
      const Counts counts = countsOf(other);
      blocks.push_back({Segment::Kind::copied, end, counts.send[p.rank], source, counts.sendAt[p.rank]});
      end += counts.send[p.rank];
    }
    // Ranks may receive less than the busiest one; the rest of the buffer must not have been touched.
    const size_t all = shapeOf(p.param, static_cast<size_t>(p.type->bytes), p.nranks).receive;
    blocks.push_back({Segment::Kind::zero, end, all - end});
    return blocks;
  }

  ecclResult_t run(const Call& c) const override {
    // The arrays are made once per size, so that a small message is not timed together with vectors.
    thread_local std::map<int, Counts> cache;
    Counts& counts = cache[c.part.rank];
    if (counts.param != c.part.param || counts.type != c.part.type || counts.nranks != c.part.nranks)
      counts = countsOf(c.part);
    return ecclAlltoAllv(c.send, counts.send.data(), counts.sendAt.data(), c.receive, counts.receive.data(),
                         counts.receiveAt.data(), c.part.type->type, c.comm, c.stream);
  }

  double bandwidthBytes(size_t param, size_t elementBytes, int n) const override {
    return static_cast<double>(shapeOf(param, elementBytes, n).send) * static_cast<double>(elementBytes);
  }

 private:
  Shape shapeOf(size_t block, size_t elementBytes, int n) const {
    const size_t most = traffic_.busiest(n, block * static_cast<size_t>(n) * elementBytes, elementBytes);
    return {most, most, block};
  }

  Counts countsOf(const Part& p) const {
    const size_t elementBytes = static_cast<size_t>(p.type->bytes);
    const size_t total = p.param * static_cast<size_t>(p.nranks) * elementBytes;
    Counts counts{p.param, p.type, p.nranks, {}, {}, {}, {}};
    size_t sent = 0, received = 0;
    for (int peer = 0; peer < p.nranks; ++peer) {
      counts.send.push_back(traffic_.bytes(p.rank, peer, p.nranks, total) / elementBytes);
      counts.receive.push_back(traffic_.bytes(peer, p.rank, p.nranks, total) / elementBytes);
      counts.sendAt.push_back(sent);
      counts.receiveAt.push_back(received);
      sent += counts.send.back();
      received += counts.receive.back();
    }
    return counts;
  }

  Traffic traffic_ = Traffic::generated(1);
};

}  // namespace

Collective& alltoallvPerf() {
  static AlltoAllv collective;
  return collective;
}
}  // namespace eccl::perf
