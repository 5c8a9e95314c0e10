#include "cuda_emulation/graph.h"

#include <algorithm>

#include "cuda_emulation/calls.h"

namespace eccl::cuda_emulation {
namespace {

/// How this thread is about captures: 0 minds those of others, 1 its own, 2 none.
int& threadMode() {
  static thread_local int mode = 0;
  return mode;
}

void drop(UserObject object, int references) {
  if (object->references.fetch_sub(references) > references) return;
  // In a thread of the driver's, where CUDA may not be called.
  std::thread([object] {
    inHostFunction() = true;
    object->destroy(object->its);
    delete object;
  }).detach();
}

/// One run of a graph. By the thread of the stream that it was put into.
class GraphRun {
 public:
  GraphRun(std::shared_ptr<GraphContents> contents, std::vector<Stream::Work> works, Moment before)
      : contents_(std::move(contents)),
        works_(std::move(works)),
        before_(std::move(before)),
        done_(works_.size()),
        begun_(works_.size()) {}
  bool advance() {
    if (!before_.reached()) return false;
    for (;;) {
      std::vector<size_t> ready;
      size_t left = 0, runs = 0;
      for (size_t i = 0; i < works_.size(); ++i) {
        if (done_[i]) continue;
        ++left;
        runs += begun_[i];
        const Tips& after = contents_->nodes[i].after;
        if (!begun_[i] && std::all_of(after.begin(), after.end(), [&](size_t b) { return done_[b].load(); }))
          ready.push_back(i);
      }
      if (left == 0) {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
        return true;
      }
      if (ready.empty()) return false;
      if (ready.size() == 1 && runs == 0) {  // nothing goes on beside it
        if (!works_[ready[0]]()) return false;
        done_[ready[0]] = true;
        continue;
      }
      for (const size_t i : ready) {
        begun_[i] = true;
        threads_.emplace_back([this, i] {
          while (!works_[i]()) std::this_thread::sleep_for(std::chrono::microseconds(20));
          done_[i] = true;
        });
      }
    }
  }

