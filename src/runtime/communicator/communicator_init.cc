// How a communicator comes to be: by unique id, or by splitting another.

#include <unistd.h>

#include <algorithm>

#include "algorithms/cost/simulate.h"
#include "base/log.h"
#include "runtime/communicator/communicator.h"
#include "topology/probe/host_summary.h"
#include "transport/net/bytes.h"
#include "transport/net/descriptors.h"
#include "transport/registry/registry.h"

namespace eccl::runtime {
namespace {

constexpr uint32_t kProtocol = 10;  // of what ranks tell each other when they meet

/// "ECCL_ALGO=ring\nECCL_SLOTS=8\n" → line of that name in another text, for messages.
std::string lineOf(const std::string& text, const std::string& name) {
  size_t at = ("\n" + text).find("\n" + name + "=");
  return at == std::string::npos ? name + " unset" : text.substr(at, text.find('\n', at) - at);
}

}  // namespace

template <class FindMembership>
Status Communicator::establish(uint64_t id, const transport::Secret& secret, FindMembership&& findMembership) {
  id_ = id;
  secret_ = secret;
  transport::Acceptor::Options acceptorOptions;
  acceptorOptions.system = &system();
  acceptorOptions.interfaces = transport::interfaceOptions(options_.settings);
  ECCL_ASSIGN(acceptor_,
              transport::Acceptor::open(secret, acceptorOptions, [this](transport::Incoming incoming) {
                onIncoming(std::move(incoming));
              }));
  ECCL_ASSIGN(Membership membership, findMembership(acceptor_->endpoint()));
  rank_ = membership.rank;
  ranks_ = membership.ranks;
  diagnosis_.begin(rank_, ranks_);
  transport::Control::Options controlOptions;
  controlOptions.system = &system();
  controlOptions.hostLimit = Duration(static_cast<int64_t>(options_.settings.heartbeatTimeout * 1e9));
  controlOptions.silenceLimit = std::max(controlOptions.silenceLimit, controlOptions.hostLimit);
  control_ = std::make_unique<transport::Control>(id_, secret_, rank_, ranks_, controlOptions, this);
  ECCL_TRY(control_->open());
  ECCL_TRY(openEngine());
  ECCL_TRY(service_.start(
      system(), *acceptor_, *control_, engine_, [this] { diagnosis_.tick(); },
      [this](const Status& why) { onDriverFailed(why); }));
  running_.store(true);
  if (state_.load() == State::failed) engine_.fail(asyncStatus());
  ECCL_TRY(control_->connect(membership.parent, initWait()));
  ECCL_TRY(exchange());
  if (!options_.settings.connectionsDump.empty()) readySince_ = system().now();
  State expected = State::initialising;
  state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel);
  ECCL_INFO("communicator %016llx%s%s: %s of %d is ready", static_cast<unsigned long long>(id_),
            options_.name.empty() ? "" : " ", options_.name.c_str(), describe(rank_).c_str(), ranks_);
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
    const std::function<void()> attend = [this] { acceptor_->attend(); };
    transport::Wait wait = initWait();
    wait.meanwhile = &attend;
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

Status Communicator::split(Communicator& parent, uint64_t number, int color, int key) {
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
    ECCL_ASSIGN(auto parts,
                parent.control_->allGather(number, splitPart(color, key, mine.encode()), initWait()));
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
    hosts_ = parent.hosts_.of(oldRanks);
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
  options.ring = {static_cast<uint32_t>(settings.slots), static_cast<uint32_t>(settings.slotBytes)};
  options.connectLimit = initLimit();
  options.socketsPerRail = static_cast<int>(settings.socketsPerRail);
  options.crossRail = settings.crossRail != 0;
  if (settings.placeFlows != 0 && ranks_ > 1) {
    options.tellFlows = [this](int target, const std::string& message) {
      const Status status =
          target < 0 ? control_->flood(kFlows, message) : control_->send(target, kFlows, message);
      status.ignore();  // a rank that cannot be reached is lost, which is told
    };
  }
  ECCL_ASSIGN(options.transports, logged(transport::chooseTransports(settings)));
  options.allowDirect = !settings.p2pDisable;
  options.describe = [this](int rank) { return describe(rank); };
  options.endpoint = [this](int rank) -> const transport::Endpoint& {
    return endpoints_[static_cast<size_t>(rank)];
  };
  return engine_.open(std::move(options), options_.device);
}

Status Communicator::exchange() {
  const Settings& settings = options_.settings;
  wireText_ =
      settings.wireText() + format("config.channels=%d..%d\n", options_.minChannels, options_.maxChannels);
  const bool child = !hosts_.empty();
  const RankHosts::Introduction mine =
      child ? RankHosts::Introduction() : RankHosts::introduce(settings, rank_);
  transport::Endpoint own = acceptor_->endpoint();
  if (const auto host = localHost(settings); host.ok()) {
    transport::weighRails(own.rails, transport::interfaceOptions(settings),
                          [&](const std::string& interface) { return megabitsOf((*host)->host, interface); });
    // First sockets go over rails, too.
    std::stable_partition(own.addresses.begin(), own.addresses.end(), [&](const auto& address) {
      return transport::findAt(own.rails, address) != nullptr;
    });
  }
  std::string part =
      transport::ByteWriter().put(kProtocol).text(own.encode()).text(wireText_).text(mine.text).take();
  const auto gather = [this](std::string_view own) {
    auto parts = control_->allGather(own, initWait());
    return state() == State::failed ? parts : logged(std::move(parts));  // a failure has been logged
  };
  ECCL_ASSIGN(auto parts, gather(part));
  std::vector<transport::Endpoint> endpoints;
  std::vector<std::string> wires, introductions;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    transport::ByteReader reader(parts[rank]);
    auto protocol = reader.get<uint32_t>();
    if (protocol != kProtocol) {
      return logged(Status::error(Code::invalidUsage,
                                  "rank %zu speaks protocol %u and rank %d protocol %u: all ranks need the "
                                  "same version of ECCL",
                                  rank, protocol, rank_, kProtocol));
    }
    std::string endpointBytes(reader.text(4096));
    wires.emplace_back(reader.text(1 << 16));
    introductions.emplace_back(reader.text(RankHosts::kMaxIntroduction));
    if (!reader.finished())
      return logged(Status::error(
          Code::remote, "rank %zu sent a malformed introduction; all ranks need the same version of ECCL",
          rank));
    ECCL_ASSIGN(transport::Endpoint endpoint, transport::Endpoint::decode(endpointBytes));
    endpoints.push_back(std::move(endpoint));
  }
  endpoints_ = std::move(endpoints);
  met_.store(true, std::memory_order_release);
  ECCL_TRY(compareSettings(wires));
  if (!child) {
    const auto describeRank = [this](int rank) { return describe(rank); };
    ECCL_ASSIGN(hosts_, RankHosts::meet(introductions, endpoints_, mine.host, rank_, gather, describeRank));
  }
  const Placement where = placement();
  ECCL_INFO("%s is here: %s", describe(rank_).c_str(),
            hosts_.locations()[static_cast<size_t>(rank_)].text().c_str());
  // Where ranks are must make no difference to what is deterministic.
  ECCL_ASSIGN(selection_, Selection::agree(settings, rank_,
                                           settings.deterministic ? Placement::hosts(ranks_) : where, gather));
  choosePace(where);
  shareCache(where);
  PlanContext context;
  context.rank = rank_;
  context.ranks = ranks_;
  context.placement = selection_.placement;
  context.ring = {static_cast<uint32_t>(settings.slots), static_cast<uint32_t>(settings.slotBytes)};
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

/// Looking without yielding is free while every rank on this machine has a core to itself.
void Communicator::choosePace(const Placement& where) {
  constexpr Duration kAlone = std::chrono::microseconds(50);
  const bool alone = !where.oversubscribed(where.machine[static_cast<size_t>(rank_)]);
  if (!alone) engine_.setDirectFrom(kOversubscribedDirectFrom);
  if (alone && options_.settings.spinMicroseconds < 0) engine_.setSpin(kAlone);
}

/// As if the ranks were spread over the caches evenly.
void Communicator::shareCache(const Placement& where) {
  static const topology::SharedCache cache = topology::largestCache();
  if (cache.bytes == 0) return;
  const int here = where.ranksOf(where.machine[static_cast<size_t>(rank_)]);
  const double caches = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)) / cache.cpus;
  engine_.setCacheShare(static_cast<size_t>(static_cast<double>(cache.bytes) / std::max(1.0, here / caches)));
}

