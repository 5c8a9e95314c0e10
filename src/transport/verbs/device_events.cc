#include "transport/verbs/device_events.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/log.h"

namespace eccl::transport::verbs {

DeviceEvents::~DeviceEvents() {
  if (watched_) reactor_.forget(context_->async_fd, this);
}

Status DeviceEvents::open() {
  const int fd = context_->async_fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return Status::fromErrno(errno, "its events cannot be read without waiting");
  ECCL_TRY(reactor_.watch(fd, EPOLLIN, this));
  watched_ = true;
  return {};
}

void DeviceEvents::onReady(uint32_t events) {
  const bool gone = (events & (EPOLLERR | EPOLLHUP)) != 0;  // it would wake the driver for ever
  if (gone && std::exchange(watched_, false)) reactor_.forget(context_->async_fd, this);
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    const ibv_event_type type = event.event_type;
    const auto port = static_cast<uint8_t>(event.element.port_num);
    ibv_ack_async_event(&event);
    const std::string what = ibv_event_type_str(type);
    switch (type) {
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
        told_(Kind::deviceLost, 0, what);
        break;
      case IBV_EVENT_PORT_ERR:
        told_(Kind::portLost, port, what);
        break;
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
        told_(Kind::gidsChanged, port, what);
        break;
      default:  // completions tell of what queue pairs suffer
        ECCL_INFO("RDMA device %s: %s", ibv_get_device_name(context_->device), what.c_str());
    }
  }
  if (gone) told_(Kind::deviceLost, 0, "it is there no more");
}

}  // namespace eccl::transport::verbs
