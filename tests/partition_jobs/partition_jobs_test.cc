#include "service/wings/partition/jobs/partition_jobs.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/jobs/partition_check.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_needs.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/partition_jobs/jobs_world.h"
#include "tests/support/accounting.h"
#include "tests/support/fingerprint.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class PartitionJobsTest : public ::testing::Test {
 protected:
  // Where servers share partitions, each of these has all of them to itself.
  explicit PartitionJobsTest(bool is_shared = false) {
    if (is_shared) server_ = world_.Start("a:1", folder_.path());
  }
  // As a server that is started: what an earlier one left goes on.
  void Open(PartitionJobs::Options options = {}, MemoryBudget* memory = nullptr) {
    jobs_.reset();
    options.shared = server_.companions.get();
    jobs_ = std::make_unique<PartitionJobs>(&graphs_, &engine_, &clock_, memory, options);
  }

  PartitionJobState StateOf(const std::string& name) {
    const auto info = jobs_->Get("g", name);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->state : PartitionJobState::kFailed;
  }

  std::map<std::string, std::string> FilesOf(const std::string& name) {
    return ReadFilesOf(*jobs_, name);
  }

  // Of a run without jobs.
  std::map<std::string, std::string> ExpectedFiles(const PartitionPlan& plan) {
    const std::string folder = folder_.path() + "/expected";
    engine_.LetGo();
    const auto report = RunPartition(*graph_, plan, folder, &engine_, {});
    EXPECT_TRUE(report.ok()) << report.status();
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().string().substr(folder.size() + 1)] =
          std::string(std::istreambuf_iterator<char>(file), {});
    }
    return files;
  }

  // Where work lies, until it is whole.
  std::string WorkFolder() const {
    return folder_.path() +
           (server_.companions == nullptr ? "/companion" : "/companions/0000000000000001");
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  SharedPartitionsWorld world_;
  SharedPartitionsWorld::Server server_;
  const std::unique_ptr<const SourceGraph> graph_ = SmallSourceGraph(kNodes);
  OneGraphStore graphs_{SmallSourceGraph(kNodes), folder_.path() + "/companion"};
  SimulatedClock& clock_ = world_.cluster.clock;
  HeldEngine engine_;
  std::unique_ptr<PartitionJobs> jobs_;
};

// The same, of a folder and of what servers share.
class PartitionJobsLawTest : public PartitionJobsTest, public testing::WithParamInterface<bool> {
 protected:
  PartitionJobsLawTest() : PartitionJobsTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Kept, PartitionJobsLawTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Shared" : "InAFolder"; });

TEST_P(PartitionJobsLawTest, GoesOnAfterARestart) {
  engine_.Hold();
  Open();
  const PartitionPlan plan = PlanNamed("mine");
  ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
  engine_.AwaitCalls(1);
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kRunning);
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo running, jobs_->Get("g", "mine"));
  EXPECT_EQ(running.phase, RunPhase::kAssigning);
  EXPECT_GT(running.share_done, 0);

  Open();
  engine_.AwaitCalls(2);
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kRunning);
  engine_.LetGo();
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo done, jobs_->Get("g", "mine"));
  EXPECT_EQ(done.state, PartitionJobState::kDone);
  EXPECT_EQ(done.graph_version, graph_->version());
  ASSERT_TRUE(done.report.has_value());
  EXPECT_EQ(done.report->parts.size(), 3);
  EXPECT_EQ(FilesOf("mine"), ExpectedFiles(plan));
  EXPECT_TRUE(FilesOf("mine").contains("mine.json"));

  Open();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
  PH_ASSERT_OK_AND_ASSIGN(const auto list, jobs_->List("g"));
  ASSERT_EQ(list.size(), 1);
  EXPECT_TRUE(list[0].files.empty());
}

// As far as it is known how long the rest of the work takes.
TEST_P(PartitionJobsLawTest, TheRestIsWhatTheWorkSoFarTells) {
  engine_.Hold();
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(1);
  clock_.Advance(absl::Seconds(10));
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo running, jobs_->Get("g", "mine"));
  const double share = running.share_done;
  ASSERT_GT(share, 0);
  ASSERT_TRUE(running.rest.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(*running.rest), 10 * (1 - share) / share, 1e-6);
  ASSERT_THAT(jobs_->Cancel("g", "mine").status(), IsOk());
  EXPECT_FALSE(jobs_->Get("g", "mine")->rest.has_value());
}

// Its graph is on the second page of the list.
class PagedStore final : public OneGraphStore {
 public:
  using OneGraphStore::OneGraphStore;
  absl::StatusOr<SourceGraphList> List(size_t page_size, absl::string_view token) const override {
    if (token == "more") return OneGraphStore::List(page_size, token);
    SourceGraphInfo open;
    open.name = "open";
    return SourceGraphList{{open}, "more"};
  }
};

