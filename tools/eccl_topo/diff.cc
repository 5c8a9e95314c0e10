// What differs between two machines, or between a machine and itself some time ago.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "differences.h"
#include "tools/common/json.h"
#include "topology/formats/host_json.h"

namespace eccl::topo {
namespace {

using Json = nlohmann::ordered_json;

std::string textOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Members of members are facts of their own: "pci.device".
void addFacts(const std::string& prefix, const Json& object, Facts& facts) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object() && !value.empty())
      addFacts(prefix + name + ".", value, facts);
    else
      facts.emplace_back(prefix + name, textOf(value));
  }
}

Things devicesOf(const Json& host) {
  Things devices;
  for (const Json& device : host["devices"]) addFacts("", device, devices[device["name"]]);
  return devices;
}

Things linksOf(const Json& host) {
  Things links;
  for (const Json& link : host["links"]) {
    Facts facts;
    addFacts("", link, facts);
    links[textOf(link["kind"]) + " from " + textOf(link["from"]) + " to " + textOf(link["to"])] =
        std::move(facts);
  }
  return links;
}

const std::string* valueOf(const std::string& name, const Facts& facts) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? nullptr : &found->second;
}

/// Of one thing, fact by fact.
void compare(const std::string& where, const Facts& a, const Facts& b, std::vector<Difference>& found) {
  for (const auto& [name, before] : a) {
    const std::string* after = valueOf(name, b);
    if (after == nullptr || *after != before)
      found.push_back({"changed", where, name, before, after != nullptr ? *after : "unknown"});
  }
  for (const auto& [name, after] : b) {
    if (valueOf(name, a) == nullptr) found.push_back({"changed", where, name, "unknown", after});
  }
}

}  // namespace

std::string textOf(double number) {
  return Json(number).dump();
}

void compareThings(const Things& a, const Things& b, std::vector<Difference>& found) {
  for (const auto& [name, before] : a) {
    const auto after = b.find(name);
    if (after == b.end())
      found.push_back({"removed", name, "", "", ""});
    else
      compare(name, before, after->second, found);
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
  tools::JsonWriter json(stdout);
  if (options.json) json.beginList();
  for (const Difference& difference : found) {
    if (options.json) {
      json.beginObject();
      json.key("what").string(difference.what);
      json.key("where").string(difference.where);
      json.key("fact").string(difference.fact);
      json.key("before").string(difference.before);
      json.key("after").string(difference.after);
      json.end();
    } else if (difference.what == "changed") {
      std::printf("changed  %s: %s: %s, then %s\n", difference.where.c_str(), difference.fact.c_str(),
                  difference.before.c_str(), difference.after.c_str());
    } else {
      std::printf("%-8s %s\n", difference.what.c_str(), difference.where.c_str());
    }
  }
  if (options.json) json.finish();
  return found.empty() ? kFine : kFound;
}

int diff(const topology::Host& host, const topology::Host& other, const Options& options) {
  const auto found = differencesOf(host, other);
  return found.ok() ? report(*found, options) : unreadable(found.status());
}

}  // namespace eccl::topo
