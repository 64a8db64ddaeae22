#include "service/wings/graphs/services/sampling_service.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "service/wings/graphs/epochs/sampled_dataset.h"
#include "tests/rpc/sampling_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SamplingServiceTest : public SamplingServerTest {
 protected:
  std::unique_ptr<v1::SamplingService::Stub> Stub() {
    return v1::SamplingService::NewStub(channel_);
  }

  // `told`: the responses before the last one.
  absl::StatusOr<v1::SampleDatasetResponse> MakeDataset(
      const v1::SampleDatasetRequest& request,
      std::vector<v1::SampleDatasetResponse>* told = nullptr) {
    grpc::ClientContext context;
    const auto stub = Stub();
    const auto responses = stub->SampleDataset(&context, request);
    v1::SampleDatasetResponse response;
    while (responses->Read(&response)) {
      if (told != nullptr && !response.has_dataset()) told->push_back(response);
    }
    PH_RETURN_IF_ERROR(ToAbsl(responses->Finish()));
    return response;
  }
};

INSTANTIATE_TEST_SUITE_P(All, SamplingServiceTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

TEST_P(SamplingServiceTest, SubGraphsOfAStreamComeBackPacked) {
  StartWithGraph();
  grpc::ClientContext context;
  const auto stub = Stub();
  const auto stream = stub->Sample(&context);
  v1::SampleRequest open;
  *open.mutable_open()->mutable_sub_graphs() = TwoHops();
  for (const auto& [component, rows] :
       {std::pair("n", 64), std::pair("e", 80), std::pair("graphs", 16)}) {
    v1::Capacity& capacity =
        *open.mutable_open()->mutable_pack()->mutable_limits()->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(static_cast<uint64_t>(rows));
  }
  open.mutable_open()->mutable_pack()->set_padding(v1::PADDING_MASKED);
  ASSERT_TRUE(stream->Write(open));
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < kNodes; ++i) nodes.push_back(i);
  v1::SampleRequest seeds;
  seeds.mutable_seeds()->mutable_seeds()->set_numbers(Uint32sToWire(nodes));
  ASSERT_TRUE(stream->Write(seeds));
  stream->WritesDone();
  v1::SampleResponse response;
  std::multiset<uint64_t> ids;
  while (stream->Read(&response)) {
    if (!response.has_batch()) continue;
    EXPECT_EQ(response.batch().tensors(0).name(), "n.x");
    EXPECT_EQ(response.batch().tensors(0).data().size(), 64u * 8u);
    for (const uint64_t id : Uint64sFromWire(response.batch().graph_ids())) ids.insert(id);
  }
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
  EXPECT_EQ(ids.size(), kNodes);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kNodes);
}

TEST_P(SamplingServiceTest, EstimatesSizesInANamedHistogram) {
  StartWithGraph();
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.set_num_graphs(200);
  request.set_histogram("sizes");
  v1::EstimateSizesResponse first;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    v1::EstimateSizesResponse response;
    ASSERT_THAT(ToAbsl(Stub()->EstimateSizes(&context, request, &response)), IsOk());
    EXPECT_EQ(response.histogram().num_graphs(), 200u);
    EXPECT_EQ(response.num_seeds(), kNodes);
    EXPECT_GT(response.bytes_per_graph(), 8);
    if (i == 0) first = response;
    EXPECT_EQ(response.SerializeAsString(), first.SerializeAsString());
  }
  grpc::ClientContext context;
  v1::GetHistogramRequest get;
  get.set_histogram("sizes");
  v1::GetHistogramResponse histogram;
  ASSERT_THAT(
      ToAbsl(v1::HistogramService::NewStub(channel_)->GetHistogram(&context, get, &histogram)),
      IsOk());
  EXPECT_EQ(histogram.histogram().SerializeAsString(), first.histogram().SerializeAsString());
}

