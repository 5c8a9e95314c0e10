#include "transport/ucx/ucx_words.h"

#include <cstring>

namespace eccl::transport {
namespace {

constexpr uint32_t kMagic = 0x58435545;  // "EUCX"
constexpr uint32_t kWords = 1;           // counts changes of what is said here, and of UcxHeader

/// As it lies in memory; the address follows.
struct Wire {
  uint32_t magic, words;
  uint16_t major, minor;
  uint32_t addressBytes;
  UcxEndId end;
};
static_assert(sizeof(Wire) == 24);

}  // namespace

size_t mostUcxAddress() {
  return SetupData::kMaxBytes - sizeof(Wire);
}

Status sayUcx(const UcxWords& words, UcxVersion version, SetupData* data) {
  if (words.address.size() > mostUcxAddress()) {
    return Status::error(
        Code::system,
        "the address of UCX's worker has %zu bytes and %zu can be told: have UCX use fewer devices "
        "(UCX_NET_DEVICES) or transports (UCX_TLS)",
        words.address.size(), mostUcxAddress());
  }
  const Wire wire{kMagic,   kWords, version.major, version.minor, static_cast<uint32_t>(words.address.size()),
                  words.end};
  data->bytes.assign(reinterpret_cast<const char*>(&wire), sizeof wire);
  data->bytes += words.address;
  return {};
}

Result<UcxWords> readUcx(const SetupData& data, UcxVersion version) {
  Wire wire;
  if (data.bytes.size() < sizeof wire)
    return Status::error(Code::remote, "what the peer says of UCX makes no sense");
  std::memcpy(&wire, data.bytes.data(), sizeof wire);
  if (wire.magic != kMagic) return Status::error(Code::remote, "what the peer says of UCX makes no sense");
  if (wire.words != kWords) {
    return Status::error(Code::remote,
                         "the peer's transport 'ucx' is of version %u, this one of %u: use one ECCL",
                         wire.words, kWords);
  }
  if (wire.major != version.major || wire.minor != version.minor) {
    return Status::error(Code::remote, "the peer has UCX %u.%u, this host %u.%u: install the same on all hosts",
                         wire.major, wire.minor, version.major, version.minor);
  }
  if (wire.addressBytes == 0 || wire.addressBytes != data.bytes.size() - sizeof wire)
    return Status::error(Code::remote, "the address of the peer's UCX worker has not come whole");
  return UcxWords{wire.end, data.bytes.substr(sizeof wire)};
}

}  // namespace eccl::transport
