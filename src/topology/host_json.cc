#include "topology/host_json.h"

#ifdef ECCL_HAVE_JSON

#include <array>
#include <cinttypes>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace eccl {
namespace {

using Json = nlohmann::ordered_json;

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

// Identifiers are hexadecimal text: JSON's numbers need not hold 64 bits.
template <class Number>
constexpr bool kIdentifier = std::is_same_v<Number, uint32_t> || std::is_same_v<Number, uint64_t>;

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

/// An object that is read: each member at most once, and none that nobody asked for. The first error stays.
class Reader {
 public:
  Reader(const Json& from, std::string where) : from_(from), where_(std::move(where)) {
    if (!from.is_object()) fail("", "is not an object");
  }

  template <class Value>
  void operator()(const char* name, Value& value) {
    const Json* member = find(name);
    if (member != nullptr && !read(*member, value)) fail(name, "is not " + wantedBy(value));
  }
  template <class Facts>
  void facts(const char* name, std::optional<Facts>& facts) {
    const Json* member = find(name);
    if (member == nullptr) return;
    Reader reader(*member, where_ + name + ".");
    visitMembers(facts.emplace(), reader);
    keep(reader.end());
  }
  /// An array of objects, each given to `visit` with a reader of its own.
  template <class Visit>
  void objects(const char* name, Visit&& visit) {
    const Json* member = find(name);
    if (member == nullptr) return;
    if (!member->is_array()) return fail(name, "is not an array");
    for (size_t i = 0; i < member->size() && status_.ok(); ++i) {
      Reader reader((*member)[i], format("%s%s[%zu].", where_.c_str(), name, i));
      visit(reader);
      keep(reader.end());
    }
  }
  void fail(const std::string& name, const std::string& what) {
    std::string place = where_ + name;
    while (!place.empty() && (place.back() == '.' || place.back() == ' ')) place.pop_back();
    keep(Status::error(Code::invalidArgument, "%s %s", place.c_str(), what.c_str()));
  }
  /// Once all members have been asked for.
  Status end() {
    if (status_.ok() && from_.is_object() && asked_.size() < from_.size()) {
      for (const auto& member : from_.items()) {
        if (std::find(asked_.begin(), asked_.end(), member.key()) == asked_.end())
          fail(member.key().substr(0, 40), "is not known");
      }
    }
    return status_;
  }

 private:
  const Json* find(const char* name) {
    if (!from_.is_object()) return nullptr;
    const auto member = from_.find(name);
    if (member == from_.end()) return nullptr;
    asked_.emplace_back(name);
    return &*member;
  }
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  static bool read(const Json& from, std::string& value) {
    if (from.is_string()) value = from.get<std::string>();
    return from.is_string();
  }
  static bool read(const Json& from, bool& value) {
    if (from.is_boolean()) value = from.get<bool>();
    return from.is_boolean();
  }
  static bool read(const Json& from, double& value) {
    if (from.is_number()) value = from.get<double>();
    return from.is_number();
  }
  template <class Number>
  static bool read(const Json& from, Number& value) requires std::is_integral_v<Number> {
    if constexpr (kIdentifier<Number>) {
      const std::string text = from.is_string() ? from.get<std::string>() : "";
      char* end = nullptr;
      errno = 0;
      const uint64_t number = std::strtoull(text.c_str(), &end, 16);
      value = static_cast<Number>(number);
      return text.starts_with("0x") && text.size() > 2 && *end == '\0' && errno == 0 && value == number;
    } else {
      if (!from.is_number_integer() || (from.is_number_unsigned() && from.get<uint64_t>() > INT64_MAX)) return false;
      const auto number = from.get<int64_t>();
      value = static_cast<Number>(number);
      return value == number;
    }
  }
  template <class Value>
  static bool read(const Json& from, std::optional<Value>& value) {
    return read(from, value.emplace());
  }
  template <class Value>
  static bool read(const Json& from, std::vector<Value>& value) {
    if (!from.is_array()) return false;
    for (const Json& element : from) {
      if (!read(element, value.emplace_back())) return false;
    }
    return true;
  }

