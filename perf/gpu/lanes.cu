// One thread of a block advances the lane, all of them make its moves. Both ranks sum what both have: send
// the own part, receive the other's, add.
#include "limits.cuh"
#include "program/interpreter.h"

namespace eccl::gpu {
namespace {

#define RUNTIME(call)                                                            \
  do {                                                                           \
    if (cudaError_t code = (call); code != cudaSuccess) {                        \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(code)); \
      std::exit(1);                                                              \
    }                                                                            \
  } while (false)

constexpr int kThreads = 512;
constexpr RingShape kRing{8, 131072};

/// All of both ranks that the kernel needs, in device memory. Blocks [0, lanes) are rank 0's.
struct Job {
  RunView* runs;
  int32_t lanes;
  uint32_t first;  // the signature of the first of `calls`
  uint32_t calls;  // of these, one after the other
  uint32_t* faults;
};

struct Order {
  MoveTask task;
  bool end;
};

/// Not __syncthreads(): the leader and the others of its warp meet from different places.
__device__ void meet() {
  asm volatile("barrier.sync 0;" ::: "memory");
}

__device__ void make(const MoveTask& task) {
  const auto addresses = reinterpret_cast<uintptr_t>(task.source[0]) |
                         reinterpret_cast<uintptr_t>(task.source[task.sources - 1]) |
                         reinterpret_cast<uintptr_t>(task.destination[0]) | task.elements * sizeof(float);
  if (addresses % 16 == 0) {
    for (uint64_t i = threadIdx.x; i < task.elements / 4; i += blockDim.x) {
      float4 sum = reinterpret_cast<const float4*>(task.source[0])[i];
      for (int s = 1; s < task.sources; ++s) {
        const float4 more = reinterpret_cast<const float4*>(task.source[s])[i];
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
      }
      for (int d = 0; d < task.destinations; ++d) reinterpret_cast<float4*>(task.destination[d])[i] = sum;
    }
  } else {
    for (uint64_t i = threadIdx.x; i < task.elements; i += blockDim.x) {
      float sum = reinterpret_cast<const float*>(task.source[0])[i];
      for (int s = 1; s < task.sources; ++s) sum += reinterpret_cast<const float*>(task.source[s])[i];
      for (int d = 0; d < task.destinations; ++d) reinterpret_cast<float*>(task.destination[d])[i] = sum;
    }
  }
}

/// The interpreter's device: the leader gives an order, the block carries it out.
struct BlockMoves {
  static constexpr bool kCompletesInSubmit = true;
  Order& order;
  __device__ bool submit(int32_t, const MoveTask& task) {
    order.task = task;
    meet();
    make(order.task);
    meet();
    return true;
  }
};

__global__ void __launch_bounds__(kThreads, 1) runLanes(Job job) {
  __shared__ Order order;
  __shared__ RunView run;
  const int32_t lane = static_cast<int32_t>(blockIdx.x) % job.lanes;
  if (threadIdx.x == 0) {
    run = job.runs[blockIdx.x / job.lanes];
    order.end = false;
    BlockMoves moves{order};
    for (uint32_t call = 0; call < job.calls; ++call) {
      run.signature = job.first + call;
      run.lanes[lane] = LaneState{};
      for (LaneAnswer answer{}; answer != LaneAnswer::done;) {
        answer = advance(run, lane, 1 << 20, moves);
        if (answer == LaneAnswer::failed) {
          atomicAdd(job.faults, 1);
          break;
        }
      }
    }
    order.end = true;
    meet();
    return;
  }
  for (;;) {
    meet();
    if (order.end) return;
    make(order.task);
    meet();
  }
}

/// Device memory that is made on the host first.
class Arena {
 public:
  Arena() : host_(kBytes) { RUNTIME(cudaMalloc(&device_, kBytes)); }
  ~Arena() { cudaFree(device_); }
  template <class T>
  T* put(const T* values, size_t count) {
    used_ = (used_ + 63) / 64 * 64;
    std::memcpy(host_.data() + used_, values, count * sizeof(T));
    T* const at = reinterpret_cast<T*>(device_ + used_);
    used_ += count * sizeof(T);
    return at;
  }
  void upload() { RUNTIME(cudaMemcpy(device_, host_.data(), used_, cudaMemcpyHostToDevice)); }

