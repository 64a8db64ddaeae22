// What the words of `packhouse partition` mean, and how it tells what came of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/graph/partition/partition_arguments.h"
#include "client/graph/partition/partition_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

PartitionArguments SomeArguments() {
  PartitionArguments arguments;
  arguments.parts = 3;
  return arguments;
}

TEST(PlanOfTest, WithoutFurtherWordsItIsThePlanOfTheLibrary) {
  PH_ASSERT_OK_AND_ASSIGN(const PartitionPlan plan, PlanOf(SomeArguments(), "n"));
  PartitionPlan wanted;
  wanted.name = "graph";
  wanted.options.num_parts = 3;
  EXPECT_EQ(PlanText(plan), PlanText(wanted));
  EXPECT_EQ(plan.options.memory_bytes, 0);
  EXPECT_EQ(plan.options.time_limit, absl::InfiniteDuration());
}

// Numbers of methods and so on are those of the enumerations.
TEST(PlanOfTest, EveryWordIsHeeded) {
  PartitionArguments arguments = SomeArguments();
  arguments.name = "g";
  arguments.hops = 2;
  arguments.trainers = 4;
  arguments.method = "streaming";
  arguments.scheme = "recursive";
  arguments.objective = "vol";
  arguments.quality = "best";
  arguments.halo = "in-edges";
  arguments.balance_ntypes = {"label", "u:a,b"};
  arguments.balance_edges = true;
  arguments.imbalance = 1.5;
  arguments.seed = 9;
  arguments.formats = {"dgl", "npy"};
  arguments.graph_formats = {"csc"};
  arguments.mapping = true;
  arguments.memory = "8KiB";
  arguments.time_limit = "90s";
  PH_ASSERT_OK_AND_ASSIGN(PartitionPlan plan, PlanOf(arguments, "n"));
  EXPECT_EQ(PlanText(plan),
            R"({"name":"g","num_parts":3,"method":3,"scheme":1,"objective":1,"quality":1,)"
            R"("trainers_per_machine":4,"num_hops":2,"halo":1,"balance_edges":1,)"
            R"("imbalance":"1500000000","seed":9,"classes":[{"node_set":"n","columns":["label"]},)"
            R"({"node_set":"u","columns":["a","b"]}],"coo":0,"csr":0,"csc":1,"npy":1,)"
            R"("safetensors":0,"mapping":1,"assignment":0})");
  EXPECT_EQ(plan.options.memory_bytes, 8192);
  EXPECT_EQ(plan.options.time_limit, absl::Seconds(90));

  arguments.formats = {"safetensors", "dgl"};
  arguments.graph_formats = {"coo", "csr"};
  arguments.mapping = false;
  arguments.original_ids = true;
  arguments.write_assignment = true;
  PH_ASSERT_OK_AND_ASSIGN(plan, PlanOf(arguments, "n"));
  EXPECT_THAT(PlanText(plan), HasSubstr(R"("coo":1,"csr":1,"csc":0,"npy":0,"safetensors":1,)"
                                        R"("mapping":0,"assignment":1,"original_ids":1})"));
}

TEST(PlanOfTest, WordsThatMeanNothingAreNamed) {
  const auto refused = [](const std::string& memory, const std::string& time_limit,
                          const std::vector<std::string>& classes) {
    PartitionArguments arguments = SomeArguments();
    arguments.memory = memory;
    arguments.time_limit = time_limit;
    arguments.balance_ntypes = classes;
    return PlanOf(arguments, "").status();
  };
  EXPECT_EQ(refused("0", "", {}),
            absl::InvalidArgumentError("--memory '0': must be a number of bytes, as in 8GiB"));
  EXPECT_EQ(refused("", "0s", {}),
            absl::InvalidArgumentError("--time-limit '0s': must be a time above 0, as in 90s"));
  EXPECT_EQ(refused("", "soon", {}),
            absl::InvalidArgumentError("--time-limit 'soon': must be a time above 0, as in 90s"));
  EXPECT_EQ(refused("", "", {"x"}),
            absl::InvalidArgumentError("--balance-ntypes x: the graph has several node sets: give "
                                       "SET:x"));
  EXPECT_EQ(MethodOf("metis"), PartMethod::kMetis);
  EXPECT_EQ(MethodOf("random"), PartMethod::kRandom);
  EXPECT_EQ(MethodOf("automatic"), PartMethod::kAutomatic);
}

