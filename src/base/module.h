// Modules: shared libraries that libeccl.so opens at run time, so that it needs none of the libraries that
// they need. What a module brings is its kind's affair: a transport (transport/core/transport_module.h), or an
// executor (runtime/executor/executor_module.h).
//
// A module exports one C function, which returns a structure that begins with a ModuleHeader. What passes
// between it and the library are C++ objects, so it must be built from the headers of exactly this version;
// eccl_add_module() of CMake does that. It contains the functions of the library that it uses: what is one for
// each process it has once more.
//
// Any thread may call all of this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "eccl/version.h"

#define ECCL_MODULE_TEXT_(x) #x
#define ECCL_MODULE_TEXT(x) ECCL_MODULE_TEXT_(x)

namespace eccl {

/// Counts changes, between releases, of the headers whose objects pass between modules and the library.
inline constexpr uint32_t kModuleInterface = 13;
inline constexpr const char* kModuleVersion =
    ECCL_MODULE_TEXT(ECCL_MAJOR) "." ECCL_MODULE_TEXT(ECCL_MINOR) "." ECCL_MODULE_TEXT(ECCL_PATCH);
inline constexpr uint32_t kModuleMagic = 0x4d434345;  // "ECCM"

/// What every module's structure begins with, in all versions: another version reads it to say what is wrong.
struct ModuleHeader {
  uint32_t magic = kModuleMagic;
  uint32_t interface = kModuleInterface;
  const char* version = kModuleVersion;  ///< of ECCL
};

/// What modules of one kind have in common. All texts are static.
struct ModuleKind {
  const char* what;     ///< for messages: "transport module"
  const char* symbol;   ///< the function
  const char* prefix;   ///< of the file's name, before the module's own: "libeccl_transport_"
  const char* setting;  ///< that names files of this kind, whole; nullptr: none does
};

/// Opens a file, which stays open for as long as the process lives. Errors name the file and say what to do:
/// system if it cannot be loaded, which includes that there is none; invalidUsage if it is no module of this
/// kind or of another version, or if this process has more rights than its user. Not logged.
Result<const ModuleHeader*> openModule(const ModuleKind& kind, const std::string& path);
/// Where modules of this installation are: the folder eccl/ beside libeccl.so. An absolute path.
const std::string& moduleFolder();
/// The file of the module of this name in that folder, or in the one of those that are opened where a setting names
/// them; whether or not there is one.
std::string modulePath(const ModuleKind& kind, const std::string& name);
/// When the modules of a folder are opened: always, or where a setting names them. What a library does to a process by
/// being there (signal handlers, hooks of memory, threads) is for those who ask for it: named/ in that folder.
enum class Opened : uint8_t { always, named };
/// The files there whose names are those of modules of this kind, sorted.
std::vector<std::string> modulesFound(const ModuleKind& kind, Opened when);

}  // namespace eccl
