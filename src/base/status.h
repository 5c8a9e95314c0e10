// Errors are values. Every call that can fail returns Status, or Result<T> when it has something to return.
//
// The first function to identify an error writes the sentence (rank, peer, operation, path, remedy) and logs
// it. Everybody above passes the Status on unchanged. No exception leaves the library: what the standard
// library throws (no memory, no thread to be had) is caught by guarded() where calls and threads begin.
//
// Threads: Status and Result are values; copies may be used in different threads.
#pragma once

#include <cstdarg>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace eccl {

/// What kind of error it is. Values are ecclResult_t's; eccl.h says what each means to users.
enum class Code : uint8_t {
  ok = 0,
  device = 1,
  system = 2,
  internal = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remote = 6,
  inProgress = 7,
  timeout = 8,
};

/// printf's formats, as a string. Throws bad_alloc only.
std::string format(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
/// As format(), from a list of arguments, which is used up.
std::string formatList(const char* fmt, va_list args);

/// Success, or a code and a sentence. Neither making nor copying one throws, so that errors are passed on
/// where there is no memory, too.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// An error with a sentence: what happened, to whom, and what to do. Control characters in it are made
  /// visible (base/printable.h). Without memory for the sentence the code is kept alone. `code` is not ok.
  /// Does not log; see logged().
  static Status error(Code code, const char* fmt, ...) noexcept __attribute__((format(printf, 2, 3)));
  /// An error of code system: "<what happened>: <strerror(errnum)>".
  static Status fromErrno(int errnum, const char* fmt, ...) noexcept __attribute__((format(printf, 2, 3)));

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  /// The sentence, empty if ok. Valid as long as this Status or a copy of it.
  const std::string& message() const noexcept;
  /// For the rare place where a failure truly has no consequence. Say why beside it.
  void ignore() const {}

 private:
  Code code_ = Code::ok;
  std::shared_ptr<const std::string> message_;  // null: ok, or there was no memory for it
};

/// The exception that is being handled, as a Status: system for want of memory or of a resource, internal for
/// anything else, which is a defect. Call it in a catch block. `where`: a function or thread, for the
/// message. Not logged.
Status statusOfException(const char* where) noexcept;

/// Runs `body`, which returns a Status, and turns what it throws into one (statusOfException()). Not logged.
template <class Body>
Status guarded(const char* where, Body&& body) noexcept {
  try {
    return body();
  } catch (...) { return statusOfException(where); }
}

/// A value, or the error that says why there is none. Functions return either of the two as it is; an ok
/// Status is no result.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  /// ok if there is a value, else the error.
  const Status& status() const { return status_; }
  /// The value. Undefined if there is none: ask ok() first, or use ECCL_ASSIGN.
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  /// Moves the value out. Undefined if there is none. ok() stays true, but the value is used up.
  T take() { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

#define ECCL_CONCAT_(a, b) a##b
#define ECCL_CONCAT(a, b) ECCL_CONCAT_(a, b)
/// Returns the Status of `expression` from this function unless it is ok. The function returns Status or a
/// Result:
///   Result<Fd> openChecked() {
///     ECCL_TRY(check());
///     ECCL_ASSIGN(Fd fd, open());
///     return fd;
///   }
#define ECCL_TRY(expression)                                                                 \
  do {                                                                                       \
    if (::eccl::Status eccl_status_ = (expression); !eccl_status_.ok()) return eccl_status_; \
  } while (0)
/// `ECCL_ASSIGN(auto x, f());`: x = the value, or return the Status.
#define ECCL_ASSIGN(target, expression) ECCL_ASSIGN_(target, expression, ECCL_CONCAT(eccl_result_, __LINE__))
#define ECCL_ASSIGN_(target, expression, name) \
  auto name = (expression);                    \
  if (!name.ok()) return name.status();        \
  target = name.take()

}  // namespace eccl
