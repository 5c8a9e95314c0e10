// The table on stdout, in nccl-tests' format, and the same facts as JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/links.h"
#include "common/options.h"
#include "common/stats.h"

namespace eccl::perf {

/// One line under "# Using devices".
struct DeviceLine {
  int rank, group, pid;
  std::string host;
  int device;
  std::string pci;   ///< "domain:bus:device"; zeros for a host rank, which sits on no bus
  std::string info;  ///< what the rank runs on
};

/// One placement of one row.
struct Measurement {
  double microseconds = 0, algbw = 0, busbw = 0;
  bool checked = false;  ///< else `wrong` prints as N/A
  int64_t wrong = 0;
  double slowest = 1,
         fastest = 1;  ///< --consistency: runs, relative to the median one, which `microseconds` is of
};

/// Written by one thread, that of rank 0; the files must outlive the report. Writing to stdout cannot fail
/// in a way a benchmark could answer, so nothing here returns an error.
class Report {
 public:
  /// `json` may be null.
  Report(FILE* out, JsonWriter* json, const Options& options) : out_(out), json_(json), options_(options) {}

  /// Opens the JSON document: arguments, environment (secrets left out), versions.
  void beginDocument(int argc, char** argv, char** environment, int libraryVersion);
  void banner(const char* program, int headerVersion, int libraryVersion);
  void devices(const std::vector<DeviceLine>& lines);
  /// How long the slowest process took to join. In the text only: the JSON has nccl-tests' keys.
  void init(double seconds, int ranks);
  /// "#\n# <sentence>\n".
  void remark(const std::string& sentence);
  void tableHeader();

  void beginRow(size_t bytes, size_t count, const char* type, const char* op, int root);
  void measurement(const Measurement& m, bool inPlace);
  /// -I's columns. `times` in seconds; `rows` holds every process's times one after another, if more than one.
  void perIteration(const std::vector<double>& times, const std::vector<double>& rows, bool inPlace);
  void endRow();

  /// `minimum` < 0 when no bandwidth was asked for.
  void footer(const char* program, int64_t outOfBounds, double averageBusBandwidth, double minimum);
  /// --report_links. `seconds`: how long the measurement took.
  void links(const std::vector<LinkRecord>& records, double seconds);
  void memory(int64_t initialization, int64_t user, int64_t collective);
  /// The closing lines, and the end of the JSON document.
  void finish(const std::string& error);

 private:
  void timestamp();
  void configuration();

  FILE* out_;
  JsonWriter* json_;
  const Options& options_;
  bool rowOpen_ = false;
};

/// "%Y-%m-%d %H:%M:%S", local time.
std::string timeOfDay();

}  // namespace eccl::perf
