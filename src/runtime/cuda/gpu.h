// One GPU as this process uses it: its context, and host memory that it reaches.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/data_type.h"
#include "runtime/cuda/driver.h"

namespace eccl::runtime::cuda {

/// A word of host memory that streams wait for and write. It only rises, but for a captured call's.
struct Word {
  uint64_t* host = nullptr;
  Address device = 0;
  uint64_t value = 0;  ///< what it holds when all that was asked for has happened

  bool reached(uint64_t least) const { return static_cast<int64_t>(since(least)) >= 0; }
  uint64_t since(uint64_t first) const { return __atomic_load_n(host, __ATOMIC_ACQUIRE) - first; }
};

/// Pinned host memory, as large as asked for or larger.
struct Pinned {
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

/// Blocks that processes share are multiples of this, and begin at such: the driver gives memory out in pages
/// of so many bytes, and a borrower would reach what else lies in one.
inline constexpr size_t kPage = 2 << 20;
constexpr size_t inPages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/// Owner: the process, for ever, and so is all memory that it has taken: the driver frees pinned memory only
/// when no stream waits for anything, and a stream may wait for the thread that frees. Any thread.
class Gpu {
 public:
  /// The GPU of this number, or, if it is negative, the one that is current in this thread. Its primary context
  /// is the one that CUDA's runtime uses. Errors: Driver::get()'s; there is no such device (invalidArgument);
  /// it cannot do what is needed (system).
  static Result<Gpu*> of(int ordinal);

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  Context context() const { return context_; }
  /// "CUDA device 0 (NVIDIA H100 80GB HBM3)"
  const std::string& name() const { return name_; }
  /// Other GPUs of this process that reach its memory.
  const std::vector<int>& peers() const { return peers_; }
  /// What memory of it is that other processes can map (mapped_block.h); nothing: there is none.
  const std::optional<MemoryProperties>& mappedMemory() const { return mappedMemory_; }
  /// Whether parts of its memory can be had as dma-bufs; and whether its kernels see what another device writes
  /// there when the host has been told of it.
  bool exportsDmabufs() const { return valueOf(kCanExportDmabufs) != 0; }
  bool ordersRdmaWrites() const;
  /// The same in every process.
  const Uuid& uuid() const { return uuid_; }
  /// "0000:3b:00.0", lower case.
  const std::string& pciAddress() const { return pciAddress_; }

  /// Memory that is kept for use again when given back. Its context is current. Error (device): there is no
  /// more.
  Result<Pinned> pin(size_t bytes);
  /// It is given out again when `last`, if that is a word, holds its value: streams use it until then.
  void giveBack(Pinned pinned, const Word& last);
  /// So much of its own memory, zeroed, that is kept for use again when given back. Its context is current.
  /// Error (device): there is no more.
  Result<Address> take(size_t bytes);
  /// No kernel uses it any more.
  void giveBack(Address address, size_t bytes);
  /// Zeroes memory of it. Its context is current. Waits for that, as upload() does.
  Status clear(Address address, size_t bytes);
  /// Puts bytes into memory that it reaches, and gets them. Its context is current. Waits for that, and for
  /// whatever copies are before it in the driver's queue (noteStaged()).
  Status upload(Address to, const void* from, size_t bytes);
  Status download(void* to, Address from, size_t bytes);
  /// Has a word of memory that it reaches be written, and waits for nothing. Its context is current.
  Status note(Address word, uint64_t value);
  /// And waits for it, as upload() does.
  Status write(Address word, uint64_t value);
  /// A staged call is in `stream`, with copies that wait for other ranks, until `over` holds its value. Warns
  /// once if more streams have some than the driver copies for side by side: the others' may come behind them.
  void noteStaged(NativeStream stream, const Word& over);
  /// How many it has.
  uint32_t multiprocessors() const { return multiprocessors_; }
  /// The lane kernel for a type. Its context is current. Error (device): this build has none, or none for this
  /// GPU.
  Result<Function> kernel(DataType type);

  /// As pin(). It holds `value`, and nothing that was asked for is outstanding.
  Result<Word> takeWord();
  /// It may still be written: it is given out again when it holds its value.
  void giveBack(Word word);

 private:
  Gpu(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status open();
  /// Nothing where the driver does not say.
  std::optional<int> valueOf(DeviceAttribute what) const;
  void findMappedMemory(Device device, int devices);
  Status openUploads();
  Status copy(Address to, Address from, size_t bytes);

  const Driver& driver_;
  const int ordinal_;
  Context context_ = nullptr;
  std::string name_;
  Uuid uuid_{};
  std::string pciAddress_;
  std::vector<int> peers_;
  std::optional<MemoryProperties> mappedMemory_;
  uint32_t multiprocessors_ = 0;
  std::mutex making_;  // held while the driver makes what is made once; engines do not take it
  NativeStream uploads_ = nullptr;
  Module module_ = nullptr;
  Function kernels_[kDataTypes] = {};
  std::mutex mutex_;  // of the following
  struct Free {
    std::byte* memory;
    Word last;
  };
  std::multimap<size_t, Free> free_;  // by bytes
  std::deque<Word> words_;
  std::map<NativeStream, Word> staged_;  // the last call of each
  bool toldOfQueues_ = false;
  std::multimap<size_t, Address> freeOwn_;  // by bytes
};

/// The T of a GPU, made from it by the first call. Owner: the process, for ever. Any thread.
template <class T>
T& onlyOf(Gpu& gpu) {
  static std::mutex mutex;
  static auto* const known = new std::map<Gpu*, T>;
  std::lock_guard lock(mutex);
  return known->try_emplace(&gpu, gpu).first->second;
}

}  // namespace eccl::runtime::cuda
