// Where the machine comes from, and where files go.
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "commands.h"
#include "topology/host_json.h"
#include "topology/nccl_xml.h"
#include "topology/probe_hwloc.h"

namespace eccl::topo {

Result<Host> loadHost(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) return Status::fromErrno(errno, "%s", path.c_str());
  const std::string content = text.str();
  const size_t first = content.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && content[first] == '{';
  return json ? parseHostJson(content, path) : parseNcclXml(content, path);
}

Result<Host> readHost(const Options& options) {
  if (!options.file.empty()) return loadHost(options.file);
  ProbeSources sources;
  sources.root = options.root;
  sources.structure = hwlocStructure;
  return probeHost(sources);
}

namespace {

int write(const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::fputs(text.c_str(), stdout);
    return kFine;
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return kFine;
  std::fprintf(stderr, "eccl_topo: %s\n",
               Status::fromErrno(errno, "writing %s", path.c_str()).message().c_str());
  return kUnreadable;
}

}  // namespace

int dump(const Host& host, const Options& options) {
  if (options.format == "xml") return write(toNcclXml(host), options.output);
  Result<std::string> json = toJson(host);
  if (json.ok()) return write(*json, options.output);
  std::fprintf(stderr, "eccl_topo: %s\n", json.status().message().c_str());
  return kUnreadable;
}

int draw(const Host& host, const Options& options) {
  return write(drawing(host), options.output);
}

}  // namespace eccl::topo
