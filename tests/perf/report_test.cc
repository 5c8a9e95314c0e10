#include "common/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace eccl::perf {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// What `body` writes through a Report with and without JSON.
struct Written {
  std::string text, json;
};

template <class Body>
Written written(const Options& options, Body body) {
  char *text = nullptr, *json = nullptr;
  size_t textSize = 0, jsonSize = 0;
  FILE* textFile = open_memstream(&text, &textSize);
  FILE* jsonFile = open_memstream(&json, &jsonSize);
  {
    JsonWriter writer(jsonFile);
    char* noArguments[] = {nullptr};
    char secret[] = "ECCL_COMM_SECRET=hunter2", plain[] = "HOME=/root";
    char* environment[] = {secret, plain, nullptr};
    Report report(textFile, &writer, options);
    report.beginDocument(0, noArguments, environment, 100);
    std::fflush(textFile);
    body(report);
    writer.finish();
  }
  std::fclose(textFile);
  std::fclose(jsonFile);
  Written result{text, json};
  std::free(text);
  std::free(json);
  return result;
}

TEST(Report, Banner) {
  Options o;
  o.threads = 2;
  const Written w = written(o, [](Report& r) { r.banner("all_reduce_perf", 100, 205); });
  EXPECT_EQ(w.text,
            "# eccl-tests version 0.1.0 eccl-headers=100 eccl-library=205\n"
            "# Collective test starting: all_reduce_perf\n"
            "# nThread 2 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1 "
            "iters: 20 agg "
            "iters: 1 validation: 1 graph: 0 unalign: 0\n"
            "#\n");
}

TEST(Report, BannerSaysWhatIsSpecial) {
  Options o;
  o.stepFactor = 4;
  o.blocking = 1;
  o.perIteration = true;
  o.perIterationSkip = 2;
  o.parallelInit = true;
  o.notes = {"a note"};
  const Written w = written(o, [](Report& r) { r.banner("x_perf", 100, 100); });
  EXPECT_THAT(w.text, HasSubstr(" step: 4(factor) "));
  EXPECT_THAT(w.text, HasSubstr("\n# Blocking Enabled: wait and barrier after each inner iteration (-m) \n"));
  EXPECT_THAT(w.text, HasSubstr("; i_* uses max over process rows; summary skips first 2 iterations \n"));
  EXPECT_THAT(w.text,
              HasSubstr("\n# Parallel Init Enabled: threads call into ecclCommInitRank concurrently \n"));
  EXPECT_THAT(w.text, HasSubstr("\n# a note\n#\n"));
}

TEST(Report, Devices) {
  const Written w = written({}, [](Report& r) {
    r.devices({{3, 1, 4711, "node1", 2, "0000:00:00", "Some CPU"}});
  });
  EXPECT_EQ(w.text,
            "# Using devices\n"
            "#  Rank  3 Group  1 Pid   4711 on      node1 device  2 [0000:00:00] Some CPU\n");
  EXPECT_THAT(w.json,
              HasSubstr("\"devices\":[{\"rank\":3,\"group\":1,\"pid\":4711,\"hostname\":\"node1\",\"device\":2,"
                        "\"device_hex\":\"0000:00:00\",\"device_info\":\"Some CPU\"}]"));
}

TEST(Report, TimeOfInit) {
  EXPECT_EQ(written({}, [](Report& r) { r.init(1.23456, 1024); }).text,
            "# Init: 1024 ranks joined in 1.235 s\n");
}

// nccl-tests 2.19.6, byte for byte, blanks at the ends of lines included.
TEST(Report, TableHeader) {
  EXPECT_EQ(written({}, [](Report& r) { r.tableHeader(); }).text,
            "#\n"
            "#                                                              out-of-place                       "
            "in-place          \n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
            "algbw   busbw  #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  "
            "(GB/s)  (GB/s)         \n");
}

TEST(Report, TableHeaderWithCpuTimeAndTimestamps) {
  Options o;
  o.cpuTime = o.timestamps = true;
  EXPECT_EQ(written(o, [](Report& r) { r.tableHeader(); }).text,
            "#\n"
            "#                                                              out-of-place                       "
            "in-place          \n"
            "#       size         count      type   redop    root  cputime   algbw   busbw  #wrong  cputime   "
            "algbw   busbw  #wrong           timestamp\n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  "
            "(GB/s)  (GB/s)           %Y-%m-%d %H:%M:%S\n");
}

TEST(Report, TableHeaderWithPerIterationTimes) {
  Options o;
  o.perIteration = true;
  EXPECT_EQ(written(o, [](Report& r) { r.tableHeader(); }).text,
            "#\n"
            "#                                                                 out-of-place (+ per-iteration)  "
            "                              in-place (+ per-iteration)\n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    "
            "i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv% \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)    "
            " (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%) \n");
}

void row(Report& r, const Measurement& outOfPlace, const Measurement& inPlace) {
  r.tableHeader();
  r.beginRow(1048576, 262144, "float", "sum", -1);
  r.measurement(outOfPlace, false);
  r.measurement(inPlace, true);
  r.endRow();
}

