// The C API: collectives, Send and Recv, groups.

#include <optional>

#include "runtime/api/group.h"
#include "runtime/api/process.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

Status checkTypes(const char* function, int datatype, int op, const Communicator& communicator, Call& call) {
  if (datatype < 0 || datatype >= ecclNumTypes) {
    return Status::error(Code::invalidArgument, "%s: datatype %d does not exist (0 to %d)", function, datatype,
                         ecclNumTypes - 1);
  }
  call.type = static_cast<DataType>(datatype);
  if (!reduces(call.collective)) return {};
  if (op < 0)
    return Status::error(Code::invalidArgument, "%s: reduction operator %d does not exist", function, op);
  if (op < ecclNumOps) {
    call.op = static_cast<RedOp>(op);
    return {};
  }
  call.op = RedOp::preMulSum;
  ECCL_ASSIGN(call.preMul, communicator.op(op - ecclNumOps));
  if (call.preMul.type != call.type) {
    return Status::error(Code::invalidArgument, "%s: the operator was created for %s, the call is for %s",
                         function, nameOf(call.preMul.type), nameOf(call.type));
  }
  return {};
}

/// Makes a call outside of a group that is like one before. False: it has to go the whole way.
bool again(const PlainCall& call, const CommunicatorUse& use, ecclStream_t stream, Status* status) {
  if (stream == nullptr) return use->communicator->repeat(call, nullptr, status);
  const auto live = Process::get().streams.find(stream);
  return live && use->communicator->repeat(call, &*live, status);
}

/// The short way: makes a call that is like one before, or adds it to an open group. Nothing: it has to go the
/// whole way.
std::optional<ecclResult_t> makeShortly(Group& group, const PlainCall& call, ecclComm_t comm,
                                        ecclStream_t stream) {
  CommunicatorUse use;
  bool made = false;
  const Status status = guarded(apiNameOf(call.key.collective), [&] {
    Status its;
    if (group.open())
      made = group.addAnother(comm, stream, call);
    else if ((use = liveCommunicator(comm)))
      made = again(call, use, stream, &its);
    return its;
  });
  if (!made && status.ok()) return std::nullopt;
  group.judge(status);
  return report(status, use ? &*use : nullptr);
}

/// What every collective call does: find the objects, check, and hand over. `fill` completes the call, knowing
/// the ranks.
template <class Fill>
ecclResult_t makeWhole(Collective collective, const void* send, void* receive, size_t count, int datatype,
                       int op, int root, ecclComm_t comm, ecclStream_t stream, Fill&& fill) {
  const char* function = apiNameOf(collective);
  const auto run = [&](CommunicatorUse& use) -> Status {
    Communicator& communicator = *use->communicator;
    std::shared_ptr<Stream> queue;
    ECCL_TRY(communicator.usable());
    ECCL_ASSIGN(queue, streamFor(communicator, stream, function));
    Call call;
    call.collective = collective;
    call.send = send;
    call.receive = receive;
    call.count = count;
    call.root = root;
    ECCL_TRY(checkTypes(function, datatype, op, communicator, call));
    ECCL_TRY(fill(call, communicator));
    ECCL_TRY(validate(call, communicator.rank(), communicator.ranks()));
    return Group::ofThisThread().add(comm, use, stream, std::move(queue), std::move(call));
  };
  return groupCall(function, comm, run);
}

Status nothingMore(Call&, const Communicator&) {
  return {};
}

/// Of the calls without tables.
inline ecclResult_t make(Group& group, Collective collective, const void* send, void* receive, size_t count,
                         int datatype, int op, int root, ecclComm_t comm, ecclStream_t stream) {
  if (static_cast<unsigned>(op) < ecclNumOps && static_cast<unsigned>(datatype) < ecclNumTypes) {
    const CallKey key{count, collective, static_cast<DataType>(datatype), static_cast<RedOp>(op), root};
    if (const auto made = makeShortly(group, {key, {send, receive}}, comm, stream)) return *made;
  }
  return makeWhole(collective, send, receive, count, datatype, op, root, comm, stream, nothingMore);
}
ecclResult_t make(Collective collective, const void* send, void* receive, size_t count, int datatype, int op,
                  int root, ecclComm_t comm, ecclStream_t stream) {
  return make(Group::ofThisThread(), collective, send, receive, count, datatype, op, root, comm, stream);
}

std::vector<size_t> copy(const size_t* from, int count) {
  return std::vector<size_t>(from, from + count);
}

/// A Send or a Recv. Of many that a group collects little but their buffers differs.
ecclResult_t exchange(Collective collective, const void* send, void* receive, size_t count, int datatype,
                      int peer, ecclComm_t comm, ecclStream_t stream) {
  const CallKey key{count, collective, static_cast<DataType>(datatype), RedOp::sum, peer};
  Group& group = Group::ofThisThread();
  if (static_cast<unsigned>(datatype) < ecclNumTypes && group.addAlike(comm, stream, {key, {send, receive}}))
    return ecclSuccess;
  return make(group, collective, send, receive, count, datatype, 0, peer, comm, stream);
}

