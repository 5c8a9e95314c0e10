#include "base/types.h"

namespace eccl {

const char* nameOf(DataType type) {
#define ECCL_NAME(name, Element, text) text,
  static constexpr const char* names[] = {ECCL_DATA_TYPES(ECCL_NAME)};
#undef ECCL_NAME
  return names[static_cast<int>(type)];
}

const char* nameOf(RedOp op) {
  static constexpr const char* names[kRedOps] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return names[static_cast<int>(op)];
}

const char* nameOf(Collective collective) {
  return apiNameOf(collective) + sizeof("eccl") - 1;
}

}  // namespace eccl
