// The 128 bytes of an id, and ids that follow from settings.
#include "transport/bootstrap/unique_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/net/fd.h"

namespace eccl::transport {
namespace {

constexpr char kMagic[4] = {'E', 'C', 'C', 'L'};
constexpr uint16_t kVersion = 1;
constexpr uint16_t kRootByRank0 = 1;
constexpr size_t kCovered = UniqueId::kBytes - sizeof(uint32_t);

// Against truncation and mix-ups, not against attackers: the key is public.
uint32_t checksum(std::string_view bytes) {
  const Tag tag = sipHash128({}, bytes.substr(0, kCovered));
  return tag[0] | tag[1] << 8 | tag[2] << 16 | static_cast<uint32_t>(tag[3]) << 24;
}

Status bad(const char* what) {
  return logged(
      Status::error(Code::invalidArgument,
                    "this is not a unique id (%s): it must be the 128 bytes that ecclGetUniqueId filled in on "
                    "one rank, copied whole to all others",
                    what));
}

Result<std::string> readSecretFile(const std::string& path) {
  const char* name = path.c_str();
  // Opened first and examined through the descriptor: what is checked is what is read. O_NONBLOCK: it may be a
  // pipe.
  Fd file(open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return Status::fromErrno(errno, "ECCL_COMM_SECRET_FILE='%s' cannot be opened", name);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return Status::fromErrno(errno, "ECCL_COMM_SECRET_FILE='%s': fstat", name);
  if (!S_ISREG(info.st_mode)) {
    return Status::error(Code::invalidArgument, "ECCL_COMM_SECRET_FILE='%s' is not a regular file", name);
  }
  if (info.st_uid != geteuid()) {
    return Status::error(Code::invalidArgument,
                         "ECCL_COMM_SECRET_FILE='%s' belongs to user %u, not to this process's user %u", name,
                         info.st_uid, geteuid());
  }
  if ((info.st_mode & 07777) != 0600) {
    return Status::error(
        Code::invalidArgument,
        "ECCL_COMM_SECRET_FILE='%s' has mode %04o: others could read the secret; run 'chmod 600 %s'", name,
        info.st_mode & 07777, name);
  }
  char text[256];
  const ssize_t count = read(file.get(), text, sizeof text);
  if (count < 0) return Status::fromErrno(errno, "ECCL_COMM_SECRET_FILE='%s' cannot be read", name);
  return std::string(text, static_cast<size_t>(count));
}

// Everything follows from the settings, so that ranks which share them need not talk to agree.
Result<UniqueId> fromSettings(const CommIdSettings& settings) {
  UniqueId id;
  id.rootByRank0 = true;
  if (!settings.secret.empty()) {
    ECCL_ASSIGN(id.secret, Secret::fromHex(settings.secret, "ECCL_COMM_SECRET"));
  } else if (!settings.secretFile.empty()) {
    ECCL_ASSIGN(const std::string text, readSecretFile(settings.secretFile));
    ECCL_ASSIGN(id.secret,
                Secret::fromHex(text, ("ECCL_COMM_SECRET_FILE='" + settings.secretFile + "'").c_str()));
  } else {
    return Status::error(
        Code::invalidArgument,
        "ECCL_COMM_ID='%s' needs a secret that all ranks share: set ECCL_COMM_SECRET to the output of "
        "'openssl rand -hex 16', or ECCL_COMM_SECRET_FILE to a file of mode 0600 that holds it",
        settings.commId.c_str());
  }
  Result<std::vector<SocketAddress>> found = SocketAddress::resolve(settings.commId, settings.family);
  if (!found.ok())
    return Status::error(found.status().code(), "ECCL_COMM_ID: %s", found.status().message().c_str());
  id.addresses = found.take();
  const Tag tag = id.secret.mac("communicator " + settings.commId);
  std::memcpy(&id.communicator, tag.data(), sizeof id.communicator);
  return id;
}

}  // namespace

UniqueId UniqueId::random(System& system) {
  UniqueId id;
  system.random(&id.communicator, sizeof id.communicator);
  id.secret = Secret::random(system);
  return id;
}

// Fixed fields, then addresses as they fit, then zeros, so that equal ids are equal bytes.
UniqueId::Bytes UniqueId::encode() const {
  ByteWriter head;
  head.put(kMagic)
      .put(kVersion)
      .put<uint16_t>(rootByRank0 ? kRootByRank0 : 0)
      .put(communicator)
      .put(secret.bytes);
  std::string bytes = head.take();
  ByteWriter list;
  uint8_t count = 0;
  size_t room = kCovered - bytes.size() - 1;
  for (const SocketAddress& address : addresses) {
    const size_t size = SocketAddress::encodedSize(address.family());
    if (size > room) continue;  // a later, shorter one may still fit
    room -= size;
    address.encode(list);
    ++count;
  }
  bytes += static_cast<char>(count);
  bytes += list.take();
  bytes.resize(kCovered, '\0');
  const uint32_t sum = checksum(bytes);
  bytes.append(bytesOf(sum));
  Bytes result;
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}

Result<UniqueId> UniqueId::decode(const Bytes& bytes) {
  const std::string_view view(bytes.data(), bytes.size());
  if (view.find_first_not_of('\0') == view.npos) return bad("all bytes are zero");
  // The checksum comes before the version: bytes that are damaged must not be taken for another version.
  ByteReader in(view.substr(0, kCovered));  // no address reaches into the checksum
  if (std::memcmp(in.raw(sizeof kMagic).data(), kMagic, sizeof kMagic) != 0)
    return bad("it does not begin with 'ECCL'");
  uint32_t sum;
  std::memcpy(&sum, view.data() + kCovered, sizeof sum);
  if (sum != checksum(view)) return bad("its checksum is wrong");
  if (const uint16_t version = in.get<uint16_t>(); version != kVersion) {
    return bad(format("its version is %u, this library makes version %u", version, kVersion).c_str());
  }
  UniqueId id;
  const uint16_t flags = in.get<uint16_t>();
  id.rootByRank0 = flags == kRootByRank0;
  id.communicator = in.get<uint64_t>();
  id.secret.bytes = in.get<std::array<uint8_t, 16>>();
  const int count = in.get<uint8_t>();
  for (int i = 0; i < count && in.ok(); ++i) {
    SocketAddress address = SocketAddress::decode(in);
    if (!address.valid() || address.port() == 0) return bad("it holds a malformed address");
    id.addresses.push_back(address);
  }
  if (!in.ok() || flags > kRootByRank0 || count == 0) return bad("its fields contradict each other");
  return id;
}

Endpoint UniqueId::root() const {
  Endpoint root;
  root.identity = secret.mac(format("rendezvous root %016llx", static_cast<unsigned long long>(communicator)));
  root.addresses = addresses;
  return root;
}

Result<UniqueId> uniqueIdFromSettings(const CommIdSettings& settings) {
  return logged(fromSettings(settings));
}

}  // namespace eccl::transport
