// The interface between the engine and what does a Run's work: the processor, in host memory, or a device in
// its own.
//
// The engine asks for progress lane by lane, and an executor answers with what its interpreter says: one
// virtual call each time a lane gets its turn, none for a move. There are three kinds. One that moves data
// from the host instantiates the interpreter (program/interpreter.h) with a device of its own, whose submit()
// and test() are its moves. One that has lanes run on a device looks up how far they have got. One that
// stages copies to the host first, has the ordinary lanes run there, and copies back.
//
// A communicator is of one kind. One of the host chooses for each Run by the memory that its buffers are in
// (executors.h). One of a device takes that device's memory and streams alone. Only a Run of the host executor
// may be made on the fast path (execution/fast_path.h), which knows no executor.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/reduce.h"
#include "program/interpreter.h"
#include "transport/core/connection.h"
#include "transport/core/memory_use.h"
#include "transport/net/fd.h"

namespace eccl::runtime {

/// What an executor keeps for one Run. Owner: the Run; destroyed by the driver when the Run has ended, or, if
/// it was captured, when its graph or the engine is gone.
struct WorkState {
  virtual ~WorkState() = default;
};

class Executor;

/// What has come of a captured call since it was last looked at. idle: nothing is under way, or it goes on.
/// waits: it is under way and waits for peers, as forAwaited() says. failed: as LaneAnswer::failed. over: its
/// graph is gone.
enum class Replays : uint8_t { idle, waits, failed, over };

/// A Run as its executor sees it. Owner: the Run. The engine sets all but `state` before Executor::begin();
/// it is constant until the Run has ended, apart from the lanes and view.patient.
struct Work {
  RunView view;
  Executor* executor = nullptr;  // the communicator's
  DataType type = DataType::int8;
  RedOp op = RedOp::sum;         // sum, prod, max or min
  kernels::Scale pre, post;      // of raw contributions, and of final results
  const void* scalar = nullptr;  // what contributions are multiplied by, in place of `pre`: see takesScalar()
  size_t laneCount = 0;
  const Program* program = nullptr;
  uint32_t callSignature = 0;  // as view.signature, but without the call's number
  uint64_t number = 0;         // of its collective, or in its pair: rises from call to call
  int places = 1;              // streams of the caller's that it has a place in
  /// What the executor keeps with the plan, for all Runs of it. Its own lock, unless only the driver uses it.
  std::shared_ptr<void>* kept = nullptr;
  /// The executor's lanes have connections of their own, and lane 0 stands for all: the engine neither makes
  /// nor waits for connections. Set by Executor::enter().
  bool carried = false;
  /// The call is in a graph of the device's, and is made when that runs, not now: by the device alone if it is
  /// carried, see Executor::look(); else by a new Run each time, see Executor::takeBegun(). Set by
  /// Executor::enter().
  bool captured = false;
  size_t footprint = 0;   // bytes of the caller's two buffers, or of its one and another rank's
  size_t cacheShare = 0;  // of the largest cache, bytes that are this rank's
  /// Host memory of the executor's that it has put buffers of the view in, by whole allocations, which stay
  /// where they are as long as the process. Set by Executor::begin(); empty: the buffers are not in such
  /// memory.
  std::span<std::byte> own[2];
  std::unique_ptr<WorkState> state;
};

/// Between which ranks messages of devices may pass through memory of the host (ECCL_CUDA_RELAY).
enum class Relays : uint8_t { none, betweenHosts, all };

/// What ranks have said of their executors when they meet, and how these talk to each other afterwards.
struct Meeting {
  int rank = 0;
  std::vector<std::string> introductions;  ///< by rank: what Executor::introduce() said; empty: nothing
  /// Everybody's bytes, by rank; each rank asks as often. During Executor::meet() alone; waits. Error: the
  /// communicator fails.
  std::function<Result<std::vector<std::string>>(std::string_view mine)> gather;
  /// Sends to Executor::hear() of another rank, in order. Any thread; waits for nothing.
  std::function<void(int rank, std::string_view message)> tell;
  /// What Executor::descriptorOf() of another rank of this host gives. Waits for its service thread: as long as
  /// the control tree does, if its process is stopped. Error: it cannot be had; invalidArgument: there is none
  /// of that name.
  std::function<Result<transport::Fd>(int rank, const transport::DescriptorName& name)> fetch;
  /// Whether that rank, which cannot be reached, has left in order.
  std::function<bool(int rank)> hasLeft;
  /// A call that the engine does not know yet has waited so long for something that a rank has to say: whoever
  /// looks after stalls looks into it. By the thread that waits, without locks.
  std::function<void(Work& work, Duration waited, int rank)> waits;
  /// Ranks of other processes may read and write the caller's buffers, where executors can have it so.
  bool showsMemory = true;
  Relays relays = Relays::none;  ///< the same on all ranks
  bool dmabufs = true;           ///< RDMA devices may read and write the devices' memory
  /// Why the communicator has failed.
  std::function<Status()> failure;
  /// A rank, for people.
  std::function<std::string(int rank)> describe;
};

/// A place that a call has taken in a stream of the caller's. What the stream is given afterwards waits until
/// this is destroyed. Any thread may destroy it, and that does not wait. Null where the stream waits for the
/// Runs themselves.
class StreamGate {
 public:
  virtual ~StreamGate() = default;
};

/// One kind of memory, and what moves data in it. The contract:
///
/// Owner: the communicator's engine, shared with the scratch memory that came from it. It outlives its Runs.
///
/// Threads: holds(), admit(), place(), streamOf(), carries(), allocate(), release(), announce(), mayWait(),
/// enter(), read() and fail() any; introduce() and meet() the one that makes the communicator; hear() and
/// descriptorOf() the service thread; the rest belongs to the driver, one thread at a time. None of them waits,
/// where it does not say so. An executor may have threads of its own; they ring the bell.
///
/// Order: moves of one lane have their effect in the order in which they were submitted, as in a CUDA stream,
/// so one may read what the one before writes. Moves of different lanes and Runs have none: a lane waits for a
/// step of another one until that is committed.
///
/// Streams: the caller's, for memory of this kind, come by their native handles (a cudaStream_t). An executor
/// without streams of that kind has no place().
///
/// Memory: a submitted move may touch its sources and destinations until it has been seen complete, or
/// quiesce() has returned. What it wrote is then visible to the driver.
///
/// Failure: advance() answers failed with LaneFault::device, failure() says why, and the communicator fails:
/// each Run that is under way is cancelled, then quiesced, before a peer or the caller is told that it has
/// ended.
class Executor : public std::enable_shared_from_this<Executor> {
 public:
  virtual ~Executor() = default;

