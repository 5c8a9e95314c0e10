// hwloc as a source of a probe, for programs that link the library eccl_hwloc, such as eccl_topo and the
// tests. libeccl.so does not link it: a program that uses libeccl needs neither hwloc nor what hwloc needs,
// and keeps its environment.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/probe/probe.h"

namespace eccl::topology {

/// Whether this program was built with hwloc.
bool haveHwloc();

/// For ProbeSources::structure: NUMA nodes and PCI functions as hwloc sees them. After an error `found` is as
/// it was; a program that was built without hwloc always gets one.
///
/// Any thread. hwloc takes some of its orders from the environment only. So while it looks, `environ` is a
/// copy with two or three more variables (all HWLOC_*), and getenv() of other threads works as ever. What
/// another thread sets by setenv() in these milliseconds is lost.
Status hwlocStructure(const std::string& root, probe::Inventory* found);

/// The machine in a file that hwloc exported ("lstopo machine.xml"); nothing else is read. Never fails as a
/// whole, like probeHost(). Threads as above.
Host probeHwlocXml(const std::string& path);

}  // namespace eccl::topology
