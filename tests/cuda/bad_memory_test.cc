// Memory of another kind than the communicator's, in every call: it is refused by name, and nothing has
// happened.
#include "cuda/ranks.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kElements = 100;
constexpr size_t kElementsOfEach[] = {kElements, kElements}, kPlacesOfEach[] = {0, kElements};

/// A call of one of two ranks, which sends from, or receives to, memory that may be bad.
struct BadCall {
  const char* name;
  bool sends, receives;
  std::function<ecclResult_t(const int* send, int* receive, ecclComm_t comm, ecclStream_t stream)> make;
};
const std::vector<BadCall>& badCalls() {
  constexpr auto kType = ecclInt32;
  static const auto* const all = new std::vector<BadCall>{
      {"AllReduce", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclAllReduce(s, r, kElements, kType, ecclSum, c, at); }},
      {"Broadcast", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclBroadcast(s, r, kElements, kType, 0, c, at); }},
      {"Broadcast", true, false,
       [](auto* s, auto*, auto c, auto at) {
         return ecclBcast(const_cast<int*>(s), kElements, kType, 0, c, at);
       }},
      {"Reduce", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclReduce(s, r, kElements, kType, ecclSum, 0, c, at); }},
      {"AllGather", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclAllGather(s, r, kElements, kType, c, at); }},
      {"ReduceScatter", true, true,
       [](auto* s, auto* r, auto c, auto at) {
         return ecclReduceScatter(s, r, kElements, kType, ecclSum, c, at);
       }},
      {"AlltoAll", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclAlltoAll(s, r, kElements, kType, c, at); }},
      {"Gather", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclGather(s, r, kElements, kType, 0, c, at); }},
      {"Scatter", true, true,
       [](auto* s, auto* r, auto c, auto at) { return ecclScatter(s, r, kElements, kType, 0, c, at); }},
      {"AlltoAllv", true, true,
       [](auto* s, auto* r, auto c, auto at) {
         return ecclAlltoAllv(s, kElementsOfEach, kPlacesOfEach, r, kElementsOfEach, kPlacesOfEach, kType, c,
                              at);
       }},
      {"AllGatherv", true, true,
       [](auto* s, auto* r, auto c, auto at) {
         return ecclAllGatherv(s, kElements, r, kElementsOfEach, kPlacesOfEach, kType, c, at);
       }},
      {"ReduceScatterv", true, true,
       [](auto* s, auto* r, auto c, auto at) {
         return ecclReduceScatterv(s, r, kElementsOfEach, kType, ecclSum, c, at);
       }},
      {"Send", true, false,
       [](auto* s, auto*, auto c, auto at) { return ecclSend(s, kElements, kType, 1, c, at); }},
      {"Recv", false, true,
       [](auto*, auto* r, auto c, auto at) { return ecclRecv(r, kElements, kType, 1, c, at); }},
  };
  return *all;
}

