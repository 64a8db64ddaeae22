// A store of source graphs on a disk that fails at every step: what was answered is there after a
// restart, what was refused is not, and what is unknown is one of the two.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "service/wings/graphs/stored/graph_list.h"
#include "tests/failing_disk/disk_laws.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/failing_calls.h"

namespace packhouse {
namespace {

// A graph in words: "" if there is none, "open 1 2 " with the appends that it has, "sealed 1 2 ".
using GraphState = std::string;

struct StoreStep {
  enum class Kind { kCreate, kAppend, kSeal, kDelete, kReopen } kind;
  std::string graph;
  int number = 0;  // Of an append.
};

// What a step makes of a graph; nullopt if it cannot be done.
std::optional<GraphState> AfterStep(const StoreStep& step, const GraphState& before) {
  switch (step.kind) {
    case StoreStep::Kind::kCreate:
      if (!before.empty()) return std::nullopt;
      return "open ";
    case StoreStep::Kind::kAppend: {
      const std::string word = absl::StrCat(step.number, " ");
      // Also if it is sealed: it is known by its producer.
      if (absl::StrContains(before, " " + word)) return before;
      if (!absl::StartsWith(before, "open")) return std::nullopt;
      return before + word;
    }
    case StoreStep::Kind::kSeal:
      if (before.empty()) return std::nullopt;
      if (absl::StartsWith(before, "sealed")) return before;
      return "sealed" + before.substr(4);
    case StoreStep::Kind::kDelete:
      if (before.empty()) return std::nullopt;
      return "";
    case StoreStep::Kind::kReopen:
      return before;
  }
  return std::nullopt;
}

class GraphsOnFailingDisk {
 public:
  explicit GraphsOnFailingDisk(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Open() {
    store_.reset();
    FileSourceGraphStore::Options options;
    options.folder = folder_;
    options.min_free_bytes = 0;
    auto store = FileSourceGraphStore::Open(options);
    if (store.ok()) store_ = *std::move(store);
    return store.status();
  }
  void Close() { store_.reset(); }

  // Does it, and notes what the store may be like from then on.
  absl::Status Do(const StoreStep& step) {
    const bool is_open = store_ != nullptr || step.kind == StoreStep::Kind::kReopen;
    const absl::Status ended = is_open ? Call(step) : absl::UnavailableError("");
    states_.After(step.graph, ended,
                  [&](const GraphState& before) { return AfterStep(step, before); });
    if (step.kind == StoreStep::Kind::kDelete) listed_.erase(step.graph);
    // Rows are acknowledged of listed graphs alone.
    if (ended.ok() && step.kind != StoreStep::Kind::kDelete &&
        step.kind != StoreStep::Kind::kReopen) {
      listed_.insert(step.graph);
    }
    return ended;
  }

  // As it is found by the next process: whoever deletes a folder of these is noticed.
  void ExpectAcknowledgedAreListed() const {
    const std::set<std::string> listed = Listed();
    for (const std::string& name : listed_) EXPECT_TRUE(listed.contains(name)) << name;
  }
  // On a disk that works again, one look is enough.
  void ExpectAllAreListedNow() const {
    if (store_ == nullptr) return;
    std::set<std::string> there;
    const auto list = store_->List(0, "");
    ASSERT_TRUE(list.ok()) << list.status();
    for (const SourceGraphInfo& info : list->graphs) there.insert(info.name);
    EXPECT_EQ(Listed(), there);
  }

  // After a restart.
  void ExpectAsAnswered() {
    for (const std::string& name : states_.things()) states_.ExpectAndSettle(name, Found(name));
  }
  // Nothing but graphs is in the folder.
  void ExpectNothingLeft() {
    size_t num_folders = 0;
    for (const auto& [path, bytes] : FilesBelow(folder_)) {
      for (const char* const ending : {".new", ".deleted", ".unfinished"}) {
        EXPECT_FALSE(absl::StrContains(path, ending)) << path;
      }
      num_folders +=
          path != "LOCK" && path != kGraphListFile && !absl::StrContains(path, "/") ? 1 : 0;
      if (absl::EndsWith(path, "/arrays")) {
        EXPECT_FALSE(std::filesystem::exists(
            absl::StrCat(folder_, "/", path.substr(0, path.find('/')), "/rows")))
            << path;
      }
    }
    EXPECT_EQ(num_folders, states_.num_there());
  }

 private:
  std::set<std::string> Listed() const {
    const auto list = ReadGraphList(folder_);
    EXPECT_TRUE(list.ok()) << list.status();
    std::set<std::string> names;
    if (!list.ok()) return names;
    for (const auto& [folder, name] : *list) names.insert(name);
    return names;
  }

  static constexpr auto kGoOn = [](const SourceGraphProgress&) { return true; };

  static RowsOfGraph RowsOf(int number) {
    const std::string id = BytesOf(int64_t{number});
    RowsOfGraph rows;
    rows.nodes.push_back({0, id, {BytesOf(static_cast<float>(number))}});
    rows.edges.push_back({0, id, id, {}});
    return rows;
  }

  absl::Status Call(const StoreStep& step) {
    switch (step.kind) {
      case StoreStep::Kind::kCreate:
        return store_->Create(step.graph, schema_, options_).status();
      case StoreStep::Kind::kAppend: {
        const ChunkOfRows chunk(schema_, options_, RowsOf(step.number));
        return store_
            ->Append({step.graph, 0}, chunk.chunk(),
                     ProducerSequence{absl::StrCat("p", step.number), 1})
            .status();
      }
      case StoreStep::Kind::kSeal:
        return store_->Seal(step.graph, {}, kGoOn).status();
      case StoreStep::Kind::kDelete:
        return store_->Delete(step.graph);
      case StoreStep::Kind::kReopen:
        return Open();
    }
    return absl::OkStatus();
  }

  // A graph that is open is sealed in a copy of the folder, and read there.
  GraphState Found(const std::string& name) {
    const auto info = store_->Get(name);
    if (absl::IsNotFound(info.status())) return "";
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "damaged";
    if (info->state == SourceGraphState::kSealed) return "sealed " + Numbers(*store_, name);
    const TemporaryFolder copy(TemporaryFolder::InMemory());
    std::filesystem::copy(folder_, copy.path(), std::filesystem::copy_options::recursive);
    FileSourceGraphStore::Options options;
    options.folder = copy.path();
    options.min_free_bytes = 0;
    const auto copied = FileSourceGraphStore::Open(options);
    EXPECT_TRUE(copied.ok()) << copied.status();
    EXPECT_TRUE((*copied)->Seal(name, {}, kGoOn).ok());
    return "open " + Numbers(**copied, name);
  }

  static std::string Numbers(SourceGraphStore& store, const std::string& name) {
    const auto report = store.Verify(name, kGoOn);
    EXPECT_TRUE(report.ok() && report->ok());
    const auto graph = store.Open(name);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return "unreadable";
    std::string numbers;
    const ReadGraph read = Read(**graph);
    for (const ReadGraph::Node& node : read.nodes[0]) {
      int64_t number = 0;
      std::memcpy(&number, node.id.data(), sizeof(number));
      EXPECT_EQ(node.cells[0], BytesOf(static_cast<float>(number)));
      absl::StrAppend(&numbers, number, " ");
    }
    EXPECT_EQ(read.edges[0].size(), read.nodes[0].size());
    return numbers;
  }

  const std::string folder_;
  const SourceGraphSchema schema_ = *SourceGraphSchema::Create(
      {{"n", {{"x", DType::kFloat32, {}, false, false}}}}, {{"e", 0, 0, {}, {}}});
  const SourceGraphOptions options_ = {0, {{true, true}}, {{true, true}}};
  std::unique_ptr<FileSourceGraphStore> store_;
  AnsweredStates states_;
  std::set<std::string> listed_;  // Acknowledged, and not asked to be deleted since.
};

// Graphs are created, filled, sealed, deleted and created again under their names.
std::vector<StoreStep> Life() {
  using Kind = StoreStep::Kind;
  return {{Kind::kCreate, "a"},    {Kind::kAppend, "a", 1}, {Kind::kAppend, "a", 2},
          {Kind::kReopen, "a"},    {Kind::kSeal, "a"},      {Kind::kCreate, "b"},
          {Kind::kReopen, "a"},    {Kind::kDelete, "a"},    {Kind::kCreate, "a"},
          {Kind::kAppend, "b", 3}, {Kind::kAppend, "a", 4}, {Kind::kSeal, "b"}};
}

class FailingSourceGraphsTest : public testing::TestWithParam<DiskFault> {};

TEST_P(FailingSourceGraphsTest, WhatWasAnsweredIsThere) {
  const DiskFault fault = GetParam();
  uint64_t num_unknown = 0;
  ForEachStep([&](uint64_t step) {
    const TemporaryFolder above(TemporaryFolder::InMemory());
    const std::string folder = above.path() + "/graphs";
    GraphsOnFailingDisk graphs(folder);
    FailingCalls calls(folder, FailingCalls::Failure{step, fault.error, fault.lasts});
    const absl::Status opened = graphs.Open();
    if (fault.error == EINTR) {
      EXPECT_TRUE(opened.ok()) << calls.what() << ": " << opened;
    }
    if (!opened.ok() && !fault.lasts) {
      EXPECT_TRUE(graphs.Open().ok()) << calls.what();
    }
    bool was_misread = false;  // Then a graph is damaged until the store is opened again.
    for (const StoreStep& each : Life()) {
      const bool has_failed = calls.has_failed();
      const absl::Status ended = graphs.Do(each);
      was_misread |= each.kind == StoreStep::Kind::kReopen && calls.has_failed() != has_failed;
      if (ended.ok()) continue;
      if (DiskOutcomeIsUnknown(ended)) ++num_unknown;
      if (fault.error == EINTR) ADD_FAILURE() << calls.what() << ": " << ended;
      // The same call works at once if the disk does, unless nobody knows what was written.
      const absl::Status again = graphs.Do(each);
      if (!fault.lasts && !DiskOutcomeIsUnknown(ended) && !was_misread &&
          !absl::StrContains(ended.message(), "anew")) {
        EXPECT_TRUE(again.ok()) << calls.what() << ": " << ended << ", then " << again;
      }
    }
    calls.Stop();
    SCOPED_TRACE(testing::Message() << "step " << step << ": " << calls.what());
    if (!fault.loses_power) graphs.ExpectAllAreListedNow();
    graphs.Close();
    if (fault.loses_power) calls.LosePower();
    graphs.ExpectAcknowledgedAreListed();
    const absl::Status reopened = graphs.Open();
    EXPECT_TRUE(reopened.ok()) << reopened;
    if (!reopened.ok()) return false;
    graphs.ExpectAsAnswered();
    graphs.ExpectNothingLeft();
    // Each call works now, or says what it finds.
    for (const StoreStep& each : Life()) {
      const absl::Status ended = graphs.Do(each);
      EXPECT_TRUE(ended.ok() || absl::IsAlreadyExists(ended) || absl::IsNotFound(ended) ||
                  absl::IsFailedPrecondition(ended))
          << ended;
    }
    graphs.Close();
    EXPECT_TRUE(graphs.Open().ok());
    graphs.ExpectAsAnswered();
    graphs.ExpectNothingLeft();
    graphs.Close();
    return calls.has_failed() && !HasFailure();
  });
  // Folders and logs are synced: some outcomes cannot be known.
  if (fault.error == EIO) {
    EXPECT_GT(num_unknown, 5U);
  }
}

INSTANTIATE_TEST_SUITE_P(Disks, FailingSourceGraphsTest, testing::ValuesIn(DiskFaults()));

}  // namespace
}  // namespace packhouse