/// All ranks come to the same verdict, each from the same texts.
Status Communicator::compareSettings(const std::vector<std::string>& wires) const {
  for (size_t begin = 0; begin < wires[0].size();) {
    size_t end = wires[0].find('\n', begin);
    std::string name = wires[0].substr(begin, wires[0].find('=', begin) - begin);
    std::string first = lineOf(wires[0], name);
    std::map<std::string, std::vector<int>> others;
    for (size_t rank = 1; rank < wires.size(); ++rank) {
      std::string line = lineOf(wires[rank], name);
      if (line != first) others[line].push_back(static_cast<int>(rank));
    }
    if (!others.empty()) {
      std::string text;
      for (auto& [line, ranks] : others)
        text += format("; %s on %s", line.c_str(), transport::nameRanks(ranks).c_str());
      return logged(Status::error(Code::invalidUsage,
                                  "ranks disagree about a setting that must be the same everywhere: %s on "
                                  "rank 0%s",
                                  first.c_str(), text.c_str()));
    }
    begin = end + 1;
  }
  return {};
}

void Communicator::onIncoming(transport::Incoming incoming) {
  if (incoming.hello.communicator != id_) {
    ECCL_WARN("%s: dropped a connection of another communicator from %s", describe(rank_).c_str(),
              incoming.peer.c_str());
  } else if (incoming.hello.purpose == transport::Purpose::control) {
    control_->adopt(std::move(incoming));
  } else if (incoming.hello.purpose == transport::Purpose::data) {
    engine_.adopt(std::move(incoming));
  }
}

}  // namespace eccl::runtime
