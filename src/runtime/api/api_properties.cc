// The C API: what a communicator is.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "runtime/api/handles.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

/// A function of a communicator that is made, suspended or not, which writes one thing: `look` gives it.
template <class Value, class Look>
ecclResult_t query(const char* function, const char* name, ecclComm_t comm, Value* value, Look&& look) {
  return apiCall(function, comm, [&](CommunicatorUse& use) -> Status {
    if (value == nullptr) return Status::error(Code::invalidArgument, "%s: %s is NULL", function, name);
    ECCL_TRY(use->communicator->made());
    return look(*use->communicator);
  });
}

int deviceOf(const Communicator& communicator) {
  return communicator.device() != nullptr ? communicator.device()->number() : -1;
}

Status exportTopology(const Communicator& communicator, char* text, size_t* size) {
  ECCL_ASSIGN(const std::string json, communicator.topology());
  const size_t has = std::exchange(*size, json.size() + 1);
  if (text == nullptr) return {};
  if (has < *size)
    return Status::error(Code::invalidArgument, "ecclTopologyExport: the text needs %zu bytes, not %zu", *size,
                         has);
  std::memcpy(text, json.c_str(), *size);
  return {};
}

Status properties(const Communicator& communicator, ecclCommProperties_t* to) {
  if (to->magic != ECCL_CONFIG_MAGIC || to->size < offsetof(ecclCommProperties_t, nLsaTeams)) {
    return Status::error(
        Code::invalidArgument,
        "ecclCommQueryProperties: properties were not filled with ECCL_COMM_PROPERTIES_INITIALIZER");
  }
  ecclCommProperties_t found;
  std::memset(&found, 0, sizeof found);
  std::memcpy(&found, to, offsetof(ecclCommProperties_t, rank));
  found.rank = communicator.rank();
  found.nRanks = found.nLsaTeams = communicator.ranks();
  found.cudaDev = deviceOf(communicator);
  found.nvmlDev = -1;
  std::memcpy(to, &found, std::min(to->size, sizeof found));
  return {};
}

Status memory(const Communicator& communicator, ecclCommMemStat_t stat, uint64_t* value) {
  const bool asksState = stat == ecclStatGpuMemSuspended;
  if (stat < ecclStatGpuMemSuspend || stat > ecclStatGpuMemTotal)
    return Status::error(Code::invalidArgument, "ecclCommMemStats: there is no statistic %d; there are 0 to 3",
                         stat);
  if (deviceOf(communicator) >= 0 && !asksState) {
    return Status::error(
        Code::invalidUsage,
        "ecclCommMemStats: the memory that ECCL has on GPUs is not counted; ecclStatGpuMemSuspended "
        "can be asked for");
  }
  *value = asksState && communicator.state() == Communicator::State::suspended;
  return {};
}

}  // namespace

ecclResult_t ecclCommCount(ecclComm_t comm, int* count) {
  return query("ecclCommCount", "count", comm, count,
               [&](const Communicator& of) { return *count = of.ranks(), Status(); });
}

ecclResult_t ecclCommCuDevice(ecclComm_t comm, int* device) {
  return query("ecclCommCuDevice", "device", comm, device,
               [&](const Communicator& of) { return *device = deviceOf(of), Status(); });
}

ecclResult_t ecclCommUserRank(ecclComm_t comm, int* rank) {
  return query("ecclCommUserRank", "rank", comm, rank,
               [&](const Communicator& of) { return *rank = of.rank(), Status(); });
}

ecclResult_t ecclCommQueryProperties(ecclComm_t comm, ecclCommProperties_t* to) {
  return query("ecclCommQueryProperties", "properties", comm, to,
               [&](const Communicator& of) { return properties(of, to); });
}

ecclResult_t ecclCommMemStats(ecclComm_t comm, ecclCommMemStat_t stat, uint64_t* value) {
  return query("ecclCommMemStats", "value", comm, value,
               [&](const Communicator& of) { return memory(of, stat, value); });
}

ecclResult_t ecclTopologyExport(ecclComm_t comm, char* text, size_t* size) {
  return query("ecclTopologyExport", "size", comm, size,
               [&](const Communicator& of) { return exportTopology(of, text, size); });
}
