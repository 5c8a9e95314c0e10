#include "transport/verbs/adapter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/verbs/locked_memory.h"

namespace eccl::transport::verbs {

// The device may write in any order, which is faster on many hosts: all that is read here has been told of by a
// completion, which comes after what it tells of.
Result<MemoryHandle> registerWith(ibv_pd* domain, void* memory, size_t bytes, int access) {
  MemoryHandle handle(ibv_reg_mr(domain, memory, bytes, access | IBV_ACCESS_RELAXED_ORDERING));
  if (handle == nullptr) handle.reset(ibv_reg_mr(domain, memory, bytes, access));
  if (handle == nullptr) {
    const int error = errno;
    return Status::fromErrno(error, "%s cannot register %zu bytes of memory%s",
                             ibv_get_device_name(domain->context->device), bytes,
                             limitOnLockedMemory(error).c_str());
  }
  return handle;
}

Result<MemoryHandle> registerUsers(ibv_pd* domain, const MemoryRange& memory, int access,
                                   const std::function<bool()>& giveBack) {
  Result<MemoryHandle> handle = registerWith(domain, memory.base, memory.bytes, access);
  if (!handle.ok() && giveBack()) handle = registerWith(domain, memory.base, memory.bytes, access);
  return handle;
}

Result<MemoryHandle> registerDevices(ibv_pd* domain, const MemoryRange& memory, int access, int dmabuf) {
  const auto make = [&](int its) {
    return MemoryHandle(
        ibv_reg_dmabuf_mr(domain, 0, memory.bytes, reinterpret_cast<uintptr_t>(memory.base), dmabuf, its));
  };
  MemoryHandle handle = make(access | IBV_ACCESS_RELAXED_ORDERING);
  if (handle == nullptr) handle = make(access);
  const int error = errno;
  if (handle == nullptr) handle.reset(ibv_reg_mr(domain, memory.base, memory.bytes, access));
  if (handle == nullptr)
    return Status::fromErrno(
        error,
        "%s cannot register %zu bytes of another device's memory by dma-buf, nor as peer "
        "memory: that takes a driver and a kernel that can (ECCL_DMABUF_ENABLE=0 does without)",
        ibv_get_device_name(domain->context->device), memory.bytes);
  return handle;
}

Adapter::Adapter(ContextHandle context, std::vector<Port> ports, Reactor& reactor, const std::string& owner)
    : context_(std::move(context)),
      ports_(std::move(ports)),
      owner_(owner),
      completions_(context_.get(), reactor,
                   [this](const std::string& what) { onEvent(DeviceEvents::Kind::deviceLost, 0, what); }),
      events_(context_.get(), reactor, [this](DeviceEvents::Kind kind, uint8_t port, const std::string& what) {
        onEvent(kind, port, what);
      }) {}

Result<std::unique_ptr<Adapter>> Adapter::open(ContextHandle context, std::vector<Port> ports, Reactor& reactor,
                                               const std::string& owner) {
  std::unique_ptr<Adapter> adapter(new Adapter(std::move(context), std::move(ports), reactor, owner));
  adapter->domain_.reset(ibv_alloc_pd(adapter->context()));
  if (adapter->domain_ == nullptr) return Status::fromErrno(errno, "the device gives no protection domain");
  ECCL_TRY(adapter->completions_.open());
  ECCL_TRY(adapter->events_.open());
  return adapter;
}

Status Adapter::join(PortUser* user) {
  if (!lost_.empty()) return Status::error(Code::system, "%s", lost_.c_str());
  users_.insert(user);
  return {};
}

void Adapter::onEvent(DeviceEvents::Kind kind, uint8_t port, const std::string& what) {
  const std::string device = ibv_get_device_name(context_->device);
  const std::string name = port > 0 ? format("port %u of the RDMA device %s", port, device.c_str())
                                    : format("the RDMA device %s", device.c_str());
  const std::string happened = format("%s of %s: %s", name.c_str(), owner_.c_str(), what.c_str());
  if (kind == DeviceEvents::Kind::deviceLost) lost_ = happened;
  std::string why;
  const std::optional<Port> now =
      kind == DeviceEvents::Kind::gidsChanged ? readPort(context(), device, port, &why) : std::nullopt;
  const auto stillHas = [&now](const PortUser& user) {
    if (!now.has_value()) return false;
    if (!now->ethernet) return now->lid == user.lid();
    return std::any_of(now->gids.begin(), now->gids.end(), [&](const Gid& gid) {
      return gid.index == user.gid().index && std::memcmp(&gid.raw, &user.gid().raw, sizeof gid.raw) == 0;
    });
  };
  const std::set<PortUser*> users = users_;  // those who are told may have others leave
  for (PortUser* user : users) {
    if (users_.count(user) == 0 || (kind != DeviceEvents::Kind::deviceLost && user->port() != port)) continue;
    if (kind == DeviceEvents::Kind::gidsChanged && stillHas(*user)) continue;
    user->onPortLost(kind == DeviceEvents::Kind::gidsChanged
                         ? format("%s, %s is no more", happened.c_str(), textOf(user->gid()).c_str())
                         : happened);
  }
}

// The parent's objects are in these files as long as anybody has them open.
void Adapter::closeAfterFork() {
  completions_.closeAfterFork();
  if (context_ == nullptr) return;
  close(context_->cmd_fd);
  close(context_->async_fd);
  domain_.release();
  context_.release();
}

}  // namespace eccl::transport::verbs
