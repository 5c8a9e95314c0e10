#include "svg.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace eccl::topo::svg {
namespace {

constexpr double kMargin = 28;

/// How many characters are seen: bytes of UTF-8 that begin one.
size_t lengthOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      result += c;
  }
  return result;
}

double thickness(double gigabytes) {
  return std::clamp(0.6 + std::log2(1 + gigabytes) * 0.55, 0.8, 6.0);
}

std::string text(double x, double y, const std::string& what, const char* anchor, const std::string& more) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, more.c_str()) +
         escaped(what) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, double width, const char* color) {
  return format("<path d=\"M%.1f %.1f L%.1f %.1f\" stroke=\"%s\" stroke-width=\"%.1f\" fill=\"none\"/>\n", x1,
                y1, x2, y2, color, width);
}

std::string label(double x, double y, const std::string& what, const char* color) {
  const auto length = static_cast<double>(lengthOf(what));
  return format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"13\" fill=\"white\" opacity=\"0.85\"/>\n",
                x - 3.2 * length, y - 10, 6.4 * length) +
         text(x, y, what, "middle", format("fill=\"%s\" font-size=\"10\"", color));
}

std::string document(double width, double height, const std::string& title, const std::string& subtitle,
                     const std::string& body) {
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
             "%.0f\" "
             "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             width, height, width, height) +
         text(kMargin, 30, title, "start", "font-size=\"15\" font-weight=\"bold\"") +
         text(kMargin, 48, subtitle, "start", "fill=\"#555555\"") + body + "</svg>\n";
}

}  // namespace eccl::topo::svg
