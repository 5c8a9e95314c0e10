// How a communicator comes to be: by unique id, or by splitting another.

#include <unistd.h>

#include <algorithm>

#include "algorithms/cost/simulate.h"
#include "algorithms/selection/candidates.h"
#include "base/log.h"
#include "runtime/communicator/communicator.h"
#include "topology/probe/host_summary.h"
#include "transport/connect/lent_descriptor.h"
#include "transport/net/bytes.h"
#include "transport/net/descriptors.h"
#include "transport/registry/registry.h"

namespace eccl::runtime {

using namespace std::chrono_literals;

template <class FindMembership>
Status Communicator::establish(uint64_t id, const transport::Secret& secret, FindMembership&& findMembership) {
  InitTimes times(system());
  id_ = id;
  secret_ = secret;
  transport::Acceptor::Options acceptorOptions;
  acceptorOptions.system = &system();
  acceptorOptions.interfaces = transport::interfaceOptions(options_.settings);
  ECCL_ASSIGN(acceptor_,
              transport::Acceptor::open(secret, acceptorOptions, [this](transport::Incoming incoming) {
                onIncoming(std::move(incoming));
              }));
  times.passed("listener");
  ECCL_ASSIGN(Membership membership, findMembership(acceptor_->endpoint()));
  times.passed("rendezvous");
  rank_ = membership.rank;
  ranks_ = membership.ranks;
  diagnosis_.begin(rank_, ranks_, hostLimit());
  circles_.begin(id_, options_.name, rank_);
  transport::Control::Options controlOptions;
  controlOptions.system = &system();
  controlOptions.hostLimit = hostLimit();
  // A thousand idle ranks of one process took .7 of a core with four signs a second, and .3 with one.
  controlOptions.heartbeat = std::clamp<Duration>(controlOptions.hostLimit / 5, controlOptions.heartbeat, 1s);
  controlOptions.silenceLimit = std::max(controlOptions.silenceLimit, controlOptions.hostLimit);
  control_ = std::make_unique<transport::Control>(id_, secret_, rank_, ranks_, controlOptions, this);
  ECCL_TRY(control_->open());
  ECCL_TRY(openEngine());
  // Told to all when they meet: they would wait for this rank.
  const Status executors = engine_.openExecutors(options_.device);
  ECCL_TRY(service_.start(
      system(), *acceptor_, *control_, engine_, [this] { diagnosis_.tick(); },
      [this](const Status& why) { onDriverFailed(why); }));
  running_.store(true);
  if (state_.load() == State::failed) engine_.fail(asyncStatus());
  times.passed("engine");
  ECCL_TRY(control_->connect(membership.parent, initWait()));
  times.passed("control tree");
  ECCL_TRY(exchange(times, executors));
  if (!options_.settings.connectionsDump.empty()) readySince_ = system().now();
  State expected = State::initialising;
  state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel);
  ECCL_INFO("communicator %016llx%s%s: %s of %d is ready after %s", static_cast<unsigned long long>(id_),
            options_.name.empty() ? "" : " ", options_.name.c_str(), describe(rank_).c_str(), ranks_,
            times.text().c_str());
  return asyncStatus();
}

Status Communicator::join(transport::UniqueId id, int rank, int ranks) {
  transport::expectDescriptors(ranks, options_.settings.raiseLimits);
  id.secret.encrypts = options_.settings.encrypt;
  if (id.rootByRank0 && rank == 0) {
    transport::Rendezvous::Options rootOptions;
    rootOptions.system = &system();
    rootOptions.interfaces = transport::interfaceOptions(options_.settings);
    ECCL_ASSIGN(root_, transport::Rendezvous::start(&id, rootOptions));
  }
  return establish(id.communicator, id.secret, [&](const transport::Endpoint& mine) -> Result<Membership> {
    // The last rank may be minutes late: strangers must not fill the kernel's queue of this rank's listener
    // meanwhile.
    transport::Meanwhile meanwhile{{}, [this] { return acceptor_->attend(), acceptor_->nextDeadline(); }};
    ECCL_TRY(logged(meanwhile.poller.open(system())));
    ECCL_TRY(logged(meanwhile.poller.watch(acceptor_->fd(), EPOLLIN, 0)));
    transport::Wait wait = initWait();
    wait.meanwhile = &meanwhile;
    ECCL_ASSIGN(auto parent, transport::rendezvous(id, {rank, ranks, mine}, wait));
    return Membership{rank, ranks, parent};
  });
}