TEST_F(PartitionJobsTest, EveryPageOfGraphsIsSearchedForUnfinishedWork) {
  PagedStore graphs(SmallSourceGraph(kNodes), folder_.path() + "/companion");
  engine_.Hold();
  for (int calls = 1; calls <= 2; ++calls) {
    jobs_.reset();
    jobs_ = std::make_unique<PartitionJobs>(&graphs, &engine_, &clock_, nullptr,
                                            PartitionJobs::Options());
    if (calls == 1) {
      ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
    }
    engine_.AwaitCalls(calls);
  }
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
}

// A store of graphs may not answer just as a server starts: work waits for the next start then.
TEST(PartitionStartTest, UnfinishedWorkIsFoundLater) {
  struct Away final : OneGraphStore {
    using OneGraphStore::OneGraphStore;
    absl::StatusOr<SourceGraphList> List(size_t page_size, absl::string_view after) const override {
      if (lists) return OneGraphStore::List(page_size, after);
      return absl::UnavailableError("no list now");
    }
    absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
        absl::string_view name) const override {
      if (opens) return OneGraphStore::Open(name);
      return absl::UnavailableError("no graph now");
    }
    bool lists = true;
    bool opens = true;
  };
  const TemporaryFolder above(TemporaryFolder::InMemory());
  const std::string companion = above.path() + "/companion";
  Away used(SmallSourceGraph(6), companion);
  Away unused(SmallSourceGraph(6), companion);
  PartitionPlan plan = PlanNamed("p", PartMethod::kRandom);
  ASSERT_THAT(PartitionFolder(**used.Open("g"), "p").Create(plan, "me"), IsOk());
  SimulatedClock clock;
  PartitionJobs::Options options;
  options.unused_graphs = &unused;
  for (bool* const answers : {&used.lists, &unused.opens, &used.opens}) {
    *answers = false;
    PartitionJobs jobs(&used, nullptr, &clock, nullptr, options);
    jobs.AwaitIdle();
    *answers = true;
    PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo found, jobs.Get("g", "p"));
    EXPECT_NE(found.state, PartitionJobState::kDone);
  }
  PartitionJobs jobs(&used, nullptr, &clock, nullptr, options);
  jobs.AwaitIdle();
  EXPECT_EQ(jobs.Get("g", "p")->state, PartitionJobState::kDone);
}

TEST_P(PartitionJobsLawTest, WorkGoesOnWhereItsGraphIsNotDeleted) {
  engine_.Hold();
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(1);
  // Its store cannot.
  EXPECT_THAT(jobs_->DeleteGraph("g"), StatusIs(absl::StatusCode::kUnimplemented, _));
  engine_.AwaitCalls(2);
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
}

// Files of the right length whose content is another.
TEST_F(PartitionJobsTest, DamagedPartsOfNodesAreNotGiven) {
  Open();
  PartitionPlan bare = PlanNamed("bare");
  bare.mapping = false;
  bare.without_files = true;
  ASSERT_THAT(jobs_->Partition("g", bare).status(), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("full")).status(), IsOk());
  jobs_->AwaitIdle();
  const auto says = [&](const std::string& name, const std::string& file, const std::string& after,
                        size_t skip, const std::string& bytes) {
    const std::string path = folder_.path() + "/companion/partitions/" + name + "/files/" + file;
    const std::string before = BytesOf(path);
    std::string changed = before;
    const size_t at = before.find(after) + after.size() + skip;
    changed.replace(at, bytes.size(), bytes);
    std::ofstream(path, std::ios::binary) << changed;
    const absl::Status status = jobs_->PartsOf("g", name).status();
    std::ofstream(path, std::ios::binary) << before;
    EXPECT_THAT(jobs_->PartsOf("g", name).status(), IsOk());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  // Rows begin after the header's line.
  const std::string bare_is = "parts.npy is damaged: ";
  EXPECT_EQ(says("bare", "parts.npy", "\n", 0, "\x03"), bare_is + "a node is in no part");
  EXPECT_EQ(says("bare", "parts.npy", "'<", 0, "i"),
            bare_is + "it does not have a part for each node");
  EXPECT_EQ(says("bare", "parts.npy", "", 0, "x"),
            bare_is + "it does not have a part for each node");
  // Of DGL's arrays: 48 bytes from the end of a name to its first element, 28 to its type.
  const std::string full_is = "part0/graph.dgl is damaged: ";
  const std::string no_arrays = full_is + "its nodes have no inner_node, orig_id or _TYPE";
  EXPECT_EQ(says("full", "part0/graph.dgl", "", 0, "x"),
            full_is +
                "at byte 0: the mark of a graph file: dd2e4ff046b4a178 where "
                "dd2e4ff046b4a13f is expected (hexadecimal)");
  for (const char* const name : {"inner_node", "orig_id"}) {
    EXPECT_EQ(says("full", "part0/graph.dgl", std::string(name).substr(0, 5), 0, "x"), no_arrays);
    const std::string other(1, name[0] == 'i' ? '\0' : '\1');
    EXPECT_EQ(says("full", "part0/graph.dgl", name, 28, other), no_arrays);
  }
  EXPECT_EQ(says("full", "part0/graph.dgl", "orig_id", 48, "\x2c\x01"),
            full_is + "node 0 is none of the graph");
  EXPECT_EQ(says("full", "part0/graph.dgl", "orig_id", 48 + 7, "\xff"),
            full_is + "node 0 is none of the graph");
  EXPECT_EQ(says("full", "part1/graph.dgl", "orig_id", 48, std::string(1, '\0')),
            "part1/graph.dgl is damaged: node 0 is in two parts");
}

