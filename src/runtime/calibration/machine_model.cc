#include "runtime/calibration/machine_model.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include "base/log.h"
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
std::string asFileName(std::string text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain || (!name.empty() && name.back() != '-')) name += plain ? c : '-';
  }
  return name;
}

/// Where nobody has named a file.
Result<std::string> usualFile(const topology::Processors& processors) {
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
  return (folder / "eccl" /
          asFileName(format("speeds %s %zu %s %s %d.%d", processors.model.c_str(), processors.online.size(),
                            processors.kernel.c_str(), kernels::reduceVariants().front().name, ECCL_MAJOR,
                            ECCL_MINOR)))
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

Result<MachineModel> measureTo(const std::string& path, const topology::Processors& processors) {
  if (kLooksForErrors)
    return Status::error(Code::invalidUsage,
                         "this build of ECCL looks for errors, so it is slower than the machine");
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
  if (settings.deterministic != 0)
    return defaults("ECCL_DETERMINISTIC=1: choices do not depend on the machine");
  const topology::Processors processors = topology::processors();
  const auto path =
      settings.speedsFile.empty() ? usualFile(processors) : Result<std::string>(settings.speedsFile);
  if (!path.ok()) return defaults(path.status().message());
  std::error_code failure;
  if (!fs::exists(*path, failure)) return otherwise(*path, processors);
  auto model = CostModel::load(*path);
  if (model.ok()) return MachineModel{std::move(*model), *path, ""};
  if (!settings.speedsFile.empty()) return model.status();
  ECCL_WARN("%s; the default constants are taken: delete the file to have the machine measured again",
            model.status().message().c_str());
  return defaults(model.status().message());
}

/// The file, or what was measured now, or why neither.
Result<MachineModel> readOrMeasure(const Settings& settings) {
  auto measure = [](const std::string& path, const topology::Processors& processors) -> Result<MachineModel> {
    if (!canKeep(path)) return defaults("no file can be written at " + path);
    auto measured = measureTo(path, processors);
    if (!measured.ok())
      return defaults("the speeds of this machine are not known: " + measured.status().message());
    ECCL_INFO("the speeds of this machine were measured and are kept in %s", path.c_str());
    return measured;
  };
  ECCL_ASSIGN(MachineModel machine, readOr(settings, measure));
  if (machine.file.empty()) ECCL_INFO("the cost model has its default constants: %s", machine.why.c_str());
  return machine;
}

/// By the settings that count.
class MachineModels {
 public:
  static MachineModels& get() {
    static auto* one = new MachineModels;  // outlives whoever asks while the process ends
    return *one;
  }

  Result<MachineModel> by(const Settings& settings) {
    const std::lock_guard lock(mutex_);
    const auto key = std::make_tuple(settings.costFile, settings.speedsFile, settings.deterministic);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    ECCL_ASSIGN(MachineModel made, readOrMeasure(settings));
    return known_.emplace(key, std::move(made)).first->second;
  }

 private:
  // A child forked while another thread measures would find the lock taken for good.
  MachineModels() {
    pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().mutex_.unlock(); });
  }

  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, bool>, MachineModel> known_;
};

}  // namespace

Result<std::string> speedsFileOf(const Settings& settings) {
  if (settings.speedsFile == kNone) return Status::error(Code::invalidUsage, "ECCL_SPEEDS_FILE is none");
  if (!settings.speedsFile.empty()) return settings.speedsFile;
  return usualFile(topology::processors());
}

Result<MachineModel> keptModel(const Settings& settings) {
  return readOr(settings, [](const std::string& path, const topology::Processors&) -> Result<MachineModel> {
    return defaults("nothing has measured this machine yet: there is no " + path);
  });
}

Result<MachineModel> measureMachine(const Settings& settings) {
  ECCL_ASSIGN(const std::string path, speedsFileOf(settings));
  return measureTo(path, topology::processors());
}

Result<MachineModel> machineModel(const Settings& settings) {
  return MachineModels::get().by(settings);
}

}  // namespace eccl::runtime
