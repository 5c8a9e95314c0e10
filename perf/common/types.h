// The element types and operators the tools test, and the exact meaning of their bits.
#pragma once

#include <cstdint>

#include "eccl/eccl.h"

namespace eccl::perf {

struct TypeInfo {
  const char* name;  ///< nccl-tests' spelling
  ecclDataType_t type;
  int bytes;
  bool floating;
  bool isSigned;
  int mantissaBits;  ///< stored bits of the significand; floating types only
  int minExponent;   ///< of the smallest normal number
  int maxExponent;   ///< of the largest finite number
  /// Whole numbers up to this are all exact in the type (and in a double, which computes the answers).
  double exactUpTo;
  /// Values are scaled by 2^scaleMin .. 2^scaleMax; sums up to exactUpTo stay exact in that range.
  int scaleMin, scaleMax;
};

inline constexpr int kTypes = 12;
/// Indexed by ecclDataType_t, which is also the order of `-d all`.
extern const TypeInfo kTypeInfos[kTypes];

/// The operators of -o; mulsum is ecclRedOpCreatePreMulSum with a scalar that differs from rank to rank.
enum class Op : int { sum, prod, max, min, avg, mulsum };
inline constexpr int kOps = 6;
extern const char* const kOpNames[kOps];

/// The bits of `value` in the type, rounded to nearest even; integers must be in range. fp8 saturates.
uint64_t encode(const TypeInfo& type, double value);
double decode(const TypeInfo& type, uint64_t bits);
/// The distance between neighbouring values of a floating type at the size of `value`.
double ulp(const TypeInfo& type, double value);

}  // namespace eccl::perf
