// A partition, whichever of its steps fails: whole, or none; and the same call goes on from what
// was done.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/graph_folders.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/partition_check.h"
#include "service/wings/partition/jobs/partition_folder.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition_mpi/runs/distributed_run.h"
#include "tests/failing_steps/partition_world.h"
#include "tests/partitioning/thread_ranks.h"
#include "tests/support/failing_calls.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_steps.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

StepsOptions OnceDone() {
  StepsOptions options;
  options.again = absl::StatusCode::kAlreadyExists;
  return options;
}

TEST(PartitionStepsTest, Cancelled) {
  const auto graph = SmallSourceGraph(40);
  for (const bool lasts : {false, true}) {
    CancelledSteps cancelled(lasts);
    RunWatch watch;
    watch.cancelled = [&cancelled] { return cancelled.Fails(); };
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<PartitionWorld>(*graph, watch); }, cancelled, OnceDone());
    EXPECT_EQ(told.num_done, 0U);
  }
}

// What a partition has on the disk is told after each file; whoever counts it may refuse.
class RefusedDisk final : public CountedSteps {
 public:
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kResourceExhausted};
  }
};

TEST(PartitionStepsTest, DiskFails) {
  const auto graph = SmallSourceGraph(40);
  PartitionPlan all = ThreeParts();
  all.original_ids = all.mapping = true;
  PartitionPlan none = ThreeParts();
  none.without_files = true;
  for (const PartitionPlan& plan : {ThreeParts(), all, none}) {
    for (const int error : {EIO, ENOSPC, EMFILE}) {
      FailingDisk disk({error, false, false});
      StepsOptions options = OnceDone();
      options.most_steps = 30;
      options.each_kind = true;
      ExpectDoneOrNot([&] { return std::make_unique<PartitionWorld>(*graph, RunWatch(), plan); },
                      disk, options);
    }
  }
}

// Folders of files, each made of the one before or read.
enum class Folder { kChunked, kReadChunked, kDistributed, kParts, kConverted };

// Deals nodes to parts in turn.
class DealingEngine final : public ShareEngine {
 public:
  absl::StatusOr<std::vector<uint32_t>> Assign(SymmetricShare& graph, std::vector<int64_t>&,
                                               uint32_t num_parts, double, uint64_t) override {
    std::vector<uint32_t> part(graph.num_own());
    for (size_t own = 0; own < part.size(); ++own) part[own] = own % num_parts;
    return part;
  }
};

class FolderWorld final : public StepsWorld {
 public:
  FolderWorld(const HomogeneousGraph& graph, Folder folder) : graph_(graph), folder_(folder) {
    std::filesystem::create_directory(this->folder());
    EXPECT_TRUE(WriteParmetisFolder(graph_, Path("parmetis"), "g").ok());
    if (folder_ == Folder::kReadChunked || folder_ == Folder::kDistributed) {
      EXPECT_TRUE(Do(Folder::kChunked).ok());
    }
    if (folder_ == Folder::kConverted) {
      EXPECT_TRUE(Do(Folder::kParts).ok());
    }
  }
  absl::Status Attempt() override { return Do(folder_); }
  std::string State() override {
    std::string state = read_;
    for (const auto& [path, bytes] : FilesBelow(folder())) {
      if (!absl::StrContains(path, PartialFolder(""))) state += path + "=" + bytes + "\n";
    }
    return state;
  }
  std::string folder() const override { return temporary_.path() + "/w"; }

