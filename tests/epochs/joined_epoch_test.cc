#include "service/wings/partition/epochs/joined_epoch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "service/base/seeded_random.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/wings/partition/epochs/part_graphs.h"
#include "service/wings/partition/epochs/part_joiner.h"
#include "service/wings/partition/epochs/part_links.h"
#include "service/wings/partition/epochs/parts_schema.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/parts_worlds.h"
#include "tests/partitioning/rich_graphs.h"
#include "tests/support/fingerprint.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

template <typename T>
std::vector<T> Values(const Batch& batch, const std::string& name) {
  for (const BatchTensor& tensor : batch.tensors) {
    if (tensor.name != name) continue;
    std::vector<T> values(tensor.data.size() / sizeof(T));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// Every part is in one batch, no batch exceeds the limits, and a batch's edges are all those of the
// graph that have both ends in it.
TEST(JoinedEpochTest, BatchesAreInducedSubGraphs) {
  uint64_t restored = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PartsWorld world(seed);
    if (!world.has_edge_sets()) continue;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, world.Prepare(world.Request(world.HalfOfAll())));
    const std::vector<uint64_t> capacities = world.HalfOfAll();
    std::multiset<uint64_t> parts;
    uint64_t edges_of_batches = 0;
    for (uint64_t number = 0; number < epoch->identity().num_batches(); ++number) {
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(number));
      PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch again, epoch->Build(number));
      const Batch& batch = built.batch;
      parts.insert(batch.graph_ids.begin(), batch.graph_ids.end());
      for (size_t k = 0; k + 1 < capacities.size(); ++k) {
        EXPECT_LE(batch.real_rows[k], capacities[k]);
      }
      for (size_t t = 0; t < batch.tensors.size(); ++t) {
        EXPECT_EQ(batch.tensors[t].data, again.batch.tensors[t].data);
      }
      const auto inside = [&](uint32_t node) {
        return std::count(batch.graph_ids.begin(), batch.graph_ids.end(), world.part()[node]) > 0;
      };
      for (const HomogeneousEdgeType& type : world.graph().edge_types()) {
        const auto& source = world.graph().node_types()[type.source];
        const auto& target = world.graph().node_types()[type.target];
        const std::string name = world.graph().source().schema().edge_sets()[type.edge_set].name;
        const auto numbers = Values<int64_t>(batch, name + ".#number");
        const auto from = Values<int32_t>(batch, name + ".source");
        const auto to = Values<int32_t>(batch, name + ".target");
        const auto source_numbers = Values<int64_t>(batch, source.name + ".#number");
        const auto target_numbers = Values<int64_t>(batch, target.name + ".#number");
        std::map<int64_t, std::pair<int64_t, int64_t>> made;
        for (size_t i = 0; i < numbers.size(); ++i) {
          ASSERT_LT(static_cast<uint32_t>(from[i]), source_numbers.size());
          ASSERT_LT(static_cast<uint32_t>(to[i]), target_numbers.size());
          EXPECT_TRUE(
              made.emplace(numbers[i], std::pair(source_numbers[from[i]], target_numbers[to[i]]))
                  .second);
        }
        std::map<int64_t, std::pair<int64_t, int64_t>> expected;
        for (uint32_t row = 0; row < type.by_target.num_rows(); ++row) {
          for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1];
               ++at) {
            const uint32_t other = type.by_target.neighbours[at];
            if (!inside(source.start + other) || !inside(target.start + row)) continue;
            expected[static_cast<int64_t>(type.by_target.edge(at))] = {other, row};
          }
        }
        EXPECT_EQ(made, expected);
        edges_of_batches += made.size();
      }
    }
    EXPECT_EQ(parts.size() + epoch->oversize().num_graphs, kParts);
    EXPECT_EQ(std::set<uint64_t>(parts.begin(), parts.end()).size(), parts.size());
    EXPECT_EQ(edges_of_batches, epoch->edges().inner + epoch->edges().restored);
    EXPECT_LE(epoch->edges().restored, epoch->edges().cut);
    restored += epoch->edges().restored;
  }
  EXPECT_GT(restored, 100);
}

