#include "common/traffic.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace eccl::perf {
namespace {

Outcome number(const char* name, const Environment& environment, double least, double greatest, double* value) {
  const char* text = testsVariable(name, environment);
  if (text == nullptr) return {};
  char* end = nullptr;
  *value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(*value >= least && *value <= greatest))
    return Outcome::error(Exit::usage, "NCCL_TESTS_%s takes a number from %g to %g; got '%s'", name, least,
                          greatest, text);
  return {};
}

constexpr size_t aligned(double bytes) {
  return static_cast<size_t>(bytes) & ~size_t{15};
}

}  // namespace

Traffic Traffic::generated(double spread) {
  Traffic traffic;
  traffic.spread_ = spread;
  return traffic;
}

Outcome Traffic::fromEnvironment(const Environment& environment, int nranks, Traffic* traffic) {
  TOOLS_TRY(number("ALLTOALLV_SPREAD", environment, 0, 1, &traffic->spread_));
  double scale = 1;
  TOOLS_TRY(number("ALLTOALLV_MATRIX_SCALE", environment, 0, 1e12, &scale));
  const char* path = testsVariable("ALLTOALLV_MATRIX_FILE", environment);
  if (path == nullptr) return {};
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Outcome::error(Exit::usage, "cannot read the traffic matrix %s", path);
  return parseMatrix(text.str(), path, scale, nranks, traffic);
}

// Blank lines are skipped; a larger matrix than needed serves for its first ranks, as in nccl-tests.
Outcome Traffic::parseMatrix(const std::string& text, const std::string& name, double scale, int nranks,
                             Traffic* traffic) {
  std::vector<std::vector<size_t>> matrix;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<size_t> row;
    const char* at = line.c_str();
    for (;;) {
      while (std::isspace(static_cast<unsigned char>(*at))) ++at;
      if (*at == '\0') break;
      char* end = nullptr;
      const double bytes = std::strtod(at, &end) * scale;
      if (end == at || !(bytes >= 0 && bytes < 0x1p62))
        return Outcome::error(Exit::usage, "traffic matrix %s, row %zu, column %zu: not a number of bytes",
                              name.c_str(), matrix.size(), row.size());
      row.push_back(aligned(bytes));
      at = end;
    }
    if (!row.empty()) matrix.push_back(std::move(row));
  }
  const bool square =
      std::all_of(matrix.begin(), matrix.end(), [&](const auto& row) { return row.size() == matrix.size(); });
  if (!square)
    return Outcome::error(Exit::usage, "traffic matrix %s has %zu rows of other lengths; it must be square",
                          name.c_str(), matrix.size());
  if (matrix.size() < static_cast<size_t>(nranks))
    return Outcome::error(Exit::usage, "traffic matrix %s is for %zu ranks; this run has %d", name.c_str(),
                          matrix.size(), nranks);
  traffic->matrix_ = std::move(matrix);
  return {};
}

// The formula of nccl-tests: a blend of an equal share and one that grows with the distance around the ring of
// ranks, each rank sending `total` in all.
size_t Traffic::bytes(int from, int to, int nranks, size_t total) const {
  if (isMatrix()) return matrix_[from][to];
  const double all = static_cast<double>(total);
  if (nranks == 1) return aligned(all);
  const int distance = (to - from + nranks) % nranks;
  const double distances = static_cast<double>(nranks) * (nranks - 1) / 2;
  return aligned((1 - spread_) * (all / nranks) + spread_ * (distance * all / distances));
}

size_t Traffic::busiest(int nranks, size_t total, size_t elementBytes) const {
  // Generated traffic looks the same from every rank, in both directions.
  const int rows = isMatrix() ? nranks : 1;
  size_t most = 0;
  for (int rank = 0; rank < rows; ++rank) {
    size_t sent = 0, received = 0;
    for (int peer = 0; peer < nranks; ++peer) {
      sent += bytes(rank, peer, nranks, total) / elementBytes;
      received += bytes(peer, rank, nranks, total) / elementBytes;
    }
    most = std::max({most, sent, received});
  }
  return most;
}

}  // namespace eccl::perf
