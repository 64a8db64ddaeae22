// What requests and answers reserve is what they hold (tests/support/accounting.h).
#include "tests/support/accounting.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/streams/drift_watch.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/services/pack_handler.h"
#include "service/server/services/stream_drift.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_memory.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/services/samples_kind.h"
#include "service/wings/graphs/services/source_graph_append_handler.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "service/wings/partition/services/joined_kind.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/parts_worlds.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/unwatched_streams.h"

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
  *samples.mutable_subset() = subset.subset();
  // Of as many bytes as the subset alone.
  PartsWorld parts(kSeedWithEdges);
  v1::EpochSpec joined = subset;
  joined.set_dataset("parts");
  joined.set_join_parts(true);
  const SamplesKind samples_kind(&graphs);
  const JoinedKind joined_kind;
  const EpochKinds kinds = {{&samples_kind, &joined_kind}, {}};
  for (const v1::EpochSpec* const spec : {&subset, &samples, &joined}) {
    SCOPED_TRACE(spec->ShortDebugString());
    const DatasetStore& datasets = spec->join_parts() ? parts.store() : world.store();
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<Held<EpochRequest>> {
          Held<EpochRequest> held;
          PH_ASSIGN_OR_RETURN(held.made,
                              OpenEpochRequest(*spec, datasets, &kinds, memory, held.memory));
          EXPECT_EQ(held.memory.bytes(), BytesOfRequest(*spec));
          return held;
        },
        [](const Held<EpochRequest>& held) {
          const auto* const of = held.made.Find<SamplesRequest>();
          return held.memory.bytes() + (of == nullptr ? 0 : of->memory->bytes());
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

// Remembers how changes were judged.
class Judgements final : public PackObserver {
 public:
  const std::vector<double>& losses() const { return losses_; }

  void OnBatch(const Batch& /*batch*/, absl::Span<const uint64_t> /*capacities*/) override {}
  void OnRejectedTooLarge(uint64_t /*graphs*/) override {}
  void OnPending(uint64_t /*graphs*/, uint64_t /*bytes*/) override {}
  void OnSizeChange(double loss, bool /*loses*/) override { losses_.push_back(loss); }

 private:
  std::vector<double> losses_;
};

// The stream goes on without a judgement, and its next change is judged.
TEST(WireAccountingTest, TheSearchForAStreamsLimits) {
  constexpr uint64_t kGraphs = DriftWatch::kFewestGraphs;
  MemoryBudget memory(uint64_t{1} << 30);
  Judgements judgements;
  PH_ASSERT_OK_AND_ASSIGN(const auto drift,
                          StreamDrift::Create({.num_graphs = kGraphs}, SmallSchema(), std::nullopt,
                                              &memory, nullptr, &judgements));
  drift->SetShapes({});
  uint32_t nodes = 10;
  const auto observe = [&] {
    std::vector<uint32_t> counts;
    for (uint64_t i = 0; i < 20 * kGraphs; ++i) counts.insert(counts.end(), {nodes, 2 * nodes});
    nodes *= 3;
    PH_ASSERT_OK_AND_ASSIGN(const SizeTable sizes,
                            SizeTable::WithConsecutiveIds(20 * kGraphs, 2, std::move(counts), 0));
    ASSERT_THAT(drift->Observe(sizes), IsOk());
  };
  observe();
  EXPECT_EQ(drift->Next(), std::nullopt);
  const uint64_t held = memory.held();
  observe();
  ASSERT_TRUE(drift->has_change());
  {
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, memory.Hold("others", memory.bound() - held));
    EXPECT_EQ(drift->Next(), std::nullopt);
  }
  EXPECT_THAT(judgements.losses(), testing::ElementsAre(PackObserver::kNotJudged));
  EXPECT_EQ(memory.held(), held);
  observe();
  ASSERT_TRUE(drift->has_change());
  (void)drift->Next();
  ASSERT_EQ(judgements.losses().size(), 2U);
  EXPECT_GE(judgements.losses()[1], 0);
  EXPECT_EQ(memory.held(), held);
}

// Three nodes and two edges; two of them do not fit into one piece.
constexpr char kSchemaOfPieces[] =
    "schema { components: 'nodes' components: 'edges' tensors { name: 'x' dtype: DATA_TYPE_INT8 "
    "component: 'nodes' } tensors { name: 'ends' dtype: DATA_TYPE_INT32 row_shape: 2 component: "
    "'edges' index_into: 'nodes' } } ";
v1::GraphChunk GraphToCut() {
  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(1);
  chunk.mutable_sizes()->set_counts(Uint32sToWire({3, 2}));
  v1::TensorData& x = *chunk.add_tensors();
  x.set_name("x");
  x.set_data("abc");
  v1::TensorData& ends = *chunk.add_tensors();
  ends.set_name("ends");
  ends.set_data(Uint32sToWire({0, 1, 1, 2}));
  return chunk;
}
template <typename Request>
std::unique_ptr<Request> RequestOf(const std::string& text) {
  auto request = std::make_unique<Request>();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
  return request;
}
uint64_t NothingIsKept(int /*made*/) { return 0; }

TEST(WireAccountingTest, GraphsThatAreCutForADataset) {
  const auto create = RequestOf<v1::CreateDatasetRequest>(
      absl::StrCat("name: 'set' oversize_policy: OVERSIZE_POLICY_PARTITION max_rows { component: "
                   "'nodes' rows: 2 } ",
                   kSchemaOfPieces));
  PH_ASSERT_OK_AND_ASSIGN(const NewDataset dataset, NewDatasetFromWire(*create));
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<int> {
        MemoryDatasetStore store(1 << 20);
        PH_RETURN_IF_ERROR(store.Create("set", dataset.schema, dataset.options).status());
        AppendHandler handler(&store, memory);
        auto request = std::make_unique<v1::AppendRequest>();
        request->set_dataset("set");
        *request->mutable_graphs() = GraphToCut();
        PH_RETURN_IF_ERROR(handler.Accept(std::move(request)));
        EXPECT_GT(store.Get("set")->num_graphs, 1U);
        return 0;
      },
      NothingIsKept);
}

