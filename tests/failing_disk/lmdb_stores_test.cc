// The stores that LMDB keeps, data sets and the ledger's log, on a disk that fails at every step:
// what was answered is there after a restart, what was refused is not, and what is unknown is one
// of the two. A store that cannot go on says so, and answers nothing that is not so.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "tests/failing_disk/disk_laws.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/support/failing_calls.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 24;

struct LmdbStep {
  enum class Kind { kCreate, kAppend, kSeal, kDelete, kReplace, kCompact, kReopen } kind;
  std::string thing = "";
  int number = 0;  // Of an append.
};
using LmdbKind = LmdbStep::Kind;

// Data sets: "" if there is none, "open 1 2 " with the appends that it has, "sealed 1 2 ".
class DatasetsWorld {
 public:
  explicit DatasetsWorld(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Open() {
    store_.reset();
    LmdbDatasetStore::Options options;
    options.folder = folder_;
    options.max_bytes = kMaxBytes;
    auto store = LmdbDatasetStore::Open(options);
    if (store.ok()) store_ = *std::move(store);
    return store.status();
  }
  void Close() { store_.reset(); }
  bool is_open() const { return store_ != nullptr; }
  absl::Status TryCommit() { return store_->TryCommit(0); }

  absl::Status Call(const LmdbStep& step) {
    switch (step.kind) {
      case LmdbKind::kCreate:
        return store_->Create(step.thing, schema_, {}).status();
      case LmdbKind::kAppend:
        return store_
            ->Append(step.thing, ChunkOf(step.number), {},
                     ProducerSequence{absl::StrCat("p", step.number), 1})
            .status();
      case LmdbKind::kSeal:
        return store_->Seal(step.thing).status();
      default: {
        const absl::Status deleted = store_->Delete(step.thing);
        // Else its thread is at work meanwhile.
        store_->WaitUntilErased().IgnoreError();
        return deleted;
      }
    }
  }

  static std::optional<std::string> After(const LmdbStep& step, const std::string& before) {
    const std::string word = absl::StrCat(step.number, " ");
    switch (step.kind) {
      case LmdbKind::kCreate:
        if (!before.empty()) return std::nullopt;
        return "open ";
      case LmdbKind::kAppend:
        // Also if it is sealed: it is known by its producer.
        if (absl::StrContains(before, " " + word)) return before;
        if (!absl::StartsWith(before, "open")) return std::nullopt;
        return before + word;
      case LmdbKind::kSeal:
        if (before.empty()) return std::nullopt;
        return absl::StartsWith(before, "sealed") ? before : "sealed" + before.substr(4);
      case LmdbKind::kDelete:
        if (before.empty()) return std::nullopt;
        return "";
      default:
        return before;
    }
  }

  absl::StatusOr<std::string> Read(const std::string& name) const {
    const auto reader = store_->OpenReader(name);
    if (absl::IsNotFound(reader.status())) return "";
    if (!reader.ok()) return reader.status();
    std::string state = (*reader)->info().state == DatasetState::kSealed ? "sealed " : "open ";
    EXPECT_EQ((*reader)->histogram().num_graphs(), (*reader)->num_graphs());
    for (size_t i = 0; i < (*reader)->num_graphs(); i += kGraphs) {
      const auto graph = (*reader)->Graph(i);
      if (!graph.ok()) return graph.status();
      const int number = static_cast<int>((*reader)->graph_ids()[i] / kGraphs);
      EXPECT_EQ(graph->chunk->column(0), ChunkOf(number).column(0));
      absl::StrAppend(&state, number, " ");
    }
    return state;
  }

  // Data sets are created, filled, sealed, deleted and created again under their names. Some
  // appends are larger than what LMDB writes at once, others share a page with their neighbours.
  static std::vector<LmdbStep> Life() {
    return {{LmdbKind::kCreate, "a"}, {LmdbKind::kAppend, "a", 1}, {LmdbKind::kAppend, "a", 200},
            {LmdbKind::kReopen},      {LmdbKind::kSeal, "a"},      {LmdbKind::kCreate, "b"},
            {LmdbKind::kReopen},      {LmdbKind::kDelete, "a"},    {LmdbKind::kCompact},
            {LmdbKind::kCreate, "a"}, {LmdbKind::kAppend, "b", 3}, {LmdbKind::kAppend, "a", 4},
            {LmdbKind::kSeal, "b"}};
  }

 private:
  static constexpr size_t kGraphs = 4;

  GraphChunk ChunkOf(int number) const {
    Random random(number);
    return RandomChunk(random, &schema_, kGraphs, 10 * number, kGraphs * number);
  }

  const std::string folder_;
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt64, {}, 0, {}, {}}});
  std::unique_ptr<LmdbDatasetStore> store_;
};

