// What differs between two machines, or between a machine and itself some time ago.
#include <algorithm>
#include <cstdio>

#include "differences.h"
#include "topology/formats/host_json.h"

namespace eccl::topo {
namespace {

std::string textOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Of one device or link, member by member.
void compare(const std::string& where, const std::string& prefix, const Json& a, const Json& b,
             std::vector<Difference>& found) {
  for (const auto& [name, before] : a.items()) {
    const std::string fact = prefix + name;
    if (!b.contains(name))
      found.push_back({"changed", where, fact, textOf(before), "unknown"});
    else if (before.is_object() && b[name].is_object())
      compare(where, fact + ".", before, b[name], found);
    else if (before != b[name])
      found.push_back({"changed", where, fact, textOf(before), textOf(b[name])});
  }
  for (const auto& [name, after] : b.items()) {
    if (!a.contains(name)) found.push_back({"changed", where, prefix + name, "unknown", textOf(after)});
  }
}

Things devicesOf(const Json& host) {
  Things devices;
  for (const Json& device : host["devices"]) devices[device["name"]] = device;
  return devices;
}

Things linksOf(const Json& host) {
  Things links;
  for (const Json& link : host["links"])
    links[textOf(link["kind"]) + " from " + textOf(link["from"]) + " to " + textOf(link["to"])] = link;
  return links;
}

}  // namespace

void compareThings(const Things& a, const Things& b, std::vector<Difference>& found) {
  for (const auto& [name, before] : a) {
    const auto after = b.find(name);
    if (after == b.end())
      found.push_back({"removed", name, "", "", ""});
    else
      compare(name, "", before, after->second, found);
  }
  for (const auto& entry : b) {
    if (a.count(entry.first) == 0) found.push_back({"added", entry.first, "", "", ""});
  }
}

Result<std::vector<Difference>> differencesOf(const topology::Host& host, const topology::Host& other) {
  ECCL_ASSIGN(const std::string a, topology::toJson(host));
  ECCL_ASSIGN(const std::string b, topology::toJson(other));
  const Json before = Json::parse(a), after = Json::parse(b);
  std::vector<Difference> found;
  compareThings(devicesOf(before), devicesOf(after), found);
  compareThings(linksOf(before), linksOf(after), found);
  return found;
}

int report(const std::vector<Difference>& found, const Options& options) {
  Json json = Json::array();
  for (const Difference& difference : found) {
    if (options.json)
      json.push_back({{"what", difference.what},
                      {"where", difference.where},
                      {"fact", difference.fact},
                      {"before", difference.before},
                      {"after", difference.after}});
    else if (difference.what == "changed")
      std::printf("changed  %s: %s: %s, then %s\n", difference.where.c_str(), difference.fact.c_str(),
                  difference.before.c_str(), difference.after.c_str());
    else
      std::printf("%-8s %s\n", difference.what.c_str(), difference.where.c_str());
  }
  if (options.json) std::printf("%s\n", json.dump(1).c_str());
  return found.empty() ? kFine : kFound;
}

int diff(const topology::Host& host, const topology::Host& other, const Options& options) {
  const auto found = differencesOf(host, other);
  return found.ok() ? report(*found, options) : unreadable(found.status());
}

}  // namespace eccl::topo
