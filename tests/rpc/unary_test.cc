#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "service/engine/histograms/histogram_file.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class UnaryTest : public ServerTest {
 protected:
  absl::Status Merge(const std::string& text, v1::MergeHistogramResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::MergeHistogramRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    v1::MergeHistogramResponse ignored;
    return ToAbsl(v1::HistogramService::NewStub(channel_)->MergeHistogram(
        &context, request, response != nullptr ? response : &ignored));
  }
  absl::Status Plan(const std::string& text, v1::PlanResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::PlanRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    v1::PlanResponse ignored;
    return ToAbsl(v1::PlanningService::NewStub(channel_)->Plan(
        &context, request, response != nullptr ? response : &ignored));
  }
  v1::GetHistogramResponse Get(const std::string& name) {
    grpc::ClientContext context;
    v1::GetHistogramRequest request;
    request.set_histogram(name);
    v1::GetHistogramResponse response;
    EXPECT_THAT(
        ToAbsl(v1::HistogramService::NewStub(channel_)->GetHistogram(&context, request, &response)),
        IsOk());
    return response;
  }
  absl::Status Delete(const std::string& name) {
    grpc::ClientContext context;
    v1::DeleteHistogramRequest request;
    request.set_histogram(name);
    v1::DeleteHistogramResponse response;
    return ToAbsl(
        v1::HistogramService::NewStub(channel_)->DeleteHistogram(&context, request, &response));
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, UnaryTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

// One tuple (3, 5), counted 10 times.
constexpr char kTenGraphs[] = R"( { tuples: "\3\0\0\0\5\0\0\0" counts: "\x0a\0\0\0\0\0\0\0" } )";

TEST_P(UnaryTest, MergeSubtractDelete) {
  StartServer();
  v1::MergeHistogramResponse response;
  ASSERT_THAT(Merge(std::string("histogram: 'h' addend") + kTenGraphs, &response), IsOk());
  EXPECT_EQ(response.num_counted(), 10U);
  const std::string subtract = std::string("histogram: 'h' subtract: true addend") + kTenGraphs;
  ASSERT_THAT(Merge(subtract, &response), IsOk());
  EXPECT_EQ(response.num_graphs(), 0U);
  EXPECT_THAT(Merge(subtract), StatusIs(absl::StatusCode::kOutOfRange,
                                        HasSubstr("cannot remove 10 graphs of size (3, 5)")));
  EXPECT_THAT(Delete("h"), IsOk());
  EXPECT_THAT(Delete("h"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none named 'h'")));
  EXPECT_THAT(Merge(subtract), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  EXPECT_THAT(Merge("histogram: 'a b'"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name 'a b'")));
}

// Written where there is a folder, and only if one has changed since.
TEST_P(UnaryTest, HistogramsAreSavedWhereThereIsAFolder) {
  const auto is_there = [](const std::string& folder) {
    return std::filesystem::exists(absl::StrCat(folder, "/", kHistogramsFile));
  };
  ServerOptions options;
  options.histograms_folder = folder_.path();
  StartServer(options);
  ASSERT_THAT(server_->SaveHistograms(), IsOk());
  EXPECT_FALSE(is_there(folder_.path()));
  for (const uint64_t num_graphs : {10, 20}) {
    ASSERT_THAT(Merge(absl::StrCat("histogram: 'h' addend", kTenGraphs)), IsOk());
    ASSERT_THAT(server_->SaveHistograms(), IsOk());
    EXPECT_TRUE(is_there(folder_.path()));
    channel_ = nullptr;
    server_ = nullptr;
    StartServer(options);
    EXPECT_EQ(Get("h").histogram().num_graphs(), num_graphs);
  }
  ASSERT_THAT(Delete("h"), IsOk());
  ASSERT_THAT(server_->SaveHistograms(), IsOk());
  std::filesystem::remove(absl::StrCat(folder_.path(), "/", kHistogramsFile));
  ASSERT_THAT(server_->SaveHistograms(), IsOk());
  EXPECT_FALSE(is_there(folder_.path()));

  channel_ = nullptr;
  server_ = nullptr;
  StartServer();
  ASSERT_THAT(Merge(absl::StrCat("histogram: 'h' addend", kTenGraphs)), IsOk());
  const bool was_there = is_there("");
  EXPECT_THAT(server_->SaveHistograms(), IsOk());
  EXPECT_EQ(is_there(""), was_there);
  std::error_code ignored;
  if (!was_there) std::filesystem::remove(absl::StrCat("/", kHistogramsFile), ignored);
}

// What was not saved is to be saved the next time.
TEST_P(UnaryTest, HistogramsThatCannotBeSavedAreTold) {
  ServerOptions options;
  options.histograms_folder = folder_.path() + "/folder";
  std::filesystem::create_directory(options.histograms_folder);
  StartServer(options);
  ASSERT_THAT(Merge(absl::StrCat("histogram: 'h' addend", kTenGraphs)), IsOk());
  std::filesystem::remove(options.histograms_folder);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(server_->SaveHistograms().ok());
  std::filesystem::create_directory(options.histograms_folder);
  EXPECT_THAT(server_->SaveHistograms(), IsOk());
  EXPECT_TRUE(
      std::filesystem::exists(absl::StrCat(options.histograms_folder, "/", kHistogramsFile)));
}

TEST(ServerStartTest, WhatKeepsAServerFromStartingIsTold) {
  const TemporaryFolder folder{TemporaryFolder::InMemory()};
  std::ofstream(absl::StrCat(folder.path(), "/", kHistogramsFile)) << "no histograms";
  SimulatedClock clock;
  CountingObserver observer;
  const auto started = [&](const ServerOptions& options) {
    return Server::Start(options, &clock, &observer, &observer, nullptr).status();
  };
  const std::string nowhere = "unix:/nowhere/at/all";
  EXPECT_THAT(started({}), IsOk());
  ServerOptions options;
  options.address = nowhere;
  EXPECT_THAT(started(options),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(nowhere.substr(5))));
  options = {};
  options.lane_address = nowhere;
  EXPECT_FALSE(started(options).ok());
  options = {};
  options.histograms_folder = folder.path();
  EXPECT_THAT(started(options), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder.path())));
  options = {};
  options.max_message_bytes = 1;
  EXPECT_THAT(started(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_message_bytes")));
}

TEST_P(UnaryTest, HistogramsAreListedUntilTheyAreDeleted) {
  StartServer();
  const auto listed = [this] {
    grpc::ClientContext context;
    v1::ListHistogramsResponse response;
    EXPECT_THAT(
        ToAbsl(v1::HistogramService::NewStub(channel_)->ListHistograms(&context, {}, &response)),
        IsOk());
    return std::vector<std::string>(response.histograms().begin(), response.histograms().end());
  };
  EXPECT_THAT(listed(), ::testing::IsEmpty());
  for (const std::string name : {"team/b", "z", "a"}) {
    ASSERT_THAT(Merge(absl::StrCat("histogram: '", name, "' addend", kTenGraphs)), IsOk());
  }
  EXPECT_THAT(listed(), ::testing::ElementsAre("a", "team/b", "z"));
  EXPECT_THAT(Delete("team/b"), IsOk());
  EXPECT_THAT(listed(), ::testing::ElementsAre("a", "z"));
}

TEST_P(UnaryTest, OfAMergeThatComesAgainNothingIsCounted) {
  StartServer();
  for (const std::string subtract : {"", "subtract: true "}) {
    const std::string merge =
        absl::StrCat("histogram: 'h' producer_sequence { producer: 'p", subtract.size(),
                     "' sequence: 1 } ", subtract, "addend", kTenGraphs);
    for (const bool is_first : {true, false}) {
      v1::MergeHistogramResponse response;
      ASSERT_THAT(Merge(merge, &response), IsOk());
      EXPECT_EQ(response.num_counted(), is_first ? 10U : 0U);
      EXPECT_EQ(response.num_graphs(), subtract.empty() ? 10U : 0U);
    }
  }
}

TEST_P(UnaryTest, AMergeMakesAHistogramWithItsHalfLife) {
  StartServer();
  ASSERT_THAT(
      Merge(absl::StrCat("histogram: 'h' half_life { seconds: 60 nanos: 5 } addend", kTenGraphs)),
      IsOk());
  EXPECT_THAT(Merge(absl::StrCat("histogram: 'h' half_life { seconds: 61 } addend", kTenGraphs)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half_life 1m1s")));
  const v1::GetHistogramResponse made = Get("h");
  EXPECT_EQ(made.half_life().seconds(), 60);
  EXPECT_EQ(made.half_life().nanos(), 5);
  EXPECT_EQ(made.histogram().num_graphs(), 10U);
  EXPECT_EQ(made.revision(), 0U);
}

TEST_P(UnaryTest, TheRevisionOfASharedHistogramIsTold) {
  class SharedHistograms final : public HistogramStore {
   public:
    using HistogramStore::HistogramStore;
    absl::StatusOr<HistogramSnapshot> Get(absl::string_view name, absl::Time now) const override {
      auto snapshot = HistogramStore::Get(name, now);
      if (snapshot.ok()) snapshot->revision = 7;
      return snapshot;
    }
  };
  ServerOptions options;
  options.share_histograms = [](HistogramStore::Bounds bounds, MemoryBudget* memory) {
    return std::make_unique<SharedHistograms>(std::move(bounds), memory);
  };
  StartServer(options);
  ASSERT_THAT(Merge(absl::StrCat("histogram: 'h' addend", kTenGraphs)), IsOk());
  EXPECT_EQ(Get("h").revision(), 7U);
  EXPECT_FALSE(Get("h").has_half_life());
}

TEST_P(UnaryTest, PlanOfANamedAndOfAnInlineHistogramAreTheSame) {
  StartServer();
  ASSERT_THAT(Merge(std::string("histogram: 'h' addend") + kTenGraphs), IsOk());
  const std::string limits = R"(limits { capacities { component: 'nodes' rows: 9 }
                                         capacities { component: 'edges' rows: 99 } }
                                include_tuple_packing: true include_baselines: true
                                include_notebook: true )";
  v1::PlanResponse named;
  ASSERT_THAT(Plan(limits + "histogram_name: 'h'", &named), IsOk());
  v1::PlanResponse inlined;
  ASSERT_THAT(Plan(limits + "histogram" + kTenGraphs, &inlined), IsOk());
  EXPECT_EQ(named.plan().SerializeAsString(), inlined.plan().SerializeAsString());
  // Three a pack, by nodes.
  EXPECT_EQ(named.best().packs(), 4U);
  EXPECT_EQ(named.best().lower_bound(), 4U);
  EXPECT_EQ(named.best().lower_bound_name(), "volume of nodes");
  EXPECT_DOUBLE_EQ(named.best().components(0).efficiency(), 30.0 / 36);
  // The strong planner and first-fit decreasing; 8 priorities in two placements with two openings;
  // 6 of the notebook's; 3 baselines.
  EXPECT_EQ(named.summaries_size(), 2 + 2 * 2 * 8 + 6 + 3);
}

TEST_P(UnaryTest, PlanNamesWhatIsWrong) {
  StartServer();
  const std::string limits = "limits { capacities { component: 'nodes' rows: 9 } } ";
  EXPECT_THAT(Plan(limits), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("neither 'histogram' nor 'histogram_name'")));
  EXPECT_THAT(Plan(limits + "histogram_name: 'q'"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'q'")));
  EXPECT_THAT(
      Plan(std::string("histogram") + kTenGraphs),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no component has a capacity")));
  EXPECT_THAT(Plan(std::string("limits { capacities { component: 'nodes' rows: 2 } } histogram") +
                   kTenGraphs),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("10 graphs exceed the limits; the largest has size (3, 5): nodes "
                                 "3 > 2")));
  EXPECT_THAT(
      Plan(limits + "heuristics { priority { kind: 9 } } histogram" + kTenGraphs),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("priority.kind: unknown value 9")));
  EXPECT_THAT(Plan(limits +
                   "heuristics { algorithm: PLAN_ALGORITHM_SINGLE_COMPONENT "
                   "priority { component: 'faces' } } histogram" +
                   kTenGraphs),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown component 'faces'")));
  EXPECT_THAT(
      Plan(limits +
           "heuristics { priority { kind: PRIORITY_KIND_SUM weights: 1 } } "
           "histogram" +
           kTenGraphs),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 weights for 2 components")));
}

}  // namespace
}  // namespace packhouse::rpc
