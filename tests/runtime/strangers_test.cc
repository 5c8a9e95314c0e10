// Connections from outside the job, to every listener: they cost it next to nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <vector>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

/// Every TCP port of this host that a process of ours listens on, by /proc/net/tcp.
std::vector<int> listeningPorts() {
  std::vector<int> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    unsigned address, port, remote, remotePort, state;
    if (sscanf(line.c_str(), " %*d: %x:%x %x:%x %x", &address, &port, &remote, &remotePort, &state) != 5)
      continue;
    if (state != 0x0a) break;  // listeners come first
    ports.push_back(static_cast<int>(port));
  }
  return ports;
}

/// Connects to every listening port of the loopback and says `bytes`, or nothing.
void pester(const std::vector<int>& ports, const std::string& bytes, std::vector<int>& keepOpen) {
  for (int port : ports) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    usleep(200);
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    keepOpen.push_back(fd);
  }
}

TEST(Strangers, DoNotDisturbInitOrJob) {
  auto portsBefore = listeningPorts();
  auto outcomes = test::runProcesses(4, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    if (rank == 3) {  // the stranger
      std::vector<int> sockets;
      std::mt19937 random(1);
      for (int round = 0; board.counter[1] < 3; ++round) {
        std::vector<int> ports;
        for (int port : listeningPorts()) {
          if (std::find(portsBefore.begin(), portsBefore.end(), port) == portsBefore.end())
            ports.push_back(port);
        }
        board.counter[2] = std::max<int>(board.counter[2], static_cast<int>(ports.size()));
        std::string garbage(random() % 200, '\0');
        for (char& c : garbage) c = static_cast<char>(random());
        pester(ports, round % 3 == 0 ? "" : garbage, sockets);
        while (sockets.size() > 200) {
          close(sockets.front());
          sockets.erase(sockets.begin());
        }
        usleep(5000);
      }
      return board.counter[2] > 0 ? 0 : 6;  // it did find listeners
    }
    if (rank == 1) usleep(500000);  // the others wait to be accepted meanwhile
    ecclComm_t comm = test::join(rank, 3, board, report);
    int code = comm == nullptr ? 2 : 0;
    for (int i = 0; i < 200 && code == 0; ++i) {
      std::vector<int> data(5000, rank), out(5000);
      if (ecclAllReduce(data.data(), out.data(), 5000, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess) {
        report += ecclGetLastError(comm);
        code = 3;
      } else if (out[4999] != 3) {
        code = 4;
      }
      usleep(2000);
    }
    if (code == 0 && ecclCommDestroy(comm) != ecclSuccess) code = 5;
    board.counter[1].fetch_add(1);
    return code;
  });
  for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.text;
}

constexpr int kRounds = 6;  // without and with strangers in turn
constexpr int kMembers = 2;

/// Keeps many silent connections to all ports that were not there `before`.
class Crowd {
 public:
  explicit Crowd(std::vector<int> before) : before_(std::move(before)) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    most_ = std::min<size_t>(9000, static_cast<size_t>(limit.rlim_cur) - 64);
  }
  ~Crowd() { leave(); }
  /// One connection more to each listener.
  int oneMoreEach() {
    int listeners = 0;
    for (int port : listeningPorts()) {
      if (std::find(before_.begin(), before_.end(), port) != before_.end()) continue;
      ++listeners;
      connectTo(port);
    }
    while (sockets_.size() > most_) {
      close(sockets_.front());
      sockets_.erase(sockets_.begin());
    }
    return listeners;
  }
  void leave() {
    for (int fd : sockets_) close(fd);
    sockets_.clear();
  }

 private:
  void connectTo(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    sockets_.push_back(fd);
  }

  const std::vector<int> before_;
  std::vector<int> sockets_;
  size_t most_;
};

