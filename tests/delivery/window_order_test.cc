// How soon windows of epochs of sub-graphs are planned, with an executor that tells of each.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/loader.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/tfgnn/sampling_spec.h"
#include "tests/delivery/all_jobs.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kSampledNodes = 90;
constexpr uint32_t kNodesOfWindow = 30;
constexpr auto kFirstWindow = Loader::WindowOrder::kFirst;
constexpr auto kLaterWindow = Loader::WindowOrder::kLater;

JoinRequest OneRank() {
  JoinRequest join;
  join.sharing = Sharing::Ranked(1);
  return join;
}

// The ids of batches, by their numbers.
using Batches = std::map<uint64_t, std::vector<uint64_t>>;

// Plans windows that go first at once. Others wait until they are let go, as on a busy machine.
class SampledLoader {
 public:
  // With a budget, what is held of it is `memory`'s.
  explicit SampledLoader(MemoryBudget* memory = nullptr) : memory_(memory) { Restart(); }

  // Forgets all that is not in the log.
  void Restart() {
    loader_ = nullptr;
    orders.clear();
    catalog_ = std::make_unique<EpochCatalog>(nullptr, EpochBounds(), memory_);
    auto loader = AllJobs::Open(catalog_.get(), &logs_, {});
    ASSERT_THAT(loader, IsOk());
    loader_ = *std::move(loader);
    loader_->PlanInBackground(
        [this](const ClientId&, Loader::WindowOrder order, Loader::Planning work) {
          orders.push_back(order);
          if (order == kFirstWindow) return work([] { return false; });
          held_.push_back(std::move(work));
        });
  }
  ~SampledLoader() { LetGo(); }

  void LetGo() {
    for (const Loader::Planning& work : std::exchange(held_, {})) work([] { return false; });
  }

  // Another seed is another order, and other limits make other batches.
  struct Words {
    uint32_t max_nodes = 64;
    uint64_t seed = 0;
    uint32_t window = kNodesOfWindow;
  };
  std::unique_ptr<LoadSession> Load(const std::string& job) { return Load(job, Words()); }
  std::unique_ptr<LoadSession> Load(const std::string& job, Words words) {
    auto session = loader_->Load(RequestOf(job, words), OneRank(), 4, [this] { is_woken_ = true; });
    EXPECT_THAT(session, IsOk());
    return session.ok() ? *std::move(session) : nullptr;
  }

  // The ids of all sub-graphs that come now; each batch is acknowledged.
  std::multiset<uint64_t> Take(LoadSession& session, int most = 1000) {
    std::multiset<uint64_t> ids;
    for (int i = 0; i < most; ++i) {
      const auto event = session.Next(absl::UnixEpoch());
      EXPECT_THAT(event, IsOk());
      if (!event.ok()) return ids;
      if (event->kind == LoadEvent::Kind::kWait && std::exchange(is_woken_, false)) continue;
      if (event->kind != LoadEvent::Kind::kBatch) return ids;
      for (const uint64_t id : event->built.batch.graph_ids) ids.insert(id);
      const LoadStart& start = session.start();
      EXPECT_THAT(loader_->Acknowledge(session.epoch().identity().key, start.session,
                                       start.join.generation, {event->number}, absl::UnixEpoch()),
                  IsOk());
    }
    return ids;
  }

  // Adds the ids of the batches of an evaluation, by their numbers.
  absl::Status Evaluate(const EpochRequest& request, const EvaluationRequest& asked,
                        Batches& batches) {
    PH_ASSIGN_OR_RETURN(const auto evaluation, loader_->Evaluate(request, asked, "client", [] {}));
    EXPECT_FALSE(evaluation->share().is_estimate);
    for (int num_waits = 0; num_waits < 1000;) {
      PH_ASSIGN_OR_RETURN(LoadEvent event, evaluation->Next());
      if (event.kind == LoadEvent::Kind::kEnd) return absl::OkStatus();
      if (event.kind == LoadEvent::Kind::kWait) {
        ++num_waits;
        LetGo();
      } else if (!event.is_padding) {
        EXPECT_TRUE(batches.emplace(event.number, event.built.batch.graph_ids).second);
      }
    }
    return absl::InternalError("it waits for ever");
  }

