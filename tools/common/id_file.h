// Passing the id between the processes of one host through a file that only their user can read.
#pragma once

#include <string>

#include "tools/common/launch.h"

namespace eccl::tools {

/// A file name for `job`; when the launcher names no job, the launcher's process stands for it, which all
/// ranks have as their parent. Characters that do not belong into a file name are replaced.
std::string idFileName(const std::string& job);

/// $XDG_RUNTIME_DIR, else /tmp/eccl-perf-<uid> (made with mode 0700). An error unless it is a directory of
/// this user that nobody else may enter.
Outcome privateDirectory(const Environment& environment, std::string* directory);

/// Rank 0 makes the id and writes it to <private directory>/<name>, mode 0600, with its own process number and
/// start time; the others wait for a file whose writer is alive, so that what a crashed job left is never
/// taken for this one's.
class FileRendezvous final : public Rendezvous {
 public:
  FileRendezvous(std::string name, int rank) : name_(std::move(name)), rank_(rank) {}
  ~FileRendezvous() override { joined(); }
  Outcome id(ecclUniqueId* id) override;
  void joined() override;

 private:
  Outcome write(const ecclUniqueId& id);
  Outcome wait(ecclUniqueId* id);

  const std::string name_;
  const int rank_;
  std::string path_;
  bool written_ = false;
};

}  // namespace eccl::tools