std::string Communicator::splitPart(int color, int key, std::string_view endpoint) {
  return transport::ByteWriter()
      .put(static_cast<int32_t>(color))
      .put(static_cast<int32_t>(key))
      .text(endpoint)
      .take();
}

Status Communicator::abstain(uint64_t number) {
  return logged(control_->allGather(number, splitPart(kNoColor, 0, ""), initWait()).status());
}

/// As long as a child is made, its parent's abort() is its own, too.
class Communicator::Making {
 public:
  Making(Communicator& parent, Communicator& child) : parent_(parent), child_(child) {
    std::lock_guard lock(parent_.splitting_);
    parent_.children_.push_back(&child_);
    if (parent_.abort_.load(std::memory_order_acquire)) child_.abort();
  }
  ~Making() {
    std::lock_guard lock(parent_.splitting_);
    std::erase(parent_.children_, &child_);
  }
  Making(const Making&) = delete;

 private:
  Communicator &parent_, &child_;
};

Status Communicator::split(Communicator& parent, uint64_t number, int color, int key) {
  const Making making(parent, *this);
  // Nobody outside the parent can know these; no rank has to send them.
  const std::string seed =
      transport::ByteWriter().put(parent.id_).put(number).put(static_cast<int32_t>(color)).take();
  transport::Secret secret;
  secret.bytes = parent.secret_.mac("eccl split secret" + seed);
  secret.encrypts = options_.settings.encrypt;
  transport::Tag name = parent.secret_.mac("eccl split name" + seed);
  uint64_t id;
  std::memcpy(&id, name.data(), sizeof id);
  return establish(id, secret, [&](const transport::Endpoint& mine) -> Result<Membership> {
    ECCL_ASSIGN(const transport::Parts told,
                parent.control_->allGather(number, splitPart(color, key, mine.encode()), initWait()));
    const std::vector<std::string> parts = told.list();
    struct Member {
      int32_t key;
      int oldRank;
      transport::Endpoint endpoint;
    };
    std::vector<Member> members;
    for (size_t old = 0; old < parts.size(); ++old) {
      transport::ByteReader reader(parts[old]);
      auto itsColor = reader.get<int32_t>();
      auto itsKey = reader.get<int32_t>();
      std::string_view bytes = reader.text(4096);
      if (!reader.finished()) {
        return logged(Status::error(
            Code::remote, "ecclCommSplit: %s sent a malformed answer; all ranks need the same version of ECCL",
            parent.describe(static_cast<int>(old)).c_str()));
      }
      if (itsColor != color) continue;
      ECCL_ASSIGN(transport::Endpoint endpoint, transport::Endpoint::decode(bytes));
      members.push_back({itsKey, static_cast<int>(old), std::move(endpoint)});
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    Membership membership;
    membership.ranks = static_cast<int>(members.size());
    std::vector<int> oldRanks;
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i].oldRank == parent.rank_) membership.rank = static_cast<int>(i);
      oldRanks.push_back(members[i].oldRank);
    }
    hosts_ = RankHosts::inCommonOf(parent.hosts_, oldRanks);
    if (membership.rank > 0)
      membership.parent = members[static_cast<size_t>(transport::treeParent(membership.rank))].endpoint;
    return membership;
  });
}

Status Communicator::openEngine() {
  const Settings& settings = options_.settings;
  transport::ConnectorOptions options;
  options.system = &system();
  options.communicator = id_;
  options.secret = secret_;
  options.rank = rank_;
  options.identity = acceptor_->endpoint().identity;
  options.connectLimit = initLimit();
  options.socketsPerRail = static_cast<int>(settings.socketsPerRail);
  options.crossRail = settings.crossRail != 0;
  options.placeUnseen = settings.placeFlows > 1;
  if (settings.placeFlows != 0 && ranks_ > 1) {
    options.tellFlows = [this](int target, const std::string& message) {
      const Status status =
          target < 0 ? control_->flood(kFlows, message) : control_->send(target, kFlows, message);
      status.ignore();  // a rank that cannot be reached is lost, which is told
    };
  }
  ECCL_ASSIGN(options.transports, logged(transport::chooseTransports(settings)));
  options.allowDirect = !settings.p2pDisable;
  options.singleCopy = settings.singleCopy;
  options.slotStreaming = settings.slotStreaming;
  options.describe = [this](int rank) { return describe(rank); };
  options.setting = [this](std::string_view name) { return options_.settings.valueOf(name); };
  options.endpoint = [this](int rank) -> const transport::Endpoint& {
    return met_->endpoints[static_cast<size_t>(rank)];
  };
  return engine_.open(std::move(options));
}

