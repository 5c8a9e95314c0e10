// A wire that delays and loses: hands every frame that comes in at one network interface out at the other, both
// ways, in order. For the lab's faults, on kernels with and without netem.
//
//   lab_relay INTERFACE INTERFACE DELAY_US JITTER_US LOSS_PERCENT      prints "ready" when it hands on
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr size_t kMaxFrame = 70000;     // 64 KiB of a frame that the kernel has not cut, with its headers
constexpr size_t kMaxQueue = 64 << 20;  // bytes under way in one direction; what comes then is lost
constexpr int kSocketBuffer = 64 << 20;
constexpr int kFramesInTurn = 64;  // of one direction, before it is the other's turn

[[noreturn]] void fail(const char* what, const char* interface) {
  std::printf("%s: %s: %s\n", interface, what, std::strerror(errno));
  std::exit(EXIT_FAILURE);
}

double numberOf(const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0)) {
    std::printf("%s: not a number of 0 or more\n", text);
    std::exit(EXIT_FAILURE);
  }
  return value;
}

/// Sees what comes in at the interface and nothing else, with the kernel's notes on checksums and segments.
int openInterface(const char* name) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("no packet socket", name);
  const int on = 1;
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0)
    fail("an option of a packet socket", name);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (address.sll_ifindex == 0) fail("no such interface", name);
  packet_mreq all{};
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0) fail("promiscuous mode", name);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind", name);
  return fd;
}

struct Way {
  microseconds delay, jitter;
  double loss;  // 0 to 1
};

class Direction {
 public:
  Direction(int from, int to, const Way& way) : from_(from), to_(to), way_(way), frame_(kMaxFrame) {}

  void take() {
    for (int i = 0; i < kFramesInTurn; ++i) {
      const ssize_t length = recv(from_, frame_.data(), frame_.size(), 0);
      if (length <= 0) return;  // nothing there, or the interface is down for a while
      if (chance_(random_) < way_.loss || bytes_ + static_cast<size_t>(length) > kMaxQueue) continue;
      Clock::time_point due = Clock::now() + way_.delay;
      if (way_.jitter.count() > 0)
        due += microseconds(random_() % static_cast<unsigned long>(way_.jitter.count()));
      if (!queue_.empty() && due < queue_.back().due) due = queue_.back().due;
      queue_.push_back({due, std::vector<char>(frame_.data(), frame_.data() + length)});
      bytes_ += static_cast<size_t>(length);
    }
  }

  /// Hands out what is due. When to come again; the end of time if there is nothing.
  Clock::time_point give() {
    while (!queue_.empty()) {
      const Frame& next = queue_.front();
      if (next.due > Clock::now()) return next.due;
      // A shaped interface drops what its queue does not hold: that is what a switch would do.
      if (send(to_, next.bytes.data(), next.bytes.size(), 0) < 0 && errno == EAGAIN)
        return Clock::now() + microseconds(50);
      bytes_ -= next.bytes.size();
      queue_.pop_front();
    }
    return Clock::time_point::max();
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  int from_, to_;
  Way way_;
  std::vector<char> frame_;
  std::deque<Frame> queue_;
  size_t bytes_ = 0;
  std::mt19937_64 random_{std::random_device{}()};
  std::uniform_real_distribution<double> chance_{0, 1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::printf("usage: lab_relay INTERFACE INTERFACE DELAY_US JITTER_US LOSS_PERCENT\n");
    return EXIT_FAILURE;
  }
  const Way way{microseconds(static_cast<long>(numberOf(argv[3]))),
                microseconds(static_cast<long>(numberOf(argv[4]))), numberOf(argv[5]) / 100};
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; 50 us otherwise
  const int ends[] = {openInterface(argv[1]), openInterface(argv[2])};
  Direction directions[] = {{ends[0], ends[1], way}, {ends[1], ends[0], way}};
  std::printf("ready\n");
  // Nobody reads on.
  if (std::fflush(stdout) != 0 || std::freopen("/dev/null", "w", stdout) == nullptr) return EXIT_FAILURE;
  while (true) {
    Clock::time_point next = Clock::time_point::max();
    for (Direction& direction : directions) {
      direction.take();
      next = std::min(next, direction.give());
    }
    timespec wait{};
    if (next != Clock::time_point::max()) {
      const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(next - Clock::now()));
      wait.tv_sec = static_cast<time_t>(left.count() / 1000000000);
      wait.tv_nsec = static_cast<long>(left.count() % 1000000000);
    }
    pollfd sockets[] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
    ppoll(sockets, 2, next == Clock::time_point::max() ? nullptr : &wait, nullptr);
  }
}