std::string lastLine(const std::string& text) {
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

TEST(Report, Row) {
  const Written w = written({}, [](Report& r) {
    row(r, {12.345, 84.94, 148.645, true, 0}, {1234567.8, 1.005, 1000.4, true, 12});
  });
  EXPECT_EQ(lastLine(w.text),
            "     1048576        262144     float     sum      -1    12.35   84.94  148.65       0  1234568    "
            "1.00  1000.4      12\n");
  EXPECT_THAT(w.json, HasSubstr("\"results\":[{\"size\":1048576,\"count\":262144,\"type\":\"float\",\"redop\":"
                                "\"sum\",\"root\":\"    -1\","
                                "\"out_of_place\":{\"time\":12.345000,\"alg_bw\":84.940000,\"bus_bw\":148."
                                "645000,\"nwrong\":0.000000},"
                                "\"in_place\":{\"time\":1234567.800000,\"alg_bw\":1.005000,\"bus_bw\":1000."
                                "400000,\"nwrong\":12.000000},"
                                "\"actual_iterations\":20,\"experiment_name\":\"\"}]"));
}

TEST(Report, RowWithoutChecks) {
  const Written w = written({}, [](Report& r) { row(r, {10, 1, 2, false, 0}, {10, 1, 2, false, 0}); });
  EXPECT_EQ(lastLine(w.text),
            "     1048576        262144     float     sum      -1    10.00    1.00    2.00    N/A    10.00    "
            "1.00    2.00    N/A\n");
  EXPECT_THAT(w.json, HasSubstr("\"nwrong\":null"));
}

TEST(Report, ManyWrongElementsUseAnExponent) {
  const Written w = written({}, [](Report& r) {
    row(r, {10, 1, 2, true, 123456789}, {10, 1, 2, true, 999999});
  });
  EXPECT_EQ(lastLine(w.text),
            "     1048576        262144     float     sum      -1    10.00    1.00    2.00  1.23457e+08    "
            "10.00    1.00    2.00  999999\n");
}

TEST(Report, TimestampEndsTheRow) {
  Options o;
  o.timestamps = true;
  const Written w = written(o, [](Report& r) { row(r, {10, 1, 2, true, 0}, {10, 1, 2, true, 0}); });
  EXPECT_THAT(lastLine(w.text),
              MatchesRegex(".*2.00       0  [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\n"));
}

TEST(Report, PerIterationColumns) {
  Options o;
  o.perIteration = true;
  o.perIterationSkip = 1;
  const Written w = written(o, [](Report& r) {
    r.tableHeader();
    r.beginRow(8, 2, "float", "sum", -1);
    r.measurement({10, 1, 2, true, 0}, false);
    r.perIteration({9e-3, 10e-6, 20e-6}, {9e-3, 10e-6, 20e-6, 1e-6, 2e-6, 3e-6}, false);
    r.endRow();
  });
  EXPECT_THAT(lastLine(w.text), HasSubstr("       0    10.00    20.00    20.00    33.33\n"));
  EXPECT_THAT(
      w.json,
      HasSubstr(
          "\"out_of_place_per_iter\":{\"skipped_iterations\":1,\"min_us\":10.000000,\"max_us\":20.000000,"));
  EXPECT_THAT(w.json, HasSubstr("\"times_us\":[9000.000000,10.000000,20.000000],\"per_process_max_times_us\":"
                                "[[9000.000000,10.000000,20.000000],[1.000000,2.000000,3.000000]]"));
}

TEST(Report, ConsistencyColumns) {
  Options o;
  o.consistency = 30;
  const Written w = written(o, [](Report& r) {
    r.banner("x_perf", 100, 100);
    row(r, {10, 1, 2, true, 0, 1.25, 0.875}, {10, 1, 2, false, 0, 12.5, 0.0042});
  });
  EXPECT_THAT(w.text, HasSubstr("# Consistency Report: median of 30 runs of each size; "));
  EXPECT_THAT(w.text, HasSubstr("busbw  #wrong  max/med  min/med     time   algbw   busbw  #wrong  max/med  "
                                "min/med \n"));
  EXPECT_EQ(
      lastLine(w.text),
      "     1048576        262144     float     sum      -1    10.00    1.00    2.00       0     1.25     "
      "0.88    10.00    1.00    2.00    N/A    12.50  4.2e-03\n");
  EXPECT_THAT(w.json, HasSubstr("\"slowest_to_median\":1.250000,\"fastest_to_median\":0.875000"));
}

TEST(Report, Links) {
  std::vector<LinkRecord> links(4);
  links[0] = {"node0", "eth0", 0, 4, 3'000'000, 1'000'000, 12, 250, 1'250'000'000, 1, 0};
  links[1] = {"node0", "eth1", 0, 0, 0, 0, 0, 0, 0, 0, 0};
  links[3] = {"node1", "shm", 1, 2, 500'000, 500'000, 0, 0, 0, 0, 3};  // links[2]: none
  const Written w = written({}, [&](Report& r) { r.links(links, 0.5); });
  EXPECT_EQ(w.text,
            "#\n"
            "# Links: what each rank has sent and received in 0.5 s\n"
            "#  rank        host      link  conns        sent    received   share      rate    retrans      "
            "rtt   slowest   peer\n"
            "#                                           (MB)        (MB)     (%)    (MB/s)  (packets)     "
            "(us)    (MB/s)       \n"
            "#     0       node0      eth0      4       3.000       1.000   100.0      6.00         12      "
            "250   1250.00      1\n"
            "#     0       node0      eth1      0       0.000       0.000     0.0      0.00          0        "
            "0  not used\n"
            "#     1       node1       shm      2       0.500       0.500   100.0      1.00          0        "
            "0         -      -\n"
            "#     1       node1  and 3 more\n");
  EXPECT_THAT(w.json,
              HasSubstr("\"links\":[{\"rank\":0,\"hostname\":\"node0\",\"link\":\"eth0\",\"connections\":4,"
                        "\"sent_bytes\":3000000,\"received_bytes\":1000000,"));
  EXPECT_THAT(w.json, HasSubstr("\"slowest_bytes_per_second\":1250000000,\"slowest_peer\":1}"));
}

TEST(Report, Footer) {
  const auto footer = [](int64_t wrong, double bandwidth, double minimum) {
    return written({}, [&](Report& r) {
      r.tableHeader();
      r.footer("all_reduce_perf", wrong, bandwidth, minimum);
      r.memory(1024, 2048, 0);
      r.finish("");
    });
  };
  const std::string passed = footer(0, 12.5, -1).text;
  EXPECT_EQ(passed.substr(passed.find("# Out")),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 12.5 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "# Host memory usage    : Initialization 1.00 KB | User-Allocated 2.00 KB | Collective 0.00 B | "
            "Total  3.00 KB\n"
            "#\n"
            "\n");
  EXPECT_THAT(footer(3, 12.5, 13).text,
              HasSubstr("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 12.5 OK\n"));
  EXPECT_THAT(footer(0, 12.5, 14).text,
              HasSubstr("# Avg bus bandwidth    : 12.5 FAILED\n"));  // below 0.9 of 14
  EXPECT_THAT(footer(3, 1, -1).json,
              HasSubstr("\"out_of_bounds\":{\"count\":3,\"okay\":\"false\"},\"average_bus_bandwidth\":"
                        "{\"bandwidth\":1.000000,\"okay\":\"unchecked\"},\"errors\":[],\"end_time\":"));
}

TEST(Report, AFailureInARowLeavesWholeLinesAndAWholeDocument) {
  const Written w = written({}, [](Report& r) {
    r.tableHeader();
    r.beginRow(8, 2, "float", "sum", -1);
    r.finish("rank 1 died");
  });
  EXPECT_THAT(w.text, HasSubstr("      -1\n#\n# error: rank 1 died\n"));
  EXPECT_THAT(w.json, HasSubstr("\"root\":\"    -1\"}],\"errors\":[\"rank 1 died\"],\"end_time\":"));
}

TEST(Report, SecretsStayOutOfTheDocument) {
  const Written w = written({}, [](Report&) {});
  EXPECT_THAT(w.json,
              HasSubstr("\"env\":[\"ECCL_COMM_SECRET=<not shown>\",\"HOME=/root\"],\"nccl_version\":100"));
  EXPECT_THAT(w.json, Not(HasSubstr("hunter2")));
}

std::string asJson(const std::string& text) {
  char* json = nullptr;
  size_t size = 0;
  FILE* file = open_memstream(&json, &size);
  JsonWriter(file).string(text);
  std::fclose(file);
  const std::string result = json;
  std::free(json);
  return result;
}

TEST(Json, StringsOfAnyBytes) {
  EXPECT_EQ(asJson("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(asJson("gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82"), "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82\"");
  EXPECT_EQ(asJson("\xff\xc3"), "\"\\u00ff\\u00c3\"");             // no UTF-8 at all, and cut short
  EXPECT_EQ(asJson("\xc0\xaf"), "\"\\u00c0\\u00af\"");             // overlong
  EXPECT_EQ(asJson("\xed\xa0\x80"), "\"\\u00ed\\u00a0\\u0080\"");  // a surrogate
}

TEST(Stats, NearestRankPercentiles) {
  std::vector<double> times;
  for (int i = 1; i <= 200; ++i) times.push_back(201 - i);
  const IterationStats stats = iterationStats(times);
  EXPECT_EQ(stats.min, 1);
  EXPECT_EQ(stats.max, 200);
  EXPECT_EQ(stats.p50, 101);
  EXPECT_EQ(stats.p95, 190);
  EXPECT_EQ(stats.p99, 198);
  EXPECT_DOUBLE_EQ(stats.average, 100.5);
  EXPECT_NEAR(stats.deviation, 57.7343, 1e-4);
  EXPECT_EQ(iterationStats({5}).variationPercent(), 0);
}

}  // namespace
}  // namespace eccl::perf
