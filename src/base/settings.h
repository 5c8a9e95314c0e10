// Settings: everything a user can set outside the API.
//
// Sources, first match wins:
//   1. the environment: ECCL_X, then NCCL's spelling where it means the same
//   2. the file named by ECCL_CONF_FILE (or NCCL_CONF_FILE), which must be there; else ~/.eccl.conf
//   3. /etc/eccl.conf
// Files have lines NAME=VALUE, with the whole name, and '#' comments.
//
// A misspelt setting must not be ignored. So these are errors, and name the source, the line and what is
// allowed: an unknown ECCL_ name, a bad value, a name twice in one file. All sources are checked, also where
// a better one wins. NCCL_ names that mean nothing here are ignored. The log's settings work in the
// environment only (base/log.h).
//
// Settings marked wire decide what ranks send each other. They are compared when a communicator is made, and
// a difference is an error that names the setting and the ranks.
//
// Owner and threads: Settings is a value, read once for each communicator. Any thread may call the functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace eccl {

/// The settings in force. Members have their defaults until a source sets them. docs/settings.md lists them
/// for users.
struct Settings {
  std::string commId;            // ECCL_COMM_ID: host:port of rank 0, instead of a unique id
  std::string commSecret;        // ECCL_COMM_SECRET
  std::string commSecretFile;    // ECCL_COMM_SECRET_FILE
  bool encrypt = false;          // ECCL_ENCRYPT (wire): TCP by TLS
  std::string socketIfname;      // ECCL_SOCKET_IFNAME
  std::string socketFamily;      // ECCL_SOCKET_FAMILY: "", AF_INET or AF_INET6
  int64_t socketsPerRail = 1;    // ECCL_SOCKETS_PER_RAIL: of a connection between two hosts
  int64_t placeFlows = 1;        // ECCL_PLACE_FLOWS: 1: over the paths of the network; 2: hidden ones, too
  int64_t crossRail = 2;         // ECCL_CROSS_RAIL: 0: rails are joined only to their like
  double initTimeout = 120;      // ECCL_INIT_TIMEOUT, seconds: for each phase of making a communicator
  double heartbeatTimeout = 5;   // ECCL_HEARTBEAT_TIMEOUT, seconds: a host that is silent so long is lost
  double stallTime = 0.1;        // ECCL_STALL_TIME, seconds of waiting after which calls are compared
  std::string algo;              // ECCL_ALGO (wire)
  bool deterministic = false;    // ECCL_DETERMINISTIC (wire): where ranks are makes no difference to results
  std::string costFile;          // ECCL_COST_FILE: the cost model, of rank 0
  std::string speedsFile;        // ECCL_SPEEDS_FILE: where rank 0 keeps the speeds of its machine, or "none"
  std::string tableFile;         // ECCL_TABLE_FILE: the table of algorithms, of rank 0
  std::string tableDumpFile;     // ECCL_TABLE_DUMP_FILE
  std::string connectionsDump;   // ECCL_CONNECTIONS_DUMP_FILE: each rank writes to a name that begins so
  int64_t channels = 0;          // ECCL_CHANNELS (wire); 0: chosen
  int64_t slots = 8;             // ECCL_SLOTS (wire): per connection, a power of two
  int64_t slotBytes = 0;         // ECCL_SLOT_BYTES (wire): data per slot, a multiple of 64; 0: chosen
  int64_t slotSpread = -1;       // ECCL_SLOT_SPREAD: bytes that messages on one host go round in; -1: chosen
  std::string device;            // ECCL_DEVICE: host, cuda or auto: whose memory calls are about; empty: host
  bool cuMem = true;             // ECCL_CUMEM_ENABLE: GPUs' memory is shared by descriptors
  bool dmabuf = true;            // ECCL_DMABUF_ENABLE: RDMA devices read and write GPUs' memory
  bool cudaLanes = true;         // ECCL_CUDA_LANES (wire): ranks whose GPUs reach each other run lanes there
  int64_t cudaRelay = 0;         // ECCL_CUDA_RELAY (wire): lanes also where GPUs do not reach each other
  bool raiseLimits = true;       // ECCL_RAISE_LIMITS: more descriptors than the soft limit, where needed
  bool shmDisable = false;       // ECCL_SHM_DISABLE: no memory shared between processes
  bool p2pDisable = false;       // ECCL_P2P_DISABLE: ranks on one host leave each other's buffers alone
  int64_t slotStreaming = -1;    // ECCL_SLOT_STREAMING: bytes from which messages are streamed; -1: measured
  int64_t singleCopy = -1;       // ECCL_SINGLE_COPY: bytes from which peers' plain memory is read; -1: measured
  std::string transport;         // ECCL_TRANSPORT: comma list of names; empty: all
  std::string transportModules;  // ECCL_TRANSPORT_MODULES: comma list of files
  bool ibDisable = false;        // ECCL_IB_DISABLE: no RDMA by verbs
  std::string ibHca;             // ECCL_IB_HCA: which devices and ports
  int64_t ibGidIndex = -1;       // ECCL_IB_GID_INDEX; -1: chosen
  int64_t ibTrafficClass = 0;    // ECCL_IB_TC
  int64_t ibServiceLevel = 0;    // ECCL_IB_SL
  int64_t ibTimeout = 18;        // ECCL_IB_TIMEOUT: 4.096 us * 2^it
  int64_t ibRetries = 7;         // ECCL_IB_RETRY_CNT
  int64_t ibPkey = 0;            // ECCL_IB_PKEY: its index
  int64_t ibQueuePairs = 1;      // ECCL_IB_QPS_PER_CONNECTION
  bool ibOnDemand = false;       // ECCL_IB_ON_DEMAND: memory that cannot be locked or watched
  int64_t ibCacheBytes = int64_t{4} << 30;  // ECCL_IB_CACHE_BYTES: of plain memory that is kept registered
  std::string topoFile;                     // ECCL_TOPO_FILE: this host, instead of looking at the machine
  std::string topoDumpFile;                 // ECCL_TOPO_DUMP_FILE
  int64_t topoDumpRank = 0;                 // ECCL_TOPO_DUMP_FILE_RANK
  bool blocking = true;                     // ECCL_COMM_BLOCKING: overrides the config's blocking
  bool blockingSet = false;
  std::string verify;  // ECCL_VERIFY: auto, always or never: prove schedules before running them
  int64_t spinMicroseconds =
      -1;  // ECCL_SPIN_US: how long a wait spins before it yields; -1: by cores and ranks

