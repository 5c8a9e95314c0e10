// eccl_info: this machine and this library, as a bug report wants them.
#include <cstdio>
#include <vector>

#include "algorithms/selection/candidates.h"
#include "base/settings.h"
#include "eccl/version.h"
#include "runtime/calibration/machine_model.h"
#include "runtime/executor/devices.h"
#include "tools/common/command_line.h"
#include "topology/probe/host_summary.h"
#include "transport/net/rails.h"
#include "transport/net/tls.h"
#include "transport/registry/registry.h"

namespace {

// The log has said why, unless it is off; a wrong setting is worth saying twice.
int refused(const eccl::Status& why) {
  std::fprintf(stderr, "eccl_info: %s\n", why.message().c_str());
  return 1;
}

int printSettings() {
  std::vector<eccl::SettingValue> values;
  if (const auto settings = eccl::loadSettings(&values); !settings.ok()) return refused(settings.status());
  for (const eccl::SettingValue& value : values) {
    std::printf("ECCL_%s=%s\n    from %s; takes %s%s\n    %s\n", value.info->name, value.value.c_str(),
                value.source.c_str(), value.info->values, value.info->wire ? "; the same on all ranks" : "",
                value.info->description);
  }
  return 0;
}

/// What is missing for it on this host; empty if nothing is.
std::string missingFor(const eccl::transport::TransportEntry& entry, const eccl::Settings& settings) {
  using namespace eccl::transport;
  Reactor reactor;
  if (eccl::Status status = reactor.open(eccl::System::real()); !status.ok()) return status.message();
  const Endpoint here = localEndpoint(eccl::System::real());
  TransportContext context;
  context.reactor = &reactor;
  context.system = &eccl::System::real();
  context.ring = {static_cast<uint32_t>(settings.slots),
                  static_cast<uint32_t>(eccl::algorithms::slotBytesFor(settings.slotBytes, eccl::Placement()))};
  context.endpoint = [&](int) -> const Endpoint& { return here; };
  context.describe = [](int) { return std::string("eccl_info"); };
  context.setting = [&](std::string_view name) { return settings.valueOf(name); };
  return entry.make(context).status().message();
}

int printTransports() {
  using namespace eccl::transport;
  const auto settings = eccl::loadSettings();
  if (!settings.ok()) return refused(settings.status());
  const auto choice = chooseTransports(*settings);
  const std::vector<eccl::Status> unusable = unusableModules();
  for (const TransportEntry* entry : knownTransports()) {
    const std::string file = moduleFileOf(*entry);
    std::string why = forbiddenBy(*entry, *settings);
    if (why.empty()) why = missingFor(*entry, *settings);
    std::printf("transport %s, priority %d, %s; %s\n", entry->name, entry->priority,
                file.empty() ? "built in" : ("module " + file).c_str(),
                why.empty() ? "usable" : ("not usable: " + why).c_str());
    if (entry->report == nullptr) continue;
    for (const std::string& line : entry->report(*settings)) std::printf("  %s\n", line.c_str());
  }
  for (const eccl::Status& why : unusable) std::printf("transport not usable: %s\n", why.message().c_str());
  return choice.ok() ? 0 : refused(choice.status());
}

/// What connections to other hosts are spread over.
int printRails() {
  using namespace eccl::transport;
  const auto settings = eccl::loadSettings();
  if (!settings.ok()) return refused(settings.status());
  const InterfaceOptions options = interfaceOptions(*settings);
  const auto all = listInterfaces(eccl::System::real());
  if (!all.ok()) return refused(all.status());
  const auto chosen = chooseInterfaces(*all, options);
  if (!chosen.ok()) return refused(chosen.status());
  for (const Rail& rail : railsOf(*chosen, options, [](int) { return uint16_t{0}; }))
    std::printf("rail      %s, %s\n", rail.interface.c_str(), rail.address.hostText().c_str());
  return 0;
}

/// What algorithms are chosen by.
int printSpeeds() {
  const auto settings = eccl::loadSettings();
  if (!settings.ok()) return refused(settings.status());
  const auto machine = eccl::runtime::keptModel(*settings);
  if (!machine.ok()) return refused(machine.status());
  std::printf("speeds    %s\n",
              machine->file.empty() ? ("default constants: " + machine->why).c_str() : machine->file.c_str());
  return 0;
}

void printEncryption() {
  const auto library = eccl::transport::tlsLibrary();
  std::printf("encrypt   %s\n",
              library.ok() ? library->c_str() : ("not usable: " + library.status().message()).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace eccl::tools;
  bool settings = false, version = false, help = false;
  const std::vector<CommandOption> options = {
      {0, "settings", nullptr, "every setting: its value here, where the value comes from, what it may be",
       setFlag(&settings)},
      {0, "version", nullptr, "the version alone, without a summary of this machine", setFlag(&version)},
      {'h', "help", nullptr, "this text", setFlag(&help)},
  };
  if (const Outcome parsed = parseCommandLine(argc, argv, options, nullptr); !parsed.ok())
    misused("eccl_info", parsed.text());
  if (help) {
    std::printf("USAGE: eccl_info [OPTION]\nthis machine, and what ranks on it may use, or:\n%s",
                helpText(options).c_str());
    return 0;
  }
  if (settings) return printSettings();
  std::printf("ECCL      %d.%d.%d\n", ECCL_MAJOR, ECCL_MINOR, ECCL_PATCH);
  if (version) return 0;
  std::fputs(eccl::topology::describe(eccl::topology::readHost()).c_str(), stdout);
  for (const std::string& line : eccl::runtime::describeDevices()) std::printf("device %s\n", line.c_str());
  const int transports = printTransports(), rails = printRails();
  printEncryption();
  const int speeds = printSpeeds();
  return transports != 0 ? transports : rails != 0 ? rails : speeds;
}
