// The links of NCCL's XML. They are collected while the tree is read, and resolved when every target is
// known. Internal to the reader. One thread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "topology/formats/nccl_xml_element.h"

namespace eccl::topology {

/// All links of one file.
class XmlLinks {
 public:
  /// Both arguments must outlive this. Links are added to `host`, and so are devices that only links name.
  XmlLinks(XmlSource& source, Host& host) : source_(source), host_(host) {}

  /// Makes a device known to links; false if there is one of that name, whatever the case.
  bool announce(const Device& device, int index);
  /// The device of a name, whatever the case; kNone if there is none.
  int find(const std::string& name) const;
  /// Reads an <nvlink>, <xgmi>, <c2c> or <pcilink> of a device.
  Status read(const pugi::xml_node& node, int from);
  /// Turns all that was read into links. Links that lead nowhere are noted and left out, as NCCL does.
  Status resolve();

 private:
  struct Pending {
    FabricLink link;
    std::string target;        // as it stands there; empty for a <c2c> without
    uint32_t targetClass = 0;  // 0: not said
    int line = 0;
  };
  // The device that a link leads to; kNone if there is none.
  Result<int> targetOf(const Pending& pending);
  // The NVSwitch of that name, made if nothing else names it.
  Result<int> switchCalled(const Pending& pending);
  // Notes a link that is not kept, and why.
  void leaveOut(const Pending& pending, const char* why);

  XmlSource& source_;
  Host& host_;
  std::vector<Pending> pending_;
  std::unordered_map<std::string, int> names_;                // of all devices, in lower case
  std::unordered_map<std::string, int> endpoints_, bridges_;  // by bus id
};

}  // namespace eccl::topology
