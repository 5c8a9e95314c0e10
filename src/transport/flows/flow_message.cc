#include "transport/flows/flow_message.h"

namespace eccl::transport {

std::string FlowMessage::encode() const {
  ByteWriter to;
  to.put(kind).put(flow).put(port);
  to.put(pace.bytesPerSecond).put(pace.megabits).put(static_cast<uint8_t>(pace.lost));
  to.put(static_cast<uint8_t>(ways.size()));
  for (const FlowWay& way : ways) {
    to.put(way.port).put(static_cast<uint8_t>(way.hops.size()));
    for (const SocketAddress& hop : way.hops) {
      to.put(static_cast<uint8_t>(hop.valid()));
      if (hop.valid()) hop.encode(to);
    }
  }
  return to.take();
}

Result<FlowMessage> FlowMessage::decode(std::string_view bytes) {
  ByteReader from(bytes);
  FlowMessage message;
  const auto kind = from.get<uint8_t>();
  message.kind = static_cast<Kind>(kind);
  message.flow = from.get<uint64_t>();
  message.port = from.get<uint16_t>();
  message.pace.bytesPerSecond = from.get<uint64_t>();
  message.pace.megabits = from.get<uint32_t>();
  message.pace.lost = from.get<uint8_t>() != 0;
  const size_t ways = from.get<uint8_t>();
  bool sane = kind >= static_cast<uint8_t>(Kind::ask) && kind <= static_cast<uint8_t>(Kind::stayed) &&
              ways <= kMaxWays && (message.kind == Kind::ask) == (ways > 0);
  for (size_t i = 0; sane && i < ways; ++i) {
    FlowWay& way = message.ways.emplace_back();
    way.port = from.get<uint16_t>();
    const size_t hops = from.get<uint8_t>();
    sane = from.ok() && hops <= kMaxHops;
    for (size_t hop = 0; sane && hop < hops; ++hop)
      way.hops.push_back(from.get<uint8_t>() != 0 ? SocketAddress::decode(from) : SocketAddress());
  }
  if (!sane || !from.finished())
    return Status::error(Code::remote, "a message about flows that cannot be (kind %u, %zu bytes)", kind,
                         bytes.size());
  return message;
}

}  // namespace eccl::transport