  /// The kind of memory, for messages: "host".
  virtual const char* memory() const = 0;
  /// Which device of its kind; -1: there is only one.
  virtual int number() const { return -1; }
  /// Where that is on the PCI bus: "0000:3b:00.0", lower case; empty: nowhere.
  virtual std::string pciAddress() const { return ""; }
  /// Whether `address` is memory of this kind.
  virtual bool holds(const void* address) const = 0;
  /// Whether a call may use a buffer at `address`. Error (invalidArgument): what it is instead, as the end of a
  /// sentence that begins with the buffer: "is host memory; ...". Not logged.
  virtual Status admit(const void* address) const {
    return holds(address) ? Status() : Status::error(Code::invalidArgument, "is not %s memory", memory());
  }
  /// `bytes` > 0 of uninitialised memory of this kind, aligned for any vector (64 bytes at least); to be
  /// returned by release(). Error: system when there is none left.
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  /// Takes back what allocate() gave. No move under way uses it.
  virtual void release(std::byte* memory) = 0;

  /// What the executors of other ranks have to know of this one, of which some will be in this process. Before
  /// meet(). Error: the communicator fails.
  virtual Result<std::string> introduce(uint64_t /*communicator*/, int /*rank*/, int /*ranks*/) {
    return std::string();
  }
  /// All ranks have introduced themselves. Error: the communicator fails.
  virtual Status meet(Meeting /*meeting*/) { return {}; }
  /// What the executor of another rank has told. Its bytes are checked. By the service thread; waits for
  /// nothing, nor for a driver. Error (remote): they are no message.
  virtual Status hear(int /*rank*/, std::string_view /*message*/) { return {}; }
  /// A descriptor of this process's memory that another rank was told the name of; the caller's. By the service
  /// thread; waits for nothing, nor for a driver. Error (invalidArgument): there is none of that name.
  virtual Result<transport::Fd> descriptorOf(const transport::DescriptorName& /*name*/) {
    return Status::error(Code::invalidArgument, "it has no such memory");
  }
  /// The communicator has failed: no call waits for other ranks any longer. Any thread; waits for nothing.
  virtual void fail() {}
  /// Calls visit(connection) for each that a carried Run has waited for long, an index of its Program's.
  virtual void forAwaited(const Work& /*work*/, const std::function<void(int)>& /*visit*/) const {}