  /// The wire settings as text, "ECCL_ALGO=ring\nECCL_SLOTS=8\n…", in the order of the table: what ranks
  /// compare.
  std::string wireText() const;
  /// By the name in the table, as text: valueOf("SHM_DISABLE") is "0" or "1". Empty: there is no such setting.
  std::string valueOf(std::string_view name) const;
};

/// One row of the table behind Settings: what users are told of a setting. All texts are static.
struct SettingInfo {
  const char* name;      // without the prefix: "ALGO"
  const char* ncclName;  // whole, or nullptr: "NCCL_ALGO" only where the meaning is the same
  bool wire;
  const char* values;       // for people: "seconds", "0|1", …
  const char* description;  // one sentence
};
/// All rows, in the order of the documentation.
std::span<const SettingInfo> settingTable();

/// A setting as it stands, for people (eccl_info --settings).
struct SettingValue {
  const SettingInfo* info;
  std::string value;   // a secret is not shown
  std::string source;  // "default", "environment (NCCL_SHM_DISABLE)", "/etc/eccl.conf:3"
};

/// Reads the environment and the files. `explained`, if given, gets one value per row of the table. An error
/// (invalidArgument, or system for a file that cannot be read) is logged, and leaves `explained` as it was.
/// The environment is read by getenv(): no other thread may change it meanwhile.
Result<Settings> loadSettings(std::vector<SettingValue>* explained = nullptr);

/// As loadSettings() from given sources, for tests and the fuzzer. `environment(name)` is nullptr when unset.
/// `environmentNames` lists the variables that exist, to find unknown ones. `files` are (path, content), best
/// first. Does not log.
Result<Settings> parseSettings(const std::function<const char*(const char* name)>& environment,
                               const std::vector<std::string>& environmentNames,
                               const std::vector<std::pair<std::string, std::string>>& files,
                               std::vector<SettingValue>* explained = nullptr);

}  // namespace eccl
