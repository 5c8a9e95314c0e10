// eccl_topo speeds: what this machine has been measured to do, which communicators choose their algorithms by.
#include <cstdio>
#include <filesystem>

#include "algorithms/cost/cost_model.h"
#include "base/settings.h"
#include "base/text_file.h"
#include "commands.h"
#include "runtime/calibration/machine_model.h"
#include "tools/common/command_line.h"

namespace eccl::topo {
namespace {

constexpr char kSpeedsUsage[] =
    "USAGE: eccl_topo speeds [OPTIONS]\n"
    "Where the file of this machine's speeds is, and what it says. Rank 0 chooses algorithms by it\n"
    "(ECCL_SPEEDS_FILE). If there is none, the machine is measured, in less than 0.1 s; it has to be idle.\n";

Status show(bool again) {
  ECCL_ASSIGN(const Settings settings, loadSettings());
  if (!settings.costFile.empty())
    return Status::error(Code::invalidUsage,
                         "ECCL_COST_FILE is set, so this machine's speeds do not count: unset it");
  ECCL_ASSIGN(const std::string file, runtime::speedsFileOf(settings));
  std::error_code failure;
  if (again || !std::filesystem::exists(file, failure)) ECCL_TRY(runtime::measureMachine(settings).status());
  ECCL_TRY(algorithms::CostModel::load(file).status());
  ECCL_ASSIGN(const std::string text, readTextFile(file, "the file of this machine's speeds"));
  std::printf("%s\n%s", file.c_str(), text.c_str());
  return {};
}

}  // namespace

int speeds(int argc, char** argv) {
  using namespace tools;
  bool again = false, help = false;
  const std::vector<CommandOption> options = {
      {0, "again", nullptr, "measures, and writes the file anew", setFlag(&again)},
      {'h', "help", nullptr, "this text", setFlag(&help)},
  };
  if (const Outcome parsed = parseCommandLine(argc, argv, options, nullptr); !parsed.ok())
    misused(parsed.text());
  if (help) {
    std::printf("%s%s", kSpeedsUsage, helpText(options).c_str());
    return kFine;
  }
  const Status shown = show(again);
  return shown.ok() ? kFine : unreadable(shown);
}

}  // namespace eccl::topo
