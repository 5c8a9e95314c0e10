#include "topology/paths/paths.h"

#include <algorithm>
#include <queue>

#include "topology/paths/path_graph.h"

namespace eccl::topology {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

/// How much a way carries: more is better.
struct Width {
  double gigabytes = 0;
  Width across(const PathEdge& edge) const { return {std::min(gigabytes, edge.gigabytes)}; }
  bool operator<(const Width& other) const { return gigabytes > other.gigabytes; }
};

/// How long it takes: less is better.
struct Delay {
  double microseconds = kEndless;
  int hops = 0;
  Delay across(const PathEdge& edge) const { return {microseconds + edge.microseconds, hops + 1}; }
  bool operator<(const Delay& other) const {
    return microseconds != other.microseconds ? microseconds < other.microseconds : hops < other.hops;
  }
};

/// Both, each of the best way for itself.
struct Reach {
  Width width;
  Delay delay;
  bool reached() const { return delay.microseconds < kEndless; }
};

/// What one search found: the reach of every node.
struct Reaches {
  std::vector<Width> widths;
  std::vector<Delay> delays;
  explicit Reaches(int nodes) : widths(nodes), delays(nodes) {}
  Reach at(int node) const { return {widths[node], delays[node]}; }
};

struct Seed {
  int node = 0;
  Reach reach;
};

bool isTree(const PathEdge& edge) {
  return edge.kind == LinkKind::pci || edge.kind == LinkKind::network || edge.kind == LinkKind::pciSwitch;
}

/// The search from one device: one pass for each type that a way can have, best first. A pass looks at all ways
/// of its type or better, since the widest may have better beginnings, and settles what no pass before has
/// reached.
class Search {
 public:
  Search(const PathGraph& graph, int source) : graph_(graph), source_(source), paths_(graph.devices()) {}

  std::vector<Path> run() {
    // An NVSwitch starts at both, its PCI function and its NVLinks.
    const Reach start{{kEndless}, {0, 0}};
    seeds_ = {{source_, start}};
    if (graph_.crossbarOf(source_) != source_) seeds_.push_back({graph_.crossbarOf(source_), start});
    left_ = graph_.devices();
    for (int i = 0; i < graph_.devices(); ++i) {
      if (graph_.crossbarOf(i) == graph_.crossbarOf(source_)) settle(i, PathType::loc, start);
    }
    plain(PathType::loc);
    const Reaches fabric = plain(PathType::nvl);
    byAccelerator();
    const Reaches cpus = plain(PathType::c2c);
    plain(PathType::pix);
    plain(PathType::pxb);
    byC2c(cpus);
    byPeer(fabric);
    plain(PathType::phb);
    plain(PathType::sys);
    byNetwork();
    return std::move(paths_);
  }

 private:
  bool isAccelerator(int node) const { return graph_.kindOf(node) == DeviceKind::accelerator; }
  bool isNetwork(int node) const {
    return graph_.kindOf(node) == DeviceKind::nic || graph_.kindOf(node) == DeviceKind::port;
  }

  /// Dijkstra's, from seeds whose reach stays as it is, over the edges that `allow` allows.
  template <class Measure, class Allow>
  void spread(const std::vector<Seed>& seeds, Measure Reach::*part, Allow allow,
              std::vector<Measure>& best) const {
    using Entry = std::pair<Measure, int>;
    const auto later = [](const Entry& one, const Entry& other) { return other.first < one.first; };
    std::priority_queue<Entry, std::vector<Entry>, decltype(later)> queue(later);
    std::vector<bool> isSeed(static_cast<size_t>(graph_.nodes()));
    for (const Seed& seed : seeds) {
      best[seed.node] = seed.reach.*part;
      isSeed[seed.node] = true;
      queue.emplace(best[seed.node], seed.node);
    }
    while (!queue.empty()) {
      const auto [reach, node] = queue.top();
      queue.pop();
      if (best[node] < reach) continue;                    // reached better meanwhile
      if (isAccelerator(node) && !isSeed[node]) continue;  // passes nothing on
      for (const PathEdge* edge = graph_.begin(node); edge != graph_.end(node); ++edge) {
        if (isSeed[edge->to] || !allow(node, *edge)) continue;
        const Measure next = reach.across(*edge);
        if (!(next < best[edge->to])) continue;
        best[edge->to] = next;
        queue.emplace(next, edge->to);
      }
    }
  }

  template <class Allow>
  Reaches reaches(const std::vector<Seed>& seeds, Allow allow) const {
    Reaches found(graph_.nodes());
    spread(seeds, &Reach::width, allow, found.widths);
    spread(seeds, &Reach::delay, allow, found.delays);
    return found;
  }

  /// Gives a device its path, unless it has a better one.
  void settle(int device, PathType type, const Reach& reach) {
    Path& path = paths_[device];
    if (path.type != PathType::dis || !reach.reached()) return;
    path = {type, reach.width.gigabytes, reach.delay.microseconds, reach.delay.hops};
    --left_;
  }
  template <class Wanted>
  void settleAll(const Reaches& found, PathType type, Wanted wanted) {
    for (int i = 0; i < graph_.devices(); ++i) {
      if (!wanted(i)) continue;
      settle(i, type, found.at(i));
      if (graph_.crossbarOf(i) != i) settle(i, type, found.at(graph_.crossbarOf(i)));
    }
  }

