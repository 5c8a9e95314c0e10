// The rings between the GPUs of a communicator's ranks, where these reach each other's memory (else: relay.h).
//
// A ring's memory lies with both ends (lanes/block_program.h). It is made when a call first needs it: by
// whoever comes first where both ranks are in this process; else each makes its own part, lends it to the other
// process (loans.h), and tells it the ticket.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/condition.h"
#include "runtime/cuda/lanes/block_program.h"
#include "runtime/cuda/loans.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// Names a ring, as transport::ConnectionId does a connection.
using RingId = std::tuple<int32_t, int32_t, int16_t, int16_t>;  // from, to, channel, tag

/// Owner: the neighbourhood. Any thread.
class Rings {
 public:
  /// No ring has more strips, and no rank has more blocks of its GPU.
  static constexpr uint32_t kMostStrips = 1 << 12;

  /// `gpus`: by rank; null: it is in another process. Outlives this.
  Rings(const std::vector<Gpu*>& gpus, System& system) : gpus_(gpus), system_(system), changed_(system) {}

  /// How parts are lent, before any is. Each rank says the same.
  void lendBy(LendBy by) { by_ = by; }
  /// Makes and tells rank `own`'s part of the first `width` strips of a ring, if the other one is elsewhere.
  /// The context of its GPU is current. Error: Loans::lend()'s.
  Status offer(const RingId& id, uint32_t width, int own, const Meeting& meeting);
  /// What another rank has told rank `own` of its part. Error (remote): it is no such message. Never waits for
  /// a driver.
  Status hear(int own, int from, std::string_view message);
  /// The first `width` strips of a ring, of which rank `own` is one end, and has offered its part. Waits for
  /// the other one's offer: tells `waits` how long, less and less often. Error: Gpu::take()'s,
  /// Loans::borrow()'s, or Meeting::failure's.
  struct RingStrip {
    lanes::AtReceiver* receiver;
    lanes::AtSender* sender;
  };
  using Waits = std::function<void(Duration waited, int rank)>;
  Result<std::vector<RingStrip>> ring(const RingId& id, uint32_t width, int own, const Meeting& meeting,
                                      const Waits& waits);
  /// Nobody waits any longer.
  void abort();
  /// Once, at the end: no kernel of this process uses a ring any more.
  void giveBack();
  /// Instead: some kernel may.
  void keep();

 private:
  struct Offer {
    uint32_t strips;
    Ticket ticket;
  };
  struct Ring {
    std::vector<lanes::AtReceiver*> receivers;  // by strip, as far as they are known
    std::vector<lanes::AtSender*> senders;
    std::vector<std::tuple<Gpu*, Address, size_t>> memory;
    std::vector<std::pair<Gpu*, Loan>> lent;
    std::vector<std::pair<Gpu*, Borrowed>> borrowed;
    /// Strips more of the receiver's or the sender's part, at `memory`.
    void add(bool receiver, Address memory, size_t strips);
    size_t parts(bool receiver) const { return receiver ? receivers.size() : senders.size(); }
  };
  struct Heard {
    uint32_t strips = 0;  // that were offered so far
    std::deque<Offer> offers;
  };

  bool isHere(int rank) const { return gpus_[static_cast<size_t>(rank)] != nullptr; }
  Result<Address> standIn(const RingId& id, size_t bytes, int own, const Meeting& meeting, const Status& why);
  Result<Offer> await(const RingId& id, int from, const Meeting& meeting, const Waits& waits);

  const std::vector<Gpu*>& gpus_;
  System& system_;
  std::atomic<LendBy> by_{LendBy::handle};
  std::mutex mutex_;
  std::map<RingId, Ring> rings_;
  std::mutex hearing_;  // of the following; never held while the driver is asked
  Condition changed_;
  std::map<RingId, Heard> heard_;
  bool aborted_ = false;
};

}  // namespace eccl::runtime::cuda
