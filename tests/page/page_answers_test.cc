// What the page asks of the server's own calls, and what it makes of their answers and errors.
#include "service/wings/page/page_answers.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/feedback.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/access/authorizer.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/page/heat_map.h"
#include "service/wings/page/history.h"
#include "service/wings/page/next_fit.h"
#include "service/wings/page/page_json.h"
#include "service/wings/page/page_query.h"
#include "tests/support/status_matchers.h"

namespace packhouse::page {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A server that has one or two of everything, and more than are listed of what `endless` lists. Its
// call number `failing` fails with `code`.
class OneOfEach final : public PageCalls {
 public:
  absl::Status Call(const std::string& method, const Viewer& /*viewer*/,
                    const google::protobuf::Message& request, google::protobuf::Message& response,
                    StopSwitch& /*stop*/) override {
    const std::string name = Note(method, request);
    if (asked.size() == failing + 1) return absl::Status(code, "it failed");
    const size_t copies = name == endless ? PageAnswers::kMostListed + 1 : 1;
    if (name == "ListDatasets") {
      // On two pages.
      const bool is_second =
          !static_cast<const v1::ListDatasetsRequest&>(request).page_token().empty();
      auto& page = static_cast<v1::ListDatasetsResponse&>(response);
      for (size_t i = 0; i < copies; ++i) {
        v1::Dataset& dataset = *page.add_datasets();
        dataset.set_name(is_second ? "e" : "d");
        dataset.set_num_graphs(is_second ? 5 : 4);
        dataset.mutable_schema()->add_components("nodes");
      }
      if (!is_second) page.set_next_page_token("more");
    } else if (name == "GetDataset") {
      auto& got = static_cast<v1::GetDatasetResponse&>(response);
      got.mutable_drift()->set_num_changes(3);
      *got.mutable_histogram() = histogram;
    } else if (name == "GetHistogram") {
      *static_cast<v1::GetHistogramResponse&>(response).mutable_histogram() = histogram;
    } else if (name == "ListHistograms") {
      static_cast<v1::ListHistogramsResponse&>(response).add_histograms("h");
    } else if (name == "ListSourceGraphs") {
      for (size_t i = 0; i < copies; ++i) {
        static_cast<v1::ListSourceGraphsResponse&>(response).add_graphs()->set_name("g");
      }
    } else if (name == "ListModels") {
      for (size_t i = 0; i < copies; ++i) {
        static_cast<v1::ListModelsResponse&>(response).add_models()->set_model("m");
      }
    } else if (name == "ListJobs") {
      v1::Job& job = *static_cast<v1::ListJobsResponse&>(response).add_jobs();
      job.set_job("j");
      for (int i = 0; i < 101; ++i) job.add_epochs();
      static_cast<v1::ListJobsResponse&>(response).set_next_page_token("next");
    } else if (name == "GetJob") {
      static_cast<v1::Job&>(response).set_job("j");
      for (int i = 0; i < 101; ++i) static_cast<v1::Job&>(response).add_epochs();
    } else if (name == "Plan") {
      auto& plan = static_cast<v1::PlanResponse&>(response);
      plan.mutable_best()->set_packs(7);
      for (const uint64_t capacity : {9, 0, 0}) {
        plan.mutable_best()->add_components()->set_capacity(capacity);
      }
      plan.add_summaries()->set_packs(8);
    }
    return absl::OkStatus();
  }
  absl::Status CallStreaming(const std::string& method, const Viewer& /*viewer*/,
                             const google::protobuf::Message& request,
                             absl::FunctionRef<absl::Status(const std::string&)> each,
                             StopSwitch& /*stop*/) override {
    Note(method, request);
    if (asked.size() == failing + 1) return absl::Status(code, "it failed");
    for (const std::string& bytes : streamed) {
      if (absl::Status taken = each(bytes); !taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  v1::Histogram histogram;
  std::vector<std::string> streamed;
  std::string endless;
  size_t failing = SIZE_MAX;
  absl::StatusCode code = absl::StatusCode::kOk;
  // Methods, and the last request of each.
  std::vector<std::string> asked;
  std::map<std::string, std::string> requests;

 private:
  std::string Note(const std::string& method, const google::protobuf::Message& request) {
    const std::string name = method.substr(method.rfind('/') + 1);
    asked.push_back(name);
    requests[name] = request.SerializeAsString();
    return name;
  }
};

class PageAnswersOfCallsTest : public testing::Test {
 protected:
  PageAnswersOfCallsTest() {
    EXPECT_THAT(sizes_.Add({3, 7}, 5), IsOk());
    EXPECT_THAT(sizes_.Add({2, 9}, 4), IsOk());
    HistogramToWire(sizes_, schema_, server_.histogram);
  }

  absl::StatusOr<Json> Ask(const std::string& what, const std::string& text = "") {
    server_.asked.clear();
    PH_ASSIGN_OR_RETURN(const PageQuery query, PageQuery::Parse(text));
    const PageAnswers answers(&server_, nullptr, {}, &stop_);
    if (what == "sources") return answers.Sources();
    if (what == "sizes") return answers.Sizes(query);
    if (what == "plan") return answers.Plan(query);
    if (what == "tune") return answers.Tune(query);
    if (what == "jobs") return answers.Jobs(query);
    if (what == "data") return answers.Data({});
    return answers.Job(
        query, [](const std::string&) { return std::vector<EpochWatch>(1); }, History(),
        absl::UnixEpoch());
  }
  template <typename Request>
  Request Asked(const std::string& name) {
    Request request;
    EXPECT_TRUE(request.ParseFromString(server_.requests[name])) << name;
    return request;
  }

  SizeHistogram sizes_{2};
  const SizeSchema schema_ = SizeSchema::NodesAndEdges();
  OneOfEach server_;
  StopSwitch stop_;
};

// But for what was deleted or damaged since it was listed, and what a server without a folder for
// data has none of.
TEST_F(PageAnswersOfCallsTest, ErrorsOfEachCallAreTheAnswers) {
  using Code = absl::StatusCode;
  const std::set<std::pair<std::string, std::string>> without_folder = {
      {"sources", "ListDatasets"},
      {"data", "ListDatasets"},
      {"data", "ListSourceGraphs"},
      {"jobs", "ListJobs"}};
  for (const auto& [what, query] :
       std::vector<std::pair<std::string, std::string>>{{"sources", ""},
                                                        {"sizes", "source=dataset/d"},
                                                        {"sizes", "source=histogram/h"},
                                                        {"plan", "source=histogram/h&compare=1"},
                                                        {"tune", "source=dataset/d"},
                                                        {"jobs", ""},
                                                        {"job", "name=j"},
                                                        {"data", ""}}) {
    server_.failing = SIZE_MAX;
    ASSERT_THAT(Ask(what, query), IsOk());
    const std::vector<std::string> methods = server_.asked;
    ASSERT_FALSE(methods.empty());
    for (size_t call = 0; call < methods.size(); ++call) {
      for (const Code code : {Code::kNotFound, Code::kFailedPrecondition, Code::kPermissionDenied,
                              Code::kDataLoss, Code::kUnavailable}) {
        SCOPED_TRACE(absl::StrCat(what, ": ", methods[call], " ", code));
        server_.failing = call;
        server_.code = code;
        const bool is_left_out =
            (code == Code::kFailedPrecondition && without_folder.count({what, methods[call]})) ||
            (what == "data" && methods[call] == "GetDataset" &&
             (code == Code::kNotFound || code == Code::kDataLoss));
        const auto answer = Ask(what, query);
        EXPECT_EQ(answer.status().code(), is_left_out ? Code::kOk : code);
        EXPECT_EQ(answer.status().message(), is_left_out ? "" : "it failed");
        EXPECT_TRUE(is_left_out || server_.asked.size() == call + 1);
      }
    }
  }
}

TEST_F(PageAnswersOfCallsTest, WhatIsNotAsItMustBeIsRefusedAndNotAsked) {
  for (const auto& [what, wrong] :
       std::vector<std::pair<std::string, std::string>>{{"plan", "limit=nodes"},
                                                        {"plan", "limit=nodes:x"},
                                                        {"plan", "steps=x"},
                                                        {"plan", "seed=-1"},
                                                        {"plan", "patterns=501"},
                                                        {"tune", "max=nodes"},
                                                        {"tune", "multiple=nodes"},
                                                        {"tune", "bytes=nodes"},
                                                        {"tune", "memory=x"},
                                                        {"tune", "steps=x"},
                                                        {"sizes", "bins=0"},
                                                        {"sizes", "bins=65"},
                                                        {"sizes", "x=none"},
                                                        {"sizes", "y=none"},
                                                        {"sizes", "x=graphs"},
                                                        {"sizes", "y=graphs"}}) {
    EXPECT_THAT(Ask(what, "source=histogram/h&" + wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::_))
        << what << wrong;
    // The sizes alone, which come first.
    EXPECT_THAT(server_.asked, testing::AnyOf(IsEmpty(), ElementsAre("GetHistogram")));
  }
  for (const char* const source : {"", "d", "other/d"}) {
    EXPECT_THAT(Ask("sizes", absl::StrCat("source=", source)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("none of")));
  }
}

TEST_F(PageAnswersOfCallsTest, AMapIsOfTheComponentsThatAreAskedFor) {
  const auto map = [&](size_t x, size_t y, size_t bins = kMostBins, bool is_log = false) {
    HeatMapOptions options;
    options.x = x;
    options.y = y;
    options.num_bins = bins;
    options.is_log = is_log;
    return HeatMapJson(sizes_, schema_, options);
  };
  EXPECT_THAT(Ask("sizes", "source=histogram/h"), IsOkAndHolds(map(0, 1)));
  EXPECT_THAT(Ask("sizes", "source=histogram/h&x=edges"), IsOkAndHolds(map(1, 0)));
  EXPECT_THAT(Ask("sizes", "source=histogram/h&y=nodes"), IsOkAndHolds(map(0, 0)));
  EXPECT_THAT(Ask("sizes", "source=histogram/h&bins=3&scale=log"),
              IsOkAndHolds(map(0, 1, 3, true)));
  PH_ASSERT_OK_AND_ASSIGN(const Json of_dataset, Ask("sizes", "source=dataset/d"));
  EXPECT_TRUE(of_dataset.contains("bytes_per_row"));
  EXPECT_FALSE(of_dataset.contains("sample_of"));
  SizeHistogram single(1);
  ASSERT_THAT(single.Add({4}, 2), IsOk());
  HistogramToWire(single, SizeSchema::Create({"n"}).value(), server_.histogram);
  PH_ASSERT_OK_AND_ASSIGN(const Json of_one, Ask("sizes", "source=histogram/h"));
  EXPECT_EQ(of_one["y"], Json());
}

TEST_F(PageAnswersOfCallsTest, AnAnswerHasWhatTheCallsAnswered) {
  PH_ASSERT_OK_AND_ASSIGN(const Json sources, Ask("sources"));
  EXPECT_EQ(sources, Json::parse(R"({"datasets": [
      {"name": "d", "graphs": 4, "components": ["nodes"]},
      {"name": "e", "graphs": 5, "components": ["nodes"]}],
      "histograms": [{"name": "h"}], "streams": []})"));
  PH_ASSERT_OK_AND_ASSIGN(const Json data, Ask("data"));
  EXPECT_EQ(data["datasets"].size(), 2U);
  EXPECT_EQ(data["datasets"][1]["drift"]["changes"], 3);
  EXPECT_EQ(data["source_graphs"][0]["name"], "g");
  EXPECT_EQ(data["models"][0]["model"], "m");
  EXPECT_EQ(data["more"], false);
  EXPECT_EQ(data["has_data"], true);

  PH_ASSERT_OK_AND_ASSIGN(const Json jobs, Ask("jobs", "page=token"));
  EXPECT_EQ(jobs["jobs"][0]["job"], "j");
  EXPECT_EQ(jobs["jobs"][0]["epochs"].size(), 3U);
  EXPECT_EQ(jobs["next"], "next");
  const auto list = Asked<v1::ListJobsRequest>("ListJobs");
  EXPECT_EQ(list.page_token(), "token");
  EXPECT_GT(list.page_size(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const Json job, Ask("job", "name=train"));
  EXPECT_EQ(job["job"], "j");
  EXPECT_EQ(job["epochs"].size(), 100U);
  EXPECT_EQ(job["loading"].size(), 1U);
  EXPECT_EQ(Asked<v1::GetJobRequest>("GetJob").job(), "train");

  PH_ASSERT_OK_AND_ASSIGN(Json plan, Ask("plan", "source=histogram/h"));
  EXPECT_EQ(plan["best"]["packs"], 7);
  EXPECT_FALSE(plan.contains("plan") || plan.contains("others") || plan.contains("next_fit"));
  auto asked = Asked<v1::PlanRequest>("Plan");
  EXPECT_TRUE(asked.summaries_only());
  EXPECT_FALSE(asked.include_baselines() || asked.include_tuple_packing());
  EXPECT_EQ(asked.histogram().SerializeAsString(), server_.histogram.SerializeAsString());
  PH_ASSERT_OK_AND_ASSIGN(plan, Ask("plan", "source=histogram/h&compare=1&patterns=5"));
  EXPECT_EQ(plan["plan"]["num_patterns"], 0);
  EXPECT_EQ(plan["others"][0]["packs"], 8);
  const NextFitEstimate estimate = NextFitPacks(sizes_, {9, kUnlimited, kUnlimited}, 1);
  EXPECT_GT(estimate.packs, 1U);
  EXPECT_EQ(plan["next_fit"], Json({{"packs", estimate.packs}, {"is_exact", true}}));
  asked = Asked<v1::PlanRequest>("Plan");
  EXPECT_TRUE(asked.include_baselines() && asked.include_tuple_packing());
  EXPECT_FALSE(asked.summaries_only());
}

TEST_F(PageAnswersOfCallsTest, AListThatIsCutIsTold) {
  for (const char* const list : {"ListDatasets", "ListSourceGraphs", "ListModels"}) {
    server_.endless = list;
    PH_ASSERT_OK_AND_ASSIGN(const Json data, Ask("data"));
    EXPECT_EQ(data["more"], true) << list;
    const size_t listed =
        data["datasets"].size() + data["source_graphs"].size() + data["models"].size();
    EXPECT_EQ(listed, PageAnswers::kMostListed + (list == std::string("ListDatasets") ? 2 : 3))
        << list;
  }
}

TEST_F(PageAnswersOfCallsTest, WithoutAFolderThereIsNoData) {
  server_.failing = 0;
  server_.code = absl::StatusCode::kFailedPrecondition;
  PH_ASSERT_OK_AND_ASSIGN(const Json data, Ask("data"));
  EXPECT_EQ(data["has_data"], false);
  EXPECT_EQ(data["datasets"].size(), 0U);
  EXPECT_EQ(data["models"].size(), 1U);
  EXPECT_EQ(data["more"], false);
}

TEST_F(PageAnswersOfCallsTest, QuotasAreOfWhatTheViewerMaySee) {
  const Authorizer authorizer(
      std::make_shared<const Policy>(*Policy::Create({{{"friend"}, Role::kViewer, {"team"}}}, {})));
  const std::vector<QuotaReading> quotas = {{"other", "epochs", 1, 2}, {"team", "epochs", 3, 4}};
  const auto namespaces = [&](const Authorizer* rights, const char* viewer) {
    const absl::StatusOr<Json> data = PageAnswers(&server_, rights, {viewer}, &stop_).Data(quotas);
    EXPECT_THAT(data, IsOk());
    std::vector<std::string> seen;
    for (const Json& each : (*data)["quotas"]) seen.push_back(each["namespace"]);
    return seen;
  };
  EXPECT_THAT(namespaces(nullptr, ""), ElementsAre("other", "team"));
  EXPECT_THAT(namespaces(&authorizer, "friend"), ElementsAre("team"));
  EXPECT_THAT(namespaces(&authorizer, "stranger"), IsEmpty());
}

TEST_F(PageAnswersOfCallsTest, AJobHasThePaceOfItsEpochs) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EpochWatch epoch;
  epoch.progress.key = {"train", 3};
  epoch.progress.num_batches = 100;
  epoch.workers.emplace_back().last_heard = now - absl::Seconds(7);
  History history;
  history.Add(now - absl::Seconds(5), {}, {{epoch.progress.key, 1, 10, 100}});
  history.Add(now, {}, {{epoch.progress.key, 1, 30, 100}});
  std::string watched;
  PH_ASSERT_OK_AND_ASSIGN(const PageQuery query, PageQuery::Parse("name=train"));
  PH_ASSERT_OK_AND_ASSIGN(const Json job, PageAnswers(&server_, nullptr, {}, &stop_)
                                              .Job(
                                                  query,
                                                  [&](const std::string& name) {
                                                    watched = name;
                                                    return std::vector<EpochWatch>{epoch};
                                                  },
                                                  history, now));
  EXPECT_EQ(watched, "train");
  EXPECT_EQ(job["loading"], Json::array({EpochWatchJson(epoch, 4.0, now)}));
}

TEST_F(PageAnswersOfCallsTest, ATuningHasItsFrontierAndWhatIsRecommended) {
  v1::TuneResponse event;
  event.mutable_progress();
  server_.streamed.push_back(event.SerializeAsString());
  for (const uint64_t packs : {11, 12}) {
    event.mutable_frontier()->set_packs(packs);
    server_.streamed.push_back(event.SerializeAsString());
  }
  v1::TuneRecommendation& recommendation = *event.mutable_recommendation();
  recommendation.mutable_single_shape()->set_packs(13);
  recommendation.set_exact(true);
  recommendation.set_least_cost(0.5);
  recommendation.mutable_oversize()->set_num_graphs(14);
  recommendation.add_reasons("why");
  server_.streamed.push_back(event.SerializeAsString());
  PH_ASSERT_OK_AND_ASSIGN(Json tuned, Ask("tune", "source=dataset/d&steps=15&max=nodes:16"));
  EXPECT_EQ(tuned["shape"]["packs"], 13);
  ASSERT_EQ(tuned["frontier"].size(), 2U);
  EXPECT_EQ(tuned["frontier"][0]["packs"], 11);
  EXPECT_EQ(tuned["frontier"][1]["packs"], 12);
  tuned.erase("shape");
  tuned.erase("frontier");
  EXPECT_EQ(tuned, Json::parse(R"({"exact": true, "least_cost": 0.5, "oversize": 14,
                                   "reasons": ["why"]})"));
  const auto asked = Asked<v1::TuneRequest>("Tune");
  EXPECT_EQ(asked.budget_steps(), 15U);
  EXPECT_EQ(asked.histogram().SerializeAsString(), server_.histogram.SerializeAsString());
  server_.streamed.push_back("no message");
  EXPECT_THAT(Ask("tune", "source=dataset/d"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("bad response")));
}

}  // namespace
}  // namespace packhouse::page
