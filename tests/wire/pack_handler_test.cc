#include "service/server/services/pack_handler.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/base/memory_budget.h"
#include "service/engine/streams/drift_watch.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/observe_handler.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PackHandlerTest : public ::testing::Test {
 protected:
  // Accepts a request in text format.
  absl::Status Accept(const std::string& text) {
    auto request = std::make_unique<v1::PackRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return handler_.Accept(std::move(request));
  }

  absl::Status AcceptSizes(const std::vector<uint32_t>& counts, uint64_t first_id) {
    auto request = std::make_unique<v1::PackRequest>();
    v1::SizeTable& sizes = *request->mutable_sizes();
    sizes.set_num_graphs(counts.size() / 2);
    sizes.set_counts(Uint32sToWire(counts));
    sizes.set_first_id(first_id);
    return handler_.Accept(std::move(request));
  }

  std::vector<v1::PackResponse> TakeAll() {
    std::vector<v1::PackResponse> responses;
    for (;;) {
      auto next = handler_.Next();
      EXPECT_THAT(next, IsOk());
      if (next.ok() && !*next && handler_.IsBusy()) continue;
      if (!next.ok() || !*next) return responses;
      responses.push_back(ToMessage(**next));
    }
  }

  void ExpectOpenRefused(const std::string& open, absl::StatusCode code,
                         const std::string& message) {
    EXPECT_THAT(Accept("open { " + open + " }"), StatusIs(code, HasSubstr(message)));
  }

  static constexpr char kLimits[] = "limits { capacities { component: 'nodes' rows: 10 } }";

  SimulatedClock clock_;
  HistogramStore histograms_{{}};
  UnwatchedStreams observers_;
  PackHandler handler_{&clock_, {},      &histograms_, &observers_,
                       nullptr, nullptr, nullptr,      TfgnnFormat()};
};

TEST_F(PackHandlerTest, TheFirstRequestMustOpenAndOnlyTheFirst) {
  EXPECT_THAT(AcceptSizes({1, 1}, 0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               HasSubstr("first request of a stream must carry")));
  EXPECT_THAT(Accept("flush {}"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("must carry 'open'")));
  EXPECT_THAT(Accept(""), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'open'")));
  ASSERT_THAT(Accept(std::string("open { ") + kLimits + "}"), IsOk());
  EXPECT_THAT(Accept(std::string("open { ") + kLimits + "}"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a second 'open'")));
  EXPECT_THAT(Accept(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("carries none")));
  EXPECT_THAT(Accept("graphs {}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("opened for sizes")));
}

TEST_F(PackHandlerTest, OpenedTellsWhatWasResolved) {
  ASSERT_THAT(Accept(R"(open {
      schema { components: 'nodes' components: 'edges'
               tensors { name: 'x' dtype: DATA_TYPE_FLOAT32 component: 'nodes' }
               tensors { name: 's' dtype: DATA_TYPE_INT32 component: 'edges' index_into: 'nodes' } }
      limits { capacities { component: 'nodes' rows: 10 }
               capacities { component: 'edges' rows: 20 }
               capacities { component: 'graphs' rows: 4 } }
      padding: PADDING_GRAPH })"),
              IsOk());
  const std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 1U);
  const v1::PackOpened& opened = responses[0].opened();
  EXPECT_EQ(opened.limits().capacities(0).rows(), 10U);
  EXPECT_EQ(opened.usable().capacities(0).rows(), 9U);
  EXPECT_EQ(opened.usable().capacities(1).rows(), 20U);
  EXPECT_EQ(opened.usable().capacities(2).component(), "graphs");
  EXPECT_EQ(opened.usable().capacities(2).rows(), 3U);
  EXPECT_EQ(opened.look_ahead(), 64U);
  EXPECT_EQ(opened.max_age(), 256U);
  EXPECT_EQ(opened.payload(), v1::PAYLOAD_GRAPHS);
  EXPECT_EQ(opened.batch_bytes(), 120U);
  EXPECT_THAT(AcceptSizes({1, 1}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("opened for whole graphs")));
}

TEST_F(PackHandlerTest, OpenNamesWhatIsWrong) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectOpenRefused("", invalid, "no component has a capacity above 0");
  ExpectOpenRefused("limits { capacities { component: 'nodes' rows: 0 } }", invalid,
                    "no component has a capacity above 0");
  ExpectOpenRefused("limits { capacities { component: 'faces' rows: 9 } }", invalid,
                    "unknown component 'faces'");
  ExpectOpenRefused(std::string(kLimits) + "look_ahead: 16385", invalid, "look_ahead: 16385");
  ExpectOpenRefused(std::string(kLimits) + "look_ahead: 64 max_age: 63", invalid, "max_age: 63");
  ExpectOpenRefused(std::string(kLimits) + "max_delay { seconds: -1 }", invalid, "max_delay: -1s");
  ExpectOpenRefused(std::string(kLimits) + "max_delay { seconds: 3601 }", invalid,
                    "max_delay: 1h1s, at most 1h");
  ExpectOpenRefused(std::string(kLimits) + "padding: 9", invalid, "padding: unknown value 9");
  ExpectOpenRefused(std::string(kLimits) + "payload: 9", invalid, "payload: unknown value 9");
  ExpectOpenRefused(std::string(kLimits) + "oversize_policy: 9", invalid,
                    "oversize_policy: unknown value 9");
  ExpectOpenRefused(std::string(kLimits) + "derived: DERIVED_TENSOR_MASKS", invalid,
                    "not for a stream of sizes");
  ExpectOpenRefused(std::string(kLimits) + "integer_width: INTEGER_WIDTH_COMPACT", invalid,
                    "integer_width: only for whole graphs");
  ExpectOpenRefused(std::string(kLimits) + "integer_width: 3", invalid,
                    "integer_width: unknown value 3");
  ExpectOpenRefused(std::string(kLimits) + "histogram: 'a b'", invalid, "name 'a b'");
  ExpectOpenRefused(R"(schema { tensors { name: 'y' dtype: DATA_TYPE_INT8 component: 'graphs'
                                          row_shape: 16777216 } }
                       limits { capacities { component: 'graphs' rows: 1000 } }
                       padding: PADDING_MASKED)",
                    invalid, "a padded batch would take 16777216000 bytes, at most");
  EXPECT_THAT(Accept(absl::StrCat("open { ", kLimits, "max_delay { seconds: 3600 } }")), IsOk());
}

