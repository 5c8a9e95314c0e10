// Clusters as JSON. Writing finds runs of hosts and ranks that are alike and numbered one by one; reading
// takes such entries apart again, within limits.
#include "topology/formats/cluster_json.h"

#ifdef ECCL_HAVE_JSON

#include <charconv>

#include "topology/formats/host_json_value.h"

namespace eccl::topology {
namespace {

constexpr const char* kFormat = "eccl-cluster";
constexpr int kVersion = 1;
constexpr int kMaxNumber = 999'999'999;  // of a host: nine digits

/// "node" and 7 of "node7": what a run of hosts counts. No number, one with leading zeros and one that is too
/// large belong to the name.
struct NumberedName {
  explicit NumberedName(const std::string& name) : base(name) {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const size_t count = name.size() - digits;
    if (count == 0 || count > 9 || (count > 1 && name[digits] == '0')) return;
    base = name.substr(0, digits);
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
  }
  std::string base;
  int number = -1;  // none
};

template <class Number>
void writeKnown(Json& to, const char* name, const std::optional<Number>& value) {
  if (value) to[name] = *value;
}

// One entry on a line: files of large clusters stay readable, and differ by lines.
void writeList(std::string& text, const char* name, const std::vector<Json>& entries) {
  if (entries.empty()) return;
  text += format(",\n\"%s\": [\n", name);
  for (size_t i = 0; i < entries.size(); ++i) text += (i > 0 ? ",\n " : " ") + textOf(entries[i]);
  text += "\n]";
}

std::vector<Json> hostEntries(const Cluster& cluster) {
  std::vector<Json> entries;
  for (size_t h = 0; h < cluster.hosts.size();) {
    const ClusterHost& first = cluster.hosts[h];
    const NumberedName name(first.name);
    size_t end = h + 1;
    while (name.number >= 0 && name.number + static_cast<int>(end - h) <= kMaxNumber &&
           end < cluster.hosts.size() && cluster.hosts[end].type == first.type &&
           cluster.hosts[end].uplinks == first.uplinks &&
           cluster.hosts[end].name == name.base + std::to_string(name.number + static_cast<int>(end - h)))
      ++end;
    Json& entry = entries.emplace_back(Json::object());
    entry["name"] = end - h > 1 ? name.base : first.name;
    if (end - h > 1) {
      entry["count"] = end - h;
      entry["first"] = name.number;
    }
    const Host& type = cluster.typeOf(static_cast<int>(h));
    entry["type"] = type.name;
    for (const Uplink& link : first.uplinks)
      entry["uplinks"].push_back({{"port", type.devices[static_cast<size_t>(link.port)].name},
                                  {"switch", cluster.switches[static_cast<size_t>(link.toSwitch)].name},
                                  {"gigabytes", link.gigabytes},
                                  {"microseconds", link.microseconds}});
    h = end;
  }
  return entries;
}

Json asJson(const Switch& sw) {
  Json entry{{"name", sw.name}, {"tier", sw.tier}};
  if (sw.ports > 0) entry["ports"] = sw.ports;
  writeKnown(entry, "pod", sw.pod);
  writeKnown(entry, "rail", sw.rail);
  writeKnown(entry, "plane", sw.plane);
  return entry;
}

Json asJson(const Cluster& cluster, const Trunk& trunk) {
  return {{"from", cluster.switches[static_cast<size_t>(trunk.a)].name},
          {"to", cluster.switches[static_cast<size_t>(trunk.b)].name},
          {"count", trunk.count},
          {"gigabytes", trunk.gigabytes},
          {"microseconds", trunk.microseconds}};
}

std::vector<Json> rankEntries(const Cluster& cluster) {
  struct Run {
    int host = 0, count = 1;
    std::vector<std::string> devices;
  };
  std::vector<Run> onHosts;
  for (const RankPlace& place : cluster.ranks) {
    if (onHosts.empty() || onHosts.back().host != place.host) onHosts.push_back({place.host, 1, {}});
    onHosts.back().devices.push_back(
        cluster.typeOf(place.host).devices[static_cast<size_t>(place.device)].name);
  }
  std::vector<Run> runs;
  for (Run& run : onHosts) {
    if (!runs.empty() && runs.back().host + runs.back().count == run.host && runs.back().devices == run.devices)
      ++runs.back().count;
    else
      runs.push_back(std::move(run));
  }
  std::vector<Json> entries;
  for (const Run& run : runs) {
    Json& entry = entries.emplace_back(Json{{"host", cluster.hosts[static_cast<size_t>(run.host)].name}});
    if (run.count > 1) entry["hosts"] = run.count;
    entry["devices"] = run.devices;
  }
  return entries;
}

/// How many things an entry stands for.
int readCount(Reader& reader, const char* member, size_t already, int most) {
  int count = 1;
  reader(member, count);
  if (count >= 1 && static_cast<size_t>(count) + already <= static_cast<size_t>(most)) return count;
  reader.fail(member, format("is not from 1 to %zu: %d there can be in all",
                             most - std::min<size_t>(already, most), most));
  return 0;
}

double readBandwidth(Reader& reader) {
  double gigabytes = 0;
  reader("gigabytes", gigabytes);
  if (!(gigabytes > 0)) reader.fail("gigabytes", "is not a bandwidth above zero");
  return gigabytes;
}

class Parser {
 public:
  Parser(std::string name, const HostLoader& load) : name_(std::move(name)), load_(load) {}

