// Programs to text and back: one function for each kind of line, in each direction.
#include "program/text.h"

#include <charconv>
#include <limits>
#include <optional>

namespace eccl {
namespace {

constexpr const char* kSpaces[] = {"input", "output", "scratch", "connection"};

// ---------------------------------------------------------------------------------------------------- dump

std::string textOf(const Walk& walk) {
  if (walk == Walk{walk.base, 0, 0, 0}) return format("%d", walk.base);
  std::string text = format("%d+(%d%+d*i)", walk.base, walk.start, walk.stride);
  return walk.wrap == 0 ? text : text + format("%%%d", walk.wrap);
}

std::string textOf(const Operand& operand) {
  std::string text = format("%s[%s]", kSpaces[static_cast<int>(operand.space)], textOf(operand.index).c_str());
  if (operand.space != Space::connection || operand.part != Walk{}) {
    text += format(".part[%s]", textOf(operand.part).c_str());
  }
  if (operand.count != 1) text += format(" count %d", operand.count);
  if (operand.pre) text += " pre";
  if (operand.stable) text += " stable";
  if (operand.posted) text += " posted";
  if (operand.placed) text += " placed";
  if (operand.pushed) text += " pushed";
  return text;
}

std::string textOf(const Operand* operands, int number) {
  if (number == 0) return "nothing";
  std::string text = textOf(operands[0]);
  for (int i = 1; i < number; ++i) text += ", " + textOf(operands[i]);
  return text;
}

std::string textOf(const Program& program, const Step& step) {
  const Operand* operands = program.operands.data() + step.firstOperand;
  std::string text = "  step " + textOf(operands, step.sources);
  text += " -> " + textOf(operands + step.sources, step.destinations);
  if (step.repeat != 1) text += format(" repeat %d", step.repeat);
  if (step.post) text += " post";
  if (step.waitLane != kNoLane || step.waitStep != 0 || step.waitPreviousTile) {
    text += format(" wait lane %d step %d", step.waitLane, step.waitStep);
    if (step.waitPreviousTile) text += " previous-tile";
  }
  return text + "\n";
}

// --------------------------------------------------------------------------------------------------- parse

/// Reads one line from left to right. After the first thing that is not as expected every call fails, and
/// error() is about that thing.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text.substr(0, text.find('#'))) { skipBlanks(); }

  bool empty() const { return rest_.empty(); }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