TEST_P(PartitionJobsLawTest, CancelledStaysSoUntilItIsAskedForAgain) {
  engine_.Hold();
  Open();
  const PartitionPlan plan = PlanNamed("mine");
  ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("waits")).status(), IsOk());
  engine_.AwaitCalls(1);
  for (const char* const name : {"mine", "waits"}) {
    PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo cancelled, jobs_->Cancel("g", name));
    EXPECT_EQ(cancelled.state, PartitionJobState::kCancelled);
    EXPECT_THAT(jobs_->Cancel("g", name).status(), IsOk());
  }
  engine_.LetGo();
  Open();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kCancelled);
  EXPECT_EQ(StateOf("waits"), PartitionJobState::kCancelled);
  EXPECT_THAT(jobs_->ReadFile("g", "mine", "mine.json", 0, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'mine'")));

  ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(FilesOf("mine"), ExpectedFiles(plan));
  // What is done stays so.
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo done, jobs_->Cancel("g", "mine"));
  EXPECT_EQ(done.state, PartitionJobState::kDone);
}

TEST_P(PartitionJobsLawTest, AFailureIsToldAlsoAfterARestart) {
  Open();
  engine_.FailWith(absl::InternalError("the engine broke"));
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  for (int i = 0; i < 2; ++i) {
    jobs_->AwaitIdle();
    PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo failed, jobs_->Get("g", "mine"));
    EXPECT_EQ(failed.state, PartitionJobState::kFailed);
    EXPECT_THAT(failed.error, StatusIs(absl::StatusCode::kInternal, HasSubstr("engine broke")));
    Open();
  }
  engine_.FailWith(absl::OkStatus());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
}

TEST_P(PartitionJobsLawTest, OneRunsSomeWait) {
  engine_.Hold();
  Open({.max_running = 1, .max_waiting = 1});
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("a")).status(), IsOk());
  engine_.AwaitCalls(1);
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("b")).status(), IsOk());
  EXPECT_EQ(StateOf("a"), PartitionJobState::kRunning);
  EXPECT_EQ(StateOf("b"), PartitionJobState::kWaiting);
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("c")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 1")));
  EXPECT_THAT(jobs_->Get("g", "c"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'c'")));
  // The same words find it; others do not.
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("b")).status(), IsOk());
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("b", PartMethod::kRandom)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'b'")));
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("a"), PartitionJobState::kDone);
  EXPECT_EQ(StateOf("b"), PartitionJobState::kDone);
}

// One that asks for many waits behind one that asks for few.
TEST_P(PartitionJobsLawTest, ClientsTakeTurnsAndHaveHalfOfThePlacesEach) {
  engine_.Hold();
  Open({.max_running = 1, .max_waiting = 8});
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("first"), "a").status(), IsOk());
  engine_.AwaitCalls(1);
  for (const char* const name : {"aa", "ab", "ac", "ad"}) {
    ASSERT_THAT(jobs_->Partition("g", PlanNamed(name), "a").status(), IsOk());
  }
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("ae"), "a").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("client 'a' has 4"), HasSubstr("--max-waiting"))));
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("ba"), "b").status(), IsOk());
  // Cancelled, it gives its place back.
  ASSERT_THAT(jobs_->Cancel("g", "ad").status(), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("ae"), "a").status(), IsOk());
  engine_.LetGo();
  jobs_->AwaitIdle();
  for (const char* const name : {"first", "aa", "ab", "ac", "ae", "ba"}) {
    EXPECT_EQ(StateOf(name), PartitionJobState::kDone);
  }
}

