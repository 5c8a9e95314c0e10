// Whether this is a build with a sanitizer: slower, and without limits on address space.
#pragma once

#if defined(__has_feature)  // Clang
#define ECCL_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define ECCL_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define ECCL_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define ECCL_THREAD_SANITIZER 1
#endif
#endif

namespace eccl {
#if ECCL_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#if ECCL_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;
}  // namespace eccl
