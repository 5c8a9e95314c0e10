#include "transport/net/endpoint.h"

#include <algorithm>

namespace eccl::transport {
namespace {

// Names go into logs.
bool printable(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
}

SocketAddress addressIn(ByteReader& in, const char** wrong) {
  SocketAddress address = SocketAddress::decode(in);
  if (!in.ok())
    *wrong = "truncated";
  else if (!address.valid())
    *wrong = "address family";
  return address;
}

}  // namespace

std::string Endpoint::who() const {
  return format("%s pid %d", host.empty() ? "unknown host" : host.c_str(), pid);
}

std::string Endpoint::encode() const {
  ByteWriter out;
  const size_t count = std::min(addresses.size(), kMaxAddresses);
  out.put(identity).put(bootId).put(pid).put<uint8_t>(hasUnix).text(std::string_view(host).substr(0, kMaxHost));
  out.put(static_cast<uint8_t>(count));
  for (size_t i = 0; i < count; ++i) addresses[i].encode(out);
  out.put(static_cast<uint8_t>(std::min(rails.size(), kMaxRails)));
  for (size_t i = 0; i < std::min(rails.size(), kMaxRails); ++i) {
    out.text(std::string_view(rails[i].interface).substr(0, kMaxInterfaceName)).put(rails[i].megabits);
    rails[i].address.encode(out);
  }
  return out.take();
}

// One exit for every kind of damage; the loops stop at their bounds, not at what the bytes claim.
Result<Endpoint> Endpoint::decode(std::string_view bytes) {
  ByteReader in(bytes);
  Endpoint result;
  result.identity = in.get<Identity>();
  result.bootId = in.get<std::array<uint8_t, 16>>();
  result.pid = in.get<int32_t>();
  const uint8_t hasUnix = in.get<uint8_t>();
  result.hasUnix = hasUnix != 0;
  result.host = in.text(kMaxHost);
  const size_t count = in.get<uint8_t>();
  const char* wrong = !in.ok()                ? "truncated"
                      : hasUnix > 1           ? "flag"
                      : count > kMaxAddresses ? "address count"
                                              : nullptr;
  if (!printable(result.host)) wrong = "host name";
  for (size_t i = 0; wrong == nullptr && i < count; ++i) result.addresses.push_back(addressIn(in, &wrong));
  const size_t rails = wrong == nullptr ? in.get<uint8_t>() : 0;
  if (wrong == nullptr && (!in.ok() || rails > kMaxRails)) wrong = "rail count";
  for (size_t i = 0; wrong == nullptr && i < rails; ++i) {
    Rail rail;
    rail.interface = in.text(kMaxInterfaceName);
    rail.megabits = in.get<uint32_t>();
    if (!printable(rail.interface)) wrong = "interface name";
    rail.address = addressIn(in, &wrong);
    result.rails.push_back(std::move(rail));
  }
  if (wrong == nullptr && !in.finished()) wrong = "trailing bytes";
  if (wrong != nullptr) {
    return Status::error(
        Code::remote, "a rank's endpoint is malformed (%s, %zu bytes): do all ranks run the same ECCL version?",
        wrong, bytes.size());
  }
  return result;
}

Endpoint localEndpoint(System& system) {
  const ProcessIdentity here = system.identity();
  Endpoint result;
  result.host = here.host.substr(0, Endpoint::kMaxHost);
  for (char& c : result.host) c = c < 0x21 || c > 0x7e ? '?' : c;  // decode() takes nothing else
  result.pid = here.pid;
  std::string digits(here.bootId.begin(), here.bootId.end());
  digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
  if (Result<Secret> parsed = Secret::fromHex(digits, "boot_id"); parsed.ok()) result.bootId = parsed->bytes;
  return result;
}

}  // namespace eccl::transport