// Epochs go on with batches that other servers, and other releases, made by the same rules: who
// changes what these are changes the rules' name, too.
TEST(JoinedEpochTest, TheRulesGiveTheseBatches) {
  Fingerprint fingerprint;
  const auto add_batch = [&fingerprint](const Batch& batch) {
    fingerprint.AddAll(batch.graph_ids);
    fingerprint.AddAll(batch.real_rows);
    for (const BatchTensor& tensor : batch.tensors) {
      fingerprint.AddAll(tensor.name);
      fingerprint.AddAll(tensor.data);
    }
  };
  for (uint64_t seed = 0; seed < 40; ++seed) {
    // In some worlds more parts than may be looked ahead at.
    PartsWorld world(seed, false, seed % 8 == 5 ? 90 : kParts);
    if (!world.has_edge_sets()) continue;
    for (const uint64_t divisor : {1, 2, 3}) {
      std::vector<uint64_t> capacities = world.HalfOfAll();
      for (uint64_t& most : capacities) most = most == kUnlimited ? most : most / divisor;
      if (divisor == 2) capacities.back() = 5;
      PH_ASSERT_OK_AND_ASSIGN(const auto epoch, world.Prepare(world.Request(capacities, seed)));
      EXPECT_THAT(epoch->identity().options, testing::EndsWith("; rules joined-v1"));
      EXPECT_EQ(epoch->num_graphs(), epoch->num_parts());
      fingerprint.Add(epoch->num_parts());
      fingerprint.Add(epoch->oversize().num_graphs);
      for (const OversizeItem& item : epoch->oversize().items) {
        for (const uint64_t number : {item.id, item.component, item.value, item.bound}) {
          fingerprint.Add(number);
        }
      }
      fingerprint.Add(epoch->edges().inner);
      fingerprint.Add(epoch->edges().cut);
      fingerprint.Add(epoch->edges().restored);
      for (uint64_t number = 0; number < epoch->identity().num_batches(); ++number) {
        PH_ASSERT_OK_AND_ASSIGN(const BuiltBatch built, epoch->Build(number));
        EXPECT_EQ(epoch->NumGraphs(number), epoch->PartsOf(number).size());
        fingerprint.AddAll(epoch->PartsOf(number));
        add_batch(built.batch);
      }
      const auto padding = epoch->BuildPadding(0);
      fingerprint.AddAll(padding.status().message());
      if (padding.ok()) add_batch(padding->batch);
    }
  }
  EXPECT_EQ(fingerprint.value(), 3486072795527725799U);
}

// As many parts as may be in a batch are, also in those after the first.
TEST(JoinedEpochTest, BatchesMayBeExactlyFull) {
  PartsWorld world(kSeedWithEdges);
  std::vector<uint64_t> capacities(world.HalfOfAll().size(), kUnlimited);
  for (uint64_t most = 1; most <= kParts; ++most) {
    capacities.back() = most;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, world.Prepare(world.Request(capacities)));
    EXPECT_EQ(epoch->identity().num_batches(), (kParts + most - 1) / most);
  }
}

// Another epoch joins other parts; the same one the same, whoever makes it.
TEST(JoinedEpochTest, DependsOnSeedAndEpochAlone) {
  PartsWorld world(kSeedWithEdges);
  const auto parts_of = [&](uint64_t epoch) {
    const auto prepared = world.Prepare(world.Request(world.HalfOfAll(), epoch)).value();
    std::vector<std::vector<uint32_t>> batches;
    for (uint64_t number = 0; number < prepared->identity().num_batches(); ++number) {
      const auto parts = prepared->PartsOf(number);
      batches.emplace_back(parts.begin(), parts.end());
    }
    return batches;
  };
  EXPECT_EQ(parts_of(0), parts_of(0));
  EXPECT_NE(parts_of(0), parts_of(1));
}

TEST(JoinedEpochTest, RefusesWhatItCannotJoin) {
  PartsWorld with_halo(kSeedWithEdges, /*halo=*/true);
  EXPECT_THAT(with_halo.Prepare(with_halo.Request(with_halo.HalfOfAll())).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cut edges")));
  PartsWorld world(kSeedWithEdges);
  EpochRequest request = world.Request(world.HalfOfAll());
  request.cuts_oversize = true;
  EXPECT_THAT(world.Prepare(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("finer")));
  request = world.Request(world.HalfOfAll());
  ExpectOneShapeOnly("join_parts", request, [&] { return world.Prepare(request).status(); });
  request = world.Request(std::vector<uint64_t>(world.HalfOfAll().size(), 1));
  request.oversize_is_error = true;
  EXPECT_THAT(
      world.Prepare(request).status(),
      StatusIs(absl::StatusCode::kOutOfRange, AllOf(HasSubstr("part "), HasSubstr("at most"))));
  request.oversize_is_error = false;
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, world.Prepare(request));
  EXPECT_EQ(epoch->num_parts() + epoch->oversize().num_graphs, kParts);
}

