#include "transport/connect/rail_watch.h"

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
    if (findAt(up, mine) != nullptr) return "";
    const Rail* const rail = findAt(rails, mine);
    return rail != nullptr ? rail->interface : "";
  };
}

}  // namespace eccl::transport
