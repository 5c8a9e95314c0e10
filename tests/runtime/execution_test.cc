// Every algorithm executed by real ranks (threads of this process), through the C API, against two oracles: the
// Program replayed move by move with the reference kernels, bit by bit; and, for sums of floats, exact
// arithmetic within a bound.
//
// Slots are small and as few as any schedule may need, so that small buffers make many tiles.
//
// All of it twice, but for the numbers of ranks: by the host executor, and by one whose moves are made later,
// in a random order between lanes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "algorithms/selection/select.h"
#include "eccl/eccl.h"
#include "runtime/execution/plan.h"
#include "support/elements.h"
#include "support/guarded_buffer.h"
#include "support/later_executor.h"
#include "support/replay.h"
#include "support/sanitizers.h"

namespace eccl::runtime {
namespace {

constexpr uint32_t kSlots = 2;

using elements::Random;

/// A number that every type can hold, if need be rounded; what becomes of fractions in integers is all the
/// same.
void store(DataType type, double value, std::byte* to) {
  if (isFloating(type)) return elements::putReal(type, value, to);
  elements::putInteger(type, static_cast<uint64_t>(value), to);
}

/// Half the distance between 1 and the next number: the relative error of one rounding.
double roundoff(DataType type) {
  return std::ldexp(1, -elements::formatOf(type).mantissa - 1);
}

struct Case {
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  size_t count = 0;
  int root = 0;
  std::vector<size_t> counts;  // v calls: by block
  Random::result_type seed = 0;
};

/// One rank's part of a call: what the user passes, made from the case alone.
struct RankCall {
  Call call;
  std::unique_ptr<test::GuardedBuffer> in,
      out;  // in place: `out` alone, or `in` alone where the input is the larger
  double scalar = 1;
};

enum class Moves { atOnce, later };

/// Index into algorithms(), and who makes the moves. One test goes through all numbers of ranks, and all that
/// they are tried with, as it takes as long to start a process, or to bring ranks together, as to test it.
class Execution : public ::testing::TestWithParam<std::tuple<int, Moves>> {
 protected:
  explicit Execution(uint32_t slotBytes = 1024) : slotBytes_(slotBytes) {}
  static const algorithms::Algorithm& algorithm() {
    return algorithms::algorithms()[static_cast<size_t>(std::get<0>(GetParam()))];
  }
  int ranks() const { return static_cast<int>(comms_.size()); }
  static bool varies() {
    Call call;
    call.collective = algorithm().collective;
    return call.varies();
  }
  algorithms::CollectiveShape shape(int root) const { return {algorithm().collective, ranks(), root}; }

  /// What ranks that have joined are tried with.
  void everyTypeAndOperator();
  void nothing();
  void callsLikeTheOneBefore();

  /// Has `body` run with as many ranks as each of `numbers`. With sanitizers, which take ten times as long,
  /// with as many as the first. Where moves are made later some are enough: what is new there is their order.
  template <class Body>
  void withRanks(std::initializer_list<int> numbers, Body body) {
    for (const int number : numbers) {
      if (std::get<1>(GetParam()) == Moves::later && number > 5 && !kSanitized) continue;
      SCOPED_TRACE(format("%d ranks", number));
      join(number);
      if (!HasFatalFailure()) body();
      leave();
      if (HasFatalFailure() || kSanitized) return;
    }
  }

  /// Whether case number `which` is tried: with `all` ranks each is, with other numbers one in `turns`, by
  /// turns.
  bool isTurn(int which, int turns, int all) const { return ranks() == all || (which + ranks()) % turns == 0; }

