// Texts in NCCL's XML for tests, and what reading them gives.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "topology/formats/nccl_xml.h"

namespace eccl::test {

/// A system around `inside`, which begins on line 2.
inline std::string system(const std::string& inside) {
  return "<system version=\"1\">\n" + inside + "\n</system>\n";
}
/// A CPU around `inside`, which begins on line 3.
inline std::string cpu(const std::string& inside) {
  return system("<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n" + inside + "\n</cpu>");
}
/// A GPU, on one line.
inline std::string gpu(const std::string& busId, const std::string& inside, const std::string& facts = "") {
  return "<pci busid=\"" + busId + "\" class=\"0x030200\" " + facts +
         " link_speed=\"\" link_width=\"\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\">" + inside +
         "</gpu></pci>\n";
}

inline topology::Host parsed(const std::string& text) {
  Result<topology::Host> host = topology::parseNcclXml(text, "t.xml");
  EXPECT_TRUE(host.ok()) << host.status().message() << "\n" << text;
  return host.ok() ? host.take() : topology::Host{};
}

inline std::string errorOf(const std::string& text) {
  const Result<topology::Host> host = topology::parseNcclXml(text, "t.xml");
  EXPECT_FALSE(host.ok()) << text;
  EXPECT_EQ(host.status().code(), Code::invalidArgument);
  return host.status().message();
}

}  // namespace eccl::test
