// eccl_info: this machine and this library, as a bug report wants them.
#include <cstdio>
#include <vector>

#include "base/settings.h"
#include "eccl/version.h"
#include "tools/common/command_line.h"
#include "topology/probe/host_summary.h"

namespace {

int printSettings() {
  std::vector<eccl::SettingValue> values;
  // On failure the log has said why, unless it is off; a wrong setting is worth saying twice.
  if (const auto settings = eccl::loadSettings(&values); !settings.ok()) {
    std::fprintf(stderr, "eccl_info: %s\n", settings.status().message().c_str());
    return 1;
  }
  for (const eccl::SettingValue& value : values) {
    std::printf("ECCL_%s=%s\n    from %s; takes %s%s\n    %s\n", value.info->name, value.value.c_str(),
                value.source.c_str(), value.info->values, value.info->wire ? "; the same on all ranks" : "",
                value.info->description);
  }
  return 0;
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
  if (help) return std::printf("USAGE: eccl_info [OPTION]\n%s", helpText(options).c_str()), 0;
  if (settings) return printSettings();
  std::printf("ECCL      %d.%d.%d\n", ECCL_MAJOR, ECCL_MINOR, ECCL_PATCH);
  if (!version) std::fputs(eccl::topology::describe(eccl::topology::readHost()).c_str(), stdout);
  return 0;
}
