// Which kind a communicator is of: host, or that of a device's module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "runtime/executor/executors.h"

namespace eccl::runtime {

/// The kind that ECCL_DEVICE asks for; nothing: host. `device`: which one; negative: the one that is current in
/// this thread. Opens the module that is needed. Error: ECCL_DEVICE names a device that cannot be had. If it is
/// `auto`, the communicator is of the host then, which is logged. Any thread.
Result<std::optional<ExecutorKind>> chooseDevice(const Settings& settings, int device);

/// Memory for the user of the device that chooseDevice() would take; null: of the host. freeDeviceMemory() has
/// it again. Errors: chooseDevice()'s, or ExecutorKind::allocate()'s. Any thread.
Result<void*> allocateDeviceMemory(const Settings& settings, size_t bytes);
/// Nothing: `memory` is none that allocateDeviceMemory() gave. Any thread.
std::optional<Status> freeDeviceMemory(void* memory);

/// For people: a line for each device, and for each reason why there is none.
std::vector<std::string> describeDevices();

}  // namespace eccl::runtime
