// An emulation of CUDA's driver, as far as ECCL's module and its tests use it: libcuda.so.1 for machines
// without a GPU. It is for tests, never installed.
//
// It is strict where a GPU is: the processor cannot touch device memory (its addresses are mapped without
// access, and the bytes lie elsewhere); freed memory is never given out again; NULL is the legacy stream, which
// waits for blocking streams and holds them back; host functions may not call CUDA; memory is freed when no
// stream has anything to do, and until then, as while a full stream takes no more, no thread gets into the
// driver. What breaks a rule fails, is counted (Control::violations) and said on stderr. A function that is not
// written is not found, by name.
//
// What it cannot show: a GPU's memory order, its timing, how many streams the hardware runs at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda_emulation/control.h"

namespace eccl::runtime::cuda {
/// The primary context of a device.
struct ContextOf {
  int ordinal;
};
/// A kernel, by its name.
struct FunctionOf;
/// A place in a stream or a graph.
struct EventOf;
}  // namespace eccl::runtime::cuda

namespace eccl::cuda_emulation {

using namespace runtime::cuda;

inline constexpr int kDevices = 2, kRoom = 24;

Control& control();
/// Counts and says a breach of the rules. Returns `code`.
DriverCode violation(DriverCode code, const char* format, ...) __attribute__((format(printf, 2, 3)));

/// All memory that CUDA knows. One for each process. Any thread.
class Memory {
 public:
  struct Block {
    MemoryType type;
    int ordinal;
    size_t bytes;
    char* data;   // where the processor finds it
    int fd = -1;  // device memory: its bytes
    bool freed = false;
    std::string borrowed;  // another process's: which
    bool mapped = false;   // by cuMemMap
    bool allowed = true;   // may be touched at all: after cuMemSetAccess
  };
  static Memory& get();
  Address allocate(MemoryType type, int ordinal, size_t bytes);
  DriverCode free(Address address, MemoryType type);
  /// A block for another process, and one of another process's.
  DriverCode lend(Address address, IpcHandle* handle);
  DriverCode borrow(const IpcHandle& handle, int ordinal, Address* address);
  /// What `address` is part of, or null. Freed memory is null too.
  const Block* find(Address address);
  /// Copies device memory to the processor, if it is still there.
  bool read(void* to, const void* from, size_t bytes);
  /// Whether it is, or was, CUDA's.
  bool knows(Address address);
  DriverCode rangeOf(Address address, Address* begin, size_t* bytes);
  /// A file for memory of a device; -1: there is no more. And whose a file is.
  static int file(int ordinal, size_t bytes);
  static int ordinalOf(int fd);
  /// Addresses, without access, at a multiple of kAlignment; 0: there are no more.
  static Address reserve(size_t bytes);
  /// What is in the file, which becomes this object's, at addresses that were reserved; and that it may be
  /// touched.
  DriverCode map(Address address, size_t bytes, int ordinal, int fd);
  DriverCode allowAt(Address address);
  DriverCode unmap(Address address);
  void forget(Address address, size_t bytes);
  /// Where the processor finds [address, address + bytes); null, and a violation that names `use`, if that is
  /// not all of one block.
  char* at(Address address, size_t bytes, const char* use);
  /// Between the two device memory can be touched at its addresses.
  void kernelBegins();
  void kernelEnds();

 private:
  static constexpr size_t kAlignment = 2 << 20;
  void allow(int protection);
  void release(Address address, Block& block);
  Address add(MemoryType type, int ordinal, size_t bytes, int fd);
  std::map<Address, Block>::iterator blockOf(Address address);

  std::mutex mutex_;
  std::map<Address, Block> blocks_;  // freed ones stay
  int kernels_ = 0;                  // that run
};

/// A stream's work, made in order by a thread of its own.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// Returns whether it is done; asked again, in a while, if it is not.
  using Work = std::function<bool()>;
  Stream(int device, bool blocks) : ordinal(device), blocking(blocks) {}
  const int ordinal;
  const bool blocking;  // as against the NULL stream
  /// While it is captured: into what, and behind which nodes. Under the driver's lock.
  std::shared_ptr<class Capture> capture;
  std::set<size_t> tips;

  static std::shared_ptr<Stream> make(int ordinal, bool blocking);
  /// The live stream of that handle; NULL and 1 are the legacy stream of `ordinal`. Null if there is none.
  static std::shared_ptr<Stream> of(NativeStream handle, int ordinal);
  static bool drop(NativeStream handle);
  NativeStream handle() { return reinterpret_cast<NativeStream>(this); }

  /// Or, while it is captured, gives it to the graph.
  void put(Work work);
  /// How much it has been given; and whether it has come so far.
  uint64_t given();
  bool made(uint64_t count);
  bool idle();
  void await();
  /// Returns when no stream of the process has anything to do.
  static void awaitAll();

 private:
  struct Item {
    Work work;
    std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> after;  // streams, and how far they have to be
  };
  void run();

  std::deque<Item> queue_;  // the following under the one mutex of all streams
  uint64_t put_ = 0, made_ = 0;
  bool dropped_ = false;
};

/// Whether this thread is in a host function.
bool& inHostFunction();

/// The kernel of that name; null if there is none.
Function kernelOf(const char* name);
/// Runs a kernel to its end: each block is some threads, and all blocks of all kernels are there at once. A
/// device has room for kRoom of them. A violation, where more are asked for, as a GPU may then wait for ever.
void runKernel(Function kernel, unsigned blocks, const std::vector<std::byte>& arguments, int ordinal);
/// Bytes of a kernel's arguments.
size_t argumentBytes(Function kernel);

}  // namespace eccl::cuda_emulation
