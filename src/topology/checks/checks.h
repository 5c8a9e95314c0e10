// What an operator should repair of a host, or know about it: each finding says what is seen, what it costs,
// and what to do. Judges a Host as probeHost() gives it, and what else the kernel tells of the machine and of
// this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

enum class Severity : uint8_t {
  note,     ///< costs nothing now, or may be meant so
  warning,  ///< costs bandwidth or latency
  error,    ///< something will not work
};
const char* nameOf(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string id;      ///< of the check, for filters and for docs/probing.md: "pci-link"
  std::string device;  ///< its name in the Host; empty: the host or this process
  std::string evidence, consequence, remedy;
  bool operator==(const Finding&) const = default;
};
/// One line: "warning pci-link 0000:3b:00.0: <evidence>. <consequence>. <remedy>."
std::string describe(const Finding& finding);

struct CheckSources {
  std::string root;  ///< as ProbeSources::root
};

/// Most severe first, then in the order of the checks. What cannot be read is a note where it matters to this
/// host, and nothing else. Any thread; some milliseconds.
std::vector<Finding> checkHost(const Host& host, const CheckSources& sources = {});

/// The same of a host that is not this machine but in a file: links, ports and distances. What cannot be judged
/// without the machine, or of facts that the host lacks, is a note "not-judged" each.
std::vector<Finding> checkFile(const Host& host);

/// That accelerators which have NVLink, by their compute capability, have none in this host; nothing if all
/// have, or there is only one. `alsoUnknown`: also that there are no links and it is not known what these are.
std::optional<Finding> missingNvLinks(const Host& host, bool alsoUnknown = false);

}  // namespace eccl::topology