TEST_F(PackHandlerTest, WhatDoesNotGoTogetherIsRefusedInWords) {
  const auto refused = [&](const std::string& open, const std::string& message) {
    EXPECT_THAT(Accept("open { " + open + " }"),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  };
  const std::string limits(kLimits);
  const std::string cut = "oversize_policy: OVERSIZE_POLICY_PARTITION ";
  const std::string needs = "oversize_policy: OVERSIZE_POLICY_PARTITION needs ";
  const std::string device =
      "device_profile { components { component: 'nodes' min_rows: 9 max_rows: 40 } } padding: "
      "PADDING_TFGNN ";
  const std::string least = "min_rows { component: 'nodes' rows: 1 } ";
  const std::string schema =
      "schema { components: 'nodes' tensors { name: 'x' dtype: DATA_TYPE_INT8 component: 'nodes' "
      "} } ";
  refused(limits + cut, needs + "whole graphs");
  refused(schema + device + cut, needs + "limits, and takes no device_profile");
  refused(schema + limits + "padding: PADDING_TFGNN " + least + cut,
          needs + "a stream without min_rows");
  refused(schema + device + least, "min_rows: not with a device profile: name the limits");
  refused(
      "schema { components: 'nodes' tensors { name: 'g' dtype: DATA_TYPE_INT32 component: "
      "'graphs' index_into: 'nodes' } } " +
          limits + cut,
      "oversize_policy: graphs of this schema cannot be cut: the index tensor 'g' is about "
      "graphs");
  refused(limits + "derived: 99", "derived: unknown value 99");
  refused(limits + "min_rows { component: 'q' }", "min_rows: unknown component 'q'");
  ASSERT_THAT(Accept("open { " + limits + " }"), IsOk());
  EXPECT_THAT(Accept("slot_graphs {}"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "'slot_graphs' in a stream without a lane for graphs"));
  EXPECT_THAT(Accept("examples {}"), StatusIs(absl::StatusCode::kInvalidArgument,
                                              "'examples' in a stream that was opened for sizes"));
  EXPECT_THAT(Accept(""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "the request carries none of 'graphs', 'sizes', 'examples', 'flush'"));
}

TEST_F(PackHandlerTest, AStreamIsListedFromItsOpeningToItsEnd) {
  LiveStreams streams(/*memory=*/nullptr);
  {
    PackHandler handler(&clock_, {}, &histograms_, &observers_);
    handler.ListAmong(&streams, {"client", "principal"});
    EXPECT_THAT(streams.List(), testing::IsEmpty());
    auto request = std::make_unique<v1::PackRequest>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("open { histogram: 'h' ", kLimits, " }"), request.get()));
    ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
    request = std::make_unique<v1::PackRequest>();
    request->mutable_sizes()->set_num_graphs(3);
    request->mutable_sizes()->set_counts(Uint32sToWire({1, 1, 11, 1, 2, 1}));
    ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
    const std::vector<LiveStreams::Stream> listed = streams.List();
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(listed[0].client, "client");
    EXPECT_EQ(listed[0].principal, "principal");
    EXPECT_EQ(listed[0].name, "h");
    EXPECT_EQ(listed[0].opened, clock_.Now());
    EXPECT_THAT(listed[0].components, ElementsAre("nodes", "edges"));
    // Those that are rejected, too.
    EXPECT_EQ(listed[0].num_graphs, 3U);
  }
  EXPECT_THAT(streams.List(), testing::IsEmpty());
}

TEST_F(PackHandlerTest, SizesAreCountedInAHistogramWithoutTheRejected) {
  ASSERT_THAT(Accept(std::string("open { ") + kLimits + "histogram: 'h' }"), IsOk());
  ASSERT_THAT(AcceptSizes({1, 5, 11, 5, 2, 5}, 100), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, histograms_.Get("h", clock_.Now()));
  EXPECT_EQ(snapshot.histogram.num_graphs(), 2U);
  EXPECT_EQ(snapshot.histogram.CountOf({11, 5}), 0U);
  const std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 2U);
  ASSERT_EQ(responses[1].rejected().rejections_size(), 1);
  const v1::Rejection& rejection = responses[1].rejected().rejections(0);
  EXPECT_EQ(rejection.graph_id(), 101U);
  EXPECT_EQ(rejection.component(), "nodes");
  EXPECT_EQ(rejection.value(), 11U);
  EXPECT_EQ(rejection.bound(), 10U);
}

TEST_F(PackHandlerTest, AHistogramOfOtherComponentsIsRefusedAtOnce) {
  ASSERT_THAT(histograms_.Observe({"h", SizeSchema::Create({"atoms"}).value()}, SizeTable(),
                                  std::nullopt, clock_.Now()),
              IsOk());
  ExpectOpenRefused(std::string(kLimits) + "histogram: 'h'", absl::StatusCode::kFailedPrecondition,
                    "created with [atoms]");
}

TEST_F(PackHandlerTest, FlushAnswersAfterItsBatchesWithTotals) {
  ASSERT_THAT(Accept(std::string("open { ") + kLimits + "}"), IsOk());
  ASSERT_THAT(AcceptSizes({6, 1, 6, 1, 30, 1}, 0), IsOk());
  EXPECT_EQ(TakeAll().size(), 2U);  // opened, rejected
  ASSERT_THAT(Accept("flush { token: 77 }"), IsOk());
  const std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 3U);
  EXPECT_EQ(responses[0].batch().id(), 0U);
  EXPECT_EQ(responses[1].batch().id(), 1U);
  EXPECT_EQ(responses[2].flushed().token(), 77U);
  EXPECT_EQ(responses[2].flushed().num_graphs(), 2U);
  EXPECT_EQ(responses[2].flushed().num_batches(), 2U);
  EXPECT_EQ(responses[2].flushed().num_rejected(), 1U);
  ASSERT_THAT(Accept("flush { token: 78 }"), IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
}

// The first field of the second example says that it is longer than it is.
TEST_F(PackHandlerTest, AFlushCountsExamplesThatAreNone) {
  ASSERT_THAT(
      Accept(absl::StrCat("open { schema { components: 'nodes' components: 'edges' tensors { "
                          "name: 'x' dtype: DATA_TYPE_INT64 component: 'nodes' } } ",
                          kLimits, "}")),
      IsOk());
  ASSERT_THAT(Accept("examples { skip_malformed: true examples: '' examples: '\\x0a\\x7f' }"),
              IsOk());
  ASSERT_THAT(Accept("flush { token: 1 }"), IsOk());
  const v1::PackFlushed flushed = TakeAll().back().flushed();
  EXPECT_EQ(flushed.num_graphs(), 1U);
  EXPECT_EQ(flushed.num_rejected(), 1U);
}