// Whatever tensor of a data set of parts is missing or another one: what is taken can be joined.
TEST(PartsSchemaTest, ASchemaIsRefusedOrHasAllThatJoiningReads) {
  PartsWorld world(kSeedWithEdges);
  const std::shared_ptr<const DatasetReader> reader = world.store().OpenReader("parts").value();
  const GraphSchema& whole = *reader->info().schema;
  const std::vector<TensorSpec> stored(whole.tensors().begin(), whole.tensors().end());
  PH_ASSERT_OK_AND_ASSIGN(const PartsSchema of_whole, PartsSchema::Of(whole));
  // Ends of edges, and the numbers of nodes that are ends.
  std::set<size_t> needed;
  for (size_t t = 0; t < stored.size(); ++t) {
    if (stored[t].index_into) needed.insert(t);
  }
  for (const PartsSchema::NodeSet& nodes : of_whole.node_sets()) needed.insert(nodes.number);
  for (const PartsSchema::EdgeSet& edges : of_whole.edge_sets()) needed.insert(edges.cut_source);
  size_t num_refused = 0;
  std::set<std::string> told;
  const auto try_tensors = [&](std::vector<TensorSpec> tensors, bool must_refuse,
                               const std::string& what) {
    const auto schema = GraphSchema::Create(whole.sizes(), std::move(tensors));
    if (!schema.ok()) return;
    const auto parts = PartsSchema::Of(*schema);
    if (!parts.ok()) {
      ++num_refused;
      EXPECT_EQ(parts.status().code(), absl::StatusCode::kFailedPrecondition) << what;
      told.insert(absl::StrCat(what, ": ", parts.status().message()));
      return;
    }
    EXPECT_FALSE(must_refuse) << what;
    for (const PartsSchema::EdgeSet& edges : parts->edge_sets()) {
      EXPECT_LT(edges.source_set, parts->node_sets().size()) << what;
      EXPECT_LT(edges.target_set, parts->node_sets().size()) << what;
    }
    for (const PartsSchema::JoinedTensor& tensor : parts->tensors()) {
      EXPECT_EQ(tensor.edge_set == PartsSchema::JoinedTensor::kNone,
                tensor.stored_cut == PartsSchema::JoinedTensor::kNone)
          << what;
    }
  };
  for (size_t t = 0; t < stored.size(); ++t) {
    const std::string& name = stored[t].name;
    std::vector<TensorSpec> tensors = stored;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(t));
    try_tensors(std::move(tensors), needed.contains(t), absl::StrCat("without ", name));
    for (const DType dtype : {DType::kInt32, DType::kUint32, DType::kInt64, DType::kFloat32}) {
      tensors = stored;
      tensors[t].dtype = dtype;
      tensors[t].padding_value.clear();
      try_tensors(std::move(tensors), false, absl::StrCat(name, " of ", DTypeName(dtype)));
    }
    tensors = stored;
    tensors[t].index_into.reset();
    try_tensors(std::move(tensors), stored[t].index_into.has_value(),
                absl::StrCat(name, " points nowhere"));
    tensors = stored;
    tensors[t].row_shape.push_back(2);
    try_tensors(std::move(tensors), needed.contains(t), absl::StrCat(name, " in pairs"));
  }
  EXPECT_GT(num_refused, stored.size());
  // Each in its own words.
  Fingerprint fingerprint;
  for (const std::string& words : told) fingerprint.AddAll(words);
  EXPECT_EQ(fingerprint.value(), 7292317414492499233U) << absl::StrJoin(told, "\n");
}

// Epochs of a data set read the links of its parts once.
TEST(JoinedEpochTest, EpochsShareLinks) {
  PartsWorld world(kSeedWithEdges);
  MemoryBudget budget(uint64_t{64} << 20);
  EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
  PH_ASSERT_OK_AND_ASSIGN(const auto first, catalog.PrepareKind(world.Request(world.HalfOfAll())));
  PH_ASSERT_OK_AND_ASSIGN(const auto second,
                          catalog.PrepareKind(world.Request(world.HalfOfAll(), 1)));
  EXPECT_NE(first, second);
  const auto links_of = [](const LoadableEpoch& epoch) {
    return &static_cast<const JoinedEpoch&>(epoch).links();
  };
  EXPECT_EQ(links_of(*first), links_of(*second));
}

TEST(JoinedEpochTest, NothingIsKeptOfPartsThatAreGone) {
  PartsWorld world(kSeedWithEdges);
  MemoryBudget budget(uint64_t{64} << 20);
  EpochCatalog catalog(&world.store(), EpochBounds(), &budget);
  ASSERT_THAT(catalog.PrepareKind(world.Request(world.HalfOfAll())), IsOk());
  EXPECT_NE(budget.held(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList list, world.store().List(0, ""));
  for (const DatasetInfo& info : list.datasets) {
    ASSERT_THAT(world.store().Delete(info.name), IsOk());
  }
  catalog.ForgetGone([](absl::string_view) { return absl::UnimplementedError(""); });
  EXPECT_EQ(budget.held(), 0U);
}

// Rows may fit, and tensors have too many bytes: such a part is left out, too.
TEST(JoinedEpochTest, PartsOfTooManyBytesAreLeftOut) {
  PartsWorld world(kSeedWithEdges);
  EpochRequest request =
      world.Request(std::vector<uint64_t>(world.HalfOfAll().size(), uint64_t{1} << 20));
  bool has_left_some_out = false;
  for (uint64_t bytes = 8; bytes < uint64_t{1} << 12; bytes += bytes / 8) {
    EpochBounds bounds;
    bounds.max_batch_bytes = bytes;
    request.oversize_is_error = false;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, world.Prepare(request, bounds));
    const Oversize& oversize = epoch->oversize();
    EXPECT_EQ(epoch->num_parts() + oversize.num_graphs, kParts);
    for (const OversizeItem& item : oversize.items) {
      EXPECT_EQ(item.component, OversizeItem::kBytes);
      EXPECT_GT(item.value, bytes);
      EXPECT_EQ(item.bound, bytes);
    }
    has_left_some_out |= oversize.num_graphs > 0 && epoch->num_parts() > 0;
    if (oversize.num_graphs == 0) continue;
    request.oversize_is_error = true;
    EXPECT_THAT(world.Prepare(request, bounds).status(),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("bytes of tensors, at most")));
  }
  EXPECT_TRUE(has_left_some_out);
}

