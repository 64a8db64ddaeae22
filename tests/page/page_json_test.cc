// What the page is told: laws of its pure functions.
#include "service/wings/page/page_json.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/feedback.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "service/access/authorizer.h"
#include "service/algorithms/planning/limits.h"
#include "service/engine/streams/live_streams.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/page/heat_map.h"
#include "service/wings/page/history.h"
#include "service/wings/page/next_fit.h"
#include "service/wings/page/page_answers.h"
#include "service/wings/page/page_query.h"
#include "service/wings/page/server_reading.h"
#include "tests/support/status_matchers.h"

namespace packhouse::page {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SizeHistogram HistogramOf(const std::vector<std::pair<std::vector<uint32_t>, uint64_t>>& sizes) {
  SizeHistogram histogram(sizes.front().first.size());
  for (const auto& [size, count] : sizes) EXPECT_THAT(histogram.Add(size, count), IsOk());
  return histogram;
}

// A server with data sets without end, of large schemas, and many models.
class EndlessDatasets final : public PageCalls {
 public:
  absl::Status Call(const std::string& method, const Viewer& /*viewer*/,
                    const google::protobuf::Message& request, google::protobuf::Message& response,
                    StopSwitch& /*stop*/) override {
    if (method == "/packhouse.v1.DatasetService/GetDataset") {
      ++num_drifts;
      if (num_drifts % 2 == 0) return absl::NotFoundError("it was deleted");
      static_cast<v1::GetDatasetResponse&>(response).mutable_drift()->set_first_graph(num_drifts);
      return absl::OkStatus();
    }
    if (method == "/packhouse.v1.FeedbackService/ListModels") {
      for (int i = 0; i < num_models; ++i) {
        static_cast<v1::ListModelsResponse&>(response).add_models()->set_model(
            std::string(num_tensors == 0 ? 1 : 4'000'000 / num_models, 'm'));
      }
      return absl::OkStatus();
    }
    if (method == "/packhouse.v1.HistogramService/ListHistograms") {
      for (int i = 0; i < 1000; ++i) {
        static_cast<v1::ListHistogramsResponse&>(response).add_histograms("sizes");
      }
      return absl::OkStatus();
    }
    if (method != "/packhouse.v1.DatasetService/ListDatasets") {
      return absl::FailedPreconditionError("there are none");
    }
    ++num_calls;
    auto& listed = static_cast<v1::ListDatasetsResponse&>(response);
    const auto& asked = static_cast<const v1::ListDatasetsRequest&>(request);
    for (uint32_t i = 0; i < asked.page_size(); ++i) {
      v1::Dataset& dataset = *listed.add_datasets();
      dataset.set_name(std::string(120, 'd'));
      for (int t = 0; t < num_tensors; ++t) {
        dataset.mutable_schema()->add_tensors()->set_name(std::string(name_bytes, 't'));
      }
    }
    listed.set_next_page_token("more");
    return absl::OkStatus();
  }
  absl::Status CallStreaming(const std::string&, const Viewer&, const google::protobuf::Message&,
                             absl::FunctionRef<absl::Status(const std::string&)>,
                             StopSwitch&) override {
    return absl::UnimplementedError("");
  }

  int num_tensors = 0;
  size_t name_bytes = 120;
  int num_models = 1000;
  int num_calls = 0;
  uint64_t num_drifts = 0;
};

// Whatever there is, a list fits into the memory that a question has.
TEST(PageAnswersTest, ListsAreBounded) {
  EndlessDatasets server;
  StopSwitch stop;
  const PageAnswers answers(&server, nullptr, {}, &stop);
  for (const int num_tensors : {0, 256}) {
    server.num_tensors = num_tensors;
    server.num_calls = 0;
    server.num_drifts = 0;
    const auto data = answers.Data({});
    ASSERT_THAT(data, IsOk());
    EXPECT_TRUE((*data)["more"].get<bool>());
    const size_t listed = (*data)["datasets"].size();
    EXPECT_GT(listed, 0U);
    EXPECT_LE(listed, PageAnswers::kMostListed);
    EXPECT_LE(JsonText(*data).size(), uint64_t{2} << 20);
    EXPECT_EQ((*data)["datasets"][0]["drift"]["first_graph"], 1U);
    EXPECT_FALSE((*data)["datasets"][1].contains("drift"));
    EXPECT_EQ(server.num_drifts, std::min(listed, PageAnswers::kMostDrifts));
    const size_t models = (*data)["models"].size();
    if (num_tensors == 0) {
      EXPECT_EQ(listed, PageAnswers::kMostListed);
      EXPECT_EQ(models, PageAnswers::kMostListed);
    } else {
      EXPECT_GT(models, 0U);
      EXPECT_LE(models * 4000, PageAnswers::kMostListedBytes);
      EXPECT_LE(server.num_calls, 2);
    }
  }
  // The first is always listed.
  server.num_tensors = 1;
  server.name_bytes = PageAnswers::kMostListedBytes;
  server.num_models = 2;
  PH_ASSERT_OK_AND_ASSIGN(const Json large, answers.Data({}));
  EXPECT_EQ(large["datasets"].size(), 1U);
  EXPECT_EQ(large["models"].size(), 1U);
  server.num_tensors = 0;
  LiveStreams streams(nullptr);
  std::vector<std::unique_ptr<LiveStreams::Place>> places;
  for (size_t i = 0; i <= PageAnswers::kMostListed; ++i) {
    places.push_back(streams.Enter({"c", ""}, "", SizeSchema::NodesAndEdges(), absl::UnixEpoch()));
  }
  const PageAnswers with_streams(&server, nullptr, {}, &stop, &streams);
  PH_ASSERT_OK_AND_ASSIGN(const Json sources, with_streams.Sources());
  for (const char* const list : {"datasets", "histograms", "streams"}) {
    EXPECT_EQ(sources[list].size(), PageAnswers::kMostListed) << list;
  }
}

// What the page asks of the planner, and of the tuner: each is refused.
class AskedCalls final : public PageCalls {
 public:
  absl::Status Call(const std::string& method, const Viewer& /*viewer*/,
                    const google::protobuf::Message& request,
                    google::protobuf::Message& /*response*/, StopSwitch& /*stop*/) override {
    if (method == "/packhouse.v1.HistogramService/GetHistogram") return absl::OkStatus();
    plan.CopyFrom(request);
    return absl::UnimplementedError("Plan");
  }
  absl::Status CallStreaming(const std::string& /*method*/, const Viewer& /*viewer*/,
                             const google::protobuf::Message& request,
                             absl::FunctionRef<absl::Status(const std::string&)> /*each*/,
                             StopSwitch& /*stop*/) override {
    tune.CopyFrom(request);
    return absl::UnimplementedError("Tune");
  }

