// hwloc as a source of a probe: for programs, such as eccl_topo and the tests, that link the library
// eccl_hwloc. libeccl.so does not, so that whoever uses it needs neither hwloc nor what hwloc needs, and keeps
// its environment.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/probe/probe.h"

namespace eccl::topology {

/// Whether this program was built with hwloc.
bool haveHwloc();

/// For ProbeSources::structure: NUMA nodes and PCI functions as hwloc sees them. An error, also that of a
/// program that was built without hwloc, leaves `found` as it was.
///
/// Any thread. hwloc takes some of its orders from the environment only: while it looks, `environ` is a copy
/// with two or three variables more (all HWLOC_*), so that getenv() of other threads goes on as ever; a
/// setenv() of another thread in these milliseconds would be forgotten.
Status hwlocStructure(const std::string& root, probe::Inventory* found);

/// The machine in a file that hwloc exported ("lstopo machine.xml"): it is all that is read. Never fails as a
/// whole, as probeHost(); threads as above.
Host probeHwlocXml(const std::string& path);

}  // namespace eccl::topology
