// Ranks as real processes, for tests: forked, watched, and never left behind.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "eccl/eccl.h"

namespace eccl::test {

using Seconds = std::chrono::duration<double>;
inline double now() {
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory that the forked ranks share: an id, and whatever they need to agree on.
struct Board {
  ecclUniqueId id;
  std::atomic<int> idReady{0};
  std::atomic<int> counter[8] = {};
  std::atomic<double> time{0};

  /// All `ranks` meet here; each counter serves once.
  void meet(int which, int ranks) {
    counter[which].fetch_add(1);
    while (counter[which].load() < ranks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

struct Outcome {
  bool ended = false;  // by itself, in time
  int code = -1;       // exit code
  int signal = 0;
  std::string text;  // what the body reported
};

/// Runs body(rank, board, report) in `ranks` processes and waits at most `limit` seconds. What the body returns
/// is the exit code; what it appends to `report` arrives as text.
inline std::vector<Outcome> runProcesses(int ranks, const std::function<int(int, Board&, std::string&)>& body,
                                         double limit = 60) {
  void* shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board* board = new (shared) Board;
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
    pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      for (int other : pipes) close(other);
      std::string report;
      int code = body(rank, *board, report);
      for (size_t at = 0; at < report.size();) {
        ssize_t n = write(ends[1], report.data() + at, report.size() - at);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
      _exit(code);
    }
    close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  double deadline = now() + limit;
  std::vector<bool> open(pipes.size(), true);
  size_t left = pipes.size();
  while (left > 0 && now() < deadline) {
    std::vector<pollfd> fds;
    for (size_t i = 0; i < pipes.size(); ++i) fds.push_back({open[i] ? pipes[i] : -1, POLLIN, 0});
    poll(fds.data(), fds.size(), 50);
    for (size_t i = 0; i < pipes.size(); ++i) {
      if (!open[i] || fds[i].revents == 0) continue;
      char buffer[4096];
      ssize_t n = read(pipes[i], buffer, sizeof buffer);
      if (n > 0) {
        outcomes[i].text.append(buffer, static_cast<size_t>(n));
      } else {
        open[i] = false;
        --left;
      }
    }
  }
  for (size_t i = 0; i < pids.size(); ++i) {
    int status = 0;
    pid_t got = 0;
    while ((got = waitpid(pids[i], &status, WNOHANG)) == 0 && now() < deadline) usleep(1000);
    outcomes[i].ended = got == pids[i];
    if (!outcomes[i].ended) {
      kill(pids[i], SIGKILL);
      waitpid(pids[i], &status, 0);
    }
    outcomes[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcomes[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    close(pipes[i]);
  }
  munmap(shared, sizeof(Board));
  return outcomes;
}

inline void expectAllSucceeded(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended) << "hung";
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

/// Joins as one of `ranks`, the id travelling over the board. nullptr and a report when it fails.
inline ecclComm_t join(int rank, int ranks, Board& board, std::string& report, ecclConfig_t* config = nullptr) {
  if (rank == 0) {
    if (ecclGetUniqueId(&board.id) != ecclSuccess) {
      report += ecclGetLastError(nullptr);
      board.idReady = -1;
      return nullptr;
    }
    board.idReady = 1;
  }
  while (board.idReady == 0) usleep(1000);
  ecclComm_t comm = nullptr;
  if (board.idReady < 0 || ecclCommInitRankConfig(&comm, ranks, board.id, rank, config) != ecclSuccess) {
    report += ecclGetLastError(nullptr);
    return nullptr;
  }
  return comm;
}

}  // namespace eccl::test