  v1::PlanRequest plan;
  v1::TuneRequest tune;
};

TEST(PageAnswersTest, LimitsAndProfilesAreAskedForByTheirComponents) {
  AskedCalls server;
  StopSwitch stop;
  const PageAnswers answers(&server, nullptr, {}, &stop);
  PH_ASSERT_OK_AND_ASSIGN(
      const PageQuery plan,
      PageQuery::Parse("source=histogram/h&limit=nodes:222&limit=edges:502&steps=7&seed=9"));
  EXPECT_THAT(answers.Plan(plan), StatusIs(absl::StatusCode::kUnimplemented, "Plan"));
  ASSERT_EQ(server.plan.limits().capacities_size(), 2);
  EXPECT_EQ(server.plan.limits().capacities(0).component(), "nodes");
  EXPECT_EQ(server.plan.limits().capacities(0).rows(), 222U);
  EXPECT_EQ(server.plan.limits().capacities(1).component(), "edges");
  EXPECT_EQ(server.plan.limits().capacities(1).rows(), 502U);
  EXPECT_EQ(server.plan.budget_steps(), 7U);
  EXPECT_EQ(server.plan.seed(), 9U);
  PH_ASSERT_OK_AND_ASSIGN(
      const PageQuery tune,
      PageQuery::Parse("source=histogram/h&max=nodes:100&max=edges:300&multiple=edges:8&"
                       "bytes=nodes:16&memory=12345"));
  EXPECT_THAT(answers.Tune(tune), StatusIs(absl::StatusCode::kUnimplemented, "Tune"));
  const v1::DeviceProfile& profile = server.tune.profile();
  ASSERT_EQ(profile.components_size(), 2);
  EXPECT_EQ(profile.components(0).component(), "nodes");
  EXPECT_EQ(profile.components(0).max_rows(), 100U);
  EXPECT_EQ(profile.components(0).bytes_per_row(), 16U);
  EXPECT_EQ(profile.components(1).component(), "edges");
  EXPECT_EQ(profile.components(1).max_rows(), 300U);
  EXPECT_EQ(profile.components(1).multiple_of(), 8U);
  EXPECT_EQ(profile.memory_bytes(), 12345U);
}

// With a policy, streams show themselves to their own principal, to who may view what they name,
// and to administrators; to others there are none.
TEST(PageAnswersTest, StreamsAreShownToWhoMaySeeThem) {
  LiveStreams streams(nullptr);
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const auto named = streams.Enter({"maker", "maker"}, "team/sizes", schema, absl::UnixEpoch());
  const auto plain = streams.Enter({"maker", "maker"}, "", schema, absl::UnixEpoch());
  const auto nobodys = streams.Enter({"10.0.0.1", ""}, "", schema, absl::UnixEpoch());
  const std::vector<uint32_t> counts(2 * 10'000, 7);
  named->Observe(SizesView::Create(10'000, 2, counts).value());
  const Authorizer authorizer(std::make_shared<const Policy>(
      *Policy::Create({{{"maker"}, Role::kTrainer, {"default"}},
                       {{"friend"}, Role::kViewer, {"team", "default"}},
                       {{"stranger", "anonymous"}, Role::kViewer, {"default", "other"}},
                       {{"root"}, Role::kAdmin, {"*"}}},
                      {})));
  EndlessDatasets server;
  StopSwitch stop;
  // The numbers of all streams, which begin somewhere, and one that no stream has.
  std::vector<std::string> all;
  {
    const PageAnswers answers(&server, nullptr, {}, &stop, &streams);
    const auto sources = answers.Sources();
    ASSERT_THAT(sources, IsOk());
    for (const Json& each : (*sources)["streams"]) all.push_back(each["number"]);
    ASSERT_EQ(all.size(), 3U);
    all.push_back("4");
  }
  const auto seen = [&](const Authorizer* rights, const std::string& viewer) {
    const PageAnswers answers(&server, rights, {viewer}, &stop, &streams);
    const auto sources = answers.Sources();
    EXPECT_THAT(sources, IsOk());
    std::vector<std::string> numbers;
    for (const Json& each : (*sources)["streams"]) numbers.push_back(each["number"]);
    // Whoever sees it in the list sees its sizes, and nobody else does.
    for (const std::string& number : all) {
      const auto sizes = answers.Sizes(*PageQuery::Parse("source=stream/" + number));
      const bool listed = std::find(numbers.begin(), numbers.end(), number) != numbers.end();
      if (!listed) {
        EXPECT_THAT(sizes, StatusIs(absl::StatusCode::kNotFound,
                                    HasSubstr("stream " + number + ": no open stream")));
      } else {
        EXPECT_THAT(sizes, IsOk());
      }
    }
    return numbers;
  };
  EXPECT_THAT(seen(nullptr, ""), ElementsAre(all[0], all[1], all[2]));
  EXPECT_THAT(seen(&authorizer, "maker"), ElementsAre(all[0], all[1]));
  EXPECT_THAT(seen(&authorizer, "friend"), ElementsAre(all[0]));
  EXPECT_THAT(seen(&authorizer, "stranger"), ElementsAre());
  EXPECT_THAT(seen(&authorizer, ""), ElementsAre());
  EXPECT_THAT(seen(&authorizer, "root"), ElementsAre(all[0], all[1], all[2]));

  const PageAnswers answers(&server, nullptr, {}, &stop, &streams);
  const auto sizes = answers.Sizes(*PageQuery::Parse("source=stream/" + all[0]));
  ASSERT_THAT(sizes, IsOk());
  EXPECT_EQ((*sizes)["num_graphs"], SizeSample::MostGraphs(2));
  EXPECT_EQ((*sizes)["sample_of"], 10'000U);
  plain->Observe(SizesView::Create(2, 2, absl::MakeConstSpan(counts).first(4)).value());
  PH_ASSERT_OK_AND_ASSIGN(const Json few,
                          answers.Sizes(*PageQuery::Parse("source=stream/" + all[1])));
  EXPECT_EQ(few["num_graphs"], 2U);
  EXPECT_FALSE(few.contains("sample_of"));
  PH_ASSERT_OK_AND_ASSIGN(const Json listed, answers.Sources());
  EXPECT_EQ(
      listed["streams"][0],
      Json({{"number", all[0]}, {"client", "maker"}, {"name", "team/sizes"}, {"graphs", 10'000}}));
  EXPECT_THAT(answers.Sizes(*PageQuery::Parse("source=stream/x")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x'")));
}

TEST(QuotasJsonTest, ShowsAllQuotasOfWhatMayBeSeen) {
  const std::vector<QuotaReading> readings = {
      {"other", "epochs", 1, 2}, {"team", "disk_bytes", 5, 10}, {"team", "planning", 0.25, 0.5}};
  const Json all = QuotasJson(readings, [](const std::string& where) { return where == "team"; });
  EXPECT_EQ(all, Json::parse(R"([{"namespace": "team", "quotas": [
      {"quota": "disk_bytes", "used": 5.0, "most": 10.0},
      {"quota": "planning", "used": 0.25, "most": 0.5}]}])"));
}

template <typename Message>
Message Of(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Whatever the page tells of a message, each with values of its own.
TEST(PageJsonTest, HasWhatTheServerTells) {
  constexpr char kComponents[] =
      "components { component: 'nodes' capacity: 50 efficiency: 0.5 fullest_pack: 51 "
      "efficiency_of_fullest: 0.625 } components { component: 'edges' }";
  const std::string efficiencies = R"([{"component": "nodes", "capacity": 50, "efficiency": 0.5,
      "fullest_pack": 51, "efficiency_of_fullest": 0.625}, {"component": "edges", "capacity": null,
      "efficiency": 0.0, "fullest_pack": 0, "efficiency_of_fullest": 0.0}])";
  const std::vector<std::pair<Json, std::string>> cases = {
      {DriftJson(Of<v1::DatasetDrift>("first_graph: 2100 found_graph: 2300 num_changes: 2 "
                                      "components { component: 'nodes' reference_mean: 12.5 "
                                      "mean: 30 }")),
       R"({"first_graph": 2100, "found_graph": 2300, "changes": 2,
           "components": [{"component": "nodes", "before": 12.5, "after": 30.0}]})"},
      {MeasuredModelJson(Of<v1::DeviceModel>(
           "model: 'gin' device: 'h100' num_reports: 7 num_out_of_memory: 1 fixed_seconds: 0.5 "
           "least_seconds: 0.25 spread: 0.125 fixed_bytes: 1024 most_bytes: 4096 "
           "components { component: 'nodes' seconds_per_row: 2 bytes_per_row: 3 }")),
       R"({"model": "gin", "device": "h100", "reports": 7, "out_of_memory": 1,
           "fixed_seconds": 0.5, "least_seconds": 0.25, "spread": 0.125, "fixed_bytes": 1024.0,
           "most_bytes": 4096.0,
           "components": [{"component": "nodes", "seconds": 2.0, "bytes": 3.0}]})"},
      {MeasuredModelJson(v1::DeviceModel())["most_bytes"], "null"},
      {DatasetJson(Of<v1::Dataset>(
           "name: 'd' state: DATASET_STATE_SEALED version: 3 num_graphs: 4 num_bytes: 5 "
           "max_bytes: 6 grouped: true schema { components: 'nodes' components: 'edges' "
           "tensors { name: 'x' dtype: DATA_TYPE_FLOAT32 row_shape: 7 row_shape: 2 "
           "component: 'nodes' } tensors { name: 'y' dtype: DATA_TYPE_INT64 component: 'nodes' } "
           "tensors { name: 'z' dtype: DATA_TYPE_INT16 component: 'graphs' index_into: 'edges' } "
           "}")),
       R"({"name": "d", "state": "sealed", "version": "3", "graphs": 4, "bytes": 5, "max_bytes": 6,
           "grouped": true, "components": ["nodes", "edges"], "tensors": [
             {"name": "x", "dtype": "float32", "row_shape": [7, 2], "component": "nodes",
              "index_into": ""},
             {"name": "y", "dtype": "int64", "row_shape": [], "component": "nodes",
              "index_into": ""},
             {"name": "z", "dtype": "int16", "row_shape": [], "component": "graphs",
              "index_into": "edges"}],
           "bytes_per_row": {"nodes": 64, "edges": 0, "graphs": 2}})"},
      {DatasetJson(v1::Dataset())["max_bytes"], "null"},
      {SourceGraphJson(Of<v1::SourceGraph>(
           "name: 'g' state: SOURCE_GRAPH_STATE_OPEN version: 3 num_bytes: 4 max_bytes: 5 "
           "num_nodes: 6 num_edges: 8 schema { "
           "node_sets { name: 'a' id_kind: NODE_ID_KIND_TEXT columns { name: 't' text: true "
           "ragged: true } } node_sets { name: 'b' columns { name: 'c' dtype: DATA_TYPE_UINT8 "
           "row_shape: 9 } } edge_sets { name: 'e' source: 'a' target: 'b' reverse_of: 'f' } "
           "edge_sets { name: 'f' } }")),
       R"({"name": "g", "state": "open", "version": "3", "bytes": 4, "max_bytes": 5, "node_sets": [
             {"name": "a", "rows": 6, "ids": "text", "columns": [
                {"name": "t", "dtype": "text", "row_shape": [], "ragged": true}]},
             {"name": "b", "rows": 0, "ids": "integer", "columns": [
                {"name": "c", "dtype": "uint8", "row_shape": [9], "ragged": false}]}],
           "edge_sets": [
             {"name": "e", "rows": 8, "source": "a", "target": "b", "reverse_of": "f",
              "columns": []},
             {"name": "f", "rows": 0, "source": "", "target": "", "reverse_of": "",
              "columns": []}]})"},
      {SourceGraphJson(v1::SourceGraph())["max_bytes"], "null"},
      {JobJson(Of<v1::Job>("job: 'j' num_epochs: 3 num_sessions: 4 owner: '10.0.0.1:50051' "
                           "last_used { seconds: 5 } "
                           "epochs { epoch: 6 generation: 7 num_done: 8 num_batches: 9 "
                           "dataset: 'd' num_sessions: 10 } epochs { epoch: 11 }"),
               1),
       R"({"job": "j", "num_epochs": 3, "num_sessions": 4, "owner": "10.0.0.1:50051",
           "last_used": 5000, "epochs": [{"epoch": 6, "generation": 7, "done": 8, "batches": 9,
           "dataset": "d", "sessions": 10}]})"},
      {JobJson(v1::Job(), 1)["last_used"], "null"},
      {PlanSummaryJson(Of<v1::PlanSummary>(absl::StrCat(
           "name: 'p' packs: 3 lower_bound: 4 lower_bound_name: 'b' gap: 0.25 keeps_limits: true "
           "num_patterns: 5 elapsed { seconds: 2 nanos: 3000000 } winner: 'w' steps: 6 "
           "receipt: 'r' ",
           kComponents))),
       absl::StrCat(R"({"name": "p", "packs": 3, "lower_bound": 4, "lower_bound_name": "b",
           "gap": 0.25, "optimal": false, "keeps_limits": true, "num_patterns": 5, "winner": "w",
           "steps": 6, "receipt": "r", "milliseconds": 2003.0, "components": )",
                    efficiencies, "}")},
      {PlanSummaryJson(Of<v1::PlanSummary>("optimal: true"))["optimal"], "true"},
      {PlanSummaryJson(Of<v1::PlanSummary>("name: 'p' unfinished: true packs: 3")),
       R"({"name": "p", "unfinished": true})"},
      {TunedShapeJson(Of<v1::TunedShape>(absl::StrCat(
           "limits { capacities { component: 'nodes' rows: 3 } } packs: 4 lower_bound: 5 "
           "epoch_cost: 0.5 harmonic_mean: 0.75 batch_bytes: 6 ",
           kComponents))),
       absl::StrCat(R"({"capacities": {"nodes": 3}, "packs": 4, "lower_bound": 5, "epoch_cost": 0.5,
           "harmonic_mean": 0.75, "batch_bytes": 6, "components": )",
                    efficiencies, "}")},
  };
  for (const auto& [told, expected] : cases) EXPECT_EQ(told, Json::parse(expected));
}

