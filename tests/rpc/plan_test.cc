// Plan over the wire: the certificate, budgets, seeds, warm starts.
#include "service/algorithms/planning/plan.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "service/server/wire/wire_planning.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlanTest : public ServerTest {
 protected:
  PlanTest() {
    // 200 sizes: more than the first planner packs perfectly, small enough to be planned at once.
    Random random(1);
    SizeHistogram histogram(2);
    for (int i = 0; i < 200; ++i) {
      const auto nodes = static_cast<uint32_t>(random.Between(5, 60));
      const auto edges = static_cast<uint32_t>(2 * random.Between(nodes, 2 * nodes));
      EXPECT_THAT(histogram.Add({nodes, edges}, random.Between(1, 40)), IsOk());
    }
    histogram_ = histogram;
    HistogramToWire(histogram, SizeSchema::NodesAndEdges(), *request_.mutable_histogram());
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(capacities { component: 'nodes' rows: 130 } capacities { component: 'edges' rows: 390 }
           capacities { component: 'graphs' rows: 32 })",
        request_.mutable_limits()));
  }

  absl::Status Plan(const v1::PlanRequest& request, v1::PlanResponse& response) {
    grpc::ClientContext context;
    return ToAbsl(v1::PlanningService::NewStub(channel_)->Plan(&context, request, &response));
  }

  v1::PlanResponse PlanOf(const v1::PlanRequest& request) {
    v1::PlanResponse response;
    EXPECT_THAT(Plan(request, response), IsOk());
    return response;
  }

  const Limits limits_ = Limits::Create({130, 390, 32}).value();
  SizeHistogram histogram_{2};
  v1::PlanRequest request_;
};
INSTANTIATE_TEST_SUITE_P(Transports, PlanTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(PlanTest, ThePlanProvesItself) {
  StartServer();
  const v1::PlanResponse response = PlanOf(request_);
  ASSERT_EQ(response.summaries_size(), 1);
  EXPECT_EQ(response.summaries(0).SerializeAsString(), response.best().SerializeAsString());
  const v1::PlanSummary& best = response.best();
  EXPECT_EQ(best.name(), "optimized");
  EXPECT_EQ(best.heuristic().algorithm(), v1::PLAN_ALGORITHM_OPTIMIZED);
  EXPECT_FALSE(best.unfinished());
  EXPECT_TRUE(best.keeps_limits());
  EXPECT_GE(best.packs(), best.lower_bound());
  EXPECT_EQ(best.optimal(), best.packs() == best.lower_bound());
  EXPECT_NE(best.lower_bound_kind(), v1::LOWER_BOUND_KIND_UNSPECIFIED);
  EXPECT_THAT(best.lower_bound_name(), Not(IsEmpty()));
  EXPECT_THAT(best.winner(), Not(IsEmpty()));
  EXPECT_LE(best.steps(), 100'000'000U);
  EXPECT_THAT(best.receipt(), HasSubstr("v8-"));
  // The plan holds, by the checker that is independent of all planners.
  PH_ASSERT_OK_AND_ASSIGN(const PackingPlan plan, PlanFromWire(response.plan(), 2, "plan"));
  EXPECT_THAT(VerifyPlan(plan, histogram_, limits_), IsOk());
  EXPECT_EQ(plan.num_packs(), best.packs());
  EXPECT_EQ(plan.patterns.size(), best.num_patterns());
}

// The bound is the best one that any of them found.
TEST_P(PlanTest, AllSummariesShareTheBound) {
  StartServer();
  request_.set_include_tuple_packing(true);
  request_.set_include_notebook(true);
  request_.set_include_baselines(true);
  const v1::PlanResponse response = PlanOf(request_);
  // The strong planner and first-fit decreasing; 8 priorities in two placements with two openings;
  // 6 of the notebook's; 3 baselines.
  ASSERT_EQ(response.summaries_size(), 2 + 2 * 2 * 8 + 6 + 3);
  EXPECT_EQ(response.summaries(1).name(), "first-fit decreasing");
  EXPECT_EQ(response.best().name(), "optimized");
  for (const v1::PlanSummary& summary : response.summaries()) {
    SCOPED_TRACE(summary.name());
    EXPECT_EQ(summary.lower_bound(), response.best().lower_bound());
    EXPECT_EQ(summary.lower_bound_kind(), response.best().lower_bound_kind());
    EXPECT_EQ(summary.lower_bound_name(), response.best().lower_bound_name());
    if (summary.keeps_limits()) {
      EXPECT_GE(summary.packs(), response.best().packs());
      EXPECT_GE(summary.gap(), 0);
    }
    const bool is_optimizer = summary.heuristic().algorithm() == v1::PLAN_ALGORITHM_OPTIMIZED;
    EXPECT_EQ(summary.winner().empty(), !is_optimizer);
    EXPECT_EQ(summary.receipt().empty(), !is_optimizer);
  }
}

TEST_P(PlanTest, EqualReceiptsEqualPlans) {
  StartServer();
  const v1::PlanResponse first = PlanOf(request_);
  const v1::PlanResponse second = PlanOf(request_);
  EXPECT_EQ(first.best().receipt(), second.best().receipt());
  EXPECT_EQ(first.plan().SerializeAsString(), second.plan().SerializeAsString());
  // A named histogram makes no difference.
  v1::MergeHistogramRequest merge;
  merge.set_histogram("h");
  *merge.mutable_addend() = request_.histogram();
  grpc::ClientContext context;
  v1::MergeHistogramResponse merged;
  ASSERT_TRUE(
      v1::HistogramService::NewStub(channel_)->MergeHistogram(&context, merge, &merged).ok());
  v1::PlanRequest named = request_;
  named.set_histogram_name("h");
  EXPECT_EQ(PlanOf(named).best().receipt(), first.best().receipt());
  EXPECT_EQ(PlanOf(named).plan().SerializeAsString(), first.plan().SerializeAsString());

  // Whatever may change the plan changes the receipt.
  std::vector<v1::PlanRequest> others(4, request_);
  others[0].set_seed(1);
  others[1].set_budget_steps(1000);
  others[2].mutable_limits()->mutable_capacities(0)->set_rows(131);
  *others[3].mutable_warm_start() = first.plan();
  for (const v1::PlanRequest& other : others) {
    EXPECT_NE(PlanOf(other).best().receipt(), first.best().receipt());
  }
}

TEST_P(PlanTest, APlanIsLeftOutWhereSummariesAreEnough) {
  StartServer();
  const v1::PlanResponse made = PlanOf(request_);
  request_.set_summaries_only(true);
  const v1::PlanResponse summaries = PlanOf(request_);
  EXPECT_FALSE(summaries.has_plan());
  EXPECT_EQ(summaries.best().receipt(), made.best().receipt());
  v1::ReplanRequest request;
  request.set_receipt(made.best().receipt());
  *request.mutable_histogram() = request_.histogram();
  for (const bool summaries_only : {false, true}) {
    request.set_summaries_only(summaries_only);
    grpc::ClientContext context;
    v1::ReplanResponse response;
    ASSERT_THAT(ToAbsl(v1::ReceiptService::NewStub(channel_)->Replan(&context, request, &response)),
                IsOk());
    EXPECT_EQ(response.plan().has_plan(), !summaries_only);
    EXPECT_EQ(response.plan().best().packs(), made.best().packs());
  }
}

// A receipt's plan takes the memory of a plan, and gives it back.
TEST_P(PlanTest, AReceiptsPlanWithoutRoomIsRefused) {
  ServerOptions options;
  options.max_message_bytes = 4 << 20;
  options.memory_budget = 32 << 20;  // A quarter is for plans.
  StartServer(options);
  v1::ReplanRequest request;
  const v1::PlanResponse made = PlanOf(request_);
  request.set_receipt(made.best().receipt());
  const auto replan = [&](v1::ReplanResponse& response) {
    grpc::ClientContext context;
    return ToAbsl(v1::ReceiptService::NewStub(channel_)->Replan(&context, request, &response));
  };
  SizeHistogram large(2);
  for (uint32_t i = 0; i < 120'000; ++i) {
    EXPECT_THAT(large.Add({i % 130, i / 130 % 390}, 1 + i / 50'700), IsOk());
  }
  HistogramToWire(large, SizeSchema::NodesAndEdges(), *request.mutable_histogram());
  v1::ReplanResponse response;
  EXPECT_THAT(replan(response),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
  *request.mutable_histogram() = request_.histogram();
  EXPECT_THAT(replan(response), IsOk());
  EXPECT_EQ(response.plan().plan().SerializeAsString(), made.plan().SerializeAsString());
}

// A receipt is for the sizes and the start that its plan was made from, and for work that may be
// asked for.
TEST_P(PlanTest, AReceiptIsForWhatItsPlanWasMadeFrom) {
  StartServer();
  const v1::PlanResponse made = PlanOf(request_);
  v1::PlanRequest from_plan = request_;
  *from_plan.mutable_warm_start() = made.plan();
  const v1::PlanResponse improved = PlanOf(from_plan);
  v1::ReplanRequest request;
  *request.mutable_histogram() = request_.histogram();
  v1::ReplanResponse response;
  const auto replan = [&](const std::string& receipt) {
    request.set_receipt(receipt);
    grpc::ClientContext context;
    return ToAbsl(v1::ReceiptService::NewStub(channel_)->Replan(&context, request, &response));
  };
  const std::string& receipt = made.best().receipt();
  const auto refused = [](const std::string& of, absl::string_view why) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    HasSubstr(absl::StrCat("receipt '", of, "': ", why)));
  };
  EXPECT_THAT(
      replan(improved.best().receipt()),
      refused(improved.best().receipt(), "its plan started from another one, which is needed"));
  *request.mutable_warm_start() = made.plan();
  EXPECT_THAT(replan(improved.best().receipt()), IsOk());
  EXPECT_EQ(response.plan().plan().SerializeAsString(), improved.plan().SerializeAsString());
  EXPECT_THAT(replan(receipt), refused(receipt, "its plan did not start from another one"));
  request.clear_warm_start();
  // The terms: eight bytes of a hash of the sizes, then numbers, of which the first is the steps.
  const std::vector<std::string> parts = absl::StrSplit(receipt, absl::MaxSplits('-', 2));
  const std::string too_many =
      absl::StrCat(parts.at(0), "-", parts.at(1), "-",
                   absl::WebSafeBase64Escape(std::string(8, 'x') + "\x81\xd0\xdb\xc3\xf4\x02" +
                                             std::string("\0\0\x09", 3)));
  EXPECT_THAT(replan(too_many), StatusIs(absl::StatusCode::kInvalidArgument,
                                         "budget_steps: 100000000001, at most 100000000000"));
  SizeHistogram others = histogram_;
  ASSERT_THAT(others.Add({5, 10}, 1), IsOk());
  HistogramToWire(others, SizeSchema::NodesAndEdges(), *request.mutable_histogram());
  EXPECT_THAT(replan(receipt), refused(receipt, "is for other sizes ("));
}

TEST_P(PlanTest, TooManySizesAreRefusedBeforeTheyAreRead) {
  StartServer();
  const std::string receipt = PlanOf(request_).best().receipt();
  const size_t n = (size_t{1} << 20) + 1;
  request_.mutable_histogram()->set_counts(std::string(8 * n, '\1'));
  request_.mutable_histogram()->set_tuples(std::string(8 * n, '\0'));
  v1::PlanResponse response;
  const auto are_too_many = StatusIs(absl::StatusCode::kResourceExhausted,
                                     HasSubstr("1048577 size tuples, at most 1048576"));
  EXPECT_THAT(Plan(request_, response), are_too_many);
  v1::ReplanRequest again;
  again.set_receipt(receipt);
  *again.mutable_histogram() = request_.histogram();
  grpc::ClientContext context;
  v1::ReplanResponse none;
  EXPECT_THAT(ToAbsl(v1::ReceiptService::NewStub(channel_)->Replan(&context, again, &none)),
              are_too_many);
}

}  // namespace
}  // namespace packhouse::rpc
