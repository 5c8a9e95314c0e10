// What the device has done: one look serves all connections of a rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/reactor.h"
#include "transport/verbs/handles.h"

namespace eccl::transport::verbs {

/// Told of its work requests. The upper half of their numbers (wr_id) is what join() gave.
class CompletionUser {
 public:
  virtual ~CompletionUser() = default;
  virtual void onCompletion(const ibv_wc& completion) = 0;
};

/// The completion queues of a device, which grow in number with the connections, and their channel, over which
/// a sleeping driver is woken. Owner: the Adapter. Threads: the driver's.
class CompletionQueues final : public ReadyHandler {
 public:
  /// What the device refuses, of which no user would otherwise hear: "its completion queue cannot be read".
  using OnFailure = std::function<void(const std::string& what)>;
  CompletionQueues(ibv_context* context, Reactor& reactor, OnFailure onFailure)
      : context_(context), reactor_(reactor), onFailure_(std::move(onFailure)) {}
  ~CompletionQueues() override;
  /// Once, before the rest. Error (system): the device gives no channel. Not logged.
  Status open();
  /// A queue that holds `entries` more completions, for the requests of `user`, whose number is *number. Error
  /// (system): the device has no more. Not logged.
  Result<ibv_cq*> join(uint32_t entries, CompletionUser* user, uint32_t* number);
  /// The user is told nothing more. After its queue pair is destroyed.
  void leave(uint32_t number);
  /// Tells users what has been done. True: something had. Users may join and leave meanwhile.
  bool poll();
  /// The driver is about to sleep: what is done from now on makes the reactor wake it.
  void arm();
  void onReady(uint32_t events) override;
  void closeAfterFork();

 private:
  struct Queue {
    CompletionHandle queue;
    uint32_t capacity = 0, taken = 0;
    uint32_t left = 0;  // of users that have left, whose completions may still be in it
    unsigned unacknowledged = 0;
  };
  struct User {
    CompletionUser* user;
    size_t queue;
    uint32_t entries;
  };
  Result<size_t> queueFor(uint32_t entries);
  void tellFetched();
  void fail(const std::string& what);

  ibv_context* const context_;
  Reactor& reactor_;
  const OnFailure onFailure_;
  ChannelHandle channel_;
  std::vector<Queue> queues_;
  std::vector<User> users_;  // by number, which is never given again
  bool armed_ = false, failed_ = false;
  // What was fetched and is being told. Whoever is told may poll again, which goes on here, in order.
  static constexpr int kBatch = 16;
  ibv_wc fetched_[kBatch];
  int fetchedCount_ = 0, fetchedAt_ = 0;
};

}  // namespace eccl::transport::verbs
