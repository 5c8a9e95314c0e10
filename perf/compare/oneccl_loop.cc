// oneCCL in the loop: one rank of a job of Intel MPI, by which it sends.
#include <mpi.h>

#include <exception>
#include <oneapi/ccl.hpp>
#include <optional>
#include <vector>

extern "C" {
#include "loop.h"
}

namespace {

std::optional<ccl::communicator> comm;

void latency(const Task& t, int peer) {
  const auto send = [&] { ccl::send(t.input, t.count, ccl::datatype::float32, peer, *comm).wait(); };
  if (t.rank % 2 == 0) send();
  ccl::recv(t.output, t.count, ccl::datatype::float32, peer, *comm).wait();
  if (t.rank % 2 == 1) send();
}

void bandwidth(const Task& t, int peer) {
  std::vector<ccl::event> events;
  for (int i = 0; i < t.window; ++i) {
    if (t.rank % 2 == 0) {
      events.push_back(ccl::send(t.input, t.count, ccl::datatype::float32, peer, *comm));
    } else {
      events.push_back(ccl::recv(t.output, t.count, ccl::datatype::float32, peer, *comm));
    }
  }
  for (ccl::event& event : events) event.wait();
}

void perform(const Task& t) {
  constexpr auto kType = ccl::datatype::float32;
  constexpr auto kSum = ccl::reduction::sum;
  switch (t.operation) {
    case kAllReduce:
      ccl::allreduce(t.input, t.output, t.count, kType, kSum, *comm).wait();
      break;
    case kAllGather:
      ccl::allgather(t.input, t.output, t.count, kType, *comm).wait();
      break;
    case kReduceScatter:
      ccl::reduce_scatter(t.input, t.output, t.count, kType, kSum, *comm).wait();
      break;
    case kBroadcast:
      ccl::broadcast(t.rank == 0 ? t.input : t.output, t.count, kType, 0, *comm).wait();
      break;
    case kAlltoAll:
      ccl::alltoall(t.input, t.output, t.count, kType, *comm).wait();
      break;
    case kLatency:
      latency(t, t.rank ^ 1);
      break;
    case kBandwidth:
      bandwidth(t, t.rank ^ 1);
      break;
    case kOperations:
      break;
  }
}

// Nothing may be raised through the loop.
void call(const Task* task) {
  try {
    perform(*task);
  } catch (const std::exception& error) { loopFail("oneCCL: %s", error.what()); }
}

ccl::shared_ptr_class<ccl::kvs> meet(int rank) {
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  return rank == 0 ? store : ccl::create_kvs(address);
}

}  // namespace

int main(int argc, char** argv) {
  Loop loop = loopOpen();
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  try {
    ccl::init();
    comm.emplace(ccl::create_communicator(loop.ranks, loop.rank, meet(loop.rank)));
  } catch (const std::exception& error) { loopFail("oneCCL: %s", error.what()); }
  const Contender contender = {.allocate = loopAllocate, .release = loopRelease, .call = call};
  loopRun(&loop, &contender);
  comm.reset();
  MPI_Finalize();
  return 0;
}
