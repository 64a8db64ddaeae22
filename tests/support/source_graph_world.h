// A small source graph, and a store that has only it.
#ifndef PACKHOUSE_TESTS_SUPPORT_SOURCE_GRAPH_WORLD_H_
#define PACKHOUSE_TESTS_SUPPORT_SOURCE_GRAPH_WORLD_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// A node set `n` with a feature `x` of two floats, and an edge set `e`: node i has i % 13 edges to
// random nodes.
inline std::unique_ptr<const SourceGraph> SmallSourceGraph(uint32_t num_nodes) {
  SourceColumnSpec x;
  x.name = "x";
  x.row_shape = {2};
  auto schema = SourceGraphSchema::Create({{"n", {x}}}, {{"e", 0, 0, {}, std::nullopt}});
  MemoryNodeSet nodes;
  nodes.num_nodes = num_nodes;
  MemoryColumn column;
  for (uint32_t i = 0; i < num_nodes; ++i) {
    const float row[2] = {static_cast<float>(i), 1};
    column.bytes.append(reinterpret_cast<const char*>(row), sizeof(row));
  }
  nodes.columns.push_back(std::move(column));
  MemoryEdgeSet edges;
  SeededRandom random(7);
  for (uint32_t i = 0; i < num_nodes; ++i) {
    for (uint32_t j = 0; j < i % 13; ++j) {
      edges.sources.push_back(i);
      edges.targets.push_back(static_cast<uint32_t>(random.Below(num_nodes)));
    }
  }
  std::vector<MemoryNodeSet> node_sets;
  node_sets.push_back(std::move(nodes));
  std::vector<MemoryEdgeSet> edge_sets;
  edge_sets.push_back(std::move(edges));
  return MakeMemorySourceGraph(*std::move(schema), /*version=*/42, std::move(node_sets),
                               std::move(edge_sets))
      .value();
}

// Up to `first` edges of each seed, and up to `second` of each node that they lead to.
inline std::string TwoHopSpec(int first, int second) {
  return absl::StrCat(
      "seed_op { op_name: 'seed' node_set_name: 'n' } sampling_ops { op_name: 'a' input_op_names: "
      "'seed' edge_set_name: 'e' sample_size: ",
      first,
      " strategy: RANDOM_UNIFORM } sampling_ops { op_name: 'b' input_op_names: 'a' "
      "edge_set_name: 'e' sample_size: ",
      second, " strategy: RANDOM_UNIFORM }");
}

// Has one sealed graph, `g`. Thread-safe.
class OneGraphStore : public SourceGraphStore {
 public:
  explicit OneGraphStore(std::unique_ptr<const SourceGraph> graph,
                         std::string companion_folder = "")
      : graph_(std::make_shared<const OneGraph>(std::move(graph), std::move(companion_folder))) {}

  absl::StatusOr<SourceGraphInfo> Create(absl::string_view, const SourceGraphSchema&,
                                         const SourceGraphOptions&) override {
    return NotHere();
  }
  absl::StatusOr<SourceAppendResult> Append(const Target&, const SourceGraphChunk&,
                                            const std::optional<ProducerSequence>&) override {
    return NotHere();
  }
  absl::StatusOr<ProducerHistory> GetProducer(const Target&, absl::string_view) const override {
    return NotHere();
  }
  absl::StatusOr<SourceGraphInfo> Seal(
      const Target&, const SealOptions&,
      absl::FunctionRef<bool(const SourceGraphProgress&)>) override {
    return NotHere();
  }
  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const override {
    if (name != "g") return absl::NotFoundError(absl::StrCat("source graph '", name, "'"));
    return graph_->info();
  }
  absl::StatusOr<SourceGraphList> List(size_t, absl::string_view) const override {
    return SourceGraphList{{graph_->info()}, ""};
  }
  absl::Status Delete(const Target&) override { return NotHere(); }
  absl::StatusOr<SourceGraphVerifyReport> Verify(
      absl::string_view, absl::FunctionRef<bool(const SourceGraphProgress&)>) const override {
    return NotHere();
  }
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override {
    if (name != "g") return absl::NotFoundError(absl::StrCat("source graph '", name, "'"));
    return graph_;
  }

