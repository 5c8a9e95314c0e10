#include "transport/registry/registry.h"

#include <algorithm>
#include <string_view>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/thread/thread_transport.h"

namespace eccl::transport {
namespace {

// One line for each.
const TransportEntry* const kBuiltIn[] = {
    &kThreadTransport,
    &kShmTransport,
    &kTcpTransport,
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

}  // namespace

std::span<const TransportEntry* const> knownTransports() {
  static const std::vector<const TransportEntry*> sorted = [] {
    std::vector<const TransportEntry*> all(std::begin(kBuiltIn), std::end(kBuiltIn));
    std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->priority > b->priority; });
    return all;
  }();
  return sorted;
}

std::string forbiddenBy(const TransportEntry& entry, const Settings& settings) {
  if (entry.disabledBy != nullptr && settings.valueOf(entry.disabledBy) == "1")
    return format("ECCL_%s=1", entry.disabledBy);
  const std::vector<std::string> named = split(settings.transport);
  if (named.empty() || std::find(named.begin(), named.end(), entry.name) != named.end()) return "";
  return "ECCL_TRANSPORT=" + settings.transport;
}

bool allows(const Settings& settings, std::string_view name) {
  const auto all = knownTransports();
  return std::any_of(all.begin(), all.end(), [&](const TransportEntry* entry) {
    return name == entry->name && forbiddenBy(*entry, settings).empty();
  });
}

Result<TransportChoice> chooseTransports(const Settings& settings) {
  TransportChoice choice;
  std::string known;
  for (const TransportEntry* entry : knownTransports()) {
    known += (known.empty() ? "" : ", ") + std::string(entry->name);
    if (std::string why = forbiddenBy(*entry, settings); why.empty())
      choice.allowed.push_back(entry);
    else
      choice.forbidden.push_back({entry->name, std::move(why)});
  }
  for (const std::string& name : split(settings.transport)) {
    const auto all = knownTransports();
    if (std::any_of(all.begin(), all.end(), [&](auto* entry) { return name == entry->name; })) continue;
    return Status::error(Code::invalidUsage, "ECCL_TRANSPORT=%s: there is no transport '%s'; there are %s",
                         settings.transport.c_str(), name.c_str(), known.c_str());
  }
  return choice;
}

}  // namespace eccl::transport
