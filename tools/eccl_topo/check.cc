// What an operator should repair.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "topology/checks/checks.h"

namespace eccl::topo {

int check(const topology::Host& host, const Options& options) {
  const std::vector<topology::Finding> findings =
      options.file.empty() ? topology::checkHost(host, {options.root}) : topology::checkFile(host);
  bool toRepair = false;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const topology::Finding& finding : findings) {
    toRepair |= finding.severity != topology::Severity::note;
    if (options.json) {
      json.push_back({{"severity", topology::nameOf(finding.severity)},
                      {"id", finding.id},
                      {"device", finding.device},
                      {"evidence", finding.evidence},
                      {"consequence", finding.consequence},
                      {"remedy", finding.remedy}});
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
    std::printf("%s\n", json.dump(1).c_str());
  else if (!toRepair)
    std::printf("nothing to repair\n");
  return toRepair ? kFound : kFine;
}

}  // namespace eccl::topo
