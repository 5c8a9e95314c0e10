#include "transport/net/secret.h"

namespace eccl::transport {

Secret Secret::random(System& system) {
  Secret secret;
  system.random(secret.bytes.data(), secret.bytes.size());
  return secret;
}

Result<Secret> Secret::fromHex(std::string_view text, const char* where) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  text = first == text.npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  Secret secret;
  bool good = text.size() == 2 * secret.bytes.size();
  for (size_t i = 0; good && i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    good = digit >= 0;
    secret.bytes[i / 2] = static_cast<uint8_t>(secret.bytes[i / 2] << 4 | digit);
  }
  if (good) return secret;
  // The text itself may be most of a secret: it stays out of the message.
  return Status::error(
      Code::invalidArgument,
      "%s holds %zu characters that are not 32 hexadecimal digits: make one with 'openssl rand -hex 16'", where,
      text.size());
}

Identity randomIdentity(System& system) {
  Identity identity;
  system.random(identity.data(), identity.size());
  return identity;
}

std::string toHex(const std::array<uint8_t, 16>& bytes) {
  std::string text;
  for (uint8_t byte : bytes) text += format("%02x", byte);
  return text;
}

bool constantTimeEqual(const Tag& a, const Tag& b) {
  volatile uint8_t difference = 0;  // volatile: the compiler must not leave the loop early
  for (size_t i = 0; i < a.size(); ++i) difference = difference | (a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace eccl::transport