// Serves the graphs of another reader, of which one has lost a node: the node has the number before
// its own.
class LostNodeReader final : public DatasetReader {
 public:
  // `tensor` has the numbers of nodes; `number` has become `other`. `parts` must outlive it.
  LostNodeReader(const DatasetReader* parts, size_t part, size_t tensor, int64_t number,
                 int64_t other)
      : parts_(*parts), part_(part) {
    const StoredGraph graph = parts->Graph(part).value();
    const GraphChunk& chunk = *graph.chunk;
    auto columns = std::make_shared<std::vector<std::string>>();
    for (size_t t = 0; t < chunk.schema().tensors().size(); ++t) {
      columns->emplace_back(chunk.column(t));
    }
    const absl::string_view rows = chunk.rows(graph.index, tensor);
    char* const own = (*columns)[tensor].data() + (rows.data() - chunk.column(tensor).data());
    for (size_t i = 0; i < rows.size() / sizeof(number); ++i) {
      if (NumberAt(rows, i) != number) continue;
      std::memcpy(own + i * sizeof(other), &other, sizeof(other));
    }
    const std::vector<absl::string_view> views(columns->begin(), columns->end());
    chunk_.emplace(
        GraphChunk::CreateTrusted(&chunk.schema(), chunk.sizes(), views, columns).value());
    index_ = graph.index;
  }

  const DatasetInfo& info() const override { return parts_.info(); }
  const SizeHistogram& histogram() const override { return parts_.histogram(); }
  absl::Span<const uint32_t> counts() const override { return parts_.counts(); }
  absl::Span<const uint64_t> graph_ids() const override { return parts_.graph_ids(); }
  absl::Span<const uint64_t> group_ids() const override { return parts_.group_ids(); }
  absl::Span<const DamagedRecord> unreadable() const override { return {}; }
  absl::StatusOr<StoredGraph> Graph(size_t graph) const override {
    if (graph == part_) return StoredGraph{&*chunk_, index_};
    return parts_.Graph(graph);
  }

 private:
  const DatasetReader& parts_;
  const size_t part_;
  std::optional<GraphChunk> chunk_;
  size_t index_ = 0;
};

// A cut edge comes from a node that its part does not have any more: there is no batch with an edge
// from another node.
TEST(JoinedEpochTest, APartThatHasLostANodeIsNamed) {
  PartsWorld world(/*seed=*/0);
  const std::shared_ptr<const DatasetReader> reader = world.store().OpenReader("parts").value();
  PH_ASSERT_OK_AND_ASSIGN(const PartsSchema schema, PartsSchema::Of(*reader->info().schema));
  PH_ASSERT_OK_AND_ASSIGN(const PartLinks links, PartLinks::Read(*reader, schema, Making()));
  size_t num_edges = 0;
  for (uint32_t part = 0; part < reader->num_graphs(); ++part) {
    PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(part));
    for (const PartsSchema::EdgeSet& edges : schema.edge_sets()) {
      const absl::string_view sources = graph.chunk->rows(graph.index, edges.cut_source);
      for (size_t i = 0; i < std::min<size_t>(sources.size() / sizeof(uint32_t), 40); ++i) {
        const uint32_t number = SourceAt(sources, i);
        const uint32_t other = links.PartOf(edges.source_set, number);
        if (other == PartLinks::kNone || other == part) continue;
        const size_t numbers = schema.node_sets()[edges.source_set].number;
        const LostNodeReader lost(reader.get(), other, numbers, number, int64_t{number} - 1);
        EXPECT_THAT(JoinParts(schema, links, lost, {part, other}).status(),
                    StatusIs(absl::StatusCode::kDataLoss,
                             HasSubstr(absl::StrCat("data set 'parts': part ", other,
                                                    " has lost node ", number))));
        EXPECT_THAT(JoinParts(schema, links, *reader, {part, other}).status(), IsOk());
        // No node is in two parts, or twice in one.
        EXPECT_THAT(
            PartLinks::Read(lost, schema, Making()).status(),
            StatusIs(absl::StatusCode::kFailedPrecondition,
                     testing::MatchesRegex("join_parts: not a data set of parts: graph [0-9] has "
                                           "'n[0-9].#number' -?[0-9]+")));
        // Nor has any a number that none has.
        if (num_edges % 16 == 0) {
          for (const int64_t none : {int64_t{-1}, int64_t{1} << 20, INT64_MAX, INT64_MIN}) {
            const LostNodeReader beyond(reader.get(), other, numbers, number, none);
            EXPECT_THAT(PartLinks::Read(beyond, schema, Making()).status(),
                        StatusIs(absl::StatusCode::kFailedPrecondition,
                                 testing::EndsWith(absl::StrCat(".#number' ", none))));
          }
        }
        ++num_edges;
      }
    }
  }
  EXPECT_GT(num_edges, 100);
}