TEST_F(PackHandlerTest, MaxDelayIsCountedFromArrival) {
  ASSERT_THAT(Accept(std::string("open { ") + kLimits + "max_delay { seconds: 3 } }"), IsOk());
  ASSERT_THAT(AcceptSizes({1, 1}, 0), IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
  EXPECT_EQ(handler_.NextDeadline(), clock_.Now() + absl::Seconds(3));
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(TakeAll().size(), 1U);
}

TEST_F(PackHandlerTest, ManyRejectionsAreCutIntoMessages) {
  ASSERT_THAT(Accept(std::string("open { ") + kLimits + "}"), IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
  for (const uint64_t first_id : {0, 10000}) {
    ASSERT_THAT(AcceptSizes(std::vector<uint32_t>(2 * 10000, 11), first_id), IsOk());
    std::vector<int> numbers;
    for (const v1::PackResponse& response : TakeAll()) {
      numbers.push_back(response.rejected().rejections_size());
    }
    EXPECT_THAT(numbers, ElementsAre(4096, 4096, 10000 - 2 * 4096));
  }
}

// Planning that is done when the test says so.
class LaterPlanning final : public StreamPlanning {
 public:
  void Submit(Job job) override { job_ = std::move(job); }
  void Run(bool is_given_up) const {
    job_([is_given_up] { return is_given_up; });
  }
  bool has_job() const { return job_ != nullptr; }

 private:
  Job job_;
};

// A stream whose sizes are watched.
class WatchedPackHandlerTest : public PackHandlerTest {
 protected:
  // Batches in order, and what was told of the sizes.
  struct Told {
    std::vector<std::string> batches;
    std::vector<v1::PackDrifted> drifted;
  };

  // Graphs of 10 to 30 nodes, and then of 30 to 50; `at_once` in a request.
  Told PackAll(const std::string& open, size_t at_once, MemoryBudget* working = nullptr) {
    Told told;
    PackHandler handler(&clock_, {}, &histograms_, &observers_, working);
    const auto take = [&] {
      for (;;) {
        auto next = handler.Next();
        EXPECT_THAT(next, IsOk());
        if (next.ok() && !*next && handler.IsBusy()) continue;
        if (!next.ok() || !*next) return;
        const v1::PackResponse response = ToMessage(**next);
        if (response.has_batch()) told.batches.push_back(response.batch().SerializeAsString());
        if (response.has_drifted()) told.drifted.push_back(response.drifted());
      }
    };
    auto opening = std::make_unique<v1::PackRequest>();
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString("open { " + open + " }", opening.get()));
    EXPECT_THAT(handler.Accept(std::move(opening)), IsOk());
    take();
    Random random(1);
    for (size_t begin = 0; begin < kGraphs; begin += at_once) {
      std::vector<uint32_t> counts;
      for (size_t i = begin; i < std::min(kGraphs, begin + at_once); ++i) {
        const auto nodes = static_cast<uint32_t>(random.Between(10, 30));
        const bool is_too_large = every_too_large_ != 0 && i % every_too_large_ == 0;
        counts.push_back(is_too_large ? 600 : i < kBefore ? nodes : nodes + 20);
        counts.push_back(2 * nodes);
      }
      auto request = std::make_unique<v1::PackRequest>();
      request->mutable_sizes()->set_num_graphs(counts.size() / 2);
      request->mutable_sizes()->set_counts(Uint32sToWire(counts));
      request->mutable_sizes()->set_first_id(begin);
      EXPECT_THAT(handler.Accept(std::move(request)), IsOk());
      take();
    }
    handler.HalfClose();
    take();
    EXPECT_FALSE(handler.IsWaiting());
    return told;
  }

  size_t every_too_large_ = 0;

  static constexpr size_t kGraphs = 6000;
  static constexpr size_t kBefore = 3000;
  static constexpr char kShape[] =
      "limits { capacities { component: 'nodes' rows: 512 } "
      "         capacities { component: 'edges' rows: 1024 } "
      "         capacities { component: 'graphs' rows: 64 } } padding: PADDING_MASKED ";
  static constexpr char kDevice[] =
      "device_profile { components { component: 'nodes' max_rows: 512 multiple_of: 8 } "
      "                 components { component: 'edges' max_rows: 1024 multiple_of: 8 } } "
      "padding: PADDING_MASKED calibration { num_graphs: 1000 } ";
};

TEST_F(WatchedPackHandlerTest, AChangeIsToldOnceAndBatchesStayTheSame) {
  for (const std::string shape : {kShape, kDevice}) {
    const Told unwatched = PackAll(shape, 500);
    EXPECT_TRUE(unwatched.drifted.empty());
    const Told watched = PackAll(shape + "drift { num_graphs: 1000 }", 500);
    EXPECT_EQ(watched.batches, unwatched.batches);
    ASSERT_EQ(watched.drifted.size(), 1U) << shape;
    const v1::PackDrifted& drifted = watched.drifted[0];
    EXPECT_GE(drifted.found_graph(), kBefore);
    EXPECT_LE(drifted.found_graph(), kBefore + 500);
    EXPECT_LE(drifted.first_graph(), drifted.found_graph());
    EXPECT_EQ(drifted.end_graph(), drifted.found_graph() + 1001);
    // Nodes are full while a third of the edges' capacity is empty.
    EXPECT_GT(drifted.loss(), 0.15);
    ASSERT_EQ(drifted.components_size(), 3);
    EXPECT_NEAR(drifted.components(0).reference_mean(), 20, 1);
    EXPECT_NEAR(drifted.components(0).mean(), 40, 1);
    EXPECT_LT(drifted.components(1).present_efficiency(), 0.6);
    EXPECT_GT(drifted.components(1).offered_efficiency(), 0.8);
    ASSERT_GE(drifted.offered().shapes_size(), 1);
    EXPECT_LE(drifted.offered().shapes(0).capacities(0).rows(), 512U);
    EXPECT_LT(drifted.offered().shapes(0).capacities(1).rows(), 800U);
    EXPECT_EQ(drifted.offered().num_graphs(), 1000U);
    EXPECT_EQ(drifted.components(2).reference_mean(), 1);
    EXPECT_EQ(drifted.components(2).mean(), 1);
    EXPECT_THAT(drifted.reasons(),
                Contains(absl::StrFormat(
                    "Graphs have %.4g nodes in the mean; when limits were chosen they had %.4g.",
                    drifted.components(0).mean(), drifted.components(0).reference_mean())));
    EXPECT_THAT(drifted.reasons(),
                Contains(StartsWith(absl::StrFormat("The present limits cost %.3g %% of what",
                                                    100 * drifted.loss()))));
    EXPECT_THAT(drifted.reasons(), Not(Contains(HasSubstr("graphs in the mean"))));
    // How the stream was cut into requests changes nothing.
    const Told otherwise = PackAll(shape + "drift { num_graphs: 1000 }", 777);
    ASSERT_EQ(otherwise.drifted.size(), 1U);
    EXPECT_EQ(otherwise.drifted[0].SerializeAsString(), drifted.SerializeAsString());
  }
}

// Nor does it with graphs that no batch takes, also among those that shapes are chosen from.
TEST_F(WatchedPackHandlerTest, HowTheStreamIsCutChangesNothingWithGraphsThatAreTooLarge) {
  every_too_large_ = 97;
  for (const std::string shape : {kShape, kDevice}) {
    const Told told = PackAll(shape + "drift { num_graphs: 1000 }", 500);
    ASSERT_EQ(told.drifted.size(), 1U) << shape;
    for (const size_t at_once : {777, 2999}) {
      const Told otherwise = PackAll(shape + "drift { num_graphs: 1000 }", at_once);
      ASSERT_EQ(otherwise.drifted.size(), 1U) << at_once << shape;
      EXPECT_EQ(otherwise.drifted[0].ShortDebugString(), told.drifted[0].ShortDebugString())
          << at_once << shape;
    }
  }
}

// A change is not judged without the memory for it, and the stream goes on.
TEST_F(WatchedPackHandlerTest, TheMemoryOfTheWatchIsChargedToTheBudget) {
  const std::string open = absl::StrCat(kShape, "drift { num_graphs: 1000 }");
  const Told expected = PackAll(open, 500);
  ASSERT_EQ(expected.drifted.size(), 1U);
  const uint64_t watch = DriftWatch::BytesFor(2, 1000);
  // Graphs have 21 sizes, before and after.
  const uint64_t histograms = 3 * SizeHistogram::BytesFor(21, 2);
  const uint64_t tuning = TunerBytes(21, 2);
  for (const uint64_t bytes : {watch, watch + histograms - 1, watch + histograms,
                               watch + histograms + tuning - 1, uint64_t{1} << 30}) {
    MemoryBudget working(bytes);
    const Told told = PackAll(open, 500, &working);
    EXPECT_EQ(told.batches, expected.batches);
    EXPECT_EQ(told.drifted.size(), bytes == uint64_t{1} << 30 ? 1U : 0U) << bytes;
    EXPECT_EQ(working.held(), 0U);
  }
  MemoryBudget working(watch - 1);
  PackHandler handler(&clock_, {}, &histograms_, &observers_, &working);
  auto request = std::make_unique<v1::PackRequest>();
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString("open { " + open + " }", request.get()));
  EXPECT_THAT(
      handler.Accept(std::move(request)),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the watch of a stream's sizes")));
}

// The search is on another thread: batches go on, and only the stream's end waits.
TEST_F(WatchedPackHandlerTest, BatchesDoNotWaitForTheSearch) {
  for (const bool is_given_up : {false, true}) {
    const auto later = std::make_shared<LaterPlanning>();
    PackHandler handler(&clock_, {}, &histograms_, &observers_, nullptr, later);
    auto open = std::make_unique<v1::PackRequest>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("open { ", kShape, "drift { num_graphs: 500 } }"), open.get()));
    ASSERT_THAT(handler.Accept(std::move(open)), IsOk());
    uint64_t graphs = 0;
    int drifted = 0;
    const auto take = [&] {
      for (auto next = handler.Next(); next.ok() && (*next || handler.IsBusy());
           next = handler.Next()) {
        if (!*next) continue;
        const v1::PackResponse response = ToMessage(**next);
        if (response.has_batch()) graphs += response.batch().real_rows(2);
        drifted += response.has_drifted();
      }
    };
    constexpr uint64_t kAtOnce = 500;
    for (uint64_t begin = 0; begin < kGraphs; begin += kAtOnce) {
      const uint32_t nodes = begin < kBefore ? 10 : 20;
      std::vector<uint32_t> counts;
      for (uint64_t i = 0; i < kAtOnce; ++i) counts.insert(counts.end(), {nodes, 20});
      auto request = std::make_unique<v1::PackRequest>();
      request->mutable_sizes()->set_num_graphs(kAtOnce);
      request->mutable_sizes()->set_counts(Uint32sToWire(counts));
      request->mutable_sizes()->set_first_id(begin);
      ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
      take();
      EXPECT_FALSE(handler.IsWaiting());
    }
    EXPECT_TRUE(later->has_job());
    handler.HalfClose();
    take();
    EXPECT_EQ(graphs, kGraphs);
    EXPECT_TRUE(handler.IsWaiting());
    later->Run(is_given_up);
    take();
    EXPECT_EQ(drifted, is_given_up ? 0 : 1);
    EXPECT_FALSE(handler.IsWaiting());
  }
}

