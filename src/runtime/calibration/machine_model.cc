#include "runtime/calibration/machine_model.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "base/log.h"
#include "base/once_by_key.h"
#include "base/text_file.h"
#include "eccl/version.h"
#include "kernels/reduce.h"
#include "runtime/calibration/machine_speeds.h"
#include "topology/probe/host_summary.h"

namespace eccl::runtime {
namespace {

namespace fs = std::filesystem;
using algorithms::CostModel;

constexpr const char* kNone = "none";

#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLooksForErrors = true;
#elif defined(__has_feature)
constexpr bool kLooksForErrors = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kLooksForErrors = false;
#endif

/// Letters, digits and dots; the rest is a dash.
std::string asFileName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain || (!name.empty() && name.back() != '-')) name += plain ? c : '-';
  }
  return name;
}

/// Which way of measuring: files of an earlier one are of no use any more.
constexpr int kMeasurement = 4;

/// Where nobody has named a file.
Result<std::string> usualFile() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (home != nullptr && *home == '/') {
    folder = fs::path(home) / ".cache";
  } else {
    return Status::error(Code::invalidUsage,
                         "neither XDG_CACHE_HOME nor HOME is set; ECCL_SPEEDS_FILE names a place");
  }
  const topology::Processors processors = topology::processors();
  return (folder / "eccl" /
          asFileName(format("speeds %s %zu %s %s %d.%d m%d", processors.model.c_str(), processors.online.size(),
                            processors.kernel.c_str(), kernels::reduceVariants().front().name, ECCL_MAJOR,
                            ECCL_MINOR, kMeasurement)))
      .string();
}

MachineModel defaults(std::string why) {
  return {CostModel(), "", std::move(why)};
}

/// What the file says of itself.
std::string headOf(const topology::Processors& processors, ProcessorPair pair) {
  char day[32] = "";
  const time_t now = time(nullptr);
  tm utc{};
  if (gmtime_r(&now, &utc) != nullptr) strftime(day, sizeof day, "%Y-%m-%d %H:%M", &utc);
  return format(
      "# Speeds of %s (%zu processors), Linux %s: constants of the cost model.\n"
      "# Measured by ECCL %d.%d.%d on processors %d and %d, %s UTC. Delete this file to have them measured "
      "again.\n",
      processors.model.c_str(), processors.online.size(), processors.kernel.c_str(), ECCL_MAJOR, ECCL_MINOR,
      ECCL_PATCH, pair.first, pair.second, day);
}

/// Whether a file may be written there, so that nothing is measured for nothing.
bool canKeep(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  std::error_code failure;
  while (!folder.empty() && folder.has_relative_path() && !fs::exists(folder, failure))
    folder = folder.parent_path();
  return access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
}

/// The file if there is one; else as `otherwise` does.
template <class Otherwise>
Result<MachineModel> readOr(const Settings& settings, Otherwise otherwise) {
  if (!settings.costFile.empty()) {
    ECCL_ASSIGN(CostModel model, CostModel::load(settings.costFile));
    return MachineModel{std::move(model), settings.costFile, ""};
  }
  if (settings.speedsFile == kNone) return defaults("ECCL_SPEEDS_FILE=none");
  if (settings.deterministic) return defaults("ECCL_DETERMINISTIC=1: choices do not depend on the machine");
  const auto path = speedsFileOf(settings);
  if (!path.ok()) return defaults(path.status().message());
  std::error_code failure;
  if (!fs::exists(*path, failure)) return otherwise(*path);
  auto model = CostModel::load(*path);
  if (model.ok()) return MachineModel{std::move(*model), *path, ""};
  if (!settings.speedsFile.empty()) return model.status();
  ECCL_WARN("%s; the default constants are taken: delete the file to have the machine measured again",
            model.status().message().c_str());
  return defaults(model.status().message());
}

/// The file, or what was measured now, or why neither.
Result<MachineModel> readOrMeasure(const Settings& settings) {
  auto measure = [&](const std::string& path) -> Result<MachineModel> {
    if (!canKeep(path)) return defaults("no file can be written at " + path);
    auto measured = measureMachine(settings);
    if (!measured.ok())
      return defaults("the speeds of this machine are not known: " + measured.status().message());
    ECCL_INFO("the speeds of this machine were measured and are kept in %s", path.c_str());
    return measured;
  };
  ECCL_ASSIGN(MachineModel machine, readOr(settings, measure));
  if (machine.file.empty()) ECCL_INFO("the cost model has its default constants: %s", machine.why.c_str());
  return machine;
}

}  // namespace

Result<std::string> speedsFileOf(const Settings& settings) {
  if (settings.speedsFile == kNone) return Status::error(Code::invalidUsage, "ECCL_SPEEDS_FILE is none");
  if (!settings.speedsFile.empty()) return settings.speedsFile;
  return usualFile();
}

Result<MachineModel> keptModel(const Settings& settings) {
  return readOr(settings, [](const std::string& path) -> Result<MachineModel> {
    return defaults("nothing has measured this machine yet: there is no " + path);
  });
}

Result<MachineModel> measureMachine(const Settings& settings) {
  ECCL_ASSIGN(const std::string path, speedsFileOf(settings));
  if (kLooksForErrors)
    return Status::error(Code::invalidUsage,
                         "this build of ECCL looks for errors, so it is slower than the machine");
  const topology::Processors processors = topology::processors();
  const auto pair = processorsOf(processors.allowed, processors.online, processors.threads);
  if (!pair || (processors.quota > 0 && processors.quota < 2))
    return Status::error(Code::invalidUsage, "it takes two processors, and this process may not use so many");
  std::error_code failure;
  fs::create_directories(fs::path(path).parent_path(), failure);  // if it fails, so does writing
  const topology::CpuCaches caches = topology::cpuCaches();
  // Of caches that are not known all of the buffers fit, as for the engine.
  const size_t share = caches.largest == 0 ? SIZE_MAX / 8 : caches.largest / (caches.sharers > 1 ? 2 : 1);
  ECCL_ASSIGN(const auto speeds, measureSpeeds(*pair, share, algorithms::CostParameters::defaults()));
  CostModel model(speeds, {});
  ECCL_TRY(writeTextFile(path, headOf(processors, *pair) + model.text(), "the file of this machine's speeds"));
  return MachineModel{std::move(model), path, ""};
}

Result<MachineModel> machineModel(const Settings& settings) {
  using Key = std::tuple<std::string, std::string, bool>;
  const Key key(settings.costFile, settings.speedsFile, settings.deterministic);
  return OnceByKey<Key, MachineModel>::get().at(key, [&] { return readOrMeasure(settings); });
}

}  // namespace eccl::runtime
