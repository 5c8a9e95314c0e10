// Constants are found again from the times that they give.
#include "algorithms/cost/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace eccl::algorithms {
namespace {

/// Calls of most kinds, timed by a simulation with these constants.
std::vector<Measurement> measuredWith(const CostParameters& constants, const Placement& placement,
                                      uint64_t most = 1 << 20) {
  std::vector<Measurement> measurements;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective >= Collective::allToAllv || algorithm.collective == Collective::barrier) continue;
    for (uint64_t elements = 2; elements <= most / 4; elements *= 8) {
      Measurement m = {&algorithm, {.elements = elements, .elementBytes = 4}, placement, 1};
      auto time = simulatedTime(m.programs(), m.size, m.placement, constants);
      EXPECT_TRUE(time.ok()) << time.status().message();
      m.microseconds = time.ok() ? *time : 1;
      measurements.push_back(m);
    }
  }
  return measurements;
}

void append(std::vector<Measurement>& all, const std::vector<Measurement>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// The defaults, each changed by up to so many times.
CostParameters changed(unsigned seed, double most) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-1, 1);
  CostParameters parameters = CostParameters::defaults();
  for (double& value : parameters.values) value *= std::pow(most, exponent(random));
  return parameters;
}

CostModel calibrated(std::span<const Measurement> measurements,
                     const CostParameters& start = CostParameters::defaults()) {
  auto model = calibrate(measurements, start);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? model.take() : CostModel();
}

Accuracy accuracyWith(std::span<const Measurement> measurements, const CostModel& model) {
  auto accuracy = accuracyOf(measurements, model);
  EXPECT_TRUE(accuracy.ok()) << accuracy.status().message();
  return accuracy.ok() ? *accuracy : Accuracy{};
}
CostModel constantsOf(const CostModel& model) {
  return {model.parameters(), {}};
}

TEST(Calibrate, NothingMeasuredLeavesTheConstants) {
  const CostParameters start = changed(1, 2);
  EXPECT_EQ(calibrated({}, start), CostModel(start, {}));
}

TEST(Calibrate, TheConstantsThatGaveTheTimesStay) {
  const CostParameters constants = changed(2, 2);
  auto measurements = measuredWith(constants, Placement::oneHost(3, 2));
  append(measurements, measuredWith(constants, Placement::hosts(3)));
  const CostModel model = calibrated(measurements, constants);
  EXPECT_LT(accuracyWith(measurements, constantsOf(model)).most, 1e-6);
}

TEST(Calibrate, TheConstantsThatGaveTheTimesAreFound) {
  for (unsigned seed : {3, 4, 5}) {
    const CostParameters constants = changed(seed, 2);
    auto measurements = measuredWith(constants, Placement::oneHost(2, 2));
    append(measurements, measuredWith(constants, Placement::oneHost(4, 2)));
    append(measurements, measuredWith(constants, Placement::hosts(3)));
    const Accuracy before = accuracyWith(measurements, CostModel());
    EXPECT_GT(before.most, 0.2);
    const CostModel model = calibrated(measurements);
    const Accuracy after = accuracyWith(measurements, constantsOf(model));
    EXPECT_EQ(after.calls, measurements.size());
    EXPECT_LT(after.median, 0.005) << "seed " << seed;
    EXPECT_LT(after.percentile95, 0.02) << "seed " << seed;
    for (double value : model.parameters().values) EXPECT_GE(value, 0);
    // So well that sizes and ranks that were not measured are known too.
    const auto others = measuredWith(constants, Placement::oneHost(3, 2), 1 << 18);
    EXPECT_LT(accuracyWith(others, constantsOf(model)).percentile95, 0.03) << "seed " << seed;
  }
}

