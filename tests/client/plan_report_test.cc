#include "client/cli/reports/plan_report.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cpp/little_endian.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

v1::PlanSummary Summary(const std::string& name, v1::PlanAlgorithm algorithm, uint64_t packs) {
  v1::PlanSummary summary;
  summary.set_name(name);
  summary.mutable_heuristic()->set_algorithm(algorithm);
  summary.set_packs(packs);
  summary.set_lower_bound(1000);
  summary.set_lower_bound_name("lifted volume of nodes");
  summary.set_gap(static_cast<double>(packs) / 1000 - 1);
  summary.set_optimal(packs == 1000);
  summary.set_keeps_limits(true);
  v1::ComponentEfficiency* const nodes = summary.add_components();
  nodes->set_component("nodes");
  nodes->set_capacity(222);
  nodes->set_efficiency(0.99975);
  nodes->set_fullest_pack(222);
  nodes->set_efficiency_of_fullest(0.99975);
  v1::ComponentEfficiency* const graphs = summary.add_components();
  graphs->set_component("graphs");
  graphs->set_efficiency(1);
  return summary;
}

v1::PlanSummary Optimized(uint64_t packs) {
  v1::PlanSummary summary = Summary("optimized", v1::PLAN_ALGORITHM_OPTIMIZED, packs);
  summary.set_winner("mixing");
  summary.set_steps(1234567);
  summary.set_receipt("v1-0123");
  summary.mutable_elapsed()->set_nanos(500000000);
  return summary;
}

TEST(PlanCertificateTest, ATightPlanIsProvedOptimal) {
  EXPECT_EQ(PlanCertificate(Optimized(1000)),
            "packs        1,000, proved optimal: no plan has fewer\n"
            "lower bound  1,000, by lifted volume of nodes\n"
            "efficiency   nodes 99.975 %\n"
            "found by     mixing, 1,234,567 steps, 500.0 ms\n"
            "receipt      v1-0123\n");
}

TEST(PlanCertificateTest, AnyOtherSaysHowFarItMayBe) {
  v1::PlanSummary summary = Summary("best-fit sum", v1::PLAN_ALGORITHM_TUPLE_PACKING, 1003);
  summary.mutable_elapsed()->set_seconds(61);
  EXPECT_EQ(PlanCertificate(summary),
            "packs        1,003, at most 3 (0.3 %) more than the fewest possible\n"
            "lower bound  1,000, by lifted volume of nodes\n"
            "efficiency   nodes 99.975 %\n"
            "found by     best-fit sum, 61.00 s\n");
}

TEST(SummaryTableTest, SectionsComeInOrderAndTheBestHasAStar) {
  v1::PlanResponse response;
  *response.mutable_best() = Optimized(1000);
  *response.add_summaries() = Summary("no packing", v1::PLAN_ALGORITHM_NO_PACKING, 32901);
  *response.add_summaries() = Summary("notebook sum", v1::PLAN_ALGORITHM_NOTEBOOK, 1025);
  *response.add_summaries() = Summary("best-fit sum", v1::PLAN_ALGORITHM_TUPLE_PACKING, 1010);
  *response.add_summaries() = Optimized(1000);
  v1::PlanSummary unfinished = Summary("first-fit decreasing", v1::PLAN_ALGORITHM_UNSPECIFIED, 0);
  unfinished.mutable_heuristic()->set_algorithm(v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING);
  unfinished.set_unfinished(true);
  *response.add_summaries() = unfinished;
  EXPECT_EQ(SummaryTable(response),
            "                                                          efficiency %  "
            "of the fullest pack %\n"
            "  planner                    packs  lower bound    gap %         nodes  "
            "                nodes\n"
            "* optimized                   1000         1000     0.00         99.98  "
            "                99.98\n"
            "  first-fit decreasing  unfinished\n"
            "\n"
            "the paper's tuple packing\n"
            "  best-fit sum                1010         1000     1.00         99.98  "
            "                99.98\n"
            "\n"
            "as the paper's companion notebook computes it\n"
            "  notebook sum                1025         1000     2.50         99.98  "
            "                99.98\n"
            "\n"
            "baselines (a single component ignores the other limits)\n"
            "  no packing                 32901         1000  3190.10         99.98  "
            "                99.98\n"
            "* the fewest packs\n");
}