  static std::string wantedBy(const std::string&) { return "a text"; }
  static std::string wantedBy(const bool&) { return "true or false"; }
  static std::string wantedBy(const double&) { return "a number"; }
  template <class Number>
  static std::string wantedBy(const Number&) requires std::is_integral_v<Number> {
    return kIdentifier<Number> ? format("hexadecimal text of %zu bits, such as \"0x1a\"", 8 * sizeof(Number))
                               : format("a whole number of %zu bits", 8 * sizeof(Number));
  }
  template <class Value>
  static std::string wantedBy(const std::optional<Value>&) {
    return wantedBy(Value{});
  }
  template <class Value>
  static std::string wantedBy(const std::vector<Value>&) {
    return "an array, each element " + wantedBy(Value{});
  }

  const Json& from_;
  const std::string where_;
  std::vector<std::string> asked_;
  Status status_;
};

/// What a text names, among the names of an enumeration.
template <class Kind, size_t N>
void readKind(Reader& reader, const std::array<const char*, N>& names, Kind& kind) {
  std::string text, known;
  reader("kind", text);
  for (size_t i = 0; i < N; ++i) {
    known += (i > 0 ? ", " : "") + std::string(names[i]);
    if (text == names[i]) {
      kind = static_cast<Kind>(i);
      return;
    }
  }
  reader.fail("kind", "is none of " + known);
}

/// Devices are named by their names.
class Names {
 public:
  void add(const std::string& name) { numbers_.emplace(name, static_cast<int>(numbers_.size())); }
  void read(Reader& reader, const char* member, int& device, bool needed) const {
    std::string name;
    reader(member, name);
    if (name.empty() && !needed) return;
    const auto found = numbers_.find(name);
    if (found == numbers_.end())
      reader.fail(member, "is \"" + name.substr(0, 40) + "\", which no device before it is called");
    else
      device = found->second;
  }

 private:
  std::unordered_map<std::string, int> numbers_;
};

void readDevice(Reader& reader, Names& names, Host& host) {
  Device& device = host.devices.emplace_back();
  reader("name", device.name);
  readKind(reader, kDeviceKinds, device.kind);
  names.read(reader, "parent", device.parent, false);
  reader.facts("cpu", device.cpu);
  reader.facts("pci", device.pci);
  reader.facts("accelerator", device.accelerator);
  reader.facts("port", device.port);
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

Result<std::string> toJson(const Host& host) {
  ECCL_TRY(validate(host));
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
  // Names come from files and devices: what is not UTF-8 in them is replaced rather than thrown about.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Host> parseHostJson(std::string_view text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {  // says line and column
    return Status::error(Code::invalidArgument, "%s: %s", name.c_str(), error.what());
  }
  Reader reader(json, name + ": ");
  Host host;
  std::string formatName;
  int version = 0;
  reader("format", formatName);
  reader("version", version);
  if (formatName != kFormat) reader.fail("format", format("is not \"%s\"", kFormat));
  if (version != kVersion) reader.fail("version", format("is not %d", kVersion));
  reader("name", host.name);
  Names names;
  reader.objects("devices", [&](Reader& device) { readDevice(device, names, host); });
  reader.objects("links", [&](Reader& link) { readLink(link, names, host); });
  reader("unread", host.unread);
  ECCL_TRY(reader.end());
  ECCL_TRY(validate(host));
  return host;
}

}  // namespace eccl

#else

namespace eccl {
namespace {

Status absent() {
  return Status::error(Code::invalidUsage,
                       "this build of ECCL reads and writes no JSON: install nlohmann-json3-dev and build it again");
}

}  // namespace

Result<std::string> toJson(const Host&) {
  return absent();
}
Result<Host> parseHostJson(std::string_view, const std::string&) {
  return absent();
}

}  // namespace eccl

#endif