TEST(PageQueryTest, DecodesValues) {
  const auto query = PageQuery::Parse(
      "source=dataset%2Fa%20b&limit=n:3&limit=e:x:40&flag&x=1+2&&x=3&y=a=b&%7a=%c3%A9&n=5&end=%41");
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->Text("y"), "a=b");
  EXPECT_EQ(query->Text("z"), "\xc3\xa9");
  EXPECT_EQ(query->Text("end"), "A");
  EXPECT_THAT(query->Texts("x"), ElementsAre("1 2", "3"));
  EXPECT_EQ(query->Number("n", 7, 5, 9).value(), 5U);
  EXPECT_EQ(query->Number("n", 7, 0, 5).value(), 5U);
  EXPECT_THAT(PageQuery::Parse(std::string(PageQuery::kMostBytes, 'a')), IsOk());
  EXPECT_EQ(query->Text("source"), "dataset/a b");
  EXPECT_EQ(query->Text("x"), "1 2");
  EXPECT_FALSE(query->Has("flag"));
  using Pair = std::pair<std::string, uint64_t>;
  EXPECT_THAT(query->Named("limit").value(), ElementsAre(Pair("n", 3), Pair("e:x", 40)));
  EXPECT_EQ(query->Number("absent", 7, 0, 9).value(), 7);
}

