#include "runtime/communicator/connection_list.h"

#include <filesystem>

#include "base/printable.h"
#include "base/text_file.h"

namespace eccl::runtime {
namespace {

using transport::Connection;
using transport::ConnectionReport;
using transport::RailReport;
using transport::SocketReport;

unsigned long long wide(uint64_t number) {
  return number;
}

/// A name as one word.
std::string word(std::string name) {
  for (char& c : name)
    if (c == ' ' || c == '=') c = '_';
  return name.empty() ? "-" : printable(name);
}

std::string textOf(const transport::SocketAddress& address) {
  return address.valid() ? address.text() : "-";
}

/// Where a communicator has ended in order, so have the connections that a peer who left before has closed.
std::string stateOf(const ConnectionReport& connection, const ConnectionOwner& owner) {
  if (connection.state == Connection::State::connecting) return "connecting";
  if (connection.state == Connection::State::ready) return "ready";
  return owner.failure.ok() ? "closed" : "failed why: " + printable(connection.failure);
}

std::string railLine(const RailReport& rail, const ConnectionOwner& owner, uint64_t all) {
  const uint64_t carried = rail.sentBytes + rail.receivedBytes;
  return format(
      "rail rank=%d host=%s interface=%s address=%s sockets=%d sent=%llu received=%llu share=%.3f "
      "retransmits=%llu "
      "retransmitted=%llu rtt_us=%u\n",
      owner.rank, word(owner.host).c_str(), word(rail.interface).c_str(),
      rail.address.valid() ? rail.address.hostText().c_str() : "-", rail.sockets, wide(rail.sentBytes),
      wide(rail.receivedBytes), all > 0 ? static_cast<double>(carried) / static_cast<double>(all) : 0.0,
      wide(rail.retransmitted), wide(rail.retransmittedBytes), rail.roundTripMicroseconds);
}

/// "rank=0 to=3 peer_host=node7 channel=0 tag=1": what a connection's lines begin with.
std::string wayOf(const ConnectionReport& connection, const std::string& host, const ConnectionOwner& owner) {
  return format("rank=%d %s=%d peer_host=%s channel=%d tag=%d", owner.rank, connection.sends ? "to" : "from",
                connection.peer, word(host).c_str(), connection.id.channel, connection.id.tag);
}

/// Where there is no socket that says so, the line says by which device the connection goes.
std::string connectionLine(const ConnectionReport& connection, const std::string& way,
                           const ConnectionOwner& owner) {
  const transport::LinkReport& link = connection.link;
  const std::string device = link.device.empty()
                                 ? ""
                                 : format(" device=%s local=%s remote=%s", word(link.device).c_str(),
                                          word(link.local).c_str(), word(link.remote).c_str());
  return format("connection %s path=%s%s messages=%llu bytes=%llu state=%s\n", way.c_str(),
                word(connection.path).c_str(), device.c_str(), wide(connection.messages),
                wide(connection.bytes), stateOf(connection, owner).c_str());
}

std::string socketLine(const SocketReport& socket, const std::string& way) {
  return format(
      "socket %s interface=%s local=%s remote=%s sent=%llu received=%llu waiting=%llu retransmits=%llu "
      "retransmitted=%llu rtt_us=%u rate=%llu cipher=%s\n",
      way.c_str(), word(socket.interface).c_str(), textOf(socket.ends.local).c_str(),
      textOf(socket.ends.remote).c_str(), wide(socket.sentBytes), wide(socket.receivedBytes),
      wide(socket.waitingBytes), wide(socket.retransmitted), wide(socket.retransmittedBytes),
      socket.roundTripMicroseconds, wide(socket.bytesPerSecond()), word(socket.cipher).c_str());
}

}  // namespace

std::string textOf(const ConnectionList& list, const ConnectionOwner& owner) {
  std::string text = format(
      "communicator rank=%d of=%d id=%016llx name=%s host=%s pid=%d seconds=%.3f end: %s\n", owner.rank,
      owner.ranks, wide(owner.communicator), word(owner.name).c_str(), word(owner.host).c_str(), owner.pid,
      owner.seconds, owner.failure.ok() ? "destroyed" : printable(owner.failure.message()).c_str());
  uint64_t all = 0;
  for (const RailReport& rail : list.rails) all += rail.sentBytes + rail.receivedBytes;
  for (const RailReport& rail : list.rails) text += railLine(rail, owner, all);
  for (size_t i = 0; i < list.connections.size(); ++i) {
    const ConnectionReport& each = list.connections[i];
    const std::string way = wayOf(each, list.hosts[i], owner);
    text += connectionLine(each, way, owner);
    for (const SocketReport& socket : each.sockets) text += socketLine(socket, way);
  }
  return text;
}

Status writeDump(const std::string& path, const ConnectionList& list, const ConnectionOwner& owner) {
  std::error_code error;
  const bool device = std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error) &&
                      !std::filesystem::is_directory(path, error);
  const std::string name =
      device ? path : format("%s.%016llx.%d", path.c_str(), wide(owner.communicator), owner.rank);
  return writeTextFile(name, textOf(list, owner), "the list of connections");
}

}  // namespace eccl::runtime