TEST(PartitionQueueTest, TheClientWithTheLeastTimeIsNext) {
  PartitionQueue queue;
  const auto next = [&queue] { return queue.Pop().key.second; };
  for (const char* const name : {"a1", "a2", "a3"}) queue.Push({"g", name}, "a");
  queue.Push({"g", "b1"}, "b");
  EXPECT_EQ(next(), "a1");
  queue.Push({"g", "c1"}, "c");
  queue.Done("a", absl::Seconds(9));
  EXPECT_EQ(next(), "b1");
  queue.Done("b", absl::Seconds(1));
  EXPECT_EQ(next(), "c1");
  // One that comes now begins as the one with the least, not before all.
  queue.Push({"g", "d1"}, "d");
  EXPECT_EQ(next(), "d1");
  queue.Done("c", absl::Seconds(1));
  queue.Done("d", absl::Seconds(1));
  EXPECT_TRUE(queue.Remove({"g", "a3"}));
  EXPECT_FALSE(queue.Remove({"g", "a3"}));
  EXPECT_EQ(next(), "a2");
  queue.Done("a", absl::ZeroDuration());
  EXPECT_TRUE(queue.empty());
}

TEST(PartitionQueueTest, OfTwoThatRunEachIsAnotherClients) {
  PartitionQueue queue;
  for (const char* const name : {"a1", "a2"}) queue.Push({"g", name}, "a");
  queue.Push({"g", "b1"}, "b");
  EXPECT_EQ(queue.Pop().key.second, "a1");
  EXPECT_EQ(queue.Pop().key.second, "b1");
}

TEST(PartitionQueueTest, OthersAreDueWhoHadLessTime) {
  PartitionQueue queue;
  queue.Push({"g", "a1"}, "a");
  EXPECT_EQ(queue.Pop().client, "a");
  EXPECT_FALSE(queue.IsTurnOfOthers("a", absl::Seconds(5)));
  queue.Push({"g", "a2"}, "a");
  EXPECT_FALSE(queue.IsTurnOfOthers("a", absl::Seconds(5)));
  // It begins with the time of the one that runs, and is due once that has had more.
  queue.Push({"g", "b1"}, "b");
  EXPECT_FALSE(queue.IsTurnOfOthers("a", absl::ZeroDuration()));
  EXPECT_TRUE(queue.IsTurnOfOthers("a", absl::Nanoseconds(1)));
}

// Beyond the bound of the disk work ends, and what is deleted counts no more.
TEST_F(PartitionJobsTest, FilesHaveABound) {
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("a")).status(), IsOk());
  jobs_->AwaitIdle();
  uint64_t bytes = 0;
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo done, jobs_->Get("g", "a"));
  for (const PartitionJobFile& file : done.files) bytes += file.num_bytes;
  // Room for one and a half.
  const uint64_t bound = bytes * 3 / 2;
  // What was written before a restart counts as well.
  Open({.max_bytes = bound});
  jobs_->AwaitIdle();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("b")).status(), IsOk());
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo failed, jobs_->Get("g", "b"));
  EXPECT_EQ(failed.state, PartitionJobState::kFailed);
  EXPECT_THAT(failed.error,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("'b'"), HasSubstr(absl::StrCat("at most ", bound)))));
  ASSERT_THAT(jobs_->Delete("g", "a"), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("b")).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("b"), PartitionJobState::kDone);
}

// The mapping counts while it is written, not only when the next partition is asked for.
TEST_F(PartitionJobsTest, TheMappingCounts) {
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("a")).status(), IsOk());
  jobs_->AwaitIdle();
  uint64_t of_parts = 0;
  uint64_t of_mapping = 0;
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo done, jobs_->Get("g", "a"));
  for (const PartitionJobFile& file : done.files) {
    if (file.path.starts_with("part")) of_parts += file.num_bytes;
    if (file.path.starts_with("mapping/")) of_mapping += file.num_bytes;
  }
  ASSERT_GT(of_mapping, 1000);
  ASSERT_THAT(jobs_->Delete("g", "a"), IsOk());
  // The assignment is kept until the partition is whole.
  constexpr uint64_t kAssignment = kNodes * sizeof(uint32_t) + 128;
  Open({.max_bytes = of_parts + kAssignment + of_mapping / 2});
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("a")).status(), IsOk());
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo failed, jobs_->Get("g", "a"));
  EXPECT_EQ(failed.state, PartitionJobState::kFailed);
  EXPECT_THAT(failed.error,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-partition-bytes")));
}

