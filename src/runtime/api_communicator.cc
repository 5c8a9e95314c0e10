// The C API: ids, communicators, operators.

#include <cstring>
#include <optional>
#include <utility>

#include "runtime/group.h"
#include "runtime/handles.h"
#include "runtime/process.h"

using namespace eccl;

namespace {

InterfaceOptions interfaces(const Settings& settings) {
  InterfaceOptions options;
  options.names = settings.socketIfname;
  options.family = settings.socketFamily == "AF_INET"    ? AF_INET
                   : settings.socketFamily == "AF_INET6" ? AF_INET6
                                                         : AF_UNSPEC;
  return options;
}

Result<UniqueId> makeId() {
  ECCL_ASSIGN(Settings settings, loadSettings());
  if (!settings.commId.empty()) {
    return uniqueIdFromSettings(
        {settings.commId, settings.commSecret, settings.commSecretFile, interfaces(settings).family});
  }
  UniqueId id = UniqueId::random();
  Rendezvous::Options options;
  options.interfaces = interfaces(settings);
  ECCL_ASSIGN(auto root, Rendezvous::start(&id, options));
  Process::get().keep(std::move(root));
  return id;
}

Status checkRank(int nranks, int rank) {
  if (nranks < 1)
    return Status::error(Code::invalidArgument, "ecclCommInitRank: nranks is %d; at least 1 is needed", nranks);
  if (rank < 0 || rank >= nranks) {
    return Status::error(Code::invalidArgument, "ecclCommInitRank: rank %d is not in 0 to %d", rank,
                         nranks - 1);
  }
  return {};
}

void drop(ecclComm_t handle) {
  Process::get().remove(handle->communicator.get());
  handle->communicator.reset();
}

/// Makes the handle at once and has `make` fill the communicator: here, with the rest of the group, or, for a
/// non-blocking communicator, in the background.
Status create(ecclComm_t* comm, const CommunicatorOptions& options,
              std::function<Status(Communicator&, ecclComm_t)> make) {
  auto communicator = std::make_shared<Communicator>(options);
  Process::get().add(communicator);
  ecclComm_t handle = newHandle(communicator);
  *comm = handle;
  if (!options.blocking) {
    handle->job = std::thread([=] {
      Status status = make(*communicator, handle);
      if (!status.ok()) communicator->fault(status, false);
    });
    return Status::error(Code::inProgress, "the communicator is being made; poll ecclCommGetAsyncError");
  }
  return Group::ofThisThread().addJob([=] {
    Status status = make(*communicator, handle);
    if (!status.ok()) {
      communicator->destroy().ignore();  // it never came to be: the first error is the one that counts
      drop(handle);
      *comm = nullptr;
      report(status, handle);
    }
    return status;
  });
}

Status initRank(ecclComm_t* comm, int nranks, const ecclUniqueId& bytes, int rank, const ecclConfig_t* config) {
  if (comm == nullptr) return Status::error(Code::invalidArgument, "ecclCommInitRank: comm is NULL");
  *comm = nullptr;
  ECCL_TRY(checkRank(nranks, rank));
  ECCL_ASSIGN(CommunicatorOptions options, optionsFrom(config, "ecclCommInitRank"));
  UniqueId::Bytes copy;
  std::memcpy(copy.data(), bytes.internal, copy.size());
  ECCL_ASSIGN(UniqueId id, UniqueId::decode(copy));
  return create(comm, options,
                [=](Communicator& communicator, ecclComm_t) { return communicator.join(id, rank, nranks); });
}

Status initAll(ecclComm_t* comms, int ndev) {
  if (comms == nullptr) return Status::error(Code::invalidArgument, "ecclCommInitAll: comms is NULL");
  if (ndev < 1)
    return Status::error(Code::invalidArgument, "ecclCommInitAll: ndev is %d; at least 1 is needed", ndev);
  ECCL_ASSIGN(Settings settings, loadSettings());
  UniqueId id = UniqueId::random();
  Rendezvous::Options options;
  options.interfaces = interfaces(settings);
  ECCL_ASSIGN(auto root, Rendezvous::start(&id, options));
  Process::get().keep(std::move(root));
  ecclUniqueId bytes;
  UniqueId::Bytes encoded = id.encode();
  std::memcpy(bytes.internal, encoded.data(), encoded.size());
  Group& group = Group::ofThisThread();
  group.start();
  for (int rank = 0; rank < ndev; ++rank) {
    Status status = initRank(&comms[rank], ndev, bytes, rank, nullptr);
    if (!status.ok()) group.refuse(status).ignore();  // said by end()
  }
  return group.end();
}

Status splitComm(ecclComm_t comm, int color, int key, ecclComm_t* newcomm, const ecclConfig_t* config) {
  ECCL_ASSIGN(auto parent, communicatorOf(comm, "ecclCommSplit"));
  if (newcomm == nullptr) return Status::error(Code::invalidArgument, "ecclCommSplit: newcomm is NULL");
  *newcomm = nullptr;
  if (color < 0 && color != ECCL_SPLIT_NOCOLOR) {
    return Status::error(Code::invalidArgument,
                         "ecclCommSplit: color %d is neither >= 0 nor ECCL_SPLIT_NOCOLOR", color);
  }
  ECCL_TRY(parent->usable());
  CommunicatorOptions options;
  if (config != nullptr) {
    ECCL_ASSIGN(options, optionsFrom(config, "ecclCommSplit"));
  } else {
    options = parent->options();
  }
  return create(newcomm, options, [=](Communicator& child, ecclComm_t handle) {
    bool member = false;
    Status status = child.split(*parent, color, key, &member);
    if (status.ok() && !member) {
      child.destroy().ignore();  // nothing was made
      drop(handle);
      *newcomm = nullptr;
    }
    return status;
  });
}

Status end(ecclComm_t comm, const char* function, bool abort) {
  ECCL_ASSIGN(auto communicator, communicatorOf(comm, function));
  if (abort) communicator->abort();
  if (comm->job.joinable()) comm->job.join();
  Status status = communicator->destroy();
  drop(comm);
  return abort ? Status() : status;
}

Status exportTopology(ecclComm_t comm, char* text, size_t* size) {
  ECCL_ASSIGN(auto communicator, communicatorOf(comm, "ecclTopologyExport"));
  if (size == nullptr) return Status::error(Code::invalidArgument, "ecclTopologyExport: size is NULL");
  ECCL_TRY(communicator->usable());
  ECCL_ASSIGN(const std::string json, communicator->topology());
  const size_t has = std::exchange(*size, json.size() + 1);
  if (text == nullptr) return {};
  if (has < *size)
    return Status::error(Code::invalidArgument, "ecclTopologyExport: the text needs %zu bytes, not %zu", *size,
                         has);
  std::memcpy(text, json.c_str(), *size);
  return {};
}

Status finalizeComm(ecclComm_t comm) {
  ECCL_ASSIGN(auto communicator, communicatorOf(comm, "ecclCommFinalize"));
  if (communicator->options().blocking) return communicator->finalize();
  ECCL_TRY(communicator->usable());
  if (comm->job.joinable()) comm->job.join();
  comm->job = std::thread([communicator] { communicator->finalize().ignore(); });  // told by asyncStatus()
  return Status::error(Code::inProgress, "finalizing; poll ecclCommGetAsyncError");
}

}  // namespace

