// The settings of this process, as the C API gives them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "eccl/eccl.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Params : public testing::Test {
 protected:
  // Whatever the caller of the tests has set.
  void SetUp() override {
    TearDown();
    setenv("ECCL_CONF_FILE", "/dev/null", 1);
  }
  void TearDown() override {
    for (const char* name : {"ECCL_SLOTS", "ECCL_ALGO", "ECCL_COMM_SECRET", "NCCL_SHM_DISABLE", "ECCL_SPIN_US"})
      unsetenv(name);
  }
  static ecclParamHandle_t bound(const char* key) {
    ecclParamHandle_t handle = nullptr;
    EXPECT_EQ(ecclParamBind(&handle, key), ecclSuccess) << ecclGetLastError(nullptr);
    return handle;
  }
  static std::string text(const char* key) {
    const char* value = nullptr;
    int length = -1;
    EXPECT_EQ(ecclParamGetParameter(key, &value, &length), ecclSuccess) << ecclGetLastError(nullptr);
    if (value == nullptr) return "";
    EXPECT_EQ(static_cast<int>(std::strlen(value)), length);
    return value;
  }
};

TEST_F(Params, AreWhatTheEnvironmentSaysNow) {
  const ecclParamHandle_t slots = bound("ECCL_SLOTS");
  int32_t number = 0;
  EXPECT_EQ(ecclParamGetI32(slots, &number), ecclSuccess);
  EXPECT_EQ(number, 8) << "the default";
  setenv("ECCL_SLOTS", "512", 1);
  EXPECT_EQ(ecclParamGetI32(slots, &number), ecclSuccess);
  EXPECT_EQ(number, 512);
  EXPECT_EQ(text("ECCL_SLOTS"), "512");
  setenv("ECCL_SLOTS", "511", 1);
  EXPECT_EQ(ecclParamGetI32(slots, &number), ecclInvalidArgument) << "no power of two";
  EXPECT_THAT(ecclGetLastError(nullptr), HasSubstr("ECCL_SLOTS"));
  EXPECT_EQ(number, 512) << "nothing is written";
}

TEST_F(Params, AreKnownByNamesOfNcclToo) {
  EXPECT_EQ(text("NCCL_SHM_DISABLE"), "0");
  setenv("NCCL_SHM_DISABLE", "1", 1);
  EXPECT_EQ(text("NCCL_SHM_DISABLE"), "1");
  EXPECT_EQ(text("ECCL_SHM_DISABLE"), "1");
  EXPECT_EQ(bound("NCCL_SHM_DISABLE"), bound("ECCL_SHM_DISABLE"));
}

TEST_F(Params, NumbersHaveToFit) {
  const ecclParamHandle_t slots = bound("ECCL_SLOTS"), spin = bound("ECCL_SPIN_US"),
                          algorithm = bound("ECCL_ALGO");
  setenv("ECCL_SLOTS", "256", 1);
  int8_t i8 = 1;
  uint8_t u8 = 1;
  int16_t i16 = 1;
  uint16_t u16 = 1;
  uint32_t u32 = 1;
  int64_t i64 = 1;
  uint64_t u64 = 1;
  EXPECT_EQ(ecclParamGetI8(slots, &i8), ecclInvalidArgument);
  EXPECT_THAT(ecclGetLastError(nullptr), AllOf(StartsWith("ecclParamGetI8: ECCL_SLOTS"), HasSubstr("256")));
  EXPECT_EQ(ecclParamGetU8(slots, &u8), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetI16(slots, &i16), ecclSuccess);
  EXPECT_EQ(ecclParamGetU16(slots, &u16), ecclSuccess);
  EXPECT_EQ(ecclParamGetU32(slots, &u32), ecclSuccess);
  EXPECT_EQ(ecclParamGetI64(slots, &i64), ecclSuccess);
  EXPECT_EQ(ecclParamGetU64(slots, &u64), ecclSuccess);
  EXPECT_EQ(i16 + u16, 512);
  EXPECT_EQ(u32 + static_cast<uint64_t>(i64) + u64, 3 * 256u);
  EXPECT_EQ(i8 + u8, 2) << "nothing is written";
  EXPECT_EQ(ecclParamGetI8(spin, &i8), ecclSuccess);
  EXPECT_EQ(i8, -1);
  EXPECT_EQ(ecclParamGetU64(spin, &u64), ecclInvalidArgument) << "it is -1";
  setenv("ECCL_ALGO", "ring", 1);
  EXPECT_EQ(ecclParamGetI64(algorithm, &i64), ecclInvalidArgument) << "it is a word";
}

