// Opening modules, and where they are looked for.
#include "base/module.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace eccl {
namespace {

constexpr const char* kFileSuffix = ".so";

/// What its file says it is called: a module of another version cannot be asked.
std::string nameIn(const ModuleKind& kind, const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  if (name.rfind(kind.prefix, 0) == 0) name.erase(0, std::strlen(kind.prefix));
  if (const size_t end = name.rfind(kFileSuffix); end != name.npos) name.erase(end);
  return name;
}

Status wrong(const ModuleKind& kind, const std::string& path, const std::string& why,
             Code code = Code::invalidUsage) {
  return Status::error(code, "the %s '%s' (%s) %s", kind.what, nameIn(kind, path).c_str(), path.c_str(),
                       why.c_str());
}

std::string folderOf(Opened when) {
  return moduleFolder() + (when == Opened::named ? "/named" : "");
}

}  // namespace

Result<const ModuleHeader*> openModule(const ModuleKind& kind, const std::string& path) {
  if (getauxval(AT_SECURE) != 0) {
    const std::string unset = kind.setting != nullptr ? format("unset %s, or ", kind.setting) : "";
    return wrong(
        kind, path,
        format("is not opened in a program that runs with more rights than its user: %stake its setuid "
               "bit or capabilities away",
               unset.c_str()));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    const std::string correct = kind.setting != nullptr ? format(", or correct %s", kind.setting) : "";
    return wrong(kind, path,
                 format("cannot be loaded: %s. Install what it needs%s",
                        why != nullptr ? why : "the loader does not say why", correct.c_str()),
                 Code::system);
  }
  const auto function = reinterpret_cast<const ModuleHeader* (*)()>(dlsym(library, kind.symbol));
  if (function == nullptr)
    return wrong(kind, path, format("is no %s: it has no function %s", kind.what, kind.symbol));
  const ModuleHeader* const module = function();
  if (module == nullptr || module->magic != kModuleMagic)
    return wrong(kind, path, format("is no %s: what %s returns makes no sense", kind.what, kind.symbol));
  if (module->interface != kModuleInterface || std::strcmp(module->version, kModuleVersion) != 0) {
    return wrong(
        kind, path,
        format("is of ECCL %s (interface %u), and this is ECCL %s (interface %u): install the module of "
               "this version, or build it again from this version's headers",
               module->version, module->interface, kModuleVersion, kModuleInterface));
  }
  return module;
}

const std::string& moduleFolder() {
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

std::string modulePath(const ModuleKind& kind, const std::string& name) {
  const std::string file = kind.prefix + name + kFileSuffix, named = folderOf(Opened::named) + "/" + file;
  std::error_code none;
  return std::filesystem::exists(named, none) ? named : folderOf(Opened::always) + "/" + file;
}

std::vector<std::string> modulesFound(const ModuleKind& kind, Opened when) {
  std::vector<std::string> paths;
  std::error_code none;  // the folder is usually not there
  for (const auto& entry : std::filesystem::directory_iterator(folderOf(when), none)) {
    const std::string file = entry.path().filename();
    if (file.rfind(kind.prefix, 0) == 0 && entry.path().extension() == kFileSuffix)
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace eccl
