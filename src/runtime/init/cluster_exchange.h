// Where the ranks of a communicator run and what their hosts are made of, as they tell each other when they
// meet.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/placement.h"
#include "base/system.h"
#include "runtime/init/introductions.h"
#include "runtime/init/local_host.h"
#include "topology/model/cluster.h"
#include "transport/net/endpoint.h"

namespace eccl::runtime {

/// Whether a rank with these settings exchanges messages with other hosts by UCX, where these do, too.
/// Transports have been chosen.
bool usesUcx(const Settings& settings);

/// The hosts of a communicator, and which rank is on which. A value, equal on all ranks; constant, so any
/// thread may read it.
class RankHosts {
 public:
  using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;
  using Describe = std::function<std::string(int rank)>;

  static constexpr size_t kMaxIntroduction = 1 << 14;  ///< bytes

  RankHosts() = default;
  /// What a rank says of itself to all others. Of its host: what it takes to see which are alike. Of the
  /// calling thread: which cores it may use. Also with whom it may share memory under its settings, and where
  /// its GPU is. If it cannot find out, the text says so.
  struct Introduction {
    std::shared_ptr<const LocalHost> host;
    std::string text;
  };
  /// Looks at the host, and dumps it if the settings ask this rank to. `gpu`: Executor::pciAddress(). `host` is
  /// null where it could not be found out. Never fails: meet() of all ranks does.
  static Introduction introduce(const Settings& settings, int rank, const std::string& gpu = "");
  /// From everybody's introductions and endpoints, by rank. Collective: where not all hosts are alike, one
  /// rank of each kind tells by `gather` what it is made of. Bytes of others are bounded and checked. Errors
  /// name the rank, all ranks get the same one, and it is logged: remote for what cannot be read,
  /// invalidUsage if a rank does not know its host; or `gather`'s.
  static Result<RankHosts> meet(const std::vector<std::string>& introductions,
                                std::span<const transport::Endpoint> endpoints,
                                const std::shared_ptr<const LocalHost>& own, int rank, const Gather& gather,
                                const Describe& describe);
  /// The same, which ranks of one process have in common where nothing was asked of others.
  static Result<std::shared_ptr<const RankHosts>> meetInCommon(
      const std::shared_ptr<const Introductions>& introductions, const std::shared_ptr<const LocalHost>& own,
      int rank, const Gather& gather, const Describe& describe);
  /// For a communicator of these ranks, in this order. Nothing is asked of other ranks.
  RankHosts of(std::span<const int> ranks) const;
  /// The same, which ranks of one process have in common.
  static std::shared_ptr<const RankHosts> inCommonOf(const std::shared_ptr<const RankHosts>& all,
                                                     const std::vector<int>& ranks);

  /// Where a rank is.
  ///
  /// Host: ranks share one if they say the same name, boot id and network namespace of it, and those with an
  /// ECCL_TOPO_FILE if these say the same. Machine: ranks share one if they say the same boot id. Cores:
  /// those of a machine count that any of its ranks may use, and no more than the cgroups grant. Memory: what
  /// the ranks' settings let them share; no proof that they can. RDMA: where
  /// they allow it, and the host has a port for it. Ports: the first is the nearest one for RDMA; else that of
  /// the rank's first rail, or all rails together if there are several; where a file describes the host and has
  /// none of that name, its fastest. The speed of one that is no port of the topology is what its rail's
  /// interface says.
  const RankLocation& location(int rank) const {
    return locations_[static_cast<size_t>(locationOf_[static_cast<size_t>(rank)])];
  }
  /// Of all ranks. Put together anew each time.
  std::vector<RankLocation> locations() const;
  /// Where all are, as numbers.
  const Placement& placement() const { return placement_; }
  /// Names of its host's ports, in the order in which a rank best uses them: those nearest to its GPU, or its
  /// CPU if it has none, first, of which those ranks take turns that are as near to them. Empty: none is known.
  std::vector<std::string> portsOf(int rank) const;
  /// Hosts, without a network, and ranks. Each rank is on the CPU that has all its cores; else on those that
  /// have some, in turn, as nothing is known of where it runs. locations() says the same. Put together anew
  /// each time, as few ask for it. Error (invalidUsage): hosts differ, and a rank's build has no JSON to tell
  /// of them.
  Result<topology::Cluster> cluster() const;

 private:
  // Ranks that are alike: mostly all of a host, or of a GPU.
  struct Kind {
    int host = 0;
    std::string machine, memory;
    std::vector<transport::Rail> rails;
    std::vector<bool> cores;  // that each may use
    int quota = 0;            // cores' worth of time; 0: no limit
    bool rdma = false;        // its settings allow RDMA, and its host has a port for it
    bool ucx = false;         // usesUcx()
    std::string gpu;          // where its GPU is on the PCI bus; empty: it has none
  };
  struct PlaceOfRanks {
    std::string name;
    bool fromFile = false;
    std::shared_ptr<const topology::Host> made;  // nullptr: not known
  };

  void arrange();
  std::map<std::string, double> coresOfMachines() const;
  void takeTurns(const std::vector<std::vector<int>>& cpusOf);
  int placeOf(const Kind& rank, int cpu) const;
  std::vector<int> nearPorts(const Kind& rank, int device, int turn) const;
  std::vector<NetworkPort> portsFor(const Kind& kind, int device, int turn, const std::string& hostName) const;

  std::vector<Kind> kinds_;
  std::vector<int> ranks_;  // by rank: index of its kind
  std::vector<PlaceOfRanks> hosts_;
  Status unknown_;                       // why `made` is not known
  std::vector<std::string> hostNames_;   // unique
  std::vector<int> cpus_;                // by rank: the device of its host that it is on
  std::vector<int> turns_;               // by rank: which of the ports that are alike to it it uses first
  std::vector<RankLocation> locations_;  // those there are
  std::vector<int> locationOf_;          // by rank: index of it
  Placement placement_;
};

/// All that decides which ports a rank has.
std::string namesOf(const std::vector<transport::Rail>& rails);

}  // namespace eccl::runtime
