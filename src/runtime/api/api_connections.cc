// The C API: what connections have carried.

#include <algorithm>
#include <cstring>

#include "base/printable.h"
#include "runtime/api/handles.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

using transport::Connection;
using transport::ConnectionReport;
using transport::RailReport;
using transport::SocketReport;

constexpr const char* kFunction = "ecclCommGetConnections";

template <size_t size>
void copyText(char (&to)[size], const std::string& text) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

ecclConnectionInfo_t infoOf(const ConnectionReport& connection, const std::string& host) {
  ecclConnectionInfo_t info{};
  info.peer = connection.peer;
  info.sends = connection.sends;
  info.channel = connection.id.channel;
  info.tag = connection.id.tag;
  info.state = connection.state == Connection::State::connecting ? ecclInProgress
               : connection.state == Connection::State::ready    ? ecclSuccess
                                                                 : ecclRemoteError;
  info.socket = -1;
  info.sockets = static_cast<int>(connection.sockets.size());
  info.messages = connection.messages;
  info.bytes = connection.bytes;
  copyText(info.path, connection.path);
  copyText(info.peerHost, host);
  copyText(info.interface, shortened(connection.link.device, sizeof info.interface - 1));  // the port stays
  copyText(info.local, connection.link.local);
  copyText(info.remote, connection.link.remote);
  return info;
}

void addSocket(const SocketReport& socket, int number, ecclConnectionInfo_t* info) {
  info->socket = number;
  info->sent = socket.sentBytes;
  info->received = socket.receivedBytes;
  info->waiting = socket.waitingBytes;
  info->retransmits = socket.retransmitted;
  info->retransmitted = socket.retransmittedBytes;
  info->rate = socket.bytesPerSecond();
  info->rtt = socket.roundTripMicroseconds;
  copyText(info->interface, socket.interface);
  if (socket.ends.local.valid()) copyText(info->local, socket.ends.local.text());
  if (socket.ends.remote.valid()) copyText(info->remote, socket.ends.remote.text());
}

ecclConnectionInfo_t infoOf(const RailReport& rail) {
  ecclConnectionInfo_t info{};
  info.peer = info.socket = -1;
  copyText(info.interface, rail.interface);
  if (rail.address.valid()) copyText(info.local, rail.address.hostText());
  return info;
}

std::vector<ecclConnectionInfo_t> infosOf(const ConnectionList& list) {
  std::vector<ecclConnectionInfo_t> infos;
  for (size_t i = 0; i < list.connections.size(); ++i) {
    const ConnectionReport& connection = list.connections[i];
    const ecclConnectionInfo_t info = infoOf(connection, list.hosts[i]);
    if (connection.sockets.empty()) infos.push_back(info);
    for (size_t socket = 0; socket < connection.sockets.size(); ++socket) {
      infos.push_back(info);
      addSocket(connection.sockets[socket], static_cast<int>(socket), &infos.back());
    }
  }
  for (const RailReport& rail : list.rails)
    if (rail.sockets == 0) infos.push_back(infoOf(rail));
  return infos;
}

/// Programs of older headers have room for less of an entry, those of newer ones for more.
Status listConnections(Communicator& communicator, ecclConnectionInfo_t* infos, size_t* count) {
  if (count == nullptr) return Status::error(Code::invalidArgument, "%s: count is NULL", kFunction);
  constexpr size_t kFirst = sizeof(ecclConnectionInfo_t), kMost = 1 << 16;
  const size_t room = infos != nullptr ? *count : 0, stride = room > 0 ? infos->size : kFirst;
  if (stride < kFirst || stride > kMost || stride % alignof(ecclConnectionInfo_t) != 0) {
    return Status::error(Code::invalidArgument,
                         "%s: the size in the first entry is %zu; set it to sizeof(ecclConnectionInfo_t), %zu",
                         kFunction, stride, kFirst);
  }
  if (communicator.state() == Communicator::State::initialising) return communicator.usable();
  ECCL_ASSIGN(const ConnectionList list, communicator.connections());
  const std::vector<ecclConnectionInfo_t> all = infosOf(list);
  for (size_t i = 0; i < std::min(room, all.size()); ++i) {
    char* const to = reinterpret_cast<char*>(infos) + i * stride;
    std::memset(to, 0, stride);
    std::memcpy(to, &all[i], kFirst);
    std::memcpy(to, &stride, sizeof stride);
  }
  *count = all.size();
  return {};
}

}  // namespace

ecclResult_t ecclCommGetConnections(ecclComm_t comm, ecclConnectionInfo_t* infos, size_t* count) {
  return apiCall(kFunction, comm,
                 [&](CommunicatorUse& use) { return listConnections(*use->communicator, infos, count); });
}
