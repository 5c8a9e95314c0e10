// The two ends of a Connection's data path: a ring of slots with one sender and one receiver, plain data in
// memory both can reach (program/ring_layout.h). One message fills one slot.
//
// A message is published by storing its sequence number into its slot with release. The receiver acquires it
// there, so that a small message (inline in the header) costs one line. A slot is released by storing the count
// of released messages.
//
// Instead of data a slot may carry a reference to the sender's memory (rendezvous get). Conversely a receiver
// may offer its own memory for a message to come (rendezvous put): a sender that finds the offer writes there
// and marks the slot as placed. Both count from the beginning of a Window, which the other side may have
// mapped elsewhere.
//
// Messages have numbers of 64 bits, which are only compared for equality or by difference, so they may wrap.
// A slot holds message k when its word is k + 1.
//
// Data read here comes from another process and may be anything: peek() copies the header once, and faultOf()
// (program/move_ends.h) checks the copy.
//
// Owner: the Connection has the ends, its path the memory. Threads: one at a time for each end, the driver's;
// the two ends in different threads or processes.
#pragma once

#include "program/receive_end.h"
#include "program/send_end.h"
