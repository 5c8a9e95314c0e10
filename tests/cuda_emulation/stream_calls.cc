// What is put into streams: copies, kernels, host functions, events, words.
#include <chrono>
#include <cstring>

#include "cuda_emulation/calls.h"

namespace eccl::cuda_emulation {

namespace {

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

DriverCode findStream(NativeStream handle, std::shared_ptr<Stream>* stream, const char* function, bool puts) {
  NEED(current() != nullptr, kInvalidContext, "%s without a current context", function);
  *stream = Stream::of(handle, current()->ordinal);
  NEED(*stream != nullptr, kInvalidHandle, "%s: %p is no stream, or was destroyed", function,
       static_cast<void*>(handle));
  if (!puts || reinterpret_cast<uintptr_t>(handle) > 1 || !Capture::forbidsLegacy((*stream)->ordinal))
    return kSuccess;
  Capture::spoilAll();
  return violation(kCaptureImplicit, "%s: the NULL stream is used while one is captured that waits for it",
                   function);
}
DriverCode cuMemcpyAsync(Address to, Address from, size_t bytes, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  char *const destination = Memory::get().at(to, bytes, __func__), *const source =
                                                                       Memory::get().at(from, bytes, __func__);
  if (destination == nullptr || source == nullptr) return kInvalidValue;
  its->put([=] {
    // Looked up again: it must not be freed meanwhile.
    if (Memory::get().at(to, bytes, "a copy") != nullptr && Memory::get().at(from, bytes, "a copy") != nullptr)
      std::memcpy(destination, source, bytes);
    return true;
  });
  return kSuccess;
}
DriverCode cuMemsetD8Async(Address address, unsigned char value, size_t bytes, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  char* const at = Memory::get().at(address, bytes, __func__);
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return std::memset(at, value, bytes), true; });
  return kSuccess;
}
DriverCode cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, NativeStream stream, void** arguments, void**) {
  BEGIN();
  FIND(stream, true);
  NEED(blocks > 0, kInvalidValue, "a kernel of no blocks");
  // Other calls take any device's stream.
  NEED(its->ordinal == current()->ordinal, kInvalidHandle, "a kernel is launched into another device's stream");
  const auto* const first = static_cast<const std::byte*>(arguments[0]);
  const std::vector<std::byte> copied(first, first + argumentBytes(function));
  its->put([=, ordinal = its->ordinal] { return runKernel(function, blocks, copied, ordinal), true; });
  return kSuccess;
}
DriverCode cuEventCreate(Event* event, unsigned flags) {
  BEGIN();
  *event = new EventOf;
  (*event)->state->timed = (flags & kEventWithoutTiming) == 0;
  return kSuccess;
}
DriverCode cuEventDestroy(Event event) {
  BEGIN();
  event->state->destroyed = true;
  delete event;
  return kSuccess;
}
DriverCode cuEventRecord(Event event, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  EventState& state = *event->state;
  state.capture = its->capture;
  state.tips = its->tips;
  if (its->capture != nullptr) return kSuccess;
  const auto time = state.timed ? std::make_shared<std::atomic<double>>() : nullptr;
  if (time != nullptr) its->put([time] { return time->store(now()), true; });
  state.last = {its, its->given(), nullptr, time};
  return kSuccess;
}
DriverCode cuEventRecordWithFlags(Event event, NativeStream stream, unsigned flags) {
  if (flags == 0) return cuEventRecord(event, stream);
  BEGIN();
  FIND(stream, true);
  NEED(flags == kRecordExternal, kInvalidValue, "a way to record that is not emulated: %u", flags);
  NEED(its->capture != nullptr, kInvalidValue, "an external record outside a capture");
  its->capture->add(&its->tips, {{}, {}, nullptr, event->state});
  return kSuccess;
}
DriverCode cuStreamWaitEvent(NativeStream stream, Event event, unsigned flags) {
  BEGIN();
  FIND(stream, true);
  const EventState& state = *event->state;
  if (flags == kWaitExternal) {
    NEED(its->capture != nullptr, kInvalidValue, "an external wait outside a capture");
    its->capture->add(&its->tips, {{}, {}, event->state, nullptr});
    return kSuccess;
  }
  if (state.capture != nullptr) {
    NEED(!state.capture->ended, kCaptureUnmatched, "a stream waits for an event of a capture that has ended");
    NEED(its->capture == nullptr || its->capture == state.capture, kCaptureMerge,
         "a stream waits for an event of another capture");
    if (its->capture == nullptr) {
      its->capture = state.capture;
      its->capture->join(*its, {});
    }
    its->tips.insert(state.tips.begin(), state.tips.end());
    return kSuccess;
  }
  NEED(its->capture == nullptr, kCaptureIsolation, "a captured stream waits for an event from outside");
  if (!state.last.reached()) its->put([before = state.last] { return before.reached(); });
  return kSuccess;
}
DriverCode cuEventQuery(Event event) {
  BEGIN();
  WAITS();
  NEED(event->state->capture == nullptr, kCaptureUnsupported, "an event of a capture is asked about");
  return event->state->last.reached() ? kSuccess : kNotReady;
}
DriverCode cuEventSynchronize(Event event) {
  BEGIN();
  WAITS();
  NEED(event->state->capture == nullptr, kCaptureUnsupported, "an event of a capture is waited for");
  const Moment last = event->state->last;
  driver.unlock();
  while (!last.reached()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return kSuccess;
}
DriverCode cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  BEGIN();
  for (Event each : {from, to}) {
    const Moment& last = each->state->last;
    if (last.time == nullptr) return kInvalidHandle;
    if (!last.reached()) return kNotReady;
  }
  *milliseconds = static_cast<float>(*to->state->last.time - *from->state->last.time);
  return kSuccess;
}
DriverCode cuCtxSynchronize() {
  BEGIN();
  WAITS();
  driver.unlock();
  Stream::awaitAll();
  return kSuccess;
}
DriverCode cuStreamCreate(NativeStream* stream, unsigned flags) {
  BEGIN();
  NEED(current() != nullptr, kInvalidContext, "cuStreamCreate without a current context");
  *stream = Stream::make(current()->ordinal, flags != kStreamNonBlocking)->handle();
  return kSuccess;
}
DriverCode cuStreamDestroy(NativeStream stream) {
  BEGIN();
  NEED(Stream::drop(stream), kInvalidHandle, "cuStreamDestroy: %p is no stream", static_cast<void*>(stream));
  return kSuccess;
}
DriverCode cuStreamSynchronize(NativeStream stream) {
  BEGIN();
  FIND(stream, false);
  WAITS();
  NEED(its->capture == nullptr, kCaptureUnsupported, "a captured stream is waited for");
  driver.unlock();
  its->await();
  return kSuccess;
}
DriverCode cuStreamQuery(NativeStream stream) {
  BEGIN();
  FIND(stream, false);
  WAITS();
  return its->idle() ? kSuccess : kNotReady;
}
DriverCode cuStreamGetFlags(NativeStream stream, unsigned* flags) {
  BEGIN();
  FIND(stream, false);
  if (its->capture != nullptr) {
    its->capture->spoilt = true;
    return violation(kCaptureUnsupported, "a captured stream is asked for its flags");
  }
  *flags = its->blocking ? 0 : kStreamNonBlocking;
  return kSuccess;
}
DriverCode cuStreamWaitValue64(NativeStream stream, Address word, uint64_t value, unsigned flags) {
  BEGIN();
  FIND(stream, true);
  NEED(word % sizeof value == 0, kInvalidValue, "a stream waits for a misaligned word");
  NEED(flags == kWaitAtLeast, kInvalidValue, "a way to wait that is not emulated: %u", flags);
  const auto* const at = reinterpret_cast<uint64_t*>(Memory::get().at(word, sizeof value, __func__));
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return static_cast<int64_t>(__atomic_load_n(at, __ATOMIC_ACQUIRE) - value) >= 0; });
  return kSuccess;
}
DriverCode cuStreamWriteValue64(NativeStream stream, Address word, uint64_t value, unsigned) {
  BEGIN();
  FIND(stream, true);
  NEED(word % sizeof value == 0, kInvalidValue, "a stream writes a misaligned word");
  auto* const at = reinterpret_cast<uint64_t*>(Memory::get().at(word, sizeof value, __func__));
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return __atomic_store_n(at, value, __ATOMIC_RELEASE), true; });
  return kSuccess;
}
DriverCode cuLaunchHostFunc(NativeStream stream, HostFunction function, void* argument) {
  BEGIN();
  FIND(stream, true);
  its->put([=] {
    ++control().hostFunctions;
    inHostFunction() = true;
    function(argument);
    inHostFunction() = false;
    return true;
  });
  return kSuccess;
}

}  // namespace eccl::cuda_emulation
