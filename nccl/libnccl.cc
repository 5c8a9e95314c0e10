// The functions of libnccl.so.2 (nccl_functions.h). Each is `pncclX`, and `ncclX` is a weak name for it, so
// that a tool can take the place of the one and call the other.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "eccl/eccl.h"
#include "nccl.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// The level of the functions that are here.
constexpr int kVersion = 23007;

/// This thread's latest failure: whether it is of a function that is written here, and its sentence. Else ECCL
/// has it.
thread_local bool failedHere = false;
thread_local char sentence[512];

/// The same value in ECCL's type: both have the same layout, which the tests compare.
template <class To, class From>
To as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_enum_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_pointer_v<To>) {
    return reinterpret_cast<To>(value);
  } else {
    To copy;
    std::memcpy(&copy, &value, sizeof copy);
    return copy;
  }
}

void find(ncclComm_t* found, ncclComm_t comm) {
  *found = comm;
}
template <class Other>
void find(ncclComm_t*, Other) {}

/// CUDA's names for the default stream, 1 and 2, are the default stream of a host communicator, too.
void settle(ncclComm_t comm, cudaStream_t* stream) {
  const auto name = reinterpret_cast<uintptr_t>(*stream);
  int device = 0;
  if ((name == 1 || name == 2) && ecclCommCuDevice(as<ecclComm_t>(comm), &device) == ecclSuccess && device < 0)
    *stream = nullptr;
}
template <class Other>
void settle(ncclComm_t, Other*) {}

template <class... Parameters, class... Arguments>
ncclResult_t forward(ecclResult_t (*function)(Parameters...), Arguments... arguments) {
  if constexpr ((std::is_same_v<Arguments, cudaStream_t> || ...)) {
    ncclComm_t comm = nullptr;
    (find(&comm, arguments), ...);
    (settle(comm, &arguments), ...);
  }
  const ecclResult_t result = function(as<Parameters>(arguments)...);
  if (result != ecclSuccess && result != ecclInProgress) failedHere = false;
  return static_cast<ncclResult_t>(result);
}

/// Fails with a sentence: the function, which rank it is if `comm` is a communicator, and `why`.
__attribute__((format(printf, 4, 5))) ncclResult_t refuse(ncclResult_t code, const char* function,
                                                          ncclComm_t comm, const char* why, ...) {
  int rank = 0, ranks = 0;
  char who[48] = "";
  if (comm != nullptr && ecclCommUserRank(as<ecclComm_t>(comm), &rank) == ecclSuccess &&
      ecclCommCount(as<ecclComm_t>(comm), &ranks) == ecclSuccess)
    std::snprintf(who, sizeof who, "rank %d of %d: ", rank, ranks);
  char what[384];
  va_list arguments;
  va_start(arguments, why);
  std::vsnprintf(what, sizeof what, why, arguments);
  va_end(arguments);
  std::snprintf(sentence, sizeof sentence, "%s: %s%s", function, who, what);
  failedHere = true;
  return code;
}

/// Error: `comm` is no communicator, as ECCL says.
ncclResult_t describe(ncclComm_t comm, ncclTeam_t* world) {
  *world = {0, 0, 1};
  const ncclResult_t result = forward(ecclCommCount, comm, &world->nRanks);
  return result == ncclSuccess ? forward(ecclCommUserRank, comm, &world->rank) : result;
}

/// The same for `function`, which the sentence names instead of ECCL's.
ncclResult_t needCommunicator(const char* function, ncclComm_t comm) {
  ncclTeam_t world;
  const ncclResult_t result = describe(comm, &world);
  if (result == ncclSuccess || result == ncclInProgress) return result;
  constexpr char kAsked[] = "ecclCommCount: ";
  const char* why = ecclGetLastError(nullptr);
  if (std::strncmp(why, kAsked, sizeof kAsked - 1) == 0) why += sizeof kAsked - 1;
  return refuse(result, function, nullptr, "%s", why);
}

}  // namespace

EXPORT ncclResult_t pncclGetVersion(int* version) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "ncclGetVersion", nullptr, "version is NULL");
  *version = kVersion;
  return ncclSuccess;
}

EXPORT const char* pncclGetErrorString(ncclResult_t result) {
  return ecclGetErrorString(static_cast<ecclResult_t>(result));
}

EXPORT const char* pncclGetLastError(ncclComm_t comm) {
  return failedHere ? sentence : ecclGetLastError(as<ecclComm_t>(comm));
}

// It does nothing in NCCL either, since 2.24.3.
EXPORT void pncclResetDebugInit() {}

EXPORT void pncclParamDumpAll() {
  ecclParamDumpAll();
}

// As NCCL where windows are not supported: success without one. Programs go on without.
EXPORT ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void*, size_t, ncclWindow_t* win, int) {
  const char* const function = "ncclCommWindowRegister";
  if (const ncclResult_t result = needCommunicator(function, comm); result != ncclSuccess) return result;
  if (win == nullptr) return refuse(ncclInvalidArgument, function, comm, "win is NULL");
  *win = nullptr;
  return ncclSuccess;
}

EXPORT ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  const char* const function = "ncclCommWindowDeregister";
  if (const ncclResult_t result = needCommunicator(function, comm); result != ncclSuccess) return result;
  if (win == nullptr) return ncclSuccess;
  return refuse(ncclInvalidArgument, function, comm,
                "win is %p; ECCL has no windows, so pass the NULL that ncclCommWindowRegister gave",
                static_cast<void*>(win));
}

EXPORT ncclTeam_t pncclTeamWorld(ncclComm_t comm) {
  ncclTeam_t world;
  describe(comm, &world);
  return world;
}

// The ranks whose memory device code reads and writes: without a device API each rank is alone.
EXPORT ncclTeam_t pncclTeamLsa(ncclComm_t comm) {
  return {pncclTeamWorld(comm).nRanks > 0 ? 1 : 0, 0, 1};
}

// One rank of each of those.
EXPORT ncclTeam_t pncclTeamRail(ncclComm_t comm) {
  return pncclTeamWorld(comm);
}

EXPORT int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return pncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}

EXPORT int pncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) {
  return (rank - team.rank) * team.stride;
}

EXPORT int pncclLLA2ACalcSlots(int, int) {
  return 0;
}

// What a function that is refused calls `comm` where it has no parameter of that name.
static constexpr ncclComm_t comm = nullptr;

#define WEAK(result, name, parameters) \
  EXPORT __attribute__((weak, alias("pnccl" #name))) result nccl##name parameters;
#define OWN(result, name, parameters) WEAK(result, name, parameters)
#define TWIN(name, parameters, arguments)                \
  EXPORT ncclResult_t pnccl##name parameters {           \
    return forward(eccl##name TWIN_ARGUMENTS arguments); \
  }                                                      \
  WEAK(ncclResult_t, name, parameters)
#define TWIN_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
#define REFUSED(name, parameters, why)                              \
  EXPORT ncclResult_t pnccl##name parameters {                      \
    return refuse(ncclInvalidUsage, "nccl" #name, comm, "%s", why); \
  }                                                                 \
  WEAK(ncclResult_t, name, parameters)

#pragma GCC diagnostic ignored "-Wunused-parameter"  // functions that are refused read none
#include "nccl_functions.h"