// The log: "1 2 ", the numbers of its records.
class LogWorld {
 public:
  explicit LogWorld(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Open() {
    log_.reset();
    LmdbJobLogs::Options options;
    options.folder = folder_;
    options.max_bytes = kMaxBytes;
    auto log = OneLog::Open(options);
    if (log.ok()) log_ = *std::move(log);
    return log.status();
  }
  void Close() { log_.reset(); }
  bool is_open() const { return log_ != nullptr; }
  absl::Status TryCommit() { return log_->TryCommit(0); }

  absl::Status Call(const LmdbStep& step) {
    if (step.kind == LmdbKind::kReplace) return log_->Replace({{RecordOf(step.number)}});
    return log_->Append({{RecordOf(step.number), RecordOf(step.number + 1)}});
  }

  static std::optional<std::string> After(const LmdbStep& step, const std::string& before) {
    if (step.kind == LmdbKind::kReplace) return absl::StrCat(step.number, " ");
    if (step.kind == LmdbKind::kAppend) {
      return absl::StrCat(before, step.number, " ", step.number + 1, " ");
    }
    return before;
  }

  absl::StatusOr<std::string> Read(const std::string& /*thing*/) const {
    const auto records = log_->ReadAll();
    if (!records.ok()) return records.status();
    std::string state;
    for (const std::string& record : *records) {
      const int number = std::stoi(record);
      EXPECT_EQ(record, RecordOf(number));
      absl::StrAppend(&state, number, " ");
    }
    return state;
  }

  static std::vector<LmdbStep> Life() {
    return {{LmdbKind::kAppend, "", 1},  {LmdbKind::kAppend, "", 3},  {LmdbKind::kReopen},
            {LmdbKind::kAppend, "", 5},  {LmdbKind::kReplace, "", 7}, {LmdbKind::kReopen},
            {LmdbKind::kAppend, "", 8},  {LmdbKind::kCompact},        {LmdbKind::kAppend, "", 10},
            {LmdbKind::kReplace, "", 12}};
  }

 private:
  // Every third has pages of its own.
  static std::string RecordOf(int number) {
    return absl::StrCat(number, " ", std::string(number % 3 == 0 ? 20000 : 20, 'r'));
  }

  const std::string folder_;
  std::unique_ptr<OneLog> log_;
};

template <typename World>
class OnFailingDisk {
 public:
  explicit OnFailingDisk(std::string folder) : folder_(std::move(folder)), world_(folder_) {}

  World& world() { return world_; }

  // Does it, and notes what the store may be like from then on.
  absl::Status Do(const LmdbStep& step) {
    const absl::Status ended = Call(step);
    states_.After(step.thing, ended,
                  [&](const std::string& before) { return World::After(step, before); });
    return ended;
  }

  // What the store answers now is so, or it says that it cannot.
  void ExpectNothingWrong() {
    if (!world_.is_open()) return;
    for (const std::string& thing : states_.things()) {
      const auto found = world_.Read(thing);
      if (found.ok()) states_.Expect(thing, *found);
    }
  }
  // After a restart.
  void ExpectAsAnswered() {
    for (const std::string& thing : states_.things()) {
      const auto found = world_.Read(thing);
      EXPECT_TRUE(found.ok()) << found.status();
      if (found.ok()) states_.ExpectAndSettle(thing, *found);
    }
  }
  // Nothing but the store's own files is in the folder.
  void ExpectNothingLeft() const {
    for (const auto& [path, bytes] : FilesBelow(folder_)) {
      EXPECT_TRUE(path == "LOCK" || path == "data.mdb" || path == "lock.mdb") << path;
    }
  }

 private:
  absl::Status Call(const LmdbStep& step) {
    if (step.kind == LmdbKind::kReopen) return world_.Open();
    if (step.kind == LmdbKind::kCompact) {
      world_.Close();
      const absl::Status compacted = CompactLmdbFolder(folder_).status();
      const absl::Status opened = world_.Open();
      return compacted.ok() ? opened : compacted;
    }
    return world_.is_open() ? world_.Call(step) : absl::UnavailableError("it is not open");
  }

