// The parts of SVG pictures, as text. Lengths are in the units of the picture. Pure functions.
#pragma once

#include <string>

namespace eccl::topo::svg {

/// The text as it may stand in XML.
std::string escaped(const std::string& text);
/// The thickness of a link of so many GB/s: thicker where there is more, so that the narrow places are seen.
double thickness(double gigabytes);

/// A text. `anchor`: start, middle or end. `more`: further attributes.
std::string text(double x, double y, const std::string& what, const char* anchor, const std::string& more = "");
std::string line(double x1, double y1, double x2, double y2, double width, const char* color);
/// A small text in the middle of x, on a ground that hides the lines behind it.
std::string label(double x, double y, const std::string& what, const char* color);
/// The whole file. Title and subtitle take the upper 60 units.
std::string document(double width, double height, const std::string& title, const std::string& subtitle,
                     const std::string& body);

}  // namespace eccl::topo::svg
