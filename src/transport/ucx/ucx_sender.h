// The sending end of a UCX connection.
#pragma once

#include <algorithm>

#include "transport/messages/credits.h"
#include "transport/ucx/ucx_path.h"

namespace eccl::transport {

/// Sends published messages straight from where they lie, and turns credits into released slots. A slot is
/// released when the receiver says so and UCX has done with it as well: the receiver may have all of a message
/// before UCX here knows. Owner, threads, failure: see UcxPath.
class UcxSender final : public UcxPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  UcxSender(Wiring wiring, SendEnd& end);
  ~UcxSender() override { close(); }

  void kick() override;
  void poll() override;
  void askForReleases() override;
  void limitAhead(uint32_t messages) override { end_.most = std::min(messages, end_.shape.slots); }
  bool drained() const override { return end_.control->released == end_.next; }
  void endReceiving() override {}

 private:
  void take(const MessageFrame& frame, const UcxData& data) override;
  bool hear(const UcxWord& word) override;
  void onMet() override { kick(); }
  void ended(UcxOperation& operation) override;
  void goOn() override;
  UcxOperation& sendOf(uint64_t message) { return operation(message & (end_.shape.slots - 1)); }
  UcxOperation& ask() { return operation(end_.shape.slots); }
  bool credit(uint64_t released);
  void release();
  void sendAsk();

  SendEnd& end_;
  uint64_t message_;   // what is sent next
  uint64_t done_;      // UCX has done with the messages before this one
  uint64_t credited_;  // the receiver has released those before this one
  bool ends_ = false;  // the receiver takes no more
  bool asks_ = false;  // that is still to be sent
};

}  // namespace eccl::transport
