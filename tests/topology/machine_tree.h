// Machines as files: a folder that looks like /sys and /proc of one, for what reads below a root.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace eccl {

/// A folder of its own, removed with it.
class MachineTree {
 public:
  using Files = std::map<std::string, std::string>;

  MachineTree() {
    static int count = 0;
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("eccl_machine_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(root_);
  }
  ~MachineTree() { std::filesystem::remove_all(root_); }
  MachineTree(const MachineTree&) = delete;
  MachineTree& operator=(const MachineTree&) = delete;

  std::string root() const { return root_; }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path at = root_.string() + name;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at, std::ios::binary) << text;
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(root_.string() + name); }
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path at = root_.string() + name;
    std::filesystem::create_directories(at.parent_path());
    std::filesystem::remove(at);
    std::filesystem::create_symlink(target, at);
  }

  /// A NUMA node with cores "0-3".
  void node(int number, const std::string& cpus) const {
    write("/sys/devices/system/node/node" + std::to_string(number) + "/cpulist", cpus + "\n");
  }

  /// A PCI function. `way`: the bus ids from the root bus down to it, "0000:16:01.0/0000:17:00.0".
  void pci(const std::string& way, const Files& files) const {
    const std::string busId = way.substr(way.size() - 12);
    const std::string folder = "/sys/devices/pci" + way.substr(0, 7) + "/" + way + "/";
    for (const auto& [name, text] : files) write(folder + name, text + "\n");
    link("/sys/bus/pci/devices/" + busId, "../../../devices/pci" + way.substr(0, 7) + "/" + way);
    folders_[busId] = folder;
    // A bridge's configuration space says which buses are below it; hwloc goes by that.
    for (size_t at = 0; at + 13 <= way.size(); at += 13) {
      const std::string config = folders_.at(way.substr(at, 12)) + "config";
      std::string bytes = read(config);
      if (bytes.size() < 64) continue;
      bytes[0x18] = busIn(way, at);
      if (bytes[0x19] == 0) bytes[0x19] = busIn(way, at + 13);
      const char last = busIn(way, way.size() - 12);
      if (static_cast<unsigned char>(bytes[0x1a]) < static_cast<unsigned char>(last)) bytes[0x1a] = last;
      write(config, bytes);
    }
  }
  /// A network interface of a function that is there.
  void net(const std::string& busId, const std::string& name, const Files& files) const {
    const std::string folder = folders_.at(busId) + "net/" + name;
    for (const auto& [file, text] : files) write(folder + "/" + file, text + "\n");
    link(folder + "/device", "../../../" + busId);
    link("/sys/class/net/" + name, "../.." + folder.substr(4));
  }
  /// An InfiniBand device of a function that is there; `files` below ports/<n>/ and beside.
  void infiniband(const std::string& busId, const std::string& name, const Files& files) const {
    const std::string folder = folders_.at(busId) + "infiniband/" + name;
    for (const auto& [file, text] : files) write(folder + "/" + file, text + "\n");
    link(folder + "/device", "../../../" + busId);
    link("/sys/class/infiniband/" + name, "../.." + folder.substr(4));
  }
  /// Where a function's files lie.
  std::string folderOf(const std::string& busId) const { return folders_.at(busId); }

 private:
  std::string read(const std::string& name) const {
    std::ifstream in(root_.string() + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The bus of the id that begins there.
  static char busIn(const std::string& way, size_t at) {
    return static_cast<char>(std::stoi(way.substr(at + 5, 2), nullptr, 16));
  }

  std::filesystem::path root_;
  mutable std::map<std::string, std::string> folders_;
};

/// Two sockets. On each a PCI switch with two GPUs and an InfiniBand adapter; on the first an Ethernet adapter
/// below a root port as well. Everything is in order.
class TwoSocketServer : public MachineTree {
 public:
  TwoSocketServer() {
    write("/proc/sys/kernel/hostname", "node7\n");
    write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("/proc/sys/kernel/yama/ptrace_scope", "1\n");
    write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=on iommu=pt\n");
    write("/proc/cpuinfo",
          "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
          "model name\t: Intel(R) Xeon(R) Platinum 8480C\n");
    write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n");
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max locked memory         unlimited            unlimited            bytes     \n");
    write("/proc/meminfo", "MemTotal:       527923200 kB\nMemAvailable:   262144000 kB\n");
    write("/dev/shm/.keep", "");
    node(0, "0-3");
    node(1, "4-7");
    // What hwloc wants to see of CPUs and memory.
    write("/sys/devices/system/cpu/online", "0-7\n");
    write("/sys/devices/system/cpu/possible", "0-7\n");
    write("/sys/devices/system/node/online", "0-1\n");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string at = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      char mask[16];
      std::snprintf(mask, sizeof mask, "%08x\n", 1U << cpu);
      write(at + "thread_siblings", mask);
      write(at + "core_cpus", mask);
      write(at + "core_siblings", cpu < 4 ? "0000000f\n" : "000000f0\n");
      write(at + "package_cpus", cpu < 4 ? "0000000f\n" : "000000f0\n");
      write(at + "core_id", std::to_string(cpu) + "\n");
      write(at + "physical_package_id", std::to_string(cpu / 4) + "\n");
    }
    for (int n : {0, 1}) {
      const std::string at = "/sys/devices/system/node/node" + std::to_string(n) + "/";
      write(at + "cpumap", n == 0 ? "0000000f\n" : "000000f0\n");
      write(at + "meminfo", "Node " + std::to_string(n) + " MemTotal: 263961600 kB\n");
    }
    addSocket(0, "16", "17", "18", "19", "1a", "1b", "mlx5_0", "ib0");
    addSocket(1, "96", "97", "98", "99", "9a", "9b", "mlx5_1", "ib1");
    pci("0000:00:1c.0", port(0, kIntelPort));
    pci("0000:00:1c.0/0000:01:00.0", endpoint(0, "0x020000", "0x8086", "0x1521", "5.0 GT/s PCIe", "4"));
    net("0000:01:00.0", "eth0", {{"operstate", "up"}, {"speed", "1000"}, {"mtu", "1500"}, {"type", "1"}});
    pci("0000:00:1f.0", endpoint(0, "0x060100", "0x8086", "0x1bc1", "", ""));
    link("/sys/class/net/lo", "../../devices/virtual/net/lo");
    write("/sys/devices/virtual/net/lo/operstate", "unknown\n");
  }

  static constexpr const char* kIntelPort = "0x8086";
  static Files endpoint(int node, const std::string& classCode, const std::string& vendor,
                        const std::string& device, const std::string& speed, const std::string& width) {
    Files files = {{"class", classCode},
                   {"vendor", vendor},
                   {"device", device},
                   {"subsystem_vendor", vendor},
                   {"subsystem_device", "0x0001"},
                   {"numa_node", std::to_string(node)},
                   {"local_cpus", node == 0   ? "0000000f"
                                  : node == 1 ? "000000f0"
                                              : "000000ff"},
                   {"config", config(classCode, vendor, device, 0)}};
    if (!speed.empty()) {
      files.insert({{"current_link_speed", speed},
                    {"max_link_speed", speed},
                    {"current_link_width", width},
                    {"max_link_width", width}});
    }
    return files;
  }
  static Files port(int node, const std::string& vendor, const std::string& speed = "32.0 GT/s PCIe") {
    return endpoint(node, "0x060400", vendor, "0xc030", speed, "16");
  }

  /// 4096 bytes of configuration space: the header, and at 0x100 an ACS capability of that control.
  static std::string config(const std::string& classCode, const std::string& vendor, const std::string& device,
                            unsigned acsControl) {
    std::string bytes(4096, '\0');
    const auto put = [&](size_t at, unsigned long value, int count) {
      for (int i = 0; i < count; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
    };
    put(0x00, std::stoul(vendor, nullptr, 16), 2);
    put(0x02, std::stoul(device, nullptr, 16), 2);
    put(0x09, std::stoul(classCode, nullptr, 16), 3);
    put(0x0e, classCode == "0x060400" ? 1 : 0, 1);
    put(0x100, 0x0001U | (1U << 16) | (0x140U << 20), 4);  // error reporting, then
    put(0x140, 0x000dU | (1U << 16), 4);                   // ACS, the last
    put(0x146, acsControl, 2);
    return bytes;
  }

 private:
  void addSocket(int node, const std::string& rootBus, const std::string& up, const std::string& down,
                 const std::string& gpu0, const std::string& gpu1, const std::string& nic,
                 const std::string& device, const std::string& interface) const {
    const std::string rootPort = "0000:" + rootBus + ":01.0", upper = rootPort + "/0000:" + up + ":00.0";
    pci(rootPort, port(node, kIntelPort));
    pci(upper, port(node, "0x1000"));
    const auto below = [&](int number, const std::string& bus) {
      const std::string lower = upper + "/0000:" + down + ":0" + std::to_string(number) + ".0";
      pci(lower, port(node, "0x1000"));
      return lower + "/0000:" + bus + ":00.0";
    };
    const Files gpu = endpoint(node, "0x030200", "0x10de", "0x2330", "32.0 GT/s PCIe", "16");
    pci(below(0, gpu0), gpu);
    pci(below(1, gpu1), gpu);
    pci(below(2, nic), endpoint(node, "0x020700", "0x15b3", "0x1021", "32.0 GT/s PCIe", "16"));
    const std::string busId = "0000:" + nic + ":00.0";
    infiniband(busId, device,
               {{"node_guid", node == 0 ? "0002:c903:0005:0a12" : "0002:c903:0005:0a13"},
                {"ports/1/state", "4: ACTIVE"},
                {"ports/1/rate", "400 Gb/sec (4X NDR)"},
                {"ports/1/link_layer", "InfiniBand"}});
    net(busId, interface,
        {{"operstate", "up"}, {"mtu", "4092"}, {"type", "32"}, {"dev_port", "0"}, {"speed", "400000"}});
  }
};

}  // namespace eccl