ecclResult_t ecclGetUniqueId(ecclUniqueId* out) {
  if (out == nullptr) return report(Status::error(Code::invalidArgument, "ecclGetUniqueId: id is NULL"));
  auto id = makeId();
  if (!id.ok()) return report(id.status());
  UniqueId::Bytes bytes = id->encode();
  std::memcpy(out->internal, bytes.data(), bytes.size());
  return ecclSuccess;
}

ecclResult_t ecclCommInitRank(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank) {
  return report(Group::ofThisThread().refuse(initRank(comm, nranks, id, rank, nullptr)));
}

ecclResult_t ecclCommInitRankConfig(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank,
                                    ecclConfig_t* config) {
  return report(Group::ofThisThread().refuse(initRank(comm, nranks, id, rank, config)));
}

ecclResult_t ecclCommInitAll(ecclComm_t* comms, int ndev, const int*) {
  return report(initAll(comms, ndev));
}

ecclResult_t ecclCommSplit(ecclComm_t comm, int color, int key, ecclComm_t* newcomm, ecclConfig_t* config) {
  return report(Group::ofThisThread().refuse(splitComm(comm, color, key, newcomm, config)), comm);
}

ecclResult_t ecclCommFinalize(ecclComm_t comm) {
  return report(finalizeComm(comm));
}
ecclResult_t ecclCommDestroy(ecclComm_t comm) {
  return report(end(comm, "ecclCommDestroy", false));
}
ecclResult_t ecclCommAbort(ecclComm_t comm) {
  return report(end(comm, "ecclCommAbort", true));
}

