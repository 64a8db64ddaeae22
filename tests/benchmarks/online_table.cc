// What streams are packed into with more and more look-ahead: real streams and made ones, as shares
// of the volume bound, checked against targets.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/packing/online_packer.h"
#include "tests/packing/dense_sizes.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

constexpr size_t kLookAheads[] = {16, 64, 256, 1024, 4096, 16384};
constexpr size_t kMadeGraphs = 40'000;
// More choice may cost this much of the bound, in per cent.
constexpr double kMostLoss = 0.1;

struct Stream {
  std::string name;
  uint64_t nodes;
  uint64_t edges;
  // (nodes, edges) in the order of the stream; nothing if the data is not at hand.
  std::function<std::optional<std::vector<uint32_t>>()> read;
  // The least per cent of the bound at a look-ahead.
  std::vector<std::pair<size_t, double>> targets = {};
};

std::optional<std::vector<uint32_t>> ShuffledEgos() {
  const auto sizes = ReadSizes("ppa_standin_ego");
  if (!sizes) return std::nullopt;
  return Shuffled(*sizes, 1);
}

std::vector<Stream> Streams() {
  const auto made = [](auto make) {
    return [make] { return std::optional(make(kMadeGraphs, 1)); };
  };
  return {
      {"molhiv", 222, 502, [] { return ReadSizes("molhiv_all"); }},
      {"molecules, made", 222, 502, made(MoleculeSizes)},
      {"ppa_standin_ego, shuffled", 1200, 36138, ShuffledEgos},
      {"the same, denser", 1200, 36138,
       []() -> std::optional<std::vector<uint32_t>> {
         const auto sizes = ShuffledEgos();
         if (!sizes) return std::nullopt;
         return Denser(*sizes, Limits::Create({1200, 36138, kUnlimited}).value());
       }},
      {"uncorrelated, made", 1200, 36138, made(UncorrelatedSizes)},
      {"collaborations, made", 1216, 80239, made(CollaborationSizes)},
      {"ego networks, made", 1225, 80000, made(EgoSizes), {{1024, 96}, {16384, 97.5}}},
      {"the same, near-cliques first", 1225, 80000,
       [] { return std::optional(ByKind(EgoSizes(kMadeGraphs, 1), 50'000, false)); }},
      {"the same, near-cliques last", 1225, 80000,
       [] { return std::optional(ByKind(EgoSizes(kMadeGraphs, 1), 50'000, true)); }},
  };
}

struct Packed {
  double percent = 0;       // Of the volume bound.
  double microseconds = 0;  // A graph, of the processor.
  bool is_right = true;     // Every graph once, and no limit exceeded.
};

Packed Pack(const Stream& stream, absl::Span<const uint32_t> sizes, size_t look_ahead) {
  OnlinePackerOptions options;
  options.look_ahead = look_ahead;
  OnlinePacker packer =
      OnlinePacker::Create(Limits::Create({stream.nodes, stream.edges, kUnlimited}).value(),
                           options)
          .value();
  const size_t num_graphs = sizes.size() / 2;
  std::vector<std::vector<uint64_t>> packs;
  const std::clock_t start = std::clock();
  for (size_t i = 0; i < num_graphs; ++i) {
    if (packer.Push(sizes.subspan(2 * i, 2), i, absl::UnixEpoch()).value()) {
      const auto pack = packer.TakePack();
      packs.emplace_back(pack.begin(), pack.end());
    }
  }
  while (packer.PackPending()) {
    const auto pack = packer.TakePack();
    packs.emplace_back(pack.begin(), pack.end());
  }
  Packed packed;
  packed.microseconds = 1e6 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
                        static_cast<double>(num_graphs);
  std::vector<int> seen(num_graphs);
  uint64_t all_nodes = 0;
  uint64_t all_edges = 0;
  for (const std::vector<uint64_t>& pack : packs) {
    uint64_t nodes = 0;
    uint64_t edges = 0;
    for (const uint64_t graph : pack) {
      ++seen[graph];
      nodes += sizes[2 * graph];
      edges += sizes[2 * graph + 1];
    }
    packed.is_right = packed.is_right && nodes <= stream.nodes && edges <= stream.edges;
    all_nodes += nodes;
    all_edges += edges;
  }
  packed.is_right = packed.is_right &&
                    std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; });
  const uint64_t bound = std::max((all_nodes + stream.nodes - 1) / stream.nodes,
                                  (all_edges + stream.edges - 1) / stream.edges);
  packed.percent = 100 * static_cast<double>(bound) / static_cast<double>(packs.size());
  return packed;
}

int Run(const std::string& only) {
  bool good = true;
  std::printf("| stream (nodes, edges) |");
  for (const size_t look_ahead : kLookAheads) std::printf(" W = %zu |", look_ahead);
  std::printf(" most lost by more |\n|---|");
  for (size_t i = 0; i <= std::size(kLookAheads); ++i) std::printf("---:|");
  std::printf("\n");
  for (const Stream& stream : Streams()) {
    if (!absl::StrContains(stream.name, only)) continue;
    const auto sizes = stream.read();
    if (!sizes) continue;
    std::printf("| %s (%u, %u) |", stream.name.c_str(), static_cast<unsigned>(stream.nodes),
                static_cast<unsigned>(stream.edges));
    double best = 0;
    double lost = 0;
    for (const size_t look_ahead : kLookAheads) {
      const Packed packed = Pack(stream, *sizes, look_ahead);
      std::printf(" %.2f (%.2f us) |", packed.percent, packed.microseconds);
      std::fflush(stdout);
      best = std::max(best, packed.percent);
      lost = std::max(lost, best - packed.percent);
      good &= packed.is_right;
      for (const auto& [at, least] : stream.targets) {
        good &= at != look_ahead || packed.percent >= least;
      }
    }
    std::printf(" %.2f |\n", lost);
    good &= lost <= kMostLoss;
  }
  std::printf("\n%s\n", good ? "All targets are met." : "A target is missed.");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  std::string only;
  CLI::App app(
      "How full a stream's packs are, in per cent of the volume bound, by look-ahead; exit "
      "status 1 if a target is missed.");
  app.add_option("--only", only, "Streams whose names contain this");
  CLI11_PARSE(app, argc, argv);
  return packhouse::Run(only);
}
