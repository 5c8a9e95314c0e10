#include "topology/formats/nccl_xml_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/status.h"

namespace eccl::topology {
namespace {

constexpr int kBitsPerGroup = 32;
constexpr size_t kMaxGroups = kMaxCores / kBitsPerGroup;

constexpr std::array<std::pair<DeviceKind, const char*>, 5> kPciKinds = {{
    {DeviceKind::bridge, "bridge"},
    {DeviceKind::accelerator, "accelerator"},
    {DeviceKind::nic, "nic"},
    {DeviceKind::nvSwitch, "nvswitch"},
    {DeviceKind::other, "other"},
}};

/// Removes up to and with `delimiter` from `text` and gives what was before it; everything if it is not there.
std::string_view cut(std::string_view& text, char delimiter) {
  const size_t at = text.find(delimiter);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return head;
}

/// One to `most` hexadecimal digits.
std::optional<uint32_t> hexadecimal(std::string_view text, size_t most) {
  uint32_t number = 0;
  if (text.empty() || text.size() > most) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<double> realNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::optional<std::string> busIdFrom(std::string_view text) {
  const auto domain = hexadecimal(cut(text, ':'), 8);
  const auto bus = hexadecimal(cut(text, ':'), 2);
  const auto device = hexadecimal(cut(text, '.'), 2);
  const auto function = hexadecimal(text, 1);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return format("%04x:%02x:%02x.%x", *domain, *bus, *device, *function);
}

std::string busIdAsNccl(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  uint64_t number = 0;
  for (size_t i = 0;
       i < text.size() && (kDigits.find(text[i]) != kDigits.npos || text[i] == ':' || text[i] == '.'); ++i) {
    if (text[i] != ':' && text[i] != '.') number = number << 4 | *hexadecimal(text.substr(i, 1), 1);
  }
  return format("%04x:%02x:%02x.%x", static_cast<uint32_t>(number >> 20),
                static_cast<uint32_t>(number >> 12 & 0xff), static_cast<uint32_t>(number >> 4 & 0xff),
                static_cast<uint32_t>(number & 0xf));
}

std::optional<int64_t> leadingNumber(std::string_view text) {
  int64_t number = 0;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\r"), text.size()));
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> identifierFrom(std::string_view text) {
  if (const auto number = wholeNumber<uint64_t>(text)) return number;
  return wholeNumber<uint64_t>("0x" + std::string(text));
}

std::optional<std::vector<int>> coresFrom(std::string_view mask) {
  std::vector<uint32_t> groups;
  for (bool more = true; more;) {
    more = mask.find(',') != mask.npos;
    const auto group = hexadecimal(cut(mask, ','), 8);
    if (!group || groups.size() == kMaxGroups) return std::nullopt;
    groups.push_back(*group);
  }
  std::vector<int> cores;
  for (size_t i = 0; i < groups.size(); ++i) {  // the last group holds the lowest bits
    for (int bit = 0; bit < kBitsPerGroup; ++bit) {
      if ((groups[groups.size() - 1 - i] >> bit & 1U) != 0)
        cores.push_back(static_cast<int>(i) * kBitsPerGroup + bit);
    }
  }
  return cores;
}

std::string maskOf(const std::vector<int>& cores) {
  std::vector<uint32_t> groups(cores.empty() ? 1 : static_cast<size_t>(cores.back() / kBitsPerGroup) + 1);
  for (int core : cores) groups[static_cast<size_t>(core / kBitsPerGroup)] |= 1U << (core % kBitsPerGroup);
  std::string text;
  for (size_t i = groups.size(); i-- > 0;) text += format(i == 0 ? "%08x" : "%08x,", groups[i]);
  return text;
}

std::optional<double> gigatransfersFrom(std::string_view text) {
  if (text.empty() || text.substr(0, 7) == "Unknown") return 0;
  const auto number = realNumber(cut(text, ' '));
  if (!number || *number < 0 || (text != "GT/s" && text != "GT/s PCIe")) return std::nullopt;
  return *number;
}

std::optional<double> leadingGigatransfers(std::string_view text) {
  const size_t unit = text.find("GT/s");
  if (unit == text.npos) return std::nullopt;
  text = text.substr(0, unit);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return realNumber(text);
}

std::string textOfGigatransfers(double gigatransfers) {
  if (gigatransfers == 0) return "";
  const std::string number = shortest(gigatransfers);
  const bool whole = number.find_first_not_of("0123456789") == number.npos;
  return number + (whole ? ".0" : "") + " GT/s PCIe";
}

std::optional<uint32_t> pciClassFrom(std::string_view text) {
  if (text.substr(0, 2) != "0x" && text.substr(0, 2) != "0X") return std::nullopt;
  text.remove_prefix(2);
  const auto number = hexadecimal(text, 6);
  if (!number) return std::nullopt;
  return *number << 4 * (6 - text.size());
}

std::optional<double> gigabytesFromMegabytes(std::string_view text) {
  const auto megabytes = realNumber(text);
  if (!megabytes || !(*megabytes / 1000 > 0)) return std::nullopt;
  return *megabytes / 1000;
}

std::string megabytesOf(double gigabytes) {
  // Multiplying may miss by one the number that was divided.
  const double near = gigabytes * 1000;
  for (double megabytes : {std::round(near), near, std::nextafter(near, 0), std::nextafter(near, 2 * near)}) {
    if (megabytes / 1000 == gigabytes) return shortest(megabytes);
  }
  return shortest(near);
}

DeviceKind kindOf(const PciFacts& pci, const PciContents& contents) {
  if (contents.gpu) return DeviceKind::accelerator;
  if (contents.nic) return DeviceKind::nic;
  if (contents.pci) return DeviceKind::bridge;
  const uint32_t code = pci.classCode.value_or(0xff0000);
  const uint32_t base = code >> 16, baseAndSub = code >> 8;
  constexpr uint32_t kNvidia = 0x10de;  // others make bridges of the class of NVSwitches
  if (code == kNvSwitchClass && pci.vendor.value_or(kNvidia) == kNvidia) return DeviceKind::nvSwitch;
  if (base == 0x03 || base == 0x12) return DeviceKind::accelerator;  // display; processing accelerator
  if (base == 0x02 || baseAndSub == 0x0c06) return DeviceKind::nic;  // network; InfiniBand of old
  return base == 0x06 ? DeviceKind::bridge : DeviceKind::other;
}

std::optional<DeviceKind> pciKindFrom(std::string_view text) {
  for (const auto& [kind, name] : kPciKinds) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

const char* textOfPciKind(DeviceKind kind) {
  for (const auto& [each, name] : kPciKinds) {
    if (each == kind) return name;
  }
  return "other";
}

}  // namespace eccl::topology
