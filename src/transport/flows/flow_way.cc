#include "transport/flows/flow_way.h"

#include <set>
#include <string>

namespace eccl::transport {

size_t differentWays(const std::vector<FlowWay>& ways) {
  std::set<std::string> different;
  for (const FlowWay& way : ways) {
    std::string text;
    for (const SocketAddress& hop : way.hops) text += hop.valid() ? hop.text() + " " : "* ";
    different.insert(std::move(text));
  }
  return different.size();
}

}  // namespace eccl::transport
