// Durable appends, beside what the disk itself can do in the same run. A commit of LMDB writes new
// pages, flushes them, and writes a meta page in place with O_DSYNC; BM_RawCommit does just that,
// and is the bound. Producers that append at once share commits.
//
// The latency of a shared disk changes by orders of magnitude within minutes, so that figures which
// were taken one after the other say nothing about each other. Interleave and look at medians, and
// at how far they spread:
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter='Append|RawCommit'
//     --benchmark_enable_random_interleaving=true --benchmark_repetitions=15
//     --benchmark_min_time=0.1 --benchmark_report_aggregates_only=true
//
// The folder is below $TMPDIR, or /tmp: set TMPDIR to the disk in question.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

// Like molecules: 9 int64 a node, 3 an edge, about 25 nodes and 50 edges.
const GraphSchema& AppendedSchema() {
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
  return RandomChunk(random, &AppendedSchema(), num_graphs, 50, 0);
}

// What is shared by the threads of one run.
struct Run {
  std::unique_ptr<TemporaryFolder> folder;
  std::unique_ptr<LmdbDatasetStore> store;
};
Run run;

// The disk's part of a commit of one record: the file grows, then a page in it is overwritten.
void BM_RawCommit(benchmark::State& state) {
  constexpr off_t kMaxFile = off_t{256} << 20;
  const GraphChunk chunk = MoleculeChunk(state.range(0));
  const std::string bytes(chunk.num_bytes(), 'x');
  const std::string meta(4096, 'm');
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  const int data_fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  const int meta_fd = ::open(path.c_str(), O_WRONLY | O_DSYNC);
  off_t offset = meta.size();
  for (auto _ : state) {
    // Overwriting is cheaper than growing: never go round.
    if (offset > kMaxFile) {
      state.PauseTiming();
      offset = ::ftruncate(data_fd, meta.size()) == 0 ? meta.size() : offset;
      state.ResumeTiming();
    }
    if (::pwrite(data_fd, bytes.data(), bytes.size(), offset) < 0 || ::fdatasync(data_fd) != 0 ||
        ::pwrite(meta_fd, meta.data(), meta.size(), 0) < 0) {
      state.SkipWithError("cannot write");
      break;
    }
    offset += bytes.size();
  }
  ::close(meta_fd);
  ::close(data_fd);
  state.SetBytesProcessed(state.iterations() * bytes.size());
  state.SetItemsProcessed(state.iterations() * chunk.num_graphs());
}
BENCHMARK(BM_RawCommit)->Arg(1)->Arg(100)->Arg(1000)->UseRealTime()->Unit(benchmark::kMillisecond);

// Each thread is a producer that appends chunks of so many graphs, one after the other.
void BM_Append(benchmark::State& state) {
  const GraphChunk chunk = MoleculeChunk(state.range(0));
  if (state.thread_index() == 0) {
    run.folder = std::make_unique<TemporaryFolder>();
    LmdbDatasetStore::Options options;
    options.folder = run.folder->path();
    run.store = LmdbDatasetStore::Open(options).value();
    run.store->Create("set", AppendedSchema(), {}).status().IgnoreError();
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
  store->Create("set", AppendedSchema(), {}).status().IgnoreError();
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
  store->Create("set", AppendedSchema(), {}).status().IgnoreError();
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
