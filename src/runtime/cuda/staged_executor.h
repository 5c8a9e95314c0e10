// A GPU as an executor that stages: the host's lanes run on copies in pinned memory. Right on every GPU and
// every network, as the host does all the work; as fast as the copies, at best.
#pragma once

#include "runtime/cuda/capture.h"
#include "runtime/cuda/staged_run.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// Owner and threads: as Executor says. The driver makes no call into CUDA (streams.h). Its scratch memory is
/// the host's, where the lanes run. Failure: a call into CUDA that fails ends the communicator, with a sentence
/// that names it. What is in the caller's stream is made all the same: after an abort, too, that stream copies
/// between the caller's memory and the twins once it comes there.
class StagedExecutor : public Executor {
 public:
  StagedExecutor(Gpu& gpu, const ExecutorContext& context)
      : gpu_(gpu),
        host_(context.host),
        bell_(gpu, context.bell),
        graphs_(std::make_shared<StagedGraphs>(gpu, context.bell, context.wanted)) {}
  ~StagedExecutor() override;
  /// Once, before anything else.
  Status open();

  const char* memory() const override { return "CUDA"; }
  bool holds(const void* address) const override { return admit(address).ok(); }
  Status admit(const void* address) const override;
  Result<std::byte*> allocate(size_t bytes) override { return host_->allocate(bytes); }
  void release(std::byte* memory) override { host_->release(memory); }
  const void* place() const override { return &gpu_; }
  int number() const override { return gpu_.ordinal(); }
  std::string pciAddress() const override { return gpu_.pciAddress(); }
  const void* streamOf(const void* handle) const override;
  /// A Run waits for the stream itself: `reached` is called at once, and there is no gate.
  Result<std::unique_ptr<StreamGate>> enter(void* stream, std::span<Work* const> works,
                                            std::function<void()> reached) override;
  Status read(void* stream, void* to, const void* from, size_t bytes) override;
  Status begin(Work& work) override;
  LaneAnswer advance(Work& work, int32_t lane, int budget) override;
  Replays look(Work& captured) override;
  bool anyBegun() const override { return graphs_->anyBegun(); }
  void takeBegun(const std::function<void(Work&, std::unique_ptr<WorkState>)>& visit) override;
  void fail() override { graphs_->end(); }
  void cancel(Work&) override {}
  void quiesce(Work&) override {}
  Status failure(const Work&) const override { return {}; }

 protected:
  /// Error (invalidUsage): the stream is being captured, and `what` cannot be. The context is current.
  Status refuseCapture(NativeStream stream, const char* what) const;

  Gpu& gpu_;

 private:
  using Works = std::span<Work* const>;
  static StagedExecutor& of(const Work& work) { return static_cast<StagedExecutor&>(*work.executor); }
  Status put(NativeStream stream, Works works, const Capture& capture);
  Status capture(NativeStream stream, Works works, const Capture& capture);

  const std::shared_ptr<Executor> host_;
  BellStream bell_;
  std::shared_ptr<StagedGraphs> graphs_;
};

}  // namespace eccl::runtime::cuda