ecclResult_t ecclCommGetAsyncError(ecclComm_t comm, ecclResult_t* asyncError) {
  auto communicator = communicatorOf(comm, "ecclCommGetAsyncError");
  if (!communicator.ok()) return report(communicator.status());
  if (asyncError == nullptr)
    return report(Status::error(Code::invalidArgument, "ecclCommGetAsyncError: asyncError is NULL"));
  *asyncError = static_cast<ecclResult_t>((*communicator)->asyncStatus().code());
  return ecclSuccess;
}

ecclResult_t ecclCommCount(ecclComm_t comm, int* count) {
  auto communicator = communicatorOf(comm, "ecclCommCount");
  if (!communicator.ok()) return report(communicator.status());
  if (count == nullptr) return report(Status::error(Code::invalidArgument, "ecclCommCount: count is NULL"));
  if (Status status = (*communicator)->usable(); !status.ok()) return report(status, comm);
  *count = (*communicator)->ranks();
  return ecclSuccess;
}

ecclResult_t ecclCommUserRank(ecclComm_t comm, int* rank) {
  auto communicator = communicatorOf(comm, "ecclCommUserRank");
  if (!communicator.ok()) return report(communicator.status());
  if (rank == nullptr) return report(Status::error(Code::invalidArgument, "ecclCommUserRank: rank is NULL"));
  if (Status status = (*communicator)->usable(); !status.ok()) return report(status, comm);
  *rank = (*communicator)->rank();
  return ecclSuccess;
}

ecclResult_t ecclTopologyExport(ecclComm_t comm, char* text, size_t* size) {
  return report(exportTopology(comm, text, size), comm);
}

ecclResult_t ecclRedOpCreatePreMulSum(ecclRedOp_t* op, void* scalar, ecclDataType_t datatype,
                                      ecclScalarResidence_t residence, ecclComm_t comm) {
  auto communicator = communicatorOf(comm, "ecclRedOpCreatePreMulSum");
  if (!communicator.ok()) return report(communicator.status());
  if (op == nullptr || scalar == nullptr) {
    return report(Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: op or scalar is NULL"), comm);
  }
  if (datatype < 0 || datatype >= ecclNumTypes) {
    return report(
        Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: datatype %d does not exist", datatype),
        comm);
  }
  if (residence != ecclScalarDevice && residence != ecclScalarHostImmediate) {
    return report(Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: residence %d does not exist",
                                residence),
                  comm);
  }
  PreMul preMul;
  preMul.type = static_cast<DataType>(datatype);
  if (residence == ecclScalarDevice)
    preMul.scalar = scalar;
  else
    std::memcpy(preMul.immediate, scalar, sizeOf(preMul.type));
  auto index = (*communicator)->createOp(preMul);
  if (!index.ok()) return report(index.status(), comm);
  *op = static_cast<ecclRedOp_t>(ecclNumOps + *index);
  return ecclSuccess;
}

ecclResult_t ecclRedOpDestroy(ecclRedOp_t op, ecclComm_t comm) {
  auto communicator = communicatorOf(comm, "ecclRedOpDestroy");
  if (!communicator.ok()) return report(communicator.status());
  if (op >= 0 && op < ecclNumOps) {
    return report(Status::error(Code::invalidArgument, "ecclRedOpDestroy: operator %d is built in", op), comm);
  }
  return report((*communicator)->destroyOp(static_cast<int>(op) - ecclNumOps), comm);
}
