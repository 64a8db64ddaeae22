// A small data folder with something in every store, and all that can be read of one.
#ifndef PACKHOUSE_TESTS_DATA_FOLDER_FOLDER_WORLD_H_
#define PACKHOUSE_TESTS_DATA_FOLDER_FOLDER_WORLD_H_

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/program/data_folder/maintenance.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/wings/graphs_in_folder.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/logs/logged_keys.h"
#include "service/wings/partition/jobs/partition_check.h"
#include "tests/datasets/stored_files.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

// Partitions are checked, too.
inline const GraphFolder kSourceGraphs = GraphsInFolder({CheckPartitions, AcceptMissingPartitions});

// The stores of a data folder, open.
struct OpenStores {
  explicit OpenStores(const std::string& folder) : data_dir(folder) {
    LmdbDatasetStore::Options of_datasets;
    of_datasets.folder = DatasetsFolder(data_dir);
    of_datasets.max_bytes = uint64_t{1} << 28;
    datasets = LmdbDatasetStore::Open(of_datasets).value();
    LmdbJobLogs::Options of_ledger;
    of_ledger.folder = DeliveryFolder(data_dir);
    of_ledger.max_bytes = uint64_t{1} << 26;
    ledger = LmdbJobLogs::Open(of_ledger).value();
    FileSourceGraphStore::Options of_graphs;
    of_graphs.folder = SourceGraphsFolder(data_dir);
    of_graphs.min_free_bytes = 0;
    graphs = FileSourceGraphStore::Open(of_graphs).value();
  }

  OpenedFolder opened() const {
    return {data_dir, datasets.get(), ledger.get(), OpenedGraphsIn(graphs)};
  }

  std::string data_dir;
  std::unique_ptr<LmdbDatasetStore> datasets;
  std::unique_ptr<LmdbJobLogs> ledger;
  std::shared_ptr<FileSourceGraphStore> graphs;
};

inline GraphSchema FolderSchema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kInt16, {}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

inline void AppendGraphs(LmdbDatasetStore& store, const std::string& name, uint64_t seed,
                         size_t num_graphs) {
  const GraphSchema schema = FolderSchema();
  Random random(seed);
  const GraphChunk chunk = RandomChunk(random, &schema, num_graphs, 9, seed << 32);
  ASSERT_THAT(store.Append(name, chunk, {}, ProducerSequence{"p", seed}), IsOk());
}

inline EpochIdentity FolderIdentity(const std::string& job, uint64_t epoch) {
  EpochIdentity identity;
  identity.key = {job, epoch};
  identity.dataset = "sealed";
  identity.dataset_version = 3;
  identity.rank_groups.push_back({{222, 502, kUnlimited}, 0, 40});
  return identity;
}

// Some epochs of a job, each with a generation of its own.
inline std::vector<LedgerEvent> EventsOf(const std::string& job, uint64_t first_generation) {
  std::vector<LedgerEvent> events;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    const EpochKey key = {job, epoch};
    const uint64_t generation = first_generation + epoch;
    events.push_back(EpochOpened{FolderIdentity(job, epoch)});
    events.push_back(EpochUsed{key, 1000 + epoch});
    events.push_back(GenerationStarted{key, generation, "x", Sharing::Ranked(1), {}});
    events.push_back(WorkerJoined{key, generation, "w"});
    events.push_back(BatchesAcknowledged{key, generation, BatchSet::Of({1, 2, 5})});
    events.push_back(BatchesAcknowledged{key, generation, BatchSet::Of({7 + epoch})});
  }
  return events;
}

inline void AppendEvents(LmdbJobLogs& logs, const std::string& job,
                         const std::vector<LedgerEvent>& events) {
  std::vector<std::string> records;
  for (const LedgerEvent& event : events) records.push_back(EncodeEvent(event));
  ASSERT_THAT(logs.Open(job).value().log->Append(records), IsOk());
}