Status Communicator::exchange(InitTimes& times, const Status& executors) {
  const Settings& settings = options_.settings;
  const std::string wireText =
      settings.wireText() + format("config.channels=%d..%d\n", options_.minChannels, options_.maxChannels);
  const bool child = hosts_ != nullptr;
  const std::string gpu = device() != nullptr ? device()->pciAddress() : "";
  const RankHosts::Introduction mine =
      child ? RankHosts::Introduction() : RankHosts::introduce(settings, rank_, gpu);
  transport::Endpoint own = acceptor_->endpoint();
  if (const auto host = localHost(settings); host.ok()) {
    transport::weighRails(own.rails, transport::interfaceOptions(settings),
                          [&](const std::string& interface) { return megabitsOf((*host)->host, interface); });
    // First sockets go over rails, too.
    std::stable_partition(own.addresses.begin(), own.addresses.end(), [&](const auto& address) {
      return transport::findAt(own.rails, address) != nullptr;
    });
  }
  times.passed("own host");
  Result<std::string> ownDevice = std::string();
  if (!executors.ok())
    ownDevice = executors;
  else if (device() != nullptr && settings.cudaLanes)
    ownDevice = logged(device()->introduce(id_, rank_, ranks_));
  const auto tellAll = [this](std::string_view own) {
    auto parts = control_->allGather(own, initWait());
    return state() == State::failed ? parts : logged(std::move(parts));  // a failure has been logged
  };
  const auto gather = [&](std::string_view own) -> Result<std::vector<std::string>> {
    ECCL_ASSIGN(const transport::Parts parts, tellAll(own));
    return parts.list();
  };
  const Result<transport::Parts> parts = tellAll(Introductions::write(own, wireText, mine.text, ownDevice));
  ECCL_TRY(ownDevice.status());
  ECCL_TRY(parts.status());
  times.passed("introductions");
  ECCL_ASSIGN(met_, Introductions::read(*parts, rank_));
  introduced_.store(true, std::memory_order_release);
  ECCL_TRY(logged(met_->settings));
  if (met_->unable >= 0) {
    return logged(Status::error(Code::remote, "%s cannot take part in this communicator: %s",
                                describe(met_->unable).c_str(), met_->whyUnable.c_str()));
  }
  if (!child) {
    const auto describeRank = [this](int rank) { return describe(rank); };
    ECCL_ASSIGN(hosts_, RankHosts::meetInCommon(met_, mine.host, rank_, gather, describeRank));
  }
  const Placement& where = hosts_->placement();
  engine_.setNearPorts(hosts_->portsOf(rank_));
  ECCL_INFO("%s is here: %s", describe(rank_).c_str(), hosts_->location(rank_).text().c_str());
  times.passed("hosts");
  if (device() != nullptr) {
    if (const Status status = device()->meet(meeting(gather)); !status.ok()) {
      onDriverFailed(status);  // says so to all, unless another rank has been first
      return asyncStatus();
    }
  }
  // Where ranks are must make no difference to what is deterministic.
  auto placement = settings.deterministic ? std::make_shared<const Placement>(Placement::hosts(ranks_))
                                          : std::shared_ptr<const Placement>(hosts_, &where);
  ECCL_ASSIGN(selection_, Selection::agree(settings, rank_, std::move(placement), gather));
  times.passed("table");
  const RingShape ring{static_cast<uint32_t>(settings.slots), static_cast<uint32_t>(algorithms::slotBytesFor(
                                                                  settings.slotBytes, *selection_.placement))};
  shareMachine(where, ring);
  PlanContext context;
  context.rank = rank_;
  context.ranks = ranks_;
  context.placement = selection_.placement;
  context.ring = ring;
  ECCL_ASSIGN(context.selection, logged(algorithms::parseSelection(settings.algo)));
  context.selection.rules = selection_.rules;
  context.channels = static_cast<int>(settings.channels);
  context.minChannels = options_.minChannels;
  context.maxChannels = options_.maxChannels;
  // Up to here a proof takes milliseconds; beyond, every schedule is proved by the test suite.
  constexpr int kVerifiedRanks = 16;
  context.verify = settings.verify == "always" || (settings.verify != "never" && ranks_ <= kVerifiedRanks);
  planner_ = std::make_unique<Planner>(std::move(context));
  return {};
}

