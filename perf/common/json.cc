#include "common/json.h"

#include <cassert>
#include <cinttypes>
#include <cmath>

namespace eccl::perf {
namespace {

// Length of the well-formed UTF-8 sequence at `at`, 0 if there is none (RFC 3629, shortest forms only).
size_t sequenceLength(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : (lead & 0xf0) == 0xe0       ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = length > 1 ? byte(at + 1) : 0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || outside ? 0 : length;
}

}  // namespace

// The comma before a value, unless it is the first one or follows its key.
void JsonWriter::separate() {
  if (afterKey_) {
    afterKey_ = false;
    return;
  }
  if (levels_.empty()) return;
  assert(levels_.back().closing == ']' && "a value in an object needs a key");
  if (!levels_.back().empty) std::fputc(',', file_);
  levels_.back().empty = false;
}

JsonWriter& JsonWriter::key(const char* name) {
  assert(!levels_.empty() && levels_.back().closing == '}' && !afterKey_);
  if (!levels_.back().empty) std::fputc(',', file_);
  levels_.back().empty = false;
  afterKey_ = true;
  string(name);
  std::fputc(':', file_);
  afterKey_ = true;
  return *this;
}

void JsonWriter::open(char opening, char closing) {
  separate();
  std::fputc(opening, file_);
  levels_.push_back({closing});
}

void JsonWriter::end() {
  assert(!levels_.empty());
  if (afterKey_) null();
  std::fputc(levels_.back().closing, file_);
  levels_.pop_back();
}

void JsonWriter::string(const std::string& text) {
  separate();
  std::fputc('"', file_);
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequenceLength(text, at);
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (length == 0 || c < 0x20 || c == 0x7f) {
      std::fprintf(file_, "\\u%04x", c);
    } else {
      if (c == '"' || c == '\\') std::fputc('\\', file_);
      std::fwrite(&text[at], 1, length, file_);
    }
    at += length == 0 ? 1 : length;
  }
  std::fputc('"', file_);
}

void JsonWriter::integer(int64_t value) {
  separate();
  std::fprintf(file_, "%" PRId64, value);
}

void JsonWriter::real(double value) {
  if (!std::isfinite(value)) return string(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  separate();
  std::fprintf(file_, "%f", value);
}

void JsonWriter::null() {
  separate();
  std::fputs("null", file_);
}

void JsonWriter::unwind(size_t depth) {
  while (levels_.size() > depth) end();
}

void JsonWriter::finish() {
  unwind(0);
  std::fputc('\n', file_);
}

}  // namespace eccl::perf