TEST(PageQueryTest, RefusesWhatIsMalformed) {
  for (const std::string wrong : {"%", "1%4", "%zz", "%4g", "%/4", "12%4:"}) {
    const std::string why = absl::StrCat("query: '%' at ", wrong.find('%'), " of '", wrong,
                                         "': two digits must follow");
    for (const std::string& query : {"a=" + wrong, wrong + "=a"}) {
      EXPECT_THAT(PageQuery::Parse(query), StatusIs(absl::StatusCode::kInvalidArgument, why));
    }
  }
  EXPECT_THAT(PageQuery::Parse(std::string(PageQuery::kMostBytes + 1, 'a')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4097")));
  for (const std::string bins : {"65", "2", "x", "-3", "3.5"}) {
    EXPECT_THAT(PageQuery::Parse("bins=" + bins)->Number("bins", 3, 3, 64),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("bins: '", bins, "' is no number from 3 to 64")));
  }
  for (const std::string limit : {"nodes", ":3", "nodes:", "nodes:x", "nodes:-1"}) {
    EXPECT_THAT(PageQuery::Parse("limit=a:1&limit=" + limit)->Named("limit"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("limit: '", limit, "' is not NAME:NUMBER")));
  }
}

TEST(BinEdgesTest, BinsCoverEveryValueAndAreFewEnough) {
  for (const bool is_log : {false, true}) {
    for (const size_t most : {1, 2, 7, 64}) {
      for (uint64_t maximum : {0, 1, 2, 6, 63, 64, 65, 1000, 189054}) {
        const std::vector<uint64_t> edges = BinEdges(maximum, most, is_log);
        SCOPED_TRACE(testing::Message() << is_log << " " << most << " " << maximum);
        EXPECT_EQ(edges.front(), 0);
        EXPECT_GT(edges.back(), maximum);
        EXPECT_LE(edges.size(), most + 1);
        for (size_t i = 1; i < edges.size(); ++i) EXPECT_LT(edges[i - 1], edges[i]);
      }
    }
  }
}

TEST(BinEdgesTest, BinsAreEquallyWideOrWiderByAFactor) {
  EXPECT_THAT(BinEdges(9, 4, false), ElementsAre(0, 3, 6, 9, 12));
  EXPECT_THAT(BinEdges(3, 4, false), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(BinEdges(4, 4, false), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(BinEdges(1000, 4, true), ElementsAre(0, 6, 32, 178, 1001));
  EXPECT_THAT(BinEdges(1, 4, true), ElementsAre(0, 1, 2));
}

TEST(HeatMapTest, GraphsAreInTheCellsOfTheirSizes) {
  const SizeHistogram histogram = HistogramOf({{{3, 7}, 5}, {{3, 8}, 2}, {{0, 2}, 1}});
  const SizeSchema schema = SizeSchema::Create({"a", "b"}).value();
  HeatMapOptions options;
  options.y = 1;
  options.num_bins = 4;
  Json expected = Json::parse(R"({"components": ["a", "b"], "num_graphs": 8, "num_sizes": 3,
      "totals": [21, 53], "maxima": [3, 8],
      "x": {"component": "a", "edges": [0, 1, 2, 3, 4], "counts": [1, 0, 0, 7]},
      "y": {"component": "b", "edges": [0, 3, 6, 9], "counts": [1, 0, 7]},
      "cells": [[0, 0, 1], [3, 2, 7]]})");
  EXPECT_EQ(HeatMapJson(histogram, schema, options), expected);
  options.x = 1;
  options.y = std::nullopt;
  expected["x"] = expected["y"];
  expected["y"] = nullptr;
  expected["cells"] = Json::array();
  EXPECT_EQ(HeatMapJson(histogram, schema, options), expected);
}

TEST(HeatMapTest, CellsAddUpToTheMarginals) {
  const SizeHistogram histogram =
      HistogramOf({{{3, 7, 1}, 5}, {{3, 8, 2}, 2}, {{200, 0, 9}, 1}, {{64, 500, 0}, 4}});
  const SizeSchema schema = SizeSchema::Create({"a", "b", "c"}).value();
  for (const bool is_log : {false, true}) {
    HeatMapOptions options;
    options.x = 1;
    options.y = 0;
    options.num_bins = 16;
    options.is_log = is_log;
    const Json map = HeatMapJson(histogram, schema, options);
    std::vector<uint64_t> of_x(map["x"]["counts"].size(), 0);
    std::vector<uint64_t> of_y(map["y"]["counts"].size(), 0);
    for (const Json& cell : map["cells"]) {
      of_x[cell[0]] += cell[2].get<uint64_t>();
      of_y[cell[1]] += cell[2].get<uint64_t>();
    }
    EXPECT_EQ(map["x"]["counts"].get<std::vector<uint64_t>>(), of_x);
    EXPECT_EQ(map["y"]["counts"].get<std::vector<uint64_t>>(), of_y);
    EXPECT_EQ(std::accumulate(of_x.begin(), of_x.end(), uint64_t{0}), 12);
    EXPECT_EQ(map["x"]["component"], "b");
    EXPECT_EQ(map["maxima"].get<std::vector<uint64_t>>(), (std::vector<uint64_t>{200, 500, 9}));
  }
}

TEST(NextFitTest, EachLimitClosesAPack) {
  for (const auto& [size, capacities, packs] :
       std::vector<std::tuple<std::vector<uint32_t>, std::vector<uint64_t>, uint64_t>>{
           {{3, 1}, {10, 100, kUnlimited}, 4},
           {{1, 3}, {100, 10, kUnlimited}, 4},
           {{5, 5}, {10, 10, kUnlimited}, 5},
           {{0, 0}, {1, 1, 3}, 4},
           {{11, 0}, {10, 100, kUnlimited}, 10},  // Larger than a pack: each has its own.
           {{5, 0}, {kUnlimited, kUnlimited, kUnlimited}, 1}}) {
    EXPECT_EQ(NextFitPacks(HistogramOf({{size, 10}}), capacities, 1).packs, packs) << size[0];
  }
  // As many as are sampled, and one more.
  for (const uint64_t more : {0, 1}) {
    const NextFitEstimate estimate =
        NextFitPacks(HistogramOf({{{5}, kMostSampled + more}}), {10, kUnlimited}, 1);
    EXPECT_EQ(estimate.is_exact, more == 0);
    EXPECT_NEAR(static_cast<double>(estimate.packs), kMostSampled / 2, 1);
  }
  // Those of the one size fill a pack, those of the other take no room.
  EXPECT_NEAR(
      static_cast<double>(
          NextFitPacks(HistogramOf({{{10}, 300'000}, {{0}, 600'000}}), {10, kUnlimited}, 1).packs),
      3e5, 3e3);
}

TEST(NextFitTest, PacksWholeGraphsInOrder) {
  // Two of these never fit together, four ones do.
  EXPECT_EQ(NextFitPacks(HistogramOf({{{6}, 9}}), std::vector<uint64_t>{10, kUnlimited}, 1).packs,
            9);
  EXPECT_EQ(NextFitPacks(HistogramOf({{{1}, 8}}), std::vector<uint64_t>{10, 4}, 1).packs, 2);
  const SizeHistogram mixed = HistogramOf({{{6, 1}, 500}, {{4, 2}, 500}, {{1, 9}, 100}});
  const std::vector<uint64_t> capacities = {10, 10, kUnlimited};
  const NextFitEstimate once = NextFitPacks(mixed, capacities, 1);
  EXPECT_TRUE(once.is_exact);
  EXPECT_EQ(once.packs, NextFitPacks(mixed, capacities, 1).packs);
  // No packer does better than the volume, and next-fit never needs more than twice that.
  EXPECT_GE(once.packs, (6 * 500 + 4 * 500 + 100) / 10);
  EXPECT_LE(once.packs, mixed.num_graphs());
}

// Graphs come in a random order, which the seed decides.
TEST(NextFitTest, TheOrderIsTheSeeds) {
  const SizeHistogram histogram = HistogramOf({{{1}, 50}, {{9}, 50}});
  std::set<uint64_t> packs;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    packs.insert(NextFitPacks(histogram, {10, 100}, seed).packs);
    EXPECT_EQ(NextFitPacks(histogram, {10, 100}, seed).packs,
              NextFitPacks(histogram, {10, 100}, seed).packs);
  }
  EXPECT_GT(packs.size(), 3U);
}

TEST(NextFitTest, ASampleIsScaledUp) {
  const SizeHistogram many = HistogramOf({{{5}, 3'000'000}});
  const NextFitEstimate estimate = NextFitPacks(many, std::vector<uint64_t>{10, kUnlimited}, 1);
  EXPECT_FALSE(estimate.is_exact);
  EXPECT_NEAR(static_cast<double>(estimate.packs), 1.5e6, 10);
}

v1::PlanResponse PlanOfTwoPatterns() {
  v1::PlanResponse response;
  response.mutable_plan()->set_tuples(Uint32sToWire({2, 3, 4, 5}));
  v1::Pattern& rare = *response.mutable_plan()->add_patterns();
  rare.set_repeats(1);
  rare.add_entries()->set_tuple(1);
  rare.mutable_entries(0)->set_copies(1);
  v1::Pattern& common = *response.mutable_plan()->add_patterns();
  common.set_repeats(6);
  common.add_entries()->set_tuple(0);
  common.mutable_entries(0)->set_copies(2);
  common.add_entries()->set_tuple(1);
  common.mutable_entries(1)->set_copies(1);
  for (const auto& [name, capacity] :
       std::vector<std::pair<std::string, uint64_t>>{{"nodes", 8}, {"edges", 20}, {"graphs", 0}}) {
    v1::ComponentEfficiency& component = *response.mutable_best()->add_components();
    component.set_component(name);
    component.set_capacity(capacity);
  }
  return response;
}

// The last bin has what is exactly full; the other pack is half full.
TEST(PatternsJsonTest, SaysHowFullPacksAreAndWhatBinds) {
  Json expected = Json::parse(R"({"num_patterns": 2, "patterns": [
      {"repeats": 6, "rows": [8, 11, 3], "fill": [1.0, 0.55, null], "binds": "nodes",
       "num_sizes": 2, "graphs": [{"size": [2, 3], "copies": 2}, {"size": [4, 5], "copies": 1}]},
      {"repeats": 1, "rows": [4, 5, 1], "fill": [0.5, 0.25, null], "binds": "nodes",
       "num_sizes": 1, "graphs": [{"size": [4, 5], "copies": 1}]}],
      "binds": {"nodes": 7, "edges": 0}, "fill": {
      "nodes": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6],
      "edges": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0]}})");
  EXPECT_EQ(PatternsJson(PlanOfTwoPatterns(), 10), expected);
  expected["patterns"].erase(size_t{1});
  EXPECT_EQ(PatternsJson(PlanOfTwoPatterns(), 1), expected);
  EXPECT_EQ(PatternsJson(v1::PlanResponse(), 5),
            Json::parse(R"({"num_patterns": 0, "patterns": [], "binds": {}, "fill": {}})"));
}

