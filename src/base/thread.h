// Threads of the library's own.
#pragma once

#include <functional>
#include <thread>

#include "base/status.h"

namespace eccl {

/// Starts a thread that runs `body`, called `name` in /proc and debuggers (at most 15 characters are kept). It
/// blocks all signals from its first instruction on: they are the application's, and go to its threads. Every
/// thread of the library is started here. Error: there can be no more threads; it says which limit to raise.
/// Not logged. What `body` throws ends the thread and is logged: who must tell others catches it before.
Result<std::thread> startThread(const char* name, std::function<void()> body);

}  // namespace eccl
