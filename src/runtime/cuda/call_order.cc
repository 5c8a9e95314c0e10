#include "runtime/cuda/call_order.h"

namespace eccl::runtime::cuda {

CallOrder::Line CallOrder::lineOf(const Work& work) {
  enum Kind { toSelf, collective, send, receive };
  const Program& program = *work.program;
  if (program.connections.empty()) return {toSelf, 0};
  if (program.collective == Collective::send) return {send, program.connections[0].peer};
  if (program.collective == Collective::receive) return {receive, program.connections[0].peer};
  return {collective, 0};
}

CallOrder::~CallOrder() {
  const Entered entered(gpu_.driver(), gpu_.context());
  for (auto& [line, last] : last_) {
    for (Event event : {last.behind, last.inGraph})
      if (event != nullptr) gpu_.driver().cuEventDestroy(event);
  }
}

Result<CallOrder::Last*> CallOrder::lastOf(const Line& line) {
  Last& last = last_[line];
  for (Event* event : {&last.behind, &last.inGraph}) {
    if (*event != nullptr) continue;
    ECCL_TRY(gpu_.driver().check(gpu_.driver().cuEventCreate(event, kEventWithoutTiming), "cuEventCreate",
                                 "on %s", gpu_.name().c_str()));
  }
  return &last;
}

Status CallOrder::follow(const Line& line, NativeStream stream, const Capture& capture) {
  ECCL_ASSIGN(const Last* last, lastOf(line));
  const bool within = capture.goesOn() && last->capture == capture.id;
  // Of a graph the first one waits, in each run, for what was started before that.
  return gpu_.driver().check(gpu_.driver().cuStreamWaitEvent(stream, within ? last->inGraph : last->behind,
                                                             capture.goesOn() && !within ? kWaitExternal : 0),
                             "cuStreamWaitEvent", "in the stream %p of %s", static_cast<void*>(stream),
                             gpu_.name().c_str());
}

Status CallOrder::note(const Line& line, NativeStream stream, const Capture& capture) {
  ECCL_ASSIGN(Last * last, lastOf(line));
  const Driver& driver = gpu_.driver();
  const auto checked = [&](DriverCode code) {
    return driver.check(code, "cuEventRecord", "in the stream %p of %s", static_cast<void*>(stream),
                        gpu_.name().c_str());
  };
  if (!capture.goesOn()) return checked(driver.cuEventRecord(last->behind, stream));
  ECCL_TRY(checked(driver.cuEventRecord(last->inGraph, stream)));
  last->capture = capture.id;
  return checked(driver.cuEventRecordWithFlags(last->behind, stream, kRecordExternal));
}

}  // namespace eccl::runtime::cuda