  AllJobs& loader() { return *loader_; }
  // Work that waits.
  std::vector<Loader::Planning> TakeHeld() { return std::exchange(held_, {}); }
  size_t num_held() const { return held_.size(); }
  EpochRequest RequestOf(const std::string& job) const { return RequestOf(job, Words()); }
  EpochRequest RequestOf(const std::string& job, Words words) const {
    SubGraphsRequest sub_graphs;
    sub_graphs.graph = "g";
    sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value();
    EpochRequest request;
    request.key = {job, 0};
    request.seed = words.seed;
    request.rank_groups.push_back({{{words.max_nodes, 80, 8}}, std::nullopt, 1});
    request.padding = Padding::kMasked;
    const auto samples = std::make_shared<SamplesRequest>();
    samples->source = SubGraphSource::Create(graphs_.Open("g").value(), sub_graphs).value();
    samples->window = words.window;
    request.kinds.push_back(samples);
    return request;
  }

  std::vector<Loader::WindowOrder> orders;

 private:
  MemoryBudget* const memory_;
  OneGraphStore graphs_{SmallSourceGraph(kSampledNodes)};
  FailingLog log_;
  LogsOfJobs logs_{&log_};
  bool is_woken_ = false;
  std::vector<Loader::Planning> held_;
  std::unique_ptr<EpochCatalog> catalog_;
  std::unique_ptr<AllJobs> loader_;
};

TEST(WindowOrderTest, ANewEpochsFirstBatchWaitsForNoLaterWindow) {
  SampledLoader world;
  const auto early = world.Load("early");
  const std::multiset<uint64_t> first_window = world.Take(*early);
  EXPECT_EQ(first_window.size(), kNodesOfWindow);
  EXPECT_THAT(world.orders, ElementsAre(kFirstWindow, kLaterWindow));
  // Its second window is still waiting when another epoch begins, and when that has delivered all
  // that it may.
  const auto late = world.Load("late");
  EXPECT_EQ(world.Take(*late).size(), kNodesOfWindow);
  EXPECT_EQ(world.Take(*early).size(), 0);
  EXPECT_THAT(world.orders, ElementsAre(kFirstWindow, kLaterWindow, kFirstWindow, kLaterWindow));
  world.LetGo();
  EXPECT_EQ(world.Take(*early).size(), kNodesOfWindow);
}

// Of a window that is planned: no room for its sub-graphs is an error, and no batch without
// contents.
TEST(WindowOrderTest, ABatchThatCannotBeBuiltIsToldAndNotDelivered) {
  MemoryBudget memory(uint64_t{1} << 30);
  SampledLoader world(&memory);
  const auto session = world.Load("job");
  EXPECT_FALSE(world.Take(*session, /*most=*/1).empty());
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold rest,
                          memory.Hold("all that is left", memory.bound() - memory.held()));
  EXPECT_THAT(session->Next(absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("sub-graphs of a batch")));
}

// Of sub-graphs that are all in one window.
TEST(WindowOrderTest, TheCompanyOfWhatIsLoadedIsSeenOnceItIsKnown) {
  SampledLoader world;
  const auto session = world.Load("job", {.window = kSampledNodes});
  EXPECT_EQ(world.loader().Seen().company, std::nullopt);
  PH_ASSERT_OK_AND_ASSIGN(const std::optional<Company> company,
                          session->epoch().MeasureCompany({}));
  ASSERT_TRUE(company.has_value());
  EXPECT_GT(company->Ratio(), 0);
  EXPECT_EQ(world.loader().Seen().company, company->Ratio());
}

TEST(WindowOrderTest, AWorkerThatGoesOnGetsItsFirstWindowFirst) {
  SampledLoader world;
  std::multiset<uint64_t> ids = world.Take(*world.Load("job"));
  world.LetGo();
  {
    const auto session = world.Load("job");
    const std::multiset<uint64_t> more = world.Take(*session, /*most=*/1);
    ids.insert(more.begin(), more.end());
  }
  world.LetGo();
  world.Restart();
  const auto session = world.Load("job");
  // In the middle of the second window, which nobody has planned since the restart.
  const std::multiset<uint64_t> rest = world.Take(*session);
  EXPECT_GT(rest.size(), 0);
  ASSERT_GE(world.orders.size(), 2u);
  EXPECT_EQ(world.orders[0], kFirstWindow);
  EXPECT_EQ(world.orders[1], kFirstWindow);
  ids.insert(rest.begin(), rest.end());
  world.LetGo();
  const std::multiset<uint64_t> last = world.Take(*session);
  ids.insert(last.begin(), last.end());
  EXPECT_EQ(ids.size(), kSampledNodes);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kSampledNodes);
}

