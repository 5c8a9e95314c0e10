// What blocks of threads execute on a GPU: a Program with sizes, resolved to moves that need no looking up.
//
//   for each lane: for tile { for move { wait for messages and room; combine; publish and release } }
//
// A lane is divided among `width` blocks. Each tile of a part is cut into as many strips, and block number b of
// a lane has strip b of all that the lane moves, with rings of its own. So blocks of a lane never wait for each
// other, and all ranks cut alike.
//
// What the interpreter finds out for each move again (which block, part and connection it is about) costs a
// thread of a GPU 8 us; what is left here costs 1 us (NVIDIA H100, November 2026: perf/results/gpu.md).
//
// Plain data, made on the host (compile.h), read by the device as it lies. Bounds are those of shared memory.
#pragma once

#include <cstdint>

#include "kernels/reduce.h"
#include "program/program.h"

namespace eccl::runtime::cuda::lanes {

/// Slots of a ring, and bytes of each. A power of two.
inline constexpr uint32_t kSlots = 4, kSlotBytes = 128 << 10;
/// Messages of at most so many bytes travel in lines, whose words say themselves that they have come.
inline constexpr uint32_t kLineBytes = 4096;

/// Eight bytes of a message, each half with the flag of its message. Each half is written and read at once.
struct alignas(16) Line {
  uint32_t low, lowFlag, high, highFlag;
};
/// Lines of a slot: one that says what the message is (low: signature, high: length), then the data.
inline constexpr uint32_t kLines = 1 + kLineBytes / 8;

/// What a message is. Where it lies in slots, the sequence is written last.
struct alignas(32) Header {
  uint64_t sequence;  // the message's number + 1
  uint32_t signature, length;
  uint64_t reference;  // where the data is instead of the slot; 0: there. See Shown, and AtSender::slotsAt
};
/// Where the receiver wants message number `sequence` - 1 to be written, if it is what is expected.
struct alignas(32) Place {
  uint64_t sequence, address;  // see Shown
  uint32_t length, signature;
};

/// Memory of ecclMemAlloc that two processes reach, as one rank's kernels know it that have messages with a
/// rank of the other process. What one of them says of it is a number of a block and an offset (Shown::at()),
/// as each has it at addresses of its own; between ranks of one process it is the address.
///
/// A block is one word, written and read at once: it comes and goes while kernels run. 0: there is none. Both
/// its begin and its length are multiples of a page.
struct Shown {
  static constexpr uint32_t kMost = 32;  // blocks
  uint64_t ours;                         // of `our` no more than so many have been there
  uint64_t theirs;                       // 0: none of `their` has
  uint64_t our[kMost];                   // that the other one has opened
  uint64_t their[kMost];                 // that it has shown

