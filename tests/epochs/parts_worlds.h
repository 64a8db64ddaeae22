// A random source graph in random parts, as a data set.
#ifndef PACKHOUSE_TESTS_EPOCHS_PARTS_WORLDS_H_
#define PACKHOUSE_TESTS_EPOCHS_PARTS_WORLDS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/epochs/joined_epoch.h"
#include "service/wings/partition/epochs/part_graphs.h"
#include "service/wings/partition/epochs/part_links.h"
#include "service/wings/partition/epochs/parts_schema.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

inline constexpr uint32_t kParts = 9;
// Its graph has node sets and edge sets that are not empty.
inline constexpr uint64_t kSeedWithEdges = 5;

// A random source graph in random parts, as a data set.
class PartsWorld {
 public:
  explicit PartsWorld(uint64_t seed, bool halo = false, uint32_t num_parts = kParts) {
    std::shared_ptr<const SourceGraph> source = RandomSourceGraph(seed);
    graph_ = source;
    const HomogeneousGraph homogeneous = HomogeneousGraph::Create(source.get()).value();
    SeededRandom random(seed);
    part_.resize(homogeneous.num_nodes());
    for (uint32_t& p : part_) p = static_cast<uint32_t>(random.Below(num_parts));
    PartGraphsOptions options;
    options.halo = halo;
    auto parts = PartGraphs::Create(source, part_, num_parts, options, Making());
    EXPECT_THAT(parts.status(), IsOk());
    parts_ = *std::move(parts);
    EXPECT_THAT(
        MakePartDataset(*parts_, {"parts", 0, "parts"}, store_, Making(), [](uint64_t) {}).status(),
        IsOk());
    homogeneous_ = std::make_unique<HomogeneousGraph>(homogeneous);
  }

  bool has_edge_sets() const { return !homogeneous_->edge_types().empty(); }
  const HomogeneousGraph& graph() const { return *homogeneous_; }
  const std::vector<uint32_t>& part() const { return part_; }
  MemoryDatasetStore& store() { return store_; }
  PartGraphs& parts() { return *parts_; }

  EpochRequest Request(std::vector<uint64_t> capacities, uint64_t epoch = 0) const {
    EpochRequest request;
    request.dataset = "parts";
    request.key = {"job", epoch};
    request.seed = 5;
    request.kinds.push_back(std::make_shared<JoinedParts>());
    request.rank_groups.resize(1);
    request.rank_groups[0].shapes = {std::move(capacities)};
    return request;
  }
  absl::StatusOr<std::shared_ptr<const JoinedEpoch>> Prepare(const EpochRequest& request) {
    return Prepare(request, EpochBounds());
  }
  absl::StatusOr<std::shared_ptr<const JoinedEpoch>> Prepare(const EpochRequest& request,
                                                             const EpochBounds& bounds,
                                                             const Making& making = Making()) {
    return PrepareFrom(store_.OpenReader("parts").value(), request, bounds, making);
  }
  static absl::StatusOr<std::shared_ptr<const JoinedEpoch>> PrepareFrom(
      const std::shared_ptr<const DatasetReader>& reader, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making) {
    return JoinedEpoch::Prepare(
        reader, request, bounds, making,
        [&](const PartsSchema& schema) -> absl::StatusOr<std::shared_ptr<const PartLinks>> {
          PH_ASSIGN_OR_RETURN(PartLinks links, PartLinks::Read(*reader, schema, making));
          return std::make_shared<const PartLinks>(std::move(links));
        });
  }
  // Room for half of everything, and for the largest part.
  std::vector<uint64_t> HalfOfAll() const {
    std::vector<uint64_t> capacities;
    for (const HomogeneousNodeType& type : graph().node_types()) {
      capacities.push_back(type.size / 2 + 30);
    }
    std::vector<std::pair<std::string, uint64_t>> edges;
    for (const HomogeneousEdgeType& type : graph().edge_types()) {
      edges.emplace_back(graph_->schema().edge_sets()[type.edge_set].name, type.size / 4 + 60);
    }
    std::sort(edges.begin(), edges.end());
    for (const auto& [name, room] : edges) capacities.push_back(room);
    capacities.push_back(kUnlimited);
    return capacities;
  }

 private:
  std::shared_ptr<const SourceGraph> graph_;
  std::unique_ptr<HomogeneousGraph> homogeneous_;
  std::vector<uint32_t> part_;
  std::unique_ptr<PartGraphs> parts_;
  MemoryDatasetStore store_{uint64_t{1} << 30};
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_EPOCHS_PARTS_WORLDS_H_