TEST(WireAccountingTest, GraphsThatAreCutForAStream) {
  const std::string open = absl::StrCat(
      "open { oversize_policy: OVERSIZE_POLICY_PARTITION limits { capacities { "
      "component: 'nodes' rows: 2 } } ",
      kSchemaOfPieces, " }");
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<int> {
        SimulatedClock clock;
        HistogramStore histograms{{}};
        UnwatchedStreams observers;
        PackHandler handler(&clock, {}, &histograms, &observers, memory);
        PH_RETURN_IF_ERROR(handler.Accept(RequestOf<v1::PackRequest>(open)));
        auto request = std::make_unique<v1::PackRequest>();
        *request->mutable_graphs() = GraphToCut();
        PH_RETURN_IF_ERROR(handler.Accept(std::move(request)));
        return 0;
      },
      NothingIsKept);
}

TEST(WireAccountingTest, RowsThatAreAppended) {
  // The store itself takes nothing, and says so.
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<int> {
        OneGraphStore graphs{SmallSourceGraph(3)};
        SourceGraphAppendHandler handler(&graphs, memory);
        const absl::Status status = handler.Accept(RequestOf<v1::AppendSourceGraphRequest>(
            "graph: 'g' nodes { node_set: 'n' ids { integers: '\\1\\0\\0\\0\\0\\0\\0\\0' } columns "
            "{ name: 'x' data: '\\1\\2\\3\\4\\5\\6\\7\\10' } }"));
        if (absl::IsResourceExhausted(status)) return status;
        EXPECT_FALSE(status.ok());
        return 0;
      },
      NothingIsKept);
}

}  // namespace
}  // namespace packhouse
