// Which plain memory is registered, when, and for how long.
#include "transport/verbs/memory_cache.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "transport/verbs/on_demand.h"
#include "transport/verbs/registrations.h"
#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {
namespace {

constexpr size_t kBytes = 64 << 10;
constexpr MemoryFor kBoth = MemoryFor::receiving;

uint64_t registered() {
  VerbsEmulationCounters counters;
  verbsEmulationCounters(&counters);
  return counters.registeredBytes;
}

/// A device, and memory that goes with the test.
class DeviceWithMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    verbsEmulationReset();
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    context_.reset(ibv_open_device(list[0]));
    ibv_free_device_list(list);
    domain_.reset(ibv_alloc_pd(context_.get()));
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, 16 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override {
    if (memory_ == nullptr) return;
    munmap(memory_, 16 * kBytes);
    domain_.reset();
    context_.reset();
    EXPECT_EQ(verbsEmulationReset(), 0) << "objects are left";
  }
  MemoryRange buffer(int number, size_t bytes = kBytes) const { return {memory_ + number * kBytes, bytes}; }
  void mapAnew(int number) const {
    mmap(memory_ + number * kBytes, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
  }
  static int usesUntilFound(MemoryCache& cache, const MemoryRange& memory, MemoryFor what = kBoth) {
    for (int uses = 1; uses < 100; ++uses) {
      if (cache.find(memory, what) != nullptr) return uses;
    }
    return 0;
  }

  static bool holds(const Registrations& registrations, uintptr_t address, uint64_t length) {
    return registrations.reachable(kBoth).holds(address, length);
  }

  ContextHandle context_;
  DomainHandle domain_;
  std::byte* memory_ = nullptr;
};

/// Where memory can be watched.
class MemoryCaches : public DeviceWithMemory {
 protected:
  void SetUp() override {
    if (const auto watch = MemoryWatch::ofProcess(); !watch.ok()) GTEST_SKIP() << watch.status().message();
    DeviceWithMemory::SetUp();
  }
};

TEST_F(MemoryCaches, MemoryIsRegisteredWhenItIsUsedAgain) {
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0");
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 2);
  EXPECT_EQ(registered(), kBytes);
  auto whole = cache.find(buffer(0), kBoth);
  EXPECT_EQ(cache.find({memory_ + 100, 1000}, kBoth), whole) << "a part of it is, too";
  // More is not, and takes its place unless that is used.
  const auto more = cache.find(buffer(0, 2 * kBytes), kBoth);
  EXPECT_NE(more, whole);
  EXPECT_EQ(registered(), 3 * kBytes);
  whole.reset();
  ASSERT_NE(cache.find(buffer(0, 3 * kBytes), kBoth), nullptr);
  EXPECT_EQ(registered(), (2 + 3) * kBytes);
}

// The rest of a page may hold anything of the process's.
TEST_F(MemoryCaches, PeersGetAtNoByteBesideABuffer) {
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0");
  const MemoryRange inPages = {memory_ + 100, kBytes};
  EXPECT_EQ(usesUntilFound(cache, inPages), 2);
  EXPECT_EQ(registered(), kBytes);
  const ibv_mr& region = *cache.find(inPages, kBoth)->handle;
  EXPECT_EQ(region.addr, memory_ + 100);
  EXPECT_EQ(region.length, kBytes);
  EXPECT_EQ(cache.find({memory_ + 99, kBytes}, kBoth), nullptr);
  mapAnew(1);  // the page that the last bytes are in
  EXPECT_EQ(cache.find(inPages, kBoth), nullptr);
}

// What is registered for messages that are sent is no memory to receive into; the other way round it is.
TEST_F(MemoryCaches, WhatIsReceivedIntoIsRegisteredForThat) {
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0");
  ASSERT_EQ(usesUntilFound(cache, buffer(0), MemoryFor::sending), 2);
  const auto sentFrom = cache.find(buffer(0), MemoryFor::sending);
  ASSERT_GT(usesUntilFound(cache, buffer(0), MemoryFor::receiving), 0);
  const auto receivedInto = cache.find(buffer(0), MemoryFor::receiving);
  EXPECT_NE(receivedInto, sentFrom);
  ASSERT_EQ(usesUntilFound(cache, buffer(1), MemoryFor::receiving), 2);
  EXPECT_EQ(cache.find(buffer(1), MemoryFor::sending), cache.find(buffer(1), MemoryFor::receiving));
  // A whole that is sent from leaves a part that is received into.
  const uint32_t part = cache.find(buffer(1), MemoryFor::receiving)->handle->lkey;
  ASSERT_GT(usesUntilFound(cache, buffer(0, 2 * kBytes), MemoryFor::sending), 0);
  EXPECT_EQ(cache.find(buffer(1), MemoryFor::receiving)->handle->lkey, part);
}