  /// Ways whose links are of that type or better. Nothing if none is of that type.
  Reaches plain(PathType type) {
    if (left_ == 0 || !graph_.has(type)) return Reaches(graph_.nodes());
    Reaches found = reaches(seeds_, [type](int, const PathEdge& edge) { return edge.type <= type; });
    settleAll(found, type, [](int) { return true; });
    return found;
  }

  /// nvb: by an accelerator that has a link of its own to both.
  void byAccelerator() {
    if (left_ == 0 || !isAccelerator(source_)) return;
    const auto links = [&](const PathEdge& edge) {
      return edge.type == PathType::nvl && isAccelerator(edge.to);
    };
    Reaches found(graph_.nodes());
    for (const PathEdge* first = graph_.begin(source_); first != graph_.end(source_); ++first) {
      if (!links(*first)) continue;
      for (const PathEdge* second = graph_.begin(first->to); second != graph_.end(first->to); ++second) {
        if (!links(*second)) continue;
        Width& width = found.widths[second->to];
        Delay& delay = found.delays[second->to];
        width = std::min(width, Width{kEndless}.across(*first).across(*second));
        delay = std::min(delay, Delay{0, 0}.across(*first).across(*second));
      }
    }
    settleAll(found, PathType::nvb, [&](int device) { return isAccelerator(device); });
  }

  /// p2c: between an accelerator and an adapter, C2C and the tree below that CPU.
  void byC2c(const Reaches& cpus) {
    if (left_ == 0 || !graph_.has(PathType::c2c)) return;
    if (isAccelerator(source_)) {
      std::vector<Seed> seeds;
      for (int i = 0; i < graph_.devices(); ++i) {
        if (graph_.kindOf(i) == DeviceKind::cpu && paths_[i].type == PathType::c2c)
          seeds.push_back({i, cpus.at(i)});
      }
      const auto down = [&](int, const PathEdge& edge) {
        return isTree(edge) && graph_.kindOf(edge.to) != DeviceKind::cpu;
      };
      settleAll(reaches(seeds, down), PathType::p2c, [&](int device) { return isNetwork(device); });
    } else if (isNetwork(source_)) {
      const auto upAndAcross = [&](int node, const PathEdge& edge) {
        return graph_.kindOf(node) == DeviceKind::cpu ? edge.kind == LinkKind::c2c
                                                      : isTree(edge) && !isAccelerator(edge.to);
      };
      settleAll(reaches(seeds_, upAndAcross), PathType::p2c, [&](int device) { return isAccelerator(device); });
    }
  }

  /// pxn: between an accelerator and an adapter, by another accelerator that is near the adapter.
  void byPeer(const Reaches& fabric) {
    if (left_ == 0 || !graph_.has(PathType::nvl)) return;
    const auto near = [](int, const PathEdge& edge) { return isTree(edge) && edge.type <= PathType::pxb; };
    const auto across = [](int, const PathEdge& edge) { return edge.type == PathType::nvl; };
    std::vector<Seed> peers;
    if (isAccelerator(source_)) {
      for (int i = 0; i < graph_.devices(); ++i) {
        if (isAccelerator(i) && paths_[i].type == PathType::nvl) peers.push_back({i, fabric.at(i)});
      }
      settleAll(reaches(peers, near), PathType::pxn, [&](int device) { return isNetwork(device); });
    } else if (isNetwork(source_)) {
      const Reaches tree = reaches(seeds_, near);
      for (int i = 0; i < graph_.devices(); ++i) {
        if (isAccelerator(i) && tree.at(i).reached()) peers.push_back({i, tree.at(i)});
      }
      settleAll(reaches(peers, across), PathType::pxn, [&](int device) { return isAccelerator(device); });
    }
  }

  /// net: from the port that is reached best to all ports that are not reached, and on from there.
  void byNetwork() {
    if (left_ == 0) return;
    Reach port;
    std::vector<Seed> others;
    for (int i = 0; i < graph_.devices(); ++i) {
      const Path& path = paths_[i];
      if (graph_.kindOf(i) != DeviceKind::port) continue;
      if (path.type == PathType::dis) {
        others.push_back({i, {}});
      } else {
        port.width = std::min(port.width, Width{path.gigabytes});
        port.delay = std::min(port.delay, Delay{path.microseconds, path.hops});
      }
    }
    if (!port.reached() || others.empty()) return;
    ++port.delay.hops;
    for (Seed& other : others) other.reach = port;
    const Reaches found = reaches(others, [](int, const PathEdge&) { return true; });
    settleAll(found, PathType::net, [](int) { return true; });
  }

  const PathGraph& graph_;
  const int source_;
  std::vector<Path> paths_;
  std::vector<Seed> seeds_;
  int left_ = 0;  // devices without a path
};

}  // namespace

const char* nameOf(PathType type) {
  static constexpr const char* kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                           "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames[static_cast<size_t>(type)];
}

Paths::Paths(const Host& host) : graph_(std::make_unique<const PathGraph>(host)) {}
Paths::~Paths() = default;
Paths::Paths(Paths&&) noexcept = default;
Paths& Paths::operator=(Paths&&) noexcept = default;

std::vector<Path> Paths::from(int device) const {
  return Search(*graph_, device).run();
}

Path Paths::between(int from, int to) const {
  return this->from(from)[static_cast<size_t>(to)];
}

}  // namespace eccl::topology
