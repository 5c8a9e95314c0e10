#include "transport/connect/rail_watch.h"

#include <algorithm>

namespace eccl::transport {

RailWatch::DownAt RailWatch::look(System& system) {
  constexpr Duration kInterval = std::chrono::milliseconds(300);
  if (next_ == TimePoint::max()) return {};
  const TimePoint now = system.now();
  if (now < next_) return {};
  next_ = now + kInterval;
  Result<std::vector<Interface>> up = listInterfaces(system);
  if (!up.ok()) return [](const SocketAddress&) { return std::string(); };
  return [&rails = *rails_, up = up.take()](const SocketAddress& mine) -> std::string {
    const auto isMine = [&](const auto& one) { return one.address.withPort(0) == mine.withPort(0); };
    if (std::any_of(up.begin(), up.end(), isMine)) return "";
    const auto rail = std::find_if(rails.begin(), rails.end(), isMine);
    return rail != rails.end() ? rail->interface : "";
  };
}

}  // namespace eccl::transport
