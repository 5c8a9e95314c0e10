#include "transport/connect/link.h"

#include <utility>

#include "base/log.h"

namespace eccl::transport {

void Link::hangUp() {
  if (socket_.fd() < 0) return;
  context_.reactor.forget(socket_.fd(), this);
  socket_ = SetupSocket();
}

void Link::fail(Code code, const Breakage& why) {
  if (why.byPeer) connection.markEndedByPeer();
  Status status = Status::error(code, "no connection from %s: %s", text().c_str(), why.reason.c_str());
  if (why.byPeer || std::exchange(context_.failed, true))
    ECCL_INFO("%s", status.message().c_str());
  else
    status = logged(std::move(status));
  abandon(status);
}

void Link::abandon(const Status& why) {
  hangUp();
  connection.fail(why);
}

void Link::closeAfterFork() {
  socket_ = SetupSocket();  // the reactor's set is the parent's: nothing is taken out of it
  if (connection.path() != nullptr) connection.path()->closeAfterFork();
}

}  // namespace eccl::transport