 private:
  static constexpr size_t kBytes = 4 << 20;
  char* device_ = nullptr;
  std::vector<char> host_;
  size_t used_ = 0;
};

/// An exchange of `count` floats between two ranks, in `lanes` parts.
class Exchange {
 public:
  Exchange(int lanes, uint64_t count, bool direct) : lanes_(lanes), count_(count) {
    const size_t ring = (kRing.bytes() + 4095) / 4096 * 4096, rings = 2 * static_cast<size_t>(lanes);
    RUNTIME(cudaMalloc(&rings_, ring * rings));
    std::vector<char> formatted(ring * rings);
    for (size_t i = 0; i < rings; ++i) formatRing(formatted.data() + i * ring, kRing, 0);
    RUNTIME(cudaMemcpy(rings_, formatted.data(), formatted.size(), cudaMemcpyHostToDevice));
    RunView runs[2];
    for (int rank : {0, 1}) runs[rank] = makeRank(rank, ring, direct);
    const uint32_t none = 0;
    job_ = {arena_.put(runs, 2), lanes, 1, 1, arena_.put(&none, 1)};
    arena_.upload();
  }
  ~Exchange() {
    cudaFree(rings_);
    for (int rank : {0, 1}) cudaFree(in_[rank]), cudaFree(out_[rank]);
  }
  void launch(uint32_t calls, cudaStream_t stream) {
    job_.calls = calls;
    void* arguments[] = {&job_};
    RUNTIME(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(runLanes), dim3(2 * lanes_), dim3(kThreads),
                                        arguments, 0, stream));
  }
  /// Microseconds for one of `calls`.
  double time(uint32_t calls) {
    launch(calls, nullptr);
    RUNTIME(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    launch(calls, nullptr);
    RUNTIME(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
  }
  bool right() {
    std::vector<float> sums(count_);
    uint32_t faults = 0;
    RUNTIME(cudaMemcpy(&faults, job_.faults, 4, cudaMemcpyDeviceToHost));
    bool all = faults == 0;
    for (int rank : {0, 1}) {
      RUNTIME(cudaMemcpy(sums.data(), out_[rank], count_ * 4, cudaMemcpyDeviceToHost));
      for (uint64_t i = 0; i < count_; ++i) all &= sums[i] == static_cast<float>(2 * (i % 1009) + 1);
    }
    return all;
  }

 private:
  RunView makeRank(int rank, size_t ring, bool direct) {
    std::vector<Lane> lanes;
    std::vector<Step> steps;
    std::vector<Operand> operands;
    std::vector<SendEnd*> senders;
    std::vector<ReceiveEnd*> receivers;
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      Operand mine, out, to, from;
      mine.part.base = out.part.base = lane;
      mine.stable = true;
      out.space = Space::output;
      to.space = from.space = Space::connection;
      to.index.base = 2 * lane;
      from.index.base = 2 * lane + 1;
      lanes.push_back({2 * lane, 2, lane});
      Step send, add;
      send.firstOperand = static_cast<int32_t>(operands.size());
      send.sources = send.destinations = 1;
      add.firstOperand = send.firstOperand + 2;
      add.sources = 2;
      add.destinations = 1;
      steps.insert(steps.end(), {send, add});
      operands.insert(operands.end(), {mine, to, mine, from, out});
      SendEnd sender;
      ReceiveEnd receiver;
      const auto at = [&](int sends) { return rings_ + ring * static_cast<size_t>(2 * lane + sends); };
      attachRing(sender, at(rank), kRing, 0, 1);
      attachRing(receiver, at(1 - rank), kRing, 0, 1);
      if (direct) {
        sender.mine = sender.theirs = receiver.mine = receiver.theirs = kOwnAddressSpace;
        sender.directFrom = receiver.directFrom = 1024;
      }
      senders.insert(senders.end(), {arena_.put(&sender, 1), nullptr});
      receivers.insert(receivers.end(), {nullptr, arena_.put(&receiver, 1)});
    }
    PlanView plan;
    plan.lanes = arena_.put(lanes.data(), lanes.size());
    plan.steps = arena_.put(steps.data(), steps.size());
    plan.operands = arena_.put(operands.data(), operands.size());
    plan.senders = arena_.put(senders.data(), senders.size());
    plan.receivers = arena_.put(receivers.data(), receivers.size());
    plan.maps[0] = plan.maps[1] = {0, 1, 1};
    plan.elementBytes = 4;
    plan.blockElements = count_;
    plan.partition = {lanes_, 4, kRing.slotBytes / 4};
    plan.tiles = plan.partition.tiles(count_);
    std::vector<float> values(count_);
    for (uint64_t i = 0; i < count_; ++i)
      values[i] = static_cast<float>(i % 1009 + static_cast<uint64_t>(rank));
    RUNTIME(cudaMalloc(&in_[rank], count_ * 4));
    RUNTIME(cudaMalloc(&out_[rank], count_ * 4));
    RUNTIME(cudaMemcpy(in_[rank], values.data(), count_ * 4, cudaMemcpyHostToDevice));
    RunView run;
    run.plan = arena_.put(&plan, 1);
    run.buffers[0] = in_[rank];
    run.buffers[1] = out_[rank];
    const std::vector<LaneState> states(static_cast<size_t>(lanes_));
    run.lanes = arena_.put(states.data(), states.size());
    return run;
  }

  const int lanes_;
  const uint64_t count_;
  Arena arena_;
  char* rings_ = nullptr;
  std::byte *in_[2] = {}, *out_[2] = {};
  Job job_{};
};

/// Microseconds from launch to launch of a graph that holds one call, or of the call itself.
double timeReplays(Exchange& exchange, bool graph) {
  constexpr int kTimes = 1000;
  cudaStream_t stream;
  cudaGraph_t made;
  cudaGraphExec_t replay;
  RUNTIME(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  RUNTIME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  exchange.launch(1, stream);
  RUNTIME(cudaStreamEndCapture(stream, &made));
  RUNTIME(cudaGraphInstantiate(&replay, made, 0));
  std::chrono::steady_clock::time_point start;
  for (int i = -100; i < kTimes; ++i) {
    if (i == 0) {
      RUNTIME(cudaStreamSynchronize(stream));
      start = std::chrono::steady_clock::now();
    }
    if (graph)
      RUNTIME(cudaGraphLaunch(replay, stream));
    else
      exchange.launch(1, stream);
  }
  RUNTIME(cudaStreamSynchronize(stream));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kTimes;
}

}  // namespace

bool measureLanes() {
  cudaFuncAttributes attributes;
  RUNTIME(cudaFuncGetAttributes(&attributes, runLanes));
  std::printf("lane kernel: %d registers, %zu bytes of local memory, %zu of shared\n", attributes.numRegs,
              attributes.localSizeBytes, attributes.sharedSizeBytes);
  bool right = true;
  for (uint64_t bytes : {8u, 4096u, 131072u}) {
    Exchange exchange(1, bytes / 4, false);
    const double inKernel = exchange.time(1000), graph = timeReplays(exchange, true),
                 eager = timeReplays(exchange, false);
    const bool sums = exchange.right();
    right &= sums;
    std::printf(
        "  %6lu bytes, one lane: %.2f us in the kernel, %.2f us by graph replay, %.2f us by launches; sums "
        "%s\n",
        bytes, inKernel, graph, eager, sums ? "right" : "WRONG");
  }
  for (bool direct : {false, true}) {
    for (int lanes : {1, 2, 4, 8, 16, 32, 64}) {
      Exchange exchange(lanes, (64 << 20) / 4, direct);
      const double time = exchange.time(4);
      const bool sums = exchange.right();
      right &= sums;
      std::printf("  64 MiB, %2d lanes for each rank, %s: %7.1f GB/s each; sums %s\n", lanes,
                  direct ? "in place" : "by slots", (64 << 20) / time / 1e3, sums ? "right" : "WRONG");
    }
  }
  return right;
}

}  // namespace eccl::gpu
