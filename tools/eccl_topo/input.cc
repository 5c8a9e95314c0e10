// Where the machine comes from, and where files go.
#include <cstdio>
#include <filesystem>

#include "base/text_file.h"
#include "cluster.h"
#include "commands.h"
#include "topology/cluster_json.h"
#include "topology/host_json.h"
#include "topology/nccl_xml.h"
#include "topology/probe_hwloc.h"

namespace eccl::topo {

Result<std::string> readFile(const std::string& path) {
  constexpr size_t kMost = size_t{256} << 20;  // a cluster of 2,000 hosts that are wired alike has 2 MB
  return readTextFile(path, "the file", kMost);
}

Result<Host> parseHost(const std::string& content, const std::string& path) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && content[first] == '{';
  if (json) return parseHostJson(content, path);
  std::vector<std::string> oddities;
  auto host = parseNcclXml(content, path, &oddities);
  for (const std::string& sentence : oddities)
    std::fprintf(stderr, "eccl_topo: warning: %s\n", sentence.c_str());
  return host;
}

Result<Host> loadHost(const std::string& path) {
  ECCL_ASSIGN(const std::string content, readFile(path));
  return parseHost(content, path);
}

Result<Cluster> parseCluster(const std::string& content, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return parseClusterJson(content, path, [&](const std::string& file) { return loadHost(folder / file); });
}

Host probe(const Options& options) {
  ProbeSources sources;
  sources.root = options.root;
  sources.structure = hwlocStructure;
  return probeHost(sources);
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

int dump(const Host& host, const Options& options) {
  if (options.format != "json") return write(toNcclXml(host), options);
  const Result<std::string> json = toJson(host);
  return json.ok() ? write(*json, options) : unreadable(json.status());
}

int draw(const Host& host, const Options& options) {
  return write(drawing(host), options);
}

}  // namespace eccl::topo
