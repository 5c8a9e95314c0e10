// The fast path: a call prepared so that making it again costs little. Its moves are resolved to places in
// the buffers and to connections.
//
// It is for plans of one tile among ranks that look at the same memory, or that use few sockets, which it
// polls itself. What a short message costs is what surrounds its moves, so all that does not depend on the
// buffers is worked out once. What a move does to its connections is the interpreter's (program/move_ends.h).
// Whatever is out of the ordinary (a message of another call, a peer that has failed, a long wait) is left to
// the interpreter, which is told how far each lane is.
//
// It is prepared by the first call of the plan that finds all connections ready (Engine), and taken by later
// calls with the same CallKey (Engine::claim()).
//
// Host memory only: its moves are made by the kernels, on the spot. A call whose buffers another executor
// holds goes on as a Run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/atomics.h"
#include "base/system.h"
#include "kernels/reduce.h"
#include "program/move_ends.h"
#include "runtime/execution/call.h"
#include "transport/core/connection.h"

namespace eccl::runtime {

struct Plan;
struct Run;

/// How often short calls are looked at before they are treated like any other. A value.
class FastLooks {
 public:
  struct Manner {
    bool spins;   // without giving up the processor
    bool queued;  // the caller waits for the calls later, and not long here
  };
  /// What is looked at, the quickest first: lines of memory, memory of a device, by its library; or sockets,
  /// which takes a system call or two.
  enum class At : uint8_t { memory, devices, sockets };
  FastLooks(Manner manner, At at, System& system)
      : manner_(manner),
        at_(at),
        system_(system),
        most_(manner.spins ? kLooks[static_cast<int>(at)] / (manner.queued ? kQueuedFraction : 1) : kYields) {}
  /// Something has moved.
  void restart() { made_ = nextClock_ = 0; }
  /// Peers may need this processor.
  void yieldFromNowOn() { manner_.spins = false; }
  struct Patience {
    bool forPlaces;  // for long messages
    int forGrowth;   // so many looks at a message that grows, while nothing comes; 0: none is made to grow
  };
  /// What is worth waiting for.
  Patience patience() const {
    return {made_ < (manner_.spins ? kPatientLooks : kPatientYields), manner_.spins ? kGrowthLooks : 20};
  }
  /// Nothing has moved. True: now peers that sleep are to be woken, and are told where this thread waits.
  bool count() {
    const int before = made_, kick = manner_.spins ? kLooksBeforeKick : 1;
    made_ += weight_;
    return before < kick && made_ >= kick;
  }
  bool over() {
    if (made_ > most_ || !manner_.queued || (manner_.spins && made_ < nextClock_)) return made_ > most_;
    nextClock_ = made_ + kLooksPerClock;
    const TimePoint now = system_.now();
    if (until_ == TimePoint()) until_ = now + (manner_.spins ? kQueuedSpinning : kQueuedYielding);
    return now > until_;
  }
  /// Before the next look. `awaited`: an end at which a message is waited for, if it is one. Looking at one
  /// line takes less time than looking at all that there is, so what comes there is seen at once.
  void rest(const ReceiveEnd* awaited) {
    weight_ = 1;
    if (!manner_.spins) return system_.yield();
    if (at_ == At::sockets) return;
    if (awaited == nullptr || at_ == At::devices) return relaxProcessor();
    weight_ = kGlances;
    for (int i = 0; i < kGlances && !awaited->hasCome(); ++i) relaxProcessor();
  }

 private:
  /// So many looks at one line count as as many looks at all.
  static constexpr int kGlances = 8;
  /// 20 to 50 us of spinning, or some yields.
  static constexpr int kLooks[] = {1000, 500, 60}, kYields = 20;
  /// Of queued calls a fraction of the spinning, and not longer than that in all: peers that call in step come
  /// within that, and one that is late must not hold up what the caller does meanwhile. Peers without a core of
  /// their own need turns of it, and a thread that computes there takes one of milliseconds: then it is over.
  static constexpr int kQueuedFraction = 2, kLooksPerClock = 16;
  static constexpr Duration kQueuedSpinning = std::chrono::microseconds(50),
                            kQueuedYielding = std::chrono::microseconds(300);
  /// Peers that do not sleep see a message after less; the fence it takes to find out whether they do can wait.
  static constexpr int kLooksBeforeKick = 40;
  /// Some 30 to 90 us, by the processor's pause: ten times what a piece takes.
  static constexpr int kGrowthLooks = 2000;
  /// So long is a place for a long message waited for (some microseconds).
  static constexpr int kPatientLooks = 100, kPatientYields = 4;