  const std::string folder_;
  World world_;
  AnsweredStates states_;
};

// An answer of a store that works: because of a step that was not done, or not known.
bool IsAboutThing(const absl::Status& ended) {
  return absl::IsAlreadyExists(ended) || absl::IsNotFound(ended) ||
         absl::IsFailedPrecondition(ended);
}

// The life of a store, in which a step of the disk fails. Gives the kinds of the steps if none is
// to fail.
template <typename World>
std::vector<std::string> Live(const DiskFault& fault, uint64_t step, uint64_t& num_unknown) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  const std::string folder = above.path() + "/store";
  OnFailingDisk<World> store(folder);
  FailingCalls calls(folder, FailingCalls::Failure{step, fault.error, fault.lasts});
  SCOPED_TRACE(testing::Message() << "step " << step);
  if (!store.Do({LmdbKind::kReopen}).ok() && !fault.lasts) {
    EXPECT_TRUE(store.Do({LmdbKind::kReopen}).ok()) << calls.what();
  }
  for (const LmdbStep& each : World::Life()) {
    const absl::Status ended = store.Do(each);
    store.ExpectNothingWrong();
    if (ended.ok()) continue;
    SCOPED_TRACE(testing::Message() << calls.what() << ": " << ended);
    num_unknown += DiskOutcomeIsUnknown(ended) ? 1 : 0;
    if (IsAboutThing(ended)) continue;
    EXPECT_NE(ended.code(), absl::StatusCode::kInternal);
    // Where it writes pages, LMDB tries again; an interrupted flush, or what is done to a whole
    // file, has failed. On a local disk neither is interrupted.
    EXPECT_TRUE(fault.error != EINTR || absl::StartsWith(calls.what(), "fdatasync") ||
                each.kind == LmdbKind::kReopen || each.kind == LmdbKind::kCompact)
        << ended;
    if (fault.lasts || DiskOutcomeIsUnknown(ended)) continue;
    // The same call works at once if the disk does, unless the store cannot go on, and says so.
    const absl::Status again = store.Do(each);
    if (!again.ok() && !IsAboutThing(again) && store.world().is_open()) {
      EXPECT_FALSE(store.world().TryCommit().ok()) << again;
    }
    if (!store.world().is_open()) {
      EXPECT_TRUE(store.Do({LmdbKind::kReopen}).ok()) << again;
    }
  }
  store.world().Close();
  calls.Stop();
  SCOPED_TRACE(calls.what());
  if (fault.loses_power) calls.LosePower();
  const absl::Status reopened = store.Do({LmdbKind::kReopen});
  EXPECT_TRUE(reopened.ok()) << reopened;
  if (!reopened.ok()) return {};
  store.ExpectAsAnswered();
  // Each call works now, or says what it finds.
  for (const LmdbStep& each : World::Life()) {
    const absl::Status ended = store.Do(each);
    EXPECT_TRUE(ended.ok() || IsAboutThing(ended)) << ended;
  }
  EXPECT_TRUE(store.Do({LmdbKind::kReopen}).ok());
  store.ExpectAsAnswered();
  store.ExpectNothingLeft();
  store.world().Close();
  return calls.kinds();
}

class FailingLmdbTest : public testing::TestWithParam<DiskFault> {
 protected:
  template <typename World>
  void ExpectAnswersKept() {
    const DiskFault fault = GetParam();
    uint64_t num_unknown = 0;
    // Each step where a single one fails; of the others, which fail at the same places, a part.
    const uint64_t stride = fault.error == EIO && !fault.lasts && !fault.loses_power ? 1 : 8;
    const std::vector<std::string> kinds = Live<World>(fault, FailingCalls::kNoStep, num_unknown);
    EXPECT_GT(kinds.size(), 10U);
    for (const uint64_t step : StepsToTry(kinds, stride)) {
      Live<World>(fault, step, num_unknown);
      if (HasFailure()) return;
    }
    // The last write of a commit: nobody knows whether it is on the disk.
    if (fault.error == EIO) {
      EXPECT_GT(num_unknown, 2U);
    }
  }
};

TEST_P(FailingLmdbTest, DatasetsAreAsAnswered) { ExpectAnswersKept<DatasetsWorld>(); }
TEST_P(FailingLmdbTest, TheLogIsAsAnswered) { ExpectAnswersKept<LogWorld>(); }

// The disk refused to erase one data set, and works again. Then the last reader of another deleted
// one goes: both are erased, before the eraser would try again by itself.
TEST(FailingEraserTest, WhoLetsGoOfTheLastReaderEndsARefusal) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = above.path() + "/store";
  options.max_bytes = kMaxBytes;
  const auto store = LmdbDatasetStore::Open(options).value();
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  Random random(1);
  const auto deleted = [&](const std::string& name) {
    EXPECT_TRUE(store->Create(name, schema, {}).ok());
    EXPECT_TRUE(
        store->Append(name, RandomChunk(random, &schema, 4, 100, 0), {}, std::nullopt).ok());
    auto reader = store->OpenReader(name).value();
    EXPECT_TRUE(store->Delete(name).ok());
    return reader;
  };
  auto first = deleted("first");
  auto second = deleted("second");
  {
    FailingCalls calls(options.folder, FailingCalls::Failure{0, EIO, /*lasts=*/true});
    first = nullptr;
    EXPECT_FALSE(store->WaitUntilErased().ok());
    EXPECT_TRUE(calls.has_failed());
    calls.Stop();
  }
  EXPECT_NE(store->num_bytes(), 0);
  second = nullptr;
  const absl::Status erased = store->WaitUntilErased();
  EXPECT_TRUE(erased.ok()) << erased;
  EXPECT_EQ(store->num_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Disks, FailingLmdbTest, testing::ValuesIn(DiskFaults()));

}  // namespace
}  // namespace packhouse