  Result<Cluster> parse(const Json& json) {
    Reader reader(json, name_ + ": ");
    readFormat(reader, kFormat, kVersion);
    reader("name", cluster_.name);
    reader.objects("types", [this](Reader& entry) { type(entry); });
    reader.objects("switches", [this](Reader& entry) { oneSwitch(entry); });
    reader.objects("hosts", [this](Reader& entry) { hosts(entry); });
    reader.objects("links", [this](Reader& entry) { link(entry); });
    reader.objects("ranks", [this](Reader& entry) { ranks(entry); });
    ECCL_TRY(reader.end());
    if (Status status = validate(cluster_); !status.ok())
      return Status::error(status.code(), "%s: %s", name_.c_str(), status.message().c_str());
    return std::move(cluster_);
  }

 private:
  static void addName(Reader& reader, Names& names, const std::string& name) {
    if (name.empty())
      reader.fail("name", "is missing");
    else if (!names.add(name))
      reader.fail("name", "is \"" + name.substr(0, 40) + "\", as another's is");
  }

  void type(Reader& entry) {
    Host host;
    if (entry.has("file")) {
      std::string path, name;
      entry("file", path);
      entry("name", name);
      Result<Host> loaded = load_(path);
      if (!loaded.ok()) return entry.fail("file", "cannot be used: " + loaded.status().message());
      host = loaded.take();
      host.name = name;
    } else {
      readHost(entry, host);
      if (!entry.ok()) return;
      if (const Status status = validate(host); !status.ok()) return entry.fail("", ": " + status.message());
    }
    addName(entry, typeNames_, host.name);
    Names& devices = devices_.emplace_back("device of that host type");
    for (const Device& device : host.devices) devices.add(device.name);
    cluster_.types.push_back(std::move(host));
  }

  void oneSwitch(Reader& entry) {
    Switch& sw = cluster_.switches.emplace_back();
    entry("name", sw.name);
    addName(entry, switchNames_, sw.name);
    entry("tier", sw.tier);
    entry("ports", sw.ports);
    entry("pod", sw.pod);
    entry("rail", sw.rail);
    entry("plane", sw.plane);
  }

  void hosts(Reader& entry) {
    ClusterHost host;
    int first = -1;
    entry("name", host.name);
    entry("first", first);
    const int count = readCount(entry, "count", cluster_.hosts.size(), kMaxHosts);
    if (count > 1 && first < 0) first = 0;
    if (first > kMaxNumber - count) return entry.fail("first", format("leads above %d", kMaxNumber));
    typeNames_.read(entry, "type", host.type, true);
    if (!entry.ok()) return;
    entry.objects("uplinks", [&](Reader& uplink) {
      Uplink& link = host.uplinks.emplace_back();
      devices_[static_cast<size_t>(host.type)].read(uplink, "port", link.port, true);
      switchNames_.read(uplink, "switch", link.toSwitch, true);
      link.gigabytes = readBandwidth(uplink);
      uplink("microseconds", link.microseconds);
    });
    std::sort(host.uplinks.begin(), host.uplinks.end(),
              [](const auto& a, const auto& b) { return a.port < b.port; });
    wired_ += host.uplinks.size() * static_cast<size_t>(count);
    if (wired_ > static_cast<size_t>(kMaxUplinks))
      return entry.fail("uplinks", format("are more in all than the %d that can be", kMaxUplinks));
    const std::string base = host.name;
    for (int i = 0; i < count && entry.ok(); ++i) {
      if (first >= 0) host.name = base + std::to_string(first + i);
      addName(entry, hostNames_, host.name);
      cluster_.hosts.push_back(host);
    }
  }

