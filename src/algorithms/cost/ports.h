// The network ports of a simulation: how long a message is on its way to another host. Part of the simulation.
#pragma once

#include <vector>

#include "algorithms/cost/cost_parameters.h"
#include "base/placement.h"

namespace eccl::algorithms::simulation {

/// What a message takes longer to come in when others are coming in from elsewhere: their flows fill the queue
/// before the port, and lose packets. Measured: AllReduce of 16 MiB among 8 hosts of two rails of 200 Mbit/s
/// takes 1.16 to 1.36 times as long by direct as by ring, AllGather and ReduceScatter 1.0 to 1.12 times
/// (docs/cost_model.md).
inline constexpr double kCrowding = 1.3;

/// The ports of all ranks, each with a clock for either direction. `Moment`: Time, or CriticalPath. What is
/// passed to the constructor outlives this. One thread.
template <class Moment>
class Ports {
 public:
  /// What is known of a port counts unless the constant is a measured one.
  Ports(const Placement& placement, const CostParameters& parameters)
      : placement_(placement), parameters_(parameters), ports_(placement.ports.size()) {
    const CostParameters defaults = CostParameters::defaults();
    const auto assumed = [&](CostTerm term) { return parameters[term] == defaults[term]; };
    knowsLatency_ = assumed(CostTerm::networkLatency);
    knowsRdmaLatency_ = assumed(CostTerm::rdmaLatency);
    for (size_t i = 0; i < ports_.size(); ++i) {
      const Placement::Port& known = placement.ports[i];
      if (known.gigabytes > 0 && assumed(CostTerm::portBytes))
        ports_[i].length = 1e3 / known.gigabytes / parameters[CostTerm::portBytes];
      ports_[i].microseconds = known.microseconds;
    }
  }

  /// The constant of the network for messages between these ranks.
  CostTerm term(CostTerm ofNetwork, int a, int b) const {
    const bool rdma = placement_.rdma[static_cast<size_t>(a)] && placement_.rdma[static_cast<size_t>(b)];
    return rdma ? byRdma(ofNetwork) : ofNetwork;
  }

  /// When a message has arrived that rank `from` passes to its kernel from `begun` until `passed`. Its first
  /// bytes leave while the others are passed. Ports are held for its length, the second one as it comes in, and
  /// it comes in as slowly as it leaves.
  Moment arrivalOf(int from, int to, double megabytes, const Moment& begun, const Moment& passed) {
    const int out = placement_.port[static_cast<size_t>(from)], in = placement_.port[static_cast<size_t>(to)];
    Moment last = passed;
    const CostTerm latencyTerm = term(CostTerm::networkLatency, from, to);
    if (out == in) {
      last.add(parameters_, latencyTerm, 1);
      return last;
    }
    Port &leaving = ports_[static_cast<size_t>(out)], &entering = ports_[static_cast<size_t>(in)];
    const bool known = latencyTerm == CostTerm::networkLatency ? knowsLatency_ : knowsRdmaLatency_;
    const double latency =
        1 + (known ? (leaving.microseconds + entering.microseconds) / parameters_[latencyTerm] : 0);
    last.add(parameters_, latencyTerm, latency);
    Moment moment = begun;
    moment.notBefore(leaving.out);
    leaving.out = moment;
    leaving.out.add(parameters_, CostTerm::portBytes, megabytes * leaving.length);
    moment.add(parameters_, latencyTerm, latency);
    const bool crowded = moment.at < entering.in.at && entering.sender != out;
    moment.notBefore(entering.in);
    moment.add(parameters_, CostTerm::portBytes, megabytes * entering.length * (crowded ? kCrowding : 1));
    entering.in = moment;
    entering.sender = out;
    if (leaving.length > entering.length)
      moment.add(parameters_, CostTerm::portBytes, megabytes * (leaving.length - entering.length));
    moment.notBefore(last);
    return moment;
  }

 private:
  struct Port {
    Moment out, in;           // when each direction is free
    double length = 1;        // per MB, as a multiple of the constant
    double microseconds = 0;  // to cross it
    int sender = -1;          // the port that sent the message that came in last
  };

  bool knowsLatency_ = true, knowsRdmaLatency_ = true;  // of ports counts
  const Placement& placement_;
  const CostParameters& parameters_;
  std::vector<Port> ports_;
};

}  // namespace eccl::algorithms::simulation
