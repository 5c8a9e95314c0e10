// Environment variables, as a function that tests can replace.
#pragma once

#include <functional>

namespace eccl::tools {

/// getenv, or a test's stand-in.
using Environment = std::function<const char*(const char*)>;

}  // namespace eccl::tools