  void join(int number) {
    std::string choice = std::string(nameOf(algorithm().collective)) + ":" + algorithm().name;
    setenv("ECCL_ALGO", choice.c_str(), 1);
    setenv("ECCL_SLOTS", std::to_string(kSlots).c_str(), 1);
    setenv("ECCL_SLOT_BYTES", std::to_string(slotBytes_).c_str(), 1);
    setenv("ECCL_VERIFY", "never", 1);  // the sweep of tests/algorithms does that
    comms_.assign(static_cast<size_t>(number), nullptr);
    std::unique_ptr<test::LaterDevice::Offer> offer;
    if (std::get<1>(GetParam()) == Moves::later) {
      later_ = std::make_shared<test::LaterDevice>(seed());
      offer = std::make_unique<test::LaterDevice::Offer>(later_);
    }
    ASSERT_EQ(ecclCommInitAll(comms_.data(), ranks(), nullptr), ecclSuccess) << ecclGetLastError(nullptr);
  }
  void leave() {
    std::vector<std::thread> threads;
    for (ecclComm_t comm : comms_)
      threads.emplace_back([comm] { EXPECT_EQ(ecclCommDestroy(comm), ecclSuccess); });
    for (auto& thread : threads) thread.join();
    comms_.clear();
    if (later_ == nullptr) return;
    EXPECT_EQ(later_->done, later_->submitted);
    EXPECT_EQ(later_->inUse, 0) << "scratch memory was not given back";
    later_.reset();
  }

  Random::result_type seed() const {
    return static_cast<Random::result_type>(std::get<0>(GetParam()) * 1000 + ranks());
  }

  /// The elements of block `block`.
  static size_t blockCount(const Case& c, int block) {
    return c.counts.empty() ? c.count : c.counts[static_cast<size_t>(block)];
  }

  static std::vector<BlockExtent> extents(const Case& c, const BlockMap& map) {
    std::vector<BlockExtent> list;
    uint64_t at = 0;
    for (int i = 0; i < map.number; ++i) {
      list.push_back({at, blockCount(c, map.block(i))});
      at += list.back().elements;
    }
    return list;
  }
  static size_t total(const std::vector<BlockExtent>& extents) {
    return extents.empty() ? 0 : extents.back().offset + extents.back().elements;
  }

  RankCall makeCall(const Case& c, int rank, Random& random) {
    RankCall made;
    Call& call = made.call;
    call.collective = algorithm().collective;
    call.count = c.counts.empty() ? c.count : 0;
    call.type = c.type;
    call.op = c.op;
    call.root = c.root;
    auto inputs = extents(c, shape(c.root).input(rank)), outputs = extents(c, shape(c.root).output(rank));
    if (call.varies()) {
      for (auto& e : inputs) call.sendCounts.push_back(e.elements), call.sendOffsets.push_back(e.offset);
      for (auto& e : outputs) call.receiveCounts.push_back(e.elements), call.receiveOffsets.push_back(e.offset);
    }
    size_t element = sizeOf(c.type);
    bool inPlace = shape(c.root).mayBeInPlace(rank) && random() % 2 == 0;
    // Where one buffer serves both, the rank's own block lies at its place in the larger one.
    size_t inBytes = total(inputs) * element, outBytes = total(outputs) * element;
    bool shared = random() % 3 == 0;
    auto fill = [&](std::byte* to, size_t bytes) {
      for (size_t at = 0; at < bytes; at += element) {
        store(c.type, static_cast<double>(random() % 33) / 4 - (isFloating(c.type) ? 4 : 0), to + at);
      }
    };
    made.in = std::make_unique<test::GuardedBuffer>(inBytes, random() % 5, shared);
    made.out = std::make_unique<test::GuardedBuffer>(outBytes, random() % 5, shared);
    fill(made.in->data(), inBytes);
    call.send = inBytes > 0 || random() % 2 == 0 ? made.in->data() : nullptr;
    call.receive = outBytes > 0 || random() % 2 == 0 ? made.out->data() : nullptr;
    if (inPlace && inputs.size() <= outputs.size()) {
      size_t own =
          outputs[static_cast<size_t>(shape(c.root).output(rank).position(shape(c.root).input(rank).first))]
              .offset;
      std::memcpy(made.out->data() + own * element, made.in->data(), inBytes);
      call.send = made.out->data() + own * element;
    } else if (inPlace) {
      size_t own =
          inputs[static_cast<size_t>(shape(c.root).input(rank).position(shape(c.root).output(rank).first))]
              .offset;
      call.receive = made.in->data() + own * element;
    }
    made.scalar = static_cast<double>(rank % 3 + 1);
    return made;
  }

