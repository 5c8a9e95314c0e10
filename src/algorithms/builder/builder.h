// Writes Programs. An algorithm is a function that fills one Builder for one rank and returns what take()
// gives. The ring of an AllGather, where `left` and `right` are this rank's neighbours among n:
//
//   Builder b(shape, rank, channels, channels);                   // each block in `channels` parts
//   for (int channel = 0; channel < channels; ++channel) {
//     const int next = b.sendTo(right, channel), previous = b.receiveFrom(left, channel);
//     b.lane(channel);
//     b.step({input(rank).part(channel)}, {output(rank).part(channel), connection(next)});
//     b.step({connection(previous)},
//            {output().block(behind(rank, n)).part(channel), connection(next)}).repeat(n - 2);
//     b.step({connection(previous)}, {output(right).part(channel)});
//   }
//   return b.take();
//
// Builders neither check nor sort: the verifier does. Owner: one build function. Not thread-safe; errors do
// not exist here, a wrong program is refuted later.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "algorithms/builder/collective.h"
#include "program/program.h"

namespace eccl::algorithms {

/// An Operand under construction: what a step reads or writes. Setters return the Reference, so that they
/// chain.
class Reference {
 public:
  explicit Reference(Space space) { operand_.space = space; }
  operator Operand() const { return operand_; }  // NOLINT: a Reference is an operand with setters

  /// The block of memory, or the connection, that it means; a Walk gives another one in each repetition.
  Reference& block(Walk walk) {
    operand_.index = walk;
    return *this;
  }
  Reference& block(int index) { return block(Walk{index, 0, 0, 0}); }
  /// The part of the block, from 0.
  Reference& part(Walk walk) {
    operand_.part = walk;
    return *this;
  }
  Reference& part(int index) { return part(Walk{index, 0, 0, 0}); }
  /// This many contiguous parts as one piece. 1 unless set.
  Reference& count(int parts) {
    operand_.count = parts;
    return *this;
  }
  /// A raw contribution: it is scaled as the reduction asks.
  Reference& pre() {
    operand_.pre = true;
    return *this;
  }
  /// See Operand::stable.
  Reference& stable() {
    operand_.stable = true;
    return *this;
  }
  /// See Operand::posted.
  Reference& posted() {
    operand_.posted = true;
    return *this;
  }
  /// See Operand::placed.
  Reference& placed() {
    operand_.placed = true;
    return *this;
  }
  /// See Operand::pushed.
  Reference& pushed() {
    operand_.placed = operand_.pushed = true;
    return *this;
  }

 private:
  Operand operand_;
};

/// Memory of the call's input, its output, or scratch, by block; parts are set afterwards.
inline Reference input(int block = 0) {
  return Reference(Space::input).block(block);
}
inline Reference output(int block = 0) {
  return Reference(Space::output).block(block);
}
inline Reference scratch(int block = 0) {
  return Reference(Space::scratch).block(block);
}
/// One message on a connection, by the index that sendTo() or receiveFrom() returned.
inline Reference connection(int index) {
  return Reference(Space::connection).block(index);
}
/// One message on another connection in each repetition.
inline Reference connections(Walk walk) {
  return Reference(Space::connection).block(walk);
}

/// The program of one rank while it is written.
class Builder {
 public:
  /// Each block is cut into `parts`. The maps of input and output are set from the shape; scratch holds
  /// nothing until scratch() is called.
  Builder(const CollectiveShape& shape, int rank, int channels, int parts);

  /// Adds an end of a connection and returns its index. The peer's program adds the other end: both are
  /// matched by (sender, receiver, channel, tag).
  int sendTo(int peer, int channel, int tag = 0);
  int receiveFrom(int peer, int channel, int tag = 0);
  /// How many ends there are: the index of the one that is added next.
  int ends() const { return static_cast<int>(program_.connections.size()); }
  /// Gives the program scratch memory that mirrors these blocks: each has the size of the block it mirrors.
  void scratch(BlockMap map) { program_.map(Space::scratch) = map; }
  /// The lengths of blocks are known only to ranks that hold them; see Program::streams.
  void streams() { program_.streams = true; }
  /// The most parts that a message of any rank has. Needed where ranks send messages of different numbers of
  /// parts; by default it is the most of this rank.
  void messageParts(int parts) { program_.messageParts = parts; }

  /// A step that was just added, to say more about it.
  class StepRef {
   public:
    /// The step is made this many times in each tile. 1 unless set.
    StepRef& repeat(int times) {
      step().repeat = times;
      return *this;
    }
    /// The result is final (see Step::post).
    StepRef& post() {
      step().post = true;
      return *this;
    }
    /// The step waits until that step of another lane of this rank has finished all its repetitions, in the
    /// same tile; afterPreviousTile(): in the tile before.
    StepRef& after(int lane, int stepOfLane) {
      step().waitLane = lane;
      step().waitStep = stepOfLane;
      return *this;
    }
    StepRef& afterPreviousTile(int lane, int stepOfLane) {
      step().waitPreviousTile = true;
      return after(lane, stepOfLane);
    }
    /// The index of this step within its lane, for others to wait on.
    int index() const { return indexInLane_; }

   private:
    friend class Builder;
    StepRef(Program& program, int at, int indexInLane)
        : program_(program), at_(at), indexInLane_(indexInLane) {}
    Step& step() { return program_.steps[at_]; }
    Program& program_;
    int at_, indexInLane_;
  };

  /// Opens a lane and returns its index. Steps are added to the lane that was opened last.
  int lane(int channel);
  /// Adds a step: the sources, combined, are delivered to the destinations. At most kMaxOperands of each.
  StepRef step(std::span<const Operand> sources, std::span<const Operand> destinations);
  StepRef step(std::initializer_list<Operand> sources, std::initializer_list<Operand> destinations) {
    return step(std::span(sources.begin(), sources.size()),
                std::span(destinations.begin(), destinations.size()));
  }

  /// The finished program. The Builder is of no use afterwards.
  Program take() { return std::move(program_); }

 private:
  Program program_;
};

}  // namespace eccl::algorithms
