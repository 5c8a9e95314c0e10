#include "topology/checks.h"

#include <algorithm>

#include "topology/checks_parts.h"

namespace eccl {

const char* nameOf(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "unknown";
}

std::string describe(const Finding& finding) {
  const std::string device = finding.device.empty() ? "" : " " + finding.device;
  return format("%s %s%s: %s. %s. %s.", nameOf(finding.severity), finding.id.c_str(), device.c_str(),
                finding.evidence.c_str(), finding.consequence.c_str(), finding.remedy.c_str());
}

std::vector<Finding> checkHost(const Host& host, const CheckSources& sources) {
  const SystemFiles files(sources.root);
  std::vector<Finding> findings;
  checks::checkPlacement(host, &findings);
  checks::checkPorts(host, &findings);
  checks::checkPeerToPeer(host, files, &findings);
  checks::checkProcess(host, files, sources.root, &findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace eccl
