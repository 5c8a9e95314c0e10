#include "tools/common/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "tools/common/id_file.h"
#include "tools/common/processes.h"

namespace eccl::tools {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment environmentOf(Variables variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Launcher> detected(const Variables& variables) {
  std::optional<Launcher> launcher;
  const Outcome outcome = detectLauncher(environmentOf(variables), &launcher);
  EXPECT_TRUE(outcome.ok()) << outcome.text();
  return launcher;
}

void expectLauncher(const Variables& variables, const char* name, int rank, int size, int localSize) {
  const auto launcher = detected(variables);
  ASSERT_TRUE(launcher) << name;
  EXPECT_EQ(launcher->name, name);
  EXPECT_EQ(launcher->rank, rank) << name;
  EXPECT_EQ(launcher->size, size) << name;
  EXPECT_EQ(launcher->localSize, localSize) << name;
}

TEST(Launcher, Dialects) {
  EXPECT_FALSE(detected({}));
  expectLauncher({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"PMIX_RANK", "1"}},
                 "Open MPI", 1, 4, 2);
  expectLauncher({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}}, "PMI", 3, 4, 4);
  expectLauncher({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}}, "PMIx", 0, 2, 0);
  expectLauncher({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "8"}}, "torchrun", 5, 8, 8);
  expectLauncher({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_NNODES", "1"}}, "Slurm", 2, 3, 3);
  expectLauncher({{"SLURM_PROCID", "1"},
                  {"SLURM_NTASKS", "3"},
                  {"SLURM_STEP_NUM_TASKS", "2"},
                  {"SLURM_JOB_ID", "7"},
                  {"SLURM_STEP_ID", "0"}},
                 "Slurm", 1, 2, 0);
}

TEST(Launcher, ABatchScriptIsNotAStep) {
  EXPECT_FALSE(detected({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(Launcher, NonsenseIsAnError) {
  for (const Variables& variables : {Variables{{"RANK", "2"}, {"WORLD_SIZE", "2"}},
                                     {{"RANK", "x"}, {"WORLD_SIZE", "2"}},
                                     {{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}},
                                     {{"PMIX_RANK", "0"}}}) {
    std::optional<Launcher> launcher;
    EXPECT_EQ(detectLauncher(environmentOf(variables), &launcher).code(), Exit::usage);
  }
}

TEST(Launcher, WhereTheRanksMeet) {
  const auto meet = [](const Launcher& launcher, const Variables& variables,
                       std::unique_ptr<Rendezvous>* result) {
    return makeRendezvous(launcher, environmentOf(variables), result);
  };
  std::unique_ptr<Rendezvous> result;
  ASSERT_TRUE(meet({"PMI", 0, 1, 1, ""}, {}, &result).ok());
  EXPECT_NE(dynamic_cast<DirectRendezvous*>(result.get()), nullptr);
  ASSERT_TRUE(meet({"PMI", 0, 4, 4, ""}, {}, &result).ok());
  EXPECT_NE(dynamic_cast<FileRendezvous*>(result.get()), nullptr);
  ASSERT_TRUE(meet({"PMI", 0, 4, 4, ""}, {{"ECCL_COMM_ID", "h:1"}}, &result).ok());
  EXPECT_NE(dynamic_cast<DirectRendezvous*>(result.get()), nullptr);

  const Launcher spread{"torchrun", 0, 4, 2, ""};
  const Outcome nowhere = meet(spread, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}, &result);
  EXPECT_EQ(nowhere.code(), Exit::usage);
  EXPECT_THAT(nowhere.text(), HasSubstr("ECCL_COMM_SECRET_FILE"));
  EXPECT_EQ(meet({"PMI", 0, 4, 0, ""}, {}, &result).code(), Exit::usage);

  unsetenv("ECCL_COMM_ID");
  const Variables withSecret = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}, {"ECCL_COMM_SECRET", "s"}};
  ASSERT_TRUE(meet(spread, withSecret, &result).ok());
  EXPECT_STREQ(getenv("ECCL_COMM_ID"), "node0:29501");
  ASSERT_TRUE(
      meet(spread, {{"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1"}, {"ECCL_COMM_SECRET_FILE", "f"}}, &result)
          .ok());
  EXPECT_STREQ(getenv("ECCL_COMM_ID"), "[fe80::1]:2");
  unsetenv("ECCL_COMM_ID");
  EXPECT_EQ(
      meet(spread, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "65535"}, {"ECCL_COMM_SECRET", "s"}}, &result)
          .code(),
      Exit::usage);
}

class IdFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/eccl-perf-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    setenv("XDG_RUNTIME_DIR", name, 1);
    path_ = directory_ + "/" + idFileName("job 7/x");
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("ECCL_INIT_TIMEOUT");
    unlink(path_.c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0) << "something was left behind";
  }
  void plant(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  std::string directory_, path_;
};

