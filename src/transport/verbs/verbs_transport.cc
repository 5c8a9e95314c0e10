#include "transport/verbs/verbs_transport.h"

#include "base/log.h"
#include "transport/verbs/on_demand.h"
#include "transport/verbs/verbs_devices.h"
#include "transport/verbs/verbs_setup.h"

namespace eccl::transport::verbs {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& each : lines) text += (text.empty() ? "" : "; ") + each;
  return text;
}

/// Owner of the devices. Its rails are the ports, device by device.
class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const TransportContext& context)
      : context_(context), options_(optionsBy(context.setting)) {}

  /// Once, before the rest. Error (system): there is nothing to use; it says what there is.
  Status open() {
    // Forks are safe with kernels from 5.12 on. With others libibverbs keeps pages that a device knows from
    // children, which then fault on whatever else is there; asked to, it does so on all kernels. An error means
    // that somebody was too early for that: there is nothing to do about it.
    if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED) [[maybe_unused]]
      const int error = ibv_fork_init();
    if (context_.setting("ENCRYPT") == "1")
      return Status::error(Code::system, "ECCL_ENCRYPT=1 asks for encryption, which RDMA has none of");
    FoundDevices found = findDevices(options_);
    if (!found.any()) return Status::error(Code::system, "%s", joined(found.said).c_str());
    for (FoundDevices::Device& each : found.devices) {
      if (each.ports.empty()) continue;
      Result<std::unique_ptr<Adapter>> opened = Adapter::open(
          std::move(each.context), std::move(each.ports), *context_.reactor, context_.describe(context_.rank));
      if (!opened.ok()) {
        found.said.push_back(opened.status().message());
        continue;
      }
      std::unique_ptr<Adapter> adapter = opened.take();
      registrations_.push_back(std::make_unique<Registrations>(
          adapter->domain(), options_.cacheBytes, context_.describe(context_.rank),
          options_.onDemand && looksUpPages(adapter->context())));
      for (const Port& port : adapter->ports()) rails_.add({adapter.get(), registrations_.back().get(), port});
      adapters_.push_back(std::move(adapter));
    }
    if (adapters_.empty()) return Status::error(Code::system, "%s", joined(found.said).c_str());
    rails_.order(context_.nearPorts);
    ECCL_INFO("%s uses RDMA: %s; it sends over %s", context_.describe(context_.rank).c_str(),
              joined(found.said).c_str(), rails_.text().c_str());
    return {};
  }
  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) override {
    ECCL_ASSIGN(auto made, said(offerVerbs(context_, rails_, id.channel, options_, offer)));
    return std::unique_ptr<Offer>(std::make_unique<SaidOffer>(std::move(made), *this));
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& /*id*/, SetupData& offer,
                                             SetupData* answer) override {
    return said(acceptVerbs(context_, rails_, options_, offer, answer));
  }
  bool polls() const override { return true; }
  void progress() override {
    for (const auto& each : adapters_) each->completions().poll();
  }
  void registerMemory(const MemoryRange& memory) override {
    for (const auto& each : registrations_) each->add(memory);
  }
  void deregisterMemory(const MemoryRange& memory) override {
    for (const auto& each : registrations_) each->remove(memory);
  }
  std::vector<std::unique_ptr<MemoryUse>> useMemory(const MemoryRange& memory, MemoryFor what, MemoryKind kind,
                                                    int dmabuf) override {
    std::vector<std::unique_ptr<MemoryUse>> uses;
    // What one message holds is copied as soon as the peer has said that it has read it.
    if (kind != MemoryKind::lasting && memory.bytes <= context_.ring.slotBytes) return uses;
    for (size_t i = 0; i < adapters_.size(); ++i) {
      if (!adapters_[i]->isUsed()) continue;
      if (auto use = registrations_[i]->use(memory, what, kind, dmabuf); use != nullptr)
        uses.push_back(std::move(use));
    }
    return uses;
  }
  bool usesMemory() const override { return options_.cacheBytes > 0; }
  void closeAfterFork() override {
    for (const auto& each : registrations_) each->closeAfterFork();
    for (const auto& each : adapters_) each->closeAfterFork();
  }

 private:
  /// What this host's device refuses costs speed, and a setting may mend it.
  void say(const Status& status) {
    if (status.code() != Code::system || std::exchange(saidRefused_, true)) return;
    ECCL_WARN("%s has RDMA that a connection cannot use: %s", context_.describe(context_.rank).c_str(),
              status.message().c_str());
  }
  template <class Made>
  Result<Made> said(Result<Made> made) {
    say(made.status());
    return made;
  }
  /// Says, too, what the device refuses when the peer has answered.
  class SaidOffer final : public Offer {
   public:
    SaidOffer(std::unique_ptr<Offer> offer, VerbsTransport& transport)
        : offer_(std::move(offer)), transport_(transport) {}
    Status onAnswer(SetupData& answer, SetupData* confirmation) override {
      Status status = offer_->onAnswer(answer, confirmation);
      transport_.say(status);
      return status;
    }
    Result<std::unique_ptr<Path>> open(SendEnd& end, Opening opening) override {
      return offer_->open(end, std::move(opening));
    }

   private:
    const std::unique_ptr<Offer> offer_;
    VerbsTransport& transport_;
  };

  const TransportContext& context_;
  const VerbsOptions options_;
  bool saidRefused_ = false;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::vector<std::unique_ptr<Registrations>> registrations_;  // by adapter, whose domains they use
  Rails rails_;
};

Result<std::unique_ptr<Transport>> makeVerbs(const TransportContext& context) {
  auto transport = std::make_unique<VerbsTransport>(context);
  ECCL_TRY(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

std::vector<std::string> reportVerbs(const Settings& settings) {
  const VerbsOptions options = optionsBy([&](std::string_view name) { return settings.valueOf(name); });
  FoundDevices found = findDevices(options);
  if (!found.any()) return found.said;
  for (const FoundDevices::Device& each : found.devices) {
    if (!each.ports.empty() && looksUpPages(each.context.get()))
      found.said.push_back(each.ports[0].device +
                           ": can look up pages on demand, of memory that cannot be locked or watched" +
                           (options.onDemand ? "" : " (ECCL_IB_ON_DEMAND=1)"));
  }
  const Status watch = options.cacheBytes > 0 ? MemoryWatch::ofProcess().status() : Status();
  const char* const others = options.onDemand ? ", except where pages are looked up on demand" : "";
  std::string plain = format("kept registered when used again, up to %llu bytes",
                             static_cast<unsigned long long>(options.cacheBytes));
  if (options.cacheBytes == 0) plain = "copied, ECCL_IB_CACHE_BYTES=0 says so";
  if (!watch.ok()) plain = format("copied%s: %s", others, watch.message().c_str());
  found.said.push_back("memory that is not registered: " + plain);
  return found.said;
}

}  // namespace

const TransportEntry kVerbsTransport = {"verbs", 150, Reach::network, "IB_DISABLE", makeVerbs, reportVerbs};

}  // namespace eccl::transport::verbs
