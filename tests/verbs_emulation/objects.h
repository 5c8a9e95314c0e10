// What stands behind the handles of libibverbs, and what each kind of it owns. All of it is guarded by
// World::mutex.
#pragma once

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verbs_emulation/arrival.h"
#include "verbs_emulation/event_queue.h"

// libibverbs replaces these by functions of its headers; here are the ones that it exports.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace eccl::verbs_emulation {

struct GidEntry {
  ibv_gid gid{};
  uint32_t type = IBV_GID_TYPE_ROCE_V2;
  bool empty() const { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }
};

struct Port {
  ibv_port_state state = IBV_PORT_ACTIVE;
  uint8_t linkLayer = IBV_LINK_LAYER_ETHERNET;
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<GidEntry> gids;
};

struct Limits {
  int maxQp = 4096, maxQpWr = 16384, maxSge = 8, maxCqe = 1 << 20, maxInline = 256;
};

struct Device {
  int number;
  std::string name;
  bool listed = true, fatal = false;
  Limits limits;
  uint32_t onDemand = 0;  // enum ibv_odp_transport_cap_bits
  bool changesUdpPorts = false;
  std::vector<Port> ports;
  /// Null if it has no such port. Ports count from 1.
  Port* port(unsigned number) { return number < 1 || number > ports.size() ? nullptr : &ports[number - 1]; }
};

/// What ibv_get_device_list() gives. As long as the list or a context uses it, no longer: a list of its own
/// each time, so that AddressSanitizer finds who uses it later.
struct DeviceHandle : ibv_device {
  DeviceHandle() : ibv_device{} {}
  std::shared_ptr<Device> model;
};

struct Context {
  verbs_context verbs{};
  std::shared_ptr<DeviceHandle> handle;
  EventQueue<ibv_async_event> events;
  int children = 0;  // PDs, channels and CQs
  Device& device() { return *handle->model; }
  ibv_context* get() { return &verbs.context; }
};

struct Domain : ibv_pd {
  Domain() : ibv_pd{} {}
  Context* owner = nullptr;
  int children = 0;
};

struct Region : ibv_mr {
  Region() : ibv_mr{} {}
  ~Region() {
    if (ofDevice) munmap(addr, length);
  }
  Domain* owner = nullptr;
  uint64_t iova = 0;
  unsigned access = 0;
  bool ofDevice = false;  // its memory is mapped for it alone
};

struct CompletionQueue;

struct Channel : ibv_comp_channel {
  Channel() : ibv_comp_channel{} {}
  Context* owner = nullptr;
  EventQueue<CompletionQueue*> events;
};

struct QueuePair;
struct ReceiveQueue;

/// An entry of a completion queue, and what happens when it is polled.
struct Completion {
  ibv_wc wc{};
  bool solicited = false;
  QueuePair* pair = nullptr;
  unsigned sendPlaces = 0;          // of the send queue, that it gives back
  ReceiveQueue* place = nullptr;    // gets one place back
  std::vector<Landing> landings{};  // come to memory then
};

struct CompletionQueue : ibv_cq {
  CompletionQueue() : ibv_cq{} {}
  enum class Armed { no, solicited, any };
  Context* owner = nullptr;
  Channel* events = nullptr;
  Armed armed = Armed::no;
  std::deque<Completion> entries;
  int users = 0;                // QPs, once for each queue
  unsigned unacknowledged = 0;  // of the events taken from the channel
  unsigned asyncUnacknowledged = 0;
};

struct SendRequest {
  ibv_send_wr wr{};  // its pointers are null
  bool signaled = false;
  uint64_t length = 0;
  std::vector<ibv_sge> pieces;
  std::vector<uint8_t> inlined;  // the message itself, if it was given inline
};

struct ReceiveRequest {
  uint64_t id;
  std::vector<ibv_sge> pieces;
};

/// Of one queue pair, or shared.
struct ReceiveQueue {
  uint32_t maxRequests = 0, maxPieces = 0;
  uint32_t taken = 0;  // places, up to the poll of the completion
  std::deque<ReceiveRequest> requests;
};

struct SharedQueue : ibv_srq {
  SharedQueue() : ibv_srq{} {}
  Domain* owner = nullptr;
  ReceiveQueue queue;
  int users = 0;
  unsigned asyncUnacknowledged = 0;
};

struct QueuePair : ibv_qp {
  QueuePair() : ibv_qp{} {}
  Domain* owner = nullptr;
  CompletionQueue* sendTo = nullptr;
  CompletionQueue* receiveTo = nullptr;
  SharedQueue* shared = nullptr;
  ibv_qp_init_attr init{};
  ibv_qp_attr now{};  // qp_state is the state of the device; ibv_qp::state is what the user last set
  std::deque<SendRequest> sends;
  unsigned sendPlaces = 0;  // taken, up to the poll of the next completion
  unsigned silent = 0;      // done without completion since the last one
  ReceiveQueue ownReceives;
  std::vector<Landing> arrivals, readings;  // for the next completion of a receive, of a send
  uint32_t nextSend = 0, nextReceive = 0;   // packet sequence numbers
  bool heardOf = false, held = false;
  uint16_t udpPort = 0;  // that was asked for
  unsigned asyncUnacknowledged = 0;

  Device& device() { return owner->owner->device(); }
  ReceiveQueue& receives() { return shared != nullptr ? shared->queue : ownReceives; }
  bool connected() const { return now.qp_state == IBV_QPS_RTR || now.qp_state == IBV_QPS_RTS; }
};

}  // namespace eccl::verbs_emulation
