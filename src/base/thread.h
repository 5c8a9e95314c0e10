// Threads of the library's own.
#pragma once

#include <functional>
#include <thread>

#include "base/status.h"

namespace eccl {

/// Starts a thread that runs `body`, called `name` in /proc and debuggers (at most 15 characters are kept). It
/// blocks all signals from its first instruction on: they are the application's, and go to its threads. Every
/// thread of the library is started here. Error: there can be no more threads; it says which limit to raise.
/// Not logged. Nothing may be thrown out of `body`.
Result<std::thread> startThread(const char* name, std::function<void()> body);

}  // namespace eccl
