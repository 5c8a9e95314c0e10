// Captures, the graphs that come of them, and how these run. All under the driver's lock, but for what says
// otherwise.
#pragma once

#include <atomic>

#include "cuda_emulation/emulation.h"

namespace eccl::cuda_emulation {

/// Nodes of a graph that the next one comes behind.
using Tips = std::set<size_t>;

/// A place in a stream, or in one run of a graph. Any thread.
struct Moment {
  std::shared_ptr<Stream> stream;
  uint64_t count = 0;
  std::shared_ptr<std::atomic<bool>> node;    // instead: it has been made
  std::shared_ptr<std::atomic<double>> time;  // of its event, in milliseconds
  bool reached() const { return node != nullptr ? node->load() : stream == nullptr || stream->made(count); }
};

/// What an event stands for. Graphs have it, too.
struct EventState {
  Moment last;
  std::shared_ptr<class Capture> capture;  // it was recorded there, and stands for `tips`
  Tips tips;
  bool destroyed = false, timed = false;
};

/// What graphs are of. Instances and runs have it, too; when the last is gone, so is what it retains.
struct GraphContents {
  struct Node {
    Tips after;
    Stream::Work work;
    std::shared_ptr<EventState> waits, records;  // instead of work
  };
  std::vector<Node> nodes;
  std::vector<UserObject> objects;
  GraphContents() = default;
  GraphContents(const GraphContents&) = delete;
  ~GraphContents();
};

/// Streams being captured into one graph.
class Capture {
 public:
  Capture(Graph graph, int mode);
  /// Of the streams that are captured now: whether this thread may call what may wait for any stream.
  static DriverCode mayWait(const char* function);
  /// Some call that a capture does not forgive was made.
  static void spoilAll();
  /// A blocking stream is captured, so that the NULL stream cannot be used.
  static bool forbidsLegacy(int ordinal);

  const uint64_t id;
  const Graph graph;
  bool spoilt = false, ended = false;
  /// Puts a node behind `*tips`, and has it be the only one there.
  void add(Tips* tips, GraphContents::Node node);
  /// `stream` is captured from now on; until it ends.
  void join(Stream& stream, Tips tips);
  DriverCode end(Stream& origin);

 private:
  static std::vector<Capture*>& live();
  const int mode_;
  const std::thread::id thread_;
  std::vector<std::shared_ptr<Stream>> streams_;  // the first is where it began
};

}  // namespace eccl::cuda_emulation

namespace eccl::runtime::cuda {
struct EventOf {
  std::shared_ptr<eccl::cuda_emulation::EventState> state =
      std::make_shared<eccl::cuda_emulation::EventState>();
};
struct GraphOf {
  std::shared_ptr<eccl::cuda_emulation::GraphContents> contents =
      std::make_shared<eccl::cuda_emulation::GraphContents>();
};
struct GraphExecOf {
  std::shared_ptr<eccl::cuda_emulation::GraphContents> contents;
  eccl::cuda_emulation::Moment last;  // runs of one follow one another
};
struct ObjectOf {
  void* its;
  HostFunction destroy;
  std::atomic<int> references;
};
}  // namespace eccl::runtime::cuda
