// Introductions as bytes, and who is alike by them.
#include "runtime/init/cluster_exchange.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "base/in_common.h"
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
constexpr size_t kMaxPciAddress = 32;

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

}  // namespace

bool usesUcx(const Settings& settings) {
  return transport::prefersOverNetwork(settings, "ucx") && !settings.encrypt;
}

namespace {

bool usesRdma(const topology::Host& host, const Settings& settings) {
  const std::vector<int> ports = topology::portsNear(host, 0);
  // Encryption is for sockets alone.
  return transport::prefersOverNetwork(settings, "verbs") && !settings.encrypt &&
         std::any_of(ports.begin(), ports.end(),
                     [&](int port) { return topology::isRdma(host.devices[static_cast<size_t>(port)]); });
}

struct Said {
  std::string error;  // why it cannot say the rest
  bool fromFile = false, speaksJson = false;
  Fingerprint fingerprint{};
  std::vector<bool> cores;
  int32_t quota = 0;
  Reach reach = Reach::nobody;
  bool rdma = false, ucx = false;
  std::string network, gpu;
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
  said.rdma = reader.get<uint8_t>() != 0;
  said.ucx = reader.get<uint8_t>() != 0;
  said.network = printable(reader.text(kMaxName));
  said.gpu = reader.text(kMaxPciAddress);
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

RankHosts::Introduction RankHosts::introduce(const Settings& settings, int rank, const std::string& gpu) {
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
                  .put(static_cast<uint8_t>(found.ok() && usesRdma((*found)->host, settings)))
                  .put(static_cast<uint8_t>(usesUcx(settings)))
                  .text(networkNamespace())
                  .text(gpu.substr(0, kMaxPciAddress))
                  .take();
  return mine;
}

Result<RankHosts> RankHosts::meet(const std::vector<std::string>& introductions,
                                  std::span<const transport::Endpoint> endpoints,
                                  const std::shared_ptr<const LocalHost>& own, int rank, const Gather& gather,
                                  const Describe& describe) {
  RankHosts met;
  std::map<std::pair<std::string, Fingerprint>, int> hostBy;
  std::unordered_map<std::string_view, std::optional<Said>> saidBy;  // by text: many say the same
  std::unordered_map<std::string, int> kindBy;
  std::set<Fingerprint> kinds;
  std::map<Fingerprint, int> teller;  // of the kinds that hosts are of
  std::vector<Fingerprint> kindOf;    // by host
  int withoutJson = -1;
  for (size_t r = 0; r < introductions.size(); ++r) {
    const int sender = static_cast<int>(r);
    const auto [entry, unheard] = saidBy.try_emplace(introductions[r]);
    if (unheard) entry->second = read(introductions[r]);
    const std::optional<Said>& said = entry->second;
    if (!said)
      return logged(
          Status::error(Code::remote, "%s said of its host something unreadable", describe(sender).c_str()));
    if (!said->error.empty())
      return logged(Status::error(Code::invalidUsage, "%s does not know what its host is made of: %s",
                                  describe(sender).c_str(), said->error.c_str()));
    if (!said->speaksJson && withoutJson < 0) withoutJson = sender;
    const transport::Endpoint& endpoint = endpoints[r];
    const std::string boot(endpoint.bootId.begin(), endpoint.bootId.end());
    const std::string process = said->reach == Reach::process ? std::to_string(endpoint.pid) : "";
    std::string all = boot + endpoint.host + '\n' + process + '\n' + namesOf(endpoint.rails) + '\n';
    const auto [kind, isNewKind] =
        kindBy.try_emplace(all.append(introductions[r]), static_cast<int>(met.kinds_.size()));
    met.ranks_.push_back(kind->second);
    if (!isNewKind) continue;
    // Two looks at one machine may differ, as links train down when idle: what its first rank saw counts for
    // all. But what is said to be different hosts is.
    const std::string machine = endpoint.bootId == decltype(endpoint.bootId){} ? endpoint.host : boot;
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
                               : said->reach == Reach::process ? system + '\n' + process
                                                               : "";
    met.kinds_.push_back({host->second, machine, memory, endpoint.rails, said->cores, said->quota, said->rdma,
                          said->ucx, said->gpu});
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

Result<std::shared_ptr<const RankHosts>> RankHosts::meetInCommon(
    const std::shared_ptr<const Introductions>& introductions, const std::shared_ptr<const LocalHost>& own,
    int rank, const Gather& gather, const Describe& describe) {
  struct Met {
    std::shared_ptr<const Introductions> of;
    RankHosts hosts;
  };
  static auto* const known = new InCommon<Met>;
  auto met = known->find([&](const Met& each) { return each.of == introductions; });
  if (met == nullptr) {
    bool asked = false;
    const Gather ask = [&](std::string_view mine) { return asked = true, gather(mine); };
    ECCL_ASSIGN(RankHosts hosts,
                meet(introductions->hosts, introductions->endpoints, own, rank, ask, describe));
    // Whoever finds it does not ask, so all must come to the same by themselves.
    if (asked) return std::make_shared<const RankHosts>(std::move(hosts));
    met = known->add({introductions, std::move(hosts)});
  }
  return std::shared_ptr<const RankHosts>(met, &met->hosts);
}

std::shared_ptr<const RankHosts> RankHosts::inCommonOf(const std::shared_ptr<const RankHosts>& all,
                                                       const std::vector<int>& ranks) {
  struct Some {
    std::shared_ptr<const RankHosts> all;
    std::vector<int> ranks;
    RankHosts hosts;
  };
  static auto* const known = new InCommon<Some>;
  auto some = known->find([&](const Some& each) { return each.all == all && each.ranks == ranks; });
  if (some == nullptr) some = known->add({all, ranks, all->of(ranks)});
  return std::shared_ptr<const RankHosts>(some, &some->hosts);
}

RankHosts RankHosts::of(std::span<const int> ranks) const {
  RankHosts some;
  some.unknown_ = unknown_;
  std::map<int, int> newNumber, newKinds;
  for (int rank : ranks) {
    const int kind = ranks_[static_cast<size_t>(rank)];
    const auto [newKind, isNewKind] = newKinds.try_emplace(kind, static_cast<int>(some.kinds_.size()));
    some.ranks_.push_back(newKind->second);
    some.cpus_.push_back(cpus_[static_cast<size_t>(rank)]);
    some.turns_.push_back(turns_[static_cast<size_t>(rank)]);
    if (!isNewKind) continue;
    Kind member = kinds_[static_cast<size_t>(kind)];
    const auto [number, isNew] = newNumber.try_emplace(member.host, static_cast<int>(some.hosts_.size()));
    if (isNew) {
      const PlaceOfRanks& host = hosts_[static_cast<size_t>(member.host)];
      some.hosts_.push_back(host);
    }
    member.host = number->second;
    some.kinds_.push_back(std::move(member));
  }
  some.arrange();
  return some;
}

}  // namespace eccl::runtime