// One request has two changes, and nothing is told of the first.
TEST_F(WatchedPackHandlerTest, TheEndWaitsForEachChange) {
  const auto later = std::make_shared<LaterPlanning>();
  PackHandler handler(&clock_, {}, &histograms_, &observers_, nullptr, later);
  auto open = std::make_unique<v1::PackRequest>();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("open { ", kShape, "drift { num_graphs: 500 } }"), open.get()));
  ASSERT_THAT(handler.Accept(std::move(open)), IsOk());
  int drifted = 0;
  const auto take = [&] {
    for (auto next = handler.Next(); next.ok() && (*next || handler.IsBusy());
         next = handler.Next()) {
      if (*next) drifted += ToMessage(**next).has_drifted();
    }
  };
  std::vector<uint32_t> counts;
  for (const uint32_t nodes : {10, 5, 20}) {
    for (int i = 0; i < 3000; ++i) counts.insert(counts.end(), {nodes, 20});
  }
  auto request = std::make_unique<v1::PackRequest>();
  request->mutable_sizes()->set_num_graphs(counts.size() / 2);
  request->mutable_sizes()->set_counts(Uint32sToWire(counts));
  ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
  take();
  handler.HalfClose();
  take();
  later->Run(/*is_given_up=*/true);
  take();
  EXPECT_TRUE(handler.IsWaiting());
  EXPECT_EQ(drifted, 0);
  later->Run(/*is_given_up=*/false);
  take();
  EXPECT_FALSE(handler.IsWaiting());
  EXPECT_EQ(drifted, 1);
}

TEST_F(WatchedPackHandlerTest, ASmallerLossThanAskedForIsNotTold) {
  const std::string shape(kShape);
  EXPECT_TRUE(PackAll(shape + "drift { num_graphs: 1000 min_loss: 0.9 }", 500).drifted.empty());
}

TEST_F(WatchedPackHandlerTest, OpenNamesWhatIsWrongWithAWatch) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const std::string limits(kLimits);
  ExpectOpenRefused(limits + "drift { num_graphs: 499 }", invalid, "num_graphs 499, from 500");
  ExpectOpenRefused(limits + "drift { num_graphs: 65537 }", invalid, "to 65536");
  ExpectOpenRefused(limits + "drift { min_loss: 1 }", invalid, "min_loss 1, above 0 and below 1");
  ExpectOpenRefused(limits + "drift { min_loss: -0.5 }", invalid, "min_loss -0.5");
  ExpectOpenRefused(limits + "drift { min_loss: nan }", invalid, "min_loss nan");
  ExpectOpenRefused(limits +
                        "padding: PADDING_TFGNN drift {} "
                        "min_rows { component: 'nodes' rows: 1 }",
                    invalid, "drift: not with min_rows");
  EXPECT_THAT(Accept("open { " + limits + "drift { num_graphs: 65536 } }"), IsOk());
}

// A stream that declares its hardware.
class ProfiledPackHandlerTest : public PackHandlerTest {
 protected:
  static std::string Profile(int nodes = 40, const std::string& more = "") {
    return absl::StrCat("device_profile { components { component: 'nodes' max_rows: ", nodes,
                        " } components { component: 'edges' max_rows: 80 } ", more, "} ");
  }
  absl::Status Open(const std::string& open) { return Accept("open { " + open + " }"); }

  // Sizes (n, n) for each n.
  absl::Status AcceptSquares(const std::vector<uint32_t>& sizes, uint64_t first_id) {
    std::vector<uint32_t> counts;
    for (const uint32_t n : sizes) counts.insert(counts.end(), {n, n});
    return AcceptSizes(counts, first_id);
  }
};

