// What the two parties of a Connector's test usually do.
#pragma once

#include "transport/traffic.h"

namespace eccl {

using State = transport::Connection::State;

inline PartySetup allowing(bool thread, bool shm, bool tcp) {
  PartySetup setup;
  if (thread) setup.transports.push_back("thread");
  if (shm) setup.transports.push_back("shm");
  if (tcp) setup.transports.push_back("tcp");
  return setup;
}

inline Role sender(const std::string& path) {
  return [path](Party& party) -> std::string {
    transport::Connection* connection = party.connect(party.sending());
    PARTY_CHECK(connection->state() == State::ready);
    if (path != connection->path()->name()) return "went by " + std::string(connection->path()->name());
    return sendAll(party, *connection, 20);
  };
}
inline Role receiver(const std::string& path) {
  return [path](Party& party) -> std::string {
    transport::Connection* connection = party.connect(party.receiving());
    PARTY_CHECK(connection->state() == State::ready);
    if (path != connection->path()->name()) return "came by " + std::string(connection->path()->name());
    return receiveAll(party, *connection, 20);
  };
}

}  // namespace eccl