TEST(PatternsJsonTest, WhatBindsIsTheFullestOfWhatIsLimited) {
  v1::PlanResponse response = PlanOfTwoPatterns();
  response.mutable_best()->mutable_components(1)->set_capacity(11);
  // As full as the nodes: the first of them.
  EXPECT_EQ(PatternsJson(response, 1)["binds"], Json({{"nodes", 7}, {"edges", 0}}));
  response.mutable_best()->mutable_components(0)->set_capacity(16);
  EXPECT_EQ(PatternsJson(response, 1)["binds"], Json({{"nodes", 0}, {"edges", 7}}));
  response.mutable_best()->mutable_components(2)->set_capacity(1);
  EXPECT_EQ(PatternsJson(response, 1)["binds"], Json({{"nodes", 0}, {"edges", 0}, {"graphs", 7}}));
  for (auto& component : *response.mutable_best()->mutable_components()) component.clear_capacity();
  for (size_t i = 0; i < kMostEntries; ++i) {
    *response.mutable_plan()->mutable_patterns(1)->add_entries() =
        response.plan().patterns(0).entries(0);
  }
  const Json json = PatternsJson(response, 1);
  EXPECT_EQ(json["binds"], Json::object());
  EXPECT_EQ(json["patterns"][0]["binds"], "graphs");
  EXPECT_EQ(json["patterns"][0]["num_sizes"], kMostEntries + 2);
  EXPECT_EQ(json["patterns"][0]["graphs"].size(), kMostEntries);
}

