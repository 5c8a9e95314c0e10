// What two ends of a UCX connection say to each other while it is set up, and what each message begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/core/transport.h"
#include "transport/messages/message_frame.h"

namespace eccl::transport {

/// An end of a connection, as the peer's messages name it: a random number, which only the peer has been told,
/// over a connection that has passed the handshake. UCX's own connections pass none.
using UcxEndId = uint64_t;

/// The header of each active message. Little-endian, as it lies in memory.
struct UcxHeader {
  UcxEndId end;
  MessageFrame frame;
};
static_assert(sizeof(UcxHeader) == 48);

/// What goes over the set-up's socket once the connection is made; see UcxPath. As it lies in memory.
struct UcxWord {
  enum class Kind : uint32_t {
    met = 1,     ///< this side's UCX has a way to the other
    credit = 2,  ///< messages before number `released` were released
    end = 3,     ///< the same, and no more will be taken
    poison = 4,  ///< this side has failed
  };
  Kind kind;
  uint32_t zero = 0;
  uint64_t released = 0;
};
static_assert(sizeof(UcxWord) == 16);

/// The one id of active messages that is used.
inline constexpr unsigned kUcxMessages = 1;

/// The version of UCX as far as it has to be the same at both ends: what its workers say to each other may
/// change with it.
struct UcxVersion {
  uint16_t major = 0, minor = 0;
};

/// What each side tells the other: where its worker is, and which end is meant.
struct UcxWords {
  UcxEndId end = 0;
  std::string address;  // of the worker
};

/// The content of the offer, and of the answer. Error (system): the address is too long for it.
Status sayUcx(const UcxWords& words, UcxVersion version, SetupData* data);
/// What the peer said, which may be anything. Errors (remote): it makes no sense, or it is of another version
/// of ECCL or UCX.
Result<UcxWords> readUcx(const SetupData& data, UcxVersion version);
/// The longest address that can be told.
size_t mostUcxAddress();

}  // namespace eccl::transport
