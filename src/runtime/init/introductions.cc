#include "runtime/init/introductions.h"

#include <algorithm>
#include <map>

#include "base/in_common.h"
#include "base/log.h"
#include "base/printable.h"
#include "runtime/init/cluster_exchange.h"
#include "transport/bootstrap/ranks.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

constexpr uint32_t kProtocol = 27;   // of what ranks tell each other when they meet
constexpr size_t kMaxDevice = 4096;  // bytes that an executor says of itself
constexpr size_t kMaxReason = 2048;  // bytes that a rank says of why it cannot take part

/// "ECCL_ALGO=ring\nECCL_SLOTS=8\n" → line of that name in another text, for messages.
std::string lineOf(const std::string& text, const std::string& name) {
  size_t at = ("\n" + text).find("\n" + name + "=");
  return at == std::string::npos ? name + " unset" : text.substr(at, text.find('\n', at) - at);
}

/// By text: the ranks that have said it.
using SettingsTexts = std::map<std::string, std::vector<int>, std::less<>>;

Status compare(const SettingsTexts& said) {
  if (said.size() < 2) return {};
  const auto isOfRank0 = [](const auto& each) { return each.second.front() == 0; };
  const std::string& first = std::find_if(said.begin(), said.end(), isOfRank0)->first;
  for (size_t begin = 0, end = 0; begin < first.size(); begin = end + 1) {
    end = first.find('\n', begin);
    const std::string name = first.substr(begin, first.find('=', begin) - begin);
    const std::string line = lineOf(first, name);
    std::map<std::string, std::vector<int>> others;
    for (const auto& [text, ranks] : said) {
      std::string its = lineOf(text, name);
      if (its == line) continue;
      std::vector<int>& all = others[std::move(its)];
      all.insert(all.end(), ranks.begin(), ranks.end());
    }
    if (others.empty()) continue;
    std::string text;
    for (auto& [its, ranks] : others) {
      std::sort(ranks.begin(), ranks.end());
      text += format("; %s on %s", its.c_str(), transport::nameRanks(ranks).c_str());
    }
    return Status::error(Code::invalidUsage,
                         "ranks disagree about a setting that must be the same everywhere: %s on "
                         "rank 0%s",
                         line.c_str(), text.c_str());
  }
  return {};
}

/// One rank's.
Status readOne(std::string_view part, size_t from, int rank, Introductions& all, SettingsTexts& settings) {
  transport::ByteReader reader(part);
  const auto protocol = reader.get<uint32_t>();
  if (protocol != kProtocol)
    return Status::error(Code::invalidUsage,
                         "rank %zu speaks protocol %u and rank %d protocol %u: all ranks need the "
                         "same version of ECCL",
                         from, protocol, rank, kProtocol);
  const std::string_view endpointBytes = reader.text(4096), wire = reader.text(1 << 16);
  all.hosts.emplace_back(reader.text(RankHosts::kMaxIntroduction));
  all.devices.emplace_back(reader.text(kMaxDevice));
  const std::string_view reason = reader.text(kMaxReason);
  if (!reader.finished())
    return Status::error(
        Code::remote, "rank %zu sent a malformed introduction; all ranks need the same version of ECCL", from);
  if (!reason.empty() && all.unable < 0) {
    all.unable = static_cast<int>(from);
    all.whyUnable = printable(reason);
  }
  auto known = settings.find(wire);
  if (known == settings.end()) known = settings.try_emplace(std::string(wire)).first;
  known->second.push_back(static_cast<int>(from));
  ECCL_ASSIGN(transport::Endpoint endpoint, transport::Endpoint::decode(endpointBytes));
  all.endpoints.push_back(std::move(endpoint));
  return {};
}

}  // namespace

std::string Introductions::write(const transport::Endpoint& own, const std::string& settings,
                                 const std::string& host, const Result<std::string>& device) {
  return transport::ByteWriter()
      .put(kProtocol)
      .text(own.encode())
      .text(settings)
      .text(host)
      .text(device.ok() ? *device : "")
      .text(std::string_view(device.status().message()).substr(0, kMaxReason))
      .take();
}

Result<std::shared_ptr<const Introductions>> Introductions::read(const transport::Parts& parts, int rank) {
  static auto* const known = new InCommon<Introductions>;
  if (auto found = known->find([&](const Introductions& each) { return each.told == parts.body(); }))
    return found;
  Introductions all;
  all.endpoints.reserve(parts.size());
  SettingsTexts settings;
  Status status;
  parts.visit([&](size_t from, std::string_view part) {
    if (status.ok()) status = readOne(part, from, rank, all, settings);
  });
  ECCL_TRY(logged(status));
  all.settings = compare(settings);
  all.told = parts.body();
  return known->add(std::move(all));
}

}  // namespace eccl::runtime
