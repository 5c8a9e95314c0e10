// ECCL for C++17 and later. The handles of eccl.h become values that clean up after themselves, and its error
// codes become exceptions. The header needs no library beside libeccl.
//
//   eccl::Communicator communicator(size, id, rank);   // joins
//   eccl::MemBuffer<float> data(count);                // memory that the ranks on this host share
//   communicator.allReduce(data.data(), data.data(), data.size());
//
// Nothing is hidden: every class gives its handle, and every C function may be called beside it, checked by
// eccl::check(). eccl.h says what each call means; here is what C++ adds.
//
// Ownership: an object owns its handle and ends it when it is destroyed. Objects may be moved, not copied. A
// moved-from object may only be destroyed or assigned to. Buffers belong to the caller and must live until the
// operation is complete.
//
// Threads: as in eccl.h, any thread may make any call. Moving or destroying an object while another thread uses
// it is an error, as with any C++ object.
//
// Errors: functions throw eccl::Error. Destructors never throw; who wants to know how a Communicator, Group or
// Stream ended calls finalize(), end() or synchronize() first.
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

/// A call that failed. what() is the library's sentence: what happened, to whom and what to do. code() is the
/// number that the C API returned.
class Error : public std::runtime_error {
 public:
  Error(ecclResult_t code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ecclResult_t code() const noexcept { return code_; }

 private:
  ecclResult_t code_;
};

/// Throws Error unless `result` is ecclSuccess or, for non-blocking communicators, ecclInProgress. Use it
/// around any function of eccl.h, in the thread that called it.
inline void check(ecclResult_t result) {
  if (result == ecclSuccess || result == ecclInProgress) return;
  const char* sentence = ecclGetLastError(nullptr);
  throw Error(result, sentence != nullptr && *sentence != '\0' ? sentence : ecclGetErrorString(result));
}

/// The ecclDataType_t of a C++ type: int8 and uint8, 32-bit and 64-bit integers, float and double. Other types
/// do not compile. Elements that C++ has no type for (half, bfloat16, fp8) take the C functions, with handle().
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

/// An id for a new communicator. One rank makes it and copies its bytes to every other rank; with ECCL_COMM_ID
/// every rank makes its own. See ecclGetUniqueId().
inline ecclUniqueId uniqueId() {
  ecclUniqueId id;
  check(ecclGetUniqueId(&id));
  return id;
}

/// A queue of operations that complete in the order of their calls. Pass it as the last argument of a call. The
/// destructor waits for what is queued. Any thread; several communicators may share one.
class Stream {
 public:
  Stream() {
    ecclStream_t stream = nullptr;
    check(ecclStreamCreate(&stream));
    stream_ = Owned(stream);
  }
  /// Waits for everything queued so far. Throws the first error of it.
  void synchronize() { check(ecclStreamSynchronize(stream_.get())); }
  /// True when nothing is queued any more. Does not wait. Throws the error of what failed.
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

/// `size` elements of memory that the ranks on this host read and write in place, instead of copying it.
/// Zeroed, aligned to a page; no constructors run. It must outlive the operations that use it.
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

/// Collects the calls of this thread from its construction to end(), which issues them together and throws what
/// failed. Belongs to one thread. The destructor issues the calls if end() was not called, because a group
/// cannot be taken back; errors are then lost.
///
///   eccl::Group group;
///   communicator.send(out, count, right);
///   communicator.receive(in, count, left);
///   group.end();
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

/// One rank's membership in a communicator. The destructor finalizes, which needs the other ranks to do the
/// same. If it runs because of an exception, this rank has left the common order of calls: the destructor then
/// aborts, so that the other ranks get an error instead of waiting.
///
/// Counts are in elements of T; 0 is legal. Shapes and in-place rules are those of the C functions. Without a
/// stream a call on a blocking communicator returns when it is complete.
class Communicator {
 public:
  /// Joins as `rank` of `size` (0 <= rank < size). Returns when all ranks have joined; throws if some did not
  /// come within ECCL_INIT_TIMEOUT. With config->blocking = 0 it returns at once: poll asyncError().
  Communicator(int size, const ecclUniqueId& id, int rank, ecclConfig_t* config = nullptr) {
    check(ecclCommInitRankConfig(&comm_, size, id, rank, config));
  }
  /// Takes over a handle, which must not be ended elsewhere. NULL makes an empty object, which has no calls.
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

  /// `size` ranks in this process; the vector's index is the rank. Collectives on them take a thread for each,
  /// or a Group.
  static std::vector<Communicator> initAll(int size) {
    std::vector<ecclComm_t> handles(size > 0 ? static_cast<size_t>(size) : 0);
    check(ecclCommInitAll(handles.data(), size, nullptr));
    std::vector<Communicator> all;
    for (ecclComm_t handle : handles) all.emplace_back(handle);
    return all;
  }
  /// Collective. Ranks of equal color (>= 0) get a communicator, ordered by key, then by rank; ranks with
  /// ECCL_SPLIT_NOCOLOR get none. This one stays usable.
  std::optional<Communicator> split(int color, int key, ecclConfig_t* config = nullptr) {
    ecclComm_t child = nullptr;
    check(ecclCommSplit(comm_, color, key, &child, config));
    if (child == nullptr) return std::nullopt;
    return Communicator(child);
  }