  Manner manner_;
  At at_;
  System& system_;
  int most_, made_ = 0;
  int weight_ = 1;     // of the next look
  int nextClock_ = 0;  // what `made_` is when the time is asked for
  TimePoint until_{};
};

/// A prepared call. Owner: the Plan. Threads: the driver's. Failure: it has
/// none; whatever goes wrong is left to the Run that it is handed over to.
class FastPath {
 public:
  /// nullptr if the plan is none of this kind. `record` is that of the call, whose number does not matter. By
  /// the driver, with the plan bound and all its connections ready.
  static std::unique_ptr<FastPath> of(const Call& call, const Plan& plan, const CallRecord& record);

  /// The call's record, to be numbered.
  const CallRecord& record() const { return record_; }
  uint64_t shape() const { return shape_; }
  /// Whether these buffers may be passed without validate(). Any thread.
  bool accepts(const void* send, const void* receive) const {
    return (send != nullptr || !needsSend_) && (receive != nullptr || !needsReceive_) &&
           (send != receive || !needsTwo_);
  }

  /// Starts anew, with host buffers that it accepts(), and offers memory to peers. `signature` is that of the
  /// record, which has been numbered.
  void begin(const void* send, void* receive, uint32_t signature) {
    buffers_[static_cast<int>(Space::input)] = static_cast<std::byte*>(const_cast<void*>(send));
    buffers_[static_cast<int>(Space::output)] = static_cast<std::byte*>(receive);
    signature_ = signature;
    for (MovesOfLane& lane : lanes_) lane.at = lane.begin;
    slotsOnly_ = isShort_ || (fitSlots_ && !isShown(send) && !isShown(receive));
    exchanges_ = !slotsOnly_ && fitSlots_ && isExchanging();
    if (!posts_.empty()) post();
  }
  /// Advances until the call is complete (true); wakes() is left to do. False: it takes long, is unusual, or
  /// `stop()` says so. Peers have been told of all that was done, and handOver() goes on from there.
  template <class Stop>
  bool run(FastLooks::Manner manner, System& system, const Stop& stop);
  /// What run() leaves to be done after the next full barrier: waking peers that sleep. A copy is valid when
  /// the plan is gone.
  class Wakes {
   public:
    void now() const {
      for (int i = 0; i < count_; ++i) paths_[i]->wake();
    }

   private:
    friend class FastPath;
    static constexpr size_t kMost = 4;
    transport::Path* paths_[kMost];
    int count_ = 0;
  };
  Wakes wakes() const { return wakesLater() ? wakes_ : Wakes(); }
  /// Brings `run`, an execution of the same plan and buffers that has just begun, to where this one is.
  void handOver(Run& run) const;

 private:
  /// Memory of the caller.
  struct Place {
    Space space;
    uint64_t offset;  // bytes into the buffer
  };
  struct Move {
    kernels::ReduceTask task;  // but for the addresses
    kernels::Reducer reducer;  // of `task`, for makeShort() alone; null: kernels::reduce()
    interpreter::MoveEnds ends;
    Place sources[kMaxOperands], destinations[kMaxOperands];  // where there is no end
    Outgoing outgoing;
    bool offers;     // the first destination, to the sender of the only source
    bool fitsSlots;  // its messages go in slots, if no peer can get at its memory
    bool isShort;    // they do, whatever the state of the ends
    bool isWeighed;  // and are long enough to be written past the caches, if a receiver wants that
    bool isCopy;     // of its only source
    bool isSimple;   // to its only destination
    bool grows;      // its message may be published before it is written
    bool follows;    // and may be taken before it is
    uint64_t vain;   // one past the number of the message that was followed in vain
    int32_t step, repeat;
  };
  struct MovesOfLane {
    size_t begin, end, at;
    int32_t steps;
  };
  /// A message to come; `memory`: what is offered for it ahead, if length is not 0.
  struct Post {
    ReceiveEnd* from;
    Place memory;
    uint32_t length;
  };

  friend class FastGroup;