// As in a ReduceScatter in place: what it receives into is the beginning of what it sends from.
TEST_F(MemoryCaches, TwoUsesOfOneAddressAreCountedApart) {
  MemoryCache cache(domain_.get(), 2 * kBytes, "rank 0");
  const MemoryRange whole = buffer(0, 4 * kBytes), part = buffer(0);
  EXPECT_EQ(cache.find(whole, MemoryFor::sending), nullptr) << "it is more than the limit";
  EXPECT_EQ(cache.find(part, MemoryFor::receiving), nullptr) << "that is its first use";
  EXPECT_EQ(cache.find(whole, MemoryFor::sending), nullptr);
  EXPECT_NE(cache.find(part, MemoryFor::receiving), nullptr);
}

TEST_F(MemoryCaches, WhatHasChangedIsRegisteredAnewAndLater) {
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0");
  ASSERT_EQ(usesUntilFound(cache, buffer(0)), 2);
  ASSERT_EQ(usesUntilFound(cache, buffer(1)), 2);
  const uint32_t before = cache.find(buffer(0), kBoth)->handle->lkey,
                 other = cache.find(buffer(1), kBoth)->handle->lkey;
  mapAnew(0);
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 4);
  EXPECT_NE(cache.find(buffer(0), kBoth)->handle->lkey, before);
  EXPECT_EQ(cache.find(buffer(1), kBoth)->handle->lkey, other);
  mapAnew(0);
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 8);
  EXPECT_EQ(registered(), 2 * kBytes);
}

TEST_F(MemoryCaches, TheLimitHoldsAndTheLeastUsedGo) {
  MemoryCache cache(domain_.get(), 3 * kBytes, "rank 0");
  for (int i : {0, 1, 2}) ASSERT_EQ(usesUntilFound(cache, buffer(i)), 2);
  const auto used = cache.find(buffer(0), kBoth);
  ASSERT_NE(cache.find(buffer(1), kBoth), nullptr);
  EXPECT_EQ(usesUntilFound(cache, buffer(3)), 2);
  EXPECT_EQ(registered(), 3 * kBytes);
  EXPECT_NE(cache.find(buffer(1), kBoth), nullptr);
  EXPECT_EQ(cache.find(buffer(2), kBoth), nullptr) << "it was used least recently";
  // Whatever is used stays.
  const auto alsoUsed = cache.find(buffer(1), kBoth), usedTwice = cache.find(buffer(3), kBoth);
  EXPECT_EQ(usesUntilFound(cache, buffer(4)), 0);
  EXPECT_EQ(cache.find(buffer(0), kBoth), used);
  EXPECT_EQ(registered(), 3 * kBytes);
  // What is larger than the limit is not, and throws nobody out.
  EXPECT_EQ(usesUntilFound(cache, buffer(5, 4 * kBytes)), 0);
  EXPECT_EQ(registered(), 3 * kBytes);
}

TEST_F(MemoryCaches, OthersMayNeedWhatCanBeLocked) {
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0");
  ASSERT_EQ(registrations.use(buffer(0), kBoth), nullptr);
  { ASSERT_NE(registrations.use(buffer(0), kBoth), nullptr); }
  ASSERT_EQ(registrations.use(buffer(1), kBoth), nullptr);
  const auto used = registrations.use(buffer(1), kBoth);
  ASSERT_NE(used, nullptr);
  verbsEmulationLimitMemory(2 * kBytes);
  registrations.add(buffer(2));
  EXPECT_TRUE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(2).base), kBytes));
  EXPECT_TRUE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(1).base), kBytes));
  EXPECT_FALSE(registrations.giveBack()) << "all of it is used";
  EXPECT_EQ(registered(), 2 * kBytes);
}

TEST_F(MemoryCaches, WhatCannotBeRegisteredGoesByCopies) {
  MemoryCache none(domain_.get(), 0, "rank 0");
  EXPECT_EQ(usesUntilFound(none, buffer(0)), 0);
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0");
  mprotect(memory_, kBytes, PROT_READ);  // peers may not write there
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 0);
  verbsEmulationLimitMemory(kBytes / 2);
  EXPECT_EQ(usesUntilFound(cache, buffer(1)), 0);
  verbsEmulationLimitMemory(UINT64_MAX);
  EXPECT_EQ(usesUntilFound(cache, buffer(2)), 2);
  void* const shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(usesUntilFound(cache, {static_cast<std::byte*>(shared), kBytes}), 0);
  munmap(shared, kBytes);
  EXPECT_EQ(registered(), kBytes);
}

