#include "runtime/cuda/mapped_block.h"

#include <fcntl.h>
#include <pthread.h>

#include <cerrno>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/system.h"

namespace eccl::runtime::cuda {
namespace {

/// The descriptors of this process's blocks, by name. A forked child has none: it would keep the memory. (It
/// may have one that was being passed on just then.)
struct Shared {
  std::mutex mutex;
  std::map<Name, transport::Fd> descriptors;

  static Shared& get() {
    static Shared* const made = [] {
      pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                     [] {
                       get().descriptors.clear();
                       get().mutex.unlock();
                     });
      return new Shared;
    }();
    return *made;
  }
};

}  // namespace

Name newName() {
  Name name;
  System::real().random(name.data(), name.size());
  return name;
}

Result<std::shared_ptr<MappedBlock>> MappedBlock::make(Gpu& gpu, size_t bytes, bool peers) {
  const Driver& driver = gpu.driver();
  const MemoryProperties its = gpu.mappedMemory().value();
  std::shared_ptr<MappedBlock> block(new MappedBlock(gpu));
  bytes = inPages(bytes);
  ECCL_TRY(driver.check(driver.cuMemCreate(&block->handle_, bytes, &its, 0), "cuMemCreate",
                        "of %zu bytes on %s", bytes, gpu.name().c_str()));
  ECCL_TRY(block->map(bytes));
  if (peers) block->letIn(gpu.peers());
  return block;
}

Result<std::shared_ptr<MappedBlock>> MappedBlock::open(Gpu& gpu, const transport::Fd& descriptor,
                                                       size_t bytes) {
  const Driver& driver = gpu.driver();
  std::shared_ptr<MappedBlock> block(new MappedBlock(gpu));
  void* const said = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get()));
  ECCL_TRY(driver.check(driver.cuMemImportFromShareableHandle(&block->handle_, said, kByDescriptor),
                        "cuMemImportFromShareableHandle", "of another process's memory on %s",
                        gpu.name().c_str()));
  ECCL_TRY(block->map(inPages(bytes)));
  return block;
}

Status MappedBlock::map(size_t bytes) {
  const Driver& driver = gpu_.driver();
  const char* const name = gpu_.name().c_str();
  bytes_ = bytes;
  ECCL_TRY(driver.check(driver.cuMemAddressReserve(&begin_, bytes, kPage, 0, 0), "cuMemAddressReserve",
                        "of %zu bytes on %s", bytes, name));
  ECCL_TRY(driver.check(driver.cuMemMap(begin_, bytes, 0, handle_, 0), "cuMemMap", "of %zu bytes on %s", bytes,
                        name));
  mapped_.store(true, std::memory_order_release);
  const MemoryAccess own{{kOnDevice, gpu_.ordinal()}, kReadAndWrite};
  return driver.check(driver.cuMemSetAccess(begin_, bytes, &own, 1), "cuMemSetAccess", "of %zu bytes on %s",
                      bytes, name);
}

/// The library does not need it: where it cannot be, the program finds out when it tries.
void MappedBlock::letIn(const std::vector<int>& peers) {
  for (const int peer : peers) {
    const MemoryAccess its{{kOnDevice, peer}, kReadAndWrite};
    const DriverCode code = gpu_.driver().cuMemSetAccess(begin_, bytes_, &its, 1);
    if (code != kSuccess)
      ECCL_INFO("CUDA device %d does not get at memory of %s: %s", peer, gpu_.name().c_str(),
                gpu_.driver().nameOf(code).c_str());
  }
}

Status MappedBlock::unmap() {
  decltype(Shared::descriptors)::node_type shared;  // closed without the lock
  std::lock_guard lock(mutex_);
  if (name_) {
    std::lock_guard sharing(Shared::get().mutex);
    shared = Shared::get().descriptors.extract(*name_);
    name_.reset();
  }
  const Driver& driver = gpu_.driver();
  const Entered entered(driver, gpu_.context());
  Status done = entered.status();
  const auto note = [&](DriverCode code, const char* function) {
    if (done.ok()) done = driver.check(code, function, "of %zu bytes on %s", bytes_, gpu_.name().c_str());
    return code == kSuccess;
  };
  // What stays mapped keeps its addresses.
  if (mapped_.exchange(false, std::memory_order_acq_rel) &&
      !note(driver.cuMemUnmap(begin_, bytes_), "cuMemUnmap"))
    begin_ = 0;
  if (handle_ != 0) note(driver.cuMemRelease(std::exchange(handle_, 0)), "cuMemRelease");
  return done;
}

MappedBlock::~MappedBlock() {
  if (const Status gone = unmap(); !gone.ok())
    ECCL_WARN("memory may stay taken until the process ends: %s", gone.message().c_str());
  const Entered entered(gpu_.driver(), gpu_.context());
  if (begin_ != 0) gpu_.driver().cuMemAddressFree(begin_, bytes_);
}

Result<Name> MappedBlock::share() {
  std::lock_guard lock(mutex_);
  if (name_) return *name_;
  if (handle_ == 0) return Status::error(eccl::Code::invalidUsage, "it has been freed");
  int descriptor = -1;
  ECCL_TRY(gpu_.driver().check(
      gpu_.driver().cuMemExportToShareableHandle(&descriptor, handle_, kByDescriptor, 0),
      "cuMemExportToShareableHandle", "of %zu bytes on %s (which takes a descriptor: ulimit -n)", bytes_,
      gpu_.name().c_str()));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  name_ = newName();
  std::lock_guard sharing(Shared::get().mutex);
  Shared::get().descriptors.emplace(*name_, transport::Fd(descriptor));
  return *name_;
}

Result<transport::Fd> MappedBlock::dmabuf() const {
  int descriptor = -1;
  ECCL_TRY(gpu_.driver().check(
      gpu_.driver().cuMemGetHandleForAddressRange(&descriptor, begin_, bytes_, kAsDmabuf, 0),
      "cuMemGetHandleForAddressRange", "of %zu bytes on %s, as a dma-buf", bytes_, gpu_.name().c_str()));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return transport::Fd(descriptor);
}

Result<transport::Fd> MappedBlock::find(const Name& name) {
  auto& descriptors = Shared::get().descriptors;
  std::lock_guard lock(Shared::get().mutex);
  const auto found = descriptors.find(name);
  if (found == descriptors.end())
    return Status::error(eccl::Code::invalidArgument, "it has no such memory, or has freed it");
  const int copy = fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Status::fromErrno(errno, "it has no descriptors left (ulimit -n)");
  return transport::Fd(copy);
}

void MappedBlock::keep(std::shared_ptr<MappedBlock> block) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<MappedBlock>>;
  std::lock_guard lock(mutex);
  if (block != nullptr) kept->push_back(std::move(block));
}

}  // namespace eccl::runtime::cuda