  static constexpr int kPageBits = 21, kPagesBits = 24;
  static constexpr uint64_t kMostBytes = ((uint64_t{1} << kPagesBits) - 1) << kPageBits;
  ECCL_DEVICE static uint64_t block(uint64_t begin, uint64_t bytes) {
    return begin >> kPageBits << kPagesBits | bytes >> kPageBits;
  }
  ECCL_DEVICE static uint64_t begin(uint64_t block) { return block >> kPagesBits << kPageBits; }
  ECCL_DEVICE static uint64_t bytes(uint64_t block) {
    return (block & ((uint64_t{1} << kPagesBits) - 1)) << kPageBits;
  }
  static constexpr uint32_t kOffsetBits = 48;
  ECCL_DEVICE static uint64_t at(uint64_t number, uint64_t offset) {
    return (number + 1) << kOffsetBits | offset;
  }
};

/// A ring's memory in the receiver's GPU, and in the sender's. Zeroed when it is made. What a side polls is in
/// its own GPU. Of a ring that is relayed (relay.h) both are in memory of the rank's host.
struct AtReceiver {
  Header headers[kSlots];
  Line lines[kSlots][kLines];
  alignas(128) std::byte slots[kSlots][kSlotBytes];
};
struct alignas(128) AtSender {
  uint64_t released;  // messages that the receiver needs no more
  uint64_t slotsAt;   // of a relayed ring: where long ones go instead of AtReceiver::slots; 0: nowhere yet
  Place places[2 * kSlots];
};

/// One end of a ring. It lies in the GPU of its rank, and goes from one kernel to the next. Owner: the rank's
/// kernels, one at a time.
struct End {
  AtReceiver* receiver;
  AtSender* sender;
  uint64_t next;           // number of the coming message
  uint64_t releasedSeen;   // sender: so many were, at least
  uint64_t lastReference;  // sender: messages before this one may refer to memory of the caller
  union {
    std::byte* slots;     // sender, of a relayed ring: AtSender::slotsAt, which stays; null: it is not known
    uint64_t considered;  // receiver: messages before this one have been considered for a place
  };
  const Shown* shown;  // null: no memory is reached from both sides, or all, if they are near
  int32_t connection;  // of the Program, in a kernel
  bool near;           // both ends are of one process and on one GPU: its own order is enough
  bool relayed;        // the other end is the host's (relay.h), which says where data is by address
};
/// So many ends the lanes have that one block serves.
inline constexpr uint32_t kMaxEnds = 128;
/// So many strips of lanes one block serves at most, in turns.
inline constexpr uint32_t kMaxServed = 16;
/// Message lengths from which memory is referred to or written directly, where both ends reach it.
inline constexpr uint32_t kDirectBytes = 16 << 10;
/// In Header::reference: the data is where the receiver's place said, or in a slot at AtSender::slotsAt.
inline constexpr uint64_t kPlaced = 1;

/// A source or destination of a move.
struct BlockOperand {
  uint64_t at;       // in memory: where its block begins, in bytes from its buffer
  int16_t end;       // a message: of this end of the lane; -1: memory
  uint16_t ordinal;  // a message of a short program: so many of its end are before it
  Space space;
  bool pre;     // raw contributions, to be scaled
  bool stable;  // a source that the receiver may read itself
  bool posted;  // a destination that the sender of the only source may write
};
/// A contiguous part of a block, in bytes from its begin.
struct Piece {
  uint64_t begin, length;
};

struct alignas(8) Move {
  uint32_t firstOperand, firstPiece;  // of its lane's
  uint32_t pieces;
  uint8_t sources, destinations;
  bool post;           // the result is final
  bool relay;          // the message tells the length
  bool always;         // is made in the first tile even if there is nothing in it
  bool waitPrevious;   // waits for the tile before
  int32_t waitLane;    // of the same strip; -1: none
  uint32_t waitMoves;  // that this lane has made in the tile
  uint32_t length;     // of a short program: bytes of each message of its first strip, unless that tells them
};

/// Where the parts of a lane lie in the arrays of its program.
struct alignas(8) LanePlan {
  uint32_t firstMove, moves, firstOperand, operands, firstPiece, pieces;
  uint32_t firstEnd, ends;
  uint32_t ahead;    // for so many tiles after the present one places are posted
  uint32_t longest;  // of a short program: bytes that a strip of each of its pieces takes at most
  bool posts;
  bool awaited;  // by a lane of this rank
};

/// One end that a lane uses, of all strips.
struct EndOf {
  End* strips;
  int32_t connection;  // of the Program
  uint16_t messages;   // of a short program: so many in a call
  bool receives;
};

/// Of one rank, for calls of one shape.
struct BlockProgram {
  uint32_t lanes, width, tiles;
  uint32_t served;       // strips of lanes by a block: those of one strip's lanes are neighbours
  uint64_t tile, strip;  // bytes; strip * width >= tile
  uint64_t scratchPart;  // bytes from part to part in scratch
  // Of LanePlan, Move, BlockOperand, Piece and EndOf: in bytes from here.
  uint32_t laneList, moveList, operandList, pieceList, endList, spare;
  uint64_t* done;    // by lane and strip: moves made in all calls
  uint64_t* ended;   // blocks, of all calls, if there are several
  uint32_t* failed;  // not 0: one of the present call's has
  std::byte* scratch;
};
static_assert(sizeof(BlockProgram) % 16 == 0);
/// Behind a program lie its lists. A block keeps both, if its lists are no longer.
inline constexpr uint32_t kListBytes = 16 << 10;

/// Why a call has failed on the device.
enum Fault : uint32_t { kNoFault, kOtherSignature, kOtherLength, kOtherMemory, kAborted };

/// In host memory that the device reaches: what has come of a call.
struct alignas(64) Report {
  uint32_t fault;      // a Fault, of one block, written behind what follows of that:
  int32_t connection;  // of the Program
  int32_t awaited;     // one that has been waited for long, or -1
  uint32_t spare;
  uint64_t expected, found;
  uint64_t progress;  // changes while something moves
  uint64_t over;      // written last, but by quiet calls: not 0
};

/// In host memory, a line for each block: not 0 ends all calls of the communicator. Blocks that look at one
/// line wait for each other, 1 us each (NVIDIA H100, November 2026); at lines of their own they do not.
struct alignas(64) AbortLine {
  uint32_t word;
};
inline constexpr uint32_t kAbortLines = 512;

/// One call of one rank, as a kernel gets it. Buffers are null where the call has no bytes in them.
struct Call {
  const BlockProgram* program;
  std::byte *input, *output;
  Report* report;
  const AbortLine* abort;  // by block of the kernel, in host memory
  uint32_t signature;
  uint32_t firstBlock, blocks;  // of the kernel
  uint32_t programBytes;        // what blocks keep of the program and what lies behind it; a multiple of 16
  RedOp op;
  bool isShort;  // its program
  bool quiet;    // the host is told of waits that last and of failures alone
  kernels::Scale pre, post;
  const std::byte* scalar;  // what contributions are multiplied by, in place of `pre`; null: as that says
};
/// Threads of a block, and blocks that a multiprocessor has room for: where it has both, one moves data while
/// the other looks what is there and tells what it has done.
inline constexpr uint32_t kThreads = 256, kBlocksOfMultiprocessor = 2;
/// So many calls one kernel makes at most, of one rank or of several: its arguments are 4 KB.
inline constexpr uint32_t kMaxCalls = 32;
struct Calls {
  uint32_t count;
  Call call[kMaxCalls];
};
static_assert(sizeof(Calls) <= 4000);

}  // namespace eccl::runtime::cuda::lanes
