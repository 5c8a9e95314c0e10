// Where the ranks of a communicator run and what their hosts are made of, as they tell each other when they
// meet.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/init/local_host.h"
#include "topology/model/cluster.h"
#include "transport/net/endpoint.h"

namespace eccl::runtime {

/// A value, equal on all ranks; constant, so any thread may read it.
class RankHosts {
 public:
  using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;
  using Describe = std::function<std::string(int rank)>;

  static constexpr size_t kMaxIntroduction = 1 << 14;  ///< bytes

  RankHosts() = default;
  /// What a rank says of itself to all others: of its host only what it takes to see which are alike, of the
  /// calling thread which cores it may use. If it cannot find out, it tells them so.
  struct Introduction {
    std::shared_ptr<const LocalHost> host;
    std::string text;
  };
  /// Looks at the host, and dumps it if the settings ask this rank to.
  static Introduction introduce(const Settings& settings, int rank);
  /// From everybody's introductions and endpoints, by rank. Collective: where not all hosts are alike, one rank
  /// of each kind tells by `gather` what it is made of. Bytes of others are bounded and checked; errors name
  /// the rank, and all ranks get the same one.
  static Result<RankHosts> meet(const std::vector<std::string>& introductions,
                                std::span<const transport::Endpoint> endpoints,
                                const std::shared_ptr<const LocalHost>& own, int rank, const Gather& gather,
                                const Describe& describe);
  /// For a communicator of these ranks, in this order.
  RankHosts of(std::span<const int> ranks) const;

  /// Index of each rank's host, from 0 in the order of their first ranks. Ranks share one if they say the same
  /// name and boot id of it, and those with an ECCL_TOPO_FILE if these say the same. No proof that they can
  /// share memory.
  const std::vector<int>& hostOfRank() const { return hostOfRank_; }
  /// How many ranks there are on it.
  int ranksOn(int host) const { return hosts_[static_cast<size_t>(host)].ranks; }
  /// Cores' worth of work that its ranks can do at once, together: those that any of them may use, and no more
  /// than their cgroup grants. At least 1.
  int coresOf(int host) const { return hosts_[static_cast<size_t>(host)].cores; }
  /// Hosts, without a network, and ranks: each on the CPU that has all its cores, else on those that have some
  /// in turn, as nothing is known of where it runs. invalidUsage where hosts differ and a rank's build has no
  /// JSON to tell of them. Put together anew each time, as few ask for it.
  Result<topology::Cluster> cluster() const;

 private:
  struct Rank {
    int host = 0;
    std::vector<bool> cores;  // that it may use
    int quota = 0;            // cores' worth of time; 0: no limit
  };
  struct PlaceOfRanks {
    std::string name;
    std::shared_ptr<const topology::Host> made;  // nullptr: not known
    int ranks = 0, cores = 1;
  };

  void arrange();

  std::vector<Rank> ranks_;
  std::vector<PlaceOfRanks> hosts_;
  Status unknown_;  // why `made` is not known
  std::vector<int> hostOfRank_;
};

}  // namespace eccl::runtime
