// The C API: the settings of this process.

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/handles.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

std::string keyOf(const SettingInfo& info) {
  return std::string("ECCL_") + info.name;
}

Status unknown(const char* function, const char* what) {
  return Status::error(Code::invalidArgument, "%s: %s is no setting; eccl_info --settings lists them", function,
                       what);
}

/// Error: `key` is NULL or names none.
Result<const SettingInfo*> settingOf(const char* function, const char* key) {
  if (key == nullptr) return Status::error(Code::invalidArgument, "%s: key is NULL", function);
  for (const SettingInfo& info : settingTable()) {
    if (keyOf(info) == key || (info.ncclName != nullptr && std::strcmp(info.ncclName, key) == 0)) return &info;
  }
  return unknown(function, key);
}

/// Error: the handle is none.
Result<const SettingInfo*> settingOf(const char* function, ecclParamHandle_t handle) {
  for (const SettingInfo& info : settingTable()) {
    if (static_cast<const void*>(&info) == handle) return &info;
  }
  return unknown(function, "the handle");
}

/// As the environment and the files say now. `info`: of settingTable().
Result<std::string> valueOf(const SettingInfo& info) {
  std::vector<SettingValue> values;  // in the order of the table
  ECCL_TRY(loadSettings(&values).status());
  return std::move(values[static_cast<size_t>(&info - settingTable().data())].value);
}

/// The body of a function with a handle or a key, and something to write: `use` gets the value.
template <class Name, class Use>
ecclResult_t read(const char* function, Name name, const void* to, Use&& use) {
  return apiCall(function, [&]() -> Status {
    ECCL_ASSIGN(const SettingInfo* info, settingOf(function, name));
    if (to == nullptr) return Status::error(Code::invalidArgument, "%s: value is NULL", function);
    ECCL_ASSIGN(std::string value, valueOf(*info));
    return use(*info, std::move(value));
  });
}

template <class Number>
ecclResult_t readNumber(const char* function, ecclParamHandle_t handle, Number* to) {
  return read(function, handle, to, [&](const SettingInfo& info, const std::string& text) -> Status {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Status::error(Code::invalidArgument, "%s: %s is \"%s\", which is no whole number of this type",
                           function, keyOf(info).c_str(), text.c_str());
    }
    *to = number;
    return {};
  });
}

}  // namespace

ecclResult_t ecclParamBind(ecclParamHandle_t* handle, const char* key) {
  return apiCall("ecclParamBind", [&]() -> Status {
    if (handle == nullptr) return Status::error(Code::invalidArgument, "ecclParamBind: handle is NULL");
    ECCL_ASSIGN(const SettingInfo* info, settingOf("ecclParamBind", key));
    *handle = reinterpret_cast<ecclParamHandle_t>(const_cast<SettingInfo*>(info));
    return {};
  });
}

ecclResult_t ecclParamGetI8(ecclParamHandle_t handle, int8_t* value) {
  return readNumber("ecclParamGetI8", handle, value);
}
ecclResult_t ecclParamGetI16(ecclParamHandle_t handle, int16_t* value) {
  return readNumber("ecclParamGetI16", handle, value);
}
ecclResult_t ecclParamGetI32(ecclParamHandle_t handle, int32_t* value) {
  return readNumber("ecclParamGetI32", handle, value);
}
ecclResult_t ecclParamGetI64(ecclParamHandle_t handle, int64_t* value) {
  return readNumber("ecclParamGetI64", handle, value);
}
ecclResult_t ecclParamGetU8(ecclParamHandle_t handle, uint8_t* value) {
  return readNumber("ecclParamGetU8", handle, value);
}
ecclResult_t ecclParamGetU16(ecclParamHandle_t handle, uint16_t* value) {
  return readNumber("ecclParamGetU16", handle, value);
}
ecclResult_t ecclParamGetU32(ecclParamHandle_t handle, uint32_t* value) {
  return readNumber("ecclParamGetU32", handle, value);
}
ecclResult_t ecclParamGetU64(ecclParamHandle_t handle, uint64_t* value) {
  return readNumber("ecclParamGetU64", handle, value);
}

ecclResult_t ecclParamGetStr(ecclParamHandle_t handle, const char** value) {
  static thread_local std::string kept;
  return read("ecclParamGetStr", handle, value, [&](const SettingInfo&, std::string text) {
    kept = std::move(text);
    *value = kept.c_str();
    return Status();
  });
}

ecclResult_t ecclParamGet(ecclParamHandle_t handle, void* value, int most, int* length) {
  return read("ecclParamGet", handle, value, [&](const SettingInfo& info, const std::string& text) -> Status {
    if (length == nullptr) return Status::error(Code::invalidArgument, "ecclParamGet: length is NULL");
    *length = static_cast<int>(text.size());
    if (most < *length) {
      return Status::error(Code::invalidArgument, "ecclParamGet: %s has %d bytes, there is room for %d",
                           keyOf(info).c_str(), *length, most);
    }
    std::memcpy(value, text.data(), text.size());
    return {};
  });
}

ecclResult_t ecclParamGetParameter(const char* key, const char** value, int* length) {
  static thread_local std::string kept;
  return read("ecclParamGetParameter", key, value, [&](const SettingInfo&, std::string text) -> Status {
    if (length == nullptr) return Status::error(Code::invalidArgument, "ecclParamGetParameter: length is NULL");
    kept = std::move(text);
    *value = kept.c_str();
    *length = static_cast<int>(kept.size());
    return {};
  });
}

ecclResult_t ecclParamGetAllParameterKeys(const char*** keys, int* number) {
  return apiCall("ecclParamGetAllParameterKeys", [&]() -> Status {
    if (keys == nullptr || number == nullptr)
      return Status::error(Code::invalidArgument, "ecclParamGetAllParameterKeys: keys or number is NULL");
    static const auto* const names = [] {
      auto* made = new std::vector<std::string>;
      for (const SettingInfo& info : settingTable()) made->push_back(keyOf(info));
      return made;
    }();
    // Of each thread, as the caller might write to it.
    static thread_local std::vector<const char*> table;
    table.clear();
    for (const std::string& name : *names) table.push_back(name.c_str());
    *keys = table.data();
    *number = static_cast<int>(table.size());
    return {};
  });
}

void ecclParamDumpAll() {
  apiCall("ecclParamDumpAll", []() -> Status {
    std::vector<SettingValue> values;
    ECCL_TRY(loadSettings(&values).status());
    for (const SettingValue& each : values)
      std::printf("%s=%s (%s)\n", keyOf(*each.info).c_str(), each.value.c_str(), each.source.c_str());
    return {};
  });
}
