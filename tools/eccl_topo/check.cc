// What an operator should repair.
#include <cstdio>

#include "commands.h"
#include "tools/common/json.h"
#include "topology/checks/checks.h"

namespace eccl::topo {

int check(const topology::Host& host, const Options& options) {
  const std::vector<topology::Finding> findings =
      options.file.empty() ? topology::checkHost(host, {options.root}) : topology::checkFile(host);
  bool toRepair = false;
  tools::JsonWriter json(stdout);
  if (options.json) json.beginList();
  for (const topology::Finding& finding : findings) {
    toRepair |= finding.severity != topology::Severity::note;
    if (options.json) {
      json.beginObject();
      json.key("severity").string(topology::nameOf(finding.severity));
      json.key("id").string(finding.id);
      json.key("device").string(finding.device);
      json.key("evidence").string(finding.evidence);
      json.key("consequence").string(finding.consequence);
      json.key("remedy").string(finding.remedy);
      json.end();
      continue;
    }
    const char* code = finding.severity == topology::Severity::error     ? "31"
                       : finding.severity == topology::Severity::warning ? "33"
                                                                         : "2";
    const std::string head = format("%s %s%s%s", topology::nameOf(finding.severity), finding.id.c_str(),
                                    finding.device.empty() ? "" : " ", finding.device.c_str());
    std::printf(options.color ? "\033[%sm%s\033[0m\n" : "%.0s%s\n", code, head.c_str());
    std::printf("  %s\n  costs: %s\n  remedy: %s\n", finding.evidence.c_str(), finding.consequence.c_str(),
                finding.remedy.c_str());
  }
  if (options.json)
    json.finish();
  else if (!toRepair)
    std::printf("nothing to repair\n");
  return toRepair ? kFound : kFine;
}

}  // namespace eccl::topo