TEST_F(ProfiledPackHandlerTest, TunedComesAfterTheFirstGraphsAndBeforeAnyBatch) {
  ASSERT_THAT(Open(Profile(40, "max_distinct_shapes: 3 ") +
                   "padding: PADDING_MASKED calibration { num_graphs: 20 }"),
              IsOk());
  std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_FALSE(responses[0].opened().has_limits());
  EXPECT_FALSE(responses[0].opened().has_usable());
  EXPECT_EQ(responses[0].opened().look_ahead(), 64U);
  EXPECT_EQ(responses[0].opened().padding(), v1::PADDING_MASKED);
  ASSERT_THAT(AcceptSquares(std::vector<uint32_t>(19, 10), 0), IsOk());
  EXPECT_TRUE(TakeAll().empty());
  ASSERT_THAT(AcceptSquares(std::vector<uint32_t>(200, 10), 19), IsOk());
  responses = TakeAll();
  ASSERT_GT(responses.size(), 10U);
  const v1::PackTuned& tuned = responses[0].tuned();
  EXPECT_EQ(tuned.num_graphs(), 20U);
  ASSERT_EQ(tuned.shapes_size(), 3);
  EXPECT_EQ(tuned.shapes(0).capacities(0).component(), "nodes");
  EXPECT_EQ(tuned.shapes(0).capacities(0).rows(), 40U);
  EXPECT_EQ(tuned.shapes(0).capacities(1).rows(), 40U);
  EXPECT_EQ(tuned.shapes(0).capacities(2).component(), "graphs");
  EXPECT_EQ(tuned.shapes(0).expected_share(), 1);
  EXPECT_EQ(tuned.shapes(1).capacities(0).rows(), 20U);
  EXPECT_EQ(tuned.shapes(1).expected_share(), 0);
  EXPECT_EQ(tuned.components(0).expected_efficiency(), 1);
  EXPECT_EQ(tuned.components(0).term(), v1::CAPACITY_TERM_MAX_ROWS);
  EXPECT_EQ(tuned.components(1).term(), v1::CAPACITY_TERM_SIZES);
  EXPECT_EQ(tuned.expected_overhead(), 0);
  EXPECT_GT(tuned.reasons_size(), 2);
  for (size_t i = 1; i < responses.size(); ++i) EXPECT_EQ(responses[i].batch().rows(0), 40U);
}

TEST_F(ProfiledPackHandlerTest, EachRejectionSaysWhy) {
  const auto rejections_of = [this](const std::string& open, const StreamBounds& bounds,
                                    v1::GraphChunk graphs) {
    PackHandler handler(&clock_, bounds, &histograms_, &observers_);
    auto request = std::make_unique<v1::PackRequest>();
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString("open { " + open + " }", request.get()));
    EXPECT_THAT(handler.Accept(std::move(request)), IsOk());
    EXPECT_TRUE((*handler.Next())->message.has_opened());
    request = std::make_unique<v1::PackRequest>();
    if (graphs.tensors().empty()) {
      *request->mutable_sizes() = graphs.sizes();
    } else {
      *request->mutable_graphs() = std::move(graphs);
    }
    EXPECT_THAT(handler.Accept(std::move(request)), IsOk());
    const auto next = handler.Next();
    EXPECT_TRUE(next.ok() && next->has_value());
    std::vector<std::string> words;
    for (const v1::Rejection& one : (*next)->message.rejected().rejections()) {
      words.push_back(absl::StrCat(v1::RejectionReason_Name(one.reason()), " ", one.graph_id(), " ",
                                   one.component(), " ", one.bound()));
    }
    return words;
  };
  v1::GraphChunk graphs;
  graphs.mutable_sizes()->set_num_graphs(3);
  graphs.mutable_sizes()->set_counts(Uint32sToWire(std::vector<uint32_t>{41, 1, 40, 20, 2, 2}));
  EXPECT_THAT(rejections_of(R"(device_profile {
                         components { component: 'nodes' max_rows: 40 bytes_per_row: 1 }
                         components { component: 'edges' max_rows: 40 bytes_per_row: 1 }
                         memory_bytes: 50 })",
                            StreamBounds(), graphs),
              ElementsAre("REJECTION_REASON_TOO_LARGE 0 nodes 40",
                          "REJECTION_REASON_TOO_MUCH_MEMORY 1  50"));
  EXPECT_THAT(rejections_of(R"(limits { capacities { component: 'nodes' rows: 50 }
                                        capacities { component: 'edges' rows: 50 }
                                        capacities { component: 'graphs' rows: 4 } }
                               padding: PADDING_TFGNN
                               min_rows { component: 'nodes' rows: 3 })",
                            StreamBounds(), graphs),
              ElementsAre("REJECTION_REASON_TOO_SMALL 2 nodes 3"));
  StreamBounds bounds;
  bounds.max_batch_bytes = 40;
  graphs.add_tensors()->set_name("x");
  graphs.mutable_tensors(0)->set_data(std::string(41 + 40 + 2, 'x'));
  EXPECT_THAT(rejections_of(R"(schema { components: 'nodes' components: 'edges'
                                        tensors { name: 'x' dtype: DATA_TYPE_INT8
                                                  component: 'nodes' } }
                               limits { capacities { component: 'edges' rows: 1000 } })",
                            bounds, graphs),
              ElementsAre("REJECTION_REASON_TOO_MANY_BYTES 0  40"));
}

TEST_F(ProfiledPackHandlerTest, TwoThousandGraphsAreHeldUnlessItIsSaid) {
  ASSERT_THAT(Open(Profile()), IsOk());
  ASSERT_THAT(AcceptSquares(std::vector<uint32_t>(1999, 10), 0), IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
  ASSERT_THAT(AcceptSquares({10}, 1999), IsOk());
  EXPECT_EQ(TakeAll().at(0).tuned().num_graphs(), 2000U);
}

TEST_F(ProfiledPackHandlerTest, HalfCloseAndFlushEndTheCalibration) {
  ASSERT_THAT(Open(Profile(40, "max_distinct_shapes: 2 ") + "padding: PADDING_MASKED"), IsOk());
  ASSERT_THAT(Accept("flush { token: 1 }"), IsOk());
  std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 2U);  // opened, flushed
  EXPECT_EQ(responses[1].flushed().num_graphs(), 0U);
  ASSERT_THAT(AcceptSquares({10, 10, 41}, 0), IsOk());
  responses = TakeAll();
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_EQ(responses[0].rejected().rejections(0).bound(), 40U);
  handler_.HalfClose();
  responses = TakeAll();
  ASSERT_EQ(responses.size(), 2U);
  EXPECT_EQ(responses[0].tuned().num_graphs(), 2U);
  // Two graphs of a batch of four: the smaller shape.
  EXPECT_EQ(responses[1].batch().rows(0), 20U);
  EXPECT_EQ(responses[1].batch().real_rows(2), 2U);
}

TEST_F(ProfiledPackHandlerTest, AHistogramWithEnoughGraphsNeedsNoneOfTheStream) {
  ASSERT_THAT(histograms_.Observe({"h", SizeSchema::NodesAndEdges()},
                                  SizeTable::WithConsecutiveIds(2, 2, {10, 20, 10, 20}, 0).value(),
                                  std::nullopt, clock_.Now()),
              IsOk());
  ASSERT_THAT(Open(Profile() + "calibration { num_graphs: 2 histogram: 'h' }"), IsOk());
  const std::vector<v1::PackResponse> responses = TakeAll();
  ASSERT_EQ(responses.size(), 2U);
  EXPECT_TRUE(responses[0].has_opened());
  EXPECT_EQ(responses[1].tuned().num_graphs(), 2U);
  EXPECT_EQ(responses[1].tuned().shapes(0).capacities(1).rows(), 80U);
  ASSERT_THAT(AcceptSquares({10, 10}, 0), IsOk());
  EXPECT_TRUE(TakeAll().empty());
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, histograms_.Get("h", clock_.Now()));
  EXPECT_EQ(snapshot.histogram.num_graphs(), 2U);
}

