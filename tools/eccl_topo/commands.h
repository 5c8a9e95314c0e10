// The commands of eccl_topo. Each prints to the standard output, says on stderr what went wrong, and returns
// the exit code. One thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/model/clos.h"
#include "topology/model/link_model.h"
#include "topology/model/topology.h"

namespace eccl::topo {

/// The exit codes, as promised in --help.
enum ExitCode : int { kFine = 0, kFound = 1, kMisused = 2, kUnreadable = 3 };

/// The command line. Members have their defaults unless an option sets them.
struct Options {
  std::string command;
  std::string file, root;      // where the host comes from; both empty: this machine
  std::string format, output;  // format: empty: a machine as XML, a cluster as JSON
  std::string other;           // of diff
  bool json = false, help = false;
  bool color = false;
  int channels = 32;
  std::string host;          // of a cluster: its name or number; empty: all of it
  std::string from;          // of paths in a cluster: the host, and perhaps its device
  topology::ClosShape clos;  // of clos
  bool speedGiven = false;
};

/// Says why on stderr and ends the program.
[[noreturn]] void misused(const std::string& why);

/// This machine, or the captured one that options.root names.
topology::Host probe(const Options& options);
/// The content of a file, up to 256 MiB. Errors name the file.
Result<std::string> readFile(const std::string& path);
/// The host in a text, XML or JSON, whichever it is. `path` is what errors call it.
Result<topology::Host> parseHost(const std::string& content, const std::string& path);
Result<topology::Host> loadHost(const std::string& path);
/// Writes to options.output, or to the standard output. Says on stderr what went wrong; returns the exit
/// code.
int write(const std::string& text, const Options& options);
/// Says an error on stderr and returns kUnreadable.
int unreadable(const Status& status);

int show(const topology::Host& host, const Options& options);
int dump(const topology::Host& host, const Options& options);
int draw(const topology::Host& host, const Options& options);
int paths(const topology::Host& host, const Options& options);
int search(const topology::Host& host, const Options& options);
int check(const topology::Host& host, const Options& options);
int diff(const topology::Host& host, const topology::Host& other, const Options& options);
/// The command with options of its own: `argv` begins with the command.
int measure(int argc, char** argv);
/// The same for speeds.
int speeds(int argc, char** argv);

/// The SVG that draw() writes.
std::string drawing(const topology::Host& host);

/// The links of a host, found by their ends. Two devices may be joined in the tree and beside it.
struct HostLinks {
  std::map<std::pair<int, int>, topology::Link> tree;  // PCI, to ports, and between CPUs
  std::vector<topology::Link> fabric;                  // of Host::fabric, in its order
};
HostLinks hostLinks(const topology::Host& host);

/// What people call a device: "accelerator 3", "CPU 0", "mlx5_0".
std::string titleOf(const topology::Host& host, int device);
/// What is known of a device's own link: "PCIe 4.0 x16", "200 Gb/s"; empty if nothing is.
std::string speedOf(const topology::Device& device);

}  // namespace eccl::topo