  /// Messages of carried Runs pass through the host, by connections of ExecutorContext::connection. Constant
  /// after meet(). Any thread.
  virtual bool relays() const { return false; }
  /// Goes on with these, at each pass of the driver. True: something moved; calls moved(rank) for the other
  /// ranks. `ending`: no Run will come. Error, once for each other rank: (remote) it cannot be reached, is to
  /// receive and has left, or has sent what cannot be; or why messages cannot be moved here. All else goes on.
  virtual Result<bool> relay(bool /*ending*/, const std::function<void(int)>& /*moved*/) { return false; }
  /// The ranks that have not taken yet what was sent to them, or were not told of the end by relay(true); not
  /// those that never will.
  virtual std::vector<int> relaysTo() { return {}; }
  /// Why messages from or to that rank do not get through any more. None: they do, as far as is known.
  virtual std::optional<transport::Breakage> relayFailure(int /*rank*/) const { return {}; }

  /// Before the first advance(); the view is complete, and stays where it is. Makes work.state if it needs one,
  /// which is destroyed when the Run has ended. May put buffers of its own, and what is ready, into the view.
  /// Error: the Run fails.
  virtual Status begin(Work& work) = 0;
  /// Goes on with a lane, for about `budget` moves. `blocked` where nothing can be done now: when that changes
  /// by itself, not by a peer, the bell is rung. `done` when all moves are complete.
  virtual LaneAnswer advance(Work& work, int32_t lane, int budget) = 0;
  /// Of a Run that was captured, and has ended at once: how its replays fare. Asked ten times a second.
  virtual Replays look(Work& /*captured*/) { return Replays::over; }
  /// Some captured Runs are wanted again (ExecutorContext::wanted). Cheap.
  virtual bool anyBegun() const { return false; }
  /// Calls visit(captured, state) for each of them, in the order in which they are wanted: a Run like it is to
  /// be begun with that state.
  virtual void takeBegun(const std::function<void(Work&, std::unique_ptr<WorkState>)>& /*visit*/) {}
  /// Drops what has not begun, and has what has begun end soon, done or not. Returns at once.
  virtual void cancel(Work& work) = 0;
  /// After cancel(): returns when nothing that was submitted touches memory any more. The driver waits.
  virtual void quiesce(Work& work) = 0;
  /// What the caller's streams belong to (a CUDA context); null: there are none.
  virtual const void* place() const { return nullptr; }
  /// Which of the caller's streams the handle means in this thread: the same address, the same stream.
  virtual const void* streamOf(const void* handle) const { return handle; }
  /// Whether it would carry this planned Run (see Work::carried), if that is not captured.
  virtual bool carries(const Work& /*work*/) const { return false; }
  /// Runs of one group are about to enter() several streams, these one of them: what they need of other ranks
  /// is asked for now, as those may need this rank's before they go on. Any thread; waits for no call of
  /// theirs, but as enter() does where ranks show memory. Error: as enter().
  virtual Status announce(std::span<Work* const> /*works*/) { return {}; }
  /// Whether enter() may wait for other ranks, and another thread may call it in place of this one. Waits for
  /// nothing.
  virtual bool mayWait(void* /*stream*/, std::span<Work* const> /*works*/) { return false; }
  /// Takes the next place in `stream`, one of the caller's for memory of this kind (a cudaStream_t), for Runs
  /// that begin together; their views have plan and buffers, and their executors the same place(). `reached` is
  /// called once, by any thread, when they may begin: when all that the stream was given before is done, or at
  /// once if advance() waits for that. Any thread; waits for nothing, but, the first time that a call is made
  /// that is carried, for other ranks to make theirs, and for the device's driver and Meeting::fetch(), where
  /// this or another rank has memory to show.
  virtual Result<std::unique_ptr<StreamGate>> enter(void* stream, std::span<Work* const> works,
                                                    std::function<void()> reached) = 0;
  /// Whether Runs like this read an operator's scalar themselves, in the executor's memory, when their turn in
  /// `stream` has come: then Work::scalar is set. Else read() has it for them. Any thread.
  virtual bool takesScalar(Work& /*work*/, void* /*stream*/, const void* /*scalar*/) const { return false; }
  /// Copies some bytes that admit() takes to `to`, such as an operator's scalar, when all that `stream`
  /// was given before is done. By a thread that makes a call; waits for that.
  virtual Status read(void* /*stream*/, void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return {};
  }

