// Schedules written by hand, as text, and what the verifier says about them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "algorithms/verify/verify.h"
#include "program/text.h"

namespace eccl::test {

inline algorithms::Verdict verdictOf(const std::string& text, bool inPlace = false) {
  auto programs = parse(text);
  EXPECT_TRUE(programs.ok()) << programs.status().message();
  return programs.ok() ? algorithms::verify(*programs, inPlace) : algorithms::Verdict{};
}

/// "ok" or why not.
inline std::string judge(const std::string& text, bool inPlace = false) {
  algorithms::Verdict verdict = verdictOf(text, inPlace);
  EXPECT_EQ(verdict.ok, verdict.reason.empty());
  EXPECT_FALSE(verdict.gaveUp);
  return verdict.ok ? "ok" : verdict.reason;
}

/// A one-rank AllReduce with these lines after the buffers.
inline std::string alone(const std::string& lines, int parts = 1, const std::string& scratch = "") {
  return format("program AllReduce rank 0 of 1 root 0 parts %d channels 1\n", parts) +
         "input blocks 1 first 0 stride 1\noutput blocks 1 first 0 stride 1\n" + scratch + lines;
}
inline const std::string kScratch = "scratch blocks 1 first 0 stride 1\n";

/// Two ranks of a collective over one block, such as AllReduce or Broadcast (of rank 0).
inline std::string two(const std::string& collective, int parts, const std::string& zero,
                       const std::string& one) {
  auto head = [&](int rank) {
    return format("program %s rank %d of 2 root 0 parts %d channels 1\n", collective.c_str(), rank, parts);
  };
  const bool broadcast = collective == "Broadcast";
  return head(0) + "input blocks 1 first 0 stride 1\noutput blocks 1 first 0 stride 1\n" + zero + head(1) +
         (broadcast ? "" : "input blocks 1 first 0 stride 1\n") + "output blocks 1 first 0 stride 1\n" + one;
}
inline const std::string kSend = "connection 0 send to 1 channel 0 tag 0\n";
inline const std::string kReceive = "connection 0 receive from 0 channel 0 tag 0\n";
inline const std::string kCopy = "step input[0].part[0] -> output[0].part[0]\n";
inline const std::string kKeep = "step connection[0] -> output[0].part[0]\n";

/// A Broadcast that works, with one part, but for what is changed in it.
inline std::string broadcast(
    const std::string& zero = "lane 0 channel 0\nstep input[0].part[0] -> connection[0]\n" + kCopy,
    const std::string& one = "lane 0 channel 0\n" + kKeep, const std::string& send = kSend,
    const std::string& receive = kReceive) {
  return two("Broadcast", 1, send + zero, receive + one);
}

}  // namespace eccl::test
