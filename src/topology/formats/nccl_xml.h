// A Host as NCCL and RCCL write and read it: the XML of NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE.
// docs/topology.md lists the elements and attributes, says which of them are ours, and gives the limits.
//
// Threads: stateless functions, any thread. Reading needs pugixml; in a build without it, it fails with
// invalidUsage and says what to install. Writing needs nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/model/topology.h"

namespace eccl::topology {

// Above NCCL's own limits by far (it gives up at 256 elements), and small enough that no file hurts.
inline constexpr size_t kMaxXmlBytes = size_t{16} << 20;
inline constexpr size_t kMaxXmlDevices = size_t{1} << 16;

/// The host in `text`; `name` is what errors call the text. The result is valid. What NCCL accepts is
/// accepted. Devices are in the order of the file: CPUs, then what hangs below each, depth first, then
/// NVSwitches that only links name.
///
/// Host::unread gets a sentence, with text and line, for what was not kept and for malformed values, with
/// what they were taken for. `oddities` gets those of them that the user should hear of, as the text may mean
/// something else. Errors (invalidArgument) start with "<name>:<line>: ".
Result<Host> parseNcclXml(std::string_view text, const std::string& name,
                          std::vector<std::string>* oddities = nullptr);
/// The host in a file. Errors: as above; system if the file cannot be read.
Result<Host> loadNcclXml(const std::string& path, std::vector<std::string>* oddities = nullptr);

/// The host as text, `unread` included; empty for a host that validate() refuses. Parsing the text gives an
/// equal host if devices and links stand in the order that parsing gives: the links of a device together,
/// devices in order, and behind each link with a CPU or an NVSwitch the way back. Otherwise the host differs
/// in order only.
std::string toNcclXml(const Host& host);
/// Writes that text to a file, as writeTextFile() does. Errors: invalidArgument for a host that validate()
/// refuses, system if writing fails.
Status saveNcclXml(const Host& host, const std::string& path);

}  // namespace eccl::topology