  static ecclResult_t issue(const Call& call, ecclRedOp_t op, ecclComm_t comm) {
    auto type = static_cast<ecclDataType_t>(call.type);
    const void* in = call.send;
    void* out = call.receive;
    switch (call.collective) {
      case Collective::allReduce:
        return ecclAllReduce(in, out, call.count, type, op, comm, nullptr);
      case Collective::allGather:
        return ecclAllGather(in, out, call.count, type, comm, nullptr);
      case Collective::reduceScatter:
        return ecclReduceScatter(in, out, call.count, type, op, comm, nullptr);
      case Collective::broadcast:
        return ecclBroadcast(in, out, call.count, type, call.root, comm, nullptr);
      case Collective::reduce:
        return ecclReduce(in, out, call.count, type, op, call.root, comm, nullptr);
      case Collective::gather:
        return ecclGather(in, out, call.count, type, call.root, comm, nullptr);
      case Collective::scatter:
        return ecclScatter(in, out, call.count, type, call.root, comm, nullptr);
      case Collective::allToAll:
        return ecclAlltoAll(in, out, call.count, type, comm, nullptr);
      case Collective::barrier:
        return ecclBarrier(comm, nullptr);
      case Collective::allToAllv:
        return ecclAlltoAllv(in, call.sendCounts.data(), call.sendOffsets.data(), out,
                             call.receiveCounts.data(), call.receiveOffsets.data(), type, comm, nullptr);
      case Collective::allGatherv:
        return ecclAllGatherv(in, call.sendCounts[0], out, call.receiveCounts.data(),
                              call.receiveOffsets.data(), type, comm, nullptr);
      case Collective::reduceScatterv:
        return ecclReduceScatterv(in, out, call.sendCounts.data(), type, op, comm, nullptr);
      default:
        return ecclInternalError;
    }
  }

  /// What every rank's output must be, by replaying the programs.
  std::vector<std::vector<std::byte>> replay(const Case& c, std::vector<RankCall>& calls) {
    std::vector<Program> programs;
    Partition partition;
    int tiles = 1;
    for (int rank = 0; rank < ranks(); ++rank) {
      PlanContext context;
      context.rank = rank;
      context.ranks = ranks();
      context.placement = std::make_shared<const Placement>(Placement::oneHost(ranks(), ranks()));
      context.ring = {kSlots, slotBytes_};
      context.selection.forced[static_cast<size_t>(algorithm().collective)] = &algorithm();
      auto plan = Planner(context).plan(calls[static_cast<size_t>(rank)].call);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      programs.push_back(*(*plan)->program);
      partition = (*plan)->view.partition;
      tiles = static_cast<int>((*plan)->view.tiles);
    }
    std::vector<test::ReplayRank> state(static_cast<size_t>(ranks()));
    for (int rank = 0; rank < ranks(); ++rank) {
      test::ReplayRank& at = state[static_cast<size_t>(rank)];
      RankCall& made = calls[static_cast<size_t>(rank)];
      at.extents[0] = extents(c, shape(c.root).input(rank));
      at.extents[1] = extents(c, shape(c.root).output(rank));
      const auto* in = static_cast<const std::byte*>(made.call.send);
      at.buffers[0].assign(in, in + (in == nullptr ? 0 : total(at.extents[0]) * sizeOf(c.type)));
      at.buffers[1].resize(total(at.extents[1]) * sizeOf(c.type));
      if (c.op == RedOp::preMulSum) {
        at.pre = isFloating(c.type) ? kernels::Scale::multiplyBy(made.scalar)
                                    : kernels::Scale::multiplyByInteger(static_cast<int64_t>(made.scalar));
      }
      if (c.op == RedOp::avg) {
        if (isFloating(c.type))
          at.pre = kernels::Scale::multiplyBy(1.0 / ranks());
        else
          at.post = kernels::Scale::divideBy(ranks());
      }
    }
    RedOp op = c.op > RedOp::min ? RedOp::sum : c.op;
    test::Replay domain(programs, state, partition, c.type, op);
    algorithms::ExecutionSize size;
    size.tiles = tiles;
    size.slots = kSlots;
    auto count = [c](int block) { return static_cast<uint64_t>(blockCount(c, block)); };
    size.empty = [=](int block, int part, int tile) {
      return partition.slice(count(block), part, static_cast<uint64_t>(tile)).size() == 0;
    };
    size.streamTiles = [=](int block) { return static_cast<int>(partition.tiles(count(block))); };
    if (programs[0].streams) size.empty = nullptr;
    algorithms::AbstractExecutor<test::Replay> executor(programs, domain, size);
    if (tiles > 0 || programs[0].streams) { EXPECT_EQ(executor.runFair(), ""); }
    std::vector<std::vector<std::byte>> outputs;
    for (auto& rank : state) outputs.push_back(std::move(rank.buffers[1]));
    return outputs;
  }

