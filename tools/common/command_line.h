// The command line of a tool as a table: an option's meaning, its help and its errors are said once.
#pragma once

#include <climits>
#include <functional>
#include <string>
#include <vector>

#include "tools/common/number.h"
#include "tools/common/outcome.h"

namespace eccl::tools {

/// Takes an option's argument, null where it has none. `option` is its name for messages: "--ranks".
using Apply = std::function<Outcome(const std::string& option, const char* argument)>;

struct CommandOption {
  char letter;           ///< 0: it has no short form
  const char* name;      ///< null: not an option, but a line of the help between two
  const char* argument;  ///< what its argument is called in the help; null: it takes none
  std::string help;
  Apply apply;
};

/// What most options do. Values are the caller's, and outlive the table. An argument that is none of those
/// wanted is an error of kind usage that names the option, the argument and what it may be.
Apply setFlag(bool* value);
Apply setText(std::string* value);
Apply addText(std::vector<std::string>* values);
Apply setSize(size_t* bytes, size_t least = 0);
template <class T>
Apply setNumber(T* value, long long least, long long most = INT_MAX) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    long long number;
    if (!parseInteger(argument, least, most, &number))
      return Outcome::error(Exit::usage, "%s %s is not a number from %lld to %lld", option.c_str(), argument,
                            least, most);
    *value = static_cast<T>(number);
    return {};
  };
}

/// Applies the options in the order in which they were given, up to the first error. *words: the arguments that
/// are no options; where `words` is null there must be none. argv[0] is skipped. Not thread-safe (getopt).
Outcome parseCommandLine(int argc, char** argv, const std::vector<CommandOption>& options,
                         std::vector<std::string>* words);

/// A line or more for each option.
std::string helpText(const std::vector<CommandOption>& options);

/// Says on stderr why `command` cannot do what it was asked for, and ends the program with code 2.
[[noreturn]] void misused(const char* command, const std::string& why);

}  // namespace eccl::tools