// A job that is deleted and begun anew under its name, at every point of its delivery, while a
// window of the deleted one is being planned, or fails to be; and that ends at every point of the
// new one.
TEST(WindowOrderTest, AWindowOfADeletedJobIsNoneOfTheJobThatHasItsName) {
  for (const bool fails : {false, true}) {
    for (int before = 1; before <= 12; ++before) {
      for (int after = 0; after <= 12; after += 3) {
        SCOPED_TRACE(testing::Message()
                     << "fails=" << fails << " before=" << before << " after=" << after);
        SampledLoader world;
        auto deleted = world.Load("job");
        world.Take(*deleted, before);
        std::vector<Loader::Planning> of_deleted = world.TakeHeld();
        ASSERT_THAT(world.loader().DeleteJob("job"), IsOk());
        const auto anew = world.Load("job", {/*max_nodes=*/24, /*seed=*/7});
        std::multiset<uint64_t> ids;
        const auto take = [&](int most) {
          const std::multiset<uint64_t> more = world.Take(*anew, most);
          ids.insert(more.begin(), more.end());
        };
        take(after);
        for (const Loader::Planning& work : of_deleted) work([fails] { return fails; });
        deleted = nullptr;
        for (int i = 0; i < 10; ++i) {
          take(1000);
          world.LetGo();
        }
        EXPECT_EQ(ids.size(), kSampledNodes);
        EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kSampledNodes);
        PH_ASSERT_OK_AND_ASSIGN(const JobSummary job, world.loader().GetJob("job"));
        ASSERT_EQ(job.epochs.size(), 1u);
        EXPECT_EQ(job.epochs[0].progress.num_done, job.epochs[0].progress.num_batches);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(WindowOrderTest, AWindowOfADeletedJobIsGivenUp) {
  SampledLoader world;
  const auto session = world.Load("job");
  world.Take(*session);
  ASSERT_EQ(world.num_held(), 1u);
  const uint64_t planned = session->epoch().windows()->Counts().size();
  ASSERT_THAT(world.loader().DeleteJob("job"), IsOk());
  world.LetGo();
  EXPECT_EQ(session->epoch().windows()->Counts().size(), planned);
}

// Whoever deletes a source graph, or replaces it: its sub-graphs keep nothing of it.
TEST(SampledEpochsTest, NothingIsKeptOfAGraphThatIsGone) {
  const SampledLoader world;
  const EpochRequest request = world.RequestOf("job");
  const uint64_t version = request.Find<SamplesRequest>()->source->graph().version();
  MemoryBudget budget(uint64_t{64} << 20);
  EpochCatalog catalog(nullptr, EpochBounds(), &budget);
  const auto prepare = [&] {
    ASSERT_THAT(catalog.PrepareKind(request), IsOk());
    EXPECT_NE(budget.held(), 0u);
  };
  prepare();
  catalog.ForgetGone([version](absl::string_view name) {
    EXPECT_EQ(name, "g");
    return version;
  });
  catalog.ForgetGone([](absl::string_view) { return absl::UnavailableError("nobody knows"); });
  EXPECT_NE(budget.held(), 0u);
  catalog.ForgetGone([version](absl::string_view) { return version + 1; });
  EXPECT_EQ(budget.held(), 0u);
  prepare();
  catalog.ForgetGone([](absl::string_view) { return absl::NotFoundError("deleted"); });
  EXPECT_EQ(budget.held(), 0u);
  prepare();
  catalog.ForgetThing("g");
  EXPECT_EQ(budget.held(), 0u);
  // What nobody uses from one call to the next keeps no graph from expiring.
  prepare();
  catalog.ForgetIdleThings();
  EXPECT_NE(budget.held(), 0u);
  prepare();
  catalog.ForgetIdleThings();
  EXPECT_NE(budget.held(), 0u);
  catalog.ForgetIdleThings();
  EXPECT_EQ(budget.held(), 0u);
}

// More windows than are kept: those that are gone are planned again, before they are needed.
TEST(WindowOrderTest, AnEvaluationComesWholeFromAnyStepToAnyNumberOfRanks) {
  SampledLoader world;
  for (const uint32_t window : {4U, 1U}) {
    const EpochRequest request = world.RequestOf("", {.window = window});
    Batches whole;
    ASSERT_THAT(world.Evaluate(request, {}, whole), IsOk());
    std::multiset<uint64_t> ids;
    for (const auto& [number, of_batch] : whole) ids.insert(of_batch.begin(), of_batch.end());
    EXPECT_EQ(ids.size(), kSampledNodes);
    EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kSampledNodes);
    // A step of 20 ranks lies in more windows than are kept otherwise.
    for (const uint32_t num_ranks : {2U, 3U, 20U}) {
      for (const uint64_t first_step : {uint64_t{0}, uint64_t{1}}) {
        Batches expected = whole;
        expected.erase(expected.begin(), expected.find(first_step * num_ranks));
        Batches batches;
        for (uint32_t rank = 0; rank < num_ranks; ++rank) {
          ASSERT_THAT(
              world.Evaluate(request, {Sharing::Ranked(num_ranks), rank, first_step}, batches),
              IsOk());
        }
        EXPECT_EQ(batches, expected);
      }
    }
    Batches none;
    EXPECT_THAT(world.Evaluate(request, {Sharing::Ranked(1), 0, whole.size()}, none), IsOk());
    EXPECT_EQ(none, Batches());
    EXPECT_THAT(world.Evaluate(request, {Sharing::Ranked(1), 0, whole.size() + 1}, none),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("first_step")));
  }
  EXPECT_THAT(world.orders, Contains(kFirstWindow));
  EXPECT_THAT(world.orders, Contains(kLaterWindow));
}

// A step of them lies in more windows than are kept otherwise.
TEST(WindowOrderTest, ManyRanksGetEachSubGraphOnce) {
  constexpr uint32_t kRanks = 20;
  SampledLoader world;
  std::vector<std::unique_ptr<LoadSession>> sessions;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    JoinRequest join;
    join.sharing = Sharing::Ranked(kRanks);
    join.queue = rank;
    auto session = world.loader().Load(world.RequestOf("job", {.window = 1}), join, 4, [] {});
    ASSERT_THAT(session, IsOk());
    sessions.push_back(*std::move(session));
  }
  std::multiset<uint64_t> ids;
  for (int round = 0; round < 1000 && ids.size() < kSampledNodes; ++round) {
    for (const auto& session : sessions) ids.merge(world.Take(*session));
    world.LetGo();
  }
  EXPECT_EQ(ids.size(), kSampledNodes);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kSampledNodes);
}

