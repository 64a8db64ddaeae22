// A source graph that is to be sealed.
#ifndef PACKHOUSE_TESTS_FAILING_STEPS_SEAL_WORLD_H_
#define PACKHOUSE_TESTS_FAILING_STEPS_SEAL_WORLD_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/failing_steps.h"
#include "tests/support/files_below.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

// The graph "a" with some rows. What asks whether somebody waits may be null, and so may the
// memory.
class SealWorld final : public StepsWorld {
 public:
  explicit SealWorld(CountedSteps* cancelled, RefusedMemory* memory = nullptr,
                     size_t num_nodes = 30)
      : cancelled_(cancelled), memory_(memory) {
    FileSourceGraphStore::Options options;
    options.folder = folder_;
    options.min_free_bytes = 0;
    store_ = FileSourceGraphStore::Open(options).value();
    EXPECT_TRUE(store_->Create("a", schema_, options_).ok());
    rows_ = &RowsOf(num_nodes);
    const ChunkOfRows chunk(schema_, options_, rows_->given);
    EXPECT_TRUE(store_->Append({"a", 0}, chunk.chunk(), ProducerSequence{"p", 1}).ok());
  }

  absl::Status Attempt() override {
    SealOptions options;
    options.duplicates = DuplicateNodes::kFirst;
    if (memory_ != nullptr) options.memory = memory_->budget();
    return store_
        ->Seal("a", options,
               [this](const SourceGraphProgress&) {
                 return cancelled_ == nullptr || !cancelled_->Fails();
               })
        .status();
  }

  std::string State() override {
    const auto info = store_->Get("a");
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "lost";
    std::string state;
    if (info->state == SourceGraphState::kOpen) {
      state = "open";
    } else if (info->state == SourceGraphState::kSealed) {
      const auto graph = store_->Open("a");
      EXPECT_TRUE(graph.ok()) << graph.status();
      const bool is_whole = graph.ok() && Read(**graph) == rows_->expected;
      state = is_whole ? "sealed" : "sealed, with other rows";
    } else {
      state = absl::StrCat("state ", static_cast<int>(info->state));
    }
    absl::StrAppend(&state, ", ", store_->counts().num_bytes, " bytes in");
    // The graph's folder has a name that was drawn.
    std::set<std::string> paths;
    for (const auto& [path, bytes] : FilesBelow(folder_)) {
      const size_t end = path.find('/');
      const std::string first = path.substr(0, end);
      const bool is_graph = std::filesystem::is_directory(folder_ + "/" + first);
      // Where the partitions of a sealed graph will be; empty.
      if (state[0] == 'o' && path.ends_with("/companion")) continue;
      // They stay until it is known that they are not needed.
      if (state[0] == 's' && path.ends_with("/rows")) continue;
      paths.insert(is_graph ? "GRAPH" + path.substr(first.size()) : path);
    }
    return absl::StrCat(state, " ", absl::StrJoin(paths, " "));
  }
  std::string Held() override {
    return memory_ == nullptr || memory_->held() == 0 ? ""
                                                      : absl::StrCat(memory_->held(), " bytes");
  }
  std::string folder() const override { return folder_; }

 private:
  struct Rows {
    RowsOfGraph given;
    ReadGraph expected;
  };
  // Made once: many worlds have them.
  static const Rows& RowsOf(size_t num_nodes) {
    static auto* const made = new std::map<size_t, Rows>();
    Rows& rows = (*made)[num_nodes];
    if (rows.given.nodes.empty()) {
      SeededRandom random(61);
      rows.given = RandomRows(random, num_nodes, 5 * num_nodes);
      rows.expected = Expected(LawSchema(), LawOptions(), rows.given);
    }
    return rows;
  }

  CountedSteps* const cancelled_;
  RefusedMemory* const memory_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/graphs";
  const SourceGraphSchema schema_ = LawSchema();
  const SourceGraphOptions options_ = LawOptions();
  const Rows* rows_ = nullptr;
  std::unique_ptr<FileSourceGraphStore> store_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_STEPS_SEAL_WORLD_H_