  /// Why a lane failed with LaneFault::device.
  virtual Status failure(const Work& work) const = 0;
};

/// What an executor is made with.
struct ExecutorContext {
  /// Has the driver look at its lanes again: to be called when a move has become complete, or has failed. Any
  /// thread, at any time; costs a system call.
  std::function<void()> bell;
  /// Has it ask Executor::anyBegun(). Any thread, at any time.
  std::function<void()> wanted;
  /// A connection of the executor's own, by transport::Connector::get(). By the driver.
  std::function<transport::Connection*(const transport::ConnectionId&)> connection;
  /// That rank has left in order. By the driver.
  std::function<bool(int rank)> hasLeft;
  /// Messages of those connections are sent from this memory, or received into it, until they end. Where a
  /// connection that is ready can have it so, they are not copied there. `dmabuf`: Transport::useMemory()'s.
  /// True: a device knows the memory now, perhaps another one than the connection's. By the driver.
  std::function<bool(const transport::MemoryRange& memory, transport::MemoryFor what, int dmabuf)> usesMemory;
  /// The host's, for one that has lanes run there. Outlives the executor.
  std::shared_ptr<Executor> host;
};

/// A move as the kernels take it, for executors whose memory the processor reaches.
inline kernels::ReduceTask reduceTaskOf(const Work& work, const MoveTask& move) {
  kernels::ReduceTask task;
  task.type = work.type;
  task.op = work.op;
  task.sources = static_cast<uint8_t>(move.sources);
  task.destinations = static_cast<uint8_t>(move.destinations);
  task.streamed = move.streamMask;
  task.claimed = move.claimMask;
  task.count = move.elements;
  for (int i = 0; i < move.sources; ++i) {
    task.source[i] = move.source[i];
    if ((move.preMask >> i & 1) != 0) task.pre[i] = work.pre;
  }
  for (int i = 0; i < move.destinations; ++i) task.destination[i] = move.destination[i];
  if (move.post) task.post = work.post;
  return task;
}

/// Memory of an executor's kind. Owner: a Run, which keeps it for the next call.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { clear(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// Has at least `bytes` from `executor`; what is in it is lost. 0 bytes: leaves everything as it is. Error:
  /// Executor::allocate()'s; it is empty then.
  Status provide(Executor& executor, size_t bytes);
  /// Null if nothing was provided. Valid until provide() or destruction.
  std::byte* data() const { return data_; }

 private:
  /// Returns the memory to its executor.
  void clear();

  std::shared_ptr<Executor> executor_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace eccl::runtime
