// The receiving end of a connection over RDMA.
#pragma once

#include <vector>

#include "transport/messages/credits.h"
#include "transport/verbs/verbs_path.h"

namespace eccl::transport::verbs {

/// Puts what comes into the ring, grants the sender memory that lanes offer, and tells it of what was released.
/// Owner, threads, failure: see VerbsPath.
class VerbsReceiver final : public VerbsPath {
 public:
  VerbsReceiver(Wiring wiring, ReceiveEnd& end);

  void kick() override;
  void settle() override;
  void flush() override;
  bool drained() const override { return !live() || (!credits_.owed() && queue().idle()); }
  void endReceiving() override;

  void onFrame(const std::byte* bytes, uint32_t length) override;
  void onSent(size_t queue, uint64_t tag) override;

 protected:
  void letGo() override;

 private:
  struct Granted {
    uint64_t sequence = 0;  // of message number sequence - 1
    uint32_t length = 0;
    std::shared_ptr<const MemoryCache::Region> region;  // until it has come
  };
  void grant();
  void sendCredit();
  bool hasCome(uint64_t message) const { return end_.slot(message)->sequence == message + 1; }
  const char* faultOf(const VerbsFrame& header, uint32_t length) const;
  void take(const VerbsFrame& header, const std::byte* data);

  ReceiveEnd& end_;
  CreditsDue credits_;
  std::vector<Granted> granted_;  // by number of message, modulo offers
  uint64_t arrived_;              // all messages before this one have come
};

}  // namespace eccl::transport::verbs