  /// From 0.
  int rank() const { return number(ecclCommUserRank); }
  /// The number of ranks.
  int size() const { return number(ecclCommCount); }
  /// What the hosts are made of and where each rank runs, as JSON (docs/cluster.schema.json). The same on every
  /// rank. Not collective.
  std::string topology() const {
    size_t size = 0;
    check(ecclTopologyExport(comm_, nullptr, &size));
    std::string text(size, '\0');
    check(ecclTopologyExport(comm_, text.data(), &size));
    text.pop_back();  // the NUL
    return text;
  }
  /// The connections of this rank and what they have carried; see ecclCommGetConnections(). Not collective.
  std::vector<ecclConnectionInfo_t> connections() const {
    std::vector<ecclConnectionInfo_t> infos;
    size_t count = 0;
    check(ecclCommGetConnections(comm_, nullptr, &count));
    do {  // more may be made meanwhile
      infos.assign(count + 1, {});
      infos[0].size = sizeof infos[0];
      count = infos.size();
      check(ecclCommGetConnections(comm_, infos.data(), &count));
    } while (count > infos.size());
    infos.resize(count);
    return infos;
  }
  /// The microseconds that a collective is expected to take; see ecclCostEstimate(). Not collective.
  double estimate(ecclCollective_t collective, size_t count, ecclDataType_t type, int ranks = 0) const {
    double microseconds = 0;
    check(ecclCostEstimate(comm_, collective, count, type, ranks, &microseconds));
    return microseconds;
  }
  /// ecclSuccess, ecclInProgress while something goes on in the background, or the error that ended the
  /// communicator. Clears nothing, and does not throw it.
  ecclResult_t asyncError() const {
    ecclResult_t error = ecclSuccess;
    check(ecclCommGetAsyncError(comm_, &error));
    return error;
  }
  /// Waits for outstanding work, and until this rank's messages have been received. Collective; afterwards the
  /// object is good for destruction only.
  void finalize() { check(ecclCommFinalize(comm_)); }
  /// Ends every wait on this communicator and tells the other ranks; the object is empty afterwards. Any
  /// thread.
  void abort() { check(ecclCommAbort(std::exchange(comm_, nullptr))); }

  /// receive[count] on every rank = the reduction of send[count] over ranks. In place: send == receive.
  template <class T>
  void allReduce(const T* send, T* receive, size_t count, ecclRedOp_t op = ecclSum,
                 ecclStream_t stream = nullptr) {
    check(ecclAllReduce(send, receive, count, dataTypeOf<T>(), op, comm_, stream));
  }
  /// The same on `root` only; elsewhere `receive` may be null.
  template <class T>
  void reduce(const T* send, T* receive, size_t count, int root, ecclRedOp_t op = ecclSum,
              ecclStream_t stream = nullptr) {
    check(ecclReduce(send, receive, count, dataTypeOf<T>(), op, root, comm_, stream));
  }
  /// receive[receiveCount] = block rank() of the reduction of send[size() * receiveCount].
  template <class T>
  void reduceScatter(const T* send, T* receive, size_t receiveCount, ecclRedOp_t op = ecclSum,
                     ecclStream_t stream = nullptr) {
    check(ecclReduceScatter(send, receive, receiveCount, dataTypeOf<T>(), op, comm_, stream));
  }
  /// buffer[count] of every rank becomes that of `root`.
  template <class T>
  void broadcast(T* buffer, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclBroadcast(buffer, buffer, count, dataTypeOf<T>(), root, comm_, stream));
  }
  /// Block r of receive[size() * sendCount] = send[sendCount] of rank r, on every rank.
  template <class T>
  void allGather(const T* send, T* receive, size_t sendCount, ecclStream_t stream = nullptr) {
    check(ecclAllGather(send, receive, sendCount, dataTypeOf<T>(), comm_, stream));
  }
  /// The same on `root` only; elsewhere `receive` may be null.
  template <class T>
  void gather(const T* send, T* receive, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclGather(send, receive, count, dataTypeOf<T>(), root, comm_, stream));
  }
  /// receive[count] of rank r = block r of the root's send[size() * count]; elsewhere `send` may be null.
  template <class T>
  void scatter(const T* send, T* receive, size_t count, int root, ecclStream_t stream = nullptr) {
    check(ecclScatter(send, receive, count, dataTypeOf<T>(), root, comm_, stream));
  }
  /// Block d of rank s's send[size() * count] becomes block s of rank d's receive. Out of place only.
  template <class T>
  void allToAll(const T* send, T* receive, size_t count, ecclStream_t stream = nullptr) {
    check(ecclAlltoAll(send, receive, count, dataTypeOf<T>(), comm_, stream));
  }
  /// To the matching receive() of `peer`, in order. In a Group sends and receives go on at the same time.
  template <class T>
  void send(const T* buffer, size_t count, int peer, ecclStream_t stream = nullptr) {
    check(ecclSend(buffer, count, dataTypeOf<T>(), peer, comm_, stream));
  }
  /// From the matching send() of `peer`.
  template <class T>
  void receive(T* buffer, size_t count, int peer, ecclStream_t stream = nullptr) {
    check(ecclRecv(buffer, count, dataTypeOf<T>(), peer, comm_, stream));
  }
  /// Complete when every rank has called it.
  void barrier(ecclStream_t stream = nullptr) { check(ecclBarrier(comm_, stream)); }
  /// Waits for the calls without a stream of a non-blocking communicator. Throws the first error of them.
  void synchronize() { check(ecclCommSynchronize(comm_)); }

  /// For the functions of eccl.h. Still owned by this object.
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
