#include "measured_calls.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/status.h"

namespace eccl::topo {
namespace {

using tools::Outcome;

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double at(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

double MeasuredCall::median() const {
  return std::max(0.0, at(rounds, 0.5));
}

double MeasuredCall::spread() const {
  return median() > 0 ? (at(rounds, 0.75) - at(rounds, 0.25)) / median() : 0;
}

Ranks::Ranks(ecclComm_t world, int rank, int ranks, size_t mostBytes, bool registered, double sample)
    : world_(world),
      rank_(rank),
      ranks_(ranks),
      mostBytes_(mostBytes),
      registered_(registered),
      sample_(sample) {}

Ranks::~Ranks() {
  for (char* buffer : buffers_) {
    if (registered_)
      static_cast<void>(ecclMemFree(buffer));
    else
      std::free(buffer);
  }
}

Outcome Ranks::allocate() {
  for (char*& buffer : buffers_) {
    if (buffer != nullptr) continue;
    if (registered_) {
      void* memory = nullptr;
      TOOLS_TRY(Outcome::library(ecclMemAlloc(&memory, mostBytes_), nullptr, "ecclMemAlloc"));
      buffer = static_cast<char*>(memory);
    } else if ((buffer = static_cast<char*>(std::aligned_alloc(4096, (mostBytes_ + 4095) / 4096 * 4096))) ==
               nullptr) {
      return Outcome::error(tools::Exit::system, "%zu bytes of memory are too much; see --max", mostBytes_);
    }
    std::memset(buffer, 0, mostBytes_);
  }
  return {};
}

Outcome Ranks::agree(double* value) {
  return Outcome::library(ecclAllReduce(value, value, 1, ecclFloat64, ecclMax, world_, nullptr), world_,
                          "ecclAllReduce");
}

/// The library reads ECCL_ALGO when a communicator is made.
Outcome Ranks::join(const std::string& algorithms, ecclComm_t* comm) {
  ecclUniqueId id{};
  if (rank_ == 0) TOOLS_TRY(Outcome::library(ecclGetUniqueId(&id), nullptr, "ecclGetUniqueId"));
  TOOLS_TRY(Outcome::library(ecclBcast(&id, sizeof id, ecclUint8, 0, world_, nullptr), world_, "ecclBcast"));
  setenv("ECCL_ALGO", algorithms.c_str(), 1);
  const ecclResult_t joined = ecclCommInitRank(comm, ranks_, id, rank_);
  unsetenv("ECCL_ALGO");
  return Outcome::library(joined, nullptr, "ecclCommInitRank");
}

/// As programs do, who have just computed what they send: it is in this rank's caches and in nobody else's.
void Ranks::writeInput(size_t bytes) {
  constexpr size_t kCacheLine = 64;
  const float value = static_cast<float>(++written_ % 1000);
  for (size_t at = 0; at + sizeof value <= bytes; at += kCacheLine)
    std::memcpy(buffers_[0] + at, &value, sizeof value);
}

/// From when a rank makes the call, all having met, until the last one has its result: the median of many.
Outcome Ranks::time(ecclComm_t comm, const Call& call, size_t inputBytes, double* microseconds) {
  std::vector<double> samples(2);  // the first calls make connections, and tell how many calls are enough
  for (bool enough = false; !enough;) {
    enough = samples.size() > 2;
    for (double& sample : samples) {
      writeInput(inputBytes);
      TOOLS_TRY(Outcome::library(ecclBarrier(comm, nullptr), comm, "ecclBarrier"));
      const double begun = now();
      TOOLS_TRY(Outcome::library(call(), comm, "the call that is measured"));
      sample = now() - begun;
    }
    TOOLS_TRY(Outcome::library(
        ecclAllReduce(samples.data(), samples.data(), samples.size(), ecclFloat64, ecclMax, world_, nullptr),
        world_, "ecclAllReduce"));
    *microseconds = at(samples, 0.5);
    if (!enough) samples.resize(static_cast<size_t>(std::clamp(sample_ / samples.back(), 3.0, 3000.0)));
  }
  return {};
}

Outcome Ranks::links(std::vector<MeasuredLink>* links) {
  constexpr size_t kShort = 8, kLong = size_t{4} << 20;
  TOOLS_TRY(allocate());
  for (int from = 0; from < ranks_; ++from) {
    for (int to = from + 1; to < ranks_; ++to) {
      MeasuredLink found{from, to, 0, 0};
      double microseconds = 0;
      TOOLS_TRY(link(from, to, kShort, true, &found.microseconds));
      found.microseconds /= 2;
      const size_t bytes = std::min(kLong, mostBytes_);
      TOOLS_TRY(link(from, to, bytes, false, &microseconds));
      found.gigabytes = static_cast<double>(bytes) / 1e3 / microseconds;
      links->push_back(found);
    }
  }
  return {};
}

/// Microseconds of one message, or of one there and one back. The others wait.
Outcome Ranks::link(int from, int to, size_t bytes, bool andBack, double* microseconds) {
  *microseconds = 0;
  TOOLS_TRY(Outcome::library(ecclBarrier(world_, nullptr), world_, "ecclBarrier"));
  if (rank_ == from || rank_ == to) {
    auto send = [&](int peer) {
      return Outcome::library(ecclSend(buffers_[0], bytes, ecclUint8, peer, world_, nullptr), world_,
                              "ecclSend");
    };
    auto receive = [&](int peer) {
      return Outcome::library(ecclRecv(buffers_[1], bytes, ecclUint8, peer, world_, nullptr), world_,
                              "ecclRecv");
    };
    auto once = [&]() -> Outcome {
      if (rank_ == from) {
        TOOLS_TRY(send(to));
        return andBack ? receive(to) : Outcome();
      }
      TOOLS_TRY(receive(from));
      return andBack ? send(from) : Outcome();
    };
    const int times = andBack ? 200 : 20;
    std::vector<double> samples;
    for (int sample = -1; sample < 5; ++sample) {  // the first makes connections
      const double begun = now();
      for (int i = 0; i < times; ++i) TOOLS_TRY(once());
      // Only when the last message has come is the time of the others right.
      if (!andBack) TOOLS_TRY(rank_ == from ? receive(to) : send(from));
      if (sample >= 0) samples.push_back((now() - begun) / times);
    }
    *microseconds = at(samples, 0.5);
  }
  return agree(microseconds);
}

Ranks::Call Ranks::callOf(const MeasuredCall& call, ecclComm_t comm) const {
  const char* in = buffers_[0];
  char* out = buffers_[1];
  const size_t count = call.blockBytes / sizeof(float);
  switch (call.algorithm->collective) {
    case Collective::allReduce:
      return [=] { return ecclAllReduce(in, out, count, ecclFloat32, ecclSum, comm, nullptr); };
    case Collective::allGather:
      return [=] { return ecclAllGather(in, out, count, ecclFloat32, comm, nullptr); };
    case Collective::reduceScatter:
      return [=] { return ecclReduceScatter(in, out, count, ecclFloat32, ecclSum, comm, nullptr); };
    case Collective::broadcast:
      return [=] { return ecclBroadcast(in, out, count, ecclFloat32, 0, comm, nullptr); };
    case Collective::reduce:
      return [=] { return ecclReduce(in, out, count, ecclFloat32, ecclSum, 0, comm, nullptr); };
    case Collective::gather:
      return [=] { return ecclGather(in, out, count, ecclFloat32, 0, comm, nullptr); };
    case Collective::scatter:
      return [=] { return ecclScatter(in, out, count, ecclFloat32, 0, comm, nullptr); };
    case Collective::allToAll:
      return [=] { return ecclAlltoAll(in, out, count, ecclFloat32, comm, nullptr); };
    default:
      return nullptr;
  }
}

/// A communicator has one algorithm for each collective, as ECCL_ALGO allows. All of them are there at once, so
/// that algorithms for the same call are measured one right after the other.
Outcome Ranks::round(std::vector<MeasuredCall>* calls) {
  TOOLS_TRY(allocate());
  std::vector<std::map<Collective, const algorithms::Algorithm*>> sets;
  std::map<const algorithms::Algorithm*, size_t> setOf;
  for (const MeasuredCall& call : *calls) {
    if (setOf.count(call.algorithm) > 0) continue;
    size_t set = 0;
    while (set < sets.size() && sets[set].count(call.algorithm->collective) > 0) ++set;
    if (set == sets.size()) sets.emplace_back();
    sets[set][call.algorithm->collective] = call.algorithm;
    setOf[call.algorithm] = set;
  }
  std::vector<ecclComm_t> comms(sets.size());
  for (size_t set = 0; set < sets.size(); ++set) {
    std::string names;
    for (const auto& [collective, algorithm] : sets[set])
      names += format("%s%s:%s", names.empty() ? "" : ",", nameOf(collective), algorithm->name);
    TOOLS_TRY(join(names, &comms[set]));
  }
  for (MeasuredCall& call : *calls) {
    const ecclComm_t comm = comms[setOf[call.algorithm]];
    const algorithms::CollectiveShape shape{call.algorithm->collective, ranks_, 0};
    const size_t inputBytes = static_cast<size_t>(shape.input(rank_).number) * call.blockBytes;
    TOOLS_TRY(time(comm, callOf(call, comm), inputBytes, &call.rounds.emplace_back()));
  }
  for (ecclComm_t comm : comms) TOOLS_TRY(Outcome::library(ecclCommDestroy(comm), nullptr, "ecclCommDestroy"));
  return {};
}

}  // namespace eccl::topo
