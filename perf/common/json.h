// Writes one JSON document, value by value, straight to a file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace eccl::perf {

/// Owner: whoever has the file; the file must outlive the writer. One thread. Calls out of order (a value
/// in an object without a key) are bugs of the caller and assert.
class JsonWriter {
 public:
  explicit JsonWriter(FILE* file) : file_(file) {}

  JsonWriter& key(const char* name);
  void beginObject() { open('{', '}'); }
  void beginList() { open('[', ']'); }
  void end();
  /// Any bytes: what is not UTF-8 is escaped byte by byte.
  void string(const std::string& text);
  void integer(int64_t value);
  /// Six decimals; what JSON has no number for becomes a string, as in nccl-tests ("nan", "inf").
  void real(double value);
  void null();
  /// nccl-tests writes truth values as strings.
  void truth(bool value) { string(value ? "true" : "false"); }
  /// Ends what is open until `depth` objects and lists are: a run that was cut short still leaves a whole
  /// document.
  void unwind(size_t depth);
  void finish();

 private:
  struct Level {
    char closing;
    bool empty = true;
  };
  void open(char opening, char closing);
  void separate();

  FILE* file_;
  std::vector<Level> levels_;
  bool afterKey_ = false;
};

}  // namespace eccl::perf
