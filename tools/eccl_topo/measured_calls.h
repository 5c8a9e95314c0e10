// Times of calls among running ranks, one in each process: what a call takes, again and again, from buffer to
// buffer. All ranks call the same functions in the same order. Times are in microseconds.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/library/algorithm.h"
#include "eccl/eccl.h"
#include "tools/common/outcome.h"

namespace eccl::topo {

/// One call to be measured, and what it took in each round on the slowest rank.
struct MeasuredCall {
  const algorithms::Algorithm* algorithm = nullptr;
  size_t blockBytes = 0;
  bool fitted = true;  ///< the model is to be fitted to it
  std::vector<double> rounds;

  /// The median of the rounds; 0 if there is none that says anything.
  double median() const;
  /// The distance of the quartiles, as a share of the median.
  double spread() const;
};

/// What was measured between two ranks.
struct MeasuredLink {
  int from = 0, to = 0;
  double microseconds = 0;  ///< one way, of 8 bytes
  double gigabytes = 0;     ///< per second, of messages of 4 MiB
};

/// This process's rank among those that measure. Owner: the command. One thread. An Outcome that is an error
/// ends the command on this rank.
class Ranks {
 public:
  /// Of a communicator of all ranks, which stays the caller's. `mostBytes`: the largest buffer.
  /// `sample`: microseconds to spend on a call.
  Ranks(ecclComm_t world, int rank, int ranks, size_t mostBytes, bool registered, double sample);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Measures all links, one after the other, those from smaller to greater ranks.
  tools::Outcome links(std::vector<MeasuredLink>* links);
  /// One round: measures every call once, in this order, in communicators made anew.
  tools::Outcome round(std::vector<MeasuredCall>* calls);

 private:
  using Call = std::function<ecclResult_t()>;
  tools::Outcome allocate();
  tools::Outcome agree(double* value);  // the greatest of all ranks
  tools::Outcome join(const std::string& algorithms, ecclComm_t* comm);
  void writeInput(size_t bytes);
  tools::Outcome time(ecclComm_t comm, const Call& call, size_t inputBytes, double* microseconds);
  tools::Outcome link(int from, int to, size_t bytes, bool andBack, double* microseconds);
  Call callOf(const MeasuredCall& call, ecclComm_t comm) const;

  const ecclComm_t world_;
  const int rank_, ranks_;
  const size_t mostBytes_;
  const bool registered_;
  const double sample_;
  char* buffers_[2] = {};
  unsigned written_ = 0;
};

}  // namespace eccl::topo
