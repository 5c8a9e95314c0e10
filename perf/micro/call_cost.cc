// What a short call costs by itself: two ranks of one process, called in turn by one thread, so that none
// waits.
//   call_cost OPERATION BYTES ROUNDS
//     send_recv   a Send of the one, then a Recv of the other
//     group       the same, in groups of 32
//     broadcast   of the root, then of the other
// Prints nanoseconds for each message. perf/micro/instructions counts what it executes.
#include <eccl/eccl.h>

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kRanks = 2, kGroup = 32;
constexpr long kMost = 1000;  // the receiver reads longer messages itself, and the sender waits for it
ecclComm_t comms[kRanks];
ecclStream_t streams[kRanks];

void check(ecclResult_t result) {
  if (result == ecclSuccess) return;
  std::fprintf(stderr, "call_cost: %s\n", ecclGetLastError(nullptr));
  std::exit(EXIT_FAILURE);
}

/// Of this thread's processor time: others may run beside.
double nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

struct Buffers {
  std::vector<char> input, output;
};

void sendRecv(Buffers& data) {
  check(ecclSend(data.input.data(), data.input.size(), ecclUint8, 1, comms[0], streams[0]));
  check(ecclRecv(data.output.data(), data.output.size(), ecclUint8, 0, comms[1], streams[1]));
}

void group(Buffers& data) {
  check(ecclGroupStart());
  for (int i = 0; i < kGroup; ++i)
    check(ecclSend(data.input.data(), data.input.size(), ecclUint8, 1, comms[0], streams[0]));
  check(ecclGroupEnd());
  check(ecclGroupStart());
  for (int i = 0; i < kGroup; ++i)
    check(ecclRecv(data.output.data(), data.output.size(), ecclUint8, 0, comms[1], streams[1]));
  check(ecclGroupEnd());
}

void broadcast(Buffers& data) {
  check(ecclBroadcast(data.input.data(), data.output.data(), data.input.size(), ecclUint8, 0, comms[0],
                      streams[0]));
  check(ecclBroadcast(data.input.data(), data.output.data(), data.input.size(), ecclUint8, 0, comms[1],
                      streams[1]));
}

struct Operation {
  const char* name;
  void (*round)(Buffers&);
  int messages;
};
constexpr Operation kOperations[] = {
    {"send_recv", sendRecv, 1}, {"group", group, kGroup}, {"broadcast", broadcast, 1}};

/// The function whose instructions perf/micro/instructions has counted, by its name.
[[gnu::noinline]] void countedRounds(const Operation& operation, Buffers& data, long rounds) {
  for (long i = 0; i < rounds; ++i) operation.round(data);
}

int usage() {
  std::fprintf(stderr, "usage: call_cost send_recv|group|broadcast BYTES ROUNDS\n");
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const Operation* operation = nullptr;
  for (const Operation& each : kOperations) {
    if (argc == 4 && std::strcmp(argv[1], each.name) == 0) operation = &each;
  }
  if (operation == nullptr) return usage();
  const long bytes = std::atol(argv[2]), rounds = std::atol(argv[3]);
  if (bytes < 1 || bytes > kMost || rounds < 1) return usage();
  check(ecclCommInitAll(comms, kRanks, nullptr));
  Buffers data{std::vector<char>(static_cast<size_t>(bytes), 7), std::vector<char>(static_cast<size_t>(bytes))};
  // Connections are made and calls are planned while both sides wait: that takes streams.
  for (ecclStream_t& stream : streams) check(ecclStreamCreate(&stream));
  for (int i = 0; i < 100; ++i) operation->round(data);
  for (ecclStream_t& stream : streams) {
    check(ecclStreamSynchronize(stream));
    check(ecclStreamDestroy(stream));
    stream = nullptr;
  }
  const double begun = nanoseconds();
  countedRounds(*operation, data, rounds);
  const double took = nanoseconds() - begun;
  if (data.input != data.output) return std::fprintf(stderr, "call_cost: wrong data\n"), EXIT_FAILURE;
  std::printf("%s, %ld bytes: %.1f ns a message\n", operation->name, bytes,
              took / static_cast<double>(rounds) / operation->messages);
  for (ecclComm_t comm : comms) check(ecclCommDestroy(comm));
  return EXIT_SUCCESS;
}
