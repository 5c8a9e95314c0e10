#include "common/communicators.h"

#include <functional>
#include <thread>

namespace eccl::perf {
namespace {

// Runs task(0) .. task(count-1), each in a thread of its own when there are several; the first error counts.
Outcome atTheSameTime(int count, const std::function<Outcome(int)>& task) {
  if (count == 1) return task(0);
  std::vector<Outcome> outcomes(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { outcomes[i] = task(i); });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) TOOLS_TRY(outcome);
  return {};
}

// Calls `each` for first .. first+count-1, as one group when there are several: from one thread, one
// rank's call would otherwise wait for the next one's.
Outcome asGroup(int first, int count, const char* what, const std::function<ecclResult_t(int)>& each) {
  const auto name = [&](int i) { return formatted("%s on local rank %d", what, i); };
  if (count == 1) return Outcome::library(each(first), nullptr, name(first));
  TOOLS_TRY(Outcome::library(ecclGroupStart(), nullptr, "ecclGroupStart"));
  Outcome outcome;
  for (int i = first; i < first + count && outcome.ok(); ++i)
    outcome = Outcome::library(each(i), nullptr, name(i));
  const Outcome ended = Outcome::library(ecclGroupEnd(), nullptr, formatted("ecclGroupEnd after %s", what));
  return outcome.ok() ? ended : outcome;
}

}  // namespace

Communicators::Communicators(const tools::Place& place) : place_(place), world_(place.perProcess, nullptr) {}

Communicators::~Communicators() {
  abort();
}

Outcome Communicators::join(const ecclUniqueId& id, bool parallel) {
  const int groups = parallel ? place_.threads : 1;
  const int size = place_.perProcess / groups;
  return atTheSameTime(groups, [&](int group) {
    return asGroup(group * size, size, "ecclCommInitRank", [&](int i) {
      return ecclCommInitRank(&world_[i], place_.nranks(), id, place_.firstRank() + i);
    });
  });
}

Outcome Communicators::splitWorld(int (*colorOf)(int, int), int color, std::vector<ecclComm_t>* result) {
  result->assign(world_.size(), nullptr);
  return asGroup(0, place_.perProcess, "ecclCommSplit", [&](int i) {
    return ecclCommSplit(world_[i], colorOf(i, color), place_.firstRank() + i, &(*result)[i], nullptr);
  });
}

// Small on purpose: a barrier between timed iterations should cost as little as it can.
Outcome Communicators::makeSide() {
  std::vector<ecclComm_t> side;
  const Outcome outcome = splitWorld([](int i, int) { return i == 0 ? 0 : ECCL_SPLIT_NOCOLOR; }, 0, &side);
  side_ = side.front();
  return outcome;
}

Outcome Communicators::split(int color) {
  return splitWorld([](int, int given) { return given; }, color, &groups_);
}

// Destroying waits for the other ranks of the communicator, some of which are in this process.
Outcome Communicators::destroy() {
  if (ended_.exchange(true)) return {};
  if (side_ != nullptr)
    TOOLS_TRY(Outcome::library(ecclCommDestroy(side_), nullptr, "ecclCommDestroy of the side communicator"));
  for (const std::vector<ecclComm_t>& comms : {groups_, world_}) {
    if (comms.empty()) continue;
    TOOLS_TRY(atTheSameTime(static_cast<int>(comms.size()), [&](int i) {
      return Outcome::library(ecclCommDestroy(comms[i]), nullptr,
                              formatted("ecclCommDestroy of local rank %d", i));
    }));
  }
  return {};
}

void Communicators::abort() {
  if (ended_.exchange(true)) return;
  if (side_ != nullptr) static_cast<void>(ecclCommAbort(side_));  // an abort that fails leaves nothing to try
  for (const std::vector<ecclComm_t>& comms : {groups_, world_})
    for (ecclComm_t comm : comms)
      if (comm != nullptr) static_cast<void>(ecclCommAbort(comm));
}

}  // namespace eccl::perf
