// Answers to many questions at once: the earlier events of 64 questions have a bit each, which is passed on
// from predecessor to successor.
#include "algorithms/verify/happens_before.h"

#include <algorithm>

namespace eccl::algorithms {

void HappensBefore::clear() {
  begin_.assign(1, 0);
  predecessors_.clear();
  questions_.clear();
}

int32_t HappensBefore::add(std::span<const int32_t> predecessors) {
  predecessors_.insert(predecessors_.end(), predecessors.begin(), predecessors.end());
  begin_.push_back(static_cast<int32_t>(predecessors_.size()));
  return static_cast<int32_t>(begin_.size()) - 2;
}

std::vector<HappensBefore::Question> HappensBefore::unordered(int64_t most) {
  std::vector<Question> found;
  if (questions_.empty()) return found;
  std::sort(questions_.begin(), questions_.end(),
            [](const Question& a, const Question& b) { return a.before < b.before; });
  bit_.assign(begin_.size(), 0);
  known_.assign(begin_.size(), 0);
  for (size_t from = 0; from < questions_.size() && work_ <= most;) {
    const size_t to = follow(from);
    for (size_t i = from; i < to; ++i) {
      const Question& question = questions_[i];
      bool ordered = question.before < question.after && (known_[question.after] & bit_[question.before]) != 0;
      if (!ordered) found.push_back(question);
    }
    for (; from < to; ++from) bit_[questions_[from].before] = 0;
  }
  return found;
}

/// Gives the next 64 earlier events a bit each, and all later events the bits of what they follow. Returns the
/// end of the questions this answers.
size_t HappensBefore::follow(size_t from) {
  const int32_t first = questions_[from].before;
  int32_t last = first;
  size_t to = from;
  for (int bits = 0; to < questions_.size(); ++to) {
    const Question& question = questions_[to];
    if (bit_[question.before] == 0) {
      if (bits == 64) break;
      bit_[question.before] = uint64_t{1} << bits++;
    }
    last = std::max(last, question.after);
  }
  for (int32_t event = first; event <= last; ++event) {
    uint64_t known = bit_[event];
    for (int32_t i = begin_[event]; i < begin_[event + 1]; ++i) {
      if (predecessors_[i] >= first) known |= known_[predecessors_[i]];
    }
    known_[event] = known;
  }
  work_ += last - first + 1 + begin_[last + 1] - begin_[first];
  return to;
}

}  // namespace eccl::algorithms
