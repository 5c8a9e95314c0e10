// Transports that are opened at run time, from the outside: by settings and the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "support/modules.h"
#include "support/processes.h"
#include "support/temporary_folder.h"

namespace eccl::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// By a transport that libeccl.so knows nothing of: small and large messages, both ways.
TEST(TransportModule, CarriesAnAllReduce) {
  constexpr int kRanks = 3;
  const auto outcomes = test::runProcesses(kRanks, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT_MODULES", test::transportModule("unix").c_str(), 1);
    setenv("ECCL_TRANSPORT", "unix", 1);
    ecclComm_t comm = test::join(rank, kRanks, board, report);
    if (comm == nullptr) return 2;
    for (size_t count : {1, 1000, 1'000'000}) {
      std::vector<float> mine(count, static_cast<float>(rank + 1)), sum(count);
      if (ecclAllReduce(mine.data(), sum.data(), count, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess) {
        report += ecclGetLastError(comm);
        return 3;
      }
      if (sum != std::vector<float>(count, 6)) return 4;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 5;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

size_t timesIn(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

class ModuleMemory : public test::TemporaryFolder {};

// A transport is told once of memory that is registered twice, also if it is made later, and once of its end.
TEST_F(ModuleMemory, IsToldToTheTransportOnce) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT_MODULES", test::transportModule("unix").c_str(), 1);
    setenv("ECCL_TRANSPORT", "unix", 1);
    setenv("ECCL_DEBUG", "INFO", 1);
    setenv("ECCL_DEBUG_FILE", (folder_ + std::to_string(rank)).c_str(), 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    std::vector<char> early(1001), late(2002);
    void* handles[4] = {};
    const auto add = [&](int i, std::vector<char>& buffer) {
      return ecclCommRegister(comm, buffer.data(), buffer.size(), &handles[i]) == ecclSuccess;
    };
    if (!add(0, early) || !add(1, early)) return 3;
    float x = 1;
    if (ecclAllReduce(&x, &x, 1, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess) return 4;
    if (!add(2, late) || !add(3, late)) return 5;
    for (int i : {0, 1, 2}) {
      if (ecclCommDeregister(comm, handles[i]) != ecclSuccess) return 6;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 7;
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].code, 0) << outcomes[static_cast<size_t>(rank)].text;
    std::ifstream in(folder_ + std::to_string(rank));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(timesIn(text, "unix: 1001 bytes registered"), 1u) << text;
    EXPECT_EQ(timesIn(text, "unix: 1001 bytes deregistered"), 1u);
    EXPECT_EQ(timesIn(text, "unix: 2002 bytes registered"), 1u);
    EXPECT_EQ(timesIn(text, "unix: 2002 bytes deregistered"), 0u) << "one registration is left";
  }
}

/// What ranks are told that cannot begin.
std::string refusal(const std::string& modules, const std::string& transports) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT_MODULES", modules.c_str(), 1);
    setenv("ECCL_TRANSPORT", transports.c_str(), 1);
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_INIT_TIMEOUT", "20", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    report += ecclGetLastError(nullptr);
    return comm == nullptr ? 0 : 1;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
  return outcomes[0].text;
}

TEST(TransportModule, OfAnotherVersionIsAnErrorThatSaysWhatToDo) {
  const std::string path = test::transportModule("wrong");
  EXPECT_THAT(refusal(path, ""),
              AllOf(HasSubstr("'wrong'"), HasSubstr(path), HasSubstr("ECCL 0.0.9 (interface 77)"),
                    HasSubstr("this is ECCL 0."), HasSubstr("build it again")));
}

TEST(TransportModule, ThatIsAskedForAndMissingIsAnError) {
  EXPECT_THAT(refusal("/no/such/libeccl_transport_x.so", ""),
              AllOf(HasSubstr("/no/such/libeccl_transport_x.so"), HasSubstr("cannot be loaded")));
  EXPECT_THAT(refusal("", "verbs"),
              AllOf(HasSubstr("there is no transport 'verbs'"), HasSubstr("there are thread, shm, "),
                    HasSubstr("eccl/libeccl_transport_verbs.so")));
}

}  // namespace
}  // namespace eccl::runtime