// Serves the graphs of another reader until one cannot be read.
class FailingReader final : public DatasetReader {
 public:
  explicit FailingReader(std::shared_ptr<const DatasetReader> parts)
      : told(parts->info()), parts_(std::move(parts)) {}

  mutable int64_t left = INT64_MAX;  // How many can be read.
  absl::Status intact;
  DatasetInfo told;
  std::vector<DamagedRecord> damaged;

  const DatasetInfo& info() const override { return told; }
  const SizeHistogram& histogram() const override { return parts_->histogram(); }
  absl::Span<const uint32_t> counts() const override { return parts_->counts(); }
  absl::Span<const uint64_t> graph_ids() const override { return parts_->graph_ids(); }
  absl::Span<const uint64_t> group_ids() const override { return parts_->group_ids(); }
  absl::Span<const DamagedRecord> unreadable() const override { return damaged; }
  absl::StatusOr<StoredGraph> Graph(size_t graph) const override {
    if (left-- == 0) return absl::UnavailableError(absl::StrCat("graph ", graph, " is away"));
    return parts_->Graph(graph);
  }
  absl::Status CheckIntact() const override { return intact; }

 private:
  const std::shared_ptr<const DatasetReader> parts_;
};

// Whichever graph cannot be read, whoever gives up, and whatever memory there is: all of an epoch,
// or the error, and nothing is held.
TEST(JoinedEpochTest, IsWholeOrRefused) {
  PartsWorld world(/*seed=*/0);
  const auto reader = std::make_shared<FailingReader>(world.store().OpenReader("parts").value());
  const EpochRequest request = world.Request(world.HalfOfAll());
  const auto prepare = [&](const Making& making) {
    return PartsWorld::PrepareFrom(reader, request, EpochBounds(), making);
  };
  int64_t num_read = 0;
  for (;; ++num_read) {
    reader->left = num_read;
    const auto epoch = prepare(Making());
    if (epoch.ok()) break;
    EXPECT_EQ(epoch.status(),
              absl::UnavailableError(absl::StrCat("graph ", num_read % kParts, " is away")));
  }
  // The nodes of each set, then the cut edges.
  EXPECT_EQ(num_read % kParts, 0);
  EXPECT_GE(num_read, 2 * kParts);
  reader->left = INT64_MAX;
  int num_asked = 0;
  for (;; ++num_asked) {
    int left = num_asked;
    const auto epoch = prepare(Making(nullptr, [&left] { return left-- == 0; }));
    if (epoch.ok()) break;
    EXPECT_EQ(epoch.status(), absl::CancelledError("epoch: given up by the caller"));
  }
  EXPECT_GE(num_asked, 5);
  std::set<std::string> held;
  const auto note = [&held](const absl::Status& refused) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    held.emplace(refused.message().substr(0, refused.message().find_first_of("0123456789")));
  };
  for (uint64_t bound = 0;; bound += 200) {
    MemoryBudget budget(bound);
    {
      const auto epoch = prepare(Making(&budget, nullptr));
      if (epoch.ok()) break;
      note(epoch.status());
    }
    EXPECT_EQ(budget.held(), 0U);
  }
  // Each batch needs memory of its own.
  MemoryBudget budget(1 << 20);
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, prepare(Making(&budget, nullptr)));
    EXPECT_GT(epoch->kept_bytes(), budget.held());
    for (uint64_t room = 0;; room += 100) {
      PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others,
                              budget.Hold("others", (1 << 20) - budget.held() - room));
      const absl::Status built = epoch->Build(0).status();
      EXPECT_EQ(budget.held(), (1 << 20) - room);
      if (built.ok()) break;
      note(built);
    }
  }
  EXPECT_EQ(budget.held(), 0U);
  EXPECT_THAT(held, testing::ElementsAre("--memory-budget: an epoch of joined parts of ",
                                         "--memory-budget: the edges between parts of ",
                                         "--memory-budget: the joined parts of a batch of "));
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, prepare(Making()));
  const auto parts = epoch->PartsOf(0);
  for (size_t step = 0; step <= parts.size(); ++step) {
    reader->left = static_cast<int64_t>(step);
    const absl::Status built = epoch->Build(0).status();
    EXPECT_EQ(built, step == parts.size()
                         ? absl::OkStatus()
                         : absl::UnavailableError(absl::StrCat("graph ", parts[step], " is away")));
  }
  reader->left = INT64_MAX;
  reader->intact = absl::DataLossError("lost meanwhile");
  EXPECT_EQ(prepare(Making()).status(), reader->intact);
  EXPECT_EQ(epoch->Build(0).status(), reader->intact);
  // What a data set must be.
  reader->intact = absl::OkStatus();
  reader->damaged = {{0, 0, 1, absl::DataLossError("a record is damaged")}};
  EXPECT_EQ(prepare(Making()).status(), absl::DataLossError("a record is damaged"));
  reader->damaged.clear();
  reader->told.num_graphs = (uint64_t{1} << 32);
  EXPECT_EQ(
      prepare(Making()).status(),
      absl::FailedPreconditionError("data set 'parts': 4294967296 parts, at most 4294967295"));
  reader->told.num_graphs = kParts;
  reader->told.state = DatasetState::kOpen;
  EXPECT_EQ(prepare(Making()).status(),
            absl::FailedPreconditionError(
                "data set 'parts' is not sealed: epochs are loaded from sealed ones"));
}

