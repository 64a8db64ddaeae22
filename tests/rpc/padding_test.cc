// Plan and Tune know padding as Load does: what one of them says of limits, the others keep.
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "google/protobuf/text_format.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"

namespace packhouse::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr v1::Padding kPaddings[] = {v1::PADDING_NONE, v1::PADDING_MASKED, v1::PADDING_GRAPH,
                                     v1::PADDING_TFGNN};

class PaddingTest : public ServerTest {
 protected:
  // A sealed data set "graphs", whose edges point into nodes or, to be unlike the default, nodes
  // into edges.
  void Start(bool points_into_edges = false) {
    OpenDatasets();
    const size_t target = points_into_edges ? 1 : 0;
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(),
                            {{"x", DType::kFloat32, {3}, 0, {}, {}},
                             {"index", DType::kInt32, {2}, 1 - target, target, {}}})
            .value();
    if (points_into_edges) index_targets_ = {"edges"};
    Random random(5);
    ASSERT_THAT(datasets_->Create("graphs", schema, DatasetOptions()), IsOk());
    SizeHistogram histogram(2);
    for (size_t i = 0; i < 300; i += 10) {
      const GraphChunk chunk = RandomChunk(random, &schema, 10, 20, 1000 + i);
      for (size_t graph = 0; graph < 10; ++graph) {
        ASSERT_THAT(histogram.Add(chunk.sizes().tuple(graph), 1), IsOk());
      }
      ASSERT_THAT(datasets_->Append("graphs", chunk, {}, std::nullopt), IsOk());
    }
    ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
    HistogramToWire(histogram, SizeSchema::NodesAndEdges(), histogram_);
    StartServer();
    planning_ = v1::PlanningService::NewStub(channel_);
    loader_ = v1::LoaderService::NewStub(channel_);
  }

  absl::StatusOr<v1::PlanResponse> Plan(v1::Padding padding, const v1::Limits& limits) {
    v1::PlanRequest request;
    *request.mutable_histogram() = histogram_;
    *request.mutable_limits() = limits;
    request.set_padding(padding);
    for (const std::string& target : IndexTargets(padding)) request.add_index_targets(target);
    grpc::ClientContext context;
    v1::PlanResponse response;
    const absl::Status status = ToAbsl(planning_->Plan(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  absl::StatusOr<v1::TuneRecommendation> Tune(v1::Padding padding,
                                              const v1::DeviceProfile& profile) {
    v1::TuneRequest request;
    *request.mutable_histogram() = histogram_;
    *request.mutable_profile() = profile;
    request.set_padding(padding);
    for (const std::string& target : IndexTargets(padding)) request.add_index_targets(target);
    grpc::ClientContext context;
    const auto stream = planning_->Tune(&context, request);
    v1::TuneResponse response;
    while (stream->Read(&response)) {
    }
    const absl::Status status = ToAbsl(stream->Finish());
    if (!status.ok()) return status;
    return response.recommendation();
  }

  absl::StatusOr<v1::Epoch> Load(v1::Padding padding, const v1::RankGroup& rank_group,
                                 v1::OversizePolicy policy = v1::OVERSIZE_POLICY_REJECT) {
    v1::GetEpochRequest request;
    v1::EpochSpec& spec = *request.mutable_epoch();
    spec.set_dataset("graphs");
    spec.set_job("job");
    spec.set_payload(v1::PAYLOAD_SIZES);
    spec.set_oversize_policy(policy);
    spec.set_padding(padding);
    *spec.add_rank_groups() = rank_group;
    grpc::ClientContext context;
    v1::Epoch epoch;
    const absl::Status status = ToAbsl(loader_->GetEpoch(&context, request, &epoch));
    if (!status.ok()) return status;
    return epoch;
  }

  // Without index targets, PADDING_GRAPH takes the first component and PADDING_TFGNN none.
  std::vector<std::string> IndexTargets(v1::Padding padding) const {
    if (padding == v1::PADDING_TFGNN && index_targets_.empty()) return {"nodes"};
    return index_targets_;
  }

  v1::Histogram histogram_;
  std::vector<std::string> index_targets_;
  std::unique_ptr<v1::PlanningService::Stub> planning_;
  std::unique_ptr<v1::LoaderService::Stub> loader_;
};
INSTANTIATE_TEST_SUITE_P(Transports, PaddingTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

v1::Limits LimitsOf(uint64_t nodes, uint64_t edges, uint64_t graphs) {
  v1::Limits limits;
  for (const auto& [component, rows] :
       {std::tuple("nodes", nodes), std::tuple("edges", edges), std::tuple("graphs", graphs)}) {
    if (rows == 0) continue;
    v1::Capacity& capacity = *limits.add_capacities();
    capacity.set_component(component);
    capacity.set_rows(rows);
  }
  return limits;
}

v1::DeviceProfile ProfileOf(const std::string& text) {
  v1::DeviceProfile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &profile)) << text;
  return profile;
}

TEST_P(PaddingTest, APlanIsTheEpochOfTheSameLimits) {
  for (const bool points_into_edges : {false, true}) {
    index_targets_.clear();
    Start(points_into_edges);
    const uint64_t nodes = histogram_.component_maxima(0);
    const uint64_t edges = histogram_.component_maxima(1);
    for (const v1::Padding padding : kPaddings) {
      for (const v1::Limits& limits :
           {LimitsOf(nodes, edges, 4), LimitsOf(nodes + 1, edges + 1, 4), LimitsOf(64, 90, 9),
            LimitsOf(47, 45, 100'000), LimitsOf(200, 200, 3), LimitsOf(64, 90, 0),
            LimitsOf(64, 90, 1), LimitsOf(64, uint64_t{1} << 32, 9)}) {
        SCOPED_TRACE(absl::StrCat(v1::Padding_Name(padding), " ", limits.ShortDebugString()));
        v1::RankGroup rank_group;
        *rank_group.add_shapes() = limits;
        const auto plan = Plan(padding, limits);
        const auto epoch = Load(padding, rank_group, v1::OVERSIZE_POLICY_ERROR);
        ASSERT_EQ(plan.status().code(), epoch.status().code()) << plan.status() << epoch.status();
        if (!plan.ok()) continue;
        EXPECT_EQ(plan->best().packs(), epoch->num_batches());
        EXPECT_EQ(plan->best().receipt(), epoch->receipt());
        const v1::EpochShape& shape = epoch->rank_groups(0).shapes(0);
        for (int k = 0; k < 3; ++k) {
          EXPECT_EQ(plan->best().components(k).capacity(), shape.components(k).capacity());
          EXPECT_NEAR(plan->best().components(k).efficiency(), shape.components(k).efficiency(),
                      1e-12);
        }
      }
    }
    planning_ = nullptr;
    loader_ = nullptr;
    channel_ = nullptr;
    server_ = nullptr;
    ASSERT_THAT(datasets_->Delete("graphs"), IsOk());
    datasets_ = nullptr;
    ledger_ = nullptr;
  }
}

TEST_P(PaddingTest, WhatTuneRecommendsLoadTakes) {
  Start();
  const uint64_t nodes = histogram_.component_maxima(0);
  for (const v1::Padding padding : kPaddings) {
    for (const std::string& text : {
             // Without graphs, and with a bound that is less than what two graphs need.
             std::string("components { component: 'nodes' max_rows: 128 } "
                         "components { component: 'edges' max_rows: 128 }"),
             absl::StrCat("components { component: 'nodes' max_rows: ", nodes,
                          " } components { component: 'edges' max_rows: 128 }"),
             std::string("components { component: 'nodes' max_rows: 99 multiple_of: 8 } "
                         "components { component: 'edges' max_rows: 99 multiple_of: 16 } "
                         "components { component: 'graphs' max_rows: 9 }"),
             std::string("components { component: 'nodes' max_rows: 128 bytes_per_row: 100 } "
                         "components { component: 'edges' max_rows: 128 bytes_per_row: 8 } "
                         "components { component: 'graphs' bytes_per_row: 50 multiple_of: 4 } "
                         "memory_bytes: 9000 fixed_bytes: 100 max_distinct_shapes: 3"),
             std::string("components { component: 'nodes' max_rows: 128 } "
                         "components { component: 'edges' max_rows: 128 } "
                         "components { component: 'graphs' relative_cost: 2 }"),
             std::string("components { component: 'nodes' max_rows: 128 bytes_per_row: 100 } "
                         "components { component: 'edges' max_rows: 128 } "
                         "components { component: 'graphs' max_rows: 5000 bytes_per_row: 10 } "
                         "memory_bytes: 8000 max_distinct_shapes: 4"),
         }) {
      SCOPED_TRACE(absl::StrCat(v1::Padding_Name(padding), " ", text));
      PH_ASSERT_OK_AND_ASSIGN(const v1::TuneRecommendation tuned, Tune(padding, ProfileOf(text)));
      v1::RankGroup shapes;
      for (const v1::TunedShape& shape : tuned.shapes()) *shapes.add_shapes() = shape.limits();
      PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, Load(padding, shapes));
      // No graph is lost but those that were called too large.
      EXPECT_EQ(epoch.num_rejected(), tuned.oversize().num_graphs());
      EXPECT_EQ(epoch.num_graphs() + epoch.num_rejected(), 300U);
      // And an epoch for the device itself has these shapes.
      v1::RankGroup device;
      *device.mutable_device_profile() = ProfileOf(text);
      PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch of_device, Load(padding, device));
      EXPECT_EQ(of_device.num_rejected(), tuned.oversize().num_graphs());
      ASSERT_EQ(of_device.rank_groups(0).shapes_size(), tuned.shapes_size());
      for (int i = 0; i < tuned.shapes_size(); ++i) {
        EXPECT_EQ(of_device.rank_groups(0).shapes(i).limits().ShortDebugString(),
                  epoch.rank_groups(0).shapes(i).limits().ShortDebugString());
      }
      RecordProperty(absl::StrCat(v1::Padding_Name(padding), "_packs"),
                     static_cast<int>(tuned.shapes(0).packs()));
    }
  }
}

