// Writes Programs. An algorithm is a function that fills one Builder for one rank.
//
//   Builder b(shape, rank, channels, parts);
//   int next = b.sendTo(right, channel), previous = b.receiveFrom(left, channel);
//   auto lane = b.lane(channel);
//   lane.step({input(0).part(rank)}, {connection(next)});
//   lane.step({connection(previous), input(0).parts(rank - 1, -1, n)}, {connection(next)}).repeat(n - 2);
//
// Builders neither check nor sort: the verifier does.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "algorithms/builder/collective.h"
#include "program/program.h"

namespace eccl::algorithms {

/// An Operand under construction.
class Reference {
 public:
  explicit Reference(Space space) { operand_.space = space; }
  operator Operand() const { return operand_; }  // NOLINT: a Reference is an operand with setters

  Reference& block(Walk walk) {
    operand_.index = walk;
    return *this;
  }
  Reference& block(int index) { return block(Walk{index, 0, 0, 0}); }
  Reference& part(Walk walk) {
    operand_.part = walk;
    return *this;
  }
  Reference& part(int index) { return part(Walk{index, 0, 0, 0}); }
  /// This many contiguous parts as one piece.
  Reference& count(int parts) {
    operand_.count = parts;
    return *this;
  }
  /// Raw contribution: scaled as the reduction asks.
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

 private:
  Operand operand_;
};

inline Reference input(int block = 0) {
  return Reference(Space::input).block(block);
}
inline Reference output(int block = 0) {
  return Reference(Space::output).block(block);
}
inline Reference scratch(int block = 0) {
  return Reference(Space::scratch).block(block);
}
inline Reference connection(int index) {
  return Reference(Space::connection).block(index);
}
inline Reference connections(Walk walk) {
  return Reference(Space::connection).block(walk);
}

class Builder {
 public:
  /// The buffers' maps are set from the shape; scratch holds nothing until scratch() is called.
  Builder(const CollectiveShape& shape, int rank, int channels, int parts);

  /// A new connection end; returns its index.
  int sendTo(int peer, int channel, int tag = 0);
  int receiveFrom(int peer, int channel, int tag = 0);
  /// Scratch mirrors these blocks: each has the size of the block it mirrors.
  void scratch(BlockMap map) { program_.map(Space::scratch) = map; }
  void streams() { program_.streams = true; }
  /// For algorithms whose ranks send messages of different numbers of parts: the most of any rank. By default
  /// the most of this rank.
  void messageParts(int parts) { program_.messageParts = parts; }

  class StepRef {
   public:
    StepRef& repeat(int times) {
      step().repeat = times;
      return *this;
    }
    /// The result is final (see Step::post).
    StepRef& post() {
      step().post = true;
      return *this;
    }
    StepRef& after(int lane, int stepOfLane) {
      step().waitLane = lane;
      step().waitStep = stepOfLane;
      return *this;
    }
    StepRef& afterPreviousTile(int lane, int stepOfLane) {
      step().waitPreviousTile = true;
      return after(lane, stepOfLane);
    }
    /// Index of this step within its lane, for others to wait on.
    int index() const { return indexInLane_; }

   private:
    friend class Builder;
    StepRef(Program& program, int at, int indexInLane)
        : program_(program), at_(at), indexInLane_(indexInLane) {}
    Step& step() { return program_.steps[at_]; }
    Program& program_;
    int at_, indexInLane_;
  };

  /// Opens a lane; steps go to the lane opened last. Returns its index.
  int lane(int channel);
  StepRef step(std::span<const Operand> sources, std::span<const Operand> destinations);
  StepRef step(std::initializer_list<Operand> sources, std::initializer_list<Operand> destinations) {
    return step(std::span(sources.begin(), sources.size()),
                std::span(destinations.begin(), destinations.size()));
  }

  Program take() { return std::move(program_); }

 private:
  Program program_;
};

}  // namespace eccl::algorithms