Meeting Communicator::meeting(const RankHosts::Gather& gather) {
  Meeting meeting;
  meeting.rank = rank_;
  meeting.introductions = met_->devices;
  meeting.gather = gather;
  meeting.tell = [this](int rank, std::string_view message) {
    control_->send(rank, kDevice, message).ignore();  // a rank that cannot be reached is lost, which is told
  };
  meeting.waits = [this](Work& work, Duration waited, int rank) {
    diagnosis_.onStall(static_cast<Run&>(work), waited, {{rank}, {}});
  };
  meeting.fetch = [this](int rank, const transport::DescriptorName& name) {
    // The rank's service thread answers, unless its process is stopped: then the control tree ends the wait.
    const Duration limit = std::max<Duration>(90s, hostLimit() + 30s);
    auto descriptor = transport::fetchDescriptor(
        {met_->endpoints[static_cast<size_t>(rank)], secret_, id_, rank_, describe(rank)}, name,
        transport::Wait::within(limit, &broken_, system()));
    if (!descriptor.ok() && state() == State::failed) return Result<transport::Fd>(asyncStatus());
    return descriptor;
  };
  meeting.hasLeft = [this](int rank) { return diagnosis_.hasLeft(rank); };
  meeting.showsMemory = !options_.settings.p2pDisable;
  meeting.relays = static_cast<Relays>(options_.settings.cudaRelay);
  meeting.dmabufs = options_.settings.dmabuf;
  meeting.failure = [this] { return state() == State::failed ? asyncStatus() : Status(); };
  meeting.describe = [this](int rank) { return describe(rank); };
  return meeting;
}

void Communicator::shareMachine(const Placement& where, const RingShape& ring) {
  static const topology::CpuCaches cache = topology::cpuCaches();
  const Settings& settings = options_.settings;
  const int machine = where.machine[static_cast<size_t>(rank_)];
  // As if the ranks were spread over the caches evenly.
  const double caches = std::max(1.0, static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)) / cache.sharers);
  const auto share = static_cast<uint64_t>(static_cast<double>(cache.largest) /
                                           std::max(1.0, where.ranksOf(machine) / caches));
  if (share > 0) engine_.setCacheShare(share);
  // Looking without yielding is free while every rank on this machine has a core to itself. Then, too, the
  // peers' caches are others than this rank's.
  constexpr Duration kAlone = std::chrono::microseconds(50);
  const bool alone = !where.oversubscribed(machine);
  if (alone && settings.spinMicroseconds < 0) engine_.setSpin(kAlone);
  // What long messages go round in. In one place they take less near, but more between cores without a common
  // cache: half a round trip of 16 KiB 1.09 us and 2.9, in 128 KiB 1.19 and 2.7, in 2 MiB 1.30 and 2.5 (one
  // run, AMD EPYC, family 25 model 17, 2026-11-29).
  constexpr uint64_t kSlotSpread = 128 << 10;
  const uint64_t spread = settings.slotSpread >= 0 ? static_cast<uint64_t>(settings.slotSpread)
                          : alone                  ? kSlotSpread
                                                   : 0;
  ECCL_INFO("%s: %s; long messages on this host go round in %llu KiB of shared memory", describe(rank_).c_str(),
            alone ? "no core is shared" : "ranks share cores", static_cast<unsigned long long>(spread >> 10));
  engine_.setRings(ring, alone ? kDirectFrom : kOversubscribedDirectFrom, spread);
}

void Communicator::onIncoming(transport::Incoming incoming) {
  if (incoming.hello.communicator != id_) {
    ECCL_WARN("%s: dropped a connection of another communicator from %s", describe(rank_).c_str(),
              incoming.peer.c_str());
  } else if (incoming.hello.purpose == transport::Purpose::control) {
    control_->adopt(std::move(incoming));
  } else if (incoming.hello.purpose == transport::Purpose::data) {
    engine_.adopt(std::move(incoming));
  } else if (incoming.hello.purpose == transport::Purpose::memory) {
    const auto name = transport::namedBy(incoming);
    transport::answerWith(incoming,
                          device() != nullptr && name
                              ? device()->descriptorOf(*name)
                              : Status::error(Code::invalidArgument, "it lends no memory to that caller"));
  }
}

}  // namespace eccl::runtime
