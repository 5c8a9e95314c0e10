// A Host as JSON: what `eccl_topo dump --format json` writes and what tools read. docs/topology.schema.json is
// its schema.
//
// Stateless functions, any thread. They need nlohmann-json; in a build without it they fail with invalidUsage
// and say what to install.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/model/topology.h"

namespace eccl::topology {

/// Whether this build has nlohmann-json.
bool haveJson();

/// The indentation for JSON in one line.
inline constexpr int kOneLine = -1;
/// The JSON of a valid host, indented by so many blanks or in one line, with a newline at the end. What is
/// not known is left out.
Result<std::string> toJson(const Host& host, int indent = 2);
/// The host in a text; `name` is what errors call the text. The result is valid and equals the one that was
/// written. Errors (invalidArgument) say where: "<name>: devices[3].port.mtu: …".
Result<Host> parseHostJson(std::string_view text, const std::string& name);

}  // namespace eccl::topology