PartitionReport TwoParts() {
  PartitionReport report;
  report.num_nodes = 4000;
  report.num_edges = 9000;
  report.assignment.method = PartMethod::kRandom;
  report.assignment.reason = "as asked";
  report.assignment.cut_edges = 1800;
  report.assignment.volume = 1234;
  report.assignment.balance = {{"nodes", 4000, 3000, 1.03, 1.5, true, ""},
                               {"edges", 9000, 6000, 1.25, 1.3333, false, ""},
                               {"in-degrees", 9000, 6000, 1.1, 1.2, true, "too many"}};
  report.assignment.notes = {"one", "two"};
  report.parts = {{3000, 1000, 6000, 500, 1500, 2'340'000}, {1000, 200, 3000, 0, 300, 60'000}};
  return report;
}

TEST(PartitionTableTest, TellsEachPartAndWhatIsBalanced) {
  EXPECT_EQ(PartitionTable(TwoParts()),
            "4,000 nodes and 9,000 edges in 2 parts by random: as asked\n"
            "cut: 1,800 edges, 20.00 %; volume: 1,234\n"
            "\n"
            "      -- inner ---  --- halo ---         over the mean\n"
            "part  nodes  edges  nodes  edges  cut %   nodes  edges   MB\n"
            "0     3,000  6,000  1,000    500  25.00   1.500  1.333  2.3\n"
            "1     1,000  3,000    200      0  10.00   0.500  0.667  0.1\n"
            "\n"
            "balanced    asked  reached\n"
            "nodes       1.030    1.500                 met\n"
            "edges       1.250    1.333              missed\n"
            "in-degrees  1.100    1.200  given up: too many\n"
            "note: one\n"
            "note: two\n");
  PartitionReport report = TwoParts();
  report.assignment.reason = "";
  report.assignment.balance.clear();
  report.assignment.notes.clear();
  report.num_edges = 0;
  EXPECT_EQ(PartitionTable(report),
            "4,000 nodes and 0 edges in 2 parts by random\n"
            "cut: 1,800 edges, 0.00 %; volume: 1,234\n"
            "\n"
            "      -- inner ---  --- halo ---         over the mean\n"
            "part  nodes  edges  nodes  edges  cut %   nodes  edges   MB\n"
            "0     3,000  6,000  1,000    500  25.00   1.500  0.000  2.3\n"
            "1     1,000  3,000    200      0  10.00   0.500  0.000  0.1\n");
}

TEST(PartitionPictureTest, BarsAreInProportion) {
  const auto letters = [](size_t count, char letter) { return std::string(count, letter); };
  const std::string head = absl::StrCat(" part  nodes: # inner, . halo", letters(12, ' '),
                                        "in-edges: = inside, x cut\n");
  EXPECT_EQ(PartitionPicture(TwoParts()),
            absl::StrCat(head, "    0  ", letters(24, '#'), letters(8, '.'), "  ", letters(24, '='),
                         letters(8, 'x'), "\n    1  ", letters(8, '#'), "..", letters(24, ' '),
                         letters(14, '='), "xx\n"));
  PartitionReport report;
  report.parts.emplace_back();
  EXPECT_EQ(PartitionPicture(report), absl::StrCat(head, "    0", letters(36, ' '), "\n"));
}

// Of many parts, those with the most edges and with the fewest.
TEST(PartitionPictureTest, ShowsSixtyFourPartsAtMost) {
  PartitionReport report;
  const auto shown = [&report] {
    std::vector<std::string> lines = absl::StrSplit(PartitionPicture(report), '\n');
    std::vector<int> numbers;
    for (size_t i = 1; i + 1 < lines.size(); ++i) {
      numbers.push_back(0);
      EXPECT_TRUE(absl::SimpleAtoi(lines[i].substr(0, 5), &numbers.back())) << lines[i];
    }
    return numbers;
  };
  std::vector<int> wanted;
  for (int part = 0; part < 64; ++part) {
    // Parts 0, 2, 4 and so on have many edges.
    report.parts.emplace_back().num_inner_edges = part % 2 == 0 ? 100 : 1;
    wanted.push_back(part);
  }
  EXPECT_EQ(shown(), wanted);
  for (const uint64_t edges : {50U, 50U, 100U}) {
    report.parts.emplace_back().num_inner_edges = edges;
  }
  // The 33 that have 100 are one too many, and the last of them goes.
  EXPECT_EQ(shown(), wanted);
  report.parts.back().num_inner_edges = 101;
  wanted.erase(wanted.begin() + 62);
  wanted.push_back(66);
  EXPECT_EQ(shown(), wanted);
}

}  // namespace
}  // namespace packhouse::client
