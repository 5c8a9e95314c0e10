// What all checks share: names, the line for people, and the order of findings.
#include "topology/checks/checks.h"

#include <algorithm>

#include "topology/checks/checks_parts.h"

namespace eccl::topology {

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

namespace {

void sortBySeverity(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
}

void addNotJudged(const char* what, const char* why, const char* remedy, std::vector<Finding>* findings) {
  findings->push_back(
      {Severity::note, "not-judged", "", format("%s: %s", what, why), "What it costs is not known", remedy});
}

}  // namespace

std::vector<Finding> checkFile(const Host& host) {
  std::vector<Finding> findings;
  checks::checkPlacement(host, &findings);
  checks::checkPorts(host, &findings);
  const auto none = [&](auto says) { return std::none_of(host.devices.begin(), host.devices.end(), says); };
  const char* const complete = "Make the file by eccl_topo dump on the machine: it holds what NCCL's leave out";
  if (none([](const Device& device) { return device.pci && device.pci->ablestWidth > 0; }))
    addNotJudged("whether PCI links run as fast as both ends can", "the file says only how they run", complete,
                 &findings);
  if (!host.all(DeviceKind::port).empty()) {
    if (none([](const Device& device) { return device.port && !device.port->state.empty(); }))
      addNotJudged("whether ports are up", "the file does not say", complete, &findings);
    if (none([](const Device& device) { return device.port && device.port->mtu; }))
      addNotJudged("whether ports have the same MTU", "the file does not say", complete, &findings);
  }
  addNotJudged("ACS, the IOMMU and the limits of processes", "they are in no file",
               "Run eccl_topo check on the machine, or with --root on a copy of its /proc and /sys", &findings);
  sortBySeverity(findings);
  return findings;
}

std::vector<Finding> checkHost(const Host& host, const CheckSources& sources) {
  const SystemFiles files(sources.root);
  std::vector<Finding> findings;
  checks::checkPlacement(host, &findings);
  checks::checkPorts(host, &findings);
  checks::checkPeerToPeer(host, files, &findings);
  checks::checkProcess(host, files, sources.root, &findings);
  sortBySeverity(findings);
  return findings;
}

}  // namespace eccl::topology
