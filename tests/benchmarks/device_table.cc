// How good the shapes are that a stream gets for a device after its first graphs: a table for each
// set of sizes, beside what the tuner finds with the histogram of the whole stream.
//
//   make bench-device
//
// Exit status 1 if a stream in random order costs more than half a percent above the best. In the
// order of its file a set may begin with graphs that are not like the others; these rows are
// printed for comparison. Only the ratios matter; they do not depend on the machine.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/engine/streams/stream_packer.h"
#include "service/engine/streams/stream_shapes.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/random.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

constexpr double kMostLoss = 0.005;
constexpr size_t kCalibration = 2000;

struct NamedProfile {
  std::string name;
  DeviceProfile profile;
};

DeviceProfile ProfileOf(uint64_t nodes, uint64_t edges, uint64_t multiple_of, uint32_t shapes = 1) {
  DeviceProfile profile;
  profile.components = {{.max_rows = nodes, .multiple_of = multiple_of},
                        {.max_rows = edges, .multiple_of = multiple_of},
                        {.max_rows = 0, .relative_cost = 0}};
  profile.max_distinct_shapes = shapes;
  return profile;
}

std::vector<NamedProfile> Profiles() {
  DeviceProfile memory = ProfileOf(65536, 65536, 64);
  memory.components[0].bytes_per_row = 24'000;
  memory.components[1].bytes_per_row = 12'000;
  memory.memory_bytes = uint64_t{128} << 20;
  return {{"nodes 2048, by 8", ProfileOf(2048, 6144, 8)},
          {"nodes 2048, by 8, 4 shapes", ProfileOf(2048, 6144, 8, 4)},
          {"nodes 4096, by 128", ProfileOf(4096, 12288, 128)},
          {"128 MiB, by 64", memory}};
}

SizeHistogram HistogramOf(absl::Span<const uint32_t> sizes) {
  SizeHistogram histogram(2);
  for (size_t i = 0; i < sizes.size(); i += 2) (void)histogram.Add(sizes.subspan(i, 2));
  return histogram;
}

std::vector<uint32_t> Shuffled(std::vector<uint32_t> sizes) {
  Random random(1);
  for (size_t i = sizes.size() / 2 - 1; i > 0; --i) {
    const size_t j = random.Below(i + 1);
    std::swap(sizes[2 * i], sizes[2 * j]);
    std::swap(sizes[2 * i + 1], sizes[2 * j + 1]);
  }
  return sizes;
}

// What a whole stream costs.
struct StreamCost {
  double rows = 0;
  double real_rows = 0;
  uint64_t rejected = 0;

  double overhead() const { return rows / real_rows - 1; }
};

StreamCost Stream(absl::Span<const uint32_t> sizes,
                  const std::shared_ptr<const GraphSchema>& schema,
                  std::vector<StreamShape> shapes) {
  StreamPackerOptions options;
  options.whole_graphs = false;
  options.padding = Padding::kMasked;
  options.calibration.emplace();
  auto packer =
      StreamPacker::Create(schema, options, UnwatchedStreams().ForStream(schema->sizes(), {}))
          .value();
  (void)packer->SetShapes(std::move(shapes)).value();
  StreamCost cost;
  const auto take = [&] {
    while (const auto batch = packer->Next(absl::UnixEpoch()).value()) {
      cost.rows += static_cast<double>(batch->rows[0] + batch->rows[1]);
      cost.real_rows += static_cast<double>(batch->real_rows[0] + batch->real_rows[1]);
    }
  };
  constexpr size_t kChunk = 8192;
  for (size_t begin = 0; begin < sizes.size(); begin += 2 * kChunk) {
    const auto chunk = sizes.subspan(begin, 2 * kChunk);
    SizeTable table =
        SizeTable::WithConsecutiveIds(chunk.size() / 2, 2, {chunk.begin(), chunk.end()}, begin)
            .value();
    cost.rejected += packer->Offer(GraphChunk::OfSizes(schema.get(), std::move(table)))->size();
    take();
  }
  packer->Flush();
  take();
  return cost;
}

std::string NameOf(const std::vector<uint64_t>& capacities) {
  return absl::StrFormat("%d x %d", capacities[0], capacities[1]);
}

// Whether all rows in random order are within the bound.
bool PrintTable(const std::string& name, const std::vector<uint32_t>& sizes) {
  const auto schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  const SizeHistogram whole = HistogramOf(sizes);
  bool is_good = true;
  absl::PrintF("\n### %s: %d graphs\n\n", name, whole.num_graphs());
  absl::PrintF(
      "| profile | limits for the whole | its plan costs | limits after %d graphs | foretold | the "
      "stream costs | above the plan | rejected | search "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      kCalibration);
  for (const auto& [profile_name, declared] : Profiles()) {
    ShapeSearch search;
    search.batches.padding = Padding::kMasked;
    search.batches.whole_graphs = false;
    const DeviceProfile profile = ProfileForStream(declared, *schema, search.batches).value();
    const TuneResult best = TuneLimits(whole, profile, schema->sizes(), {}).value();
    const double best_overhead = best.epoch_cost / best.least_cost - 1;
    for (const bool is_shuffled : {false, true}) {
      const std::vector<uint32_t> stream = is_shuffled ? Shuffled(sizes) : sizes;
      const absl::Time started = absl::Now();
      StreamShapes chosen =
          ChooseStreamShapes(HistogramOf(absl::MakeConstSpan(stream).subspan(0, 2 * kCalibration)),
                             profile, *schema, search)
              .value();
      const absl::Duration elapsed = absl::Now() - started;
      const std::string limits = NameOf(chosen.shapes[0].requested);
      const StreamCost cost = Stream(stream, schema, std::move(chosen.shapes));
      const double loss = (1 + cost.overhead()) / (1 + best_overhead) - 1;
      is_good = is_good && (!is_shuffled || loss <= kMostLoss);
      absl::PrintF(
          "| %s, %s | %s | +%.3f %% | %s | +%.3f %% | +%.3f %% | %+.3f %% | %d | %.2f s |\n",
          profile_name, is_shuffled ? "shuffled" : "in its order",
          NameOf(best.shapes[0].capacities), 100 * best_overhead, limits, 100 * chosen.overhead,
          100 * cost.overhead(), 100 * loss, cost.rejected, absl::ToDoubleSeconds(elapsed));
      std::fflush(stdout);
    }
  }
  return is_good;
}

int Run(bool is_smoke) {
  if (is_smoke) return PrintTable("made molecules", MoleculeSizes(10'000, 1)) ? 0 : 1;
  bool is_good = true;
  bool has_any = false;
  for (const char* const name : {"molhiv_all", "molpcba_train"}) {
    const std::optional<std::vector<uint32_t>> sizes = ReadSizes(name);
    if (!sizes) {
      absl::PrintF("%s: no such file in the shared data, skipped\n", name);
      continue;
    }
    has_any = true;
    is_good = PrintTable(name, *sizes) && is_good;
  }
  if (!has_any) is_good = PrintTable("made molecules", MoleculeSizes(50'000, 1));
  return is_good ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  return packhouse::Run(argc > 1 && std::string(argv[1]) == "--smoke");
}