TEST_F(Params, TextIsCopied) {
  setenv("ECCL_SLOTS", "256", 1);
  const ecclParamHandle_t slots = bound("ECCL_SLOTS");
  const char* text = nullptr;
  EXPECT_EQ(ecclParamGetStr(slots, &text), ecclSuccess);
  EXPECT_STREQ(text, "256");
  char room[4] = {'x', 'x', 'x', 'x'};
  int length = 0;
  EXPECT_EQ(ecclParamGet(slots, room, 2, &length), ecclInvalidArgument);
  EXPECT_EQ(length, 3) << "so much room it takes";
  EXPECT_EQ(room[0], 'x');
  EXPECT_EQ(ecclParamGet(slots, room, 3, &length), ecclSuccess);
  EXPECT_EQ(std::string(room, 4), "256x");
}

TEST_F(Params, OfASecretTheValueIsNotShown) {
  const std::string secret = "0123456789abcdef0123456789abcdef";
  setenv("ECCL_COMM_SECRET", secret.c_str(), 1);
  EXPECT_THAT(text("ECCL_COMM_SECRET"), testing::Not(HasSubstr(secret)));
}

TEST_F(Params, AllKeysCanBeRead) {
  const char** keys = nullptr;
  int number = 0;
  ASSERT_EQ(ecclParamGetAllParameterKeys(&keys, &number), ecclSuccess);
  EXPECT_GT(number, 30);
  std::set<std::string> names;
  for (int i = 0; i < number; ++i) {
    names.insert(keys[i]);
    EXPECT_THAT(keys[i], StartsWith("ECCL_"));
    bound(keys[i]);
    text(keys[i]);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(number));
  testing::internal::CaptureStdout();
  ecclParamDumpAll();
  const std::string dump = testing::internal::GetCapturedStdout();
  for (const std::string& name : names) EXPECT_THAT(dump, HasSubstr(name + "="));
}

TEST_F(Params, ArgumentsAreChecked) {
  ecclParamHandle_t handle = nullptr;
  EXPECT_EQ(ecclParamBind(&handle, "ECCL_NOTHING"), ecclInvalidArgument);
  EXPECT_EQ(handle, nullptr);
  EXPECT_THAT(ecclGetLastError(nullptr), AllOf(HasSubstr("ECCL_NOTHING"), HasSubstr("eccl_info --settings")));
  EXPECT_EQ(ecclParamBind(&handle, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclParamBind(nullptr, "ECCL_SLOTS"), ecclInvalidArgument);
  const ecclParamHandle_t slots = bound("ECCL_SLOTS");
  const char* text = nullptr;
  int32_t number = 0;
  int length = 0;
  EXPECT_EQ(ecclParamGetI32(slots, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetI32(nullptr, &number), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetI32(reinterpret_cast<ecclParamHandle_t>(&number), &number), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetStr(slots, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGet(slots, nullptr, 4, &length), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGet(slots, &number, 4, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGet(slots, &number, -1, &length), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetParameter(nullptr, &text, &length), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetParameter("ECCL_SLOTS", nullptr, &length), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetParameter("ECCL_SLOTS", &text, nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclParamGetAllParameterKeys(nullptr, &length), ecclInvalidArgument);
}

}  // namespace
