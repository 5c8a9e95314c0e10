// Every collective on a GPU's memory against the same call in host memory: the same bits, and nothing written
// beside them. The host's results are held against the oracle by tests/runtime.
#pragma once

#include <array>
#include <cstring>
#include <random>

#include "cuda/ranks.h"
#include "support/sanitizers.h"

namespace eccl::test {

using Bytes = std::vector<unsigned char>;

inline constexpr size_t kGuard = 192;
inline constexpr size_t kSizes[ecclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/// One rank's call: what is passed, as offsets into one buffer each, and how.
struct Shape {
  size_t sendElements, receiveElements;
};

enum class What { allReduce, broadcast, reduce, allGather, reduceScatter, allToAll, gather, scatter, sendRecv };
inline constexpr What kAll[] = {What::allReduce, What::broadcast,     What::reduce,
                                What::allGather, What::reduceScatter, What::allToAll,
                                What::gather,    What::scatter,       What::sendRecv};

inline const char* nameOf(What what) {
  constexpr const char* kNames[] = {"AllReduce", "Broadcast", "Reduce",  "AllGather", "ReduceScatter",
                                    "AlltoAll",  "Gather",    "Scatter", "SendRecv"};
  return kNames[static_cast<int>(what)];
}

struct Case {
  What what;
  ecclDataType_t type;
  ecclRedOp_t op;
  size_t count;
  int root;
  size_t shift = 0;  // bytes from an address that suits every type
  From memory = From::driver;
};

inline Shape shapeOf(const Case& c, int ranks) {
  const size_t all = c.count * static_cast<size_t>(ranks);
  switch (c.what) {
    case What::allGather:
    case What::gather:
      return {c.count, all};
    case What::reduceScatter:
    case What::scatter:
      return {all, c.count};
    case What::allToAll:
      return {all, all};
    default:
      return {c.count, c.count};
  }
}

inline ecclResult_t make(const Case& c, const void* send, void* receive, int rank, int ranks, ecclComm_t comm,
                         ecclStream_t stream) {
  switch (c.what) {
    case What::allReduce:
      return ecclAllReduce(send, receive, c.count, c.type, c.op, comm, stream);
    case What::broadcast:
      return ecclBroadcast(send, receive, c.count, c.type, c.root, comm, stream);
    case What::reduce:
      return ecclReduce(send, receive, c.count, c.type, c.op, c.root, comm, stream);
    case What::allGather:
      return ecclAllGather(send, receive, c.count, c.type, comm, stream);
    case What::reduceScatter:
      return ecclReduceScatter(send, receive, c.count, c.type, c.op, comm, stream);
    case What::allToAll:
      return ecclAlltoAll(send, receive, c.count, c.type, comm, stream);
    case What::gather:
      return ecclGather(send, receive, c.count, c.type, c.root, comm, stream);
    case What::scatter:
      return ecclScatter(send, receive, c.count, c.type, c.root, comm, stream);
    case What::sendRecv:
      ecclGroupStart();
      ecclSend(send, c.count, c.type, (rank + 1) % ranks, comm, stream);
      ecclRecv(receive, c.count, c.type, (rank + ranks - 1) % ranks, comm, stream);
      return ecclGroupEnd();
  }
  return ecclInternalError;
}

inline bool mayBeInPlace(What what) {
  return what != What::allToAll && what != What::sendRecv;
}

/// How a call is made. replayed: it is captured into a graph, which is run some times.
enum class Way { onHost, onDevice, replayed };

/// What all ranks' buffers hold afterwards, first what they send, guards included.
inline std::vector<Bytes> result(Ranks& ranks, const Case& c, bool inPlace, Way way,
                                 const std::vector<Bytes>& sends, const std::vector<Bytes>& receives) {
  std::vector<Bytes> results(sends.size());
  ranks.each([&](int rank) {
    const auto at = static_cast<size_t>(rank);
    const auto call = [&](unsigned char* sends, unsigned char* receives, ecclStream_t stream) {
      const size_t own = at * c.count * kSizes[c.type];
      unsigned char *send = sends + kGuard + c.shift, *receive = receives + kGuard + c.shift;
      if (inPlace && (c.what == What::allGather || c.what == What::gather))
        send = receive + own;
      else if (inPlace && (c.what == What::reduceScatter || c.what == What::scatter))
        receive = send + own;
      else if (inPlace)
        send = receive;
      EXPECT_EQ(make(c, send, receive, rank, ranks.size(), ranks.comm(rank), stream), ecclSuccess)
          << ecclGetLastError(ranks.comm(rank));
    };
    const auto keep = [&](Bytes send, const Bytes& receive) {
      if (!inPlace) { EXPECT_EQ(send, sends[at]) << "the input has changed"; }
      send.insert(send.end(), receive.begin(), receive.end());
      results[at] = std::move(send);
    };
    if (way == Way::onHost) {
      Bytes send = sends[at], receive = receives[at];
      call(send.data(), receive.data(), nullptr);
      keep(std::move(send), receive);
      return;
    }
    const DeviceBuffer<unsigned char> send(sends[at], c.memory), receive(receives[at], c.memory);
    const DeviceStream stream;
    const auto make = [&] { call(send.data(), receive.data(), asStream(stream.native())); };
    if (way == Way::onDevice) {
      make();
      stream.synchronize();
    } else {
      DeviceGraph graph(stream, make);
      ranks.meet();
      for (int run = 0; run < 3; ++run) {
        send.write(sends[at]);
        receive.write(receives[at]);
        graph.launch(stream);
        stream.synchronize();
      }
    }
    // Memory is freed when no stream waits: not before all ranks have made the call.
    ranks.meet();
    keep(send.read(), receive.read());
  });
  return results;
}

/// Of the ranks of this process: the results of random bytes.
inline void compare(Ranks& host, Ranks& device, const Case& c, bool inPlace, Way way = Way::onDevice) {
  std::mt19937 random(static_cast<unsigned>(c.count) * 31 + static_cast<unsigned>(c.type));
  const Shape shape = shapeOf(c, host.size());
  std::vector<Bytes> sends, receives;
  for (int rank = 0; rank < host.size(); ++rank) {
    for (auto& [list, elements] :
         {std::pair(&sends, shape.sendElements), std::pair(&receives, shape.receiveElements)}) {
      Bytes bytes(elements * kSizes[c.type] + 2 * kGuard);
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const uint32_t word = random();
        std::memcpy(&bytes[i], &word, sizeof word);
      }
      list->push_back(std::move(bytes));
    }
  }
  EXPECT_EQ(result(host, c, inPlace, Way::onHost, sends, receives),
            result(device, c, inPlace, way, sends, receives))
      << "collective " << static_cast<int>(c.what) << ", type " << c.type << ", operator " << c.op << ", count "
      << c.count << ", root " << c.root << ", shifted by " << c.shift << (inPlace ? ", in place" : "");
}

/// Short messages and long ones, some of all collectives.
inline void compareSome(Ranks& host, Ranks& device) {
  for (const What what : {What::allReduce, What::allGather, What::allToAll, What::sendRecv, What::reduce}) {
    for (const size_t count : {size_t{1}, size_t{1009}, kSanitized ? size_t{9001} : size_t{70'001}}) {
      compare(host, device, {what, ecclFloat32, ecclSum, count, 1}, false);
      ASSERT_FALSE(::testing::Test::HasFailure()) << nameOf(what) << " of " << count;
    }
  }
}

/// Every collective, with every type, at addresses that suit all types, this one or none.
inline void sweep(Ranks& host, Ranks& device, Way way = Way::onDevice) {
  int number = 0;
  for (const What what : kAll) {
    for (int type = 0; type < ecclNumTypes; ++type, ++number) {
      static constexpr size_t kCounts[] = {1, 1000, 0, 7, 20011};
      const Case c{
          what,
          static_cast<ecclDataType_t>(type),
          static_cast<ecclRedOp_t>(number % ecclNumOps),
          kCounts[(number + number / ecclNumOps) % std::size(kCounts)],
          number % host.size(),
          std::array<size_t, 3>{0, kSizes[type], 1}[static_cast<size_t>(number + number / ecclNumTypes) % 3]};
      compare(host, device, c, false, way);
      if (mayBeInPlace(what)) compare(host, device, c, true, way);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace eccl::test
