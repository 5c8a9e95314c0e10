// The checks of a call, and the numbers by which ranks compare theirs.
#include "runtime/execution/call.h"

#include <cstring>
#include <limits>

#include "algorithms/builder/collective.h"

namespace eccl::runtime {
namespace {

uint32_t hashCounts(const std::vector<size_t>& counts) {
  uint64_t hash = kEmptyHash;
  for (size_t count : counts) hash = mixed(hash, count);
  const auto folded = static_cast<uint32_t>(hash ^ hash >> 32);
  return folded != 0 ? folded : 1;
}

// Whether `count` per block, in a buffer of `blocks`, is more than any address space could hold.
bool tooLarge(size_t count, int blocks, DataType type) {
  size_t most = std::numeric_limits<ptrdiff_t>::max() / sizeOf(type);
  return blocks > 0 && count > most / static_cast<size_t>(blocks);
}

Status validateTable(const Call& call, const char* what, const std::vector<size_t>& counts,
                     const std::vector<size_t>& offsets) {
  size_t most = std::numeric_limits<ptrdiff_t>::max() / sizeOf(call.type);
  for (size_t i = 0; i < counts.size(); ++i) {
    size_t offset = i < offsets.size() ? offsets[i] : 0;
    if (counts[i] > most || offset > most - counts[i]) {
      return Status::error(
          Code::invalidArgument,
          "%s: %s count %zu with displacement %zu for rank %zu is beyond any buffer; was a negative "
          "number passed?",
          nameOf(call.collective), what, counts[i], offset, i);
    }
  }
  return {};
}

bool allZero(const std::vector<size_t>& counts) {
  for (size_t count : counts) {
    if (count != 0) return false;
  }
  return true;
}

}  // namespace

Call PlainCall::call() const {
  Call call;
  call.collective = key.collective;
  call.send = buffers.send;
  call.receive = buffers.receive;
  call.count = key.count;
  call.type = key.type;
  call.op = key.op;
  call.root = key.root;
  return call;
}

kernels::Scale PreMul::scale() const {
  const void* from = scalar != nullptr ? scalar : immediate;
  return visitElement(type, [from]<class E>(std::type_identity<E>) {
    E value;
    std::memcpy(&value, from, sizeof value);
    if constexpr (std::is_integral_v<E>)
      return kernels::Scale::multiplyByInteger(static_cast<int64_t>(value));
    else if constexpr (kIsLowPrecision<E>)
      return kernels::Scale::multiplyBy(widen(value));
    else
      return kernels::Scale::multiplyBy(value);
  });
}

std::string CallRecord::text() const {
  auto what = static_cast<Collective>(collective);
  if (collective >= kCollectives || type >= kDataTypes || op >= kRedOps) return "an unknown call";
  std::string text = nameOf(what);
  if (what == Collective::barrier) return text + "()";
  auto dtype = nameOf(static_cast<DataType>(type));
  if (what == Collective::allToAllv) return text + format("(%s)", dtype);
  text += format("(count %llu, %s", static_cast<unsigned long long>(count), dtype);
  if (reduces(what)) text += format(", %s", nameOf(static_cast<RedOp>(op)));
  if (hasRoot(what)) text += format(", root %d", root);
  if (what == Collective::send) text += format(", to rank %d", root);
  if (what == Collective::receive) text += format(", from rank %d", root);
  return text + (inGraph() ? ") of a graph" : ")");
}

uint64_t CallRecord::shape() const {
  // Send and Recv of one pair agree; so does what all ranks of a collective know alike.
  const uint64_t what = calls() != 0 ? scope
                                     : static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32 |
                                           static_cast<uint32_t>(collective) << 8 | op;
  return mixed(mixed(mixed(kEmptyHash, what), static_cast<uint64_t>(countsHash) << 8 | type), count);
}

CallRecord recordOf(const Call& call, int rank) {
  CallRecord record;
  record.collective = static_cast<uint8_t>(call.collective);
  record.type = static_cast<uint8_t>(call.type);
  record.op = reduces(call.collective) ? static_cast<uint8_t>(call.op) : 0;
  record.root = hasRoot(call.collective) || call.pointToPoint() ? call.root : 0;
  record.count = call.count;
  if (call.collective == Collective::allGatherv) record.countsHash = hashCounts(call.receiveCounts);
  if (call.collective == Collective::reduceScatterv) record.countsHash = hashCounts(call.sendCounts);
  if (call.varies()) {
    record.count = 0;
    const auto& counts = call.collective == Collective::allGatherv ? call.receiveCounts : call.sendCounts;
    if (call.collective != Collective::allToAllv) {
      for (size_t each : counts) record.count += each;
    }
  }
  if (call.pointToPoint()) {
    record.scope = call.collective == Collective::send ? CallRecord::pairScope(rank, call.root)
                                                       : CallRecord::pairScope(call.root, rank);
  }
  record.number(record.shape(), 0);
  return record;
}

UsedBuffers buffersOf(const Call& call, int rank, int ranks) {
  UsedBuffers used;
  if (call.collective == Collective::barrier) return used;
  const algorithms::CollectiveShape shape{call.collective, ranks, call.root};
  // A copy to oneself is a Send that has the buffer of its Recv.
  const bool toSelf = call.pointToPoint() && call.root == rank;
  const bool sends = call.varies() ? !allZero(call.sendCounts) : call.count > 0;
  const bool receives = call.varies() ? !allZero(call.receiveCounts) : call.count > 0;
  if (sends && (toSelf || shape.input(rank).number > 0)) used.send = call.send;
  if (receives && (toSelf || shape.output(rank).number > 0)) used.receive = call.receive;
  return used;
}

Status validate(const Call& call, int rank, int ranks) {
  const char* name = nameOf(call.collective);
  algorithms::CollectiveShape shape{call.collective, ranks, call.root};
  if (hasRoot(call.collective) && (call.root < 0 || call.root >= ranks)) {
    return Status::error(Code::invalidArgument, "%s: root %d is not a rank of this communicator (0 to %d)",
                         name, call.root, ranks - 1);
  }
  if (call.pointToPoint() && (call.root < 0 || call.root >= ranks)) {
    return Status::error(Code::invalidArgument, "%s: peer %d is not a rank of this communicator (0 to %d)",
                         name, call.root, ranks - 1);
  }
  if (call.collective == Collective::barrier) return {};
  int sends = shape.input(rank).number, receives = shape.output(rank).number;
  bool sendsNothing, receivesNothing;
  if (call.varies()) {
    ECCL_TRY(validateTable(call, "send", call.sendCounts, call.sendOffsets));
    ECCL_TRY(validateTable(call, "receive", call.receiveCounts, call.receiveOffsets));
    sendsNothing = allZero(call.sendCounts);
    receivesNothing = allZero(call.receiveCounts);
  } else {
    if (tooLarge(call.count, sends > receives ? sends : receives, call.type)) {
      return Status::error(Code::invalidArgument,
                           "%s: count %zu of %s is beyond any buffer; was a negative number passed?", name,
                           call.count, nameOf(call.type));
    }
    sendsNothing = sends == 0 || call.count == 0;
    receivesNothing = receives == 0 || call.count == 0;
  }
  if (!sendsNothing && call.send == nullptr) {
    return Status::error(Code::invalidArgument, "%s: sendbuff is NULL on rank %d, which sends data", name,
                         rank);
  }
  if (!receivesNothing && call.receive == nullptr) {
    return Status::error(Code::invalidArgument, "%s: recvbuff is NULL on rank %d, which receives data", name,
                         rank);
  }
  bool allToAll = call.collective == Collective::allToAll || call.collective == Collective::allToAllv;
  if (allToAll && !sendsNothing && call.send == call.receive) {
    return Status::error(Code::invalidArgument,
                         "%s: sendbuff and recvbuff are the same; it works out of place only", name);
  }
  if (call.collective == Collective::allGatherv &&
      call.sendCounts[0] != call.receiveCounts[static_cast<size_t>(rank)]) {
    return Status::error(Code::invalidArgument, "AllGatherv: sendcount %zu differs from recvcounts[%d] = %zu",
                         call.sendCounts[0], rank, call.receiveCounts[static_cast<size_t>(rank)]);
  }
  if (call.collective == Collective::allToAllv &&
      call.sendCounts[static_cast<size_t>(rank)] != call.receiveCounts[static_cast<size_t>(rank)]) {
    return Status::error(Code::invalidArgument,
                         "AlltoAllv: sendcounts[%d] = %zu differs from recvcounts[%d] = %zu: both are "
                         "what rank %d sends to itself",
                         rank, call.sendCounts[static_cast<size_t>(rank)], rank,
                         call.receiveCounts[static_cast<size_t>(rank)], rank);
  }
  return {};
}

}  // namespace eccl::runtime
