#include "transport/net/interfaces.h"

#include <algorithm>

#include "base/tokens.h"

namespace eccl::transport {
namespace {

// ECCL_SOCKET_IFNAME, taken apart.
struct Pattern {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  /// Position of the first entry that matches, -1 when none does.
  int find(const std::string& name) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (exact ? name == names[i] : name.compare(0, names[i].size(), names[i]) == 0)
        return static_cast<int>(i);
    }
    return -1;
  }
};

Pattern parsePattern(std::string_view text) {
  Pattern pattern;
  if (!text.empty() && text[0] == '^') pattern.exclude = true, text.remove_prefix(1);
  if (!text.empty() && text[0] == '=') pattern.exact = true, text.remove_prefix(1);
  pattern.names = itemsOf(text);
  return pattern;
}

std::string describe(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& one : all) {
    text += format("%s%s (%s)", text.empty() ? "" : ", ", one.name.c_str(), one.address.hostText().c_str());
  }
  return text.empty() ? "none" : text;
}

}  // namespace

bool listsNames(const InterfaceOptions& options) {
  const Pattern pattern = parsePattern(options.names);
  return !pattern.names.empty() && !pattern.exclude;
}

// Loopback is a choice too: on one host, or without a network, it is all there is.
InterfaceKind kindOf(const Interface& one) {
  if (one.address.isLoopback()) return InterfaceKind::loopback;
  for (const char* bridge : {"docker", "virbr", "veth", "br-", "cni", "lxc"}) {
    if (one.name.rfind(bridge, 0) == 0) return InterfaceKind::bridge;  // often the same address on every host
  }
  return one.name.rfind("ib", 0) == 0 ? InterfaceKind::infiniBand : InterfaceKind::ordinary;
}

InterfaceOptions interfaceOptions(const Settings& settings) {
  InterfaceOptions options;
  options.names = settings.socketIfname;
  options.family = settings.socketFamily == "AF_INET"    ? AF_INET
                   : settings.socketFamily == "AF_INET6" ? AF_INET6
                                                         : AF_UNSPEC;
  return options;
}

Result<std::vector<Interface>> listInterfaces(System& system) {
  ECCL_ASSIGN(const std::vector<InterfaceAddress> all, system.interfaces());
  std::vector<Interface> found;
  for (const InterfaceAddress& one : all) {
    SocketAddress address = SocketAddress::from(reinterpret_cast<const sockaddr*>(&one.address));
    if (address.valid() && !address.isLinkLocal()) found.push_back({one.name, address});
  }
  return found;
}

Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all,
                                                const InterfaceOptions& options) {
  const Pattern pattern = parsePattern(options.names);
  std::vector<std::pair<int, Interface>> ranked;
  for (const Interface& one : all) {
    if (options.family != AF_UNSPEC && one.address.family() != options.family) continue;
    const int position = pattern.find(one.name);
    if (!pattern.names.empty() && (position >= 0) == pattern.exclude) continue;
    const int order = listsNames(options) ? position : static_cast<int>(kindOf(one));
    ranked.emplace_back(2 * order + (one.address.family() == AF_INET6 ? 1 : 0), one);
  }
  if (ranked.empty()) {
    const char* family = options.family == AF_INET ? " IPv4" : options.family == AF_INET6 ? " IPv6" : "";
    return Status::error(
        Code::invalidArgument,
        "ECCL_SOCKET_IFNAME='%s' selects no interface with an%s address on this host: it has %s "
        "(PREFIX,... selects, ^PREFIX,... excludes, = asks for whole names; see also ECCL_SOCKET_FAMILY)",
        options.names.c_str(), *family ? family : " IP", describe(all).c_str());
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<Interface> chosen;
  for (auto& [order, one] : ranked) chosen.push_back(std::move(one));
  return chosen;
}

}  // namespace eccl::transport
