// Flat bytes in and out, for everything that crosses a socket. Little-endian, unaligned, no padding. Values;
// one thread at a time.
//
//   ByteReader reader(bytes);
//   const auto kind = reader.get<uint8_t>();
//   const std::string_view name = reader.text(kMaxName);
//   if (!reader.finished()) return Status::error(Code::remote, ...);
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace eccl::transport {

static_assert(std::endian::native == std::endian::little,
              "the wire format is the memory format of little-endian hosts");

/// The memory of a value, padding included. Valid as long as the value.
template <class T>
std::string_view bytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Puts values one after the other. put() copies them as they lie in memory, so only types without padding
/// are put.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(const T& value) {
    bytes_.append(bytesOf(value));
    return *this;
  }
  /// Raw bytes; the reader must know how many.
  ByteWriter& raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  /// A 32-bit length, then the bytes.
  ByteWriter& text(std::string_view bytes) { return put(static_cast<uint32_t>(bytes.size())).raw(bytes); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote. Running past the end, or a length above its bound, makes ok() false for good
/// and every later read empty, so that a parser checks once, at its end. The bytes are not copied: they
/// outlive the reader and the views it returns.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::string_view bytes = raw(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  /// The next `count` bytes; empty if there are fewer.
  std::string_view raw(size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  /// What ByteWriter::text() wrote; empty if it is longer than `most` bytes.
  std::string_view text(size_t most) {
    size_t count = get<uint32_t>();
    if (count > most) ok_ = false;
    return raw(count);
  }
  bool ok() const { return ok_; }
  /// All was read without an error, and nothing is left over.
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace eccl::transport
