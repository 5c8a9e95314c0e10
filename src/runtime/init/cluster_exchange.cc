// Introductions as bytes, and what follows from all of them: hosts, machines, cores and ports.
#include "runtime/init/cluster_exchange.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/log.h"
#include "topology/formats/host_json.h"
#include "topology/model/locations.h"
#include "topology/probe/host_summary.h"
#include "transport/bootstrap/control.h"
#include "transport/net/bytes.h"
#include "transport/net/interfaces.h"
#include "transport/registry/registry.h"

namespace eccl::runtime {
namespace {

using Fingerprint = std::array<uint8_t, 16>;
using Made = std::shared_ptr<const topology::Host>;

constexpr size_t kMaxErrorText = 4096;  // of an error that a rank tells of itself
constexpr size_t kMaxName = 256;        // bytes of a network namespace's name

/// The cores that the calling thread may use, a bit each.
std::string allowedCores() {
  std::string bits(topology::kMaxCores / 8, '\0');
  if (sched_getaffinity(0, bits.size(), reinterpret_cast<cpu_set_t*>(bits.data())) != 0) bits.clear();
  bits.resize(bits.find_last_not_of('\0') + 1);
  return bits;
}

/// "net:[4026531840]": which network namespace this is.
std::string networkNamespace() {
  char name[64];
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof name);
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : "process " + std::to_string(getpid());
}

/// With whom a rank may share memory.
enum class Reach : uint8_t { nobody, process, host };

Reach reachOf(const Settings& settings) {
  return transport::allows(settings, "shm")      ? Reach::host
         : transport::allows(settings, "thread") ? Reach::process
                                                 : Reach::nobody;
}

/// Rails that connections are spread over, as the one port that they are to each message. Speed 0: not all are
/// known.
NetworkPort together(const std::vector<transport::Rail>& rails, const std::string& hostName) {
  NetworkPort port{hostName + '/'};
  bool known = true;
  for (const transport::Rail& rail : rails) {
    port.name += (&rail == &rails[0] ? "" : "+") + rail.interface;
    port.gigabytes += rail.megabits / 8e3;
    known = known && rail.megabits > 0;
  }
  if (!known) port.gigabytes = 0;
  return port;
}

/// All that decides which ports a rank has.
std::string namesOf(const std::vector<transport::Rail>& rails) {
  std::string names;
  for (const transport::Rail& rail : rails) names += format("%s %u ", rail.interface.c_str(), rail.megabits);
  return names;
}

struct Said {
  std::string error;  // why it cannot say the rest
  bool fromFile = false, speaksJson = false;
  Fingerprint fingerprint{};
  std::vector<bool> cores;
  int32_t quota = 0;
  Reach reach = Reach::nobody;
  std::string network;
};

/// What another wrote, for a log.
std::string printable(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return shown;
}

std::optional<Said> read(std::string_view bytes) {
  transport::ByteReader reader(bytes);
  Said said;
  said.error = printable(reader.text(kMaxErrorText));
  said.fromFile = reader.get<uint8_t>() != 0;
  said.speaksJson = reader.get<uint8_t>() != 0;
  said.fingerprint = reader.get<Fingerprint>();
  for (unsigned char byte : reader.text(topology::kMaxCores / 8)) {
    for (int bit = 0; bit < 8; ++bit) said.cores.push_back((byte >> bit & 1) != 0);
  }
  said.quota = reader.get<int32_t>();
  said.reach = static_cast<Reach>(reader.get<uint8_t>());
  said.network = printable(reader.text(kMaxName));
  if (!reader.finished() || said.quota < 0 || said.reach > Reach::host) return std::nullopt;
  return said;
}

/// What a rank that speaks for those alike sends: why it cannot, or the host.
std::string tale(const topology::Host& host) {
  Result<std::string> json = topology::toJson(topology::withoutIdentity(host), topology::kOneLine);
  if (json.ok() && json->size() + kMaxErrorText > transport::Control::kMaxPart)
    json = Status::error(Code::invalidUsage, "its host has too many devices (%zu) to tell others of",
                         host.devices.size());
  return transport::ByteWriter()
      .text(json.ok() ? "" : json.status().message())
      .text(json.ok() ? *json : "")
      .take();
}

Result<Made> madeOf(std::string_view bytes, const std::string& who) {
  transport::ByteReader reader(bytes);
  const std::string error = printable(reader.text(kMaxErrorText));
  const std::string_view json = reader.text(transport::Control::kMaxPart);
  if (!reader.finished())
    return Status::error(Code::remote, "%s said of its host something unreadable", who.c_str());
  if (!error.empty()) return Status::error(Code::remote, "%s: %s", who.c_str(), error.c_str());
  Result<topology::Host> host = topology::parseHostJson(json, "what " + who + " said of its host");
  if (!host.ok()) return Status::error(Code::remote, "%s", printable(host.status().message()).c_str());
  if (host->all(topology::DeviceKind::cpu).empty())
    return Status::error(Code::remote, "%s said of its host that it has no CPU", who.c_str());
  return std::make_shared<const topology::Host>(host.take());
}

}  // namespace

