// Ranks on hosts with a network that UCX knows (InfiniBand, RoCE, or TCP where there is nothing better), as a
// module: libeccl.so needs no UCX.
#include "transport/core/transport_module.h"
#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_setup.h"

namespace eccl::transport {
namespace {

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const TransportContext& context) : worker_(context) {}
  Status open() { return worker_.open(); }
  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) override {
    auto setup = std::make_unique<UcxSetup>(worker_, id);
    ECCL_TRY(setup->say(offer));
    return std::unique_ptr<Offer>(std::move(setup));
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData& offer,
                                             SetupData* answer) override {
    auto setup = std::make_unique<UcxSetup>(worker_, id);
    ECCL_TRY(setup->read(offer));
    ECCL_TRY(setup->say(answer));
    return std::unique_ptr<Acceptance>(std::move(setup));
  }
  bool polls() const override { return true; }
  void progress() override { worker_.progress(); }
  void closeAfterFork() override { worker_.closeAfterFork(); }

 private:
  UcxWorker worker_;
};

const TransportEntry kUcxTransport = {
    "ucx",
    50,
    Reach::network,
    nullptr,
    [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      if (context.setting && context.setting("ENCRYPT") == "1")
        return Status::error(Code::system, "UCX does not encrypt, and ECCL_ENCRYPT=1 asks for it");
      auto transport = std::make_unique<UcxTransport>(context);
      ECCL_TRY(transport->open());
      return std::unique_ptr<Transport>(std::move(transport));
    },
    [](const Settings&) { return describeUcx(); }};

}  // namespace
}  // namespace eccl::transport

ECCL_TRANSPORT_MODULE(eccl::transport::kUcxTransport)