TEST(JoinedEpochTest, WhatItsSourcesRefuseIsTold) {
  PartsWorld world(kSeedWithEdges);
  EpochRequest request = world.Request(world.HalfOfAll());
  const EpochBounds bounds;
  const Making making;
  const absl::Status lost = absl::UnavailableError("the data set is away");
  const absl::Status full = absl::ResourceExhaustedError("nothing more is kept");
  for (const bool opens : {false, true}) {
    const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const DatasetReader>> {
      if (!opens) return lost;
      return world.store().OpenReader("parts");
    };
    const auto keep = [&](absl::FunctionRef<KindSources::Kept()> /*make*/) -> KindSources::Kept {
      return full;
    };
    const PlanFirstWindow plan_first;
    const KindSources from = {bounds, making, nullptr, plan_first, open, keep};
    EXPECT_EQ(JoinedParts().Prepare(request, from).status(), opens ? full : lost);
  }
  request.rank_groups[0].shapes[0].pop_back();
  const size_t components = world.HalfOfAll().size();
  EXPECT_EQ(world.Prepare(request).status(),
            absl::InvalidArgumentError(absl::StrCat("limits: ", components - 1, " capacities for ",
                                                    components, " components")));
  // What no kind of epoch has together.
  request = world.Request(world.HalfOfAll());
  request.said.look_ahead = true;
  EXPECT_EQ(world.Prepare(request).status(),
            absl::InvalidArgumentError("look_ahead: only with in_order"));
}

// A node set, and an edge set with its cut edges.
std::vector<TensorSpec> SmallestParts() {
  return {Tensor("n.#number", DType::kInt64, 0), Tensor("e.source", DType::kInt32, 1, 0),
          Tensor("e.target", DType::kInt32, 1, 0), Tensor("e/cut.#source", DType::kUint32, 2),
          Tensor("e/cut.target", DType::kInt32, 2, 0)};
}

