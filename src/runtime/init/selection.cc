#include "runtime/init/selection.h"

#include <algorithm>
#include <mutex>

#include "algorithms/selection/selection_rules.h"
#include "base/log.h"
#include "base/text_file.h"
#include "runtime/calibration/machine_model.h"
#include "transport/net/bytes.h"

namespace eccl::runtime {
namespace {

constexpr size_t kMaxText = 1 << 20;

/// Communicators of a process are often alike.
Result<std::vector<algorithms::SelectionRule>> rulesOnce(const Placement& placement,
                                                         const algorithms::CostModel& model,
                                                         const algorithms::CallSize& size) {
  struct Made {
    Placement placement;
    algorithms::CostModel model;
    uint64_t slotBytes;
    int slots;
    std::vector<algorithms::SelectionRule> rules;
  };
  static std::mutex mutex;
  static std::vector<Made> all;
  constexpr size_t kKept = 16;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Made& made : all) {
    if (made.placement == placement && made.model == model && made.slotBytes == size.slotBytes &&
        made.slots == size.slots) {
      return made.rules;
    }
  }
  ECCL_ASSIGN(auto rules, algorithms::rulesFor(placement, model, size));
  if (all.size() >= kKept) all.erase(all.begin());
  all.push_back({placement, model, size.slotBytes, size.slots, rules});
  return rules;
}

algorithms::CallSize sizeOf(const Settings& settings, const Placement& placement) {
  algorithms::CallSize size;
  size.slotBytes = algorithms::slotBytesFor(settings.slotBytes, placement);
  size.slots = static_cast<int>(settings.slots);
  return size;
}

/// Of rank 0: its model and rules.
Status make(const Settings& settings, Selection& selection) {
  ECCL_ASSIGN(MachineModel machine, machineModel(settings));
  selection.model = std::move(machine.model);
  ECCL_ASSIGN(selection.rules,
              rulesOnce(*selection.placement, selection.model, sizeOf(settings, *selection.placement)));
  if (settings.tableFile.empty()) return {};
  ECCL_ASSIGN(auto rules, algorithms::loadRules(settings.tableFile));
  selection.rules = algorithms::overridden(std::move(selection.rules), std::move(rules));
  return {};
}

/// What goes wrong is a warning only: nothing depends on the file.
void dump(const Selection& selection, const std::string& path, int rank) {
  const Status status = writeTextFile(path, algorithms::textOf(selection.rules), "the table of algorithms");
  if (!status.ok())
    ECCL_WARN("ECCL_TABLE_DUMP_FILE: %s; rank %d goes on without", status.message().c_str(), rank);
}

}  // namespace

Result<Selection> Selection::agree(const Settings& settings, int rank,
                                   std::shared_ptr<const Placement> placement, const Gather& gather) {
  Selection selection;
  selection.placement = std::move(placement);
  std::string mine;
  if (rank == 0) {
    const Status made = make(settings, selection);
    mine = transport::ByteWriter()
               .text(made.ok() ? "" : made.message())
               .text(selection.model == algorithms::CostModel() ? "" : selection.model.text())
               .text(algorithms::textOf(selection.rules))
               .take();
  }
  ECCL_ASSIGN(const auto told, gather(mine));
  transport::ByteReader reader(told[0]);
  const std::string wrong(reader.text(kMaxText)), model(reader.text(kMaxText)), rules(reader.text(kMaxText));
  if (!reader.finished())
    return logged(Status::error(Code::remote, "rank 0 tells no table of algorithms that can be read"));
  if (!wrong.empty()) return logged(Status::error(Code::invalidUsage, "rank 0: %s", wrong.c_str()));
  if (!model.empty()) {
    ECCL_ASSIGN(selection.model, logged(algorithms::CostModel::parse(model, "the cost model of rank 0")));
  }
  ECCL_ASSIGN(selection.rules, logged(algorithms::parseRules(rules, "the table of algorithms of rank 0")));
  if (rank == 0 && !settings.tableDumpFile.empty()) dump(selection, settings.tableDumpFile, rank);
  return selection;
}

Result<std::vector<algorithms::SelectionRule>> Selection::rulesAmong(std::span<const int> ranks,
                                                                     const Settings& settings) const {
  const Placement some = placement->of(ranks);
  return rulesOnce(some, model, sizeOf(settings, some));
}

Result<double> Selection::estimate(Collective collective, const algorithms::CallSize& size,
                                   const algorithms::SelectionTable& table, std::span<const int> among) const {
  const Placement where = among.empty() ? *placement : placement->of(among);
  const algorithms::Choice choice =
      algorithms::select(collective, size.elements * size.elementBytes, where.ranks(), table);
  if (choice.algorithm == nullptr)
    return Status::error(Code::invalidUsage, "%s is no collective: nothing is chosen for it",
                         nameOf(collective));
  return algorithms::estimatedTimeOf(choice, size, where, model);
}

}  // namespace eccl::runtime
