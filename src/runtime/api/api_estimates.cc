// The C API: what calls are expected to take.

#include "eccl/eccl.h"
#include "runtime/api/group.h"
#include "runtime/api/handles.h"

namespace eccl::runtime {
namespace {

constexpr bool same(ecclCollective_t ours, Collective theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
// What users say is converted without a table.
static_assert(same(ecclCollAllReduce, Collective::allReduce) &&
              same(ecclCollAllGather, Collective::allGather) &&
              same(ecclCollReduceScatter, Collective::reduceScatter) &&
              same(ecclCollBroadcast, Collective::broadcast) && same(ecclCollReduce, Collective::reduce) &&
              same(ecclCollGather, Collective::gather) && same(ecclCollScatter, Collective::scatter) &&
              same(ecclCollAlltoAll, Collective::allToAll) && ecclNumCollectives == 8);

Status estimateCost(const Communicator& communicator, ecclCollective_t collective, size_t count,
                    ecclDataType_t datatype, int nranks, double* microseconds) {
  if (microseconds == nullptr)
    return Status::error(Code::invalidArgument, "ecclCostEstimate: microseconds is NULL");
  if (collective < 0 || collective >= ecclNumCollectives)
    return Status::error(Code::invalidArgument, "ecclCostEstimate: collective %d is none of ecclCollective_t",
                         static_cast<int>(collective));
  if (datatype < 0 || datatype >= ecclNumTypes)
    return Status::error(Code::invalidArgument, "ecclCostEstimate: datatype %d is none of ecclDataType_t",
                         static_cast<int>(datatype));
  if (nranks < 0 || nranks > communicator.ranks())
    return Status::error(Code::invalidArgument,
                         "ecclCostEstimate: nranks %d is not from 0 to the %d of the communicator", nranks,
                         communicator.ranks());
  ECCL_TRY(communicator.usable());
  ECCL_ASSIGN(*microseconds, communicator.estimator().estimate(static_cast<Collective>(collective),
                                                               static_cast<DataType>(datatype), count,
                                                               nranks == 0 ? communicator.ranks() : nranks));
  return {};
}

Status simulateEnd(ecclSimInfo_t* info) {
  // The group ends whatever is wrong with the argument.
  double microseconds = 0;
  const Status simulated = Group::ofThisThread().simulateEnd(&microseconds);
  if (info != nullptr) {
    if (info->size < sizeof(ecclSimInfo_t) || info->magic != ECCL_SIM_INFO_MAGIC)
      return Status::error(Code::invalidArgument, "ecclGroupSimulateEnd: begin with ECCL_SIM_INFO_INITIALIZER");
    info->estimatedTime = simulated.ok() ? static_cast<float>(microseconds) : ECCL_SIM_INFO_UNDEFINED;
  }
  ECCL_TRY(simulated);
  return info != nullptr ? Status()
                         : Status::error(Code::invalidArgument, "ecclGroupSimulateEnd: simInfo is NULL");
}

}  // namespace
}  // namespace eccl::runtime

using namespace eccl;
using namespace eccl::runtime;

ecclResult_t ecclCostEstimate(ecclComm_t comm, ecclCollective_t collective, size_t count,
                              ecclDataType_t datatype, int nranks, double* microseconds) {
  return apiCall("ecclCostEstimate", comm, [&](CommunicatorUse& use) {
    return estimateCost(*use->communicator, collective, count, datatype, nranks, microseconds);
  });
}

ecclResult_t ecclGroupSimulateEnd(ecclSimInfo_t* simInfo) {
  return apiCall("ecclGroupSimulateEnd", [&] { return simulateEnd(simInfo); });
}
