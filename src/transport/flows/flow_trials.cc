#include "transport/flows/flow_trials.h"

#include <algorithm>
#include <vector>

namespace eccl::transport {
namespace {

using namespace std::chrono_literals;

constexpr double kSlow = 0.75, kSlowAndLossy = 0.9;
/// Where there are four ways and one is free, 18 % of six ports miss it.
constexpr int kTries = 6;
/// Of so many flows one takes part in a round.
constexpr size_t kOneOf = 16;
/// Longer than flows take to be measured anew.
constexpr Duration kBetweenRounds = 1500ms;
constexpr Duration kFirstRest = 3s, kLongestRest = 10min;
/// Others may have something to say at the same time.
constexpr Duration kQuiet = 100ms;
/// For an answer. Longer than a trial may take.
constexpr Duration kAnswerLimit = 15s;

Duration restOf(int rests) {
  Duration rest = rests == 0 ? Duration::zero() : kFirstRest;
  while (--rests > 0 && rest < kLongestRest) rest *= 2;
  return std::min(rest, kLongestRest);
}

double paceOf(const FlowPace& pace) {
  return static_cast<double>(pace.bytesPerSecond);
}

}  // namespace

void FlowTrials::hear(const Name& name, const FlowMessage& message, TimePoint now) {
  Flow& flow = flows_[name];
  const double before = paceOf(flow.pace);
  flow.pace = message.pace;
  if (message.kind == FlowMessage::Kind::pace) {
    if (!flow.asked && paceOf(flow.pace) < kSlow * before) flow.rests = 0;  // somebody has come in its way
    due_ = std::min(due_, now + kQuiet);
  } else if (std::exchange(flow.asked, false)) {
    const bool moved = message.kind == FlowMessage::Kind::moved;
    if (moved || --flow.left == 0) finish(flow, moved, now);
    due_ = now;
  }
}

void FlowTrials::finish(Flow& flow, bool found, TimePoint now) {
  flow.left = 0;
  flow.asked = false;
  flow.rests = found ? 0 : flow.rests + 1;
  flow.since = now;
  if (--trying_ == 0) nextRound_ = now + kBetweenRounds;
}

// By speed of the rails: what the slowest of the fastest quarter has.
std::map<uint32_t, double> FlowTrials::usualPaces() const {
  std::map<uint32_t, std::vector<double>> paces;
  for (const auto& [name, flow] : flows_) paces[flow.pace.megabits].push_back(paceOf(flow.pace));
  std::map<uint32_t, double> usual;
  for (auto& [megabits, each] : paces) {
    const auto at = each.begin() + static_cast<ptrdiff_t>(each.size() * 3 / 4);
    std::nth_element(each.begin(), at, each.end());
    usual[megabits] = std::max(*at, 1.0);
  }
  return usual;
}

// A round. Sets when the next may be.
void FlowTrials::begin(TimePoint now) {
  std::vector<std::pair<double, Flow*>> wanting;  // by part of what is usual
  const std::map<uint32_t, double> usual = usualPaces();
  for (auto& [name, flow] : flows_) {
    const double part = paceOf(flow.pace) / usual.at(flow.pace.megabits);
    if (part >= (flow.pace.lost ? kSlowAndLossy : kSlow)) continue;
    const TimePoint due = flow.since + restOf(flow.rests);
    if (due <= now)
      wanting.emplace_back(part, &flow);
    else
      due_ = std::min(due_, due);
  }
  std::sort(wanting.begin(), wanting.end());
  wanting.resize(std::min(wanting.size(), std::max<size_t>(1, flows_.size() / kOneOf)));
  for (const auto& [part, flow] : wanting) flow->left = flow->rests == 0 ? kTries : 1;
  trying_ = wanting.size();
}

void FlowTrials::progress(TimePoint now, const Move& move) {
  if (now < due_) return;
  due_ = TimePoint::max();
  for (auto& [name, flow] : flows_)
    if (flow.asked && now >= flow.since + kAnswerLimit) finish(flow, false, now);
  if (trying_ == 0 && now >= nextRound_) begin(now);
  if (trying_ == 0) {
    if (now < nextRound_) due_ = nextRound_;
    return;
  }
  for (auto& [name, flow] : flows_) {
    if (flow.left == 0) continue;
    if (!std::exchange(flow.asked, true)) {
      flow.since = now;
      move(name);
    }
    due_ = std::min(due_, flow.since + kAnswerLimit);
  }
}

}  // namespace eccl::transport