// The parts of nodes are those that the engine gave, with files of parts and without.
TEST_P(PartitionJobsLawTest, PartsOfNodesAreKept) {
  Open();
  PartitionPlan plan = PlanNamed("bare");
  plan.mapping = false;
  plan.without_files = true;
  EXPECT_THAT(jobs_->PartsOf("g", "bare").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("bare")));
  ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("full")).status(), IsOk());
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo bare, jobs_->Get("g", "bare"));
  EXPECT_EQ(bare.files.size(), 2);
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo full, jobs_->Get("g", "full"));
  PH_ASSERT_OK_AND_ASSIGN(const auto of_bare, jobs_->PartsOf("g", "bare"));
  PH_ASSERT_OK_AND_ASSIGN(const auto of_full, jobs_->PartsOf("g", "full"));
  EXPECT_EQ(of_bare.num_parts, 3);
  EXPECT_EQ(of_bare.part, of_full.part);
  for (uint32_t node = 0; node < of_bare.part.size(); ++node) {
    EXPECT_EQ(of_bare.part[node], node % 3);
  }
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(bare.report->parts[p].num_inner_edges, full.report->parts[p].num_inner_edges);
    EXPECT_EQ(bare.report->parts[p].num_cut_edges, full.report->parts[p].num_cut_edges);
  }
  plan.mapping = true;
  EXPECT_THAT(jobs_->Partition("g", plan).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mapping")));
}

TEST_P(PartitionJobsLawTest, DeletingEndsTheWorkAndFreesTheName) {
  engine_.Hold();
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(1);
  ASSERT_THAT(jobs_->Delete("g", "mine"), IsOk());
  EXPECT_THAT(jobs_->Get("g", "mine"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'mine'")));
  EXPECT_THAT(jobs_->Delete("g", "mine"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("mine")));
  EXPECT_TRUE(std::filesystem::is_empty(WorkFolder() + "/partitions"));
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine", PartMethod::kRandom)).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
}

// Counts uses.
class CountingStore final : public OneGraphStore {
 public:
  using OneGraphStore::OneGraphStore;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override {
    ++opens;
    return OneGraphStore::Open(name);
  }

  mutable std::atomic<int> opens = 0;
};

TEST_F(PartitionJobsTest, WorkIsAUseOfItsGraphAndToLookIsNone) {
  CountingStore used(SmallSourceGraph(kNodes), folder_.path() + "/companion");
  const std::weak_ptr<const StoredSourceGraph> graph = used.Open("g").value();
  PartitionJobs::Options options;
  options.unused_graphs = &graphs_;
  const auto open = [&] {
    jobs_.reset();
    jobs_ = std::make_unique<PartitionJobs>(&used, &engine_, &clock_, nullptr, options);
  };
  engine_.Hold();
  open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("first")).status(), IsOk());
  engine_.AwaitCalls(1);
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("second")).status(), IsOk());
  // The store has it, the one that runs, and the one that waits.
  EXPECT_GE(graph.use_count(), 3);
  engine_.LetGo();
  jobs_->AwaitIdle();

  used.opens = 0;
  open();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("first"), PartitionJobState::kDone);
  PH_ASSERT_OK_AND_ASSIGN(const auto list, jobs_->List("g"));
  EXPECT_EQ(list.size(), 2);
  EXPECT_EQ(used.opens, 0);
}

TEST_F(PartitionJobsTest, AGraphThatIsForgottenGivesItsBytesBack) {
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine", PartMethod::kRandom)).status(), IsOk());
  jobs_->AwaitIdle();
  PartitionJobs::Options options;
  options.max_bytes = 0;
  Open(options);
  jobs_->AwaitIdle();
  const PartitionPlan other = PlanNamed("other", PartMethod::kRandom);
  EXPECT_THAT(jobs_->Partition("g", other),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-partition-bytes")));
  // Its sweep has deleted it: there is room for the next of that name.
  jobs_->ForgetGraph("g");
  EXPECT_THAT(jobs_->Partition("g", other).status(), IsOk());
}

TEST_P(PartitionJobsLawTest, MemoryIsHeldBefore) {
  MemoryBudget small(1000);
  Open({}, &small);
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("mine")),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("'mine'"), HasSubstr("is 1000"))));
  PH_ASSERT_OK_AND_ASSIGN(const auto list, jobs_->List("g"));
  EXPECT_TRUE(list.empty());

  MemoryBudget budget(1 << 20);
  Open({}, &budget);
  engine_.Hold();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(1);
  const uint64_t edges = graph_->num_edges(0);
  EXPECT_GE(budget.held(), kBytesPerEntry * 2 * edges);
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(budget.held(), 0);

  // Others have it: the job waits, and begins when it is free. Who asks twice was refused.
  PH_ASSERT_OK_AND_ASSIGN(MemoryHold others, budget.Hold("a test", budget.bound()));
  std::atomic<int> times = 0;
  absl::Notification refused;
  budget.SetReclaim([&](uint64_t) {
    if (++times == 2) refused.Notify();
  });
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("later")).status(), IsOk());
  refused.WaitForNotification();
  EXPECT_NE(StateOf("later"), PartitionJobState::kFailed);
  budget.SetReclaim(nullptr);
  others.Reset();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("later"), PartitionJobState::kDone);
}

