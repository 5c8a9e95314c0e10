#include "transport/connect/rank_transports.h"

#include "base/log.h"
#include "transport/connect/setup.h"

namespace eccl::transport {

RankTransports::RankTransports(TransportChoice choice, TransportContext context)
    : choice_(std::move(choice)), context_(std::move(context)), made_(choice_.allowed.size()) {}

Result<Transport*> RankTransports::get(size_t index) {
  Made& made = made_[index];
  if (made.transport != nullptr) return made.transport.get();
  if (!made.failure.ok()) return made.failure;
  Result<std::unique_ptr<Transport>> transport = entry(index).make(context_);
  if (!transport.ok()) {
    made.failure = transport.status();
    ECCL_INFO("%s does not use the transport %s: %s", context_.describe(context_.rank).c_str(),
              entry(index).name, made.failure.message().c_str());
    return made.failure;
  }
  if ((*transport)->polls()) polling_.push_back(transport->get());
  if ((*transport)->usesMemory()) using_.push_back(transport->get());
  std::lock_guard lock(mutex_);
  for (const auto& [memory, times] : registered_) (*transport)->registerMemory(memory);
  made.transport = transport.take();
  return made.transport.get();
}

void RankTransports::registerMemory(const MemoryRange& memory) {
  std::lock_guard lock(mutex_);
  if (registered_[memory]++ > 0) return;
  for (Made& each : made_) {
    if (each.transport != nullptr) each.transport->registerMemory(memory);
  }
}

void RankTransports::deregisterMemory(const MemoryRange& memory) {
  std::lock_guard lock(mutex_);
  const auto found = registered_.find(memory);
  if (found == registered_.end() || --found->second > 0) return;
  registered_.erase(found);
  for (Made& each : made_) {
    if (each.transport != nullptr) each.transport->deregisterMemory(memory);
  }
}

void RankTransports::useMemory(const MemoryRange& memory, MemoryFor what, MemoryKind kind, int dmabuf,
                               std::vector<std::unique_ptr<MemoryUse>>* uses) {
  for (Transport* each : using_) {
    for (auto& use : each->useMemory(memory, what, kind, dmabuf)) uses->push_back(std::move(use));
  }
}

size_t RankTransports::find(const std::string& name) const {
  for (size_t index = 0; index < count(); ++index) {
    if (name == entry(index).name) return index;
  }
  return kNone;
}

size_t RankTransports::find(uint16_t id) const {
  for (size_t index = 0; index < count(); ++index) {
    if (id == transportId(entry(index).name)) return index;
  }
  return kNone;
}

std::string RankTransports::nameOf(uint16_t id) const {
  if (const size_t index = find(id); index != kNone) return entry(index).name;
  for (const TransportChoice::Forbidden& each : choice_.forbidden) {
    if (id == transportId(each.name)) return each.name;
  }
  return "?";
}

std::string RankTransports::refusal(const std::string& name) const {
  for (const TransportChoice::Forbidden& each : choice_.forbidden) {
    if (each.name == name) return format("the receiver's settings forbid it (%s)", each.why.c_str());
  }
  return "the receiver has no such transport";
}

std::string RankTransports::forbidden() const {
  std::string text;
  for (const TransportChoice::Forbidden& each : choice_.forbidden)
    text += format("%s%s (%s)", text.empty() ? "" : ", ", each.name.c_str(), each.why.c_str());
  return text;
}

void RankTransports::closeAfterFork() {
  for (Made& each : made_) {
    if (each.transport != nullptr) each.transport->closeAfterFork();
  }
}

}  // namespace eccl::transport
