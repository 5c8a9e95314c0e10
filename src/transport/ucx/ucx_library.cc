#include "transport/ucx/ucx_library.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>

extern char** environ;

namespace eccl::transport {
namespace {

/// What this process has of UCX. Ranks in threads make contexts at the same time, and UCX's settings and
/// modules are the process's.
struct UcxProcess {
  std::mutex mutex;
  pid_t pid = 0;  // that has opened contexts
  int contexts = 0;
  std::vector<std::pair<ucp_worker_h, std::vector<std::shared_ptr<void>>>> left;
};
UcxProcess& process() {
  static UcxProcess* const one = new UcxProcess;  // threads may outlive static destructors
  return *one;
}

/// "tcp/eth0, sysv/memory": of UCX's own text, which has a line for each: "# resource 1 : md 1 dev 2 ...
/// tcp/eth0".
std::string resourcesIn(const std::string& text) {
  std::string list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" resource ") == std::string::npos) continue;
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const size_t space = line.rfind(' ', slash), end = line.find_first_of(" \t", slash);
    list +=
        (list.empty() ? "" : ", ") + line.substr(space + 1, end == std::string::npos ? end : end - space - 1);
  }
  return list;
}

std::string textOf(ucp_context_h context) {
  char* bytes = nullptr;
  size_t size = 0;
  FILE* const stream = open_memstream(&bytes, &size);
  if (stream == nullptr) return "";
  ucp_context_print_info(context, stream);
  fclose(stream);
  const std::string text(bytes, size);
  std::free(bytes);
  return text;
}

}  // namespace

Status ucxStatus(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return {};
  return Status::error(Code::system, "ucx: %s: %s", what, ucs_status_string(status));
}

UcxVersion ucxVersion() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return {static_cast<uint16_t>(major), static_cast<uint16_t>(minor)};
}

Result<ucp_context_h> openUcx() {
  UcxProcess& its = process();
  std::lock_guard lock(its.mutex);
  if (its.contexts > 0 && its.pid != getpid()) {
    return Status::error(
        Code::system,
        "this process was forked while process %d used UCX, which cannot be used in both: fork before "
        "that, or start another program",
        static_cast<int>(its.pid));
  }
  its.pid = getpid();
  ucp_config_t* config = nullptr;
  ECCL_TRY(ucxStatus(ucp_config_read(nullptr, nullptr, &config), "reading its settings"));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "eccl";
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  ECCL_TRY(ucxStatus(status, "making a context"));
  ++its.contexts;
  return context;
}

void closeUcx(ucp_context_h context) {
  UcxProcess& its = process();
  std::lock_guard lock(its.mutex);
  ucp_cleanup(context);
  --its.contexts;
}

void leaveUcx(ucp_worker_h worker, std::vector<std::shared_ptr<void>> memory) {
  UcxProcess& its = process();
  std::lock_guard lock(its.mutex);
  its.left.emplace_back(worker, std::move(memory));
}

std::vector<std::string> describeUcx() {
  std::vector<std::string> lines = {
      format("UCX %s, built for %d.%d", ucp_get_version_string(), UCP_API_MAJOR, UCP_API_MINOR)};
  if (const Result<ucp_context_h> context = openUcx(); context.ok()) {
    const std::string resources = resourcesIn(textOf(*context));
    if (!resources.empty()) lines.push_back("UCX has found " + resources);
    closeUcx(*context);
  }
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::strncmp(*variable, "UCX_", 4) == 0) lines.push_back(*variable);
  return lines;
}

}  // namespace eccl::transport