int allReduceOnce(ecclComm_t comm, std::string& report) {
  std::vector<int> data(1000, 1), out(1000);
  if (ecclAllReduce(data.data(), out.data(), data.size(), ecclInt32, ecclSum, comm, nullptr) != ecclSuccess) {
    report += ecclGetLastError(comm);
    return 3;
  }
  return out[999] == kMembers ? 0 : 4;
}

class StrangersTiming : public ::testing::TestWithParam<const char*> {};

// From when the last rank comes, a second later than the other, to the end of the first AllReduce.
TEST_P(StrangersTiming, AThousandConnectionsASecondToEachDoorCostLittle) {
  const auto before = listeningPorts();
  auto outcomes = test::runProcesses(kMembers + 1, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_TRANSPORT", GetParam(), 1);
    auto& round = board.counter[0];  // that all are in; kRounds: over
    auto& in = board.counter[1];
    if (rank == kMembers) {
      Crowd crowd(before);
      int listeners = 0;
      double next = test::now();
      while (round < kRounds) {
        if (round % 2 == 0) {
          crowd.leave();
          usleep(1000);
          next = test::now();
          continue;
        }
        listeners = std::max(listeners, crowd.oneMoreEach());
        next += 0.001;
        if (next > test::now()) usleep(static_cast<useconds_t>((next - test::now()) * 1e6));
      }
      return listeners > 0 ? 0 : 6;
    }
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < kRounds; ++i) {
      in.fetch_add(1);
      while (in < kMembers * (i + 1)) usleep(100);
      if (rank == 0) round = i;
      while (round < i) usleep(100);
      if (rank == 0 && ecclGetUniqueId(&board.id) != ecclSuccess) return 2;
      if (rank == 0) board.idReady = i + 1;
      while (board.idReady < i + 1) usleep(100);
      if (rank == 1) sleep(1);
      const double begun = test::now();
      ecclComm_t comm = nullptr;
      if (ecclCommInitRank(&comm, kMembers, board.id, rank) != ecclSuccess) {
        report += ecclGetLastError(nullptr);
        if (rank == 0) round = kRounds;
        return 2;
      }
      const int code = allReduceOnce(comm, report);
      best[i % 2] = std::min(best[i % 2], test::now() - begun);
      ecclCommDestroy(comm);
      if (code != 0) return code;
    }
    if (rank == 0) round = kRounds;
    if (rank == 0) return 0;  // it was waiting all the time
    report += std::to_string(best[0]) + " s without, " + std::to_string(best[1]) + " s with strangers";
    return best[1] - best[0] < 0.2 ? 0 : 5;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    if (!outcome.text.empty()) std::printf("%s\n", outcome.text.c_str());
  }
}

// The connections of the first AllReduce are made while thousands wait at each listener.
TEST_P(StrangersTiming, ThousandsAtOnceDoNotHoldUpTheFirstCall) {
  const auto before = listeningPorts();
  auto outcomes = test::runProcesses(kMembers + 1, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    setenv("ECCL_TRANSPORT", GetParam(), 1);
    if (rank == kMembers) {
      Crowd crowd(before);
      board.meet(0, kMembers + 1);
      int listeners = 0;
      for (int i = 0; i < 3000; ++i) listeners = crowd.oneMoreEach();
      board.meet(1, kMembers + 1);
      board.meet(2, kMembers + 1);
      return listeners >= kMembers ? 0 : 6;
    }
    ecclComm_t comm = test::join(rank, kMembers, board, report);
    board.meet(0, kMembers + 1);
    board.meet(1, kMembers + 1);
    const double begun = test::now();
    const int code = comm == nullptr ? 2 : allReduceOnce(comm, report);
    const double took = test::now() - begun;
    board.meet(2, kMembers + 1);
    if (comm != nullptr) ecclCommDestroy(comm);
    report += std::to_string(took) + " s";
    return code != 0 ? code : took < 0.3 ? 0 : 5;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    if (!outcome.text.empty()) std::printf("%s\n", outcome.text.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, StrangersTiming, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace eccl::runtime
