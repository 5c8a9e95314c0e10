// Single values of NCCL's XML, in both directions. Readers accept every spelling that is in use; writers use
// the one that NCCL understands. Readers return nothing for what they cannot read. Pure functions.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

/// A whole number in decimal or, with 0x, in hexadecimal; nothing around it.
template <class Number>
std::optional<Number> wholeNumber(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X";
  if (hexadecimal) text.remove_prefix(2);
  if (hexadecimal && text.substr(0, 1) == "-") return std::nullopt;
  Number number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A number, finite.
std::optional<double> realNumber(std::string_view text);
/// The shortest text that reads as exactly this number.
std::string shortest(double number);

/// "0000:3b:00.0" from any spelling with domain, bus, device and function, such as "00000000:3B:00.0".
std::optional<std::string> busIdFrom(std::string_view text);
/// The same from any text, as NCCL reads it: the hexadecimal digits it begins with, without points and
/// colons.
std::string busIdAsNccl(std::string_view text);
/// The number that a text begins with, where more follows: 1 of "1.0". NCCL reads many of its numbers so.
std::optional<int64_t> leadingNumber(std::string_view text);
/// A whole number as wholeNumber() reads it, or hexadecimal digits alone, as NCCL takes what identifies
/// something.
std::optional<uint64_t> identifierFrom(std::string_view text);

/// The set bits of a mask as the kernel prints it: "00ff,ffffffff", 32 bits a group.
std::optional<std::vector<int>> coresFrom(std::string_view mask);
std::string maskOf(const std::vector<int>& cores);

/// "16.0 GT/s PCIe", "16 GT/s"; 0 for "" and "Unknown", as Linux says where there is no link.
std::optional<double> gigatransfersFrom(std::string_view text);
/// The number in any text that goes on so: "32 GT/s PCIe/s", "32GT/s".
std::optional<double> leadingGigatransfers(std::string_view text);
std::string textOfGigatransfers(double gigatransfers);

/// A 24-bit class code; shorter ones are its first digits ("0x03"). Not the empty text.
std::optional<uint32_t> pciClassFrom(std::string_view text);

/// GB/s from MB/s, and a text whose reading gives exactly those GB/s.
std::optional<double> gigabytesFromMegabytes(std::string_view text);
std::string megabytesOf(double gigabytes);

/// What a PCI function is, by what hangs below it in the XML and then by its class.
struct PciContents {
  bool gpu = false, nic = false, pci = false;
};
DeviceKind kindOf(const PciFacts& pci, const PciContents& contents);
/// Of the kinds that a <pci> may say it is: "bridge", "accelerator", "nic", "nvswitch", "other".
std::optional<DeviceKind> pciKindFrom(std::string_view text);
const char* textOfPciKind(DeviceKind kind);

/// NVLink's target classes.
inline constexpr uint32_t kNvSwitchClass = 0x068000, kNvLinkBridgeClass = 0x068001;

}  // namespace eccl::topology