RankHosts::Introduction RankHosts::introduce(const Settings& settings, int rank) {
  const Result<std::shared_ptr<const LocalHost>> found = localHost(settings);
  Introduction mine;
  if (found.ok()) {
    mine.host = *found;
    dumpHost(mine.host->host, settings, rank);
  }
  mine.text = transport::ByteWriter()
                  .text(found.status().message().substr(0, kMaxErrorText))
                  .put(static_cast<uint8_t>(!settings.topoFile.empty()))
                  .put(static_cast<uint8_t>(topology::haveJson()))
                  .put(found.ok() ? mine.host->fingerprint : Fingerprint{})
                  .text(allowedCores())
                  .put(static_cast<int32_t>(std::min(std::ceil(topology::cpuQuota()), 1e9)))
                  .put(static_cast<uint8_t>(reachOf(settings)))
                  .text(networkNamespace())
                  .take();
  return mine;
}

Result<RankHosts> RankHosts::meet(const std::vector<std::string>& introductions,
                                  std::span<const transport::Endpoint> endpoints,
                                  const std::shared_ptr<const LocalHost>& own, int rank, const Gather& gather,
                                  const Describe& describe) {
  RankHosts met;
  std::map<std::pair<std::string, Fingerprint>, int> hostBy;
  std::set<Fingerprint> kinds;
  std::map<Fingerprint, int> teller;  // of the kinds that hosts are of
  std::vector<Fingerprint> kindOf;    // by host
  int withoutJson = -1;
  for (size_t r = 0; r < introductions.size(); ++r) {
    const int sender = static_cast<int>(r);
    std::optional<Said> said = read(introductions[r]);
    if (!said)
      return logged(
          Status::error(Code::remote, "%s said of its host something unreadable", describe(sender).c_str()));
    if (!said->error.empty())
      return logged(Status::error(Code::invalidUsage, "%s does not know what its host is made of: %s",
                                  describe(sender).c_str(), said->error.c_str()));
    if (!said->speaksJson && withoutJson < 0) withoutJson = sender;
    // Two looks at one machine may differ, as links train down when idle: what its first rank saw counts for
    // all. But what is said to be different hosts is.
    const transport::Endpoint& endpoint = endpoints[r];
    const std::string machine = endpoint.bootId == decltype(endpoint.bootId){}
                                    ? endpoint.host
                                    : std::string(endpoint.bootId.begin(), endpoint.bootId.end());
    const std::string system = machine + '\n' + said->network + '\n' + endpoint.host;
    const auto [host, isNew] = hostBy.try_emplace({system, said->fromFile ? said->fingerprint : Fingerprint{}},
                                                  static_cast<int>(met.hosts_.size()));
    if (isNew) {
      met.hosts_.push_back({endpoint.host, said->fromFile, nullptr});
      kindOf.push_back(said->fingerprint);
      teller.emplace(said->fingerprint, sender);
    }
    kinds.insert(said->fingerprint);
    const std::string memory = said->reach == Reach::host      ? system
                               : said->reach == Reach::process ? system + '\n' + std::to_string(endpoint.pid)
                                                               : "";
    met.ranks_.push_back(
        {host->second, machine, memory, endpoint.rails, std::move(said->cores), said->quota});
  }
  std::map<Fingerprint, Made> made;
  if (kinds.size() == 1) {
    made[*kinds.begin()] = Made(own, &own->host);
  } else if (withoutJson >= 0) {
    met.unknown_ = Status::error(Code::invalidUsage,
                                 "the hosts of this communicator differ, and %s cannot tell or hear how: its "
                                 "build of ECCL has no JSON. Install "
                                 "nlohmann-json3-dev and build it again",
                                 describe(withoutJson).c_str());
    ECCL_INFO("%s", met.unknown_.message().c_str());
  } else {
    const bool mine =
        std::any_of(teller.begin(), teller.end(), [&](const auto& each) { return each.second == rank; });
    ECCL_ASSIGN(const auto tales, gather(mine ? tale(own->host) : ""));
    for (const auto& [kind, sender] : teller) {
      ECCL_ASSIGN(made[kind], logged(madeOf(tales[static_cast<size_t>(sender)], describe(sender))));
    }
  }
  for (size_t h = 0; h < kindOf.size(); ++h) met.hosts_[h].made = made[kindOf[h]];
  met.arrange();
  return met;
}

RankHosts RankHosts::of(std::span<const int> ranks) const {
  RankHosts some;
  some.unknown_ = unknown_;
  std::map<int, int> newNumber;
  for (int rank : ranks) {
    Rank member = ranks_[static_cast<size_t>(rank)];
    const auto [number, isNew] = newNumber.try_emplace(member.host, static_cast<int>(some.hosts_.size()));
    if (isNew) {
      const PlaceOfRanks& host = hosts_[static_cast<size_t>(member.host)];
      some.hosts_.push_back(host);
    }
    member.host = number->second;
    some.ranks_.push_back(std::move(member));
  }
  some.arrange();
  return some;
}