  /// Whether the line goes on with this; if so, moves behind it.
  bool accept(std::string_view word) {
    if (failed() || rest_.substr(0, word.size()) != word) return false;
    // "part" is not the beginning of "parts".
    if (isLetter(word.back()) && rest_.size() > word.size() && isLetter(rest_[word.size()])) return false;
    rest_.remove_prefix(word.size());
    skipBlanks();
    return true;
  }
  void expect(const char* word) {
    if (!accept(word)) expected(format("'%s'", word));
  }
  void expectEnd() {
    if (!rest_.empty()) expected("the end of the line");
  }
  template <class T = int32_t>
  T number() {
    T value = 0;
    const char* end = rest_.data() + rest_.size();
    auto [behind, wrong] = std::from_chars(rest_.data(), end, value);
    if (failed() || wrong != std::errc()) {
      expected(format("a number from %d to %d", std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      return 0;
    }
    rest_.remove_prefix(static_cast<size_t>(behind - rest_.data()));
    skipBlanks();
    return value;
  }
  /// The number after a word.
  template <class T = int32_t>
  T number(const char* word) {
    expect(word);
    return number<T>();
  }
  void expected(const std::string& what) {
    if (failed()) return;
    std::string found(rest_.substr(0, 30));
    for (char& c : found) c = c < ' ' || c > '~' ? '?' : c;
    error_ = "expected " + what + (found.empty() ? ", found the end of the line" : ", found '" + found + "'");
  }
  void fail(const std::string& why) {
    if (!failed()) error_ = why;
  }

 private:
  static bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  void skipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  std::string_view rest_;
  std::string error_;
};

/// A number with its sign, as in "-1*i".
int32_t signedNumber(Line& line) {
  if (line.accept("+")) return line.number();
  return line.number();  // takes the minus itself
}

Walk parseWalk(Line& line) {
  Walk walk;
  line.expect("[");
  walk.base = line.number();
  if (line.accept("+")) {
    line.expect("(");
    walk.start = line.number();
    walk.stride = signedNumber(line);
    line.expect("*");
    line.expect("i");
    line.expect(")");
    if (line.accept("%")) walk.wrap = line.number();
  }
  line.expect("]");
  return walk;
}

Operand parseOperand(Line& line) {
  Operand operand;
  int space = 0;
  while (space < 4 && !line.accept(kSpaces[space])) ++space;
  if (space == 4) {
    line.expected("input, output, scratch, connection or nothing");
    return operand;
  }
  operand.space = static_cast<Space>(space);
  operand.index = parseWalk(line);
  if (line.accept(".")) {
    line.expect("part");
    operand.part = parseWalk(line);
  } else if (operand.space != Space::connection) {
    line.expected("'.part['");
  }
  if (line.accept("count")) operand.count = line.number();
  operand.pre = line.accept("pre");
  operand.stable = line.accept("stable");
  operand.posted = line.accept("posted");
  operand.placed = line.accept("placed");
  operand.pushed = line.accept("pushed");
  return operand;
}

/// Appends operands; returns how many.
uint8_t parseOperands(Line& line, std::vector<Operand>& operands) {
  if (line.accept("nothing")) return 0;
  for (int number = 1; !line.failed(); ++number) {
    operands.push_back(parseOperand(line));
    if (!line.accept(",")) return static_cast<uint8_t>(number);
    if (number == kMaxOperands) line.fail(format("a step has more than %d operands on one side", kMaxOperands));
  }
  return 0;
}

void parseStep(Line& line, Program& program) {
  if (program.lanes.empty()) return line.fail("a step comes before the first lane");
  Step step;
  step.firstOperand = static_cast<int32_t>(program.operands.size());
  step.sources = parseOperands(line, program.operands);
  line.expect("->");
  step.destinations = parseOperands(line, program.operands);
  if (line.accept("repeat")) step.repeat = line.number();
  step.post = line.accept("post");
  if (line.accept("wait")) {
    step.waitLane = line.number("lane");
    step.waitStep = line.number("step");
    step.waitPreviousTile = line.accept("previous-tile");
  }
  program.steps.push_back(step);
  ++program.lanes.back().steps;
}

void parseLane(Line& line, Program& program) {
  const int32_t index = line.number(), channel = line.number("channel");
  if (index != static_cast<int64_t>(program.lanes.size())) {
    line.fail(format("lane %d follows %zu others: lanes are counted from 0", index, program.lanes.size()));
  }
  program.lanes.push_back({static_cast<int32_t>(program.steps.size()), 0, channel});
}

void parseConnection(Line& line, Program& program) {
  const int32_t index = line.number();
  if (index != static_cast<int64_t>(program.connections.size())) {
    line.fail(format("connection %d follows %zu others: connections are counted from 0", index,
                     program.connections.size()));
  }
  ConnectionSpec spec;
  spec.sends = line.accept("send");
  if (!spec.sends) line.expect("receive");
  spec.peer = line.number(spec.sends ? "to" : "from");
  spec.channel = line.number<int16_t>("channel");
  spec.tag = line.number<int16_t>("tag");
  program.connections.push_back(spec);
}

BlockMap parseMap(Line& line) {
  BlockMap map;
  map.number = line.number("blocks");
  map.first = line.number("first");
  map.stride = line.number("stride");
  return map;
}

Program parseProgram(Line& line) {
  Program program;
  int collective = 0;
  while (collective < kCollectives && !line.accept(nameOf(static_cast<Collective>(collective)))) ++collective;
  if (collective == kCollectives) {
    line.expected("the name of a collective");
    return program;
  }
  program.collective = static_cast<Collective>(collective);
  program.rank = line.number("rank");
  program.ranks = line.number("of");
  program.root = line.number("root");
  program.parts = line.number("parts");
  program.channels = line.number("channels");
  program.messageParts = line.accept("message-parts") ? line.number() : 1;
  program.streams = line.accept("streams");
  return program;
}

void parseLine(Line& line, std::vector<Program>& programs) {
  if (line.accept("program")) {
    programs.push_back(parseProgram(line));
    return line.expectEnd();
  }
  if (programs.empty()) return line.expected("'program'");
  Program& program = programs.back();
  if (line.accept("step")) {
    parseStep(line, program);
  } else if (line.accept("lane")) {
    parseLane(line, program);
  } else if (line.accept("connection")) {
    parseConnection(line, program);
  } else {
    int space = 0;
    while (space < kMemorySpaces && !line.accept(kSpaces[space])) ++space;
    if (space == kMemorySpaces)
      return line.expected("program, input, output, scratch, connection, lane or step");
    program.maps[space] = parseMap(line);
  }
  line.expectEnd();
}

}  // namespace

std::string dump(const Program& program) {
  const std::string longest =
      program.messageParts == 1 ? "" : format(" message-parts %d", program.messageParts);
  std::string text =
      format("program %s rank %d of %d root %d parts %d channels %d%s%s\n", nameOf(program.collective),
             program.rank, program.ranks, program.root, program.parts, program.channels, longest.c_str(),
             program.streams ? " streams" : "");
  for (int space = 0; space < kMemorySpaces; ++space) {
    const BlockMap& map = program.maps[space];
    if (map == BlockMap{}) continue;
    text += format("%s blocks %d first %d stride %d\n", kSpaces[space], map.number, map.first, map.stride);
  }
  for (size_t i = 0; i < program.connections.size(); ++i) {
    const ConnectionSpec& spec = program.connections[i];
    text += format("connection %zu %s %d channel %d tag %d\n", i, spec.sends ? "send to" : "receive from",
                   spec.peer, spec.channel, spec.tag);
  }
  for (size_t i = 0; i < program.lanes.size(); ++i) {
    const Lane& lane = program.lanes[i];
    text += format("lane %zu channel %d\n", i, lane.channel);
    for (int s = 0; s < lane.steps; ++s) text += textOf(program, program.steps[lane.firstStep + s]);
  }
  return text;
}

std::string dumpSchedule(const std::vector<Program>& programs) {
  std::string text;
  for (const Program& program : programs) text += dump(program);
  return text;
}

Result<std::vector<Program>> parse(std::string_view text) {
  std::vector<Program> programs;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    parseLine(line, programs);
    if (line.failed()) return Status::error(Code::invalidArgument, "line %d: %s", number, line.error().c_str());
  }
  if (programs.empty()) return Status::error(Code::invalidArgument, "the text describes no program");
  return programs;
}

}  // namespace eccl