 private:
  std::string Path(const char* name) const { return folder() + "/" + name; }
  absl::Status Do(Folder folder) {
    switch (folder) {
      case Folder::kChunked:
        return WriteChunkedFolder(graph_, {}, Path("chunked")).status();
      case Folder::kReadChunked: {
        PH_ASSIGN_OR_RETURN(const auto graph, ReadChunkedFolder(Path("chunked")));
        read_ = absl::StrCat("version ", graph->version(), "\n");
        return absl::OkStatus();
      }
      case Folder::kDistributed: {
        DistributedRequest request;
        request.graph = Path("chunked");
        request.plan = ThreeParts();
        request.plan.mapping = request.plan.original_ids = request.plan.assignment = true;
        request.output = Path("distributed");
        absl::Status ended;
        RunOnRanks(2, [&](Ranks& ranks) {
          DealingEngine engine;
          const auto report = RunDistributedPartition(ranks, request, engine, {});
          if (ranks.rank() == 0) ended = report.status();
        });
        return ended;
      }
      case Folder::kParts: {
        ParmetisPartition partition;
        partition.input_folder = Path("parmetis");
        partition.graph_name = "g";
        partition.output = Path("parts");
        partition.options.num_parts = 2;
        return PartitionParmetisFolder(partition, nullptr).status();
      }
      case Folder::kConverted: {
        ParmetisConversion conversion;
        conversion.input_folder = Path("parts");
        conversion.graph_name = "g";
        conversion.schema = Path("parmetis/g.json");
        conversion.removed_edges = Path("parmetis/g_removed_edges.txt");
        conversion.num_parts = 2;
        conversion.num_weights = graph_.node_types().size();
        conversion.output = Path("converted");
        return ConvertParmetisFolder(conversion).status();
      }
    }
    return absl::InternalError("not reached");
  }

  const HomogeneousGraph& graph_;
  const Folder folder_;
  const TemporaryFolder temporary_{TemporaryFolder::InMemory()};
  std::string read_;
};

TEST(PartitionStepsTest, DiskFailsUnderAFolderOfFiles) {
  const auto source = SmallSourceGraph(40);
  const auto graph = HomogeneousGraph::Create(source.get());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const Folder folder : {Folder::kChunked, Folder::kReadChunked, Folder::kDistributed,
                              Folder::kParts, Folder::kConverted}) {
    for (const int error : {EIO, ENOSPC, EMFILE}) {
      if (folder == Folder::kReadChunked && error == ENOSPC) continue;
      SCOPED_TRACE(absl::StrCat(static_cast<int>(folder), ": ", std::strerror(error)));
      FailingDisk disk({error, false, false});
      StepsOptions options = OnceDone();
      options.most_steps = 30;
      options.each_kind = true;
      ExpectDoneOrNot([&] { return std::make_unique<FolderWorld>(*graph, folder); }, disk, options);
    }
  }
}

