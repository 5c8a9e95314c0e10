#include "algorithms/builder/builder.h"

#include <algorithm>

namespace eccl::algorithms {

Builder::Builder(const CollectiveShape& shape, int rank, int channels, int parts) {
  program_.collective = shape.collective;
  program_.rank = rank;
  program_.ranks = shape.ranks;
  program_.root = shape.root;
  program_.parts = parts;
  program_.channels = channels;
  program_.map(Space::input) = shape.input(rank);
  program_.map(Space::output) = shape.output(rank);
}

int Builder::sendTo(int peer, int channel, int tag) {
  program_.connections.push_back({peer, true, static_cast<int16_t>(channel), static_cast<int16_t>(tag)});
  return static_cast<int>(program_.connections.size()) - 1;
}

int Builder::receiveFrom(int peer, int channel, int tag) {
  program_.connections.push_back({peer, false, static_cast<int16_t>(channel), static_cast<int16_t>(tag)});
  return static_cast<int>(program_.connections.size()) - 1;
}

int Builder::lane(int channel) {
  program_.lanes.push_back({static_cast<int32_t>(program_.steps.size()), 0, channel});
  return static_cast<int>(program_.lanes.size()) - 1;
}

Builder::StepRef Builder::step(std::span<const Operand> sources, std::span<const Operand> destinations) {
  Step step;
  step.firstOperand = static_cast<int32_t>(program_.operands.size());
  step.sources = static_cast<uint8_t>(sources.size());
  step.destinations = static_cast<uint8_t>(destinations.size());
  program_.operands.insert(program_.operands.end(), sources.begin(), sources.end());
  program_.operands.insert(program_.operands.end(), destinations.begin(), destinations.end());
  program_.steps.push_back(step);
  for (const Operand& operand : sources) program_.messageParts = std::max(program_.messageParts, operand.count);
  for (const Operand& operand : destinations)
    program_.messageParts = std::max(program_.messageParts, operand.count);
  int index = program_.lanes.back().steps++;
  return StepRef(program_, static_cast<int>(program_.steps.size()) - 1, index);
}

}  // namespace eccl::algorithms
