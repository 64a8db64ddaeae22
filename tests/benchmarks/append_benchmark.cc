// Durable appends, beside what the disk itself can do in the same run. A commit costs LMDB two
// flushes, of the data and of the meta page, so commits a second are at most half of the flushes a
// second; producers that append at once share them. Compare figures of one run only:
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter='Append|Flush'
//
// The folder is below $TMPDIR, or /tmp: set TMPDIR to the disk in question.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/datasets/lmdb_dataset_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

// Like molecules: 9 int64 a node, 3 an edge, about 25 nodes and 50 edges.
const GraphSchema& MoleculeSchema() {
  static const auto* const schema =
      new GraphSchema(GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                          {{"x", DType::kInt64, {9}, 0, {}, {}},
                                           {"edge_index", DType::kInt64, {2}, 1, 0, {}},
                                           {"edge_attr", DType::kInt64, {3}, 1, {}, {}},
                                           {"y", DType::kFloat32, {}, 2, {}, {}}})
                          .value());
  return *schema;
}

GraphChunk MoleculeChunk(size_t num_graphs) {
  Random random(1);
  return RandomChunk(random, &MoleculeSchema(), num_graphs, 50, 0);
}

// What is shared by the threads of one run.
struct Run {
  std::unique_ptr<TemporaryFolder> folder;
  std::unique_ptr<LmdbDatasetStore> store;
};
Run run;

// Bytes of one record of `num_graphs` graphs, written over and over and flushed: the bound.
void BM_Flush(benchmark::State& state) {
  const GraphChunk chunk = MoleculeChunk(state.range(0));
  const std::string bytes(chunk.num_bytes(), 'x');
  const TemporaryFolder folder;
  const int fd = ::open((folder.path() + "/file").c_str(), O_RDWR | O_CREAT, 0600);
  off_t offset = 0;
  for (auto _ : state) {
    if (::pwrite(fd, bytes.data(), bytes.size(), offset) < 0 || ::fdatasync(fd) != 0) {
      state.SkipWithError("cannot write");
      break;
    }
    offset = (offset + bytes.size()) % (256 << 20);
  }
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * bytes.size());
  state.counters["flushes"] = benchmark::Counter(state.iterations(), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Flush)->Arg(1)->Arg(100)->Arg(1000)->UseRealTime()->Unit(benchmark::kMillisecond);

// Each thread is a producer that appends chunks of so many graphs, one after the other.
void BM_Append(benchmark::State& state) {
  const GraphChunk chunk = MoleculeChunk(state.range(0));
  if (state.thread_index() == 0) {
    run.folder = std::make_unique<TemporaryFolder>();
    LmdbDatasetStore::Options options;
    options.folder = run.folder->path();
    run.store = LmdbDatasetStore::Open(options).value();
    run.store->Create("set", MoleculeSchema(), {}).status().IgnoreError();
  }
  ProducerSequence producer = {absl::StrCat("p", state.thread_index()), 0};
  for (auto _ : state) {
    ++producer.sequence;
    if (!run.store->Append("set", chunk, {}, producer).ok()) state.SkipWithError("cannot append");
  }
  state.SetBytesProcessed(state.iterations() * chunk.num_bytes());
  state.SetItemsProcessed(state.iterations() * chunk.num_graphs());
  if (state.thread_index() == 0) {
    run.store = nullptr;
    run.folder = nullptr;
  }
}
BENCHMARK(BM_Append)->Arg(1)->Arg(100)->Arg(1000)->Threads(1)->Threads(4)->UseRealTime()->Unit(
    benchmark::kMillisecond);

// Opening a reader: the sizes of all graphs, and their checksums.
void BM_OpenReader(benchmark::State& state) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = folder.path();
  const auto store = LmdbDatasetStore::Open(options).value();
  store->Create("set", MoleculeSchema(), {}).status().IgnoreError();
  const GraphChunk chunk = MoleculeChunk(1000);
  for (int i = 0; i < state.range(0) / 1000; ++i) {
    store->Append("set", chunk, {}, std::nullopt).status().IgnoreError();
  }
  for (auto _ : state) benchmark::DoNotOptimize(store->OpenReader("set").value());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_OpenReader)->Arg(100000)->Unit(benchmark::kMillisecond);

// Every graph of a reader for the first time (checksums, decoding), then again.
void BM_ReadGraphs(benchmark::State& state) {
  const bool first = state.range(0) == 0;
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = folder.path();
  const auto store = LmdbDatasetStore::Open(options).value();
  store->Create("set", MoleculeSchema(), {}).status().IgnoreError();
  const GraphChunk chunk = MoleculeChunk(1000);
  for (int i = 0; i < 20; ++i) {
    store->Append("set", chunk, {}, std::nullopt).status().IgnoreError();
  }
  auto reader = store->OpenReader("set").value();
  for (auto _ : state) {
    if (first) {
      state.PauseTiming();
      reader = store->OpenReader("set").value();
      state.ResumeTiming();
    }
    for (size_t i = 0; i < reader->num_graphs(); ++i) benchmark::DoNotOptimize(reader->Graph(i));
  }
  state.SetItemsProcessed(state.iterations() * reader->num_graphs());
  state.SetBytesProcessed(state.iterations() * 20 * chunk.num_bytes());
}
BENCHMARK(BM_ReadGraphs)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace packhouse