// Totals are squares, so that each interval has a rate of its own.
TEST(HistoryTest, RatesAndEfficiencyAreDifferencesOfTotals) {
  History history;
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  Json seconds = Json::array();
  std::vector<double> rates;
  Json efficiency = Json::array();
  for (int i = 0; i <= 10; ++i) {
    const auto n = static_cast<uint64_t>(i);
    history.Add(start + i * History::kInterval,
                {n * n, 2 * n * n, 3 * n * n, {{"nodes", n * n, n}, {"edges", 0, 0}}}, {});
    if (i == 0) continue;
    seconds.push_back(5.0 * (i - 10));
    rates.push_back(2.0 * i - 1);
    efficiency.push_back(rates.back() / (2.0 * i));
  }
  const auto times = [&](double factor) {
    Json series = Json::array();
    for (const double rate : rates) series.push_back(factor * rate / 5);
    return series;
  };
  const Json expected = {
      // Since the last fifteen seconds began: from 49 to 100.
      {"rates", {{"batches", 51 / 15.0}, {"graphs", 102 / 15.0}, {"bytes", 153 / 15.0}}},
      {"components",
       {{{"component", "nodes"}, {"efficiency_now", 51 / 54.0}, {"efficiency_hour", 100 / 110.0}},
        {{"component", "edges"}, {"efficiency_now", nullptr}, {"efficiency_hour", nullptr}}}},
      {"span_seconds", 50.0},
      {"series",
       {{"seconds", seconds},
        {"batches", times(1)},
        {"graphs", times(2)},
        {"bytes", times(3)},
        {"efficiency", {{"nodes", efficiency}, {"edges", std::vector<Json>(10)}}}}}};
  EXPECT_EQ(history.ToJson(start + 10 * History::kInterval, {}), expected);
  // A server that begins anew has handed out nothing yet.
  EXPECT_EQ(history.ToJson(start + 11 * History::kInterval, {})["rates"],
            Json({{"batches", 0.0}, {"graphs", 0.0}, {"bytes", 0.0}}));
}

TEST(HistoryTest, ComponentsAreTheFirstThatCame) {
  History history;
  ServedTotals totals;
  for (int i = 0; i < 9; ++i) totals.components.push_back({absl::StrCat("c", i), 0, 0});
  history.Add(absl::UnixEpoch(), totals, {});
  totals.components = {{"c8", 5, 5}, {"c1", 3, 1}, {"c0", 1, 1}};
  const Json json = history.ToJson(absl::UnixEpoch() + absl::Seconds(1), totals);
  ASSERT_EQ(json["components"].size(), History::kMostComponents);
  EXPECT_EQ(json["series"]["efficiency"].size(), History::kMostComponents);
  EXPECT_EQ(json["components"][0]["component"], "c0");
  EXPECT_EQ(json["components"][0]["efficiency_now"], 0.5);
  EXPECT_EQ(json["components"][1]["efficiency_now"], 0.75);
  EXPECT_EQ(json["components"][7]["component"], "c7");
  EXPECT_EQ(json["components"][7]["efficiency_now"], Json());
}

TEST(HistoryTest, WhatCameAfterTheLastSampleCounts) {
  History history;
  const absl::Time start = absl::UnixEpoch();
  history.Add(start, {}, {});
  const Json json = history.ToJson(start + absl::Seconds(2), {4, 40, 400, {{"nodes", 3, 1}}});
  EXPECT_DOUBLE_EQ(json["rates"]["graphs"], 20.0);
  EXPECT_DOUBLE_EQ(json["components"][0]["efficiency_now"], 0.75);
}

// As many points as there are, or each of as many samples as it takes; the last is the last sample.
TEST(HistoryTest, KeepsAnHourInFewPoints) {
  const absl::Time start = absl::UnixEpoch();
  for (const auto& [samples, stride] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {121, 1}, {122, 2}, {300, 3}, {2000, 6}}) {
    History history;
    for (int i = 0; i < samples; ++i) {
      history.Add(start + i * History::kInterval, {static_cast<uint64_t>(i) * i, 0, 0, {}}, {});
    }
    const Json json = history.ToJson(start + (samples - 1) * History::kInterval, {});
    const int kept = std::min(samples, 721);
    EXPECT_EQ(json["span_seconds"], 5.0 * (kept - 1));
    const int points = (kept - 1) / stride;
    Json batches = Json::array();
    Json seconds = Json::array();
    for (int p = points - 1; p >= 0; --p) {
      const double to = samples - 1 - stride * p;
      batches.push_back((to * to - (to - stride) * (to - stride)) / (5.0 * stride));
      seconds.push_back(-5.0 * stride * p);
    }
    EXPECT_EQ(json["series"]["batches"], batches) << samples;
    EXPECT_EQ(json["series"]["seconds"], seconds) << samples;
  }
}