Status needTable(const void* table, const char* function, const char* name) {
  return table != nullptr ? Status() : Status::error(Code::invalidArgument, "%s: %s is NULL", function, name);
}

}  // namespace

ecclResult_t ecclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                           ecclRedOp_t op, ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::allReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
}

ecclResult_t ecclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                           int root, ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::broadcast, sendbuff, recvbuff, count, datatype, 0, root, comm, stream);
}

ecclResult_t ecclBcast(void* buff, size_t count, ecclDataType_t datatype, int root, ecclComm_t comm,
                       ecclStream_t stream) {
  return ecclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ecclResult_t ecclReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                        ecclRedOp_t op, int root, ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

ecclResult_t ecclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ecclDataType_t datatype,
                           ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::allGather, sendbuff, recvbuff, sendcount, datatype, 0, 0, comm, stream);
}

ecclResult_t ecclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ecclDataType_t datatype,
                               ecclRedOp_t op, ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::reduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream);
}

ecclResult_t ecclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                          ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::allToAll, sendbuff, recvbuff, count, datatype, 0, 0, comm, stream);
}

ecclResult_t ecclGather(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype, int root,
                        ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::gather, sendbuff, recvbuff, count, datatype, 0, root, comm, stream);
}

ecclResult_t ecclScatter(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype, int root,
                         ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::scatter, sendbuff, recvbuff, count, datatype, 0, root, comm, stream);
}

ecclResult_t ecclBarrier(ecclComm_t comm, ecclStream_t stream) {
  return make(Collective::barrier, nullptr, nullptr, 1, ecclUint8, 0, 0, comm, stream);
}

ecclResult_t ecclAlltoAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                           void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                           ecclDataType_t datatype, ecclComm_t comm, ecclStream_t stream) {
  return makeWhole(Collective::allToAllv, sendbuff, recvbuff, 0, datatype, 0, 0, comm, stream,
                   [&](Call& call, const Communicator& communicator) -> Status {
                     ECCL_TRY(needTable(sendcounts, "ecclAlltoAllv", "sendcounts"));
                     ECCL_TRY(needTable(sdispls, "ecclAlltoAllv", "sdispls"));
                     ECCL_TRY(needTable(recvcounts, "ecclAlltoAllv", "recvcounts"));
                     ECCL_TRY(needTable(rdispls, "ecclAlltoAllv", "rdispls"));
                     int n = communicator.ranks();
                     call.sendCounts = copy(sendcounts, n);
                     call.sendOffsets = copy(sdispls, n);
                     call.receiveCounts = copy(recvcounts, n);
                     call.receiveOffsets = copy(rdispls, n);
                     return {};
                   });
}

ecclResult_t ecclAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t recvcounts[],
                            const size_t displs[], ecclDataType_t datatype, ecclComm_t comm,
                            ecclStream_t stream) {
  return makeWhole(Collective::allGatherv, sendbuff, recvbuff, 0, datatype, 0, 0, comm, stream,
                   [&](Call& call, const Communicator& communicator) -> Status {
                     ECCL_TRY(needTable(recvcounts, "ecclAllGatherv", "recvcounts"));
                     ECCL_TRY(needTable(displs, "ecclAllGatherv", "displs"));
                     call.sendCounts = {sendcount};
                     call.receiveCounts = copy(recvcounts, communicator.ranks());
                     call.receiveOffsets = copy(displs, communicator.ranks());
                     return {};
                   });
}

ecclResult_t ecclReduceScatterv(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                ecclDataType_t datatype, ecclRedOp_t op, ecclComm_t comm, ecclStream_t stream) {
  return makeWhole(Collective::reduceScatterv, sendbuff, recvbuff, 0, datatype, op, 0, comm, stream,
                   [&](Call& call, const Communicator& communicator) -> Status {
                     ECCL_TRY(needTable(recvcounts, "ecclReduceScatterv", "recvcounts"));
                     call.sendCounts = copy(recvcounts, communicator.ranks());
                     call.receiveCounts = {recvcounts[communicator.rank()]};
                     return {};
                   });
}

ecclResult_t ecclSend(const void* sendbuff, size_t count, ecclDataType_t datatype, int peer, ecclComm_t comm,
                      ecclStream_t stream) {
  return exchange(Collective::send, sendbuff, nullptr, count, datatype, peer, comm, stream);
}

ecclResult_t ecclRecv(void* recvbuff, size_t count, ecclDataType_t datatype, int peer, ecclComm_t comm,
                      ecclStream_t stream) {
  return exchange(Collective::receive, nullptr, recvbuff, count, datatype, peer, comm, stream);
}

ecclResult_t ecclGroupStart() {
  return apiCall("ecclGroupStart", [] { return Group::ofThisThread().start(), Status(); });
}

ecclResult_t ecclGroupEnd() {
  return apiCall("ecclGroupEnd", [] { return Group::ofThisThread().end(); });
}
