#include "transport/registry/modules.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "transport/core/transport_module.h"

namespace eccl::transport {
namespace {

constexpr const char* kFilePrefix = "libeccl_transport_";
constexpr const char* kFileSuffix = ".so";

/// What its file says it is called: a module of another version cannot be asked.
std::string nameIn(const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  if (name.rfind(kFilePrefix, 0) == 0) name.erase(0, std::strlen(kFilePrefix));
  if (const size_t end = name.rfind(kFileSuffix); end != name.npos) name.erase(end);
  return name;
}

Status wrong(const std::string& path, const std::string& why, Code code = Code::invalidUsage) {
  return Status::error(code, "the transport module '%s' (%s) %s", nameIn(path).c_str(), path.c_str(),
                       why.c_str());
}

Result<const TransportEntry*> load(const std::string& path) {
  if (getauxval(AT_SECURE) != 0) {
    return wrong(path,
                 "is not opened in a program that runs with more rights than its user: unset "
                 "ECCL_TRANSPORT_MODULES, or take its setuid bit or capabilities away");
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return wrong(path,
                 format("cannot be loaded: %s. Install what it needs, or correct ECCL_TRANSPORT_MODULES",
                        why != nullptr ? why : "the loader does not say why"),
                 Code::system);
  }
  const auto function = reinterpret_cast<TransportModuleFunction*>(dlsym(library, kModuleSymbol));
  if (function == nullptr)
    return wrong(path, format("is no transport module: it has no function %s", kModuleSymbol));
  const TransportModule* module = function();
  if (module == nullptr || module->magic != kModuleMagic)
    return wrong(path, format("is no transport module: what %s returns makes no sense", kModuleSymbol));
  if (module->interface != kModuleInterface || std::strcmp(module->version, kModuleVersion) != 0) {
    return wrong(path, format("is of ECCL %s (interface %u), and this is ECCL %s (interface %u): install the "
                              "module of this version, or build it again from this version's headers",
                              module->version, module->interface, kModuleVersion, kModuleInterface));
  }
  return module->entry;
}

}  // namespace

Result<const TransportEntry*> TransportModules::open(const std::string& path) {
  auto found = opened_.find(path);
  if (found == opened_.end()) found = opened_.emplace(path, load(path)).first;
  return found->second;
}

std::string TransportModules::fileOf(const TransportEntry* entry) const {
  for (const auto& [path, opened] : opened_) {
    if (opened.ok() && *opened == entry) return path;
  }
  return "";
}

const std::string& TransportModules::folder() {
  static const std::string* const folder = [] {
    Dl_info here{};
    std::filesystem::path file;
    if (dladdr(reinterpret_cast<const void*>(&nameIn), &here) != 0 && here.dli_fname != nullptr)
      file = std::filesystem::absolute(here.dli_fname);  // whatever the working directory becomes
    if (file.filename().string().rfind("libeccl.so", 0) == 0)
      return new std::string(file.parent_path() / "eccl");
    // A tool, which contains the library: where the installation has libeccl.so.
    std::error_code none;
    file = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / ECCL_LIBRARY_FROM_PROGRAMS;
    return new std::string((file / "eccl").lexically_normal());
  }();
  return *folder;
}

std::string TransportModules::pathOf(const std::string& name) {
  return folder() + "/" + kFilePrefix + name + kFileSuffix;
}

std::vector<std::string> TransportModules::found() {
  std::vector<std::string> paths;
  std::error_code none;  // the folder is usually not there
  for (const auto& entry : std::filesystem::directory_iterator(folder(), none)) {
    const std::string file = entry.path().filename();
    if (file.rfind(kFilePrefix, 0) == 0 && entry.path().extension() == kFileSuffix)
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace eccl::transport
