// One end of a UCX connection as the library has it, and a peer that says what it likes by UCX's own calls.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>

#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_receiver.h"
#include "transport/ucx/ucx_sender.h"
#include "transport/ucx/ucx_setup.h"

namespace eccl::transport {

/// UCX goes by the loopback alone, unless the environment says otherwise: what else a host has differs.
inline const int kByLoopback = setenv("UCX_TLS", "tcp,self", 0) + setenv("UCX_NET_DEVICES", "lo", 0);

/// Of this process.
inline int ucxRanksMade = 0;

/// What a rank has of UCX.
struct UcxRank {
  explicit UcxRank(int rank) : context{.rank = rank} {
    ++ucxRanksMade;
    EXPECT_TRUE(reactor.open(System::real()).ok());
    context.reactor = &reactor;
    context.system = &System::real();
    context.ring = {8, 1 << 20};
    context.epoch = 1;
    context.zeroCopyFrom = 1000;
    context.describe = [](int r) { return format("rank %d (test)", r); };
    worker = std::make_unique<UcxWorker>(context);
    const Status opened = worker->open();
    EXPECT_TRUE(opened.ok()) << opened.message();
  }
  Reactor reactor;
  TransportContext context;
  std::unique_ptr<UcxWorker> worker;
};

/// Rank 0 with one end of a connection with rank 1, which is the test's.
class UcxTwo : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    socket = Stream(Fd(pair[0]));
    theirs = Stream(Fd(pair[1]));
  }
  void TearDown() override {
    path.reset();
    closeLiar();
  }
  /// Rank 0's end. Error: open()'s.
  template <class End>
  Status open(End& end, const std::string& address) {
    const bool sends = std::is_same_v<End, SendEnd>;
    UcxSetup setup(*mine.worker, ConnectionId{sends ? 0 : 1, sends ? 1 : 0, 0, 0});
    SetupData said, answer;
    ECCL_TRY(setup.say(&said));
    ECCL_ASSIGN(words, readUcx(said, ucxVersion()));
    ECCL_TRY(sayUcx({kTheirEnd, address}, ucxVersion(), &answer));
    ECCL_TRY(setup.read(answer));
    ECCL_ASSIGN(path, setup.open(end, {socket, [this](const Breakage& why) { broken = why.reason; }, nullptr}));
    return {};
  }
  /// The two workers have met, and the other one has an endpoint.
  template <class End>
  void meet(End& end) {
    liar = std::make_unique<UcxRank>(1);
    const Status opened = open(end, liar->worker->address());
    ASSERT_TRUE(opened.ok()) << opened.message();
    UcxWord word{};
    ASSERT_TRUE(until([&] { return theirs.receive(&word, sizeof word) == static_cast<ssize_t>(sizeof word); }));
    ASSERT_EQ(word.kind, UcxWord::Kind::met);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(words.address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ASSERT_EQ(ucp_ep_create(liar->worker->handle(), &params, &endpoint), UCS_OK);
    ucp_request_param_t none{};  // UCX 1.13 has to have a way before it can end
    const ucs_status_ptr_t flush = ucp_ep_flush_nbx(endpoint, &none);
    ASSERT_FALSE(UCS_PTR_IS_ERR(flush));
    if (flush != nullptr) {
      ASSERT_TRUE(until([&] { return ucp_request_check_status(flush) != UCS_INPROGRESS; }));
      ucp_request_free(flush);
    }
    say({UcxWord::Kind::met});
    progress();
  }
  void say(UcxWord word) { ASSERT_EQ(theirs.send(&word, sizeof word), static_cast<ssize_t>(sizeof word)); }
  /// An active message of the peer; what it refers to stays until close. Returns UCX's request, if it has one.
  void send(const void* header, size_t headerBytes, const void* data = nullptr, size_t bytes = 0,
            uint32_t flags = 0) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    auto* const kept = new std::string(static_cast<const char*>(header), headerBytes);
    headers.emplace_back(kept);
    const ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint, kUcxMessages, kept->data(), headerBytes, data, bytes, &param);
    ASSERT_FALSE(UCS_PTR_IS_ERR(request));
    if (request != nullptr) ucp_request_free(request);
  }
  void send(const MessageFrame& frame, const void* data = nullptr, size_t bytes = 0, uint32_t flags = 0) {
    const UcxHeader header{words.end, frame};
    send(&header, sizeof header, data, bytes, flags);
  }
  /// A message that may be.
  static MessageFrame frame(uint64_t number, uint32_t length) {
    return {number, 0, length, 0, length, 7, 0, 1, FrameKind::message};
  }
  void closeLiar() {
    if (liar == nullptr) return;
    if (endpoint != nullptr) {
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(endpoint, nullptr), &param);
      if (UCS_PTR_IS_PTR(request)) {
        EXPECT_TRUE(until([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; }));
        ucp_request_free(request);
      }
    }
    liar->worker->abandon();  // it ends as it likes
    liar.reset();
  }
  void progress() {
    mine.worker->progress();
    mine.reactor.poll(Duration::zero());
    if (liar != nullptr && liarGoesOn) liar->worker->look();
  }
  bool until(const std::function<bool()>& done, Duration limit = std::chrono::seconds(20)) {
    const TimePoint deadline = System::real().now() + limit;
    while (!done()) {
      if (System::real().now() >= deadline) return false;
      progress();
      System::real().yield();
    }
    return true;
  }
  /// Nothing comes of it.
  void rest() {
    until([] { return false; }, std::chrono::milliseconds(20));
  }

  static constexpr UcxEndId kTheirEnd = 4711;
  UcxRank mine{0};
  Stream socket, theirs;
  UcxWords words;  // of rank 0
  std::unique_ptr<Path> path;
  std::string broken;
  std::unique_ptr<UcxRank> liar;
  ucp_ep_h endpoint = nullptr;
  std::vector<std::unique_ptr<std::string>> headers;
  bool liarGoesOn = true;
};

}  // namespace eccl::transport