TEST_F(ProfiledPackHandlerTest, TheStreamsGraphsCountBesideTheHistogramsOnce) {
  for (const bool counts_itself : {false, true}) {
    SCOPED_TRACE(counts_itself);
    ASSERT_THAT(
        histograms_.Observe({"h", SizeSchema::NodesAndEdges()},
                            SizeTable::WithConsecutiveIds(2, 2, {10, 20, 10, 20}, 0).value(),
                            std::nullopt, clock_.Now()),
        IsOk());
    PackHandler handler(&clock_, {}, &histograms_, &observers_);
    auto open = std::make_unique<v1::PackRequest>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("open { ", Profile(), "calibration { num_graphs: 5 histogram: 'h' } ",
                     counts_itself ? "histogram: 'h'" : "", " }"),
        open.get()));
    ASSERT_THAT(handler.Accept(std::move(open)), IsOk());
    EXPECT_TRUE((*handler.Next())->message.has_opened());
    EXPECT_FALSE((*handler.Next()).has_value());
    auto sizes = std::make_unique<v1::PackRequest>();
    sizes->mutable_sizes()->set_num_graphs(3);
    sizes->mutable_sizes()->set_counts(Uint32sToWire(std::vector<uint32_t>{1, 1, 2, 2, 3, 3}));
    ASSERT_THAT(handler.Accept(std::move(sizes)), IsOk());
    const auto tuned = handler.Next();
    ASSERT_THAT(tuned, IsOk());
    ASSERT_TRUE(tuned->has_value());
    EXPECT_EQ((*tuned)->message.tuned().num_graphs(), 5U);
    ASSERT_THAT(histograms_.Delete("h"), IsOk());
  }
}

TEST_F(ProfiledPackHandlerTest, AMissingHistogramIsCreatedOnlyIfTheStreamCountsIntoIt) {
  ASSERT_THAT(Open(Profile() + "histogram: 'h' calibration { num_graphs: 2 histogram: 'h' }"),
              IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
  ASSERT_THAT(AcceptSquares({10, 10}, 0), IsOk());
  EXPECT_EQ(TakeAll()[0].tuned().num_graphs(), 2U);
}

TEST_F(ProfiledPackHandlerTest, OpenNamesWhatIsWrongWithTheProfile) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectOpenRefused(Profile() + kLimits, invalid, "limits: set beside a device_profile");
  ExpectOpenRefused(std::string(kLimits) + "calibration {}", invalid,
                    "calibration: set without a device_profile");
  ExpectOpenRefused(Profile() + "calibration { num_graphs: 65537 }", invalid,
                    "num_graphs 65537, at most 65536");
  ExpectOpenRefused("device_profile {}", invalid, "no component has max_rows above 0");
  ExpectOpenRefused("device_profile { components { component: 'faces' max_rows: 9 } }", invalid,
                    "unknown component 'faces'");
  ExpectOpenRefused(Profile(40, "max_distinct_shapes: 9 "), invalid, "max_distinct_shapes 9");
  ExpectOpenRefused(Profile(0) + "padding: PADDING_MASKED", invalid,
                    "padding needs max_rows of component 'nodes'");
  ExpectOpenRefused(Profile() + "calibration { histogram: 'none' }", absl::StatusCode::kNotFound,
                    "'none'");
  ASSERT_THAT(histograms_.Observe({"atoms", SizeSchema::Create({"atoms"}).value()}, SizeTable(),
                                  std::nullopt, clock_.Now()),
              IsOk());
  ExpectOpenRefused(Profile() + "calibration { histogram: 'atoms' }",
                    absl::StatusCode::kFailedPrecondition, "created with [atoms]");
  // Nothing of these was created.
  EXPECT_EQ(histograms_.num_histograms(), 1U);
  EXPECT_THAT(Open(Profile() + "calibration { num_graphs: 65536 }"), IsOk());
}

// Others may change it while the stream collects its own graphs.
TEST_F(ProfiledPackHandlerTest, AHistogramMayBeAnotherByTheTimeOfTheSearch) {
  const HistogramKey key = {"h", SizeSchema::NodesAndEdges()};
  const SizeTable one = SizeTable::WithConsecutiveIds(1, 2, {10, 20}, 0).value();
  const auto end_after = [&](const auto& change) {
    EXPECT_THAT(histograms_.Observe(key, one, std::nullopt, clock_.Now()), IsOk());
    PackHandler handler(&clock_, {}, &histograms_, &observers_);
    auto open = std::make_unique<v1::PackRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("open { ", Profile(), "calibration { num_graphs: 2 histogram: 'h' } }"),
        open.get()));
    EXPECT_THAT(handler.Accept(std::move(open)), IsOk());
    EXPECT_TRUE((*handler.Next())->message.has_opened());
    EXPECT_FALSE((*handler.Next()).has_value());
    change();
    auto sizes = std::make_unique<v1::PackRequest>();
    sizes->mutable_sizes()->set_num_graphs(1);
    sizes->mutable_sizes()->set_counts(Uint32sToWire({1, 1}));
    EXPECT_THAT(handler.Accept(std::move(sizes)), IsOk());
    const absl::Status ended = handler.Next().status();
    histograms_.Delete("h").IgnoreError();
    return ended;
  };
  EXPECT_THAT(end_after([] {}), IsOk());
  EXPECT_THAT(end_after([&] { EXPECT_THAT(histograms_.Delete("h"), IsOk()); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  EXPECT_THAT(end_after([&] {
                EXPECT_THAT(histograms_.Delete("h"), IsOk());
                EXPECT_THAT(histograms_.Observe({"h", SizeSchema::Create({"atoms"}).value()},
                                                SizeTable(), std::nullopt, clock_.Now()),
                            IsOk());
              }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "calibration: histogram 'h' has other components than the stream"));
  EXPECT_THAT(end_after([&] {
                SizeHistogram most(2);
                EXPECT_THAT(most.Add({0, 0}, UINT64_MAX - 1), IsOk());
                EXPECT_THAT(histograms_.Merge(key, most, std::nullopt, clock_.Now()), IsOk());
              }),
              testing::Not(IsOk()));
}

TEST_F(ProfiledPackHandlerTest, AHistogramOfGraphsThatDoNotFitEndsTheStream) {
  ASSERT_THAT(histograms_.Observe({"h", SizeSchema::NodesAndEdges()},
                                  SizeTable::WithConsecutiveIds(1, 2, {50, 20}, 0).value(),
                                  std::nullopt, clock_.Now()),
              IsOk());
  ASSERT_THAT(Open(Profile() + "calibration { num_graphs: 1 histogram: 'h' }"), IsOk());
  EXPECT_TRUE((*handler_.Next())->message.has_opened());
  EXPECT_THAT(handler_.Next(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("max_rows 50 of nodes would take all")));
}

TEST_F(ProfiledPackHandlerTest, TheMemoryOfTheSearchIsChargedToTheBudget) {
  const uint64_t histogram = SizeHistogram::BytesFor(1, 2);
  const uint64_t tuning = TunerBytes(1, 2);
  for (const auto& [bytes, what] : {std::pair(uint64_t{0}, "a histogram of 1 sizes"),
                                    {histogram, "a histogram of 1 sizes"},
                                    {2 * histogram - 1, "a histogram of 1 sizes"},
                                    {2 * histogram, "limits for 1 sizes"},
                                    {2 * histogram + tuning - 1, "limits for 1 sizes"},
                                    {uint64_t{1} << 30, ""}}) {
    MemoryBudget working(bytes);
    PackHandler handler(&clock_, {}, &histograms_, &observers_, &working);
    auto open = std::make_unique<v1::PackRequest>();
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString("open { " + Profile() + "}", open.get()));
    ASSERT_THAT(handler.Accept(std::move(open)), IsOk());
    auto sizes = std::make_unique<v1::PackRequest>();
    sizes->mutable_sizes()->set_num_graphs(1);
    sizes->mutable_sizes()->set_counts(Uint32sToWire(std::vector<uint32_t>{1, 1}));
    EXPECT_TRUE((*handler.Next())->message.has_opened());
    ASSERT_THAT(handler.Accept(std::move(sizes)), IsOk());
    handler.HalfClose();
    const auto next = handler.Next();
    if (bytes == uint64_t{1} << 30) {
      EXPECT_TRUE(next.ok() && (*next)->message.has_tuned());
    } else {
      EXPECT_THAT(next, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(what))) << bytes;
    }
    EXPECT_EQ(working.held(), 0U);
  }
}

