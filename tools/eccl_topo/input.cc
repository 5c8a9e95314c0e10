// Where the machine comes from, and where files go.
#include <cstdio>
#include <filesystem>

#include "base/text_file.h"
#include "cluster.h"
#include "commands.h"
#include "topology/formats/cluster_json.h"
#include "topology/formats/host_formats.h"
#include "topology/probe/probe_hwloc.h"

namespace eccl::topo {

Result<std::string> readFile(const std::string& path) {
  constexpr size_t kMax = size_t{256} << 20;  // a cluster of 2,000 hosts that are wired alike has 2 MB
  return readTextFile(path, "the file", kMax);
}

Result<topology::Host> parseHost(const std::string& content, const std::string& path) {
  std::vector<std::string> oddities;
  auto host = topology::parseHost(content, path, &oddities);
  for (const std::string& sentence : oddities)
    std::fprintf(stderr, "eccl_topo: warning: %s\n", sentence.c_str());
  return host;
}

Result<topology::Host> loadHost(const std::string& path) {
  ECCL_ASSIGN(const std::string content, readFile(path));
  return parseHost(content, path);
}

Result<topology::Cluster> parseCluster(const std::string& content, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return topology::parseClusterJson(content, path,
                                    [&](const std::string& file) { return loadHost(folder / file); });
}

topology::Host probe(const Options& options) {
  topology::ProbeSources sources;
  sources.root = options.root;
  sources.structure = topology::hwlocStructure;
  return topology::probeHost(sources);
}

int write(const std::string& text, const Options& options) {
  if (options.output.empty()) {
    std::fputs(text.c_str(), stdout);
    return kFine;
  }
  const Status written = writeTextFile(options.output, text, "the file");
  return written.ok() ? kFine : unreadable(written);
}

int unreadable(const Status& status) {
  std::fprintf(stderr, "eccl_topo: %s\n", status.message().c_str());
  return kUnreadable;
}

int dump(const topology::Host& host, const Options& options) {
  const Result<std::string> text =
      topology::findHostFormat(options.format.empty() ? "xml" : options.format)->write(host);
  return text.ok() ? write(*text, options) : unreadable(text.status());
}

int draw(const topology::Host& host, const Options& options) {
  return write(drawing(host), options);
}

}  // namespace eccl::topo
