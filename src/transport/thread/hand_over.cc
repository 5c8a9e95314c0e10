#include "transport/thread/hand_over.h"

#include <map>
#include <mutex>

namespace eccl {
namespace {

struct Table {
  std::mutex mutex;
  std::map<Nonce, RingMemory> left;
};
Table& table() {
  static Table* const table = new Table;  // never destroyed: threads may outlive static destructors
  return *table;
}

}  // namespace

void leaveForThread(const Nonce& nonce, RingMemory memory) {
  std::lock_guard lock(table().mutex);
  table().left.emplace(nonce, std::move(memory));
}

RingMemory takeFromThread(const Nonce& nonce) {
  std::lock_guard lock(table().mutex);
  auto found = table().left.find(nonce);
  if (found == table().left.end()) return nullptr;
  RingMemory memory = std::move(found->second);
  table().left.erase(found);
  return memory;
}

}  // namespace eccl
