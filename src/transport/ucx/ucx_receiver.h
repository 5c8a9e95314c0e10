// The receiving end of a UCX connection.
#pragma once

#include "transport/messages/credits.h"
#include "transport/ucx/ucx_path.h"

namespace eccl::transport {

/// Has messages come into the ring, or straight into the user's memory where an offer allows, and sends the
/// sender credits for what was released. Owner, threads, failure: see UcxPath.
class UcxReceiver final : public UcxPath {
 public:
  /// `end` is attached to the Wiring's memory and outlives the path.
  UcxReceiver(Wiring wiring, ReceiveEnd& end);
  ~UcxReceiver() override;

  void kick() override;
  void settle() override;
  void poll() override { look(); }
  void flush() override;
  bool drained() const override { return (!credits_.owed() && !crediting_) || !live(); }
  void endReceiving() override;

 private:
  void take(const MessageFrame& frame, const UcxData& data) override;
  bool hear(const UcxWord&) override { return false; }
  void ended(UcxOperation& operation) override;
  void goOn() override { flush(); }
  UcxOperation& receiveOf(uint64_t message) { return operation(message & (end_.shape.slots - 1)); }
  UcxOperation& crediting() { return operation(end_.shape.slots); }
  void refuse(const MessageFrame& frame, size_t bytes, const char* wrong);
  void sendCredit();

  ReceiveEnd& end_;
  Assemblies assemblies_;
  CreditsDue credits_;
  bool crediting_ = false;  // a credit is under way: the next one waits
};

}  // namespace eccl::transport