 private:
  const std::shared_ptr<GraphContents> contents_;
  std::vector<Stream::Work> works_;
  const Moment before_;
  std::vector<std::atomic<bool>> done_;
  std::vector<bool> begun_;
  std::vector<std::thread> threads_;
};

}  // namespace

GraphContents::~GraphContents() {
  for (UserObject each : objects) drop(each, 1);
}

std::vector<Capture*>& Capture::live() {
  static auto* const made = new std::vector<Capture*>;
  return *made;
}

Capture::Capture(Graph its, int mode)
    : id([] {
        static uint64_t captures = 0;
        return ++captures;
      }()),
      graph(its),
      mode_(mode),
      thread_(std::this_thread::get_id()) {
  live().push_back(this);
}

DriverCode Capture::mayWait(const char* function) {
  if (threadMode() == kCaptureRelaxed) return kSuccess;
  for (const Capture* each : live()) {
    const bool own = each->thread_ == std::this_thread::get_id();
    if (each->mode_ == kCaptureRelaxed || (!own && (threadMode() == 1 || each->mode_ == 1))) continue;
    spoilAll();
    return violation(kCaptureUnsupported,
                     "%s while a stream is captured, and this thread is not relaxed about it", function);
  }
  return kSuccess;
}

void Capture::spoilAll() {
  for (Capture* each : live()) each->spoilt = true;
}

bool Capture::forbidsLegacy(int ordinal) {
  return std::any_of(live().begin(), live().end(), [&](const Capture* each) {
    return std::any_of(each->streams_.begin(), each->streams_.end(),
                       [&](const auto& stream) { return stream->blocking && stream->ordinal == ordinal; });
  });
}

void Capture::add(Tips* tips, GraphContents::Node node) {
  node.after = *tips;
  graph->contents->nodes.push_back(std::move(node));
  *tips = {graph->contents->nodes.size() - 1};
}

void Capture::join(Stream& stream, Tips tips) {
  streams_.push_back(stream.shared_from_this());
  stream.tips = std::move(tips);
}

DriverCode Capture::end(Stream& origin) {
  std::erase(live(), this);
  ended = true;
  Tips leaves;
  for (size_t i = 0; i < graph->contents->nodes.size(); ++i) {
    for (size_t before : graph->contents->nodes[i].after) leaves.erase(before);
    leaves.insert(i);
  }
  const bool joined = std::includes(origin.tips.begin(), origin.tips.end(), leaves.begin(), leaves.end());
  for (const auto& each : streams_) each->capture = nullptr;
  if (spoilt) return kCaptureInvalidated;
  if (mode_ != kCaptureRelaxed && thread_ != std::this_thread::get_id()) return kCaptureWrongThread;
  return joined ? kSuccess
                : violation(kCaptureUnjoined, "a capture ends and not all of its streams have joined");
}

DriverCode cuThreadExchangeStreamCaptureMode(int* mode) {
  // Never made to fail: what is exchanged is exchanged back.
  NEED(*mode >= 0 && *mode <= kCaptureRelaxed, kInvalidValue, "a capture mode %d", *mode);
  std::swap(*mode, threadMode());
  return kSuccess;
}
DriverCode cuStreamBeginCapture(NativeStream stream, int mode) {
  BEGIN();
  FIND(stream, false);
  NEED(reinterpret_cast<uintptr_t>(stream) > 1, kCaptureUnsupported, "the NULL stream is to be captured");
  NEED(its->capture == nullptr, kInvalidValue, "a stream is to be captured twice");
  its->capture = std::make_shared<Capture>(new GraphOf, mode);
  its->capture->join(*its, {});
  return kSuccess;
}
DriverCode cuStreamEndCapture(NativeStream stream, Graph* graph) {
  BEGIN();
  FIND(stream, false);
  NEED(its->capture != nullptr, kInvalidValue, "no capture is there to be ended");
  const std::shared_ptr<Capture> capture = its->capture;
  const DriverCode ended = capture->end(*its);
  *graph = ended == kSuccess ? capture->graph : nullptr;
  if (ended != kSuccess) delete capture->graph;
  return ended;
}
DriverCode cuStreamIsCapturing(NativeStream stream, int* status) {
  BEGIN();
  FIND(stream, false);
  *status = its->capture != nullptr ? kCaptureActive : kCaptureNone;
  return kSuccess;
}
DriverCode cuStreamGetCaptureInfo(NativeStream stream, int* status, uint64_t* id, Graph* graph,
                                  const GraphNode** after, size_t* afterCount) {
  BEGIN();
  FIND(stream, false);
  NEED(after == nullptr && afterCount == nullptr, kInvalidValue, "what a node is behind is not emulated");
  const auto& capture = its->capture;
  *status = capture == nullptr ? kCaptureNone : capture->spoilt ? 2 : kCaptureActive;
  if (capture == nullptr) return kSuccess;
  *id = capture->id;
  *graph = capture->graph;
  return kSuccess;
}
DriverCode cuUserObjectCreate(UserObject* object, void* what, HostFunction destroy, unsigned references,
                              unsigned flags) {
  BEGIN();
  NEED(flags == kWithoutSync, kInvalidValue, "a user object has one flag, and it has to be given");
  *object = new ObjectOf{what, destroy, static_cast<int>(references)};
  return kSuccess;
}
DriverCode cuUserObjectRelease(UserObject object, unsigned references) {
  BEGIN();
  drop(object, static_cast<int>(references));
  return kSuccess;
}
DriverCode cuGraphRetainUserObject(Graph graph, UserObject object, unsigned references, unsigned flags) {
  BEGIN();
  NEED(flags == kMoveReference && references == 1, kInvalidValue, "a way to retain that is not emulated");
  graph->contents->objects.push_back(object);
  return kSuccess;
}
DriverCode cuGraphInstantiateWithFlags(GraphExec* made, Graph graph, uint64_t) {
  BEGIN();
  WAITS();
  *made = new GraphExecOf{graph->contents, {}};
  return kSuccess;
}
DriverCode cuGraphGetNodes(Graph graph, GraphNode* nodes, size_t* count) {
  BEGIN();
  NEED(nodes == nullptr, kNotSupported, "what nodes a graph has is not emulated, but how many");
  *count = graph->contents->nodes.size();
  return kSuccess;
}
DriverCode cuGraphUpload(GraphExec, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  NEED(its->capture == nullptr, kNotSupported, "a graph is not uploaded by a stream that is captured");
  return kSuccess;
}
DriverCode cuGraphLaunch(GraphExec graph, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  NEED(its->capture == nullptr, kNotSupported, "a graph in a graph is not emulated");
  std::vector<Stream::Work> works;
  for (const GraphContents::Node& node : graph->contents->nodes) {
    for (const auto& event : {node.waits, node.records})
      NEED(event == nullptr || !event->destroyed, kInvalidHandle, "a graph runs whose event was destroyed");
    if (node.waits != nullptr) {
      works.emplace_back([before = node.waits->last] { return before.reached(); });
    } else if (node.records != nullptr) {
      const auto made = std::make_shared<std::atomic<bool>>(false);
      node.records->last = {nullptr, 0, made, nullptr};
      works.emplace_back([made] { return made->store(true), true; });
    } else {
      works.push_back(node.work);
    }
  }
  const auto run = std::make_shared<GraphRun>(graph->contents, std::move(works), graph->last);
  its->put([run] { return run->advance(); });
  graph->last = {its, its->given(), nullptr, nullptr};
  return kSuccess;
}
DriverCode cuGraphExecDestroy(GraphExec graph) {
  BEGIN();
  delete graph;
  return kSuccess;
}
DriverCode cuGraphDestroy(Graph graph) {
  BEGIN();
  delete graph;
  return kSuccess;
}

}  // namespace eccl::cuda_emulation
