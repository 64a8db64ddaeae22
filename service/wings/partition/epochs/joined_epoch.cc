#include "service/wings/partition/epochs/joined_epoch.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/collation/collate.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/padding_batch.h"
#include "service/stores/datasets/reader_bytes.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/partition/epochs/part_joiner.h"

namespace packhouse {
namespace options {
namespace {

constexpr EpochRule kJoinedRules[] = {
    {&kJoinParts, &kMixture, JoinedEpoch::kNotOfMixtures},
    {&kJoinParts, &kAdaptive, "epoch.adaptive: not together with join_parts"},
    {&kJoinParts, &kSegments, "epoch.segments: not together with join_parts"},
    {&kJoinParts, &kSamples, "epoch.join_parts: not together with samples"},
    {&kJoinParts, &kExport, "epoch.join_parts: joined parts are not exported"},
    {&kJoinParts, &kInOrder, "join_parts: not together with in_order"},
    {&kJoinParts, &kGrouped, "join_parts: not together with grouped"},
    {&kJoinParts, &kSubset, "join_parts: not together with subset"},
    {&kJoinParts, &kDraw, "join_parts: not together with draw"},
    {&kJoinParts, &kMinRows, "join_parts: not together with min_rows"},
    {&kJoinParts, &kCostBalanced, "join_parts: not together with order.cost_balanced"},
    {&kJoinParts, &kByScore, "join_parts: not together with order.by_score"},
    {&kJoinParts, &kMixing,
     "mixing: not together with join_parts, whose parts are drawn anew in each epoch"},
    {&kJoinParts, &kCut,
     "join_parts: not together with OVERSIZE_POLICY_PARTITION: make a finer partition"},
    {&kJoinParts, &kSizes, "join_parts: not together with a payload of sizes"},
    {&kJoinParts, &kNotOneShape,
     "join_parts: only with one rank group, and one shape of given limits"},
};

}  // namespace
}  // namespace options

namespace {

// The rules by which parts are packed. Part of an epoch's identity, so that another release never
// goes on with other batches.
constexpr absl::string_view kJoinRules = "joined-v1";
constexpr absl::string_view kJoinedParts = "an epoch of joined parts";

absl::Status CheckJoined(const EpochRequest& request, const DatasetInfo& info) {
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", info.name, "' is not sealed: epochs are loaded from sealed ones"));
  }
  PH_RETURN_IF_ERROR(CheckTogether(JoinedEpoch::Rules(), request));
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  if (info.num_graphs > ItemSizes::kMaxItems) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", info.name, "': ", info.num_graphs, " parts, at most ", ItemSizes::kMaxItems));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const EpochRule> JoinedEpoch::Rules() { return options::kJoinedRules; }

uint64_t JoinedEpoch::kept_bytes() const { return bytes() + BytesOfReader(dataset()); }

absl::Span<const EpochRule> JoinedParts::rules() const { return JoinedEpoch::Rules(); }

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> JoinedParts::Prepare(
    const EpochRequest& request, const KindSources& from) const {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const DatasetReader> reader, from.open_reader());
  const DatasetReader& of_links = *reader;
  return JoinedEpoch::Prepare(
      std::move(reader), request, from.bounds, from.making,
      [&](const PartsSchema& schema) -> absl::StatusOr<std::shared_ptr<const PartLinks>> {
        PH_ASSIGN_OR_RETURN(
            std::shared_ptr<const KeptOfDataset> links, from.keep([&]() -> KindSources::Kept {
              PH_ASSIGN_OR_RETURN(PartLinks read, PartLinks::Read(of_links, schema, from.making));
              return std::make_shared<const PartLinks>(std::move(read));
            }));
        // Kept by this kind alone.
        return std::static_pointer_cast<const PartLinks>(std::move(links));
      });
}

void JoinedEpoch::AddTuple(uint32_t part, absl::Span<uint64_t> rows) const {
  const size_t stored = reader_->info().schema->num_components();
  for (size_t k = 0; k < parts_.stored_components().size(); ++k) {
    rows[k] += reader_->counts()[part * stored + parts_.stored_components()[k]];
  }
}

uint64_t JoinedEpoch::BatchBytes(absl::Span<const uint64_t> rows) const {
  const BatchLayout& layout = shapes_.rank_group(0)[0].layout;
  return layout.BatchBytes(layout.RowsFor(rows)).value_or(UINT64_MAX);
}

bool JoinedEpoch::Fits(absl::Span<const uint64_t> rows) const {
  const BatchShape& shape = shapes_.rank_group(0)[0];
  if (!shape.Takes(rows)) return false;
  return shape.layout.is_fixed() || BatchBytes(rows) <= bounds_.max_batch_bytes;
}

OversizeItem JoinedEpoch::WhyOversize(uint32_t part, absl::Span<const uint64_t> rows) const {
  const BatchShape& shape = shapes_.rank_group(0)[0];
  const uint64_t id = reader_->graph_ids()[part];
  for (size_t k = 0; k + 1 < rows.size(); ++k) {
    if (rows[k] > shape.LargestGraph(k)) return {id, k, rows[k], shape.LargestGraph(k)};
  }
  return {id, OversizeItem::kBytes, BatchBytes(rows), bounds_.max_batch_bytes};
}

absl::StatusOr<std::vector<uint32_t>> JoinedEpoch::Order(const EpochRequest& request,
                                                         const Making& making) {
  const size_t l = schema().num_components();
  const size_t stored = reader_->info().schema->num_components();
  std::vector<uint32_t> order;
  std::vector<uint64_t> rows(l + 1);
  for (uint32_t part = 0; part < reader_->num_graphs(); ++part) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(part));
    rows.assign(l + 1, 0);
    AddTuple(part, absl::MakeSpan(rows));
    rows.back() = 1;
    if (Fits(rows)) {
      order.push_back(part);
      for (const PartsSchema::EdgeSet& edges : parts_.edge_sets()) {
        edges_.inner += reader_->counts()[part * stored + edges.component];
        edges_.cut += reader_->counts()[part * stored + edges.cut];
      }
      continue;
    }
    const OversizeItem item = WhyOversize(part, rows);
    if (request.oversize_is_error) {
      return absl::OutOfRangeError(
          absl::StrCat("part ", item.id, ": ", item.value, " ",
                       item.component == OversizeItem::kBytes
                           ? "bytes of tensors"
                           : absl::StrCat("rows of '", schema().sizes().name(item.component), "'"),
                       ", at most ", item.bound, " fit a batch"));
    }
    ++oversize_.num_graphs;
    if (oversize_.items.size() < Oversize::kMaxListed) oversize_.items.push_back(item);
  }
  SeededRandom random(SequenceStart({request.seed, request.key.epoch}, DrawPurpose::kParts));
  PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(order), random, making));
  return order;
}