// Whoever asks for the steps of as many ranks gets the same ones.
TEST(WindowOrderTest, StepsOfOtherRanksAreAnotherEpoch) {
  SampledLoader world;
  const auto for_ranks = [&](uint32_t num_ranks) {
    EpochRequest request = world.RequestOf("");
    request.rank_groups[0].num_ranks = num_ranks;
    request.cost_balanced.emplace().cost = BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
    Batches batches;
    EXPECT_THAT(world.Evaluate(request, {}, batches), IsOk());
    return batches;
  };
  const Batches of_two = for_ranks(2);
  EXPECT_NE(for_ranks(3), of_two);
  EXPECT_EQ(for_ranks(2), of_two);
}

// An executor that has other work, and a call that is given up meanwhile.
TEST(WindowOrderTest, ACallThatIsGivenUpDoesNotWaitForItsWindow) {
  SampledLoader world;
  Loader::Planning held;
  world.loader().PlanInBackground([&held](const ClientId&, Loader::WindowOrder,
                                          Loader::Planning work) { held = std::move(work); });
  const Cancellation cancellation([] { return false; }, [] { return true; });
  EXPECT_THAT(world.loader().Load(
                  world.RequestOf("job"), OneRank(), 4, [] {}, cancellation),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  ASSERT_TRUE(held);
  // Nobody wants it any more, which it knows without asking.
  held([] {
    ADD_FAILURE() << "it is planned all the same";
    return true;
  });
  world.Restart();
  EXPECT_EQ(world.Take(*world.Load("job")).size(), kNodesOfWindow);
}

}  // namespace
}  // namespace packhouse
