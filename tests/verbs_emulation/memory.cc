// Protection domains and registered memory.
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"

using namespace eccl::verbs_emulation;

namespace {

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND;
constexpr unsigned kNeedsLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kRemoteBit = 0x80000000;  // so that a key of the wrong side is found

/// Whether the process may read [address, address + bytes), and write it if `write`: the kernel pins no other.
bool isMapped(uint64_t address, uint64_t bytes, bool write) {
  std::ifstream maps("/proc/self/maps");
  const uint64_t end = address + bytes;
  for (std::string line; address < end && std::getline(maps, line);) {
    unsigned long long first = 0, last = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &first, &last, rights) != 3 || last <= address) continue;
    // Of another device, for which the kernel would need its driver: a GPU's of the emulated CUDA.
    if (int device = 0; std::sscanf(line.c_str(), "%*s %*s %*s %*s %*s /memfd:%d", &device) == 1) return false;
    if (first > address || rights[0] != 'r' || (write && rights[1] != 'w')) return false;
    address = last;
  }
  return address >= end;
}

ibv_mr* registerMemory(ibv_pd* handle, void* address, size_t bytes, uint64_t iova, unsigned access,
                       bool ofDevice = false) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  Domain* const domain = living(world().domains, handle, "protection domain", "ibv_reg_mr");
  if (domain == nullptr || world().fails("ibv_reg_mr", &error)) return nullptr;
  if (ofDevice && world().refusesDmabufs) return failWith(EOPNOTSUPP), nullptr;
  access &= ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  const auto begin = reinterpret_cast<uint64_t>(address);
  const bool locked = (access & IBV_ACCESS_ON_DEMAND) == 0;
  const uint64_t left = world().memoryLimit - std::min(world().memoryLimit, world().counters.registeredBytes);
  if (domain->owner->device().fatal)
    error = EIO;
  else if (bytes == 0 || begin + bytes < begin || (access & ~kKnownAccess) != 0)
    error = EINVAL;
  else if ((access & kNeedsLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    error = EINVAL;
  else if (!locked && domain->owner->device().onDemand == 0)
    error = EOPNOTSUPP;
  else if (locked && bytes > left)
    error = ENOMEM;
  else if (locked && !ofDevice && !isMapped(begin, bytes, (access & IBV_ACCESS_LOCAL_WRITE) != 0))
    error = EFAULT;
  if (error != 0) {
    failWith(error);
    return nullptr;
  }
  auto region = std::make_unique<Region>();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->handle = region->lkey = world().nextKey++;
  region->rkey = region->lkey | kRemoteBit;
  region->owner = domain;
  region->iova = iova;
  region->access = access;
  region->ofDevice = ofDevice;
  ++domain->children;
  if (locked) world().counters.registeredBytes += bytes;
  Region* const result = region.get();
  world().localKeys[result->lkey] = world().remoteKeys[result->rkey] = result;
  world().regions[static_cast<ibv_mr*>(result)] = std::move(region);
  return result;
}

}  // namespace

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* handle) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  Context* const context = living(world().contexts, handle, "context", "ibv_alloc_pd");
  if (context == nullptr || world().fails("ibv_alloc_pd", &error)) return nullptr;
  if (context->device().fatal) {
    failWith(EIO);
    return nullptr;
  }
  auto domain = std::make_unique<Domain>();
  domain->context = handle;
  domain->handle = world().nextKey++;
  domain->owner = context;
  ++context->children;
  Domain* const result = domain.get();
  world().domains[static_cast<ibv_pd*>(result)] = std::move(domain);
  return result;
}

int ibv_dealloc_pd(ibv_pd* handle) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Domain* const domain = living(world().domains, handle, "protection domain", "ibv_dealloc_pd");
  if (domain == nullptr || world().fails("ibv_dealloc_pd", &error)) return error;
  if (domain->children > 0) return failWith(EBUSY);
  --domain->owner->children;
  world().domains.erase(handle);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  return registerMemory(domain, address, bytes, reinterpret_cast<uint64_t>(address),
                        static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, size_t bytes, uint64_t iova, int access) {
  return registerMemory(domain, address, bytes, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t bytes, uint64_t iova, unsigned access) {
  return registerMemory(domain, address, bytes, iova, access);
}

// The device gets at the memory by its file, wherever the process has it.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  constexpr uint64_t kPage = 4096;
  if (offset % kPage != 0 || iova % kPage != 0) return failWith(EINVAL), nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return nullptr;
  ibv_mr* const made = registerMemory(domain, memory, bytes, iova, static_cast<unsigned>(access), true);
  if (made == nullptr) munmap(memory, bytes);
  return made;
}

void verbsEmulationRefuseDmabufs(int off) {
  const std::lock_guard lock(world().mutex);
  world().refusesDmabufs = off != 0;
}

int ibv_dereg_mr(ibv_mr* handle) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Region* const region = living(world().regions, handle, "memory region", "ibv_dereg_mr");
  if (region == nullptr || world().fails("ibv_dereg_mr", &error)) return error;
  landIn(*region);  // later nothing comes to it
  world().localKeys.erase(region->lkey);
  world().remoteKeys.erase(region->rkey);
  if ((region->access & IBV_ACCESS_ON_DEMAND) == 0) world().counters.registeredBytes -= region->length;
  --region->owner->children;
  world().regions.erase(handle);
  return 0;
}

}  // extern "C"

namespace eccl::verbs_emulation {

// As with IBV_ADVISE_MR_FLAG_FLUSH: at once.
int advise(ibv_pd* handle, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* parts, uint32_t count) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Domain* const domain = living(world().domains, handle, "protection domain", "ibv_advise_mr");
  if (domain == nullptr || world().fails("ibv_advise_mr", &error)) return error;
  if (flags != IBV_ADVISE_MR_FLAG_FLUSH) return failWith(EOPNOTSUPP);
  for (uint32_t i = 0; i < count; ++i) {
    const auto found = world().localKeys.find(parts[i].lkey);
    if (found == world().localKeys.end() || (found->second->access & IBV_ACCESS_ON_DEMAND) == 0)
      return failWith(EINVAL);
    const Region& region = *found->second;
    if (parts[i].addr < region.iova || parts[i].addr + parts[i].length > region.iova + region.length)
      return failWith(EINVAL);
    if (!isMapped(parts[i].addr, parts[i].length, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE))
      return failWith(EFAULT);
  }
  return 0;
}

}  // namespace eccl::verbs_emulation
