// The table of kinds, the choice by address, and scratch memory.
#include "runtime/executor/executors.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "runtime/executor/host_executor.h"

namespace eccl::runtime {
namespace {

struct Table {
  std::mutex mutex;
  std::vector<ExecutorKind> kinds;  // but for host
};

Table& table() {
  static Table* const made = new Table;  // for as long as threads may make communicators
  return *made;
}

}  // namespace

void addExecutorKind(ExecutorKind kind) {
  std::lock_guard lock(table().mutex);
  table().kinds.insert(table().kinds.begin(), std::move(kind));
}

void removeExecutorKind(const std::string& name) {
  std::lock_guard lock(table().mutex);
  std::erase_if(table().kinds, [&](const ExecutorKind& kind) { return kind.name == name; });
}

Status Executors::open(ExecutorContext context, const std::optional<ExecutorKind>& device) {
  host_ = std::make_shared<HostExecutor>();
  context.host = host_;
  if (device) {
    ECCL_ASSIGN(device_, logged(device->make(context)));
    others_.push_back(device_);
    return {};
  }
  gpuMemory_.open();
  std::vector<ExecutorKind> kinds;
  {
    std::lock_guard lock(table().mutex);
    kinds = table().kinds;
  }
  for (const ExecutorKind& kind : kinds) {
    ECCL_ASSIGN(std::shared_ptr<Executor> made, logged(kind.make(context)));
    if (made != nullptr) others_.push_back(std::move(made));
  }
  hostAlone_ = others_.empty() && !gpuMemory_.asks();
  return {};
}

bool Executors::areOnHost(const void* send, const void* receive) const {
  if (gpuMemory_.holdsWhatIsNew(send) || gpuMemory_.holdsWhatIsNew(receive)) return false;
  return others_.empty() || (&ofAddress(send) == host_.get() && &ofAddress(receive) == host_.get());
}

Executor& Executors::ofAddress(const void* address) const {
  const auto found = std::find_if(others_.begin(), others_.end(),
                                  [&](const auto& each) { return address != nullptr && each->holds(address); });
  return found != others_.end() ? **found : *host_;
}

Status Executors::admit(const char* what, const void* address) const {
  if (address == nullptr) return {};
  if (gpuMemory_.holds(address))
    return Status::error(Code::invalidArgument,
                         "the %s %p is memory of a GPU, and this communicator takes the host's only: set "
                         "ECCL_DEVICE=cuda before it "
                         "is made",
                         what, address);
  const Status status = device_ != nullptr ? device_->admit(address) : Status();
  if (status.ok() || status.code() == Code::device) return status;
  return Status::error(status.code(), "the %s %p %s", what, address, status.message().c_str());
}

Result<Executor*> Executors::of(const void* send, const void* receive) const {
  ECCL_TRY(admit("send buffer", send));
  ECCL_TRY(admit("receive buffer", receive));
  if (others_.empty()) return host_.get();
  if (device_ != nullptr) return device_.get();
  Executor& first = ofAddress(send != nullptr ? send : receive);
  Executor& second = ofAddress(receive != nullptr ? receive : send);
  if (&first == &second) return &first;
  return Status::error(
      Code::invalidArgument,
      "the send buffer %p is %s memory and the receive buffer %p is %s memory; both must be of "
      "one kind",
      send, first.memory(), receive, second.memory());
}

Status Scratch::provide(Executor& executor, size_t bytes) {
  if (bytes == 0 || (bytes <= bytes_ && &executor == executor_.get())) return {};
  clear();
  ECCL_ASSIGN(data_, executor.allocate(bytes));
  bytes_ = bytes;
  executor_ = executor.shared_from_this();
  return {};
}

void Scratch::clear() {
  if (data_ != nullptr) executor_->release(data_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace eccl::runtime
