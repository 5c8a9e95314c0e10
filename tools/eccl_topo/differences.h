// What differs between two machines or two clusters: the work of diff.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"

namespace eccl::topo {

using Json = nlohmann::ordered_json;

/// One difference: "removed", "added" or "changed", where, which fact, and what it was and is.
struct Difference {
  std::string what, where, fact, before, after;
};

/// Facts by what people call the thing that they belong to.
using Things = std::map<std::string, Json>;

/// Appends what differs, thing by thing and fact by fact.
void compareThings(const Things& a, const Things& b, std::vector<Difference>& found);

/// The differences of devices and links. Errors: toJson()'s.
Result<std::vector<Difference>> differencesOf(const topology::Host& host, const topology::Host& other);

/// Prints them, as options.json says, and returns the exit code.
int report(const std::vector<Difference>& found, const Options& options);

}  // namespace eccl::topo
