// One Run staged through the host: which bytes go to and fro, and when.
//
// The caller's buffers have twins in pinned host memory, where the ordinary lanes run. When the call is made,
// all of this is put into the caller's stream:
//
//   for each group of tiles: copy its input to the twin; write the word `arrived`
//   for each group of tiles: wait for the word `passed`; copy its output from the twin
//   write the word `over`
//
// The engine only reads and writes words. A lane goes on to a tile when its group is there
// (RunView::readyTiles). A group of the output is free to be copied when every lane has passed it. So copies
// and lanes go on at the same time. `over` tells that the stream uses the twins no more.
//
// A captured call has the same put into its graph, with a host function behind `arrived` that has the engine
// begin a Run, and with `passed` written back to where it began, at the end, in place of `over`. The engine
// writes `arrived` back, when the Run has ended. So every run of the graph finds the words alike.
#pragma once

#include <functional>
#include <vector>

#include "runtime/cuda/staged_graphs.h"
#include "runtime/cuda/streams.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// What a Run on a GPU's memory has of its own; or all those of a captured call, one after the other. Owner:
/// the Run, or the call's and its graph. Threads: prepare(), arrive() and depart() by the thread that makes the
/// call, then the driver; letGo() any.
class StagedRun final : public OfGraph {
 public:
  explicit StagedRun(Gpu& gpu) : gpu_(gpu) {}
  ~StagedRun() override;
  /// It is for `work`, which is captured and the `place`-th of its line in a group. First.
  void beCaptured(Work& work, std::shared_ptr<StagedGraphs> graphs, size_t place);
  Work* captured() const { return captured_; }

  /// Provides twins and words. The context is current for the three.
  Status prepare(const Work& work);
  /// Puts the way to the host into `stream`, with bells.
  Status arrive(const Work& work, NativeStream stream, BellStream& bell);
  /// Puts the way back into it. After the arrive() of all Runs that share a place there.
  Status depart(const Work& work, NativeStream stream);
  /// The same for another stream in which the Run has its place too, as a Send and a Recv to oneself have: it
  /// waits until the first one has copied.
  Status arriveAlso(NativeStream stream, BellStream& bell);
  Status departAlso(NativeStream stream);

  /// By the driver, before the first advance(): puts the twins into the view.
  void begin(Work& work);
  /// What has come is ready, and what lanes have finished may go back.
  void advance(Work& work);
  /// The Run has ended, or there is none: the stream goes on, whatever has come of it.
  void letGo();

 private:
  /// One of the caller's buffers, and where its byte 0 would be in the twin.
  struct Side {
    Space space;
    std::byte* user = nullptr;
    std::byte* twin = nullptr;
    size_t begin = 0, end = 0;  // bytes into it that the Run uses
  };
  Status provideTwins();
  Status copyGroup(const PlanView& plan, const Side& side, uint64_t group, NativeStream stream);
  Status write(NativeStream stream, Word& word);
  Status set(NativeStream stream, const Word& word, uint64_t value);
  Status callBack(NativeStream stream, HostFunction function);
  Status wait(NativeStream stream, const Word& word, uint64_t value);

  Gpu& gpu_;
  Side input_{Space::input}, output_{Space::output};
  Pinned twins_[2];
  std::shared_ptr<const Pinned> capturedTwins_[2];
  uint64_t groups_ = 0, tilesPerGroup_ = 1;  // 0: there are no bytes
  Word arrived_, passed_, over_;             // each counts groups, from where it was; at least one
  uint64_t arrivedAtFirst_ = 0, passedAtFirst_ = 0;
  std::vector<Word> also_;  // of other streams
  bool inUse_ = false;      // of the twins: a copy is in the stream, and `over` is not
  std::shared_ptr<StagedGraphs> graphs_;
  Work* captured_ = nullptr;
  StagedGraphs::Key key_;
};

/// A Run's share in it.
struct StagedState final : WorkState {
  /// `runs`: this is a Run, not a call that was captured.
  StagedState(std::shared_ptr<StagedRun> its, bool isRun) : run(std::move(its)), runs(isRun) {}
  ~StagedState() override {
    if (runs) run->letGo();
  }
  const std::shared_ptr<StagedRun> run;
  const bool runs;
};

/// Calls visit(begin, end), in bytes into the buffer, for the pieces of `space` that belong to tiles [from,
/// to). Pieces that adjoin are one.
void forPieces(const PlanView& plan, Space space, uint64_t from, uint64_t to,
               const std::function<void(size_t, size_t)>& visit);

}  // namespace eccl::runtime::cuda