 private:
  class OneGraph final : public StoredSourceGraph {
   public:
    OneGraph(std::unique_ptr<const SourceGraph> graph, std::string companion_folder)
        : graph_(std::move(graph)), folder_(std::move(companion_folder)) {
      // Every sealed graph in a folder has one.
      std::error_code error;
      if (!folder_.empty()) std::filesystem::create_directories(folder_, error);
      info_.name = "g";
      info_.id = 1;
      info_.state = SourceGraphState::kSealed;
      info_.version = graph_->version();
      info_.schema = std::make_shared<const SourceGraphSchema>(graph_->schema());
      info_.options.node_sets.resize(graph_->schema().node_sets().size());
      info_.options.edge_sets.resize(graph_->schema().edge_sets().size());
      for (size_t s = 0; s < info_.options.node_sets.size(); ++s) {
        info_.options.node_sets[s].integer_ids = graph_->integer_ids(s);
        info_.num_nodes.push_back(graph_->num_nodes(s));
      }
      for (size_t s = 0; s < info_.options.edge_sets.size(); ++s) {
        info_.num_edges.push_back(graph_->num_edges(s));
      }
    }
    const SourceGraphInfo& info() const override { return info_; }
    const std::string& companion_folder() const override { return folder_; }
    const SourceGraphSchema& schema() const override { return graph_->schema(); }
    uint64_t version() const override { return graph_->version(); }
    uint64_t num_nodes(size_t set) const override { return graph_->num_nodes(set); }
    uint64_t num_edges(size_t set) const override { return graph_->num_edges(set); }
    absl::StatusOr<Adjacency> BySource(size_t set) const override { return graph_->BySource(set); }
    absl::StatusOr<Adjacency> ByTarget(size_t set) const override { return graph_->ByTarget(set); }
    SourceColumn NodeColumn(size_t set, size_t column) const override {
      return graph_->NodeColumn(set, column);
    }
    SourceColumn EdgeColumn(size_t set, size_t column) const override {
      return graph_->EdgeColumn(set, column);
    }
    SourceColumn NodeIds(size_t set) const override { return graph_->NodeIds(set); }
    bool integer_ids(size_t set) const override { return graph_->integer_ids(set); }

   private:
    const std::unique_ptr<const SourceGraph> graph_;
    SourceGraphInfo info_;
    const std::string folder_;
  };

  static absl::Status NotHere() { return absl::UnimplementedError("a store of one graph"); }

  const std::shared_ptr<const OneGraph> graph_;
};

// Its graph `g` is open at first. Seal() works until Release() is called, or gives up.
class HeldSealStore final : public OneGraphStore {
 public:
  HeldSealStore() : OneGraphStore(SmallSourceGraph(10)) {}

  void AwaitSealing() const {
    const auto is_sealing = [this] { return state_ == SourceGraphState::kSealing; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_sealing));
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    is_released_ = true;
  }
  // Deletes the graph, and makes another one of its name.
  void MakeAnew() {
    absl::MutexLock lock(&mutex_);
    ++made_anew_;
  }
  // The next `seals` of them fail.
  void FailSeals(int seals) {
    absl::MutexLock lock(&mutex_);
    failures_ = seals;
  }
  int num_seals() const {
    absl::MutexLock lock(&mutex_);
    return num_seals_;
  }

  absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions&,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override {
    absl::MutexLock lock(&mutex_);
    ++num_seals_;
    if (failures_ != 0) {
      --failures_;
      return absl::FailedPreconditionError("a node is there twice");
    }
    state_ = SourceGraphState::kSealing;
    while (!mutex_.AwaitWithTimeout(absl::Condition(&is_released_), absl::Milliseconds(1))) {
      mutex_.Unlock();
      const bool goes_on = progress({1, 2});
      mutex_.Lock();
      if (goes_on) continue;
      state_ = SourceGraphState::kOpen;
      return absl::CancelledError("given up");
    }
    state_ = SourceGraphState::kSealed;
    return InfoOf(target.name);
  }
  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    return InfoOf(name);
  }

 private:
  absl::StatusOr<SourceGraphInfo> InfoOf(absl::string_view name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<SourceGraphInfo> info = OneGraphStore::Get(name);
    if (!info.ok()) return info;
    info->state = state_;
    info->id += made_anew_;
    return info;
  }

  mutable absl::Mutex mutex_;
  SourceGraphState state_ = SourceGraphState::kOpen;
  bool is_released_ = false;
  int num_seals_ = 0;
  int failures_ = 0;
  uint64_t made_anew_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SOURCE_GRAPH_WORLD_H_
