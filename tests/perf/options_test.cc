#include "common/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace eccl::perf {
namespace {

using ::testing::HasSubstr;

Outcome parse(std::vector<std::string> arguments, Options* options) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return parseOptions(static_cast<int>(arguments.size()), argv.data(), options);
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  Options o;
  ASSERT_TRUE(parse({}, &o).ok());
  EXPECT_EQ(o.threads, 1);
  EXPECT_EQ(o.ranksPerThread, 1);
  EXPECT_EQ(o.procs, 0);
  EXPECT_EQ(o.minBytes, 32u << 20);
  EXPECT_EQ(o.maxBytes, 32u << 20);
  EXPECT_EQ(o.stepBytes, 1u << 20);
  EXPECT_EQ(o.stepFactor, 1u);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.aggregate, 1);
  EXPECT_EQ(o.cycles, 1);
  EXPECT_FALSE(o.parallelInit);
  EXPECT_EQ(o.check, 1);
  EXPECT_EQ(o.op, 0);
  EXPECT_EQ(o.type, ecclFloat32);
  EXPECT_EQ(o.root, 0);
  EXPECT_EQ(o.blocking, 0);
  EXPECT_FALSE(o.streamNull);
  EXPECT_EQ(o.timeoutSeconds, 0);
  EXPECT_FALSE(o.cpuTime);
  EXPECT_FALSE(o.timestamps);
  EXPECT_EQ(o.jsonPath, "");
  EXPECT_EQ(o.average, Average::mean);
  EXPECT_EQ(o.localRegister, 0);
  EXPECT_FALSE(o.memoryReport);
  EXPECT_EQ(o.unalign, 0u);
  EXPECT_FALSE(o.perIteration);
  EXPECT_EQ(o.perIterationSkip, 0);
  EXPECT_EQ(o.consistency, 0);
  EXPECT_FALSE(o.linkReport);
}

TEST(Options, OwnOnesHaveNoLetter) {
  Options o;
  char* own[] = {const_cast<char*>("x"), const_cast<char*>("--consistency"), const_cast<char*>("30"),
                 const_cast<char*>("--report_links"), const_cast<char*>("1")};
  const Outcome outcome = parseOptions(5, own, &o);
  ASSERT_TRUE(outcome.ok()) << outcome.text();
  EXPECT_EQ(o.consistency, 30);
  EXPECT_TRUE(o.linkReport);
}

TEST(Options, ShortForms) {
  Options o;
  const Outcome outcome =
      parse({"-t2", "-g", "3", "-b", "8", "-e", "1K", "-i", "64", "-f", "2",      "-n", "5",        "-m",
             "4",   "-w", "0", "-N", "0", "-p", "1",  "-c", "0",  "-o", "mulsum", "-d", "bfloat16", "-r",
             "all", "-z", "3", "-y", "1", "-T", "9",  "-C", "1",  "-S", "1",      "-J", "x.json",   "-a",
             "3",   "-R", "2", "-M", "1", "-u", "7",  "-I", "1",  "-K", "2"},
            &o);
  ASSERT_TRUE(outcome.ok()) << outcome.text();
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.ranksPerThread, 3);
  EXPECT_EQ(o.ranksPerProcess(), 6);
  EXPECT_EQ(o.minBytes, 8u);
  EXPECT_EQ(o.maxBytes, 1024u);
  EXPECT_EQ(o.stepBytes, 64u);
  EXPECT_EQ(o.stepFactor, 2u);
  EXPECT_EQ(o.iterations, 5);
  EXPECT_EQ(o.aggregate, 4);
  EXPECT_EQ(o.warmup, 0);
  EXPECT_EQ(o.cycles, 0);
  EXPECT_TRUE(o.parallelInit);
  EXPECT_EQ(o.check, 0);
  EXPECT_EQ(o.op, 5);
  EXPECT_EQ(o.type, ecclBfloat16);
  EXPECT_EQ(o.root, kAll);
  EXPECT_EQ(o.blocking, 3);
  EXPECT_TRUE(o.streamNull);
  EXPECT_EQ(o.timeoutSeconds, 9);
  EXPECT_TRUE(o.cpuTime);
  EXPECT_TRUE(o.timestamps);
  EXPECT_EQ(o.jsonPath, "x.json");
  EXPECT_EQ(o.average, Average::greatest);
  EXPECT_EQ(o.localRegister, 2);
  EXPECT_TRUE(o.memoryReport);
  EXPECT_EQ(o.unalign, 7u);
  EXPECT_TRUE(o.perIteration);
  EXPECT_EQ(o.perIterationSkip, 2);
}

TEST(Options, LongForms) {
  Options o;
  const Outcome outcome =
      parse({"--nthreads", "2", "--ngpus=3", "--procs", "4", "--minbytes", "1K", "--maxbytes=2K", "--datatype",
             "all", "--op", "all", "--check", "5", "--local_register", "1"},
            &o);
  ASSERT_TRUE(outcome.ok()) << outcome.text();
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.ranksPerThread, 3);
  EXPECT_EQ(o.procs, 4);
  EXPECT_EQ(o.minBytes, 1024u);
  EXPECT_EQ(o.maxBytes, 2048u);
  EXPECT_EQ(o.type, kAll);
  EXPECT_EQ(o.op, kAll);
  EXPECT_EQ(o.check, 5);
  EXPECT_EQ(o.localRegister, 1);
}

