// Partitions of a small graph, by an engine that waits until it is let go.
#ifndef PACKHOUSE_TESTS_PARTITION_JOBS_JOBS_WORLD_H_
#define PACKHOUSE_TESTS_PARTITION_JOBS_JOBS_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/refusals.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

inline constexpr uint32_t kNodes = 300;

class PlainArray final : public EngineArray {
 public:
  absl::Status Reserve(uint64_t capacity) override {
    numbers_.resize(capacity);
    return absl::OkStatus();
  }
  uint32_t* data() override { return numbers_.data(); }

 private:
  std::vector<uint32_t> numbers_;
};

// Deals nodes to parts in turn, once it is let go. Thread-safe.
class HeldEngine final : public AssignmentEngine {
 public:
  absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() override {
    return std::make_unique<PlainArray>();
  }

  std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& problem, absl::Span<const EngineAttempt> attempts, const EngineLimits&,
      const std::function<bool()>& cancelled) override {
    absl::MutexLock lock(&mutex_);
    ++num_calls_;
    // Nobody tells of a cancellation: as the real one, it looks now and then.
    const auto is_cancelled = [&cancelled] { return cancelled && cancelled(); };
    while (held_ && !is_cancelled()) {
      const auto let_go = [this] { return !held_; };
      mutex_.AwaitWithTimeout(absl::Condition(&let_go), absl::Milliseconds(1));
    }
    absl::StatusOr<std::vector<uint32_t>> result = absl::CancelledError("cancelled");
    if (!failure_.ok()) {
      result = failure_;
    } else if (!is_cancelled()) {
      std::vector<uint32_t> parts(problem.num_nodes);
      for (uint32_t node = 0; node < problem.num_nodes; ++node) {
        parts[node] = node % problem.num_parts;
      }
      result = std::move(parts);
    }
    return std::vector(attempts.size(), result);
  }

  void Hold() {
    absl::MutexLock lock(&mutex_);
    held_ = true;
  }
  void LetGo() {
    absl::MutexLock lock(&mutex_);
    held_ = false;
  }
  void FailWith(const absl::Status& failure) {
    absl::MutexLock lock(&mutex_);
    failure_ = failure;
  }
  void AwaitCalls(int calls) {
    const auto called = [this, calls] { return num_calls_ >= calls; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&called));
  }

 private:
  absl::Mutex mutex_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_) = absl::OkStatus();
};

inline PartitionPlan PlanNamed(const std::string& name, PartMethod method = PartMethod::kMetis) {
  PartitionPlan plan;
  plan.name = name;
  plan.options.num_parts = 3;
  plan.options.method = method;
  plan.mapping = true;
  return plan;
}

// Every file as ReadFile() gives it, in pieces.
inline std::map<std::string, std::string> ReadFilesOf(const PartitionJobs& jobs,
                                                      const std::string& name) {
  std::map<std::string, std::string> files;
  const auto info = jobs.Get("g", name);
  EXPECT_TRUE(info.ok()) << info.status();
  if (!info.ok()) return files;
  for (const PartitionJobFile& file : info->files) {
    std::string& bytes = files[file.path];
    do {
      const auto piece = jobs.ReadFile("g", name, file.path, bytes.size(), 1000);
      if (!piece.ok() || piece->num_bytes != file.num_bytes) {
        ADD_FAILURE() << file.path << ": " << piece.status();
        break;
      }
      bytes += piece->data;
    } while (bytes.size() < file.num_bytes);
  }
  return files;
}

// What servers share: that there is a sealed graph `g` with an id, and what belongs to it.
class SharedPartitionsWorld {
 public:
  SharedPartitionsWorld() { MakeGraph(1); }

  // The graph has another id from now on; 0: it is gone.
  void MakeGraph(uint64_t id) {
    Transaction transaction;
    transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphNameKey("g"))));
    if (id != 0) {
      SharedGraph graph;
      const auto info = OneGraphStore(SmallSourceGraph(1)).Get("g");
      graph.definition = {"g", id, info->schema, info->options};
      graph.num_nodes.resize(info->schema->node_sets().size());
      graph.num_edges.resize(info->schema->edge_sets().size());
      transaction.then = {Operation::Put(SourceGraphNameKey("g"), EncodeSharedGraph(graph))};
    }
    FakeConnection connection(&cluster.keys);
    EXPECT_THAT(connection.Commit(transaction), IsOk());
  }

  // One server's way to it.
  struct Server {
    std::unique_ptr<ObjectReplica> replica;
    std::unique_ptr<RefusingKeys> keys;
    std::unique_ptr<RefusingObjects> objects;
    std::unique_ptr<ObjectCompanions> companions;
  };
  // `folder` is the server's own.
  Server Start(const std::string& name, const std::string& folder, StoreFaults faults = nullptr) {
    Server server;
    server.replica = std::make_unique<ObjectReplica>(
        &cluster, objects == nullptr ? &fake : objects, folder + "/cache",
        ObjectDatasetStore::Options(), uint64_t{1} << 30, std::move(faults));
    ObjectCompanions::Options options;
    options.upload.piece_bytes = 4096;
    options.upload.max_bytes = max_bytes;
    options.max_cache_bytes = uint64_t{1} << 30;
    options.fetches_at_once = 1;
    options.server = name;
    options.folder = folder + "/companions";
    options.lives = [this](absl::string_view other) {
      absl::MutexLock lock(&mutex);
      return gone != other;
    };
    ObjectEngines engines = server.replica->engines();
    if (refusals != nullptr) {
      server.keys = std::make_unique<RefusingKeys>(engines.keys, refusals);
      server.objects = std::make_unique<RefusingObjects>(engines.objects, refusals);
      engines.keys = server.keys.get();
      engines.objects = server.objects.get();
    }
    server.companions =
        std::make_unique<ObjectCompanions>(engines, &server.replica->cache(), options);
    return server;
  }
  void SetGone(const std::string& server) {
    absl::MutexLock lock(&mutex);
    gone = server;
  }
  // How many keys of graphs there are, besides the graph's name.
  size_t NumKeys() {
    FakeConnection connection(&cluster.keys);
    const auto read = connection.Range(KeyRange::Prefix("sg/"), 0, 0);
    EXPECT_THAT(read, IsOk());
    size_t keys = 0;
    for (const KeyValue& key : read->values) keys += key.key == SourceGraphNameKey("g") ? 0 : 1;
    return keys;
  }

  // Of servers that start from now on; null: nothing is refused.
  Refusals* refusals = nullptr;
  ObjectCluster cluster;
  FakeObjectStore fake{&cluster.clock};
  ObjectStore* objects = nullptr;  // Of servers that start from now on; null: `fake`.
  uint64_t max_bytes = 0;
  absl::Mutex mutex;
  std::string gone ABSL_GUARDED_BY(mutex);  // The server that is not there.
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITION_JOBS_JOBS_WORLD_H_