TEST_F(IdFile, NamesAreSafe) {
  EXPECT_EQ(idFileName("job 7/../x"), "id-job_7_.._x");
  EXPECT_THAT(idFileName(""), HasSubstr("id-parent" + std::to_string(getppid()) + "."));
}

TEST_F(IdFile, RankZeroWritesAndTheOthersRead) {
  // What a crashed job left: its writer is no more, so it must not be taken for this job's.
  plant("999999999 12345 " + std::string(256, 'a') + "\n", 0600);
  ecclUniqueId first, second;
  std::memset(&first, 1, sizeof first);
  std::memset(&second, 2, sizeof second);
  FileRendezvous writer(idFileName("job 7/x"), 0), reader(idFileName("job 7/x"), 1);
  Outcome read;
  std::thread waiting([&] { read = reader.id(&second); });
  usleep(30000);
  const Outcome written = writer.id(&first);
  waiting.join();
  ASSERT_TRUE(written.ok()) << written.text();
  ASSERT_TRUE(read.ok()) << read.text();
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  writer.joined();
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(IdFile, WaitingEndsWithAnErrorThatSaysWhatToDo) {
  setenv("ECCL_INIT_TIMEOUT", "1", 1);
  ecclUniqueId id;
  const std::string ours = std::to_string(getpid()) + " 1 " + std::string(256, 'a') + "\n";
  for (const auto& [text, mode] :
       {std::pair<std::string, mode_t>{ours, 0600}, {ours, 0644}, {"", 0600}, {"garbage", 0600}}) {
    plant(text, mode);
    FileRendezvous reader(idFileName("job 7/x"), 3);
    const Outcome outcome = reader.id(&id);
    EXPECT_EQ(outcome.code(), Exit::timeout);
    EXPECT_THAT(outcome.text(), HasSubstr("ECCL_COMM_ID"));
    EXPECT_THAT(outcome.text(), HasSubstr("process 3"));
  }
}

TEST_F(IdFile, TheDirectoryMustBePrivate) {
  std::string directory;
  const Environment here = environmentOf({{"XDG_RUNTIME_DIR", directory_}});
  EXPECT_TRUE(privateDirectory(here, &directory).ok());
  EXPECT_EQ(directory, directory_);
  chmod(directory_.c_str(), 0755);
  const Outcome open = privateDirectory(here, &directory);
  EXPECT_EQ(open.code(), Exit::usage);
  EXPECT_THAT(open.text(), HasSubstr("0700"));
  chmod(directory_.c_str(), 0700);
  ASSERT_EQ(symlink(directory_.c_str(), (directory_ + "/link").c_str()), 0);
  EXPECT_EQ(privateDirectory(environmentOf({{"XDG_RUNTIME_DIR", directory_ + "/link"}}), &directory).code(),
            Exit::usage);
  unlink((directory_ + "/link").c_str());
}

// What a parent of two says when its children, once they have an id, do `body`.
int exitCodeWhen(void (*body)(int proc)) {
  Fork fork;
  if (!forkProcesses(2, 3, &fork).ok()) return -1;
  if (fork.exitCode) return *fork.exitCode;
  ecclUniqueId id;
  if (fork.rendezvous->id(&id).ok()) body(fork.proc);
  _exit(0);
}

TEST(Processes, TheParentReportsHowChildrenEnd) {
  const auto reported = [](void (*body)(int), int expected) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(exitCodeWhen(body), expected);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(reported([](int) {}, 0), "");
  EXPECT_THAT(reported([](int proc) { _exit(proc == 1 ? 5 : 0); }, 5), HasSubstr("process 1 (pid "));
  const std::string killed =
      reported([](int proc) { proc == 1 ? void(raise(SIGKILL)) : _exit(0); }, 128 + SIGKILL);
  EXPECT_THAT(killed, HasSubstr("ranks 3-5) died by signal 9 (Killed)"));
}

void endWith(Exit code, bool late) {
  if (late) usleep(100'000);
  _exit(static_cast<int>(code));
}

// A process whose watchdog aborts the communicator may be seen to end after those whose calls fail by that.
TEST(Processes, TheCauseIsTheExitCodeWhicheverIsSeenFirst) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(exitCodeWhen([](int proc) { endWith(proc == 0 ? Exit::timeout : Exit::library, proc == 0); }), 4);
  EXPECT_EQ(exitCodeWhen([](int proc) { endWith(proc == 0 ? Exit::timeout : Exit::library, proc == 1); }), 4);
  EXPECT_EQ(exitCodeWhen([](int) { endWith(Exit::library, false); }), 3);
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace eccl::tools
