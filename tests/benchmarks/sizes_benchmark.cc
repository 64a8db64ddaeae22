#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "service/sizes/size_histogram.h"
#include "service/sizes/size_table.h"
#include "tests/packing/molecule_sizes.h"

namespace packhouse {
namespace {

// Graphs a second into a histogram that knows most sizes; the argument is the size of a table.
void BM_SizeHistogramAddTable(benchmark::State& state) {
  const size_t num_graphs = state.range(0);
  const absl::StatusOr<SizeTable> table =
      SizeTable::WithConsecutiveIds(num_graphs, 2, MoleculeSizes(num_graphs, 0), 0);
  if (!table.ok()) return state.SkipWithError("bad table");
  SizeHistogram histogram(2);
  for (auto unused : state) {
    if (!histogram.AddTable(*table).ok()) return state.SkipWithError("not counted");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * num_graphs));
}
BENCHMARK(BM_SizeHistogramAddTable)->Arg(64)->Arg(1024)->Arg(8192);

}  // namespace
}  // namespace packhouse