TEST_P(PaddingTest, AMoleculeOfAllNodesIsNamedWithTheUsableBound) {
  Start();
  const uint64_t nodes = histogram_.component_maxima(0);
  EXPECT_THAT(Plan(v1::PADDING_MASKED, LimitsOf(nodes, 100, 9)), IsOk());
  EXPECT_THAT(Plan(v1::PADDING_GRAPH, LimitsOf(nodes, 100, 9)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr(absl::StrCat("nodes ", nodes, " > ", nodes - 1,
                                                    ", the usable bound: padding keeps 1 of the ",
                                                    nodes, " free")),
                             HasSubstr(absl::StrCat("x (", nodes, ", ")))));
}

TEST_P(PaddingTest, ADeviceWithPaddingNeedsEveryCapacityButThatOfGraphs) {
  Start();
  v1::DeviceProfile profile = ProfileOf("components { component: 'nodes' max_rows: 128 }");
  for (const v1::Padding padding : {v1::PADDING_MASKED, v1::PADDING_GRAPH}) {
    EXPECT_THAT(Tune(padding, profile),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("profile: padding needs max_rows of component 'edges'")));
    v1::RankGroup device;
    *device.mutable_device_profile() = profile;
    EXPECT_THAT(Load(padding, device),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'edges'")));
  }
}

TEST_P(PaddingTest, IndexTargetsAreComponents) {
  Start();
  for (const auto& [targets, message] :
       {std::pair(std::vector<std::string>{"atoms"}, "index_targets: 'atoms' is no component"),
        std::pair(std::vector<std::string>{"graphs"}, "index_targets: 'graphs' is no component"),
        std::pair(std::vector<std::string>{"nodes", "nodes"},
                  "index_targets: 'nodes' is listed twice")}) {
    index_targets_ = targets;
    EXPECT_THAT(Plan(v1::PADDING_GRAPH, LimitsOf(64, 90, 9)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace packhouse::rpc
