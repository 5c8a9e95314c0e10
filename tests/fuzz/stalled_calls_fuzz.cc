// What ranks tell each other of calls that do not go on. The first byte chooses the parser. A comparison or
// probe of any bytes reports calls at most; a probe that is passed on is as the next one takes it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/communicator/circles.h"
#include "runtime/communicator/diagnosis.h"

namespace {

using namespace eccl;
using namespace eccl::runtime;

class Handler final : public DiagnosisHandler, public CirclesHandler, public EngineHandler {
 public:
  void fault(const Status&, bool) override {}
  void faultOfOthers(const Status&) override {}
  void sendComparison(int, std::string_view) override {}
  void onAwaited(int rank, const CallRecord&) override {
    if (rank < Circles::kAnyRank || rank > 3) std::abort();
  }
  bool isBehind(const CallRecord&) const override { return false; }
  bool makesNoMoreCalls() const override { return false; }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  void sendProbe(int, std::string_view probe) override { sent = probe; }
  void onCircle(const Status&) override { ++circles; }
  std::vector<int> neededBy(const Run&) const override { return {1}; }
  void onMismatch(Run&, int, const LaneState&) override {}
  void onPeerFailed(Run&, int, const transport::Breakage&) override {}
  void onPeerGone(int, const std::string&) override {}
  void onStall(Run&, Duration, const Awaited&) override {}
  void onMessagesLost(const Status&) override {}
  void onDriverFailed(const Status&) override {}
  void wakeService() override {}
  std::string sent;
  int circles = 0;
};

void comparison(std::string_view bytes) {
  Handler handler;
  Diagnosis diagnosis(handler, System::real());
  diagnosis.begin(0, 4, std::chrono::seconds(1));
  for (uint64_t made = 0; made < 3; ++made) {
    diagnosis.onComparison(3, bytes);
    CallRecord record;
    if (!diagnosis.remember(record, record.shape())) return;
  }
}

void probe(std::string_view bytes) {
  Handler handler;
  const Engine engine({}, handler);
  Circles circles(handler, engine, System::real());
  circles.begin(1, "fuzz", 0);
  circles.onProbe(bytes);
  const auto run = std::make_shared<Run>();
  circles.pass(*run, bytes);
  if (handler.sent.empty()) return;
  // The next one may be far on its way, but it is a probe: it comes through, once more or to its end.
  Handler next;
  Circles others(next, engine, System::real());
  others.begin(2, "next", 1);
  others.pass(*run, handler.sent);
  if (next.sent.empty() && next.circles == 0 && handler.sent.size() < 8 << 10) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  (bytes[0] % 2 == 0 ? comparison : probe)(bytes.substr(1));
  return 0;
}
