// Errors are values. Every call that can fail returns Status, or Result<T> when it has something to give.
//
// The first function to identify an error writes the sentence (rank, peer, operation, path, remedy) and
// logs it; everybody above passes the Status on unchanged. No exception leaves the library: what the standard
// library throws (there is no memory, no thread to be had) is caught where calls and threads begin, by
// guarded().
#pragma once

#include <cstdarg>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace eccl {

/// Values are ecclResult_t's.
enum class Code : uint8_t {
  ok = 0,
  system = 2,
  internal = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remote = 6,
  inProgress = 7,
  timeout = 8,
};

std::string format(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
std::string formatList(const char* fmt, va_list args);

/// Neither making nor copying one throws: errors are passed on where there is no memory, too.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status error(Code code, const char* fmt, ...) noexcept __attribute__((format(printf, 2, 3)));
  /// "<what happened>: <strerror(errnum)>", code system.
  static Status fromErrno(int errnum, const char* fmt, ...) noexcept __attribute__((format(printf, 2, 3)));

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  /// Empty if ok. Valid as long as this Status or a copy of it.
  const std::string& message() const noexcept;
  /// For the rare place where a failure truly has no consequence; say why beside it.
  void ignore() const {}

 private:
  Code code_ = Code::ok;
  std::shared_ptr<const std::string> message_;  // null: ok, or there was no memory for it
};

/// What is being thrown, as a Status; call it in a catch block. `where`: a function or thread, for the message.
Status statusOfException(const char* where) noexcept;

/// Runs `body`, which returns a Status, and turns what it throws into one.
template <class Body>
Status guarded(const char* where, Body&& body) noexcept {
  try {
    return body();
  } catch (...) { return statusOfException(where); }
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T take() { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

#define ECCL_CONCAT_(a, b) a##b
#define ECCL_CONCAT(a, b) ECCL_CONCAT_(a, b)
/// Returns the Status of `expression` from this function unless it is ok.
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