TEST(ComparisonTableTest, RowsComeOneByOneUnderTheirHeadings) {
  v1::PlanSummary unfinished = Summary("filling best-fit sum", v1::PLAN_ALGORITHM_TUPLE_PACKING, 0);
  unfinished.set_unfinished(true);
  const std::vector<v1::PlanSummary> others = {
      Summary("no packing", v1::PLAN_ALGORITHM_NO_PACKING, 32901),
      Summary("best-fit sum", v1::PLAN_ALGORITHM_TUPLE_PACKING, 1010), unfinished};
  ComparisonTable table(Optimized(1000), others);
  std::string text = table.Head();
  for (const v1::PlanSummary& other : others) text += table.Row(other);
  EXPECT_EQ(text,
            "                                                             efficiency %  "
            "of the fullest pack %\n"
            "  planner                    packs  lower bound       gap %         nodes  "
            "                nodes\n"
            "* optimized                   1000         1000        0.00         99.98  "
            "                99.98\n"
            "\n"
            "baselines (a single component ignores the other limits)\n"
            "  no packing                 32901         1000     3190.10         99.98  "
            "                99.98\n"
            "\n"
            "the paper's tuple packing\n"
            "  best-fit sum                1010         1000        1.00         99.98  "
            "                99.98\n"
            "  filling best-fit sum  unfinished\n");
  EXPECT_EQ(ComparisonEnd(Optimized(1000), others, false),
            "* the fewest packs\n"
            "unfinished: filling best-fit sum; --compare all waits for them\n");
  EXPECT_EQ(ComparisonEnd(Optimized(1011), {others[0], others[1]}, true),
            "fewer packs than * have: best-fit sum (1010)\n");
}

class PatternsTest : public testing::Test {
 protected:
  PatternsTest() {
    *response_.mutable_best() = Optimized(1000);
    *response_.add_summaries() = Optimized(1000);
    const std::vector<uint32_t> tuples = {20, 44, 7, 8};
    AppendLittleEndian(absl::MakeConstSpan(tuples), *response_.mutable_plan()->mutable_tuples());
    for (const uint64_t repeats : {990, 10}) {
      v1::Pattern* const pattern = response_.mutable_plan()->add_patterns();
      pattern->set_repeats(repeats);
      for (const uint32_t tuple : {1, 0}) {
        v1::PatternEntry* const entry = pattern->add_entries();
        entry->set_tuple(tuple);
        entry->set_copies(tuple + 3);
      }
    }
  }

  v1::PlanResponse response_;
};

TEST_F(PatternsTest, AreListed) {
  EXPECT_EQ(PatternList(response_, {"nodes", "edges"}, 1),
            "first 1 of the 2 patterns of optimized, graphs as (nodes, edges)\n"
            "    990 packs of  4 x (7, 8) + 3 x (20, 44)\n");
}

TEST_F(PatternsTest, AreInTheJson) {
  const Json summary = Json::parse(
      R"({"name": "optimized", "section": "planner", "unfinished": false, "packs": 1000, )"
      R"("lower_bound": 1000, "lower_bound_name": "lifted volume of nodes", "gap": 0, )"
      R"("optimal": true, "keeps_limits": true, "num_patterns": 0, )"
      R"("elapsed_seconds": 0.5, "winner": "mixing", "steps": 1234567, )"
      R"("receipt": "v1-0123", "components": [{"component": "nodes", "capacity": 222, )"
      R"("efficiency": 0.99975, "fullest_pack": 222, )"
      R"("efficiency_of_fullest": 0.99975}, {"component": "graphs", "capacity": 0, )"
      R"("efficiency": 1, "fullest_pack": 0, "efficiency_of_fullest": 0}]})");
  EXPECT_EQ(PlanJson(response_, {"nodes", "edges"}, 1),
            Json({{"best", summary},
                  {"summaries", Json::array({summary})},
                  {"patterns", Json::parse(R"([{"repeats": 990, "graphs": [
                      {"nodes": 7, "edges": 8, "copies": 4},
                      {"nodes": 20, "edges": 44, "copies": 3}]}])")}}));
}

}  // namespace
}  // namespace packhouse::client