TEST(PartsSchemaTest, WhatIsMissingIsNamed) {
  const auto refusal = [](const std::function<void(std::vector<TensorSpec>&)>& change,
                          const std::string& cut = "e/cut") {
    std::vector<TensorSpec> tensors = SmallestParts();
    change(tensors);
    const auto schema =
        GraphSchema::Create(SizeSchema::Create({"n", "e", cut}).value(), std::move(tensors));
    EXPECT_THAT(schema, IsOk());
    const absl::Status status = PartsSchema::Of(*schema).status();
    if (status.ok()) return std::string();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    absl::string_view message = status.message();
    EXPECT_TRUE(
        absl::ConsumePrefix(&message, "join_parts: not a data set of parts without a halo: "));
    return std::string(message);
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  // Ends have two names; of the whole graph there may be more.
  EXPECT_EQ(refusal([](auto& t) {
              t[1].name = "e.#source";
              t[2].name = "e.#target";
              t[4].name = "e/cut.#target";
              t.push_back(Tensor("y", DType::kFloat32, 3));
            }),
            "");
  EXPECT_EQ(refusal([](auto&) {}, "f/cut"), "it has no component 'f'");
  EXPECT_EQ(refusal([](auto&) {}, "cuts"), "no component has cut edges");
  EXPECT_EQ(refusal([](auto& t) { t[3].name = "e/cut.source"; }), "it has no sources of 'e/cut'");
  EXPECT_EQ(refusal([](auto& t) { t[3].component = 1; }), "it has no sources of 'e/cut'");
  EXPECT_EQ(refusal([](auto& t) { t[3].dtype = DType::kInt64; }), "it has no sources of 'e/cut'");
  EXPECT_EQ(refusal([](auto& t) { t[3].row_shape = {2}; }), "it has no sources of 'e/cut'");
  EXPECT_EQ(refusal([](auto& t) { t[0].name = "n.number"; }), "it has no numbers 'n.#number'");
  EXPECT_EQ(refusal([](auto& t) { t[0].component = 3; }), "it has no numbers 'n.#number'");
  EXPECT_EQ(refusal([](auto& t) { t[0].dtype = DType::kInt32; }), "it has no numbers 'n.#number'");
  EXPECT_EQ(refusal([](auto& t) {
              t.push_back(Tensor("n.x", DType::kFloat32, 0, std::nullopt, {2}, Layout::kRowsLast));
            }),
            "it has rows last");
  EXPECT_EQ(refusal([](auto& t) { t.push_back(Tensor("x", DType::kInt32, 1)); }),
            "tensor 'x' is of no set");
  EXPECT_EQ(refusal([](auto& t) { t.push_back(Tensor("e.other", DType::kInt32, 1, 0)); }),
            "tensor 'e.other' is no end of edges");
  EXPECT_EQ(refusal([](auto& t) { t[1].dtype = DType::kInt64; }),
            "tensor 'e.source' is not one int32 a row");
  EXPECT_EQ(refusal([](auto& t) { t[2].dtype = DType::kInt64; }),
            "tensor 'e.target' is not one int32 a row");
  EXPECT_EQ(refusal([](auto& t) { t.push_back(Tensor("e.w", DType::kInt32, 1)); }),
            "cut edges have no 'e.w'");
  EXPECT_EQ(refusal([](auto& t) { t[4].component = 1; }), "cut edges have no 'e.target'");
  EXPECT_EQ(refusal([](auto& t) { t[4].index_into.reset(); }), "cut edges have no 'e.target'");
  EXPECT_EQ(refusal([](auto& t) { t.erase(t.begin() + 1); }), "'e' has no ends");
  EXPECT_EQ(refusal([](auto& t) { t.erase(t.begin() + 2); }), "'e' has no ends");
}

// With a halo every edge that ends at an inner node is there, and every node is inner once.
TEST(PartGraphsTest, HalosHaveAllInEdges) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    PartsWorld world(seed, /*halo=*/true);
    std::vector<uint64_t> edges(world.graph().edge_types().size());
    std::vector<uint64_t> inner(world.graph().node_types().size());
    SampledGraph part;
    for (uint32_t p = 0; p < kParts; ++p) {
      world.parts().Gather(p, part);
      for (size_t e = 0; e < edges.size(); ++e) edges[e] += part.edge_sets[e].sources.size();
      for (size_t t = 0; t < inner.size(); ++t) inner[t] += part.node_sets[t].num_inner;
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      EXPECT_EQ(edges[e], world.graph().edge_types()[e].size);
    }
    for (size_t t = 0; t < inner.size(); ++t) {
      EXPECT_EQ(inner[t], world.graph().node_types()[t].size);
    }
  }
}

