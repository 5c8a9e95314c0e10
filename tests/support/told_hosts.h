// Hosts that ranks are told of by ECCL_TOPO_FILE, though all of them are processes of this machine.
#pragma once

#include <fstream>
#include <string>

namespace eccl::test {

/// Writes a host with one port into the folder, which ends in a slash. Returns the file's path. It can be read
/// where canReadXml() and topology::haveJson().
inline std::string toldHost(const std::string& folder, const std::string& name, int megabits) {
  std::ofstream(folder + name)
      << R"(<system version="1"><cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel")"
      << R"( familyid="6" modelid="143"><nic><net name=")" << name << R"(" dev="0" speed=")" << megabits
      << R"(" port="1" latency="0" maxconn="1"/></nic></cpu></system>)"
      << "\n";
  return folder + name;
}

}  // namespace eccl::test