  void link(Reader& entry) {
    Trunk& trunk = cluster_.trunks.emplace_back();
    switchNames_.read(entry, "from", trunk.a, true);
    switchNames_.read(entry, "to", trunk.b, true);
    entry("count", trunk.count);
    trunk.gigabytes = readBandwidth(entry);
    entry("microseconds", trunk.microseconds);
  }

  void ranks(Reader& entry) {
    int first = 0;
    std::vector<std::string> devices;
    hostNames_.read(entry, "host", first, true);
    entry("devices", devices);
    if (!entry.ok()) return;
    const int count =
        readCount(entry, "hosts", static_cast<size_t>(first), static_cast<int>(cluster_.hosts.size()));
    if (devices.size() * static_cast<size_t>(count) + cluster_.ranks.size() > static_cast<size_t>(kMaxRanks))
      return entry.fail("devices", format("are more ranks than the %d that can be", kMaxRanks));
    for (int h = first; h < first + count; ++h) {
      const Names& names = devices_[static_cast<size_t>(cluster_.hosts[static_cast<size_t>(h)].type)];
      for (size_t i = 0; i < devices.size(); ++i) {
        const int device = names.find(devices[i]);
        if (device < 0)
          return entry.fail(format("devices[%zu]", i),
                            "is \"" + devices[i].substr(0, 40) + "\", which no device of host " +
                                cluster_.hosts[static_cast<size_t>(h)].name.substr(0, 40) + " is called");
        cluster_.ranks.push_back({h, device});
      }
    }
  }

  const std::string name_;
  const HostLoader& load_;
  Cluster cluster_;
  size_t wired_ = 0;  // ports
  Names typeNames_{"host type"}, switchNames_{"switch"}, hostNames_{"host"};
  std::vector<Names> devices_;  // by type
};

}  // namespace

Result<std::string> toJson(const Cluster& cluster) {
  ECCL_TRY(validate(cluster));
  std::string text = format("{\n\"format\": \"%s\",\n\"version\": %d", kFormat, kVersion);
  if (!cluster.name.empty()) text += ",\n\"name\": " + textOf(cluster.name);
  std::vector<Json> types, switches, trunks;
  for (const Host& type : cluster.types) types.push_back(valueOf(type));
  for (const Switch& sw : cluster.switches) switches.push_back(asJson(sw));
  for (const Trunk& trunk : cluster.trunks) trunks.push_back(asJson(cluster, trunk));
  writeList(text, "types", types);
  writeList(text, "switches", switches);
  writeList(text, "hosts", hostEntries(cluster));
  writeList(text, "links", trunks);
  writeList(text, "ranks", rankEntries(cluster));
  return text + "\n}\n";
}

Result<Cluster> parseClusterJson(std::string_view text, const std::string& name, const HostLoader& load) {
  ECCL_ASSIGN(const Json json, parseJson(text, name));
  return Parser(name, load).parse(json);
}

}  // namespace eccl::topology

#else

#include "topology/formats/json_absent.h"

namespace eccl::topology {

Result<std::string> toJson(const Cluster&) {
  return jsonAbsent();
}
Result<Cluster> parseClusterJson(std::string_view, const std::string&, const HostLoader&) {
  return jsonAbsent();
}

}  // namespace eccl::topology

#endif

namespace eccl::topology {

bool looksLikeCluster(std::string_view text) {
  return text.substr(0, 200).find("\"eccl-cluster\"") != text.npos;
}

}  // namespace eccl::topology
