// Data sets in an object store, beside what they are made of and beside the embedded store, in the
// same run. Look at ratios:
//
//   build/release/tests/benchmarks/packhouse_object_benchmarks
//     --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
//     --benchmark_report_aggregates_only=true
//
// - FetchIntoCache beside FetchByLibcurl: an object of 64 MiB from a real S3 server on this machine
//   into a file, checked and mapped; and the same bytes into a file by libcurl alone. At least 80
//   %.
// - LedgerCommit beside BareTransaction: a record of 200 bytes in a job's ledger in a real etcd of
// one
//   node, which keeps its files in memory; and a transaction of one compare and one put of as many
//   bytes. At least 70 %. Those that wait together share a transaction in the job's queue.
// - ReadAllGraphs of the object store, its cache filled, beside the embedded store: a reader is
//   opened, and each graph's rows are copied, in an order that is drawn. At least 90 %.
#include <benchmark/benchmark.h>
#include <curl/curl.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/wings/cluster/etcd/etcd_store.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/objects/s3_server.h"
#include "tests/support/etcd_process.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr size_t kObjectBytes = size_t{64} << 20;

// A bucket with one object, in a server that is there as long as the program.
struct FetchWorld {
  S3ObjectStore::Options options = S3Server::Shared().StoreOptions(S3Server::Shared().NewBucket());
  std::unique_ptr<S3ObjectStore> store = S3ObjectStore::Create(options).value();
  std::string bytes = std::string(kObjectBytes, 'x');
  TemporaryFolder folder{TemporaryFolder::InMemory()};

  FetchWorld() {
    Random random(1);
    for (char& c : bytes) c = static_cast<char>(random.Next());
    const absl::Status put = store->Put("chunk", bytes, options.clock->Now() + absl::Minutes(1));
    if (!put.ok()) std::abort();
  }
};

FetchWorld* World(benchmark::State& state) {
  if (!S3Server::Shared().is_running()) {
    state.SkipWithError(S3Server::Shared().why_not().c_str());
    return nullptr;
  }
  static FetchWorld* const world = new FetchWorld;
  return world;
}

void BM_FetchByLibcurl(benchmark::State& state) {
  FetchWorld* const world = World(state);
  if (world == nullptr) return;
  CURL* const handle = curl_easy_init();
  const std::string url =
      absl::StrCat(world->options.endpoint, "/", world->options.bucket, "/chunk");
  const std::string user = absl::StrCat(S3Server::kAccessKey, ":", S3Server::kSecretKey);
  curl_slist* const headers = curl_slist_append(
      nullptr,
      "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string path = world->folder.path() + "/by_libcurl";
  for (auto _ : state) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle, CURLOPT_USERPWD, user.c_str());
    curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 512 * 1024L);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, file);
    long code = 0;
    const CURLcode result = curl_easy_perform(handle);
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    std::fclose(file);
    if (result != CURLE_OK || code != 200) {
      state.SkipWithError("the object was not fetched");
      break;
    }
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(handle);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kObjectBytes));
}
BENCHMARK(BM_FetchByLibcurl)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_FetchIntoCache(benchmark::State& state) {
  FetchWorld* const world = World(state);
  if (world == nullptr) return;
  ChunkCache::Options options;
  options.folder = world->folder.path() + "/cache";
  options.max_bytes = kObjectBytes;
  const auto cache = ChunkCache::Open(options).value();
  const uint32_t crc = Crc32c(world->bytes);
  uint64_t number = 0;
  for (auto _ : state) {
    // Each has another name, and takes the place of the one before.
    const auto map = cache->Pin({absl::StrCat(++number), kObjectBytes, crc}, [&](ObjectSink sink) {
      return world->store->Get("chunk", {0, kObjectBytes}, sink,
                               world->options.clock->Now() + absl::Minutes(1));
    });
    if (!map.ok()) {
      state.SkipWithError("the object was not fetched");
      break;
    }
    benchmark::DoNotOptimize((*map)->bytes().data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kObjectBytes));
}
BENCHMARK(BM_FetchIntoCache)->UseRealTime()->Unit(benchmark::kMillisecond);

// Like molecules: some 2 KiB a graph.
constexpr size_t kGraphs = 40'000;
constexpr size_t kGraphsOfChunk = 1'000;

const GraphSchema& MoleculeSchema() {
  static const auto* const schema =
      new GraphSchema(GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                          {{"x", DType::kInt64, {9}, 0, {}, {}},
                                           {"edge_index", DType::kInt64, {2}, 1, 0, {}}})
                          .value());
  return *schema;
}