TEST(HistoryTest, APaceIsThatOfTheLastFiveMinutesOfTheFirstEpochs) {
  History history;
  std::vector<EpochProgress> progress(History::kMostEpochs + 1);
  for (size_t e = 0; e < progress.size(); ++e) progress[e].key = {"run", e};
  for (uint64_t i = 0; i <= 60; ++i) {
    for (EpochProgress& epoch : progress) epoch.num_done = i * i;
    history.Add(absl::UnixEpoch() + static_cast<int>(i) * History::kInterval, {}, progress);
  }
  EXPECT_EQ(history.BatchesPerSecond({"run", 63}), (3600 - 1) / (59 * 5.0));
  EXPECT_EQ(history.BatchesPerSecond({"run", 64}), std::nullopt);
}

TEST(HistoryTest, AnEpochsPaceBeginsAnewWhenItGoesBack) {
  History history;
  const EpochKey key = {"run", 3};
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(history.BatchesPerSecond(key), std::nullopt);
  history.Add(start, {}, {{key, 1, 10, 100, ""}});
  history.Add(start + absl::Seconds(5), {}, {{key, 1, 30, 100, ""}});
  EXPECT_DOUBLE_EQ(history.BatchesPerSecond(key).value(), 4.0);
  history.Add(start + absl::Seconds(10), {}, {{key, 2, 5, 100, ""}});
  EXPECT_EQ(history.BatchesPerSecond(key), std::nullopt);
  history.Add(start + absl::Seconds(15), {}, {});
  EXPECT_EQ(history.BatchesPerSecond(key), std::nullopt);
}

TEST(EpochWatchTest, HasWhatTheServerTells) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EpochWatch epoch;
  epoch.progress.key.epoch = 1;
  epoch.progress.generation = 2;
  epoch.progress.num_done = 3;
  epoch.progress.num_batches = 13;
  epoch.num_leased = 4;
  epoch.num_sessions = 5;
  epoch.counters.leased = 6;
  epoch.counters.redelivered = 7;
  epoch.counters.expired = 8;
  epoch.counters.given_back = 9;
  epoch.queues.emplace_back();
  epoch.queues[0].num_batches = 10;
  epoch.queues[0].num_done = 11;
  epoch.queues[0].num_given_back = 12;
  for (const SessionWait wait :
       {SessionWait::kWorker, SessionWait::kServer, SessionWait::kNobody}) {
    WorkerWatch& worker = epoch.workers.emplace_back();
    worker.wait = wait;
    worker.last_heard = now;
  }
  WorkerWatch& worker = epoch.workers[0];
  worker.queue = 14;
  worker.reader = 15;
  worker.num_readers = 16;
  worker.worker = "w";
  worker.num_steps = 17;
  worker.num_done = 18;
  worker.num_acknowledged = 19;
  worker.num_in_flight = 20;
  worker.last_heard = now - absl::Seconds(31);
  worker.shares_memory = true;
  epoch.workers[1].last_heard = absl::InfinitePast();
  epoch.workers[1].has_ended = true;
  Json json = EpochWatchJson(epoch, 2.5, now);
  EXPECT_EQ(json["workers"][0], Json::parse(R"({"queue": 14, "reader": 15, "readers": 16,
      "worker": "w", "steps": 17, "done": 18, "acknowledged": 19, "in_flight": 20,
      "silent_seconds": 31.0, "ended": false, "waits": "worker", "transport": "lane",
      "straggles": true})"));
  EXPECT_EQ(json["workers"][1]["silent_seconds"], Json());
  EXPECT_EQ(json["workers"][1]["ended"], true);
  EXPECT_EQ(json["workers"][1]["waits"], "server");
  EXPECT_EQ(json["workers"][1]["transport"], "grpc");
  EXPECT_EQ(json["workers"][2]["waits"], "nobody");
  EXPECT_EQ(json["workers"][2]["straggles"], false);
  json.erase("workers");
  EXPECT_EQ(json, Json::parse(R"({"epoch": 1, "generation": 2, "done": 3, "batches": 13,
      "ranked": false, "in_flight": 4, "num_sessions": 5, "step_efficiency": null, "company": null,
      "leased": 6, "redelivered": 7, "expired": 8, "given_back": 9, "batches_per_second": 2.5,
      "seconds_left": 4.0, "queues": [{"batches": 10, "done": 11, "given_back": 12}]})"));
  epoch.is_ranked = true;
  EXPECT_EQ(EpochWatchJson(epoch, 2.5, now)["ranked"], true);
  EXPECT_EQ(EpochWatchJson(epoch, 0, now)["seconds_left"], Json());
  EXPECT_EQ(EpochWatchJson(epoch, std::nullopt, now)["seconds_left"], Json());
  for (const uint64_t done : {13, 14}) {
    epoch.progress.num_done = done;
    EXPECT_EQ(EpochWatchJson(epoch, std::nullopt, now)["seconds_left"], 0);
  }
}

TEST(EpochWatchTest, StepsAndCompanyAreNullWhereTheyAreNotKnown) {
  EpochWatch epoch;
  const auto told = [&](const char* name) {
    return EpochWatchJson(epoch, std::nullopt, absl::UnixEpoch())[name];
  };
  EXPECT_EQ(told("step_efficiency"), Json());
  EXPECT_EQ(told("company"), Json());
  epoch.progress.step_efficiency = 0.5;
  epoch.progress.company = 1.25;
  EXPECT_EQ(told("step_efficiency"), Json(0.5));
  EXPECT_EQ(told("company"), Json(1.25));
}

TEST(StragglersTest, ARankFarBehindTheMedianStraggles) {
  EpochWatch epoch;
  epoch.is_ranked = true;
  for (const uint64_t done : {50, 49, 48, 20}) {
    epoch.workers.emplace_back().num_steps = 100;
    epoch.workers.back().num_done = done;
  }
  EXPECT_THAT(Stragglers(epoch, absl::UnixEpoch()), ElementsAre(false, false, false, true));
  epoch.workers.resize(1);
  EXPECT_THAT(Stragglers(epoch, absl::UnixEpoch()), ElementsAre(false));
}