/// Memory that others can change unseen.
class SharedBuffer {
 public:
  SharedBuffer() : memory_(map(nullptr, 0)) {}
  ~SharedBuffer() { munmap(memory_, kBytes); }
  void mapAnew() { map(memory_, MAP_FIXED); }
  MemoryRange range() const { return {static_cast<std::byte*>(memory_), kBytes}; }

 private:
  static void* map(void* at, int flags) {
    return mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);
  }
  void* const memory_;
};

constexpr uint32_t kSendAndWrite = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;

TEST_F(DeviceWithMemory, SomeLookPagesUpInAllThatIsDone) {
  for (const uint32_t little : {0u, uint32_t{IBV_ODP_SUPPORT_SEND}, uint32_t{IBV_ODP_SUPPORT_WRITE}}) {
    ASSERT_EQ(verbsEmulationOfferOnDemand(0, little), 0);
    EXPECT_FALSE(looksUpPages(context_.get())) << little;
  }
  ASSERT_EQ(verbsEmulationOfferOnDemand(0, kSendAndWrite | IBV_ODP_SUPPORT_READ), 0);
  EXPECT_TRUE(looksUpPages(context_.get()));
}

TEST_F(MemoryCaches, WhatCannotBeWatchedIsLookedUpOnDemand) {
  verbsEmulationOfferOnDemand(0, kSendAndWrite);
  SharedBuffer shared;
  MemoryCache copies(domain_.get(), 16 * kBytes, "rank 0");
  EXPECT_EQ(usesUntilFound(copies, shared.range()), 0) << "nobody asked for it";
  MemoryCache cache(domain_.get(), 3 * kBytes, "rank 0", true);
  EXPECT_EQ(usesUntilFound(cache, shared.range()), 2);
  EXPECT_EQ(registered(), 0u) << "nothing of it is locked";
  const auto region = cache.find(shared.range(), kBoth);
  shared.mapAnew();
  EXPECT_EQ(cache.find(shared.range(), kBoth), region) << "the device finds the new pages";
  // It might be memory by now that nobody may write to.
  EXPECT_EQ(usesUntilFound(cache, shared.range(), MemoryFor::sending), 2);
  EXPECT_NE(cache.find(shared.range(), MemoryFor::sending), region);
  // What can be watched is locked, as that is faster.
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 2);
  EXPECT_EQ(registered(), kBytes);
  EXPECT_EQ(usesUntilFound(cache, buffer(1, 2 * kBytes)), 2) << "and the limit is for both";
  EXPECT_EQ(cache.find(buffer(0), kBoth), nullptr);
}

TEST_F(MemoryCaches, WhatTheDeviceCannotLookUpGoesByCopies) {
  verbsEmulationOfferOnDemand(0, kSendAndWrite);
  MemoryCache cache(domain_.get(), 16 * kBytes, "rank 0", true);
  mprotect(memory_, kBytes, PROT_READ);
  EXPECT_EQ(usesUntilFound(cache, buffer(0)), 0) << "peers may not write there";
  EXPECT_EQ(usesUntilFound(cache, buffer(0), MemoryFor::sending), 2);
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0", true);
  registrations.add(buffer(0));
  EXPECT_FALSE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(0).base), kBytes));
  SharedBuffer shared;
  ASSERT_EQ(verbsEmulationFailCall("ibv_advise_mr", 1, EOPNOTSUPP), 0);
  EXPECT_EQ(usesUntilFound(cache, shared.range()), 0);
  EXPECT_EQ(registered(), kBytes);
}

TEST_F(MemoryCaches, WhatCannotBeLockedIsLookedUpOnDemand) {
  verbsEmulationOfferOnDemand(0, kSendAndWrite);
  verbsEmulationLimitMemory(kBytes);
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0", true);
  registrations.add(buffer(0));
  EXPECT_EQ(registered(), kBytes);
  registrations.add(buffer(1));
  EXPECT_TRUE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(1).base), kBytes));
  ASSERT_EQ(registrations.use(buffer(2), kBoth), nullptr);
  ASSERT_NE(registrations.use(buffer(2), kBoth), nullptr);
  EXPECT_EQ(registered(), kBytes);
  EXPECT_FALSE(registrations.giveBack()) << "what is not locked would give nothing back";
  EXPECT_NE(registrations.use(buffer(2), kBoth), nullptr);
  mapAnew(2);
  EXPECT_EQ(registrations.use(buffer(2), kBoth), nullptr) << "it may be locked now";
}

