// eccl_info: this machine and this library, as a bug report wants them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/settings.h"
#include "eccl/version.h"
#include "topology/probe/host_summary.h"

namespace {

constexpr char kUsage[] =
    "USAGE: eccl_info [--settings | --version | --help]\n"
    "  (nothing)    the version and a summary of this machine\n"
    "  --settings   every setting: its value here, where the value comes from, what it may be\n"
    "  --version    the version alone\n";

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
  const std::string option = argc > 1 ? argv[1] : "";
  if (argc > 2 || (!option.empty() && option != "--settings" && option != "--version" && option != "--help")) {
    std::fprintf(stderr, "eccl_info: '%s' is not understood\n%s", argv[argc - 1], kUsage);
    return 2;
  }
  if (option == "--help") return std::fputs(kUsage, stdout), 0;
  if (option == "--settings") return printSettings();
  std::printf("ECCL      %d.%d.%d\n", ECCL_MAJOR, ECCL_MINOR, ECCL_PATCH);
  if (option.empty()) std::fputs(eccl::topology::describe(eccl::topology::readHost()).c_str(), stdout);
  return 0;
}
