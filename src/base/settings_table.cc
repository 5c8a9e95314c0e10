// The rows, in the order of docs/settings.md, and how texts become values.
#include "base/settings_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace eccl {
namespace {

using Row = SettingRow;
using Rule = SettingRule;

constexpr double kDay = 86400;

// NCCL's spelling is listed only where a value means the same to both. NCCL_ALGO, for one, has another grammar.
// clang-format off: a table reads by its columns.
constexpr Row kRows[] = {
    {{"ALGO", nullptr, true, "[collective:]algorithm,...",
      "Algorithms to use instead of the selector's choice."},
     &Settings::algo,
     0,
     0,
     Rule::words},
    {{"CUDA_LANES", nullptr, true, "0|1",
      "0: calls on GPUs are always staged through the host, also where GPUs reach each other's memory."},
     &Settings::cudaLanes},
    {{"CUDA_RELAY", nullptr, true, "0..2",
      "1: GPUs of several hosts run calls, whose messages the hosts pass on; 2: also within a host; 0: calls "
      "are staged."},
     &Settings::cudaRelay,
     0,
     2},
    {{"CUMEM_ENABLE", "NCCL_CUMEM_ENABLE", false, "0|1",
      "0: memory of GPUs is lent to other processes by CUDA's IPC handles alone; 1: by descriptors, if all "
      "can."},
     &Settings::cuMem},
    {{"DMABUF_ENABLE", "NCCL_DMABUF_ENABLE", false, "0|1",
      "0: RDMA devices do not read or write memory of GPUs: messages that are relayed pass through the "
      "hosts'."},
     &Settings::dmabuf},
    {{"DEVICE", nullptr, false, "host|cuda|auto",
      "Whose memory and streams calls take; auto: cuda if there is a usable GPU; host if not set."},
     &Settings::device,
     0,
     0,
     Rule::choice},
    {{"CHANNELS", nullptr, true, "0..64", "Parallel connections per algorithm edge; 0: chosen."},
     &Settings::channels,
     0,
     64},
    {{"DETERMINISTIC", nullptr, true, "0|1",
      "1: results do not depend on where ranks run; algorithms for one host only are not chosen."},
     &Settings::deterministic},
    {{"SLOTS", nullptr, true, "2..1024, a power of two",
      "Messages in flight per connection. On one host so many over 256 bytes, or fewer beyond 1 MiB; 32 or "
      "more in all."},
     &Settings::slots,
     2,
     1024,
     Rule::powerOfTwo},
    {{"SLOT_BYTES", nullptr, true, "0..67108864, a multiple of 64",
      "Most bytes of data per message; 0: 131072; of ranks with a core each 262144 if they share memory, 1048576 by "
      "UCX."},
     &Settings::slotBytes,
     0,
     1 << 26,
     Rule::lines},
    {{"SLOT_SPREAD", nullptr, false, "-1..8388608 bytes",
      "Bytes of shared memory that long messages go round in, unless exchanged; -1: 131072, 0 where cores are shared."},
     &Settings::slotSpread,
     -1,
     8 << 20},
    {{"COMM_ID", "NCCL_COMM_ID", false, "host:port", "Address of rank 0, to join without an id passed around."},
     &Settings::commId},
    {{"COMM_SECRET", nullptr, false, "32 hexadecimal digits", "The secret that goes with ECCL_COMM_ID."},
     &Settings::commSecret,
     0,
     0,
     Rule::none,
     true},
    {{"COMM_SECRET_FILE", nullptr, false, "path",
      "A file of mode 0600 that holds the secret for ECCL_COMM_ID."},
     &Settings::commSecretFile},
    {{"ENCRYPT", nullptr, true, "0|1",
      "1: what goes over TCP is encrypted by TLS 1.3, with the secret as its key."},
     &Settings::encrypt},
    {{"SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", false, "[^][=]name,name,...",
      "Network interfaces by prefix; ^ excludes, = asks for whole names."},
     &Settings::socketIfname},
    {{"SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", false, "AF_INET|AF_INET6", "Address family; both if not set."},
     &Settings::socketFamily,
     0,
     0,
     Rule::choice},
    {{"SOCKETS_PER_RAIL", nullptr, false, "1..16",
      "Sockets that a connection between hosts has on each rail, for links that one flow cannot fill."},
     &Settings::socketsPerRail,
     1,
     16},
    {{"CROSS_RAIL", "NCCL_CROSS_NIC", false, "0..2",
      "0: a rail is joined only to its like; 1 or 2: where hosts have different numbers of rails, also to "
      "others."},
     &Settings::crossRail,
     0,
     2},
    {{"PLACE_FLOWS", nullptr, false, "0..2",
      "1: where switches spread flows over paths (ECMP), ranks agree on who takes which; 2: also if no router "
      "shows."},
     &Settings::placeFlows,
     0,
     2},
    {{"TRANSPORT", nullptr, false, "name,name,...",
      "Transports that may be used, of thread, shm, tcp and modules; between hosts the first that works. All "
      "if not set."},
     &Settings::transport,
     0,
     0,
     Rule::words},
    {{"TRANSPORT_MODULES", nullptr, false, "path,path,...",
      "Transport modules to open besides those of the installation, libeccl_transport_NAME.so."},
     &Settings::transportModules},
    {{"SHM_DISABLE", "NCCL_SHM_DISABLE", false, "0|1", "1: no memory is shared between processes."},
     &Settings::shmDisable},
    {{"P2P_DISABLE", "NCCL_P2P_DISABLE", false, "0|1",
      "1: ranks on this host do not read or write each other's buffers."},
     &Settings::p2pDisable},
    {{"SINGLE_COPY", nullptr, false, "-1..67108864 bytes",
      "Bytes from which ranks read other processes' plain memory by the kernel; -1: as measured; 0: never."},
     &Settings::singleCopy,
     -1,
     1 << 26},
    {{"SLOT_STREAMING", nullptr, false, "-1..67108864 bytes",
      "Bytes from which the receiver wants data written past the caches; -1: as measured; 0: none is, sent or "
      "received."},
     &Settings::slotStreaming,
     -1,
     1 << 26},
    {{"IB_DISABLE", "NCCL_IB_DISABLE", false, "0|1", "1: RDMA by verbs is not used."}, &Settings::ibDisable},
    {{"IB_HCA", "NCCL_IB_HCA", false, "[^][=]device[:port],...",
      "RDMA devices and ports by prefix; ^ excludes, = asks for whole names."},
     &Settings::ibHca},
    {{"IB_GID_INDEX", "NCCL_IB_GID_INDEX", false, "-1..255",
      "Entry of a RoCE port's GID table; -1: RoCE v2 before v1, the family of ECCL_SOCKET_FAMILY "
      "first, as the peer has it."},
     &Settings::ibGidIndex,
     -1,
     255},
    {{"IB_TC", "NCCL_IB_TC", false, "0..255", "Traffic class of RDMA packets with a global address."},
     &Settings::ibTrafficClass,
     0,
     255},
    {{"IB_SL", "NCCL_IB_SL", false, "0..15", "Service level of RDMA packets."},
     &Settings::ibServiceLevel,
     0,
     15},
    {{"IB_TIMEOUT", "NCCL_IB_TIMEOUT", false, "1..31",
      "An RDMA packet that is not acknowledged in 4.096 us * 2^it is sent again."},
     &Settings::ibTimeout,
     1,
     31},
    {{"IB_RETRY_CNT", "NCCL_IB_RETRY_CNT", false, "0..7", "So often it is; then the connection is broken."},
     &Settings::ibRetries,
     0,
     7},
    {{"IB_PKEY", "NCCL_IB_PKEY", false, "0..32767", "Index of the partition key of RDMA queue pairs."},
     &Settings::ibPkey,
     0,
     32767},
    {{"IB_QPS_PER_CONNECTION", "NCCL_IB_QPS_PER_CONNECTION", false, "1..16",
      "Queue pairs that a connection's long messages go over in turn, for networks that one flow cannot fill."},
     &Settings::ibQueuePairs,
     1,
     16},
    {{"IB_ON_DEMAND", nullptr, false, "0|1",
      "1: memory that cannot be locked, or changes unseen, is not copied where a device looks up pages when it "
      "needs them."},
     &Settings::ibOnDemand},
    {{"IB_CACHE_BYTES", nullptr, false, "0..1125899906842624 bytes",
      "So much memory that the user has not registered is kept registered at most, when it is used often; 0: "
      "none."},
     &Settings::ibCacheBytes,
     0,
     1ull << 50},
    {{"TOPO_FILE", "NCCL_TOPO_FILE", false, "path",
      "A topology file (NCCL's XML, or JSON of `eccl_topo dump`) to use for this host, instead of probing."},
     &Settings::topoFile},
    {{"TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE", false, "path",
      "Where one rank writes the topology of its host, as NCCL's XML."},
     &Settings::topoDumpFile},
    {{"TOPO_DUMP_FILE_RANK", "NCCL_TOPO_DUMP_FILE_RANK", false, "0..2097151",
      "The rank that writes ECCL_TOPO_DUMP_FILE."},
     &Settings::topoDumpRank,
     0,
     (1 << 21) - 1},
    {{"COST_FILE", nullptr, false, "path",
      "The cost model by which rank 0 chooses algorithms, as eccl_topo measure writes it."},
     &Settings::costFile},
    {{"SPEEDS_FILE", nullptr, false, "path|none",
      "Where the speeds of rank 0's machine are kept, measured if there is no file; ~/.cache/eccl/... if not "
      "set."},
     &Settings::speedsFile},
    {{"TABLE_FILE", nullptr, false, "path",
      "Choices for rank 0 to take, in lines COLLECTIVE BYTES ALGORITHM [CHANNELS [TILE]]."},
     &Settings::tableFile},
    {{"TABLE_DUMP_FILE", nullptr, false, "path",
      "Where rank 0 writes its choices for all collectives, in lines as of ECCL_TABLE_FILE."},
     &Settings::tableDumpFile},
    {{"CONNECTIONS_DUMP_FILE", nullptr, false, "path",
      "Each rank writes what its connections carried to path.COMMUNICATOR.RANK, when it ends or fails."},
     &Settings::connectionsDump},
    {{"COMM_BLOCKING", "NCCL_COMM_BLOCKING", false, "0|1",
      "If set, overrides the blocking field of ecclConfig_t."},
     &Settings::blocking},
    {{"INIT_TIMEOUT", nullptr, false, "0.1..86400 seconds", "Limit for each phase of making a communicator."},
     &Settings::initTimeout,
     0.1,
     kDay},
    {{"HEARTBEAT_TIMEOUT", nullptr, false, "0.5..86400 seconds",
      "Silence after which a host counts as lost; a process alone: after the longer of this and 60 s."},
     &Settings::heartbeatTimeout,
     0.5,
     kDay},
    {{"STALL_TIME", nullptr, false, "0.001..60 seconds",
      "How long a rank waits before it compares its call with the other ranks'."},
     &Settings::stallTime,
     0.001,
     60},
    {{"SPIN_US", nullptr, false, "-1..1000000 microseconds",
      "How long a wait spins before it yields; -1: chosen."},
     &Settings::spinMicroseconds,
     -1,
     1e6},
    {{"VERIFY", nullptr, false, "auto|always|never",
      "Whether schedules are proved before they first run; auto, as if not set: for up to 16 ranks."},
     &Settings::verify,
     0,
     0,
     Rule::choice},
    {{"RAISE_LIMITS", nullptr, false, "0|1", "0: the soft limit on descriptors is never raised."},
     &Settings::raiseLimits},
    {{"DEBUG", "NCCL_DEBUG", false, "NONE|WARN|INFO|TRACE", "What is logged. Environment only."},
     {},
     0,
     0,
     Rule::choice},
    {{"DEBUG_FILE", "NCCL_DEBUG_FILE", false, "path",
      "Log file; %h is the host, %p the process. Environment only."},
     {}},
    {{"CONF_FILE", "NCCL_CONF_FILE", false, "path",
      "File of settings, instead of ~/.eccl.conf. Environment only."},
     {}},
};
// clang-format on

bool isWords(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-,:").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool isChoice(std::string_view values, std::string_view text) {
  for (size_t at = 0; at <= values.size();) {
    const size_t end = std::min(values.find('|', at), values.size());
    if (values.substr(at, end - at) == text) return true;
    at = end + 1;
  }
  return false;
}

template <class T>
bool parseNumber(std::string_view text, const Row& row, T* number) {
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, *number);  // strtod would depend on the locale
  return error == std::errc() && stop == end && *number >= row.least && *number <= row.most;
}

}  // namespace