// Whoever asks for the parts of nodes holds them as long as it has them.
TEST_P(PartitionJobsLawTest, PartsOfNodesAreAccountedFor) {
  Open();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  jobs_->AwaitIdle();
  ExpectAccounted(
      [this](MemoryBudget* memory) {
        Open({}, memory);
        absl::StatusOr<PartitionJobs::Parts> parts = jobs_->PartsOf("g", "mine");
        jobs_.reset();
        return parts;
      },
      [](const PartitionJobs::Parts& parts) { return sizeof(uint32_t) * parts.part.size(); });
}

// Asked for again at any moment while it fails: it runs again.
TEST_P(PartitionJobsLawTest, OneThatFailsIsAskedForAgainAtOnce) {
  Open();
  engine_.FailWith(absl::InternalError("the engine broke"));
  for (int i = 0; i < 200; ++i) {
    ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
    while (StateOf("mine") != PartitionJobState::kFailed) std::this_thread::yield();
  }
  engine_.FailWith(absl::OkStatus());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
}

// A process that ends at a partition leaves it as this one does, with its count.
TEST_P(PartitionJobsLawTest, AfterTwoCrashesItHasFailed) {
  Open();
  engine_.Hold();
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(1);
  const std::string starts = WorkFolder() + "/partitions/mine/starts";
  const auto count = [&starts] {
    std::ifstream file(starts);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(count(), "1");
  const auto open_after_crash = [&](const std::string& counted) {
    jobs_.reset();
    EXPECT_FALSE(std::filesystem::exists(starts)) << "an end in order is none";
    std::ofstream(starts) << counted;
    Open();
  };
  open_after_crash("1");
  engine_.AwaitCalls(2);
  EXPECT_EQ(count(), "2");
  open_after_crash("2");
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo failed, jobs_->Get("g", "mine"));
  EXPECT_EQ(failed.state, PartitionJobState::kFailed);
  EXPECT_THAT(failed.error,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("ended 2 times"), HasSubstr("'mine'"), HasSubstr("'g'"))));
  // Asked for again, it is tried again; what gets further is not counted.
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  engine_.AwaitCalls(3);
  open_after_crash("1");
  engine_.AwaitCalls(4);
  EXPECT_EQ(count(), "2");
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("mine"), PartitionJobState::kDone);
  EXPECT_FALSE(std::filesystem::exists(starts));
}

// One that writes many parts does not hold up another client's for long.
TEST_F(PartitionJobsTest, OneThatRunsGivesWay) {
  engine_.Hold();
  PartitionPlan many = PlanNamed("many");
  many.options.num_parts = 40;
  const auto expected = ExpectedFiles(many);
  engine_.Hold();
  Open({.max_running = 1, .slice = absl::ZeroDuration()});
  ASSERT_THAT(jobs_->Partition("g", many, "a").status(), IsOk());
  engine_.AwaitCalls(2);
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("few"), "b").status(), IsOk());
  // A turn of the first one takes a second, as the clock says.
  clock_.Advance(absl::Seconds(1));
  engine_.LetGo();
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("few"), PartitionJobState::kDone);
  EXPECT_EQ(FilesOf("many"), expected);
  const auto done_at = [this](const std::string& name) {
    return std::filesystem::last_write_time(folder_.path() + "/companion/partitions/" + name +
                                            "/files/report.json");
  };
  EXPECT_LT(done_at("few"), done_at("many"));
}

