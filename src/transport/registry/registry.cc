// The transports that are built in, and the modules that this process has opened.
#include "transport/registry/registry.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/tokens.h"
#include "transport/registry/modules.h"
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

/// Of the process; never destroyed, as threads may outlive static destructors.
class Registry {
 public:
  static Registry& get() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  std::vector<const TransportEntry*> known() {
    std::lock_guard lock(mutex_);
    return known_;
  }

  std::string fileOf(const TransportEntry& entry) {
    std::lock_guard lock(mutex_);
    return modules_.fileOf(&entry);
  }

  Status open(const std::string& path) {
    std::lock_guard lock(mutex_);
    ECCL_ASSIGN(const TransportEntry* entry, modules_.open(path));
    const auto same = std::find_if(known_.begin(), known_.end(), [&](const TransportEntry* each) {
      return std::string_view(each->name) == entry->name;
    });
    if (same != known_.end() && *same == entry) return {};
    if (same != known_.end()) {
      return Status::error(Code::invalidUsage,
                           "the transport module %s brings a second transport '%s': remove one of the two",
                           path.c_str(), entry->name);
    }
    known_.push_back(entry);
    sort();
    return {};
  }

  /// Of a module that nobody has named: said once. That its libraries are not installed is seldom news.
  void leaveOut(const std::string& path, const Status& why) {
    std::lock_guard lock(mutex_);
    if (!leftOut_.insert(path).second) return;
    const LogLevel level = why.code() == Code::system ? LogLevel::info : LogLevel::warn;
    if (logEnabled(level)) log(level, "%s. It is not used", why.message().c_str());
  }

 private:
  Registry() : known_(std::begin(kBuiltIn), std::end(kBuiltIn)) { sort(); }
  void sort() {
    std::stable_sort(known_.begin(), known_.end(), [](const TransportEntry* a, const TransportEntry* b) {
      return a->priority > b->priority;
    });
  }

  std::mutex mutex_;
  TransportModules modules_;
  std::vector<const TransportEntry*> known_;
  std::set<std::string> leftOut_;
};

const TransportEntry* entryNamed(const std::vector<const TransportEntry*>& all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const TransportEntry* each) { return name == each->name; });
  return found != all.end() ? *found : nullptr;
}

/// As a communicator tries them: the nearest first, then by ECCL_TRANSPORT, then by priority.
std::vector<const TransportEntry*> inOrder(std::vector<const TransportEntry*> known, const Settings& settings) {
  const std::vector<std::string> named = itemsOf(settings.transport);
  const auto place = [&](const TransportEntry* entry) {
    return std::pair(entry->reach, std::find(named.begin(), named.end(), entry->name) - named.begin());
  };
  std::stable_sort(known.begin(), known.end(),
                   [&](const auto* a, const auto* b) { return place(a) < place(b); });
  return known;
}

/// ECCL_TRANSPORT names a transport that is not known yet.
Status openNamed(const std::string& name, const Settings& settings) {
  const std::string path = modulePath(kTransportModules, name);
  if (std::error_code none; std::filesystem::exists(path, none)) return openTransportModule(path);
  std::string names;
  for (const TransportEntry* each : knownTransports())
    names += (names.empty() ? "" : ", ") + std::string(each->name);
  return Status::error(Code::invalidUsage,
                       "ECCL_TRANSPORT=%s: there is no transport '%s'; there are %s. A module would be %s, or "
                       "named by ECCL_TRANSPORT_MODULES",
                       settings.transport.c_str(), name.c_str(), names.c_str(), path.c_str());
}

Status openModules(const Settings& settings) {
  for (const std::string& path : itemsOf(settings.transportModules)) ECCL_TRY(openTransportModule(path));
  const std::vector<std::string> named = itemsOf(settings.transport);
  for (const std::string& name : named) {
    if (entryNamed(knownTransports(), name) == nullptr) ECCL_TRY(openNamed(name, settings));
  }
  if (!named.empty()) return {};
  for (const std::string& path : modulesFound(kTransportModules, Opened::always)) {
    if (Status status = openTransportModule(path); !status.ok()) Registry::get().leaveOut(path, status);
  }
  return {};
}

}  // namespace

std::vector<const TransportEntry*> knownTransports() {
  return Registry::get().known();
}

std::string moduleFileOf(const TransportEntry& entry) {
  return Registry::get().fileOf(entry);
}

std::vector<Status> unusableModules() {
  std::vector<Status> reasons;
  for (const Opened when : {Opened::always, Opened::named}) {
    for (const std::string& path : modulesFound(kTransportModules, when)) {
      if (Status status = openTransportModule(path); !status.ok()) reasons.push_back(std::move(status));
    }
  }
  return reasons;
}

Status openTransportModule(const std::string& path) {
  return Registry::get().open(path);
}

std::string forbiddenBy(const TransportEntry& entry, const Settings& settings) {
  if (entry.disabledBy != nullptr && settings.valueOf(entry.disabledBy) == "1")
    return format("ECCL_%s=1", entry.disabledBy);
  const std::vector<std::string> named = itemsOf(settings.transport);
  if (named.empty() || std::find(named.begin(), named.end(), entry.name) != named.end()) return "";
  return "ECCL_TRANSPORT=" + settings.transport;
}

bool allows(const Settings& settings, std::string_view name) {
  const TransportEntry* entry = entryNamed(knownTransports(), name);
  return entry != nullptr && forbiddenBy(*entry, settings).empty();
}

bool prefersOverNetwork(const Settings& settings, std::string_view name) {
  for (const TransportEntry* each : inOrder(knownTransports(), settings)) {
    if (each->reach == Reach::network && forbiddenBy(*each, settings).empty()) return each->name == name;
  }
  return false;
}

Result<TransportChoice> chooseTransports(const Settings& settings) {
  ECCL_TRY(openModules(settings));
  TransportChoice choice;
  for (const TransportEntry* entry : inOrder(knownTransports(), settings)) {
    if (std::string why = forbiddenBy(*entry, settings); why.empty())
      choice.allowed.push_back(entry);
    else
      choice.forbidden.push_back({entry->name, std::move(why)});
  }
  return choice;
}

}  // namespace eccl::transport