// In pieces below, at and above what is written at once.
TEST(PartitionStepsTest, DiskFailsUnderAFile) {
  for (const size_t bytes : {size_t{0}, size_t{1} << 20, (size_t{5} << 20) + 1}) {
    for (const size_t piece : {size_t{300'000}, size_t{3} << 20}) {
      const std::string text(bytes, 'x');
      ForEachStep([&](uint64_t step) {
        const TemporaryFolder folder(TemporaryFolder::InMemory());
        FailingCalls failing(folder.path(), FailingCalls::Failure{step, EIO});
        // An error that is not heard where it comes is told at the end.
        const auto written = WriteDurably(folder.path() + "/f", [&](ByteSink& sink) {
          for (size_t at = 0; at < bytes; at += piece) {
            sink.Write(absl::string_view(text).substr(at, piece)).IgnoreError();
          }
          return absl::OkStatus();
        });
        failing.Stop();
        EXPECT_EQ(written.ok(), !failing.has_failed()) << failing.what();
        return failing.has_failed();
      });
    }
  }
}

// It has no folder of its own, so what was written stays.
TEST(PartitionStepsTest, DiskFailsUnderAnExport) {
  const auto source = SmallSourceGraph(40);
  const auto graph = HomogeneousGraph::Create(source.get());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ForEachStep([&](uint64_t step) {
    const TemporaryFolder folder(TemporaryFolder::InMemory());
    FailingCalls failing(folder.path(), FailingCalls::Failure{step, EIO});
    const absl::Status written = WriteParmetisFolder(*graph, folder.path() + "/parmetis", "g");
    failing.Stop();
    EXPECT_EQ(written.ok(), !failing.has_failed()) << failing.what() << ": " << written;
    return failing.has_failed();
  });
}

// A partition is asked for on a disk that fails once, and later dies: it is there and in the list,
// or not, and nothing would be told as damage.
TEST(PartitionStepsTest, OfTwoFailuresTheFirstIsTold) {
  uint64_t num_steps = 1;
  for (uint64_t first = 0; first < num_steps; ++first) {
    for (uint64_t dies = first + 1; dies <= num_steps; ++dies) {
      const TemporaryFolder above(TemporaryFolder::InMemory());
      const std::string folder = above.path() + "/it";
      const OneGraphStore store(SmallSourceGraph(6), folder);
      const PartitionFolder partition(**store.Open("g"), "p");
      FailingCalls calls(folder, FailingCalls::Failure{first, EIO, false, dies});
      const absl::Status asked = partition.Create(ThreeParts(), "me");
      calls.Stop();
      num_steps = std::max(num_steps, calls.num_steps());
      SCOPED_TRACE(testing::Message() << first << ", " << dies << ": " << calls.what());
      calls.LosePower();
      if (!DiskOutcomeIsUnknown(asked)) {
        EXPECT_EQ(partition.State().ok(), asked.ok()) << asked;
      }
      CheckPartitions("g", folder, [](const StoredDamage& damage) {
        ADD_FAILURE() << damage.file << " " << damage.what;
      });
    }
  }
  EXPECT_GT(num_steps, 10U);
}

TEST(PartitionStepsTest, WhatIsAskedForIsThere) {
  ForEachStep([](uint64_t step) {
    const TemporaryFolder above(TemporaryFolder::InMemory());
    const std::string companion = above.path() + "/companion";
    OneGraphStore graphs(SmallSourceGraph(6), companion);
    SimulatedClock clock;
    PartitionJobs jobs(&graphs, nullptr, &clock, nullptr, PartitionJobs::Options());
    FailingCalls calls(companion, FailingCalls::Failure{step, EIO});
    const absl::Status asked = jobs.Partition("g", ThreeParts(), "me").status();
    calls.Stop();
    jobs.AwaitIdle();
    SCOPED_TRACE(testing::Message() << step << ": " << calls.what());
    const absl::Status there = jobs.Get("g", "p").status();
    if (!DiskOutcomeIsUnknown(asked)) {
      EXPECT_EQ(there.ok(), asked.ok()) << asked << ", " << there;
    }
    return calls.has_failed();
  });
}

// Works until it is cancelled.
class LastingEngine final : public AssignmentEngine {
 public:
  class Array final : public EngineArray {
   public:
    absl::Status Reserve(uint64_t capacity) override {
      numbers_.resize(capacity);
      return absl::OkStatus();
    }
    uint32_t* data() override { return numbers_.data(); }

   private:
    std::vector<uint32_t> numbers_;
  };

  absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() override {
    return std::make_unique<Array>();
  }
  std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& /*problem*/, absl::Span<const EngineAttempt> attempts,
      const EngineLimits& /*limits*/, const std::function<bool()>& cancelled) override {
    absl::MutexLock lock(&mutex_);
    is_called_ = true;
    // Nobody tells of it.
    while (!cancelled()) mutex_.AwaitWithTimeout(absl::Condition(&kNever), absl::Milliseconds(1));
    return std::vector<absl::StatusOr<std::vector<uint32_t>>>(attempts.size(),
                                                              absl::CancelledError("cancelled"));
  }
  void AwaitCall() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_called_));
  }

 private:
  static constexpr bool kNever = false;

  absl::Mutex mutex_;
  bool is_called_ = false;
};

