// How much memory this process may lock, where a device wants more.
#pragma once

#include <string>

namespace eccl::transport::verbs {

/// "; this process may lock 65536 bytes of memory: if that is too little, raise the limit (...)", for the end of a
/// message. Empty unless `error` may have come of that (ENOMEM, EPERM) and there is a limit.
std::string limitOnLockedMemory(int error);

}  // namespace eccl::transport::verbs
