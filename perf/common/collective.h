// What one perf tool adds to the common part: the shape of its buffers, the data in them, the call, and what
// its bandwidths mean. The ten implementations are perf/<name>.cc.
#pragma once

#include <cstddef>
#include <vector>

#include "common/data.h"
#include "common/names.h"

namespace eccl::perf {

/// Elements. In place, a rank sends from recvbuff + sendInPlace * rank and receives at recvInPlace * rank.
struct Shape {
  size_t send, receive;
  size_t param;  ///< the count that the call takes
  size_t sendInPlace = 0, receiveInPlace = 0;
};

/// One rank's part in one operation.
struct Part {
  int rank, nranks;
  int root;      ///< -1 when the collective has none
  size_t param;  ///< Shape::param
  const TypeInfo* type;
};

struct Call {
  Part part;
  const void* send;
  void* receive;
  ecclRedOp_t op;
  ecclComm_t comm;
  ecclStream_t stream;
};

enum class InPlace {
  checked,
  /// The call needs two buffers. The in-place column shows what a program must do instead: drain the stream,
  /// copy the input aside, call. Its #wrong is N/A, as in nccl-tests.
  staged,
};

/// Immutable; used by all threads.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Once, before anything else, from one thread; reads the environment where a tool has settings there.
  virtual Outcome prepare(int /*nranks*/, size_t /*minBytes*/, size_t /*maxBytes*/) { return {}; }

  virtual const char* call() const = 0;  ///< the C function, for messages
  virtual bool reduces() const { return false; }
  /// The redop column lists -o's operators; sendrecv does without reducing, as in nccl-tests.
  virtual bool listsOps() const { return reduces(); }
  virtual bool rooted() const { return false; }
  virtual InPlace inPlace() const { return InPlace::checked; }

  /// For a buffer of `count` elements of `elementBytes`.
  virtual Shape shape(size_t count, size_t elementBytes, int nranks) const = 0;
  /// What the rank's send buffer holds before the call.
  virtual std::vector<Segment> input(const Part& part) const = 0;
  /// What its receive buffer, cleared before (apart from in-place input), must hold afterwards.
  virtual std::vector<Segment> expected(const Part& part, bool inPlace) const = 0;
  virtual ecclResult_t run(const Call& call) const = 0;

  /// True when Shape::param is the block of one rank, so that n blocks make the message.
  virtual bool blocks() const { return false; }
  /// Bytes that algbw counts: the message, on the side where it is larger.
  virtual double bandwidthBytes(size_t param, size_t elementBytes, int nranks) const {
    return static_cast<double>(param) * static_cast<double>(elementBytes) * (blocks() ? nranks : 1);
  }
  /// busbw / algbw: the share of those bytes that has to cross some rank's link at least. A rank's own
  /// block stays where it is.
  virtual double busFactor(int nranks) const { return blocks() ? (nranks - 1.0) / nranks : 1; }
};

/// Elements per rank when `count` are shared out in blocks of a multiple of 16 bytes.
inline size_t blockOf(size_t count, size_t elementBytes, int nranks) {
  return (count / static_cast<size_t>(nranks)) & ~(16 / elementBytes - 1);
}

// One for each binary; main.cc asks for the one its name stands for.
Collective& allReducePerf();
Collective& allGatherPerf();
Collective& reduceScatterPerf();
Collective& alltoallPerf();
Collective& alltoallvPerf();
Collective& broadcastPerf();
Collective& reducePerf();
Collective& gatherPerf();
Collective& scatterPerf();
Collective& sendrecvPerf();

}  // namespace eccl::perf
