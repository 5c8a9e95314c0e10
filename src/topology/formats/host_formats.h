// The formats in which files describe a host: one line each in host_formats.cc. Whoever reads such a file, a
// tool or ECCL_TOPO_FILE, takes any of them, as its content says which it is.
//
// Stateless functions, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/model/topology.h"

namespace eccl::topology {

struct HostFormat {
  const char* name;  ///< of `eccl_topo dump --format`
  bool (*recognizes)(std::string_view text);
  /// As parseHost().
  Result<Host> (*parse)(std::string_view text, const std::string& name, std::vector<std::string>* oddities);
  /// The text of a valid host.
  Result<std::string> (*write)(const Host& host);
};

/// All formats. The last one recognizes every text, so that its parser says what is wrong with a text of none.
std::span<const HostFormat> hostFormats();
/// nullptr if there is none of that name.
const HostFormat* findHostFormat(std::string_view name);

/// The host in `text`; `name` is what errors call the text. The result is valid. `oddities` is given sentences
/// of which the user should hear, as the text may mean something else. Errors (invalidArgument) name the text
/// and the place; a build without the library that a format needs says what to install (invalidUsage).
Result<Host> parseHost(std::string_view text, const std::string& name,
                       std::vector<std::string>* oddities = nullptr);
/// The host in a file of at most 16 MiB; system if it cannot be read.
Result<Host> loadHost(const std::string& path, std::vector<std::string>* oddities = nullptr);

}  // namespace eccl::topology