TEST_P(PartitionJobsLawTest, BytesCountInTheQuotaOfTheNamespace) {
  uint64_t most = uint64_t{1} << 30;
  DiskQuota quota([&most](absl::string_view) {
    Quotas quotas;
    quotas.disk_bytes = most;
    return quotas;
  });
  Open({.quota = &quota});
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  jobs_->AwaitIdle();
  const auto bytes_now = [this] {
    const auto all = jobs_->BytesByNamespace();
    EXPECT_THAT(all, IsOk());
    EXPECT_EQ(all->size(), 1U);
    return all->at(std::string(NamespaceOf("g")));
  };
  const uint64_t bytes = bytes_now();
  EXPECT_GT(bytes, 1000U);
  // Another one like it has no room.
  most = bytes + bytes / 2;
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("second")).status(), IsOk());
  jobs_->AwaitIdle();
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo failed, jobs_->Get("g", "second"));
  EXPECT_THAT(failed.error,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk_bytes")));
  most = 3 * bytes;
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("second")).status(), IsOk());
  jobs_->AwaitIdle();
  EXPECT_EQ(StateOf("second"), PartitionJobState::kDone);
  ASSERT_THAT(jobs_->Delete("g", "second"), IsOk());
  EXPECT_EQ(bytes_now(), bytes);
  // What is there stays; nothing new begins.
  most = bytes - 1;
  EXPECT_THAT(jobs_->Partition("g", PlanNamed("third")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk_bytes")));
  jobs_.reset();
}

TEST_P(PartitionJobsLawTest, RefusesWhatIsNotThere) {
  Open();
  for (const char* const name : {"", ".", "..", "a/b", "none"}) {
    EXPECT_THAT(jobs_->Get("g", name), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'g'")));
  }
  EXPECT_THAT(jobs_->Get("h", "mine"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  PartitionPlan plan = PlanNamed("mine");
  plan.classes = {{"n", {"y"}}};
  EXPECT_THAT(jobs_->Partition("g", plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("balance_node_sets[0]"), HasSubstr("'y'"))));
  plan.classes.clear();
  plan.options.num_hops = PartitionOptions::kMaxHops + 1;
  EXPECT_THAT(jobs_->Partition("g", plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_hops is 17")));
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("mine")).status(), IsOk());
  jobs_->AwaitIdle();
  for (const char* const path :
       {"", ".", "../request.json", "part0/../../request.json", "part0", "none", "/etc/passwd"}) {
    EXPECT_THAT(jobs_->ReadFile("g", "mine", path, 0, 10),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no file")))
        << path;
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto start, jobs_->ReadFile("g", "mine", "mine.json", 0, 10));
  EXPECT_EQ(start.data.size(), 10);
  PH_ASSERT_OK_AND_ASSIGN(const auto end,
                          jobs_->ReadFile("g", "mine", "mine.json", start.num_bytes, 10));
  EXPECT_EQ(end.data, "");
  EXPECT_THAT(jobs_->ReadFile("g", "mine", "mine.json", start.num_bytes + 1, 10),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("mine.json")));
}

auto IsNamed(const std::string& name) {
  return testing::Field(&PartitionJobInfo::plan, testing::Field(&PartitionPlan::name, name));
}

// Adds what is said of the partition `mine`, whatever the folder is called.
void NoteWords(const PartitionJobs& jobs, const std::string& companion, const std::string& of,
               std::set<std::string>& told) {
  const auto note = [&](const std::string& words) {
    told.insert(absl::StrReplaceAll(absl::StrCat(of, ": ", words), {{companion, "COMPANION"}}));
  };
  CheckPartitions("g", companion, [&](const StoredDamage& damage) {
    note(absl::StrCat(damage.file, " ", damage.what, " ", damage.cost));
  });
  note(jobs.List("g").status().ToString());
  note(jobs.Get("g", "mine").status().ToString());
  for (const char* const file : {"part0/graph.dgl", "mine.json", "report.json"}) {
    note(jobs.ReadFile("g", "mine", file, 0, 1).status().ToString());
  }
  note(jobs.PartsOf("g", "mine").status().ToString());
}

void Damage(const std::string& path, const std::string& how) {
  if (how == "delete") {
    std::filesystem::remove_all(path);
    return;
  }
  std::string bytes = BytesOf(path);
  if (how == "empty") bytes.clear();
  if (how == "cut off") bytes.pop_back();
  if (how == "change") bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

void ExpectTheseWords(const std::set<std::string>& told) {
  Fingerprint fingerprint;
  for (const std::string& words : told) fingerprint.AddAll(words);
  EXPECT_EQ(fingerprint.value(), 14834050809667754186U) << absl::StrJoin(told, "\n");
}

// Whatever is deleted, emptied or changed of a partition or of the list is found by name, and the
// server says so where it matters; nothing of it looks like a partition that never was.
TEST_F(PartitionJobsTest, DamageIsFoundByNameAndSaid) {
  PartitionPlan plan = PlanNamed("mine", PartMethod::kRandom);
  plan.assignment = true;
  Open();
  ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
  ASSERT_THAT(jobs_->Partition("g", PlanNamed("other", PartMethod::kRandom)).status(), IsOk());
  jobs_->AwaitIdle();
  const auto expected = FilesOf("mine");
  jobs_.reset();
  const std::string companion = folder_.path() + "/companion";
  const std::string kept = folder_.path() + "/kept";
  std::filesystem::copy(companion, kept, std::filesystem::copy_options::recursive);
  const auto damages = [&companion] {
    std::vector<std::string> files;
    CheckPartitions("g", companion, [&](const StoredDamage& damage) {
      files.push_back(damage.file.substr(companion.size() + 1));
      EXPECT_NE(damage.what, "");
      EXPECT_NE(damage.cost, "");
    });
    return files;
  };
  EXPECT_THAT(damages(), testing::IsEmpty());
  std::set<std::string> told;
  std::vector<std::string> things = {"partition_list", "partitions", "partitions/mine"};
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(companion + "/partitions/mine")) {
    things.push_back(entry.path().string().substr(companion.size() + 1));
  }
  EXPECT_GT(things.size(), 15U);
  for (const std::string& thing : things) {
    for (const std::string how : {"delete", "empty", "cut off", "change"}) {
      const std::string path = companion + "/" + thing;
      if (std::filesystem::is_directory(path) && how != "delete") continue;
      SCOPED_TRACE(how + " " + thing);
      Damage(path, how);
      // By its own name, or by those of the files that were in it.
      EXPECT_THAT(damages(), testing::Contains(AnyOf(thing, StartsWith(thing + "/"))));
      Open();
      jobs_->AwaitIdle();
      const auto listed = jobs_->List("g");
      const auto mine = jobs_->Get("g", "mine");
      NoteWords(*jobs_, companion, how + " " + thing, told);
      if (thing == "partition_list") {
        // Nobody knows which there must be; what is there reads.
        EXPECT_THAT(listed.status(),
                    StatusIs(absl::StatusCode::kDataLoss,
                             AllOf(HasSubstr(thing), HasSubstr("--accept-missing"))));
        EXPECT_THAT(jobs_->Get("g", "none").status(),
                    StatusIs(absl::StatusCode::kDataLoss, HasSubstr(thing)));
        EXPECT_THAT(jobs_->Partition("g", PlanNamed("new")).status(),
                    StatusIs(absl::StatusCode::kDataLoss, HasSubstr(thing)));
        EXPECT_EQ(FilesOf("mine"), expected);
      } else {
        // It is put aside, with its name; or its files say with which bytes they were written.
        ASSERT_THAT(listed.status(), IsOk());
        EXPECT_THAT(*listed, testing::UnorderedElementsAre(IsNamed("mine"), IsNamed("other")));
        if (mine.ok()) {
          EXPECT_EQ(how, "change");
        } else {
          EXPECT_THAT(mine.status(), StatusIs(absl::StatusCode::kDataLoss,
                                              AllOf(HasSubstr("'mine'"), HasSubstr("snapshot"))));
          EXPECT_THAT(jobs_->Partition("g", plan).status(),
                      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'mine'")));
        }
        // The way out that is named.
        if (thing != "partitions") {
          ASSERT_THAT(jobs_->Get("g", "other").status(), IsOk());
        }
        ASSERT_THAT(jobs_->Delete("g", "mine"), IsOk());
        EXPECT_THAT(jobs_->Get("g", "mine").status(), StatusIs(absl::StatusCode::kNotFound, _));
        ASSERT_THAT(jobs_->Partition("g", plan).status(), IsOk());
        jobs_->AwaitIdle();
        EXPECT_EQ(FilesOf("mine"), expected);
      }
      jobs_.reset();
      if (thing == "partition_list") {
        std::vector<std::string> missing;
        ASSERT_THAT(AcceptMissingPartitions(
                        "g", companion,
                        [&](const StoredDamage& damage) { missing.push_back(damage.file); }),
                    IsOk());
        EXPECT_THAT(missing, testing::ElementsAre(companion + "/partition_list"));
        EXPECT_EQ(BytesOf(path), BytesOf(kept + "/partition_list"));
      }
      if (thing != "partitions") {
        EXPECT_THAT(damages(), testing::IsEmpty());
      }
      std::filesystem::remove_all(companion);
      std::filesystem::copy(kept, companion, std::filesystem::copy_options::recursive);
    }
  }
  ExpectTheseWords(told);
  // What is missing can be given up without a server.
  std::filesystem::remove_all(companion + "/partitions/mine");
  EXPECT_THAT(damages(), testing::ElementsAre("partitions/mine"));
  ASSERT_THAT(AcceptMissingPartitions("g", companion, [](const StoredDamage&) {}), IsOk());
  EXPECT_THAT(damages(), testing::IsEmpty());
  Open();
  PH_ASSERT_OK_AND_ASSIGN(const auto left, jobs_->List("g"));
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].plan.name, "other");
}

}  // namespace
}  // namespace packhouse
