// The host seam: what communicators ask of the operating system they ask of their System (src/base/system.h).
// Here are the files that may use it directly, each with its reason; a use anywhere else is a failure.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kReasons = {
    {"base/real_system.cc", "it is the real System"},
    {"base/system.h", "it is the seam"},
    {"base/condition.h", "a Condition of the real System is the kernel's"},
    {"base/short_lock.h",
     "who holds one neither waits nor calls the System, so nobody meets it in virtual time"},
    {"base/thread.h", "declares how the real System starts threads"},
    {"base/thread.cc", "how the real System starts threads"},
    {"base/log.cc", "a line of the log begins with this machine's name"},
    {"base/text_file.cc", "reads settings and tables; no communicator's work"},
    {"transport/shm/memory_path.cc", "whoever shares memory shares the machine"},
    {"transport/verbs/memory_watch.cc", "whoever has RDMA devices has the machine, and its memory"},
    {"transport/net/descriptors.cc", "limits are the process's, and so is the pace of lines about them"},
    {"runtime/calibration/machine_speeds.cc", "measures this machine, whatever communicators believe to be on"},
    {"runtime/cuda/mapped_block.cc", "whoever has GPUs has the machine"},
    {"runtime/cuda/neighbourhood.cc", "whoever has GPUs has the machine"},
    {"runtime/api/api_communicator.cc", "the C API puts communicators on the real System"},
    {"runtime/api/group.cc", "the C API's own threads"},
    {"runtime/api/jobs.cc", "the C API's own threads"},
};

/// Without comments, strings, and the defaults of options and parameters.
std::string codeOf(const std::string& text) {
  static const std::regex noise(R"rx(//[^\n]*|"(?:[^"\\\n]|\\.)*"|System[*&] system = &?System::real\(\))rx");
  return std::regex_replace(text, noise, " ");
}

/// What of the operating system `text` uses directly.
std::set<std::string> usesIn(const std::string& text) {
  static const std::regex use(
      R"rx((?:^|[^\w.>])((?:::)?socket(?=\([^;]*SOCK_)|(?:::)?(?:accept4|epoll_\w+|eventfd(?:_\w+)?|pidfd_open|getrandom|getentropy|)rx"
      R"rx(getifaddrs|gethostname|getsockname|getpeername|getsockopt|setsockopt|sendmsg|recvmsg|recv|nanosleep|)rx"
      R"rx(usleep|sched_yield|clock_gettime|gettimeofday|pthread_create|ppoll|fork)(?=\()|poll(?=\(&)|)rx"
      R"rx(std::j?thread\b|std::this_thread\b|std::async\b|std::condition_variable\w*|std::random_device\b|)rx"
      R"rx(\w+_clock::now\b|startThread(?=\()|System::real\b|SYS_\w+))rx");
  std::set<std::string> found;
  const std::string code = codeOf(text);
  for (std::sregex_iterator it(code.begin(), code.end(), use), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

TEST(HostSeam, TheCheckSeesUses) {
  using Uses = std::set<std::string>;
  EXPECT_EQ(usesIn("  Fd fd(socket(AF_INET, SOCK_STREAM, 0));"), Uses{"socket"});
  EXPECT_EQ(usesIn("const int n = ::recv(fd, to, 4, 0);"), Uses{"::recv"});
  EXPECT_EQ(usesIn("poll(&entry, 1, 0) == 1"), Uses{"poll"});
  EXPECT_EQ(usesIn("std::thread thread_; std::this_thread::sleep_for(x);"),
            (Uses{"std::thread", "std::this_thread"}));
  EXPECT_EQ(usesIn("auto now = std::chrono::steady_clock::now();"), Uses{"steady_clock::now"});
  EXPECT_EQ(usesIn("rest(System::real().now());"), Uses{"System::real"});
  EXPECT_EQ(
      usesIn("System* system = &System::real();  // socket(\n system.socket(2); s->poll(&x); \"getrandom(\""),
      Uses{});
  EXPECT_EQ(usesIn("Fd socket_; open(System& system = System::real()); TimePoint t; reactor.poll(limit);"),
            Uses{});
}

TEST(HostSeam, OnlyTheseFilesUseTheOperatingSystemDirectly) {
  std::set<std::string> users;
  int checked = 0;
  for (const char* layer : {"base", "program", "algorithms", "kernels", "transport", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ECCL_SOURCE_DIR) / "src" / layer)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      const std::string name = fs::relative(entry.path(), fs::path(ECCL_SOURCE_DIR) / "src");
      ++checked;
      for (const std::string& use : usesIn(text.str())) {
        users.insert(name);
        EXPECT_EQ(kReasons.count(name), 1U) << "src/" << name << " uses " << use
                                            << ": ask the System that it was made with (src/base/system.h)";
      }
    }
  }
  EXPECT_GT(checked, 150);
  for (const auto& [name, reason] : kReasons)
    EXPECT_EQ(users.count(name), 1U) << name << " uses nothing directly any more: take it off this list";
}

}  // namespace