TEST_F(ProfiledPackHandlerTest, AHeldGraphThatIsTooLargeEndsTheStreamAfterTheOthers) {
  ASSERT_THAT(
      Open(R"(device_profile { components { component: 'nodes' max_rows: 40 bytes_per_row: 1 }
                                       components { component: 'edges' max_rows: 40 bytes_per_row: 1 }
                                       memory_bytes: 50 }
                      oversize_policy: OVERSIZE_POLICY_ERROR)"),
      IsOk());
  ASSERT_THAT(AcceptSizes({40, 1, 1, 39, 3, 3}, 0), IsOk());
  EXPECT_EQ(TakeAll().size(), 1U);
  handler_.HalfClose();
  EXPECT_TRUE((*handler_.Next())->message.has_tuned());
  uint64_t packed = 0;
  auto next = handler_.Next();
  for (; next.ok() && next->has_value(); next = handler_.Next()) {
    packed += (*next)->message.batch().real_rows(2);
  }
  EXPECT_EQ(packed, 2U);
  EXPECT_THAT(next, StatusIs(absl::StatusCode::kOutOfRange,
                             HasSubstr("graph 0 has 40 nodes, a batch takes at most")));
}

// Work on another thread: nothing is asked of the stream meanwhile.
TEST_F(ProfiledPackHandlerTest, TheStreamWaitsForItsPlanning) {
  for (const bool is_given_up : {false, true}) {
    const auto later = std::make_shared<LaterPlanning>();
    PackHandler handler(&clock_, {}, &histograms_, &observers_, nullptr, later);
    auto open = std::make_unique<v1::PackRequest>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "open { " + Profile() + "calibration { num_graphs: 1 } }", open.get()));
    ASSERT_THAT(handler.Accept(std::move(open)), IsOk());
    EXPECT_TRUE((*handler.Next())->message.has_opened());
    EXPECT_FALSE(handler.IsWaiting());
    auto sizes = std::make_unique<v1::PackRequest>();
    sizes->mutable_sizes()->set_num_graphs(1);
    sizes->mutable_sizes()->set_counts(Uint32sToWire(std::vector<uint32_t>{1, 1}));
    ASSERT_THAT(handler.Accept(std::move(sizes)), IsOk());
    EXPECT_FALSE((*handler.Next()).has_value());
    EXPECT_TRUE(handler.IsWaiting());
    handler.HalfClose();
    EXPECT_FALSE((*handler.Next()).has_value());
    EXPECT_TRUE(handler.IsWaiting());
    later->Run(is_given_up);
    // Until it has looked.
    EXPECT_TRUE(handler.IsWaiting());
    const auto next = handler.Next();
    EXPECT_FALSE(handler.IsWaiting());
    if (is_given_up) {
      EXPECT_THAT(next, StatusIs(absl::StatusCode::kCancelled, HasSubstr("gone")));
      continue;
    }
    EXPECT_TRUE((*next)->message.has_tuned());
    EXPECT_TRUE((*handler.Next())->message.has_batch());
  }
}

class ObserveHandlerTest : public ::testing::Test {
 protected:
  absl::Status Accept(const std::string& text) {
    auto request = std::make_unique<v1::ObserveRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return handler_.Accept(std::move(request));
  }

  SimulatedClock clock_;
  HistogramStore histograms_{{}};
  ObserveHandler handler_{&clock_, &histograms_};
};

TEST_F(ObserveHandlerTest, ARetryWithTheSameSequenceCountsOnce) {
  const std::string request = R"(histogram: 'h' producer_sequence { producer: 'w0' sequence: 5 }
                                 sizes { num_graphs: 1 counts: "\1\0\0\0\2\0\0\0" })";
  ASSERT_THAT(Accept(request), IsOk());
  EXPECT_EQ((*handler_.Next())->num_counted(), 1U);
  EXPECT_EQ(*handler_.Next(), std::nullopt);
  ASSERT_THAT(Accept(request), IsOk());
  const v1::ObserveResponse again = **handler_.Next();
  EXPECT_EQ(again.num_counted(), 0U);
  EXPECT_EQ(again.num_graphs(), 1U);
  EXPECT_EQ(again.producer_sequence().sequence(), 5U);
}

TEST_F(ObserveHandlerTest, AResponseAnswersAsManyRequestsAsAskedFor) {
  const auto request = [](int sequence) {
    return absl::StrCat("producer_sequence { producer: 'w0' sequence: ", sequence,
                        R"( } sizes { num_graphs: 2 counts: "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0" })");
  };
  ASSERT_THAT(Accept("histogram: 'h' requests_per_response: 3"), IsOk());
  EXPECT_EQ(*handler_.Next(), std::nullopt);
  ASSERT_THAT(Accept(request(1)), IsOk());
  EXPECT_EQ(*handler_.Next(), std::nullopt);
  ASSERT_THAT(Accept(request(1)), IsOk());  // A repetition.
  const v1::ObserveResponse first = **handler_.Next();
  EXPECT_EQ(first.num_requests(), 3U);
  EXPECT_EQ(first.num_counted(), 2U);
  EXPECT_EQ(first.num_graphs(), 2U);
  EXPECT_EQ(first.producer_sequence().sequence(), 1U);
  EXPECT_EQ(*handler_.Next(), std::nullopt);

  ASSERT_THAT(Accept(absl::StrCat("requests_per_response: 3 ", request(2))), IsOk());
  ASSERT_THAT(Accept(request(3)), IsOk());
  EXPECT_EQ(*handler_.Next(), std::nullopt);
  EXPECT_THAT(
      Accept(absl::StrCat("requests_per_response: 2 ", request(4))),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("requests_per_response: differs")));
  // What came before the bad request is answered, and nothing else.
  handler_.HalfClose();
  const v1::ObserveResponse last = **handler_.Next();
  EXPECT_EQ(last.num_requests(), 2U);
  EXPECT_EQ(last.num_counted(), 4U);
  EXPECT_EQ(last.producer_sequence().sequence(), 3U);
  EXPECT_EQ(*handler_.Next(), std::nullopt);

  ObserveHandler other(&clock_, &histograms_);
  auto bad = std::make_unique<v1::ObserveRequest>();
  bad->set_histogram("h");
  bad->set_requests_per_response(1025);
  EXPECT_THAT(other.Accept(std::move(bad)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("requests_per_response: 1025, at most 1024")));
}

