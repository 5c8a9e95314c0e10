// ECCL for C++17 and later: eccl.h's handles as values that clean up after themselves, and its error codes as exceptions.
// Nothing is hidden: every class gives its handle, and every C function may be called beside it.
//
// Threads and lifetime are the C API's. Objects may be moved, not copied; a moved-from object may only be
// destroyed or assigned to. Buffers belong to the caller and must live until the operation is complete.
#ifndef ECCL_ECCL_HPP_
#define ECCL_ECCL_HPP_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eccl/eccl.h"

namespace eccl {
// The library itself is written in namespace eccl; this keeps its symbols apart where both are in one program.
inline namespace cpp {

/// A call that failed: what() is the library's sentence, code() the C API's number.
class Error : public std::runtime_error {
 public:
  Error(ecclResult_t code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ecclResult_t code() const noexcept { return code_; }

 private:
  ecclResult_t code_;
};

/// Throws unless `result` is ecclSuccess or, for non-blocking communicators, ecclInProgress. For all functions
/// of eccl.h.
inline void check(ecclResult_t result) {
  if (result == ecclSuccess || result == ecclInProgress) return;
  const char* sentence = ecclGetLastError(nullptr);
  throw Error(result, sentence != nullptr && *sentence != '\0' ? sentence : ecclGetErrorString(result));
}

/// The ecclDataType_t of a C++ type. For those without one (half, bfloat16, f8), see the calls that take a
/// type.
template <class T>
constexpr ecclDataType_t dataTypeOf() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, "pass the ecclDataType_t explicitly");
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "there is no data type for long double");
    return sizeof(T) == 4 ? ecclFloat32 : ecclFloat64;
  } else {
    static_assert(sizeof(T) != 2, "there are no 16-bit integers");
    if (sizeof(T) == 1) return std::is_signed_v<T> ? ecclInt8 : ecclUint8;
    if (sizeof(T) == 4) return std::is_signed_v<T> ? ecclInt32 : ecclUint32;
    return std::is_signed_v<T> ? ecclInt64 : ecclUint64;
  }
}

namespace detail {
/// A handle with one owner. Free(handle) is called at most once.
template <class Handle, auto Free>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) Free(handle_);
  }
  Handle get() const noexcept { return handle_; }
  Handle release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_ = nullptr;
};
}  // namespace detail

/// An id for a new communicator; copy its bytes to every rank.
inline ecclUniqueId uniqueId() {
  ecclUniqueId id;
  check(ecclGetUniqueId(&id));
  return id;
}

/// An ordered queue of operations. Destruction waits for what is queued.
class Stream {
 public:
  Stream() {
    ecclStream_t stream = nullptr;
    check(ecclStreamCreate(&stream));
    stream_ = Owned(stream);
  }
  /// Waits for everything queued so far; throws the first error of it.
  void synchronize() { check(ecclStreamSynchronize(stream_.get())); }
  /// True when nothing is queued any more; throws the error of what failed.
  bool done() {
    const ecclResult_t result = ecclStreamQuery(stream_.get());
    check(result);
    return result == ecclSuccess;
  }
  ecclStream_t handle() const noexcept { return stream_.get(); }
  operator ecclStream_t() const noexcept { return handle(); }  // NOLINT: it is one

 private:
  using Owned = detail::Owned<ecclStream_t, ecclStreamDestroy>;
  Owned stream_;
};

/// Memory that ranks on this host read in place: `size` elements, aligned to a page, not initialised.
template <class T>
class MemBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit MemBuffer(size_t size) : size_(size) {
    if (size > SIZE_MAX / sizeof(T)) throw Error(ecclInvalidArgument, "MemBuffer: the size overflows");
    void* memory = nullptr;
    check(ecclMemAlloc(&memory, size * sizeof(T)));
    memory_ = Owned(memory);
  }
  T* data() const noexcept { return static_cast<T*>(memory_.get()); }
  size_t size() const noexcept { return size_; }
  T& operator[](size_t i) const noexcept { return data()[i]; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }

 private:
  using Owned = detail::Owned<void*, ecclMemFree>;
  Owned memory_;
  size_t size_;
};

/// Between construction and end(), calls of this thread are collected; end() issues them together and throws
/// what failed. The destructor issues them as well if end() was not called, because a group cannot be taken
/// back, but then nobody hears of errors.
class Group {
 public:
  Group() { check(ecclGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) ecclGroupEnd();
  }
  void end() {
    open_ = false;
    check(ecclGroupEnd());
  }

 private:
  bool open_ = true;
};

