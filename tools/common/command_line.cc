#include "tools/common/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace eccl::tools {

Apply setFlag(bool* value) {
  return [=](const std::string&, const char*) { return *value = true, Outcome(); };
}

Apply setText(std::string* value) {
  return [=](const std::string&, const char* argument) { return *value = argument, Outcome(); };
}

Apply addText(std::vector<std::string>* values) {
  return [=](const std::string&, const char* argument) { return values->push_back(argument), Outcome(); };
}

Apply setSize(size_t* bytes, size_t least) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    size_t size;
    if (parseSize(argument, &size) && size >= least) return *bytes = size, Outcome();
    const bool kibi = least > 0 && least % 1024 == 0;
    const std::string range =
        least > 0 ? formatted(" of %zu%s or more", kibi ? least / 1024 : least, kibi ? "K" : "") : "";
    return Outcome::error(Exit::usage, "%s %s is no size%s", option.c_str(), argument, range.c_str());
  };
}

Outcome parseCommandLine(int argc, char** argv, const std::vector<CommandOption>& options,
                         std::vector<std::string>* words) {
  constexpr int kNoLetter = 256;  // and above: the option's place in the table
  std::string shortForms = ":";   // a missing argument is reported as ':'
  std::vector<option> longForms;
  for (size_t i = 0; i < options.size(); ++i) {
    const CommandOption& each = options[i];
    if (each.name == nullptr) continue;
    if (each.letter != 0) shortForms += each.letter;
    if (each.letter != 0 && each.argument != nullptr) shortForms += ':';
    const int code = each.letter != 0 ? each.letter : kNoLetter + static_cast<int>(i);
    longForms.push_back({each.name, each.argument != nullptr ? required_argument : no_argument, nullptr, code});
  }
  longForms.push_back({});
  optind = 0;  // glibc: also forget the state of an earlier parse
  opterr = 0;
  for (int code; (code = getopt_long(argc, argv, shortForms.c_str(), longForms.data(), nullptr)) != -1;) {
    const bool letter = optopt > 0 && optopt < kNoLetter && code == '?';
    const std::string given = letter ? std::string("-") + static_cast<char>(optopt) : argv[optind - 1];
    if (code == '?') return Outcome::error(Exit::usage, "there is no option '%s'", given.c_str());
    if (code == ':') return Outcome::error(Exit::usage, "option '%s' requires an argument", given.c_str());
    const auto found = code >= kNoLetter ? options.begin() + (code - kNoLetter)
                                         : std::find_if(options.begin(), options.end(), [&](const auto& each) {
                                             return each.name != nullptr && each.letter == code;
                                           });
    TOOLS_TRY(found->apply(std::string("--") + found->name, optarg));
  }
  if (words == nullptr && optind < argc)
    return Outcome::error(Exit::usage, "'%s' is one argument too many", argv[optind]);
  if (words != nullptr) words->assign(argv + optind, argv + argc);
  return {};
}

std::string helpText(const std::vector<CommandOption>& options) {
  constexpr size_t kColumn = 28, kWidth = 110;
  std::string text;
  for (const CommandOption& each : options) {
    if (each.name == nullptr) {
      text += each.help + "\n";
      continue;
    }
    std::string line =
        each.letter != 0 ? formatted("  -%c,--%s", each.letter, each.name) : formatted("     --%s", each.name);
    if (each.argument != nullptr) line += std::string(" ") + each.argument;
    line.resize(std::max(line.size() + 1, kColumn), ' ');
    std::istringstream words(each.help);
    for (std::string word; words >> word;) {
      if (line.size() + 1 + word.size() > kWidth) {
        text += line + "\n";
        line.assign(kColumn, ' ');
      }
      line += (line.back() == ' ' ? "" : " ") + word;
    }
    text += line + "\n";
  }
  return text;
}

void misused(const char* command, const std::string& why) {
  std::fprintf(stderr, "%s: %s; see %s --help\n", command, why.c_str(), command);
  std::exit(2);
}

}  // namespace eccl::tools