/// By name of the machine.
std::map<std::string, double> RankHosts::coresOfMachines() const {
  struct Sum {
    std::vector<bool> cores;
    std::map<int, int> quotas;  // by host, as each has a cgroup
    bool limited = true;
  };
  std::map<std::string, Sum> sums;
  for (const Rank& rank : ranks_) {
    Sum& sum = sums[rank.machine];
    if (sum.cores.size() < rank.cores.size()) sum.cores.resize(rank.cores.size());
    for (size_t i = 0; i < rank.cores.size(); ++i) sum.cores[i] = sum.cores[i] || rank.cores[i];
    sum.limited = sum.limited && rank.quota > 0;
    int& quota = sum.quotas[rank.host];
    quota = std::max(quota, rank.quota);
  }
  std::map<std::string, double> cores;
  for (const auto& [machine, sum] : sums) {
    double quota = 0;
    for (const auto& [host, its] : sum.quotas) quota += sum.limited ? its : 0;
    cores[machine] =
        topology::usableCores(static_cast<int>(std::count(sum.cores.begin(), sum.cores.end(), true)), quota);
  }
  return cores;
}

std::vector<NetworkPort> RankHosts::portsFor(const Rank& rank, int cpu, const std::string& hostName) const {
  const PlaceOfRanks& host = hosts_[static_cast<size_t>(rank.host)];
  const NetworkPort told = together(rank.rails, hostName);
  if (host.made == nullptr) return {told};
  int used = rank.rails.empty() ? topology::Device::kNone
                                : topology::portOfInterface(*host.made, rank.rails[0].interface);
  if (used == topology::Device::kNone && host.fromFile) used = topology::fastestPort(*host.made);
  std::vector<int> near = topology::portsNear(*host.made, cpu);
  std::stable_partition(near.begin(), near.end(), [&](int port) { return port == used; });
  std::vector<NetworkPort> ports = topology::networkPorts(*host.made, near, hostName);
  if (used == topology::Device::kNone) {
    ports.insert(ports.begin(), told);
  } else if (rank.rails.size() > 1 && told.gigabytes > 0) {
    ports.insert(ports.begin(), told);
    ports[0].microseconds = ports[1].microseconds;
  }
  return ports;
}

/// What follows from who is where.
void RankHosts::arrange() {
  std::set<std::string> names;
  for (const PlaceOfRanks& host : hosts_) {
    const std::string base = host.name.empty() ? "host" : host.name;
    std::string name = base;
    for (int n = 2; !names.insert(name).second; ++n) name = base + format("#%d", n);
    hostNames_.push_back(name);
  }
  const std::map<std::string, double> cores = coresOfMachines();
  std::map<std::tuple<int, int, std::string>, std::vector<NetworkPort>> portsOf;  // by host, CPU and interfaces
  std::vector<size_t> turn(hosts_.size());
  for (const Rank& rank : ranks_) {
    RankLocation& location = locations_.emplace_back();
    location.machine = rank.machine;
    location.host = hostNames_[static_cast<size_t>(rank.host)];
    location.memory = rank.memory;
    cpus_.push_back(topology::Device::kNone);
    if (const auto& made = hosts_[static_cast<size_t>(rank.host)].made; made != nullptr) {
      const std::vector<int> all = made->all(topology::DeviceKind::cpu);
      std::vector<int> near;
      for (int cpu : all) {
        const std::vector<int>& cores = made->devices[static_cast<size_t>(cpu)].cpu->cores;
        if (std::any_of(cores.begin(), cores.end(), [&](int core) {
              return static_cast<size_t>(core) < rank.cores.size() && rank.cores[static_cast<size_t>(core)];
            }))
          near.push_back(cpu);
      }
      if (near.size() == 1) location.numaNode = topology::numaNodeOf(*made, near[0]);
      if (near.empty()) near = all;  // the file's cores are not this machine's
      size_t& next = turn[static_cast<size_t>(rank.host)];
      cpus_.back() = near[near.size() == 1 ? 0 : next++ % near.size()];
    }
    const auto [ports, isNew] =
        portsOf.try_emplace({rank.host, cpus_.back(), namesOf(rank.rails)});
    if (isNew) ports->second = portsFor(rank, cpus_.back(), location.host);
    location.ports = ports->second;
    location.cores = cores.at(rank.machine);
  }
}

Result<topology::Cluster> RankHosts::cluster() const {
  std::vector<topology::Host> made;
  topology::Cluster cluster;
  for (size_t h = 0; h < hosts_.size(); ++h) {
    if (hosts_[h].made == nullptr) return unknown_;
    made.push_back(*hosts_[h].made);
    made.back().name = hosts_[h].name;
    cluster.hosts.push_back({hostNames_[h]});
  }
  topology::MergedHosts merged = topology::mergeHosts(made);
  cluster.types = std::move(merged.types);
  for (size_t h = 0; h < cluster.hosts.size(); ++h) cluster.hosts[h].type = merged.typeOf[h];
  for (size_t rank = 0; rank < ranks_.size(); ++rank) cluster.ranks.push_back({ranks_[rank].host, cpus_[rank]});
  return cluster;
}

}  // namespace eccl::runtime
