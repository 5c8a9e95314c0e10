// Every parser of bootstrap bytes from outside. The first byte chooses the parser; what is accepted must
// survive a round trip, so that a parser that accepts too much is found as well as one that reads too far.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "transport/bootstrap/frame.h"
#include "transport/bootstrap/gather.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/net/endpoint.h"
#include "transport/net/handshake.h"

namespace {

using namespace eccl;

void require(bool holds) {
  if (!holds) std::abort();
}

void frames(std::string_view bytes) {
  while (true) {
    const std::string_view before = bytes;
    Result<std::optional<transport::Frame>> frame = transport::Frame::take(bytes);
    if (!frame.ok() || !*frame) return require(bytes == before);
    require((*frame)->body.size() <= transport::Frame::kMaxBody);
    const auto again = (*frame)->encode();
    require(before.substr(0, before.size() - bytes.size()) == *again);
  }
}

void uniqueId(std::string_view bytes) {
  transport::UniqueId::Bytes id{};
  std::memcpy(id.data(), bytes.data(), std::min(bytes.size(), id.size()));
  // The checksum would stop nearly every input: put it right, so that what is behind it is reached too.
  for (bool repaired : {false, true}) {
    if (repaired) {
      const transport::Tag tag = transport::sipHash128({}, std::string_view(id.data(), id.size() - 4));
      std::memcpy(id.data() + id.size() - 4, tag.data(), 4);
    }
    Result<transport::UniqueId> decoded = transport::UniqueId::decode(id);
    if (!decoded.ok()) continue;
    Result<transport::UniqueId> again = transport::UniqueId::decode(decoded->encode());
    require(again.ok() && again->addresses == decoded->addresses &&
            again->communicator == decoded->communicator);
  }
}

void endpoint(std::string_view bytes) {
  Result<transport::Endpoint> decoded = transport::Endpoint::decode(bytes);
  if (decoded.ok()) require(decoded->encode() == bytes);
}

void parts(std::string_view bytes) {
  if (bytes.empty()) return;
  const size_t count = static_cast<uint8_t>(bytes[0]);
  Result<transport::Parts> decoded = transport::decodeParts(bytes.substr(1), count);
  if (!decoded.ok()) return;
  const std::vector<std::string> list = decoded->list();
  const auto again = transport::decodeParts(transport::encodeParts(list), count);
  require(list.size() == count && again.ok() && again->list() == list);
}

template <class T>
void fixed(Result<T> decoded, std::string_view bytes) {
  if (decoded.ok()) require(transport::bytesOf(*decoded) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      frames(bytes);
      break;
    case 1:
      uniqueId(bytes);
      break;
    case 2:
      endpoint(bytes);
      break;
    case 3:
      parts(bytes);
      break;
    case 4:
      fixed(eccl::transport::decodeHello(bytes), bytes);
      break;
    case 5:
      fixed(eccl::transport::decodeGreeting(bytes), bytes);
      break;
    case 6:
      eccl::transport::Secret::fromHex(bytes, "fuzz").status().ignore();
      break;
  }
  return 0;
}
