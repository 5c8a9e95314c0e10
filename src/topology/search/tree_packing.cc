// Tree packing. Trees grow branch by branch from their roots, many equal trees as one batch. A branch is
// added for as many trees of the batch as leave all other trees enough to be completed; the batch is divided
// where it fits for some of them only.
#include "topology/search/tree_packing.h"

#include <algorithm>

#include "topology/search/max_flow.h"

namespace eccl::topology {
namespace {

/// Equal trees, as far as they have grown. Terminals are numbered by their place in the list.
struct Batch {
  int64_t trees;
  std::vector<int> reached;                   // the root first
  std::vector<std::pair<int, int>> branches;  // between terminals
  bool has(int terminal) const { return std::find(reached.begin(), reached.end(), terminal) != reached.end(); }
};

/// All trees while they grow. Terminals are numbered by their place in the list.
class Packing {
 public:
  Packing(int terminals, int64_t each)
      : terminals_(terminals), free_(static_cast<size_t>(terminals * terminals)) {
    for (int t = 0; t < terminals; ++t) growing_.push_back({each, {t}, {}});
  }
  int64_t& free(int from, int to) { return free_[static_cast<size_t>(from * terminals_ + to)]; }

  // Grows all trees until each reaches every terminal. False if some set of terminals has too little leading
  // into it.
  bool run() {
    while (!growing_.empty()) {
      Batch batch = std::move(growing_.back());
      growing_.pop_back();
      while (static_cast<int>(batch.reached.size()) < terminals_) {
        if (!grow(batch)) return false;
      }
      grown_.push_back(std::move(batch));
    }
    return true;
  }
  const std::vector<Batch>& grown() const { return grown_; }

 private:
  // From those reached first: shallow trees take less time.
  bool grow(Batch& batch) {
    for (int from : batch.reached) {
      for (int to = 0; to < terminals_; ++to) {
        if (free(from, to) == 0 || batch.has(to)) continue;
        const int64_t trees = safe(batch, from, to);
        if (trees == 0) continue;
        if (trees < batch.trees) {  // the others go on without this branch
          growing_.push_back(batch);
          growing_.back().trees -= trees;
          batch.trees = trees;
        }
        free(from, to) -= trees;
        batch.branches.emplace_back(from, to);
        batch.reached.push_back(to);
        return true;
      }
    }
    return false;
  }

  // For so many trees of the batch the branch leaves all other trees what they need to reach every terminal:
  // the smallest cut that separates `from` and `to`, beyond the trees that have to cross it. Trees that have
  // reached more than their root stand for a node of their own that leads to all they have reached.
  int64_t safe(const Batch& batch, int from, int to) {
    const int64_t most = std::min(batch.trees, free(from, to));
    MaxFlow flow(terminals_ + static_cast<int>(growing_.size()));
    for (int a = 0; a < terminals_; ++a) {
      for (int b = 0; b < terminals_; ++b) {
        if (free(a, b) > 0) flow.add(a, b, free(a, b));
      }
    }
    int64_t others = 0;
    for (size_t j = 0; j < growing_.size(); ++j) {
      const int node = terminals_ + static_cast<int>(j);
      flow.add(from, node, growing_[j].trees);
      for (int reached : growing_[j].reached) flow.add(node, reached, MaxFlow::kUnlimited);
      others += growing_[j].trees;
    }
    return std::clamp<int64_t>(flow.flow(from, to, others + most) - others, 0, most);
  }

  const int terminals_;
  std::vector<int64_t> free_;
  std::vector<Batch> growing_, grown_;
};

}  // namespace

std::optional<std::vector<SpanningTree>> packTrees(const std::vector<int>& terminals, Routes routes,
                                                   int64_t each) {
  const int n = static_cast<int>(terminals.size());
  const auto routesOf = [&](int from, int to) -> std::vector<Route>& {
    return routes[{terminals[static_cast<size_t>(from)], terminals[static_cast<size_t>(to)]}];
  };
  Packing packing(n, each);
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to) {
      for (const Route& route : routesOf(from, to)) packing.free(from, to) += route.amount;
    }
  }
  if (!packing.run()) return std::nullopt;

  std::vector<SpanningTree> trees;
  for (const Batch& batch : packing.grown()) {
    for (int64_t copy = 0; copy < batch.trees; ++copy) {
      SpanningTree& tree = trees.emplace_back();
      tree.root = terminals[static_cast<size_t>(batch.reached.front())];
      for (const auto& [from, to] : batch.branches) {
        std::vector<Route>& left = routesOf(from, to);
        tree.branches.push_back(left.back().nodes);
        if (--left.back().amount == 0) left.pop_back();
      }
    }
  }
  std::stable_sort(trees.begin(), trees.end(), [](const auto& a, const auto& b) { return a.root < b.root; });
  return trees;
}

}  // namespace eccl::topology