  /// Sums of floats against exact arithmetic. Every contribution passes at most `ranks` roundings of the
  /// element type (one per combining step) besides that of its scaling, so |error| <= (n + 1) u sum|x|, to
  /// first order.
  void checkBound(const Case& c, const std::vector<RankCall>& calls,
                  const std::vector<std::vector<std::byte>>& inputs, const std::vector<std::byte>& output,
                  int block) {
    if (!isFloating(c.type) || (c.op != RedOp::sum && c.op != RedOp::avg && c.op != RedOp::preMulSum)) return;
    size_t element = sizeOf(c.type);
    size_t first =
        algorithm().collective == Collective::reduceScatter ? static_cast<size_t>(block) * c.count : 0;
    for (size_t i = 0; i < output.size() / element; ++i) {
      double exact = 0, magnitude = 0;
      for (size_t rank = 0; rank < inputs.size(); ++rank) {
        double x = elements::realAt(c.type, inputs[rank].data() + (first + i) * element);
        if (c.op == RedOp::preMulSum) x *= calls[rank].scalar;
        if (c.op == RedOp::avg) x /= ranks();
        exact += x;
        magnitude += std::fabs(x);
      }
      double bound =
          (ranks() + 1) * roundoff(c.type) * magnitude * 1.25 + 0x1p-16;  // second order; subnormals of fp8
      ASSERT_NEAR(elements::realAt(c.type, output.data() + i * element), exact, bound)
          << nameOf(c.type) << " element " << i;
    }
  }

