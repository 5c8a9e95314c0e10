// The C API: ids, communicators, operators.

#include <cstring>
#include <optional>
#include <utility>

#include "runtime/api/group.h"
#include "runtime/api/process.h"

using namespace eccl;
using namespace eccl::runtime;

namespace {

Result<transport::UniqueId> makeId() {
  ECCL_ASSIGN(Settings settings, loadSettings());
  if (!settings.commId.empty()) {
    return transport::uniqueIdFromSettings({settings.commId, settings.commSecret, settings.commSecretFile,
                                            transport::interfaceOptions(settings).family});
  }
  transport::UniqueId id = transport::UniqueId::random(System::real());
  id.secret.encrypts = settings.encrypt;
  transport::Rendezvous::Options options;
  options.interfaces = transport::interfaceOptions(settings);
  ECCL_ASSIGN(auto root, transport::Rendezvous::start(&id, options));
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

/// Takes the communicator from the handle's other users and ends it: by then none of their calls is under way.
Status end(ecclComm_t comm, const char* function, bool abort) {
  ECCL_ASSIGN(CommunicatorUse mine, communicatorOf(comm, function, true));
  Communicator& communicator = *mine->communicator;
  if (abort) communicator.abort();  // ends the waits of calls and jobs
  mine.awaitOthers();               // who still uses the handle may start a job
  mine->jobs.join();
  const Status status = communicator.destroy();
  Process::get().dropRoots();
  return abort ? Status() : status;
}

/// Makes the handle at once and has `make` fill the communicator: here, with the rest of the group, or, for a
/// non-blocking communicator, in the background. `refused`: called in place of `make`, if that is not called.
Status create(
    ecclComm_t* comm, CommunicatorOptions options, std::function<Status(Communicator&)> make,
    std::function<void()> refused = [] {}) {
  const bool blocking = options.blocking;
  auto made = std::make_shared<ApiCommunicator>(std::move(options));
  Communicator& communicator = *made->communicator;
  Jobs& jobs = made->jobs;
  const auto handle = static_cast<ecclComm_t>(Process::get().communicators.add(std::move(made)));
  const auto withdraw = [handle] {
    if (CommunicatorUse mine = Process::get().communicators.take(handle)) {
      mine.awaitOthers();
      mine->communicator->destroy().ignore();  // it never came to be: the first error is the one that counts
    }
  };
  const auto fill = [&]() -> Status {
    if (!blocking) {
      // The communicator outlives its jobs: end() waits for them.
      const Status started = jobs.start([&communicator, make = std::move(make)] {
        const Status status = guarded("making a communicator", [&] { return make(communicator); });
        if (!status.ok()) communicator.fault(status, false);
      });
      if (!started.ok()) refused();
      ECCL_TRY(started);
      *comm = handle;
      return Status::error(Code::inProgress, "the communicator is being made; poll ecclCommGetAsyncError");
    }
    *comm = handle;
    return Group::ofThisThread().addJob([=, make = std::move(make)](const Status& before) {
      CommunicatorUse use = Process::get().communicators.find(handle);
      if (!before.ok()) refused();
      if (!use) return Status::error(Code::invalidUsage, "a communicator was destroyed before it was made");
      const Status status =
          before.ok() ? guarded("making a communicator", [&] { return make(*use->communicator); }) : before;
      if (!status.ok()) {
        use = {};
        withdraw();
        *comm = nullptr;
      }
      return status;
    });
  };
  const Status filled = guarded("making a communicator", fill);
  if (!filled.ok() && filled.code() != Code::inProgress) {
    withdraw();
    *comm = nullptr;
  }
  return filled;
}

/// `device`: as chooseDevice().
Status initRank(ecclComm_t* comm, int nranks, const ecclUniqueId& bytes, int rank, const ecclConfig_t* config,
                int device) {
  if (comm == nullptr) return Status::error(Code::invalidArgument, "ecclCommInitRank: comm is NULL");
  *comm = nullptr;
  ECCL_TRY(checkRank(nranks, rank));
  ECCL_ASSIGN(CommunicatorOptions options, optionsFrom(config, "ecclCommInitRank", device));
  transport::UniqueId::Bytes copy;
  std::memcpy(copy.data(), bytes.internal, copy.size());
  ECCL_ASSIGN(transport::UniqueId id, transport::UniqueId::decode(copy));
  return create(comm, std::move(options),
                [=](Communicator& communicator) { return communicator.join(id, rank, nranks); });
}

Status initAll(ecclComm_t* comms, int ndev, const int* devices) {
  if (comms == nullptr) return Status::error(Code::invalidArgument, "ecclCommInitAll: comms is NULL");
  if (ndev < 1)
    return Status::error(Code::invalidArgument, "ecclCommInitAll: ndev is %d; at least 1 is needed", ndev);
  ECCL_ASSIGN(Settings settings, loadSettings());
  transport::UniqueId id = transport::UniqueId::random(System::real());
  id.secret.encrypts = settings.encrypt;
  transport::Rendezvous::Options options;
  options.interfaces = transport::interfaceOptions(settings);
  ECCL_ASSIGN(auto root, transport::Rendezvous::start(&id, options));
  Process::get().keep(std::move(root));
  ecclUniqueId bytes;
  transport::UniqueId::Bytes encoded = id.encode();
  std::memcpy(bytes.internal, encoded.data(), encoded.size());
  Group& group = Group::ofThisThread();
  group.start();
  for (int rank = 0; rank < ndev; ++rank) {
    const int device = devices != nullptr ? devices[rank] : rank;
    group.judge(
        guarded("ecclCommInitAll", [&] { return initRank(&comms[rank], ndev, bytes, rank, nullptr, device); }));
  }
  return group.end();
}

Status splitComm(ecclComm_t comm, CommunicatorUse& use, int color, int key, ecclComm_t* newcomm,
                 const ecclConfig_t* config) {
  Communicator& parent = *use->communicator;
  if (newcomm == nullptr) return Status::error(Code::invalidArgument, "ecclCommSplit: newcomm is NULL");
  *newcomm = nullptr;
  if (color < 0 && color != ECCL_SPLIT_NOCOLOR) {
    return Status::error(Code::invalidArgument,
                         "ecclCommSplit: color %d is neither >= 0 nor ECCL_SPLIT_NOCOLOR", color);
  }
  ECCL_TRY(parent.usable());
  CommunicatorOptions options = parent.options();
  if (config != nullptr) {
    const std::optional<ExecutorKind> device = options.device;  // the parent's, whatever is current here
    ECCL_ASSIGN(options, optionsFrom(config, "ecclCommSplit", -1));
    options.device = device;
  }
  // From here on this rank takes part, in the order of the calls: its number is given out now.
  const uint64_t number = parent.beginSplit();
  // In the background the parent stays in use; in a group it may be destroyed before the group ends.
  auto kept = std::make_shared<CommunicatorUse>(options.blocking ? CommunicatorUse() : use.again());
  const auto onParent = [=](const std::function<Status(Communicator&)>& act) -> Status {
    if (*kept) return act(*(*kept)->communicator);
    ECCL_ASSIGN(CommunicatorUse found, communicatorOf(comm, "ecclCommSplit"));
    return act(*found->communicator);
  };
  const auto takeBack = [=] {
    const auto act = [&](Communicator& from) { return from.takeBackSplit(number), Status(); };
    onParent(act).ignore();  // a parent that is gone waits for nothing
  };
  if (color != ECCL_SPLIT_NOCOLOR) {
    const auto make = [=](Communicator& child) {
      return onParent([&](Communicator& from) { return child.split(from, number, color, key); });
    };
    return create(newcomm, std::move(options), make, takeBack);
  }
  const auto abstain = [=] { return onParent([&](Communicator& from) { return from.abstain(number); }); };
  if (options.blocking)
    return Group::ofThisThread().addJob([=](const Status& before) {
      if (before.ok()) return abstain();
      takeBack();
      return before;
    });
  // Nothing will be made, so there is nothing to poll, and `newcomm` may be gone when the others have split.
  return use->jobs.start([abstain] { guarded("ecclCommSplit", abstain).ignore(); });  // logged
}

Status finalizeComm(CommunicatorUse& use) {
  Communicator& communicator = *use->communicator;
  if (communicator.options().blocking) return communicator.finalize();
  // Here, so that who polls does not find it usable before the thread has begun.
  ECCL_TRY(communicator.made());
  ECCL_TRY(communicator.beginFinalize());
  const Status started = use->jobs.start([&communicator] {
    const Status status = guarded("ecclCommFinalize", [&] { return communicator.finishFinalize(); });
    if (!status.ok()) communicator.fault(status, false);  // told by asyncStatus()
  });
  if (!started.ok()) return communicator.finishFinalize();  // then in this one
  return Status::error(Code::inProgress, "finalizing; poll ecclCommGetAsyncError");
}

Status createPreMulSum(Communicator& communicator, ecclRedOp_t* op, const void* scalar, int datatype,
                       ecclScalarResidence_t residence) {
  if (op == nullptr || scalar == nullptr)
    return Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: op or scalar is NULL");
  if (datatype < 0 || datatype >= ecclNumTypes) {
    return Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: datatype %d does not exist",
                         datatype);
  }
  if (residence != ecclScalarDevice && residence != ecclScalarHostImmediate) {
    return Status::error(Code::invalidArgument, "ecclRedOpCreatePreMulSum: residence %d does not exist",
                         residence);
  }
  PreMul preMul;
  preMul.type = static_cast<DataType>(datatype);
  if (residence == ecclScalarDevice)
    preMul.scalar = scalar;
  else
    std::memcpy(preMul.immediate, scalar, sizeOf(preMul.type));
  ECCL_ASSIGN(const int index, communicator.createOp(preMul));
  *op = static_cast<ecclRedOp_t>(ecclNumOps + index);
  return {};
}

}  // namespace

