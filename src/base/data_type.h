// The element types, one line each. Everything that differs by type follows from this table, or visits it, so
// that a new type is one line here.
//
// Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/low_precision.h"

namespace eccl {

/// X(name of the enumerator, C++ type of an element, name as the field writes it). In the order of
/// ecclDataType_t, whose values are NCCL's.
#define ECCL_DATA_TYPES(X)            \
  X(int8, int8_t, "int8")             \
  X(uint8, uint8_t, "uint8")          \
  X(int32, int32_t, "int32")          \
  X(uint32, uint32_t, "uint32")       \
  X(int64, int64_t, "int64")          \
  X(uint64, uint64_t, "uint64")       \
  X(float16, Half, "half")            \
  X(float32, float, "float")          \
  X(float64, double, "double")        \
  X(bfloat16, Bfloat16, "bfloat16")   \
  X(float8e4m3, Float8e4m3, "f8e4m3") \
  X(float8e5m2, Float8e5m2, "f8e5m2")

#define ECCL_ENUMERATOR(name, Element, text) name,
/// An element type. Values are ecclDataType_t's; they go over the wire.
enum class DataType : uint8_t { ECCL_DATA_TYPES(ECCL_ENUMERATOR) };
#undef ECCL_ENUMERATOR

#define ECCL_ONE(name, Element, text) +1
inline constexpr int kDataTypes = ECCL_DATA_TYPES(ECCL_ONE);
#undef ECCL_ONE

/// Returns visit(std::type_identity<Element>()), where Element is the C++ type of an element of `type`. A
/// `type` outside the table is undefined.
template <class Visit>
constexpr decltype(auto) visitElement(DataType type, Visit&& visit) {
  switch (type) {
#define ECCL_CASE(name, Element, text) \
  case DataType::name:                 \
    return visit(std::type_identity<Element>());
    ECCL_DATA_TYPES(ECCL_CASE)
#undef ECCL_CASE
  }
  __builtin_unreachable();
}

/// By type. Not in the function: compilers would copy it to the stack in each call.
#define ECCL_SIZE(name, Element, text) sizeof(Element),
inline constexpr size_t kElementBytes[] = {ECCL_DATA_TYPES(ECCL_SIZE)};
#undef ECCL_SIZE

/// Bytes of one element.
constexpr size_t sizeOf(DataType type) {
  return kElementBytes[static_cast<int>(type)];
}

/// True for all floating types, half, bfloat16 and fp8 among them.
constexpr bool isFloating(DataType type) {
  return visitElement(type, []<class E>(std::type_identity<E>) { return !std::is_integral_v<E>; });
}
/// True for signed integers only.
constexpr bool isSigned(DataType type) {
  return visitElement(
      type, []<class E>(std::type_identity<E>) { return std::is_integral_v<E> && std::is_signed_v<E>; });
}

/// Names as the field writes them: "float", "bfloat16", "f8e4m3" (nccl-tests' spelling). Static.
const char* nameOf(DataType type);

}  // namespace eccl
