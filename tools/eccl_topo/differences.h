// What differs between two machines or two clusters: the work of diff.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"

namespace eccl::topo {

/// One difference: "removed", "added" or "changed", where, which fact, and what it was and is.
struct Difference {
  std::string what, where, fact, before, after;
};

/// The facts of a thing, in their order: name and value, such as "pci.device" and "0x1234".
using Facts = std::vector<std::pair<std::string, std::string>>;
/// Facts by what people call the thing that they belong to.
using Things = std::map<std::string, Facts>;

/// A number as JSON writes it.
std::string textOf(double number);

/// Appends what differs, thing by thing and fact by fact.
void compareThings(const Things& a, const Things& b, std::vector<Difference>& found);

/// The differences of devices and links. Errors: toJson()'s.
Result<std::vector<Difference>> differencesOf(const topology::Host& host, const topology::Host& other);

/// Prints them, as options.json says, and returns the exit code.
int report(const std::vector<Difference>& found, const Options& options);

}  // namespace eccl::topo