TEST_F(ObserveHandlerTest, AResponseHasTheProducerOfTheLastRequestThatItAnswers) {
  const std::string sizes = R"(sizes { num_graphs: 1 counts: "\1\0\0\0\2\0\0\0" })";
  const std::string asks = "producer_sequence { producer: 'w0' }";
  ASSERT_THAT(Accept("histogram: 'h' requests_per_response: 2 "
                     "producer_sequence { producer: 'w0' sequence: 1 }" +
                     sizes),
              IsOk());
  ASSERT_THAT(Accept(asks), IsOk());
  const v1::ObserveResponse asked = **handler_.Next();
  EXPECT_EQ(asked.num_requests(), 2U);
  EXPECT_EQ(asked.num_counted(), 1U);
  EXPECT_EQ(asked.producer_sequence().producer(), "w0");
  EXPECT_EQ(asked.producer_sequence().sequence(), 0U);
  EXPECT_EQ(asked.producer_state().next_sequence(), 2U);
  ASSERT_THAT(Accept(asks), IsOk());
  ASSERT_THAT(Accept(sizes), IsOk());
  const v1::ObserveResponse counted = **handler_.Next();
  EXPECT_EQ(counted.num_requests(), 2U);
  EXPECT_EQ(counted.num_counted(), 1U);
  EXPECT_EQ(counted.num_graphs(), 2U);
  EXPECT_FALSE(counted.has_producer_sequence());
}

TEST_F(ObserveHandlerTest, UnsetMeansAsTheHistogramHasIt) {
  ASSERT_THAT(histograms_.Observe({"h", SizeSchema::Create({"atoms"}).value(), absl::Minutes(1)},
                                  SizeTable::WithConsecutiveIds(1, 1, {7}, 0).value(), std::nullopt,
                                  clock_.Now()),
              IsOk());
  ASSERT_THAT(Accept(R"(histogram: 'h' sizes { num_graphs: 1 counts: "\7\0\0\0" })"), IsOk());
  EXPECT_EQ((*handler_.Next())->num_graphs(), 2U);
  ObserveHandler other(&clock_, &histograms_);
  auto request = std::make_unique<v1::ObserveRequest>();
  request->set_histogram("h");
  request->mutable_half_life();
  EXPECT_THAT(other.Accept(std::move(request)),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
}

TEST_F(ObserveHandlerTest, GraphIdsAreIgnored) {
  ASSERT_THAT(Accept(R"(histogram: 'h' sizes { num_graphs: 2 first_id: 18446744073709551615
                        counts: "\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0" })"),
              IsOk());
}

TEST_F(ObserveHandlerTest, ARefusedChangeLeavesNoHistogramBehind) {
  EXPECT_THAT(Accept("histogram: 'h' producer_sequence { sequence: 3 }"),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_EQ(histograms_.num_histograms(), 0U);
}

TEST_F(ObserveHandlerTest, TheFirstRequestNamesTheHistogramForAll) {
  EXPECT_THAT(Accept(""), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("must be named in the first request")));
  ASSERT_THAT(Accept("histogram: 'h'"), IsOk());
  ASSERT_THAT(Accept(""), IsOk());
  EXPECT_THAT(Accept("histogram: 'g'"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("the stream counts into 'h'")));
  EXPECT_THAT(Accept("components: 'a'"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("components: differ")));
  EXPECT_THAT(Accept("half_life { seconds: 1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("half_life: differs")));
}

TEST_F(ObserveHandlerTest, WhatIsMalformedIsNamed) {
  const auto refused = [](const std::string& message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
  };
  const std::string bad_time = "half_life { seconds: 1 nanos: -1 }";
  const std::string why_bad = "half_life: 1 seconds and -1 nanos are not a duration";
  EXPECT_THAT(Accept("histogram: 'h' components: 'graphs'"), refused("'graphs' is implied"));
  EXPECT_THAT(Accept("histogram: 'h' " + bad_time), refused(why_bad));
  EXPECT_THAT(Accept("histogram: 'h' requests_per_response: 1025"),
              refused("requests_per_response: 1025, at most 1024"));
  ASSERT_THAT(Accept("histogram: 'h' requests_per_response: 1024 half_life { seconds: 7 }"),
              IsOk());
  ASSERT_THAT(Accept("histogram: 'h' requests_per_response: 1024 half_life { seconds: 7 } "
                     "components: 'nodes' components: 'edges'"),
              IsOk());
  EXPECT_THAT(Accept("components: 'graphs'"), refused("'graphs' is implied"));
  EXPECT_THAT(Accept(bad_time), refused(why_bad));
  EXPECT_THAT(Accept("sizes { num_graphs: 1 counts: 'abc' }"),
              refused("sizes.counts: 3 bytes, 1 graphs of 2 components take 8"));
  handler_.HalfClose();
  EXPECT_EQ((*handler_.Next())->num_requests(), 2U);
}

// Where servers share their histograms, they have to be asked for.
class UnreachableHistograms final : public HistogramStore {
 public:
  UnreachableHistograms() : HistogramStore({}) {}
  absl::StatusOr<SizeSchema> SchemaOf(absl::string_view /*name*/) const override {
    return absl::UnavailableError("nobody answers for the schema");
  }
  absl::StatusOr<ProducerHistory> GetProducer(absl::string_view /*name*/,
                                              absl::string_view /*producer*/) const override {
    return absl::UnavailableError("nobody answers for the producer");
  }
};

TEST_F(ObserveHandlerTest, WhatCannotBeAskedForIsSaid) {
  UnreachableHistograms histograms;
  for (const auto& [text, why] :
       {std::pair("histogram: 'h'", "nobody answers for the schema"),
        std::pair("histogram: 'h' components: 'atoms' producer_sequence { producer: 'p' }",
                  "nobody answers for the producer")}) {
    ObserveHandler handler(&clock_, &histograms);
    auto request = std::make_unique<v1::ObserveRequest>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get()));
    EXPECT_THAT(handler.Accept(std::move(request)), StatusIs(absl::StatusCode::kUnavailable, why));
  }
}

}  // namespace
}  // namespace packhouse
