#include "verbs_emulation/world.h"

#include <arpa/inet.h>

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace eccl::verbs_emulation {
namespace {

constexpr std::chrono::seconds kPatience{10};

ibv_gid linkLocal(int device) {
  ibv_gid gid{};
  gid.raw[0] = 0xfe, gid.raw[1] = 0x80, gid.raw[8] = 0x02, gid.raw[15] = static_cast<uint8_t>(device + 1);
  return gid;
}

ibv_gid mapped(int device) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 127, gid.raw[15] = static_cast<uint8_t>(device + 1);
  return gid;
}

}  // namespace

World& world() {
  static World* const one = new World;
  return *one;
}

World::World() {
  begin();
}

void World::begin() {
  counters = {};
  tolerant = held = relaxed = refusesDmabufs = false;
  order = VERBS_EMULATION_FORWARD;
  memoryLimit = UINT64_MAX;
  pollLimit = 0;
  failingCalls.clear();
  failingCompletions.clear();
  const char* const asked = std::getenv("VERBS_EMULATION_ORDER");
  const std::string how = asked == nullptr ? "" : asked;
  if (how.find("backward") != how.npos) order = VERBS_EMULATION_BACKWARD;
  if (how.find("shuffled") != how.npos) order = VERBS_EMULATION_SHUFFLED;
  relaxed = how.find("relaxed") != how.npos;
  if (const char* const lockable = std::getenv("VERBS_EMULATION_LOCKABLE"); lockable != nullptr)
    memoryLimit = std::strtoull(lockable, nullptr, 10);
  const bool onDemand = std::getenv("VERBS_EMULATION_ON_DEMAND") != nullptr;
  devices.clear();
  for (int number = 0; number < 2; ++number) {
    Port port;
    for (const ibv_gid& gid : {linkLocal(number), mapped(number)}) {
      port.gids.push_back({gid, IBV_GID_TYPE_ROCE_V1});
      port.gids.push_back({gid, IBV_GID_TYPE_ROCE_V2});
    }
    auto device = std::make_shared<Device>();
    device->number = number;
    device->name = "emu" + std::to_string(number);
    if (onDemand) device->onDemand = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
    device->ports.push_back(port);
    devices.push_back(device);
  }
}

bool World::fails(const char* function, int* error) {
  for (auto each = failingCalls.begin(); each != failingCalls.end(); ++each) {
    if (each->function != function || --each->left > 0) continue;
    *error = errno = each->error;
    failingCalls.erase(each);
    return true;
  }
  return false;
}

ibv_wc_status World::statusOfNext(uint32_t number, VerbsEmulationSide side) {
  for (auto each = failingCompletions.begin(); each != failingCompletions.end(); ++each) {
    if ((each->side & side) == 0 || (each->number != 0 && each->number != number) || --each->left > 0) continue;
    const ibv_wc_status status = each->status;
    failingCompletions.erase(each);
    return status;
  }
  return IBV_WC_SUCCESS;
}

int violation(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fputs("verbs emulation: ", stderr);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
  va_end(args);
  ++world().counters.violations;
  if (!world().tolerant) std::abort();
  return failWith(EINVAL);
}

int failWith(int error) {
  return errno = error;
}

void awaitAcknowledged(std::unique_lock<std::mutex>& lock, const unsigned& unacknowledged, const char* what) {
  // By the system's clock, as not every ThreadSanitizer knows of waits by the other one.
  const auto end = std::chrono::system_clock::now() + kPatience;
  if (!world().acknowledged.wait_until(lock, end, [&] { return unacknowledged == 0; }))
    violation("%s is destroyed and %u of its events are not acknowledged", what, unacknowledged);
}

}  // namespace eccl::verbs_emulation