TEST_P(SamplingServiceTest, AnEstimateThatIsRefusedLeavesTheHistogram) {
  ServerOptions options;
  options.histograms.max_distinct = 3;
  StartWithGraph(options);
  const auto histograms = v1::HistogramService::NewStub(channel_);
  v1::MergeHistogramRequest merge;
  merge.set_histogram("sizes");
  merge.mutable_half_life()->set_seconds(7);
  v1::Histogram& addend = *merge.mutable_addend();
  for (const char* const component : {"n", "e"}) addend.add_components(component);
  addend.set_tuples(Uint32sToWire(std::vector<uint32_t>{5, 7}));
  addend.set_counts(Uint64sToWire(std::vector<uint64_t>{9}));
  addend.set_num_graphs(9);
  grpc::ClientContext merging;
  v1::MergeHistogramResponse merged;
  ASSERT_THAT(ToAbsl(histograms->MergeHistogram(&merging, merge, &merged)), IsOk());
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.set_histogram("sizes");
  grpc::ClientContext estimating;
  v1::EstimateSizesResponse response;
  EXPECT_THAT(ToAbsl(Stub()->EstimateSizes(&estimating, request, &response)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 3")));
  v1::GetHistogramRequest get;
  get.set_histogram("sizes");
  grpc::ClientContext getting;
  v1::GetHistogramResponse got;
  ASSERT_THAT(ToAbsl(histograms->GetHistogram(&getting, get, &got)), IsOk());
  EXPECT_EQ(got.histogram().num_graphs(), 9U);
  EXPECT_EQ(got.half_life().seconds(), 7);
}

TEST_P(SamplingServiceTest, AnEstimateIsOf2000WithoutANumber) {
  StartWithGraph();
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.mutable_seeds()->set_numbers(Uint32sToWire(std::vector<uint32_t>(2100, 5)));
  grpc::ClientContext context;
  v1::EstimateSizesResponse response;
  ASSERT_THAT(ToAbsl(Stub()->EstimateSizes(&context, request, &response)), IsOk());
  EXPECT_EQ(response.num_seeds(), 2100U);
  EXPECT_EQ(response.num_graphs(), 2100U);
  EXPECT_EQ(response.histogram().num_graphs(), 2000U);
}

TEST_P(SamplingServiceTest, AHistogramOfOtherComponentsIsLeftAlone) {
  StartWithGraph();
  const auto histograms = v1::HistogramService::NewStub(channel_);
  v1::MergeHistogramRequest merge;
  merge.set_histogram("sizes");
  merge.mutable_addend()->add_components("n");
  merge.mutable_addend()->set_tuples(Uint32sToWire(std::vector<uint32_t>{5}));
  merge.mutable_addend()->set_counts(Uint64sToWire(std::vector<uint64_t>{9}));
  grpc::ClientContext merging;
  v1::MergeHistogramResponse merged;
  ASSERT_THAT(ToAbsl(histograms->MergeHistogram(&merging, merge, &merged)), IsOk());
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.set_histogram("sizes");
  grpc::ClientContext estimating;
  v1::EstimateSizesResponse response;
  EXPECT_THAT(ToAbsl(Stub()->EstimateSizes(&estimating, request, &response)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'sizes'")));
}

// What servers share may be away for a moment.
TEST_P(SamplingServiceTest, AHistogramThatCannotBeReadIsLeftAlone) {
  struct Away : HistogramStore {
    using HistogramStore::HistogramStore;
    absl::StatusOr<SizeSchema> SchemaOf(absl::string_view name) const override {
      if (name == "no schema") return absl::UnavailableError(name);
      return HistogramStore::SchemaOf(name);
    }
    absl::StatusOr<HistogramSnapshot> Get(absl::string_view name, absl::Time now) const override {
      if (name == "no counts") return absl::UnavailableError(name);
      return HistogramStore::Get(name, now);
    }
  };
  ServerOptions options;
  options.share_histograms = [](HistogramStore::Bounds bounds, MemoryBudget* memory) {
    return std::make_unique<Away>(std::move(bounds), memory);
  };
  StartWithGraph(options);
  for (const char* const name : {"no schema", "no counts"}) {
    v1::EstimateSizesRequest request;
    *request.mutable_sub_graphs() = TwoHops();
    request.set_histogram(name);
    grpc::ClientContext context;
    v1::EstimateSizesResponse response;
    EXPECT_THAT(ToAbsl(Stub()->EstimateSizes(&context, request, &response)),
                StatusIs(absl::StatusCode::kUnavailable, name));
  }
}

TEST_P(SamplingServiceTest, ADatasetOfSubGraphsIsMadeOnce) {
  StartWithGraph();
  v1::SampleDatasetRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.set_dataset("samples");
  std::vector<v1::SampleDatasetResponse> told;
  PH_ASSERT_OK_AND_ASSIGN(const v1::SampleDatasetResponse made, MakeDataset(request, &told));
  EXPECT_EQ(made.dataset().num_graphs(), kNodes);
  ASSERT_THAT(told, Not(IsEmpty()));
  EXPECT_EQ(told.back().num_graphs_total(), kNodes);
  EXPECT_EQ(made.num_graphs(), kNodes);
  EXPECT_EQ(made.dataset().state(), v1::DATASET_STATE_SEALED);
  PH_ASSERT_OK_AND_ASSIGN(const v1::SampleDatasetResponse again, MakeDataset(request));
  EXPECT_EQ(again.dataset().version(), made.dataset().version());
  EXPECT_EQ(again.num_graphs(), kNodes);
  EXPECT_EQ(again.num_graphs_total(), kNodes);
  request.set_seed(1);
  EXPECT_THAT(MakeDataset(request), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("this request has not made")));
}

// What goes beyond the rows is drawn smaller, which is counted, or refused; 0 rows are no bound.
TEST_P(SamplingServiceTest, ADatasetKeepsToTheRowsOfItsRequest) {
  StartWithGraph();
  v1::SampleDatasetRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  const auto bound = [&](const std::string& component, uint64_t rows) {
    v1::Capacity& capacity = *request.add_max_rows();
    capacity.set_component(component);
    capacity.set_rows(rows);
  };
  bound("n", 6);
  request.set_dataset("smaller");
  std::vector<v1::SampleDatasetResponse> told;
  PH_ASSERT_OK_AND_ASSIGN(const v1::SampleDatasetResponse made, MakeDataset(request, &told));
  EXPECT_EQ(made.num_graphs(), kNodes);
  EXPECT_EQ(made.num_graphs_total(), kNodes);
  PH_ASSERT_OK_AND_ASSIGN(const auto small, datasets_->OpenReader("smaller"));
  request.clear_max_rows();
  request.set_dataset("all");
  EXPECT_THAT(MakeDataset(request), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto whole, datasets_->OpenReader("all"));
  uint64_t num_smaller = 0;
  // The rows of nodes come first.
  ASSERT_EQ(small->info().schema->sizes().name(0), "n");
  for (size_t i = 0; i < 2 * size_t{kNodes}; i += 2) {
    EXPECT_LE(small->counts()[i], 6U);
    if (whole->counts()[i] > 6) ++num_smaller;
  }
  EXPECT_GT(num_smaller, 0U);
  EXPECT_EQ(made.num_drawn_smaller(), num_smaller);
  EXPECT_EQ(told.back().num_drawn_smaller(), num_smaller);

  request.set_beyond_limits(v1::BEYOND_LIMITS_REFUSE);
  bound("n", 0);
  request.set_dataset("unbounded");
  EXPECT_THAT(MakeDataset(request), IsOk());
  request.mutable_max_rows(0)->set_rows(6);
  request.set_dataset("refused");
  EXPECT_THAT(MakeDataset(request),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("n, at most 6")));
  request.clear_max_rows();
  request.set_max_bytes(1000);
  request.set_dataset("bytes");
  EXPECT_THAT(MakeDataset(request),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000")));
}

TEST_P(SamplingServiceTest, OtherEpochsDrawOthers) {
  StartWithGraph();
  v1::SampleDatasetRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  request.set_dataset("samples");
  v1::EstimateSizesRequest sizes;
  *sizes.mutable_sub_graphs() = TwoHops();
  sizes.set_num_graphs(200);
  const auto estimate = [&] {
    grpc::ClientContext context;
    v1::EstimateSizesResponse response;
    EXPECT_THAT(ToAbsl(Stub()->EstimateSizes(&context, sizes, &response)), IsOk());
    return response.SerializeAsString();
  };
  EXPECT_THAT(MakeDataset(request), IsOk());
  const std::string first = estimate();
  request.set_epoch(1);
  sizes.set_epoch(1);
  EXPECT_THAT(MakeDataset(request), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("this request has not made")));
  EXPECT_NE(estimate(), first);
}

TEST_P(SamplingServiceTest, ADatasetGoesOnWhereACallEnded) {
  OpenDatasets();
  PH_ASSERT_OK_AND_ASSIGN(auto spec, tfgnn::ParseSamplingSpec(TwoHopSpec(4, 3)));
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  sub_graphs.spec = spec;
  PH_ASSERT_OK_AND_ASSIGN(auto graph, graphs_.Open("g"));
  PH_ASSERT_OK_AND_ASSIGN(auto source, SubGraphSource::Create(graph, sub_graphs));
  const auto make = [&](const std::string& name, int asks) {
    SampledDatasetRequest request;
    request.dataset = name;
    // Many appends, and the last of them not full.
    std::vector<uint32_t> nodes;
    for (uint32_t i = 0; i < 20'001; ++i) nodes.push_back(i % kNodes);
    request.seeds.nodes = std::make_shared<const std::vector<uint32_t>>(std::move(nodes));
    const Making making(nullptr, [asks]() mutable { return asks-- == 0; });
    return MakeSampledDataset(source, request, *datasets_, making, nullptr, [](const auto&) {});
  };
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo whole, make("whole", -1));
  ASSERT_GT(whole.num_records, 3u);
  int interrupted = 0;
  absl::StatusOr<DatasetInfo> info = absl::CancelledError("");
  while (absl::IsCancelled(info.status())) {
    info = make("parts", 9'000);
    ++interrupted;
    ASSERT_LT(interrupted, 100);
  }
  ASSERT_THAT(info, IsOk());
  EXPECT_GT(interrupted, 2);
  EXPECT_EQ(info->num_graphs, whole.num_graphs);
  EXPECT_EQ(info->num_records, whole.num_records);
  PH_ASSERT_OK_AND_ASSIGN(const auto a, datasets_->OpenReader("whole"));
  PH_ASSERT_OK_AND_ASSIGN(const auto b, datasets_->OpenReader("parts"));
  for (size_t i = 0; i < whole.num_graphs; ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const StoredGraph x, a->Graph(i));
    PH_ASSERT_OK_AND_ASSIGN(const StoredGraph y, b->Graph(i));
    for (size_t t = 0; t < x.chunk->num_columns(); ++t) {
      ASSERT_EQ(x.chunk->rows(x.index, t), y.chunk->rows(y.index, t)) << i;
    }
  }
}

TEST_P(SamplingServiceTest, WithoutSourceGraphsItSaysSo) {
  StartServer();
  v1::EstimateSizesRequest request;
  *request.mutable_sub_graphs() = TwoHops();
  grpc::ClientContext context;
  v1::EstimateSizesResponse response;
  EXPECT_THAT(ToAbsl(Stub()->EstimateSizes(&context, request, &response)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--data-dir")));
}

}  // namespace
}  // namespace packhouse::rpc