inline void AppendNodes(FileSourceGraphStore& store, const std::string& name, uint64_t seed,
                        size_t num_nodes) {
  SeededRandom random(seed);
  const SourceGraphSchema schema = LawSchema();
  const SourceGraphOptions options = LawOptions();
  const ChunkOfRows chunk(schema, options, RandomRows(random, num_nodes, 2 * num_nodes));
  ASSERT_THAT(store.Append({name, 0}, chunk.chunk(), ProducerSequence{"p", seed}), IsOk());
}

// Some named histograms, as their file.
inline void SaveHistograms(const std::string& data_dir, uint64_t num_graphs) {
  HistogramStore store({});
  SizeHistogram sizes(2);
  ASSERT_THAT(sizes.Add({{3, 4}}, num_graphs), IsOk());
  const absl::Time now = absl::FromUnixSeconds(1'600'000'000);
  HistogramKey key = {"exact", SizeSchema::NodesAndEdges()};
  ASSERT_THAT(store.Merge(key, sizes, ProducerSequence{"p", 7}, now), IsOk());
  key = {"team/decaying", SizeSchema::NodesAndEdges(), absl::Hours(1)};
  ASSERT_THAT(store.Merge(key, sizes, {}, now), IsOk());
  ASSERT_THAT(SaveHistogramFile(store, data_dir, now + absl::Minutes(1)), IsOk());
}

// Two data sets, the space of a deleted one, three jobs, an open and a sealed source graph, two
// histograms, a key.
inline void MakeDataFolder(const std::string& data_dir) {
  OpenStores stores(data_dir);
  for (const char* const name : {"sealed", "open", "gone"}) {
    ASSERT_THAT(stores.datasets->Create(name, FolderSchema(), {}), IsOk());
  }
  uint64_t seed = 0;
  for (int i = 0; i < 3; ++i) {
    AppendGraphs(*stores.datasets, "sealed", ++seed, 20);
    AppendGraphs(*stores.datasets, "gone", ++seed, 60);
    AppendGraphs(*stores.datasets, "open", ++seed, 5);
  }
  ASSERT_THAT(stores.datasets->Seal("sealed"), IsOk());
  ASSERT_THAT(stores.datasets->Delete("gone"), IsOk());
  ASSERT_THAT(stores.datasets->WaitUntilErased(), IsOk());
  for (const auto& [job, generation] :
       std::map<std::string, uint64_t>{{"others", 1}, {"third/job", 3}, {"train", 5}}) {
    AppendEvents(*stores.ledger, job, EventsOf(job, generation));
  }
  for (const char* const name : {"graph/sealed", "graph/open"}) {
    ASSERT_THAT(stores.graphs->Create(name, LawSchema(), LawOptions()), IsOk());
    AppendNodes(*stores.graphs, name, 1, 12);
    AppendNodes(*stores.graphs, name, 2, 7);
  }
  ASSERT_THAT(stores.graphs->Seal("graph/sealed", {.duplicates = DuplicateNodes::kFirst},
                                  [](const SourceGraphProgress&) { return true; }),
              IsOk());
  SaveHistograms(data_dir, 100);
  std::ofstream(data_dir + "/key") << "a secret";
}

// All that can be read.
struct Contents {
  std::map<std::string, std::string> datasets;
  // By name; nullopt if a record cannot be read, or does not fit.
  std::optional<std::map<std::string, JobLedger>> jobs;
  uint64_t mark = 0;
  std::map<std::string, std::string> keys;
  std::map<std::string, ReadGraph> sealed_graphs;
  // Those that have a folder for partitions, as each has.
  std::set<std::string> graphs_with_companion;
  std::map<std::string, std::string> open_graphs;
  std::map<std::string, uint64_t> histograms;
  std::string key;

  friend bool operator==(const Contents&, const Contents&) = default;
};

inline std::string ContentOf(const LmdbDatasetStore& store, const DatasetInfo& info) {
  std::string content = absl::StrCat("id ", info.id, " version ", info.version, " state ",
                                     static_cast<int>(info.state), " bytes ", info.num_bytes,
                                     " records ", info.num_records, "\n");
  const auto reader = store.OpenReader(info.name);
  if (!reader.ok()) return content + std::string(reader.status().message());
  for (size_t i = 0; i < (*reader)->num_graphs(); ++i) {
    const auto graph = (*reader)->Graph(i);
    if (!graph.ok()) return content + std::string(graph.status().message());
    absl::StrAppend(&content, graph->chunk->sizes().graph_id(graph->index), ":");
    for (size_t t = 0; t < info.schema->tensors().size(); ++t) {
      absl::StrAppend(&content, graph->chunk->rows(graph->index, t, 0), ";");
    }
  }
  absl::StrAppend(&content, "histogram ", (*reader)->histogram().num_graphs());
  return content;
}

inline std::optional<std::map<std::string, JobLedger>> ReadJobs(LmdbJobLogs& logs) {
  std::map<std::string, JobLedger> jobs;
  const std::vector<std::string> names = logs.Names().value();
  for (const std::string& job : names) {
    const auto records = logs.Read(job);
    if (!records.ok()) return std::nullopt;
    auto ledger = JobLedger::Replay(*records);
    if (!ledger.ok()) return std::nullopt;
    jobs[job] = *std::move(ledger);
  }
  return jobs;
}

// Of measured models; "lost" if they cannot be read.
inline std::map<std::string, std::string> ReadKeys(LmdbJobLogs& logs) {
  const auto keys = LoggedKeys::Open(logs.Open(kKeysLog).value().log);
  if (!keys.ok()) return {{"lost", ""}};
  std::map<std::string, std::string> all;
  const auto read = (*keys)->ReadAll(KeyRange::Prefix("k"), 9).value();
  for (const KeyValue& each : read.values) all[each.key] = each.value;
  return all;
}

inline void PutKey(LmdbJobLogs& logs, const std::string& key, const std::string& value) {
  const auto keys = LoggedKeys::Open(logs.Open(kKeysLog).value().log).value();
  ASSERT_THAT(keys->Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
}

inline Contents ReadContents(const std::string& data_dir) {
  Contents contents;
  const OpenStores stores(data_dir);
  const auto datasets = stores.datasets->List(0, "");
  for (const DatasetInfo& info : datasets->datasets) {
    contents.datasets[info.name] =
        info.state == DatasetState::kDamaged ? "damaged" : ContentOf(*stores.datasets, info);
  }
  contents.jobs = ReadJobs(*stores.ledger);
  contents.mark = stores.ledger->Open("any").value().log->mark().value_or(0);
  contents.keys = ReadKeys(*stores.ledger);
  const auto graphs = stores.graphs->List(0, "");
  for (const SourceGraphInfo& info : graphs->graphs) {
    if (info.state == SourceGraphState::kSealed) {
      const auto graph = stores.graphs->Open(info.name);
      contents.sealed_graphs[info.name] = graph.ok() ? Read(**graph) : ReadGraph();
      if (graph.ok() && std::filesystem::is_directory((*graph)->companion_folder())) {
        contents.graphs_with_companion.insert(info.name);
      }
    } else {
      std::string words = absl::StrCat(static_cast<int>(info.state));
      for (const uint64_t n : info.num_nodes) absl::StrAppend(&words, " ", n);
      for (const uint64_t n : info.num_edges) absl::StrAppend(&words, " ", n);
      contents.open_graphs[info.name] = words;
    }
  }
  const auto read = ReadHistogramFile(
      absl::StrCat(data_dir, "/", kHistogramsFile), nullptr,
      [&contents](const KeptHistogram& kept) {
        contents.histograms[kept.name] =
            std::visit([](const auto& any) { return any.num_distinct(); }, kept.histogram) +
            kept.producers.size();
        return absl::OkStatus();
      });
  if (!read.ok()) contents.histograms = {{read.status().ToString(), 0}};
  contents.key = ReadFile(data_dir + "/key");
  return contents;
}

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { MakeDataFolder(data_dir_); }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string data_dir_ = folder_.path() + "/data";
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATA_FOLDER_FOLDER_WORLD_H_