absl::StatusOr<std::shared_ptr<const JoinedEpoch>> JoinedEpoch::Prepare(
    std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, LinksOf links) {
  PH_RETURN_IF_ERROR(CheckJoined(request, reader->info()));
  if (!reader->unreadable().empty()) return reader->unreadable()[0].status;
  PH_ASSIGN_OR_RETURN(PartsSchema parts, PartsSchema::Of(*reader->info().schema));
  auto epoch = std::shared_ptr<JoinedEpoch>(new JoinedEpoch(std::move(reader), std::move(parts),
                                                            bounds, making.memory(),
                                                            request.Find<JoinedParts>()->teller()));
  const BatchShapeOptions options = {
      request.padding,        request.derived,  request.whole_graphs, bounds.max_graphs_per_batch,
      bounds.max_batch_bytes, request.min_rows, request.integer_width};
  PH_RETURN_IF_ERROR(
      epoch->shapes_.AddRankGroup(epoch->schema(), request.rank_groups[0].shapes, options));
  const uint64_t n = epoch->reader_->num_graphs();
  PH_ASSIGN_OR_RETURN(epoch->memory_, making.Hold(kJoinedParts, 12 * (n + 1)));
  PH_ASSIGN_OR_RETURN(const MemoryHold packing, making.Hold(kJoinedParts, 32 * (n + 1)));
  PH_ASSIGN_OR_RETURN(epoch->links_, links(epoch->parts_));
  PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> order, epoch->Order(request, making));
  PH_ASSIGN_OR_RETURN(
      epoch->packs_,
      PackJoined(
          order, n, epoch->parts_, *epoch->links_, making,
          [&](uint32_t part, absl::Span<uint64_t> rows) { epoch->AddTuple(part, rows); },
          [&](absl::Span<const uint64_t> rows) { return epoch->Fits(rows); }));
  epoch->edges_.restored = epoch->packs_.num_restored;
  EpochIdentity& identity = epoch->identity_;
  identity.key = request.key;
  identity.dataset = epoch->reader_->info().name;
  identity.dataset_version = epoch->reader_->info().version;
  identity.seed = request.seed;
  identity.rank_groups = {{epoch->shapes(0)[0].capacities, 0, epoch->packs_.num_batches()}};
  identity.options = absl::StrCat(request.Words(), "; rules ", kJoinRules);
  PH_RETURN_IF_ERROR(CheckBatchCounts(identity));
  // The parts were read from the store's file, which may have been lost meanwhile.
  PH_RETURN_IF_ERROR(epoch->reader_->CheckIntact());
  return epoch;
}

uint64_t JoinedEpoch::bytes() const {
  constexpr uint64_t kBesides = 16384;
  return kBesides + links_->bytes() + memory_.bytes();
}

absl::StatusOr<BuiltBatch> JoinedEpoch::Build(uint64_t number) const {
  const absl::Span<const uint32_t> parts = packs_.batch(number);
  MemoryHold memory;
  if (budget_ != nullptr) {
    uint64_t bytes = 0;
    const size_t stored = reader_->info().schema->num_components();
    for (const uint32_t part : parts) {
      PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader_->Graph(part));
      for (size_t t = 0; t < graph.chunk->num_columns(); ++t) {
        bytes += graph.chunk->rows(graph.index, t).size();
      }
      // Restored edges have a row and a source each, in vectors that may have twice the room.
      for (const PartsSchema::EdgeSet& edges : parts_.edge_sets()) {
        bytes += 4 * sizeof(uint32_t) * reader_->counts()[part * stored + edges.cut];
      }
    }
    PH_ASSIGN_OR_RETURN(memory, budget_->Hold("the joined parts of a batch", bytes));
  }
  PH_ASSIGN_OR_RETURN(const GraphChunk joined, JoinParts(parts_, *links_, *reader_, parts));
  std::vector<GraphRef> refs;
  for (size_t i = 0; i < joined.num_graphs(); ++i) refs.push_back({&joined, i});
  BuiltBatch built;
  PH_ASSIGN_OR_RETURN(built.batch,
                      Collate(shapes(0)[0].layout, refs, bounds_.max_batch_bytes, bounds_.framing));
  PH_RETURN_IF_ERROR(reader_->CheckIntact());
  return built;
}

absl::StatusOr<BuiltBatch> JoinedEpoch::BuildPadding(size_t rank_group) const {
  return PaddingBatch(shapes(rank_group), /*whole_graphs=*/true, bounds_);
}

}  // namespace packhouse