  /// `late`: microseconds that a rank may come late by.
  void run(const Case& c, unsigned late = 0) {
    SCOPED_TRACE(format("%s %s, %d ranks, %s, %s, count %zu, root %d, seed %llu",
                        nameOf(algorithm().collective), algorithm().name, ranks(), nameOf(c.type), nameOf(c.op),
                        c.count, c.root, static_cast<unsigned long long>(c.seed)));
    Random random(c.seed);
    std::vector<RankCall> calls;
    std::vector<std::vector<std::byte>> inputs;
    for (int rank = 0; rank < ranks(); ++rank) {
      calls.push_back(makeCall(c, rank, random));
      inputs.emplace_back(calls.back().in->data(), calls.back().in->data() + calls.back().in->size());
    }
    auto expected = replay(c, calls);
    std::vector<ecclResult_t> results(calls.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      const unsigned delay = late > 0 && random() % 2 == 0 ? static_cast<unsigned>(random() % late) : 0;
      threads.emplace_back([&, rank, delay] {
        auto op = static_cast<ecclRedOp_t>(c.op);
        if (delay > 0) usleep(delay);
        if (c.op == RedOp::preMulSum) {
          std::byte scalar[8];
          store(c.type, calls[rank].scalar, scalar);
          ecclRedOpCreatePreMulSum(&op, scalar, static_cast<ecclDataType_t>(c.type), ecclScalarHostImmediate,
                                   comms_[rank]);
        }
        results[rank] = issue(calls[rank].call, op, comms_[rank]);
        if (c.op == RedOp::preMulSum) { EXPECT_EQ(ecclRedOpDestroy(op, comms_[rank]), ecclSuccess); }
      });
    }
    for (auto& thread : threads) thread.join();
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      ASSERT_EQ(results[rank], ecclSuccess) << ecclGetLastError(comms_[rank]);
      if (algorithm().collective == Collective::barrier) continue;  // its buffers are the library's own
      const auto* out = static_cast<const std::byte*>(calls[rank].call.receive);
      ASSERT_TRUE(expected[rank].empty() || std::memcmp(out, expected[rank].data(), expected[rank].size()) == 0)
          << "rank " << rank << " differs from the replay";
      ASSERT_TRUE(calls[rank].in->marginsIntact() && calls[rank].out->marginsIntact())
          << "rank " << rank << " wrote outside";
      if (reduces(algorithm().collective) && c.counts.empty() && !expected[rank].empty()) {
        checkBound(c, calls, inputs, expected[rank], static_cast<int>(rank));
      }
    }
  }