/// One rank's membership. The destructor finalizes, which needs the other ranks to do the same; if it runs
/// because of an exception they may never get there, so then it aborts.
class Communicator {
 public:
  /// Joins as `rank` of `size`; returns when all have joined.
  Communicator(int size, const ecclUniqueId& id, int rank, ecclConfig_t* config = nullptr) {
    check(ecclCommInitRankConfig(&comm_, size, id, rank, config));
  }
  /// Takes over a handle; NULL makes an empty object.
  explicit Communicator(ecclComm_t comm) noexcept : comm_(comm) {}
  Communicator(Communicator&& other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)), exceptions_(other.exceptions_) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(exceptions_, other.exceptions_);
    return *this;
  }
  ~Communicator() {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_) {
      ecclCommAbort(comm_);
    } else {
      ecclCommDestroy(comm_);
    }
  }

  /// `size` ranks in this process.
  static std::vector<Communicator> initAll(int size) {
    std::vector<ecclComm_t> handles(size > 0 ? static_cast<size_t>(size) : 0);
    check(ecclCommInitAll(handles.data(), size, nullptr));
    std::vector<Communicator> all;
    for (ecclComm_t handle : handles) all.emplace_back(handle);
    return all;
  }
  /// Nothing for color == ECCL_SPLIT_NOCOLOR. Collective.
  std::optional<Communicator> split(int color, int key, ecclConfig_t* config = nullptr) {
    ecclComm_t child = nullptr;
    check(ecclCommSplit(comm_, color, key, &child, config));
    if (child == nullptr) return std::nullopt;
    return Communicator(child);
  }

  int rank() const { return number(ecclCommUserRank); }
  int size() const { return number(ecclCommCount); }
  /// What the hosts are made of and where each rank runs, as JSON.
  std::string topology() const {
    size_t size = 0;
    check(ecclTopologyExport(comm_, nullptr, &size));
    std::string text(size, '\0');
    check(ecclTopologyExport(comm_, text.data(), &size));
    text.pop_back();  // the NUL
    return text;
  }
  /// Microseconds; see ecclCostEstimate().
  double estimate(ecclCollective_t collective, size_t count, ecclDataType_t type, int ranks = 0) const {
    double microseconds = 0;
    check(ecclCostEstimate(comm_, collective, count, type, ranks, &microseconds));
    return microseconds;
  }
  /// Reports and clears nothing: ecclSuccess, ecclInProgress or what went wrong in the background.
  ecclResult_t asyncError() const {
    ecclResult_t error = ecclSuccess;
    check(ecclCommGetAsyncError(comm_, &error));
    return error;
  }
  /// Collective; the object is then good for destruction only.
  void finalize() { check(ecclCommFinalize(comm_)); }
  /// Ends every wait on this communicator; the object is empty afterwards.
  void abort() { check(ecclCommAbort(std::exchange(comm_, nullptr))); }

  template <class T>
  void allReduce(const T* send, T* receive, size_t count, ecclRedOp_t op = ecclSum,
                 ecclStream_t stream = nullptr) {
    check(ecclAllReduce(send, receive, count, dataTypeOf<T>(), op, comm_, stream));
  }
  template <class T>
  void reduce(const T* send, T* receive, size_t count, int root, ecclRedOp_t op = ecclSum,
              ecclStream_t stream = nullptr) {
    check(ecclReduce(send, receive, count, dataTypeOf<T>(), op, root, comm_, stream));
  }
  template <class T>
  void reduceScatter(const T* send, T* receive, size_t receiveCount, ecclRedOp_t op = ecclSum,
                     ecclStream_t stream = nullptr) {
    check(ecclReduceScatter(send, receive, receiveCount, dataTypeOf<T>(), op, comm_, stream));
  }
  template <class T>
  void broadcast(T* buffer, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclBroadcast(buffer, buffer, count, dataTypeOf<T>(), root, comm_, stream));
  }
  template <class T>
  void allGather(const T* send, T* receive, size_t sendCount, ecclStream_t stream = nullptr) {
    check(ecclAllGather(send, receive, sendCount, dataTypeOf<T>(), comm_, stream));
  }
  template <class T>
  void gather(const T* send, T* receive, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclGather(send, receive, count, dataTypeOf<T>(), root, comm_, stream));
  }
  template <class T>
  void scatter(const T* send, T* receive, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclScatter(send, receive, count, dataTypeOf<T>(), root, comm_, stream));
  }
  template <class T>
  void allToAll(const T* send, T* receive, size_t count, ecclStream_t stream = nullptr) {
    check(ecclAlltoAll(send, receive, count, dataTypeOf<T>(), comm_, stream));
  }
  template <class T>
  void send(const T* buffer, size_t count, int peer, ecclStream_t stream = nullptr) {
    check(ecclSend(buffer, count, dataTypeOf<T>(), peer, comm_, stream));
  }
  template <class T>
  void receive(T* buffer, size_t count, int peer, ecclStream_t stream = nullptr) {
    check(ecclRecv(buffer, count, dataTypeOf<T>(), peer, comm_, stream));
  }
  void barrier(ecclStream_t stream = nullptr) { check(ecclBarrier(comm_, stream)); }
  /// Waits for the calls without a stream of a non-blocking communicator; throws the first error of them.
  void synchronize() { check(ecclCommSynchronize(comm_)); }

  ecclComm_t handle() const noexcept { return comm_; }

 private:
  int number(ecclResult_t (*query)(ecclComm_t, int*)) const {
    int value = -1;
    check(query(comm_, &value));
    return value;
  }

  ecclComm_t comm_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace cpp
}  // namespace eccl

#endif  // ECCL_ECCL_HPP_