TEST(StragglersTest, RanksMayBeBehindByATenthOfTheirStepsOrThree) {
  for (const auto& [steps, left, expected] :
       std::vector<std::tuple<uint64_t, std::vector<uint64_t>, std::vector<bool>>>{
           {10, {0, 3}, {false, false}},
           {10, {0, 4}, {false, true}},
           {100, {0, 10}, {false, false}},
           {100, {11, 0}, {true, false}},
           {100, {5, 20, 30}, {false, false, false}},
           {100, {5, 20, 31}, {false, false, true}},
           {100, {17, 5, 16, 0}, {true, false, true, false}}}) {
    EpochWatch epoch;
    epoch.is_ranked = true;
    for (const uint64_t each : left) {
      epoch.workers.emplace_back().num_steps = steps;
      epoch.workers.back().num_done = steps - each;
    }
    EXPECT_EQ(Stragglers(epoch, absl::UnixEpoch()), expected) << left.back();
  }
}

TEST(StragglersTest, SilenceIsHalfAMinute) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  for (const auto& [seconds, expected] :
       std::vector<std::pair<std::vector<int>, std::vector<bool>>>{
           {{29, 30}, {false, true}}, {{1, 29}, {false, false}}, {{30, 31}, {false, false}}}) {
    EpochWatch epoch;
    for (const int each : seconds) {
      epoch.workers.emplace_back().last_heard = now - absl::Seconds(each);
      epoch.workers.back().num_in_flight = 1;
    }
    EXPECT_EQ(Stragglers(epoch, now), expected) << seconds[0];
  }
}

TEST(StragglersTest, ASilentWorkerStragglesWhileAnotherIsHeard) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EpochWatch epoch;
  for (const int seconds : {1, 31, 31}) {
    epoch.workers.emplace_back().last_heard = now - absl::Seconds(seconds);
    epoch.workers.back().num_in_flight = 2;
  }
  epoch.workers[2].num_in_flight = 0;
  EXPECT_THAT(Stragglers(epoch, now), ElementsAre(false, true, false));
  // If nobody is heard, nobody is slower than others.
  EXPECT_THAT(Stragglers(epoch, now + absl::Minutes(1)), ElementsAre(false, false, false));
}

TEST(WaitingTest, TheServerWaitsForStreamsThatHaveWhatTheyMay) {
  EXPECT_EQ(WaitingOf(ServerReading::Streams{"Pack", 2, 4}).awaited, 2);
  EXPECT_EQ(WaitingOf(ServerReading::Streams{"Pack", 4, 1}).awaited, 0);
  // Small responses may be more than two.
  EXPECT_EQ(WaitingOf(ServerReading::Streams{"Pack", 1, 9}).awaited, 1);
  DeliverySnapshot delivery;
  delivery.jobs["train"] = {.num_sessions = 3, .num_awaited = 1};
  delivery.jobs["validate"] = {.num_sessions = 1, .num_starved = 2};
  const Waiting all = WaitingOf(delivery);
  EXPECT_EQ(all.open, 4U);
  EXPECT_EQ(all.awaited, 1U);
  EXPECT_EQ(all.starved, 2U);
}

// Zeros of a server that offers lanes are not those of one that offers none.
TEST(OverviewJsonTest, HasWhatWasRead) {
  ServerReading reading;
  reading.state.version = "1.2";
  reading.state.page_digest = "digest";
  reading.state.grpc_address = "host:1";
  reading.state.is_draining = true;
  reading.state.not_ready = {{"a reason", "a why"}};
  reading.served.batches = 1;
  reading.served.graphs = 2;
  reading.served.bytes = 3;
  reading.memory = {{"share", 4, 5}};
  reading.disks = {{"disk", 6, 7, 8}, {"other", 9, 10, std::nullopt}};
  reading.streams = {{"Pack", 11, 7}, {"Load", 12, 13}, {"Sample", 0, 14}, {"Few", 2, 14}};
  reading.pending_graphs = 15;
  reading.num_connections = 16;
  reading.max_connections = 17;
  reading.delivery.num_epochs = 18;
  reading.delivery.totals.leased = 19;
  reading.delivery.totals.redelivered = 20;
  reading.delivery.totals.acknowledged = 21;
  reading.delivery.totals.expired = 22;
  EXPECT_EQ(OverviewJson(reading, Json("a history"), absl::UnixEpoch() + absl::Milliseconds(23)),
            Json::parse(R"({
      "state": {"version": "1.2", "page": "digest", "grpc": "host:1", "draining": true,
                "not_ready": [{"reason": "a reason", "why": "a why"}]},
      "time": 23, "totals": {"batches": 1, "graphs": 2, "bytes": 3}, "history": "a history",
      "memory": [{"name": "share", "held": 4, "most": 5}],
      "disks": [{"name": "disk", "bytes": 6, "most": 7, "free": 8},
                {"name": "other", "bytes": 9, "most": 10, "free": null}],
      "waiting": [{"what": "Pack", "open": 11, "awaited": 3, "starved": 0},
                  {"what": "Few", "open": 2, "awaited": 2, "starved": 0}],
      "pending_graphs": 15, "connections": {"open": 16, "most": 17}, "lanes": null,
      "delivery": {"epochs": 18, "sessions": 0, "in_flight": 0, "leased": 19, "redelivered": 20,
                   "acknowledged": 21, "expired": 22}})"));
  reading.delivery.jobs["j"] = {23, 24, 25, 26};
  const Json json = OverviewJson(reading, Json::object(), absl::UnixEpoch());
  EXPECT_EQ(json["waiting"].size(), 3U);
  EXPECT_EQ(json["waiting"].back(),
            Json({{"what", "Load"}, {"open", 24}, {"awaited", 26}, {"starved", 25}}));
  EXPECT_EQ(json["delivery"]["sessions"], 24);
  EXPECT_EQ(json["delivery"]["in_flight"], 23);
}

TEST(OverviewJsonTest, LanesAreThoseOfAServerThatOffersThem) {
  ServerReading reading;
  const auto lanes = [&reading] {
    return OverviewJson(reading, Json::object(), absl::UnixEpoch())["lanes"];
  };
  EXPECT_EQ(lanes(), Json());
  reading.lanes.emplace();
  EXPECT_EQ(lanes(), Json({{"open", 0}, {"offered", 0}, {"batches", 0}, {"slots", 0}}));
  reading.lanes = ServerReading::Lanes{.open = 2, .offered = 3, .num_batches = 70, .num_slots = 5};
  EXPECT_EQ(lanes(), Json({{"open", 2}, {"offered", 3}, {"batches", 70}, {"slots", 5}}));
}

TEST(JsonTextTest, NamesThatAreNoTextAreReplaced) {
  EXPECT_THAT(JsonText({{"name", "a\xff"}}), HasSubstr("a\xef\xbf\xbd"));
}

}  // namespace
}  // namespace packhouse::page
