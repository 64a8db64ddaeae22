// What requests and answers reserve is what they hold (tests/support/accounting.h).
#include "tests/support/accounting.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/streams/drift_watch.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/stream_drift.h"
#include "service/server/wire/epoch_words.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/source_graph_world.h"

namespace packhouse {
namespace {

// What a call makes, and the memory of it.
template <typename T>
struct Held {
  MemoryHold memory;
  T made;
};

TEST(WireAccountingTest, RowsThatAreLookedUp) {
  const std::unique_ptr<const SourceGraph> graph = SmallSourceGraph(50);
  v1::LookupNodesRequest nodes;
  nodes.set_node_set("n");
  nodes.set_numbers(Uint32sToWire({3, 1, 4, 1, 5, 9, 26, 5, 35}));
  nodes.set_all_columns(true);
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<Held<v1::LookupNodesResponse>> {
        Held<v1::LookupNodesResponse> held;
        PH_ASSIGN_OR_RETURN(held.made, LookUpNodes(nodes, *graph, 1 << 20, memory, held.memory));
        EXPECT_GE(held.memory.bytes(), held.made.columns(0).data().size());
        return held;
      },
      [](const Held<v1::LookupNodesResponse>& held) { return held.memory.bytes(); });
  v1::ReadEdgesRequest edges;
  edges.set_edge_set("e");
  edges.set_first_edge(2);
  edges.set_num_edges(40);
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<Held<v1::ReadEdgesResponse>> {
        Held<v1::ReadEdgesResponse> held;
        PH_ASSIGN_OR_RETURN(held.made, ReadEdges(edges, *graph, 1 << 20, memory, held.memory));
        EXPECT_GE(held.memory.bytes(), held.made.ByteSizeLong());
        return held;
      },
      [](const Held<v1::ReadEdgesResponse>& held) { return held.memory.bytes(); });
}

TEST(WireAccountingTest, TheListsOfAnEpochsWords) {
  DatasetWorld world(60);
  world.Seal();
  OneGraphStore graphs{SmallSourceGraph(60)};
  v1::EpochSpec subset;
  subset.set_dataset("graphs");
  subset.set_job("job");
  std::vector<uint64_t> ids;
  for (uint64_t id = 1000; id < 1040; ++id) ids.push_back(id);
  subset.mutable_subset()->set_graph_ids(Uint64sToWire(ids));
  v1::EpochSpec samples;
  samples.set_job("job");
  samples.mutable_samples()->mutable_sub_graphs()->set_graph("g");
  samples.mutable_samples()->mutable_sub_graphs()->set_text(TwoHopSpec(3, 2));
  samples.mutable_samples()->mutable_seeds()->set_numbers(Uint32sToWire({3, 1, 4, 1, 5}));
  for (const v1::EpochSpec* const spec : {&subset, &samples}) {
    SCOPED_TRACE(spec->ShortDebugString());
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<Held<EpochRequest>> {
          Held<EpochRequest> held;
          PH_ASSIGN_OR_RETURN(held.made,
                              OpenEpochRequest(*spec, world.store(), &graphs, memory, held.memory));
          return held;
        },
        [](const Held<EpochRequest>& held) {
          return held.memory.bytes() + (held.made.samples ? held.made.samples->memory->bytes() : 0);
        });
  }
}

TEST(WireAccountingTest, TheWatchOfAStream) {
  const std::shared_ptr<const GraphSchema> schema = SmallSchema();
  const StreamDrift::Options options;
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return StreamDrift::Create(options, schema, std::nullopt, memory, nullptr, nullptr);
      },
      [&](const std::unique_ptr<StreamDrift>&) {
        return DriftWatch::BytesFor(schema->num_components(), options.num_graphs);
      });
}

}  // namespace
}  // namespace packhouse
