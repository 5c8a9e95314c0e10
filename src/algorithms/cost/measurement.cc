#include "algorithms/cost/measurement.h"

#include <array>

#include "base/tokens.h"

namespace eccl::algorithms {
namespace {

constexpr int kMaxRanks = 1 << 16;
constexpr double kMaxCores = 1e6, kMaxMicroseconds = 1e12;
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;

std::string textOf(const Placement& placement) {
  std::string text = "ranks";
  for (size_t rank = 0; rank < placement.machine.size(); ++rank)
    text += format(" %d:%d:%d", placement.machine[rank], placement.memory[rank], placement.port[rank]);
  text += "\ncores";
  for (double cores : placement.cores) text += ' ' + written(cores);
  return text + '\n';
}

/// One line. nullptr, or what is wrong with it; a static text.
class Reader {
 public:
  const char* line(std::string_view line) {
    const std::string_view kind = nextToken(line);
    if (kind.empty()) return nullptr;
    if (kind == "ranks") return ranks(line);
    if (kind == "cores") return cores(line);
    if (kind == "call") return call(line);
    return "a line begins with ranks, cores or call";
  }
  std::vector<Measurement> take() { return std::move(measurements_); }

 private:
  const char* ranks(std::string_view line) {
    ranks_.clear();
    cores_.clear();
    placement_ = {};
    for (std::string_view word = nextToken(line); !word.empty(); word = nextToken(line)) {
      bool more = true;  // a number, or an empty place for one
      for (int& place : ranks_.emplace_back()) {
        const std::string_view number = word.substr(0, word.find(':'));
        more = number.size() < word.size();
        word.remove_prefix(number.size() + more);
        if (!readNumber(number, 0, kMaxRanks, place))
          return "a rank is MACHINE:MEMORY:PORT, three numbers from 0";
      }
      if (more) return "a rank is MACHINE:MEMORY:PORT, three numbers from 0";
      if (ranks_.size() > kMaxRanks) return "these are too many ranks";
    }
    return ranks_.empty() ? "there are no ranks" : nullptr;
  }
  const char* cores(std::string_view line) {
    cores_.clear();
    placement_ = {};
    for (std::string_view word = nextToken(line); !word.empty(); word = nextToken(line)) {
      if (!readNumber(word, 1.0, kMaxCores, cores_.emplace_back()))
        return "the cores of a machine are a number from 1";
    }
    return nullptr;
  }
  const char* place() {
    if (ranks_.empty()) return "the ranks are missing above";
    std::vector<RankLocation> locations;
    for (const auto& [machine, memory, port] : ranks_) {
      if (static_cast<size_t>(machine) >= cores_.size()) return "the cores of a machine are missing above";
      locations.emplace_back(std::to_string(machine), std::to_string(memory), std::to_string(port),
                             cores_[static_cast<size_t>(machine)]);
    }
    placement_ = Placement(locations);
    return nullptr;
  }
  const char* call(std::string_view line) {
    Measurement m;
    const std::string_view collective = nextToken(line), name = nextToken(line);
    m.algorithm = findAlgorithm(collective, name);
    if (m.algorithm == nullptr) return "there is no such algorithm; eccl_sched list names all";
    if (placement_.ranks() == 0) {
      if (const char* wrong = place()) return wrong;
    }
    if (!readNumber(nextToken(line), uint64_t{1}, kMaxBytes, m.size.elements) ||
        !readNumber(nextToken(line), 1u, 16u, m.size.elementBytes) ||
        !readNumber(nextToken(line), uint64_t{64}, kMaxBytes, m.size.slotBytes) ||
        !readNumber(nextToken(line), 2, 1024, m.size.slots)) {
      return "after the algorithm go elements, bytes of each, bytes of a slot and slots";
    }
    const std::string_view memory = nextToken(line);
    if (memory != "registered" && memory != "plain") return "the buffers are registered or plain";
    m.size.registered = memory == "registered";
    if (!readNumber(nextToken(line), 1e-6, kMaxMicroseconds, m.microseconds) || !nextToken(line).empty())
      return "the last word is the microseconds";
    m.placement = placement_;
    measurements_.push_back(std::move(m));
    return nullptr;
  }

  std::vector<std::array<int, 3>> ranks_;
  std::vector<double> cores_;
  Placement placement_;
  std::vector<Measurement> measurements_;
};

}  // namespace

std::string textOf(std::span<const Measurement> measurements) {
  std::string text;
  const Placement* placement = nullptr;
  for (const Measurement& m : measurements) {
    if (placement == nullptr || !(*placement == m.placement)) text += textOf(m.placement);
    placement = &m.placement;
    text += format("call %s %s %llu %u %llu %d %s ", nameOf(m.algorithm->collective), m.algorithm->name,
                   static_cast<unsigned long long>(m.size.elements), m.size.elementBytes,
                   static_cast<unsigned long long>(m.size.slotBytes), m.size.slots,
                   m.size.registered ? "registered" : "plain") +
            written(m.microseconds) + '\n';
  }
  return text;
}

Result<std::vector<Measurement>> parseMeasurements(std::string_view text, const std::string& name) {
  Reader reader;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = nextLine(text);
    if (const char* wrong = reader.line(line)) return wrongLine(name, number, line, wrong);
  }
  return reader.take();
}

}  // namespace eccl::algorithms
