#include "runtime/init/seat.h"

#include <sched.h>
#include <unistd.h>

#include "topology/probe/host_summary.h"
#include "transport/net/bytes.h"
#include "transport/net/endpoint.h"
#include "transport/registry/registry.h"

namespace eccl::runtime {
namespace {

constexpr size_t kLongestName = 512;
constexpr double kMaxCores = 1e6;

/// Pinned to one core, it is this rank's own or that cannot be known: others may have the rest.
int coresHere() {
  cpu_set_t cores;
  const int allowed = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return topology::usableCores(allowed > 1 ? allowed : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
                               topology::cpuQuota());
}

/// "net:[4026531840]": which network namespace this is.
std::string networkNamespace() {
  char name[64];
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof name);
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : "process " + std::to_string(getpid());
}

}  // namespace

algorithms::Seat localSeat(const Settings& settings) {
  const transport::Endpoint here = transport::localEndpoint();
  algorithms::Seat seat;
  const bool known = here.bootId != decltype(here.bootId){};
  seat.machine = known ? std::string(here.bootId.begin(), here.bootId.end()) : here.who();
  seat.port = seat.machine + networkNamespace();
  if (transport::allows(settings, "shm")) {
    seat.memory = seat.port + here.host;
  } else if (transport::allows(settings, "thread")) {
    seat.memory = seat.port + here.host + std::to_string(getpid());
  }
  seat.cores = coresHere();
  return seat;
}

std::string encode(const algorithms::Seat& seat) {
  return transport::ByteWriter().text(seat.machine).text(seat.memory).text(seat.port).put(seat.cores).take();
}

Result<algorithms::Seat> decodeSeat(std::string_view bytes) {
  transport::ByteReader reader(bytes);
  algorithms::Seat seat;
  seat.machine = reader.text(kLongestName);
  seat.memory = reader.text(kLongestName);
  seat.port = reader.text(kLongestName);
  seat.cores = reader.get<double>();
  if (!reader.finished())
    return Status::error(Code::remote, "what says where a rank is, is cut off or too long");
  if (!(seat.cores >= 1 && seat.cores <= kMaxCores))
    return Status::error(Code::remote, "a rank says that it may run on %g cores", seat.cores);
  return seat;
}

}  // namespace eccl::runtime