TEST_F(DeviceWithMemory, KeptMemoryIsRegisteredAsItIs) {
  SharedBuffer shared;
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0");
  const auto use = [&] { return registrations.use(shared.range(), kBoth, MemoryKind::kept); };
  EXPECT_EQ(use(), nullptr);
  ASSERT_NE(use(), nullptr);
  EXPECT_EQ(registered(), kBytes);
  EXPECT_TRUE(registrations.giveBack());
  EXPECT_EQ(registered(), 0u);
  EXPECT_NE(use(), nullptr);
  EXPECT_NE(registrations.use(shared.range(), MemoryFor::sending, MemoryKind::kept), nullptr);
}

TEST_F(DeviceWithMemory, LastingMemoryIsRegisteredAtOnce) {
  SharedBuffer shared;
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0");
  ASSERT_NE(registrations.use(shared.range(), kBoth, MemoryKind::lasting), nullptr);
  EXPECT_EQ(registered(), kBytes);
}

// As a GPU's: the process has addresses of it, at which the processor finds nothing.
TEST_F(DeviceWithMemory, MemoryOfAnotherDeviceIsKnownByItsAddresses) {
  const int file = memfd_create("device", 0);
  ASSERT_EQ(ftruncate(file, 2 * kBytes), 0);
  mprotect(memory_, 2 * kBytes, PROT_NONE);
  const MemoryRange whole = buffer(0, 2 * kBytes);
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0");
  const auto use = [&] { return registrations.use(whole, kBoth, MemoryKind::lasting, file); };
  verbsEmulationRefuseDmabufs(1);
  EXPECT_EQ(use(), nullptr);
  verbsEmulationRefuseDmabufs(0);
  const auto used = use();
  ASSERT_NE(used, nullptr);
  EXPECT_TRUE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(1).base), kBytes));
  EXPECT_FALSE(holds(registrations, reinterpret_cast<uintptr_t>(buffer(1).base), kBytes + 1));
  close(file);
}

/// In a child that gets no userfaultfd. 0: it is as it should be.
int withoutUserfaultfd(ibv_pd* domain, const MemoryRange& memory, bool onDemand) {
  MemoryCache cache(domain, 16 * kBytes, "rank 0", onDemand);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const rlimit none{0, limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
  if (MemoryWatch::ofProcess().ok() || cache.find(memory, kBoth) != nullptr) return 3;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
  return (cache.find(memory, kBoth) != nullptr) == onDemand && registered() == 0 ? 0 : 5;
}

TEST_F(DeviceWithMemory, WithoutUserfaultfdPagesAreLookedUpOnDemand) {
  verbsEmulationOfferOnDemand(0, kSendAndWrite);
  for (const bool onDemand : {false, true}) {
    EXPECT_EXIT(std::_Exit(withoutUserfaultfd(domain_.get(), buffer(0), onDemand)),
                ::testing::ExitedWithCode(0), "")
        << onDemand;
  }
}

// Keys are those of calls under way: what a call does not use may have changed.
TEST_F(MemoryCaches, KeysAreForWhatIsUsed) {
  Registrations registrations(domain_.get(), 16 * kBytes, "rank 0");
  const auto address = reinterpret_cast<uintptr_t>(memory_);
  EXPECT_EQ(registrations.use(buffer(0, 2 * kBytes), kBoth), nullptr);
  EXPECT_TRUE(registrations.empty());
  auto all = registrations.use(buffer(0, 2 * kBytes), kBoth);
  ASSERT_NE(all, nullptr);
  EXPECT_FALSE(registrations.empty());
  EXPECT_TRUE(holds(registrations, address + 5, 2 * kBytes - 5));
  EXPECT_FALSE(holds(registrations, address, 2 * kBytes + 1));
  auto half = registrations.use(buffer(0), kBoth);
  all.reset();
  EXPECT_TRUE(holds(registrations, address, kBytes));
  EXPECT_FALSE(holds(registrations, address, kBytes + 1));
  // The second half is another's now; the first one's keys are good.
  mapAnew(1);
  EXPECT_EQ(registrations.use(buffer(1), kBoth), nullptr);
  EXPECT_TRUE(holds(registrations, address, kBytes));
  EXPECT_EQ(registered(), 2 * kBytes);
  half.reset();
  EXPECT_FALSE(holds(registrations, address, kBytes));
  EXPECT_EQ(registered(), 0u);
  // The user's own do without.
  registrations.add(buffer(3));
  EXPECT_EQ(registrations.use(buffer(3), kBoth), nullptr);
  EXPECT_EQ(registrations.use(buffer(3), kBoth), nullptr);
  EXPECT_EQ(registered(), kBytes);
}

}  // namespace
}  // namespace eccl::transport::verbs