TEST(Calibrate, WhatNothingWasMeasuredOfStays) {
  const CostParameters constants = changed(6, 2), start = changed(7, 2);
  const CostModel model = calibrated(measuredWith(constants, Placement::oneHost(2, 2)), start);
  for (CostTerm term :
       {CostTerm::networkLatency, CostTerm::networkSend, CostTerm::networkReceive, CostTerm::networkSendBytes,
        CostTerm::networkReceiveBytes, CostTerm::portBytes, CostTerm::handOver}) {
    EXPECT_NEAR(model.parameters()[term], start[term], 1e-6 * start[term]) << nameOf(term);
  }
}

TEST(Calibrate, CorrectionsTakeUpWhatTheConstantsCannotExplain) {
  const CostParameters constants = CostParameters::defaults();
  auto measurements = measuredWith(constants, Placement::oneHost(3, 3));
  Measurement& odd = measurements[measurements.size() / 2];
  odd.microseconds *= 5;
  const CostModel model = calibrated(measurements, constants);
  EXPECT_EQ(model.corrections().size(), measurements.size());
  const Accuracy accuracy = accuracyWith(measurements, model);
  EXPECT_LT(accuracy.most, 1e-9);
  EXPECT_GT(accuracyWith(measurements, constantsOf(model)).most, 0.5);
  EXPECT_GT(model.factorFor(*odd.algorithm, true, 3, odd.blockBytes()), 2);
  auto predicted = predict(odd, model);
  ASSERT_TRUE(predicted.ok());
  EXPECT_NEAR(*predicted, odd.microseconds, 1e-9 * odd.microseconds);
}

TEST(Calibrate, CallsMeasuredTwiceAreCorrectedByTheirMean) {
  const Algorithm* ring = findAlgorithm(Collective::allReduce, "ring");
  const Measurement call = {ring, {.elements = 64, .elementBytes = 4}, Placement::oneHost(2, 2), 10};
  Measurement slower = call, plain = call;
  slower.microseconds = 40;
  plain.size.registered = false;
  plain.microseconds = 20;
  const std::vector<Measurement> measurements = {call, slower, plain};
  const CostModel model = calibrated(measurements);
  ASSERT_EQ(model.corrections().size(), 1u);
  auto predicted = predict(call, model);
  ASSERT_TRUE(predicted.ok());
  EXPECT_NEAR(*predicted, 20, 1e-9);
  const auto again = CostModel::parse(model.text(), "file");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, model);
}

TEST(Calibrate, CorrectionsAreBounded) {
  const Algorithm* ring = findAlgorithm(Collective::allReduce, "ring");
  Measurement call = {ring, {.elements = 1 << 18, .elementBytes = 4}, Placement::oneHost(2, 2), 1e-6};
  Measurement huge = call;
  huge.size.elements *= 4;
  huge.microseconds = 1e12;
  const std::vector<Measurement> measurements = {call, huge};
  const CostModel model = calibrated(measurements);
  EXPECT_EQ(model.corrections().size(), 2u);
  for (const Correction& correction : model.corrections()) {
    EXPECT_GE(correction.factor, kMinCorrection);
    EXPECT_LE(correction.factor, kMaxCorrection);
  }
}

TEST(Accuracy, IsOfTheRelativeErrors) {
  const CostParameters constants = CostParameters::defaults();
  auto measurements = measuredWith(constants, Placement::oneHost(2, 2));
  measurements.resize(40);
  EXPECT_EQ(accuracyWith({}, CostModel()).calls, 0u);
  // The model says 1 for all, in turn too much and too little: off by 1 %, 2 %, … 40 %.
  for (size_t i = 0; i < measurements.size(); ++i) {
    const double error = 0.01 * static_cast<double>(i + 1);
    measurements[i].microseconds /= i % 2 == 0 ? 1 + error : 1 - error;
  }
  const Accuracy accuracy = accuracyWith(measurements, CostModel());
  EXPECT_EQ(accuracy.calls, 40u);
  EXPECT_NEAR(accuracy.median, 0.205, 0.0051);
  EXPECT_NEAR(accuracy.percentile95, 0.39, 1e-9);
  EXPECT_NEAR(accuracy.most, 0.40, 1e-9);
}

}  // namespace
}  // namespace eccl::algorithms