/// Of communicators of each kind, the host's as well: askFor().
class BadMemory : public test::CudaTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static bool onHost() { return std::string_view(GetParam()) == "host"; }
  ecclComm_t comm() { return ranks_.comm(0); }

  /// `wrong`: what is said of the memory.
  void isRefused(void* bad, void* good, const char* wrong) {
    const DeviceStream native;
    const ecclStream_t stream = onHost() ? nullptr : asStream(native.native());
    for (const BadCall& call : badCalls()) {
      for (const bool sends : {true, false}) {
        if (sends ? !call.sends : !call.receives) continue;
        for (const bool inGroup : {false, true}) {
          const auto* const send = static_cast<const int*>(sends ? bad : good);
          auto* const receive = static_cast<int*>(sends ? good : bad);
          if (inGroup) ecclGroupStart();
          ecclResult_t result = call.make(send, receive, comm(), stream);
          if (inGroup) {
            const ecclResult_t end = ecclGroupEnd();
            if (result == ecclSuccess) result = end;
          }
          EXPECT_EQ(result, ecclInvalidArgument) << call.name << sends << inGroup;
          EXPECT_THAT(ecclGetLastError(comm()),
                      AllOf(HasSubstr(std::string(call.name) + " on rank 0: the "),
                            HasSubstr(sends ? "send buffer 0x" : "receive buffer 0x"), HasSubstr(wrong)));
        }
      }
    }
    ecclRedOp_t op;
    ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, bad, ecclInt32, ecclScalarDevice, comm()), ecclSuccess);
    EXPECT_EQ(ecclAllReduce(good, good, kElements, ecclInt32, op, comm(), stream), ecclInvalidArgument);
    EXPECT_THAT(ecclGetLastError(comm()),
                AllOf(HasSubstr("AllReduce on rank 0: the operator's scalar 0x"), HasSubstr(wrong)));
    EXPECT_EQ(ecclRedOpDestroy(op, comm()), ecclSuccess);
  }

  Ranks ranks_{2, GetParam()};
};

TEST_P(BadMemory, IsRefusedInEveryCall) {
  const std::vector<int> twos(2 * kElements, 2);
  const DeviceBuffer<int> device(twos), more(twos);
  std::vector<int> host = twos, beside = twos;
  const char* const ofGpu = "is memory of a GPU, and this communicator takes the host's only";
  if (onHost())
    isRefused(device.data(), host.data(), ofGpu);
  else
    isRefused(host.data(), device.data(), "is host memory that CUDA does not know");
  if (Cuda::get().emulated()) {  // a real driver may have given the addresses out again
    void* freed = nullptr;
    {
      const DeviceBuffer<int> gone(twos);
      freed = gone.data();
    }
    if (!onHost()) isRefused(freed, device.data(), "or was freed");
    Cuda::get().use(1);
    const DeviceBuffer<int> other(twos);
    Cuda::get().use(0);
    if (onHost())
      isRefused(other.data(), host.data(), ofGpu);
    else
      isRefused(other.data(), device.data(),
                "is memory of CUDA device 1, and the communicator is for CUDA device 0");
  }
  // The refused calls have no numbers: these meet.
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(twos);
    std::vector<int> its = twos;
    void* const used = onHost() ? static_cast<void*>(its.data()) : data.data();
    EXPECT_EQ(ecclAllReduce(used, used, kElements, ecclInt32, ecclSum, ranks_.comm(rank),
                            onHost() ? nullptr : asStream(stream.native())),
              ecclSuccess);
    stream.synchronize();
    EXPECT_EQ((onHost() ? its : data.read())[kElements - 1], 4);
  });
}

// What cudaMallocHost gives, both can read.
TEST_P(BadMemory, PinnedMemoryIsGoodForBoth) {
  void* pinned = nullptr;
  Cuda::need(Cuda::get().cuMemHostAlloc(&pinned, sizeof(int), test::cu::kHostPortable | test::cu::kHostMapped),
             "cuMemHostAlloc");
  *static_cast<int*>(pinned) = 3;
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kElements, 2));
    std::vector<int> its(kElements, 2);
    ecclRedOp_t op;
    ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, pinned, ecclInt32, ecclScalarDevice, ranks_.comm(rank)),
              ecclSuccess);
    void* const used = onHost() ? static_cast<void*>(its.data()) : data.data();
    EXPECT_EQ(ecclAllReduce(used, used, kElements, ecclInt32, op, ranks_.comm(rank),
                            onHost() ? nullptr : asStream(stream.native())),
              ecclSuccess)
        << ecclGetLastError(ranks_.comm(rank));
    stream.synchronize();
    EXPECT_EQ((onHost() ? its : data.read())[kElements - 1], 12);
  });
}

INSTANTIATE_TEST_SUITE_P(All, BadMemory, ::testing::Values("cuda", "lanes", "host"));

}  // namespace
}  // namespace eccl
