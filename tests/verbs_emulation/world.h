// An emulation of libibverbs, as far as ECCL's module for RDMA verbs and its tests use it: libibverbs.so.1 for
// machines without an RDMA device. It is for tests, never installed. verbs_emulation.h says what it can be made
// to do.
//
// One process, whose threads are the ranks: all devices are in it, and reach each other. There is no thread of
// its own. Requests are made, in order, by the call that posts them or, where they have to wait, by any later
// call. Everything lies under one mutex, so that what does not go through a completion is a race to
// ThreadSanitizer.
//
// It is strict where hardware is, or may be: places of a send queue come back only with a polled completion,
// keys have a side, a range, an access and a protection domain, a failed completion holds nothing but its
// number and its queue pair, sequence numbers have to fit, objects in use are not destroyed.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verbs_emulation/objects.h"

namespace eccl::verbs_emulation {

/// The living objects of one kind, by their handles.
template <class Object>
using Registry = std::map<const void*, std::unique_ptr<Object>>;

/// What a test has asked to fail.
struct FailingCall {
  std::string function;
  int left, error;
};
struct FailingCompletion {
  uint32_t number;  // of the queue pair; 0: any
  int side, left;
  ibv_wc_status status;
};

/// One for each process; never destroyed, as threads may use it up to the end.
struct World {
  World();

  std::mutex mutex;
  std::condition_variable acknowledged;
  std::vector<std::shared_ptr<Device>> devices;
  std::map<ibv_device**, std::vector<std::shared_ptr<DeviceHandle>>> lists;
  Registry<Context> contexts;
  Registry<Domain> domains;
  Registry<Region> regions;
  Registry<Channel> channels;
  Registry<CompletionQueue> completionQueues;
  Registry<SharedQueue> sharedQueues;
  Registry<QueuePair> queuePairs;
  std::map<uint32_t, QueuePair*> pairsByNumber;
  std::map<uint32_t, Region*> localKeys, remoteKeys;
  uint32_t nextNumber = 0x11, nextKey = 0x100;  // never given out again, so that what is stale is found

  VerbsEmulationCounters counters{};
  bool tolerant = false, held = false, relaxed = false, refusesDmabufs = false;
  VerbsEmulationOrder order = VERBS_EMULATION_FORWARD;
  uint64_t memoryLimit = UINT64_MAX;
  int pollLimit = 0;
  std::vector<FailingCall> failingCalls;
  std::vector<FailingCompletion> failingCompletions;

  /// What a test begins with: devices, no failure, and the order that the environment asks for.
  void begin();
  /// Whether a test wants this call of `function` to fail; then with errno, as in `*error`.
  bool fails(const char* function, int* error);
  /// What a test wants for the next completion of that queue pair.
  ibv_wc_status statusOfNext(uint32_t number, VerbsEmulationSide side);
};

World& world();

/// Counts and says misuse, and ends the process unless it is tolerated. Sets errno to EINVAL and returns that.
int violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The object behind a handle; null, and a violation that names `function`, if there is none.
template <class Object>
Object* living(Registry<Object>& registry, const void* handle, const char* kind, const char* function) {
  const auto found = registry.find(handle);
  if (found != registry.end()) return found->second.get();
  violation("%s: %p is no living %s", function, handle, kind);
  return nullptr;
}

/// Sets errno, too, as libibverbs does.
int failWith(int error);

/// Waits until `unacknowledged` is 0, as destroying an object waits for its events. A violation after a while.
void awaitAcknowledged(std::unique_lock<std::mutex>& lock, const unsigned& unacknowledged, const char* what);

}  // namespace eccl::verbs_emulation
