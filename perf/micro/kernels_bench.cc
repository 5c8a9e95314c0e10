// Throughput of the reduction kernels, beside what the machine can do: memcpy and a triad (a = b + x*c).
// Bytes per second count what is read and written by the operation, (sources + 1) × bytes, not what the caches
// fetch in order to write. "L2" keeps all buffers together within 256 KiB, "memory" spreads them over 512 MiB.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reduce.h"

namespace eccl {
namespace {

struct Place {
  const char* name;
  size_t bytes;  // of all buffers together
};
constexpr Place kPlaces[] = {{"L2", size_t{256} << 10}, {"memory", size_t{512} << 20}};

/// `buffers` stretches of memory of equal size, `place.bytes` together, filled with small finite numbers.
class Buffers {
 public:
  Buffers(const Place& place, int buffers)
      : each_(place.bytes / static_cast<size_t>(buffers) / 64 * 64), memory_(new uint8_t[place.bytes]) {
    // 0x30 … 0x37 in every byte is positive, normal and below 1 in all floats.
    for (size_t i = 0; i < place.bytes; ++i)
      memory_[i] = static_cast<uint8_t>(0x30 | ((i * 2654435761U) >> 13 & 7));
  }
  uint8_t* operator[](int i) { return memory_.get() + static_cast<size_t>(i) * each_; }
  size_t each() const { return each_; }

 private:
  size_t each_;
  std::unique_ptr<uint8_t[]> memory_;
};

void runMemcpy(benchmark::State& state, Place place) {
  Buffers buffers(place, 2);
  for (auto _ : state) {
    std::memcpy(buffers[1], buffers[0], buffers.each());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * 2 * buffers.each()));
}

void runTriad(benchmark::State& state, Place place) {
  Buffers buffers(place, 3);
  auto* a = reinterpret_cast<float*>(buffers[0]);
  const auto *b = reinterpret_cast<const float*>(buffers[1]), *c = reinterpret_cast<const float*>(buffers[2]);
  float x = 3;
  benchmark::DoNotOptimize(x);
  for (auto _ : state) {
    for (size_t i = 0; i < buffers.each() / sizeof(float); ++i) a[i] = b[i] + x * c[i];
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * 3 * buffers.each()));
}

kernels::ReduceTask sumTask(DataType type, int sources, Buffers& buffers) {
  kernels::ReduceTask task;
  task.type = type;
  task.sources = static_cast<uint8_t>(sources);
  task.destinations = 1;
  task.count = buffers.each() / sizeOf(type);
  for (int s = 0; s < sources; ++s) task.source[s] = buffers[s];
  task.destination[0] = buffers[sources];
  return task;
}

void runReduce(benchmark::State& state, kernels::ReduceVariant variant, Place place, DataType type,
               int sources) {
  Buffers buffers(place, sources + 1);
  const kernels::ReduceTask task = sumTask(type, sources, buffers);
  for (auto _ : state) {
    variant.run(task);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * (sources + 1) * buffers.each()));
}

/// The fixed cost: two sources of `bytes` each.
void runSmall(benchmark::State& state, kernels::ReduceVariant variant, DataType type, size_t bytes) {
  Buffers buffers(kPlaces[0], 3);
  kernels::ReduceTask task = sumTask(type, 2, buffers);
  task.count = bytes / sizeOf(type);
  for (auto _ : state) {
    variant.run(task);
    benchmark::ClobberMemory();
  }
}

void registerAll() {
  for (const Place& place : kPlaces) {
    benchmark::RegisterBenchmark((std::string("memcpy/") + place.name).c_str(), runMemcpy, place);
    benchmark::RegisterBenchmark((std::string("triad/") + place.name).c_str(), runTriad, place);
    for (const kernels::ReduceVariant& variant : kernels::reduceVariants()) {
      for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float8e4m3,
                            DataType::float8e5m2}) {
        for (int sources : {2, 4, 8}) {
          const std::string name = std::string("sum/") + place.name + "/" + variant.name + "/" + nameOf(type) +
                                   "/" + std::to_string(sources);
          benchmark::RegisterBenchmark(name.c_str(), runReduce, variant, place, type, sources);
        }
      }
    }
  }
  for (const kernels::ReduceVariant& variant : kernels::reduceVariants()) {
    for (DataType type : {DataType::int8, DataType::float32, DataType::bfloat16, DataType::float8e4m3}) {
      for (size_t bytes : {8, 64, 120, 1000}) {
        const std::string name =
            std::string("small/") + variant.name + "/" + nameOf(type) + "/" + std::to_string(bytes);
        benchmark::RegisterBenchmark(name.c_str(), runSmall, variant, type, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace eccl

int main(int argc, char** argv) {
  eccl::registerAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
