// How a UCX connection is set up.
#pragma once

#include "transport/ucx/ucx_path.h"

namespace eccl::transport {

/// One end of a connection that is being set up, the sender's or the receiver's: each tells the other where its
/// worker is, and which number the end has. Until open() UCX knows nothing of it. Owner: the link.
class UcxSetup final : public Offer, public Acceptance {
 public:
  UcxSetup(UcxWorker& worker, const ConnectionId& id) : worker_(worker), id_(id), mine_(worker.newId()) {}
  /// What this side tells the other. Error: the address of its worker is too long.
  Status say(SetupData* data) const;
  /// What the other side has told. Error: it cannot be.
  Status read(const SetupData& data);

  Status onAnswer(SetupData& answer, SetupData*) override { return read(answer); }
  Status onConfirmation(SetupData&) override { return {}; }
  Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) override;
  Result<std::unique_ptr<Path>> open(ReceiveEnd& end, Opening opening) override;

 private:
  template <class PathEnd, class End>
  Result<std::unique_ptr<Path>> openPath(End& end, Opening& opening);
  template <class End>
  Result<UcxPath::Wiring> wire(End& end, Opening& opening);

  UcxWorker& worker_;
  const ConnectionId id_;
  const UcxEndId mine_;
  UcxWords theirs_;
};

}  // namespace eccl::transport