ecclResult_t ecclGetUniqueId(ecclUniqueId* out) {
  return apiCall("ecclGetUniqueId", [&]() -> Status {
    if (out == nullptr) return Status::error(Code::invalidArgument, "ecclGetUniqueId: id is NULL");
    ECCL_ASSIGN(const transport::UniqueId id, makeId());
    const transport::UniqueId::Bytes bytes = id.encode();
    std::memcpy(out->internal, bytes.data(), bytes.size());
    return {};
  });
}

ecclResult_t ecclCommInitRank(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank) {
  return ecclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

ecclResult_t ecclCommInitRankConfig(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank,
                                    ecclConfig_t* config) {
  return apiCall("ecclCommInitRank", [&] {
    const Status status =
        guarded("ecclCommInitRank", [&] { return initRank(comm, nranks, id, rank, config, -1); });
    Group::ofThisThread().judge(status);
    return status;
  });
}

ecclResult_t ecclCommInitRankScalable(ecclComm_t* comm, int nranks, int rank, int nId, ecclUniqueId* ids,
                                      ecclConfig_t* config) {
  return apiCall("ecclCommInitRankScalable", [&] {
    const Status status = guarded("ecclCommInitRankScalable", [&]() -> Status {
      if (comm != nullptr) *comm = nullptr;
      if (ids == nullptr) return Status::error(Code::invalidArgument, "ecclCommInitRankScalable: ids is NULL");
      if (nId < 1 || nId > nranks) {
        return Status::error(Code::invalidArgument,
                             "ecclCommInitRankScalable: nId is %d; it is 1 to nranks (%d)", nId, nranks);
      }
      return initRank(comm, nranks, ids[0], rank, config, -1);
    });
    Group::ofThisThread().judge(status);
    return status;
  });
}

ecclResult_t ecclCommInitAll(ecclComm_t* comms, int ndev, const int* devlist) {
  return apiCall("ecclCommInitAll", [&] { return initAll(comms, ndev, devlist); });
}

ecclResult_t ecclCommSplit(ecclComm_t comm, int color, int key, ecclComm_t* newcomm, ecclConfig_t* config) {
  return groupCall("ecclCommSplit", comm,
                   [&](CommunicatorUse& use) { return splitComm(comm, use, color, key, newcomm, config); });
}

ecclResult_t ecclCommFinalize(ecclComm_t comm) {
  return apiCall("ecclCommFinalize", comm, finalizeComm);
}
ecclResult_t ecclCommDestroy(ecclComm_t comm) {
  return apiCall("ecclCommDestroy", [&] { return end(comm, "ecclCommDestroy", false); });
}
ecclResult_t ecclCommAbort(ecclComm_t comm) {
  return apiCall("ecclCommAbort", [&] { return end(comm, "ecclCommAbort", true); });
}

ecclResult_t ecclCommSynchronize(ecclComm_t comm) {
  return apiCall("ecclCommSynchronize", comm, [](CommunicatorUse& use) {
    ECCL_TRY(use->communicator->usable());
    if (const auto& device = use->communicator->device(); device != nullptr) {
      return Status::error(Code::invalidUsage,
                           "ecclCommSynchronize: the calls of a %s communicator are in that "
                           "device's streams; synchronize these",
                           device->memory());
    }
    return use->communicator->defaultStream()->synchronize();
  });
}

ecclResult_t ecclCommGetAsyncError(ecclComm_t comm, ecclResult_t* asyncError) {
  return apiCall("ecclCommGetAsyncError", comm, [&](CommunicatorUse& use) {
    if (asyncError == nullptr)
      return Status::error(Code::invalidArgument, "ecclCommGetAsyncError: asyncError is NULL");
    *asyncError = static_cast<ecclResult_t>(use->communicator->asyncStatus().code());
    return Status();
  });
}

ecclResult_t ecclCommSuspend(ecclComm_t comm, int flags) {
  return apiCall("ecclCommSuspend", comm, [&](CommunicatorUse& use) -> Status {
    if ((flags & ~ECCL_SUSPEND_MEM) != 0) {
      return Status::error(Code::invalidArgument,
                           "ecclCommSuspend: flags are %#x; there is ECCL_SUSPEND_MEM (%#x)",
                           static_cast<unsigned>(flags), ECCL_SUSPEND_MEM);
    }
    return flags == 0 ? use->communicator->made() : use->communicator->suspend();
  });
}
ecclResult_t ecclCommResume(ecclComm_t comm) {
  return apiCall("ecclCommResume", comm, [](CommunicatorUse& use) { return use->communicator->resume(); });
}

ecclResult_t ecclRedOpCreatePreMulSum(ecclRedOp_t* op, void* scalar, ecclDataType_t datatype,
                                      ecclScalarResidence_t residence, ecclComm_t comm) {
  return apiCall("ecclRedOpCreatePreMulSum", comm, [&](CommunicatorUse& use) {
    return createPreMulSum(*use->communicator, op, scalar, datatype, residence);
  });
}

ecclResult_t ecclRedOpDestroy(ecclRedOp_t op, ecclComm_t comm) {
  return apiCall("ecclRedOpDestroy", comm, [&](CommunicatorUse& use) {
    if (op >= 0 && op < ecclNumOps)
      return Status::error(Code::invalidArgument, "ecclRedOpDestroy: operator %d is built in", op);
    return use->communicator->destroyOp(static_cast<int>(op) - ecclNumOps);
  });
}
