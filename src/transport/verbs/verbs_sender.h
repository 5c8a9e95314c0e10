// The sending end of a connection over RDMA.
#pragma once

#include <vector>

#include "transport/verbs/verbs_path.h"

namespace eccl::transport::verbs {

/// Where the receiver lets messages land that it has granted no other place. Goes over the wire as it lies in
/// memory.
struct LandingPlace {
  uint64_t address;
  uint32_t key;
  uint32_t places, slotBytes;  // so many, of so many bytes each
};

/// Sends what lanes publish, and turns credits into released slots. Owner, threads, failure: see VerbsPath.
class VerbsSender final : public VerbsPath {
 public:
  VerbsSender(Wiring wiring, SendEnd& end, const LandingPlace& landing);

  void kick() override {
    if (live() && (message_ != end_.next || asks_)) sendMessages();
  }
  void limitAhead(uint32_t messages) override { end_.most = std::min(messages, end_.shape.slots); }
  bool awaitsGrant(uint64_t message) const override { return grantFor(message).sequence != message + 1; }
  void askForReleases() override;
  bool drained() const override { return end_.control->released == end_.next; }
  void endReceiving() override {}

  void onFrame(const std::byte* bytes, uint32_t length) override;
  void onSent(size_t queue, uint64_t tag) override;

 protected:
  void letGo() override;

 private:
  struct Grant {
    uint64_t sequence = 0;  // of message number sequence - 1
    uint64_t address = 0;
    uint32_t key = 0, length = 0;
  };
  /// Of a queue pair.
  struct Sent {
    uint64_t until;      // the device has done with its messages before this one
    uint64_t reference;  // one past the last that was sent from the user's memory
  };
  const Grant& grantFor(uint64_t message) const { return grants_[message & (grants_.size() - 1)]; }
  void noteReferences();
  size_t queueFor(const Slot& slot) const;
  void sendMessages();
  void sendMessage(QueuePair& by);
  void takeReleased();

  SendEnd& end_;
  const LandingPlace landing_;
  std::vector<Grant> grants_;           // by number of message, modulo offers
  std::vector<MemoryKeys> references_;  // by number of message, modulo slots: of those in the user's memory
  uint64_t noted_;                      // those before this one are there
  uint64_t message_;                    // what is sent next
  uint64_t longs_ = 0;                  // of more than kInFrame bytes before it
  std::vector<Sent> sent_;              // by queue pair
  uint64_t credited_;                   // released, as the receiver says
  bool ended_ = false;                  // it will say no more
  bool asks_ = false;
};

}  // namespace eccl::transport::verbs