std::span<const SettingRow> settingRows() {
  return kRows;
}

const SettingRow* findSetting(std::string_view name) {
  for (const Row& row : kRows) {
    if (name.substr(0, kSettingPrefix.size()) == kSettingPrefix &&
        name.substr(kSettingPrefix.size()) == row.info.name)
      return &row;
    if (row.info.ncclName != nullptr && name == row.info.ncclName) return &row;
  }
  return nullptr;
}

std::string textOf(const Settings& settings, const SettingRow& row) {
  if (auto member = std::get_if<std::string Settings::*>(&row.member)) return settings.*(*member);
  if (auto member = std::get_if<double Settings::*>(&row.member)) return format("%g", settings.*(*member));
  if (auto member = std::get_if<int64_t Settings::*>(&row.member)) return std::to_string(settings.*(*member));
  if (auto member = std::get_if<bool Settings::*>(&row.member)) return settings.*(*member) ? "1" : "0";
  return "";
}

bool assign(Settings& settings, const SettingRow& row, std::string_view text) {
  if (auto member = std::get_if<std::string Settings::*>(&row.member)) {
    settings.*(*member) = text;
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }))
      return false;
    if (row.rule == Rule::words) {  // without blanks, so that ranks which differ in nothing else agree
      std::erase(settings.*(*member), ' ');
      return isWords(settings.*(*member));
    }
    if (row.rule == Rule::choice) return text.empty() || isChoice(row.info.values, text);
    return true;
  }
  if (auto member = std::get_if<double Settings::*>(&row.member)) {
    return parseNumber(text, row, &(settings.*(*member)));
  }
  if (auto member = std::get_if<int64_t Settings::*>(&row.member)) {
    int64_t& number = settings.*(*member);
    if (!parseNumber(text, row, &number)) return false;
    if (row.rule == Rule::powerOfTwo) return (number & (number - 1)) == 0;
    return row.rule != Rule::lines || number % 64 == 0;
  }
  if (auto member = std::get_if<bool Settings::*>(&row.member)) {
    settings.*(*member) = text == "1";
    if (*member == &Settings::blocking) settings.blockingSet = true;
    return text == "0" || text == "1";
  }
  std::string upper(text);  // the log's level, the one choice that has no member, is read in any case
  std::transform(text.begin(), text.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return row.rule != Rule::choice || isChoice(row.info.values, upper);
}

std::string Settings::wireText() const {
  std::string text;
  for (const Row& row : kRows) {
    if (row.info.wire) text += format("ECCL_%s=%s\n", row.info.name, textOf(*this, row).c_str());
  }
  return text;
}

std::string Settings::valueOf(std::string_view name) const {
  const SettingRow* row = findSetting(std::string(kSettingPrefix) + std::string(name));
  return row != nullptr ? textOf(*this, *row) : "";
}

std::span<const SettingInfo> settingTable() {
  static const std::vector<SettingInfo> table = [] {
    std::vector<SettingInfo> infos;
    for (const Row& row : kRows) infos.push_back(row.info);
    return infos;
  }();
  return table;
}

}  // namespace eccl
