// The files of the cost model: its constants with their corrections, and measured calls.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "algorithms/cost/calibrate.h"

namespace {

using namespace eccl;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Messages name the text, and do not repeat all of it.
void requireTold(const Status& status) {
  require(status.code() == Code::invalidArgument && status.message().find("fuzz:") == 0 &&
          status.message().size() < 300);
}

void playModel(std::string_view text) {
  const auto model = algorithms::CostModel::parse(text, "fuzz");
  if (!model.ok()) return requireTold(model.status());
  const auto again = algorithms::CostModel::parse(model->text(), "fuzz");
  require(again.ok() && *again == *model && again->text() == model->text());
  for (const algorithms::Correction& c : model->corrections()) {
    // At the point itself, and anywhere between and beyond.
    require(std::abs(model->factorFor(*c.algorithm, c.memory, c.ranks, c.bytes) / c.factor - 1) < 1e-9);
    for (int ranks : {1, c.ranks + 1, c.ranks * 2}) {
      const double factor = model->factorFor(*c.algorithm, c.memory, ranks, c.bytes * 1.5);
      require(factor > algorithms::kMinCorrection * 0.999 && factor < algorithms::kMaxCorrection * 1.001);
    }
  }
}

void playMeasurements(std::string_view text) {
  const auto measurements = algorithms::parseMeasurements(text, "fuzz");
  if (!measurements.ok()) return requireTold(measurements.status());
  const std::string written = algorithms::textOf(*measurements);
  const auto again = algorithms::parseMeasurements(written, "fuzz");
  require(again.ok() && again->size() == measurements->size() && algorithms::textOf(*again) == written);
  // Whatever the times are, the constants fitted to them are some. Few and small calls, so that it does not
  // last.
  int moves = 0;
  for (const algorithms::Measurement& m : *measurements) {
    if (m.placement.ranks() > 4 || m.size.slots > 16) return;
    for (int number : m.placement.port)
      if (number > 100) return;
    moves += 64 * m.placement.ranks() * m.placement.ranks();
  }
  if (moves > 1500) return;
  const auto model = algorithms::calibrate(*measurements, algorithms::CostParameters::defaults());
  require(model.ok());
  for (double value : model->parameters().values) require(value >= 0 && std::isfinite(value));
  const auto read = algorithms::CostModel::parse(model->text(), "fuzz");
  require(read.ok() && *read == *model);
  for (const algorithms::Measurement& m : *measurements) {
    const auto time = algorithms::predict(m, *model);
    require(time.ok() && *time >= 0 && std::isfinite(*time));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  playModel(text);
  playMeasurements(text);
  return 0;
}
