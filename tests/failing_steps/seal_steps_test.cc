// A seal, whichever of its steps fails: the graph is sealed with all its rows, or open as before.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/external_sort.h"
#include "tests/failing_steps/seal_world.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_steps.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

TEST(SealStepsTest, Cancelled) {
  for (const bool lasts : {false, true}) {
    CancelledSteps cancelled(lasts);
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<SealWorld>(&cancelled, nullptr, 600); }, cancelled);
    EXPECT_GT(told.num_steps, 10U);
    EXPECT_EQ(told.num_done, 0U);
  }
}

TEST(SealStepsTest, MemoryRefused) {
  RefusedMemory memory;
  const StepsTold told =
      ExpectDoneOrNot([&] { return std::make_unique<SealWorld>(nullptr, &memory); }, memory);
  EXPECT_EQ(told.num_done, 0U);
}

// With power lost, and as one of many calls: tests/failing_disk/source_graphs_test.cc.
TEST(SealStepsTest, DiskFails) {
  for (const int error : {EIO, ENOSPC, EMFILE, EINTR}) {
    FailingDisk disk({error, false, false});
    StepsOptions options;
    options.most_steps = 20;
    options.each_kind = true;
    ExpectDoneOrNot([&] { return std::make_unique<SealWorld>(nullptr); }, disk, options);
  }
}

// A graph of one edge, whose nodes are so many that the offsets of those behind the edge fill a
// block of an array.
class EdgelessWorld final : public StepsWorld {
 public:
  EdgelessWorld() {
    FileSourceGraphStore::Options options;
    options.folder = folder();
    options.min_free_bytes = 0;
    store_ = FileSourceGraphStore::Open(options).value();
    SourceGraphOptions graph;
    graph.node_sets = {{/*integer_ids=*/true, /*nodes_from_edges=*/false}};
    graph.edge_sets = {{/*by_source=*/true, /*by_target=*/false}};
    const auto schema = SourceGraphSchema::Create({{"node", {}}}, {{"edge", 0, 0, {}, {}}});
    EXPECT_TRUE(store_->Create("a", *schema, graph).ok());
    static const auto* const ids = new std::vector<int64_t>([] {
      std::vector<int64_t> made(kNodes);
      std::iota(made.begin(), made.end(), 0);
      return made;
    }());
    const absl::string_view bytes(reinterpret_cast<const char*>(ids->data()), 8 * kNodes);
    const absl::string_view first = bytes.substr(0, 8);
    SourceGraphChunk chunk;
    chunk.nodes = {{0, kNodes, {true, bytes, ""}, {}}};
    chunk.edges = {{0, 1, {true, first, ""}, {true, first, ""}, {}}};
    EXPECT_TRUE(store_->Append({"a", 0}, chunk, ProducerSequence{"p", 1}).ok());
  }

  absl::Status Attempt() override {
    return store_->Seal("a", {}, [](const SourceGraphProgress&) { return true; }).status();
  }
  std::string State() override {
    const auto graph = store_->Open("a");
    if (absl::IsFailedPrecondition(graph.status())) return "open";
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return "lost";
    const auto rows = (*graph)->BySource(0);
    EXPECT_TRUE(rows.ok()) << rows.status();
    if (!rows.ok()) return "lost";
    return absl::StrCat("sealed, ", rows->num_rows(), " rows, ", rows->offsets[rows->num_rows()],
                        " edge");
  }
  std::string folder() const override { return folder_.path() + "/graphs"; }

 private:
  static constexpr uint64_t kNodes = ArrayInfo::kBlockBytes / sizeof(uint64_t);

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<FileSourceGraphStore> store_;
};

TEST(SealStepsTest, DiskFailsAtRowsWithoutEdges) {
  FailingDisk disk({EIO, false, false});
  const StepsTold told = ExpectDoneOrNot([] { return std::make_unique<EdgelessWorld>(); }, disk);
  EXPECT_EQ(told.num_tried, told.num_steps);
}

struct Number {
  uint64_t value;
};
struct NumberLess {
  bool operator()(const Number& a, const Number& b) const { return a.value < b.value; }
};

// Primes. Of so many there is a run and a block; or more runs than are merged at a time.
constexpr uint64_t kFewNumbers = 311;
constexpr uint64_t kManyNumbers = 17'011;

// Numbers are sorted by runs on the disk.
class SortWorld final : public StepsWorld {
 public:
  SortWorld(uint64_t num_numbers, CountedSteps* cancelled, uint64_t max_bytes = 0)
      : num_numbers_(num_numbers),
        cancelled_(cancelled),
        space_(std::make_shared<DiskSpace>(folder_.path(), uint64_t{1} << 30, 0), "sort",
               max_bytes) {
    std::filesystem::create_directory(folder());
  }
  absl::Status Attempt() override {
    const auto go_on = [this](const SourceGraphProgress&) {
      return cancelled_ == nullptr || !cancelled_->Fails();
    };
    SealWork work(num_numbers_, go_on);
    ExternalSort<Number, NumberLess> sort(folder(), &space_, /*memory_bytes=*/1, &work,
                                          NumberLess());
    for (uint64_t i = 0; i < num_numbers_; ++i) {
      PH_RETURN_IF_ERROR(sort.Add({i * 7919 % num_numbers_}));
    }
    uint64_t next = 0;
    PH_RETURN_IF_ERROR(sort.Merge([&](const Number& number) {
      EXPECT_EQ(number.value, next++);
      return absl::OkStatus();
    }));
    state_ = absl::StrCat(next, " numbers");
    return absl::OkStatus();
  }
  std::string State() override { return state_; }
  std::string Held() override {
    return space_.used() == 0 ? "" : absl::StrCat(space_.used(), " bytes on the disk");
  }
  std::string folder() const override { return folder_.path() + "/runs"; }

 private:
  const uint64_t num_numbers_;
  CountedSteps* const cancelled_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  GraphSpace space_;
  std::string state_;
};

TEST(SortStepsTest, Cancelled) {
  for (const uint64_t num_numbers : {kFewNumbers, kManyNumbers}) {
    CancelledSteps cancelled;
    StepsOptions options;
    options.most_steps = num_numbers == kFewNumbers ? 1000 : 5;
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<SortWorld>(num_numbers, &cancelled); }, cancelled, options);
    EXPECT_EQ(told.num_done, 0U);
  }
}

TEST(SortStepsTest, DiskFails) {
  for (const uint64_t num_numbers : {kFewNumbers, kManyNumbers}) {
    for (const int error : {EIO, ENOSPC}) {
      FailingDisk disk({error, false, false});
      StepsOptions options;
      options.most_steps = num_numbers == kFewNumbers ? 1000 : 2;
      options.each_kind = true;
      ExpectDoneOrNot([&] { return std::make_unique<SortWorld>(num_numbers, nullptr); }, disk,
                      options);
    }
  }
}

TEST(SortStepsTest, NoSpaceIsLeftFromSomeByteOn) {
  uint64_t needed = 0;
  for (uint64_t most = 1; most < 10'000; most += 24) {
    SortWorld world(kFewNumbers, nullptr, most);
    const absl::Status sorted = world.Attempt();
    if (sorted.ok() && needed == 0) needed = most;
    EXPECT_TRUE(sorted.ok() ? most >= needed : absl::IsResourceExhausted(sorted)) << sorted;
    EXPECT_EQ(world.Held(), "");
    EXPECT_EQ(world.State(), sorted.ok() ? "311 numbers" : "");
  }
  EXPECT_GE(needed, kFewNumbers * sizeof(Number));
}

}  // namespace
}  // namespace packhouse