// Of one that runs, and of one that waits: after a restart, too.
TEST(PartitionStepsTest, ACancellationIsKeptOrTold) {
  for (const bool runs : {true, false}) {
    int num_refused = 0;
    ForEachStep([&](uint64_t step) {
      const TemporaryFolder above(TemporaryFolder::InMemory());
      const std::string companion = above.path() + "/companion";
      OneGraphStore graphs(SmallSourceGraph(6), companion);
      SimulatedClock clock;
      LastingEngine engine;
      PartitionJobs jobs(&graphs, &engine, &clock, nullptr, PartitionJobs::Options());
      PartitionPlan plan = ThreeParts();
      plan.options.method = PartMethod::kMetis;
      for (const char* const name : {"a", "b"}) {
        plan.name = name;
        EXPECT_TRUE(jobs.Partition("g", plan, "me").ok());
      }
      engine.AwaitCall();
      const std::string name = runs ? "a" : "b";
      FailingCalls calls(companion, FailingCalls::Failure{step, EIO});
      const auto cancelled = jobs.Cancel("g", name);
      const bool has_failed = calls.has_failed();
      calls.Stop();
      SCOPED_TRACE(testing::Message() << step << ": " << calls.what());
      const auto state = PartitionFolder(**graphs.Open("g"), name).State();
      const bool is_kept = state.ok() && state->end && absl::IsCancelled(*state->end);
      num_refused += cancelled.ok() ? 0 : 1;
      if (cancelled.ok()) {
        EXPECT_EQ(cancelled->state, PartitionJobState::kCancelled);
        EXPECT_TRUE(is_kept);
      } else {
        EXPECT_TRUE(has_failed) << cancelled.status();
        EXPECT_TRUE(!is_kept || DiskOutcomeIsUnknown(cancelled.status()));
      }
      return has_failed;
    });
    EXPECT_GT(num_refused, 0);
  }
}

TEST(PartitionStepsTest, AnAnswerIsWholeOrRefused) {
  using Answer = absl::StatusOr<std::string>;
  const TemporaryFolder above(TemporaryFolder::InMemory());
  const std::string companion = above.path() + "/companion";
  OneGraphStore graphs(SmallSourceGraph(6), companion);
  SimulatedClock clock;
  PartitionJobs jobs(&graphs, nullptr, &clock, nullptr, PartitionJobs::Options());
  ASSERT_TRUE(jobs.Partition("g", ThreeParts(), "me").ok());
  jobs.AwaitIdle();
  const auto told = [](const PartitionJobInfo& info) {
    std::string text = absl::StrCat(static_cast<int>(info.state), PlanText(info.plan),
                                    info.report ? ReportText(*info.report) : "");
    for (const auto& file : info.files) absl::StrAppend(&text, file.path, file.num_bytes, "\n");
    return text;
  };
  const std::vector<std::function<Answer()>> questions = {
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto list, jobs.List("g"));
        return list.size() == 1 ? told(list[0]) : "another list";
      },
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto info, jobs.Get("g", "p"));
        return told(info);
      },
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto info, jobs.Partition("g", ThreeParts(), "me"));
        return told(info);
      },
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto info, jobs.Cancel("g", "p"));
        return told(info);
      },
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto read, jobs.ReadFile("g", "p", "p.json", 0, 1 << 20));
        return read.data;
      },
      [&]() -> Answer {
        PH_ASSIGN_OR_RETURN(const auto parts, jobs.PartsOf("g", "p"));
        return absl::StrCat(parts.num_parts, ": ", absl::StrJoin(parts.part, " "));
      }};
  for (size_t q = 0; q < questions.size(); ++q) {
    const Answer whole = questions[q]();
    ASSERT_TRUE(whole.ok()) << q << ": " << whole.status();
    for (const int error : {EIO, EMFILE}) {
      int num_refused = 0;
      ForEachStep([&](uint64_t step) {
        FailingCalls calls(companion, FailingCalls::Failure{step, error});
        const Answer answer = questions[q]();
        calls.Stop();
        if (answer.ok()) {
          EXPECT_EQ(*answer, *whole) << q << ", " << step << ": " << calls.what();
        } else {
          ++num_refused;
          EXPECT_TRUE(calls.has_failed()) << answer.status();
        }
        return calls.has_failed();
      });
      EXPECT_GT(num_refused, 0) << q;
    }
  }
}

TEST(PartitionStepsTest, DiskQuotaRefuses) {
  const auto graph = SmallSourceGraph(40);
  RefusedDisk quota;
  RunWatch watch;
  watch.wrote = [&quota](uint64_t) {
    return quota.Fails() ? absl::ResourceExhaustedError("quota") : absl::OkStatus();
  };
  const StepsTold told = ExpectDoneOrNot(
      [&] { return std::make_unique<PartitionWorld>(*graph, watch); }, quota, OnceDone());
  EXPECT_EQ(told.num_done, 0U);
}

}  // namespace
}  // namespace packhouse