TEST(PartGraphsTest, WhatIsNoPartIsNamed) {
  const std::shared_ptr<const SourceGraph> source = OneSetGraph(4, {{0, 1}, {2, 3}});
  const auto create = [&](const std::vector<uint32_t>& part, const Making& making) {
    return PartGraphs::Create(source, part, 2, {}, making).status();
  };
  const std::vector<uint32_t> part = {0, 1, 0, 1};
  EXPECT_THAT(create(part, Making()), IsOk());
  EXPECT_EQ(create({0, 1, 0}, Making()),
            absl::InvalidArgumentError("parts of 3 nodes, there are 4"));
  EXPECT_EQ(create({0, 1, 0, 2}, Making()),
            absl::InvalidArgumentError("node 3 of \"_N\" has part 2, beyond 2 parts"));
  EXPECT_EQ(create(part, Making(nullptr, [] { return true; })),
            absl::CancelledError("partitioning was cancelled"));
  // Twelve bytes a node, and eight for each where edges may end.
  MemoryBudget little(79);
  EXPECT_THAT(
      create(part, Making(&little, nullptr)),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the nodes of parts of 80")));
  MemoryBudget enough(80);
  EXPECT_THAT(create(part, Making(&enough, nullptr)), IsOk());
  // Rows of different lengths, which cut edges do not have.
  MemoryEdgeSet edges;
  edges.sources = edges.targets = {0, 1};
  edges.columns = {{std::string(3, 'x'), {0, 1, 3}}};
  const std::shared_ptr<const SourceGraph> ragged = *MakeMemorySourceGraph(
      *SourceGraphSchema::Create(
          {{"n", {}}}, {{"e", 0, 0, {{"r", DType::kUint8, {}, true, false}}, std::nullopt}}),
      1, {{2, {}, {}, {}}}, {edges});
  for (const bool halo : {false, true}) {
    for (const bool features : {false, true}) {
      PartGraphsOptions options;
      options.halo = halo;
      options.features = features;
      EXPECT_EQ(PartGraphs::Create(ragged, {0, 1}, 2, options, Making()).status(),
                halo || !features
                    ? absl::OkStatus()
                    : absl::InvalidArgumentError(
                          "edge set 'e': column 'r' has rows of different lengths, which only "
                          "parts with a halo, or without features, take"));
    }
  }
  // Whoever gives up while parts are made.
  PartsWorld world(kSeedWithEdges);
  int num_asked = 0;
  for (;; ++num_asked) {
    MemoryDatasetStore store(uint64_t{1} << 30);
    int left = num_asked;
    const auto made =
        MakePartDataset(world.parts(), {"parts", 0, "parts"}, store,
                        Making(nullptr, [&left] { return left-- == 0; }), [](uint64_t) {});
    if (made.ok()) break;
    EXPECT_EQ(made.status(), absl::CancelledError("epoch: given up by the caller"));
  }
  EXPECT_GE(num_asked, static_cast<int>(kParts));
}

// Which nodes and edges a part has, in their order.
TEST(PartGraphsTest, PartsHaveTheseNodesAndEdges) {
  Fingerprint fingerprint;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    PartsWorld world(seed, seed % 2 == 0);
    SampledGraph part;
    for (uint32_t p = 0; p < kParts; ++p) {
      world.parts().Gather(p, part);
      fingerprint.Add(world.parts().GatherBytes(p));
      for (const SampledNodes& nodes : part.node_sets) {
        fingerprint.AddAll(nodes.numbers);
        fingerprint.Add(nodes.num_inner);
      }
      for (const SampledEdges& edges : part.edge_sets) {
        fingerprint.AddAll(edges.sources);
        fingerprint.AddAll(edges.targets);
        fingerprint.AddAll(edges.numbers);
      }
    }
  }
  EXPECT_EQ(fingerprint.value(), 4640363571650894284U);
}

// What a part takes is reserved before it is gathered.
TEST(PartGraphsTest, PartsAreGatheredInReservedMemory) {
  for (const bool halo : {false, true}) {
    PartsWorld world(kSeedWithEdges, halo);
    PartGraphs& parts = world.parts();
    uint64_t need = 0;
    uint64_t columns = 0;
    for (uint32_t p = 0; p < kParts; ++p) {
      SampledGraph part;
      parts.Gather(p, part);
      uint64_t bytes = 0;
      for (const SampledNodes& nodes : part.node_sets) bytes += BytesOf(nodes.numbers);
      for (const SampledEdges& edges : part.edge_sets) {
        bytes += BytesOf(edges.sources) + BytesOf(edges.targets) + BytesOf(edges.numbers);
      }
      EXPECT_LE(bytes, parts.GatherBytes(p));
      std::vector<uint32_t> tuple;
      ASSERT_THAT(parts.sampled_schema().Sizes(part, tuple), IsOk());
      columns += 2 * parts.sampled_schema().Bytes(tuple);
      need = std::max(need, columns + parts.GatherBytes(p));
    }
    const auto make = [&](uint64_t bound) {
      MemoryBudget budget(bound);
      MemoryDatasetStore store(uint64_t{1} << 30);
      return MakePartDataset(parts, {"parts", 0, "parts"}, store, Making(&budget, nullptr),
                             [](uint64_t) {})
          .status();
    };
    EXPECT_THAT(make(need), IsOk());
    EXPECT_THAT(make(need - 1),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("parts of a graph")));
  }
}

// A call that is stopped goes on: the data set is as if it had never been.
TEST(PartGraphsTest, TheDataSetGoesOn) {
  PartsWorld world(kSeedWithEdges);
  const MadeDatasetRequest request = {"parts", 0, "parts"};
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo made, world.store().Get("parts"));
  EXPECT_EQ(made.num_graphs, kParts);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo again,
                          MakePartDataset(world.parts(), request, world.store(), Making(),
                                          [](uint64_t) { FAIL() << "nothing is left to do"; }));
  EXPECT_EQ(again.version, made.version);
  PartsWorld other(kSeedWithEdges + 1);
  EXPECT_THAT(
      MakePartDataset(other.parts(), request, world.store(), Making(), [](uint64_t) {}).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("parts")));
}

}  // namespace
}  // namespace packhouse