  const uint32_t slotBytes_;
  std::vector<ecclComm_t> comms_;
  std::shared_ptr<test::LaterDevice> later_;
};

void Execution::everyTypeAndOperator() {
  Random random(seed());
  // One element; fewer than there are ranks; several tiles with a rest.
  const size_t sizes[] = {1, 5, 997, 3001};
  const int ops = reduces(algorithm().collective) ? kRedOps : 1;
  for (int cases = 0; cases < kDataTypes * ops && !HasFatalFailure(); ++cases) {
    if (!isTurn(cases, 3, 5)) continue;
    Case c;
    c.type = static_cast<DataType>(cases / ops);
    c.op = static_cast<RedOp>(cases % ops);
    // Products of many small integers in fp8 are all zero, infinite or saturated; the replay covers them
    // anyway.
    c.count = algorithm().collective == Collective::barrier
                  ? 1
                  : sizes[static_cast<size_t>(cases) % 4] / (ranks() > 8 ? 2 : 1) + 1;
    c.root = hasRoot(algorithm().collective) ? cases % ranks() : 0;
    c.seed = random();
    if (varies()) {
      for (int block = 0; block < shape(0).blocks(); ++block)
        c.counts.push_back(random() % 3 == 0 ? 0 : random() % c.count);
      c.count = 0;
    }
    run(c);
  }
}

void Execution::nothing() {
  Case c;
  c.seed = 1;
  if (algorithm().collective == Collective::barrier) c.count = 1, c.type = DataType::uint8;
  if (varies()) { c.counts.assign(static_cast<size_t>(shape(0).blocks()), 0); }
  run(c);
}

// A call like one before is made by another executor as long as it is short; ranks that come late have it hand
// over to the interpreter half-way.
void Execution::callsLikeTheOneBefore() {
  Random random(seed());
  const std::pair<DataType, RedOp> kinds[] = {{DataType::float32, RedOp::sum},
                                              {DataType::float16, RedOp::avg},
                                              {DataType::int32, RedOp::avg},
                                              {DataType::int8, RedOp::max}};
  for (int kind = 0; kind < 4; ++kind) {
    const auto [type, op] = kinds[kind];
    if (!isTurn(kind, 2, 5)) continue;
    for (size_t count : {size_t{1}, size_t{9}, size_t{0}, size_t{200}}) {
      for (int time = 0; time < 5 && !HasFatalFailure(); ++time) {
        Case c;
        c.type = type;
        c.op = reduces(algorithm().collective) ? op : RedOp::sum;
        c.count = algorithm().collective == Collective::barrier ? 1 : count;
        c.root = hasRoot(algorithm().collective) ? ranks() - 1 : 0;
        c.seed = random();
        run(c, time < 4 ? 0 : 3000);
      }
    }
  }
}

TEST_P(Execution, EqualsTheReplay) {
  withRanks({5, 1, 2, 3, 4, 6, 7, 8, 9, 16}, [&] {
    everyTypeAndOperator();
    nothing();
    if (!varies()) callsLikeTheOneBefore();
  });
}

/// Messages that are long enough to go from memory to memory, on each path: threads reach all memory, others
/// what comes from ecclMemAlloc.
class LongMessages : public Execution {
 protected:
  LongMessages() : Execution(32768) {}
  void TearDown() override { unsetenv("ECCL_TRANSPORT"); }
};

TEST_P(LongMessages, EqualTheReplayOnEveryPath) {
  if (algorithm().collective == Collective::barrier) return;  // sends no more than a byte
  Random random(seed());                                      // goes on from path to path
  for (const char* path : {"thread", "shm", "tcp"}) {
    // ThreadSanitizer does not see that what two ranks of one process have mapped is the same memory, and so
    // not that one has waited for the other.
    if (kThreadSanitizer && path == std::string("shm")) continue;
    SCOPED_TRACE(path);
    setenv("ECCL_TRANSPORT", path, 1);
    withRanks({2, 5}, [&] {
      for (DataType type : {DataType::float32, DataType::float16, DataType::int32}) {
        // Others are other numbers.
        if ((kSanitized || std::get<1>(GetParam()) == Moves::later) && type != DataType::float32) break;
        for (int op = 0; op < (reduces(algorithm().collective) ? kRedOps : 1) && !HasFatalFailure(); ++op) {
          Case c;
          c.type = type;
          c.op = static_cast<RedOp>(op);
          c.count = 20000 + random() % 10000;
          c.root = hasRoot(algorithm().collective) ? ranks() - 1 : 0;
          c.seed = random();
          if (varies()) {
            for (int block = 0; block < shape(0).blocks(); ++block) c.counts.push_back(random() % c.count);
            c.count = 0;
          }
          run(c);
          c.count = varies() ? 0 : 5000;  // one tile of the slots here: later ones of these take the fast path
          for (int time = 0; time < 4 && !varies() && !HasFatalFailure(); ++time) {
            c.seed = random();
            run(c, time < 3 ? 0 : 3000);
          }
        }
      }
    });
  }
}

std::string nameOfCase(const ::testing::TestParamInfo<std::tuple<int, Moves>>& info) {
  const algorithms::Algorithm& algorithm =
      algorithms::algorithms()[static_cast<size_t>(std::get<0>(info.param))];
  return std::string(nameOf(algorithm.collective)) + "_" + algorithm.name;
}

const auto kEachAlgorithm = ::testing::Range(0, static_cast<int>(algorithms::algorithms().size()));

INSTANTIATE_TEST_SUITE_P(Algorithms, Execution,
                         ::testing::Combine(kEachAlgorithm, ::testing::Values(Moves::atOnce)), nameOfCase);
INSTANTIATE_TEST_SUITE_P(Later, Execution, ::testing::Combine(kEachAlgorithm, ::testing::Values(Moves::later)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Algorithms, LongMessages,
                         ::testing::Combine(kEachAlgorithm, ::testing::Values(Moves::atOnce)), nameOfCase);
INSTANTIATE_TEST_SUITE_P(Later, LongMessages,
                         ::testing::Combine(kEachAlgorithm, ::testing::Values(Moves::later)), nameOfCase);

}  // namespace
}  // namespace eccl::runtime
