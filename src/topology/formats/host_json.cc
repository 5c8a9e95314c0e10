// Hosts as JSON, member by member. One function lists the members of each struct; it serves writing and
// reading alike.
#include "topology/formats/host_json.h"

#ifdef ECCL_HAVE_JSON

#include <cinttypes>

#include "topology/formats/host_json_value.h"

namespace eccl::topology {
namespace {

constexpr const char* kFormat = "eccl-host";
constexpr int kVersion = 1;
constexpr std::array<const char*, 7> kDeviceKinds = {"cpu",  "bridge",   "accelerator", "nic",
                                                     "port", "nvSwitch", "other"};
constexpr std::array<const char*, 4> kFabricKinds = {"nvLink", "c2c", "xgmi", "pciSwitch"};

// The members of each kind of facts, for the writer and the reader alike.
template <class Visit>
void visitMembers(CpuFacts& facts, Visit&& visit) {
  visit("cores", facts.cores);
  visit("arch", facts.arch);
  visit("vendor", facts.vendor);
  visit("family", facts.family);
  visit("model", facts.model);
  visit("hostHash", facts.hostHash);
}

template <class Visit>
void visitMembers(PciFacts& facts, Visit&& visit) {
  visit("busId", facts.busId);
  visit("class", facts.classCode);
  visit("vendor", facts.vendor);
  visit("device", facts.device);
  visit("subsystemVendor", facts.subsystemVendor);
  visit("subsystemDevice", facts.subsystemDevice);
  visit("gigatransfers", facts.gigatransfers);
  visit("ablestGigatransfers", facts.ablestGigatransfers);
  visit("width", facts.width);
  visit("ablestWidth", facts.ablestWidth);
}

template <class Visit>
void visitMembers(AcceleratorFacts& facts, Visit&& visit) {
  visit("index", facts.index);
  visit("rank", facts.rank);
  visit("computeCapability", facts.computeCapability);
  visit("gcn", facts.gcn);
  visit("arch", facts.arch);
  visit("direct", facts.direct);
}

template <class Visit>
void visitMembers(PortFacts& facts, Visit&& visit) {
  visit("index", facts.index);
  visit("number", facts.number);
  visit("megabits", facts.megabits);
  visit("ablestMegabits", facts.ablestMegabits);
  visit("guid", facts.guid);
  visit("latency", facts.latency);
  visit("maxConnections", facts.maxConnections);
  visit("direct", facts.direct);
  visit("interface", facts.interface);
  visit("state", facts.state);
  visit("layer", facts.layer);
  visit("mtu", facts.mtu);
  visit("rail", facts.rail);
  visit("plane", facts.plane);
  visit("collective", facts.collective);
}

struct Writer {
  Json& to;
  template <class Number>
  void operator()(const char* name, const std::optional<Number>& value) const {
    if (!value) return;
    if constexpr (kIdentifier<Number>)
      to[name] = format("0x%" PRIx64, static_cast<uint64_t>(*value));
    else
      to[name] = *value;
  }
  template <class Value>
  void operator()(const char* name, const Value& value) const {
    if (value != Value{}) to[name] = value;
  }
};

template <class Facts>
void write(Json& to, const char* name, const std::optional<Facts>& facts) {
  if (!facts) return;
  Facts copy = *facts;  // the lists of members are for writing to
  visitMembers(copy, Writer{to[name] = Json::object()});
}

template <class Facts>
void read(Reader& reader, const char* name, std::optional<Facts>& facts) {
  reader.object(name, [&](Reader& member) { visitMembers(facts.emplace(), member); });
}

void readDevice(Reader& reader, Names& names, Host& host) {
  Device& device = host.devices.emplace_back();
  reader("name", device.name);
  readKind(reader, kDeviceKinds, device.kind);
  names.read(reader, "parent", device.parent, false);
  read(reader, "cpu", device.cpu);
  read(reader, "pci", device.pci);
  read(reader, "accelerator", device.accelerator);
  read(reader, "port", device.port);
  names.add(device.name);
}

void readLink(Reader& reader, const Names& names, Host& host) {
  FabricLink& link = host.fabric.emplace_back();
  names.read(reader, "from", link.from, true);
  names.read(reader, "to", link.to, true);
  readKind(reader, kFabricKinds, link.kind);
  reader("count", link.count);
  reader("bandwidth", link.bandwidth);
}

}  // namespace

Json valueOf(const Host& host) {
  Json json{{"format", kFormat}, {"version", kVersion}};
  if (!host.name.empty()) json["name"] = host.name;
  Json& devices = json["devices"] = Json::array();
  for (const Device& device : host.devices) {
    Json& to = devices.emplace_back(Json::object());
    to["name"] = device.name;
    to["kind"] = kDeviceKinds[static_cast<size_t>(device.kind)];
    if (device.parent != Device::kNone) to["parent"] = host.devices[static_cast<size_t>(device.parent)].name;
    write(to, "cpu", device.cpu);
    write(to, "pci", device.pci);
    write(to, "accelerator", device.accelerator);
    write(to, "port", device.port);
  }
  Json& links = json["links"] = Json::array();
  for (const FabricLink& link : host.fabric) {
    Json& to = links.emplace_back(Json::object());
    to["from"] = host.devices[static_cast<size_t>(link.from)].name;
    to["to"] = host.devices[static_cast<size_t>(link.to)].name;
    to["kind"] = kFabricKinds[static_cast<size_t>(link.kind)];
    to["count"] = link.count;
    if (link.bandwidth) to["bandwidth"] = *link.bandwidth;
  }
  if (!host.unread.empty()) json["unread"] = host.unread;
  return json;
}

void readHost(Reader& reader, Host& host) {
  readFormat(reader, kFormat, kVersion);
  reader("name", host.name);
  Names names("device before it");
  reader.objects("devices", [&](Reader& device) { readDevice(device, names, host); });
  reader.objects("links", [&](Reader& link) { readLink(link, names, host); });
  reader("unread", host.unread);
}

bool haveJson() {
  return true;
}

Result<std::string> toJson(const Host& host, int indent) {
  ECCL_TRY(validate(host));
  return textOf(valueOf(host), indent) + "\n";
}

Result<Host> parseHostJson(std::string_view text, const std::string& name) {
  ECCL_ASSIGN(const Json json, parseJson(text, name));
  Reader reader(json, name + ": ");
  Host host;
  readHost(reader, host);
  ECCL_TRY(reader.end());
  ECCL_TRY(validate(host));
  return host;
}

}  // namespace eccl::topology

#else

#include "topology/formats/json_absent.h"

namespace eccl::topology {

bool haveJson() {
  return false;
}

Result<std::string> toJson(const Host&, int) {
  return jsonAbsent();
}
Result<Host> parseHostJson(std::string_view, const std::string&) {
  return jsonAbsent();
}

}  // namespace eccl::topology

#endif
