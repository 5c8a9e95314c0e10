#include "transport/flows/flow_way.h"

#include <set>

namespace eccl::transport {

std::string routersOf(const FlowWay& way) {
  std::string routers;
  for (const SocketAddress& hop : way.hops)
    routers += (routers.empty() ? "" : " ") + (hop.valid() ? hop.hostText() : std::string("?"));
  return routers;
}

size_t differentWays(const std::vector<FlowWay>& ways) {
  std::set<std::string> different;
  for (const FlowWay& way : ways) different.insert(routersOf(way));
  return different.size();
}

}  // namespace eccl::transport