TEST(Options, WhatHostRanksCannotUseIsAnsweredNeverIgnored) {
  Options o;
  ASSERT_TRUE(parse({"-G", "4", "-x", "1", "-V", "16"}, &o).ok());
  ASSERT_EQ(o.notes.size(), 3u);
  EXPECT_THAT(o.notes[0], HasSubstr("--cudagraph"));
  EXPECT_THAT(o.notes[1], HasSubstr("--cta_policy"));
  EXPECT_THAT(o.notes[2], HasSubstr("--device_cta_count"));

  Options none;
  ASSERT_TRUE(parse({"-G", "0", "-D", "0"}, &none).ok());
  EXPECT_TRUE(none.notes.empty());
  EXPECT_EQ(parse({"-D", "1", "-R", "2"}, &none).code(), Exit::unsupported);
}

TEST(Options, EveryWrongValueNamesItsOption) {
  const struct {
    std::vector<std::string> arguments;
    const char* named;
  } cases[] = {
      {{"-t", "0"}, "--nthreads"},
      {{"-g", "x"}, "--ngpus"},
      {{"--procs", "-1"}, "--procs"},
      {{"-b", "1Q"}, "--minbytes"},
      {{"-e", ""}, "--maxbytes"},
      {{"-i", "-4"}, "--stepbytes"},
      {{"-f", "two"}, "--stepfactor"},
      {{"-n", "0"}, "--iters"},
      {{"-m", "0"}, "--agg_iters"},
      {{"-w", "-1"}, "--warmup_iters"},
      {{"-N", "-1"}, "--run_cycles"},
      {{"-p", "2"}, "--parallel_init"},
      {{"-c", "yes"}, "--check"},
      {{"-o", "xor"}, "--op"},
      {{"-d", "int16"}, "--datatype"},
      {{"-r", "-2"}, "--root"},
      {{"-z", "4"}, "--blocking"},
      {{"-y", "2"}, "--stream_null"},
      {{"-T", "-1"}, "--timeout"},
      {{"-G", "-1"}, "--cudagraph"},
      {{"-C", "2"}, "--report_cputime"},
      {{"-S", "2"}, "--report_timestamps"},
      {{"-J", "x.csv"}, "--output_file"},
      {{"-a", "4"}, "--average"},
      {{"-R", "3"}, "--local_register"},
      {{"-x", "3"}, "--cta_policy"},
      {{"-V", "0"}, "--device_cta_count"},
      {{"-M", "2"}, "--memory"},
      {{"-u", "-1"}, "--unalign"},
      {{"-I", "2"}, "--per_iter_timing"},
      {{"-K", "1"}, "--per_iter_skip"},
      {{"-I", "1", "-n", "3", "-K", "3"}, "--per_iter_skip"},
      {{"--consistency", "2"}, "--consistency"},
      {{"--consistency", "3", "-I", "1"}, "--consistency"},
      {{"--report_links", "2"}, "--report_links"},
      {{"-b", "2K", "-e", "1K"}, "--minbytes"},
      {{"-b", "8", "-i", "0"}, "--stepbytes"},
      {{"--bogus", "1"}, "--bogus"},
      {{"-t"}, "-t"},
      {{"extra"}, "extra"},
  };
  for (const auto& c : cases) {
    Options o;
    const Outcome outcome = parse(c.arguments, &o);
    EXPECT_EQ(outcome.code(), Exit::usage) << c.arguments[0];
    EXPECT_THAT(outcome.text(), HasSubstr(c.named));
  }
}

std::vector<size_t> sweep(const Options& o) {
  std::vector<size_t> sizes;
  for (size_t bytes = o.minBytes; bytes <= o.maxBytes && sizes.size() < 100; bytes = o.nextSize(bytes))
    sizes.push_back(bytes);
  return sizes;
}

TEST(Options, Sweeps) {
  Options o;
  o.minBytes = 8;
  o.maxBytes = 100;
  o.stepBytes = 40;
  EXPECT_THAT(sweep(o), ::testing::ElementsAre(8, 48, 88));
  o.stepFactor = 3;
  EXPECT_THAT(sweep(o), ::testing::ElementsAre(8, 24, 72));
  o.minBytes = 0;  // zero times a factor must not stay zero for ever
  EXPECT_THAT(sweep(o), ::testing::ElementsAre(0, 1, 3, 9, 27, 81));
  o = Options();
  o.stepBytes = 0;
  EXPECT_THAT(sweep(o), ::testing::ElementsAre(o.minBytes));
  o.minBytes = o.maxBytes = size_t{1} << 61;  // the next product would wrap
  o.stepFactor = 1 << 30;
  EXPECT_EQ(sweep(o).size(), 1u);
}

TEST(Options, HelpListsEveryOption) {
  Options o;
  ASSERT_TRUE(parse({"-h"}, &o).ok());
  EXPECT_TRUE(o.help);
  const std::string text = usage("all_reduce_perf");
  for (const char* name :
       {"-t,--nthreads", "--procs", "-J,--output_file", "-K,--per_iter_skip", "-z,--blocking"})
    EXPECT_THAT(text, HasSubstr(name));
}

}  // namespace
}  // namespace eccl::perf
