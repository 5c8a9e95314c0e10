// Checks of a host: what an operator should repair, or know about. Each finding says what is seen, what it
// costs, and what to do. The checks judge a Host as probeHost() returns it, and what else the kernel tells of
// the machine and of this process. docs/probing.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

/// How much a finding matters.
enum class Severity : uint8_t {
  note,     ///< costs nothing now, or may be meant so
  warning,  ///< costs bandwidth or latency
  error,    ///< something will not work
};
const char* nameOf(Severity severity);

/// One finding, in sentences for people. A value.
struct Finding {
  Severity severity = Severity::note;
  std::string id;      ///< of the check, for filters and for docs/probing.md: "pci-link"
  std::string device;  ///< its name in the Host; empty: the host or this process
  std::string evidence, consequence, remedy;
  bool operator==(const Finding&) const = default;
};
/// The finding in one line: "warning pci-link 0000:3b:00.0: <evidence>. <consequence>. <remedy>."
std::string describe(const Finding& finding);

/// Where the checks read what is not in the Host.
struct CheckSources {
  std::string root;  ///< as ProbeSources::root
};

/// All findings of a host: most severe first, then in the order of the checks. What cannot be read is a note
/// where it matters to this host, and is left out elsewhere. Never fails. Any thread; some milliseconds.
std::vector<Finding> checkHost(const Host& host, const CheckSources& sources = {});

/// The findings of a host that was read from a file and is not this machine: links, ports and distances. What
/// cannot be judged without the machine, or for lack of facts, is a note "not-judged" each.
std::vector<Finding> checkFile(const Host& host);

/// The finding that accelerators which have NVLink, by their compute capability, have none in this host.
/// Nothing if all have, or if there is only one accelerator. `alsoUnknown`: also a finding where there are no
/// links and the compute capability is unknown.
std::optional<Finding> missingNvLinks(const Host& host, bool alsoUnknown = false);

}  // namespace eccl::topology
