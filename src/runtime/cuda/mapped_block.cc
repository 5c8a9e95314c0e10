#include "runtime/cuda/mapped_block.h"

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <vector>

#include "base/system.h"

namespace eccl::runtime::cuda {
namespace {

/// The descriptors of this process's blocks, by name.
struct Shared {
  std::mutex mutex;
  std::map<Name, transport::Fd> descriptors;
};
Shared& shared() {
  static auto* const made = new Shared;
  return *made;
}

}  // namespace

Name newName() {
  Name name;
  System::real().random(name.data(), name.size());
  return name;
}

Result<std::shared_ptr<MappedBlock>> MappedBlock::make(Gpu& gpu, size_t bytes) {
  const Driver& driver = gpu.driver();
  const MemoryProperties its = gpu.mappedMemory().value();
  std::shared_ptr<MappedBlock> block(new MappedBlock(gpu));
  bytes = inPages(bytes);
  ECCL_TRY(driver.check(driver.cuMemCreate(&block->handle_, bytes, &its, 0), "cuMemCreate",
                        "of %zu bytes on %s", bytes, gpu.name().c_str()));
  ECCL_TRY(block->map(bytes, true));
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
  ECCL_TRY(block->map(inPages(bytes), false));
  return block;
}

/// `peers`: for other GPUs of the process, too.
Status MappedBlock::map(size_t bytes, bool peers) {
  const Driver& driver = gpu_.driver();
  const char* const name = gpu_.name().c_str();
  bytes_ = bytes;
  ECCL_TRY(driver.check(driver.cuMemAddressReserve(&begin_, bytes, kPage, 0, 0), "cuMemAddressReserve",
                        "of %zu bytes on %s", bytes, name));
  ECCL_TRY(driver.check(driver.cuMemMap(begin_, bytes, 0, handle_, 0), "cuMemMap", "of %zu bytes on %s", bytes,
                        name));
  mapped_.store(true, std::memory_order_release);
  std::vector<MemoryAccess> access{{{kOnDevice, gpu_.ordinal()}, kReadAndWrite}};
  if (peers) {
    for (const int other : gpu_.peers()) access.push_back({{kOnDevice, other}, kReadAndWrite});
  }
  return driver.check(driver.cuMemSetAccess(begin_, bytes, access.data(), access.size()), "cuMemSetAccess",
                      "of %zu bytes on %s", bytes, name);
}

void MappedBlock::unmap() {
  std::lock_guard lock(mutex_);
  if (name_) {
    std::lock_guard sharing(shared().mutex);
    shared().descriptors.erase(*name_);
    name_.reset();
  }
  if (mapped_.exchange(false, std::memory_order_acq_rel)) gpu_.driver().cuMemUnmap(begin_, bytes_);
  if (handle_ != 0) gpu_.driver().cuMemRelease(std::exchange(handle_, 0));
}

MappedBlock::~MappedBlock() {
  unmap();
  if (begin_ != 0) gpu_.driver().cuMemAddressFree(begin_, bytes_);
}

Result<Name> MappedBlock::share() {
  std::lock_guard lock(mutex_);
  if (name_) return *name_;
  if (handle_ == 0) return Status::error(eccl::Code::invalidUsage, "it has been freed");
  int descriptor = -1;
  ECCL_TRY(
      gpu_.driver().check(gpu_.driver().cuMemExportToShareableHandle(&descriptor, handle_, kByDescriptor, 0),
                          "cuMemExportToShareableHandle", "of %zu bytes on %s", bytes_, gpu_.name().c_str()));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  name_ = newName();
  std::lock_guard sharing(shared().mutex);
  shared().descriptors.emplace(*name_, transport::Fd(descriptor));
  return *name_;
}

Result<transport::Fd> MappedBlock::find(const Name& name) {
  std::lock_guard lock(shared().mutex);
  const auto found = shared().descriptors.find(name);
  if (found == shared().descriptors.end())
    return Status::error(eccl::Code::invalidArgument, "it has no such memory, or has freed it");
  const int copy = fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Status::fromErrno(errno, "it has no descriptors left");
  return transport::Fd(copy);
}

void MappedBlock::keep(std::shared_ptr<MappedBlock> block) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<MappedBlock>>;
  std::lock_guard lock(mutex);
  if (block != nullptr) kept->push_back(std::move(block));
}

}  // namespace eccl::runtime::cuda