void Fill(DatasetStore& store) {
  if (!store.Create("set", MoleculeSchema(), {}).ok()) std::abort();
  for (size_t chunk = 0; chunk < kGraphs / kGraphsOfChunk; ++chunk) {
    Random random(chunk);
    const GraphChunk graphs = RandomChunk(random, &MoleculeSchema(), kGraphsOfChunk, 25, 0);
    if (!store.Append("set", graphs, {}, std::nullopt).ok()) std::abort();
  }
  if (!store.Seal("set").ok()) std::abort();
}

// Opens a reader and copies the rows of all graphs.
void ReadAll(benchmark::State& state, const DatasetStore& store) {
  std::vector<size_t> order(kGraphs);
  for (size_t i = 0; i < kGraphs; ++i) order[i] = i;
  Random random(7);
  for (size_t i = kGraphs - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  std::string batch;
  for (auto _ : state) {
    const auto reader = store.OpenReader("set");
    if (!reader.ok()) {
      state.SkipWithError("no reader");
      return;
    }
    for (const size_t i : order) {
      const auto graph = (*reader)->Graph(i);
      if (!graph.ok()) {
        state.SkipWithError("no graph");
        return;
      }
      for (size_t t = 0; t < graph->chunk->num_columns(); ++t) {
        const absl::string_view rows = graph->chunk->rows(graph->index, t);
        batch.append(rows.data(), rows.size());
      }
      if (batch.size() > size_t{1} << 20) batch.clear();
    }
    benchmark::DoNotOptimize(batch.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kGraphs));
}

void BM_ReadAllGraphsEmbedded(benchmark::State& state) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = folder.path();
  options.max_bytes = uint64_t{1} << 30;
  const auto store = LmdbDatasetStore::Open(options).value();
  Fill(*store);
  ReadAll(state, *store);
}
BENCHMARK(BM_ReadAllGraphsEmbedded)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_ReadAllGraphsFromCache(benchmark::State& state) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  ObjectCluster cluster;
  FakeObjectStore objects;
  ObjectReplica replica(&cluster, &objects, folder.path());
  Fill(replica.store());
  // Fills the cache.
  const auto reader = replica.store().OpenReader("set");
  if (!reader.ok()) std::abort();
  ReadAll(state, replica.store());
}
BENCHMARK(BM_ReadAllGraphsFromCache)->UseRealTime()->Unit(benchmark::kMillisecond);

// An etcd that is there as long as the program, and a connection; null where there is none.
EtcdStore* Etcd(benchmark::State& state) {
  static EtcdStore* const store = []() -> EtcdStore* {
    // Another process may take a port that was free.
    for (int i = 0; i < 5 && !EtcdProcess::Program().empty(); ++i) {
      static std::unique_ptr<EtcdProcess> process;
      process = std::make_unique<EtcdProcess>();
      EtcdOptions options;
      options.endpoints = {process->address()};
      options.timeout = absl::Seconds(10);
      auto made = EtcdStore::Make(options).value();
      if (made->Get("anything").ok()) return made.release();
    }
    return nullptr;
  }();
  if (store == nullptr) state.SkipWithError("there is no etcd");
  return store;
}

constexpr size_t kRecordBytes = 200;

void BM_BareTransaction(benchmark::State& state) {
  EtcdStore* const store = Etcd(state);
  if (store == nullptr) return;
  const std::string value(kRecordBytes, 'x');
  const auto first = store->Commit({{}, {Operation::Put("bare", value)}, {}});
  if (!first.ok()) std::abort();
  Revision revision = first->revision;
  for (auto _ : state) {
    const auto done = store->Commit(
        {{Compare::ModRevision("bare", revision)}, {Operation::Put("bare", value)}, {}});
    if (!done.ok() || !done->succeeded) {
      state.SkipWithError("no transaction");
      return;
    }
    revision = done->revision;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BareTransaction)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_LedgerCommit(benchmark::State& state) {
  EtcdStore* const store = Etcd(state);
  if (store == nullptr) return;
  static int attempts = 0;
  const std::string job = absl::StrCat("job", ++attempts);
  const auto lease = store->GrantLease(absl::Minutes(10));
  if (!lease.ok()) std::abort();
  const auto log = EtcdRecordLog::Acquire(store, {job, "here:1", job, lease->id}).value().log;
  const std::string record(kRecordBytes, 'x');
  for (auto _ : state) {
    if (!log->Append({&record, 1}).ok()) {
      state.SkipWithError("no commit");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_LedgerCommit)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace packhouse