  FastPath() = default;
  bool addLane(const Call& call, const Plan& plan, int lane);
  bool addMove(const Call& call, const Plan& plan, const Step& step, int32_t stepIndex, int32_t repeat,
               bool posts);
  void post();
  bool areRead() const;
  std::byte* memory(const Place& place) const { return buffers_[static_cast<int>(place.space)] + place.offset; }
  enum class Answer : uint8_t { done, moved, blocked, drains, unusual };
  /// Makes every move that can be made. `drains`: all are made, but peers still read what messages refer to.
  /// `unusual` is for the interpreter, which will find the same.
  Answer advance(FastLooks::Patience patience);
  /// begin() and advance(), of a Send or Recv with one move, and no posts: of all calls with these buffers from
  /// number *made on, as far as it gets. `first`: the number of the first of them in its scope. `moved`: all
  /// are made.
  Answer makeSeries(std::span<const CallBuffers> buffers, uint64_t first, FastLooks::Patience patience,
                    size_t* made);
  Answer make(Move& move, FastLooks::Patience patience);
  /// make() for one that follows, where peek() has found nothing: takes the message if it grows. Blocked: it
  /// has not begun, or its sender has stopped, and it is not followed again.
  Answer follow(Move& move, int looks);
  /// The same for one whose messages go in slots: what is known of that is not asked.
  Answer makeShort(Move& move) { return move.isSimple ? makeShort<1, false>(move) : makeShort<0, false>(move); }
  /// Whichever of the two is right. What peers send may come in another way than what goes to them.
  Answer makeEither(Move& move, FastLooks::Patience patience) {
    if (move.isShort) return makeShort(move);
    if (!slotsOnly_ && !exchanges_) return make(move, patience);
    const Answer answer = makeShort(move);
    if (answer != Answer::unusual) return answer;
    exchanges_ = false;
    return make(move, patience);
  }
  /// Whether peers can get at it, now or when they have mapped more.
  bool isShown(const void* buffer) const {
    return shown_.holds(shown_.offsetOf(static_cast<const std::byte*>(buffer)), 1);
  }
  /// Whether all that this rank sends goes in areas that are exchanged, though peers could get at its memory.
  /// Of a rank that only receives: what it got last came so.
  bool isExchanging() const;
  /// Nobody else uses this rank's memory, so nothing but waking is left to do.
  bool wakesLater() const { return (slotsOnly_ || exchanges_) && wakes_.count_ > 0; }
  /// `kEnds`: the number of its sources, and that of its destinations; 0: as the move says. `kWeighed`: one of
  /// the messages is measured, or written past the caches.
  template <int kEnds, bool kWeighed>
  Answer makeShort(Move& move);
  /// Makes peers that sleep notice.
  void kick() const;
  /// Tells peers where this thread waits. True: one of them was last seen waiting on the same processor.
  bool peersWaitHere() const;
  /// Sends what was published by sockets, and looks for what has come.
  void sendBySockets() const {
    for (transport::Path* socket : sockets_) socket->kick();
  }
  void pollSockets() const {
    for (transport::Path* socket : sockets_) socket->poll();
  }
  /// All moves are made: tells peers that wait for it what was read.
  void settleSockets() const {
    for (transport::Path* socket : sockets_) socket->settle();
  }

  CallRecord record_;
  uint64_t shape_ = 0;  // its
  bool needsSend_ = false, needsReceive_ = false, needsTwo_ = false;
  std::vector<MovesOfLane> lanes_;
  std::vector<Move> moves_;
  std::vector<Post> posts_;
  std::vector<transport::Connection*> connections_;
  std::vector<transport::Path*> sockets_;  // those of the connections that are not in memory
  FastLooks::At at_ = FastLooks::At::memory;
  std::byte* buffers_[kMemorySpaces] = {};
  uint32_t signature_ = 0;
  const ReceiveEnd* awaited_ = nullptr;  // where advance() found no message
  bool sendsOn_ = false;                 // who sends here is about to send more, not to wait for an answer
  bool isShort_ = true;                  // every move is
  bool fitSlots_ = true;                 // every move fitsSlots, and peers get at nothing but shown_
  Window shown_;                         // what this process shows its peers of its memory
  bool slotsOnly_ = false;               // of these buffers nothing is shown, and all goes in slots
  bool exchanges_ = false;               // some is, and all has gone in slots nevertheless
  Wakes wakes_;                          // where there are few paths, all in memory
};

template <class Stop>
bool FastPath::run(FastLooks::Manner manner, System& system, const Stop& stop) {
  for (FastLooks looks(manner, at_, system);;) {
    awaited_ = nullptr;
    const Answer answer = advance(looks.patience());
    if (answer == Answer::done) break;
    if (answer == Answer::moved) {
      sendBySockets();
      looks.restart();
      continue;
    }
    if (answer == Answer::drains) settleSockets();  // peers drain, too
    if (looks.count()) {
      kick();
      if (peersWaitHere()) looks.yieldFromNowOn();
    }
    if (answer == Answer::unusual || looks.over() || stop()) {
      kick();
      return false;
    }
    pollSockets();
    looks.rest(awaited_);
  }
  if (wakesLater()) return true;
  kick();
  settleSockets();
  return true;
}

}  // namespace eccl::runtime
