#include "service/engine/epochs/epoch_plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/mixing.h"
#include "service/engine/epochs/pattern_planning.h"
#include "service/engine/epochs/request_check.h"

namespace packhouse {
namespace {

std::string KeyOf(const EpochSeed& seed) { return absl::StrCat(seed.seed, " ", seed.epoch); }
std::string KeyOfCompany(const EpochSeed& seed) { return absl::StrCat("company ", KeyOf(seed)); }

absl::StatusOr<EpochShapes> GivenShapes(const PlannerResult& given, const EpochRequest& request,
                                        const GraphSchema& schema,
                                        const BatchShapeOptions& options) {
  if (given.shapes.size() != request.rank_groups.size()) {
    return absl::DataLossError(absl::StrCat("plan ", given.receipt, ": is for ",
                                            given.shapes.size(), " rank groups, there are ",
                                            request.rank_groups.size()));
  }
  EpochShapes shapes;
  for (size_t i = 0; i < given.shapes.size(); ++i) {
    if (given.shapes[i].empty()) {
      return absl::DataLossError(
          absl::StrCat("plan ", given.receipt, ": rank group ", i, " has no shapes"));
    }
    PH_RETURN_IF_ERROR(shapes.AddRankGroup(schema, given.shapes[i], options));
  }
  return shapes;
}

absl::StatusOr<EpochItems> EpochItemsOf(const EpochRequest& request, const DatasetReader& reader,
                                        const ItemSizes& sizes, const GraphSelection& selection,
                                        const EpochShapes& shapes, const Making& making) {
  const std::vector<const BatchShape*> leading = shapes.Leading();
  std::vector<Limits> largest;
  for (const BatchShape* const shape : leading) largest.push_back(shape->packed);
  if (request.grouped) {
    return GroupsThatFit(reader, selection, largest[0], request.oversize_is_error, making);
  }
  return GraphsThatFit(reader, sizes, selection, largest, *leading.back(),
                       request.oversize_is_error, making);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const EpochPlan>> EpochPlan::Make(
    std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, std::shared_ptr<const PlannerResult> given,
    std::vector<uint64_t> ends) {
  PH_RETURN_IF_ERROR(CheckRequest(request, reader->info()));
  PH_ASSIGN_OR_RETURN(const GraphSelection selection,
                      GraphSelection::Create(*reader, request.subset, making));

  std::shared_ptr<const PieceSchema> piece_schema;
  if (request.cuts_oversize) {
    PH_ASSIGN_OR_RETURN(PieceSchema pieces, PieceSchema::Create(*reader->info().schema));
    piece_schema = std::make_shared<const PieceSchema>(std::move(pieces));
  }
  const GraphSchema& schema =
      piece_schema != nullptr ? piece_schema->with_pieces() : *reader->info().schema;
  const BatchShapeOptions options = {
      request.padding,        request.derived,  request.whole_graphs, bounds.max_graphs_per_batch,
      bounds.max_batch_bytes, request.min_rows, request.integer_width};
  const auto sizes = [&]() -> absl::StatusOr<HeldSizes> {
    PH_ASSIGN_OR_RETURN(const SizeClasses classes,
                        SizeClasses::Create(SizesOfGraphs(*reader), selection.positions(), making));
    const size_t n = classes.num_classes();
    PH_ASSIGN_OR_RETURN(MemoryHold memory,
                        making.Hold(absl::StrCat("a histogram of ", n, " sizes"),
                                    SizeHistogram::BytesFor(n, classes.num_components())));
    PH_ASSIGN_OR_RETURN(SizeHistogram histogram, classes.Histogram(making));
    return HeldSizes{std::move(memory), std::move(histogram)};
  };
  PH_ASSIGN_OR_RETURN(EpochShapes shapes, given != nullptr
                                              ? GivenShapes(*given, request, schema, options)
                                              : ChooseShapes(request.rank_groups, request.adaptive,
                                                             schema, options, sizes, making));
  auto plan = std::shared_ptr<EpochPlan>(
      new EpochPlan(std::move(reader), std::move(piece_schema), std::move(shapes)));
  plan->mixing_ = MixingFor(request, plan->shapes_, bounds.max_batch_bytes);
  if (request.cost_balanced) plan->cost_order_.emplace(request);
  plan->is_of_one_epoch_ = request.draw.has_value();
  if (request.whole_graphs) plan->max_batch_bytes_ = bounds.max_batch_bytes;
  PH_RETURN_IF_ERROR(plan->PackSizes(request.min_rows, making));
  EpochItems items;
  if (request.cuts_oversize) {
    PH_ASSIGN_OR_RETURN(plan->pieces_,
                        EpochPieces::Cut(plan->piece_schema_.get(), plan->reader(), selection,
                                         plan->shapes_.rank_group(0)[0], making, items));
  } else {
    PH_ASSIGN_OR_RETURN(items, EpochItemsOf(request, plan->reader(), plan->items(), selection,
                                            plan->shapes_, making));
  }
  plan->ends_ = std::move(ends);
  plan->groups_ = std::move(items.groups);
  plan->oversize_ = std::move(items.oversize);
  PH_RETURN_IF_ERROR(plan->CountOversizeByDataset(selection, items.numbers, making));
  if (request.draw) {
    const EpochSeed seed = {request.seed, request.key.epoch};
    PH_RETURN_IF_ERROR(DrawItems(*request.draw, seed, selection, making, items));
  }
  if (request.by_score) {
    PH_RETURN_IF_ERROR(plan->ScoreItems(*request.by_score, items.numbers, making));
  }
  if (request.in_order) {
    PH_RETURN_IF_ERROR(plan->PackItems(items.numbers, request.look_ahead, making));
  } else {
    plan->planned_ = std::move(given);
    PH_RETURN_IF_ERROR(plan->PlanItems(std::move(items), request, bounds.planner_steps, making));
  }
  plan->planned_bytes_ = plan->planned_->Bytes();
  PH_RETURN_IF_ERROR(plan->Summarize(making));
  return plan;
}

absl::Status EpochPlan::PackSizes(const MinRows& min_rows, const Making& making) {
  if (min_rows.empty()) return absl::OkStatus();
  const absl::Span<const uint32_t> counts = reader_->counts();
  PH_ASSIGN_OR_RETURN(packed_memory_, making.Hold(absl::StrCat("sizes of ", reader_->num_graphs(),
                                                               " graphs above min_rows"),
                                                  sizeof(uint32_t) * counts.size()));
  const size_t l = schema().num_components();
  packed_sizes_.assign(counts.begin(), counts.end());
  for (size_t i = 0; i < packed_sizes_.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    packed_sizes_[i] = min_rows.PackedSize(i % l, packed_sizes_[i]);
  }
  return absl::OkStatus();
}

ItemSizes EpochPlan::items() const {
  if (groups_) return groups_->sizes();
  if (pieces_ != nullptr) return pieces_->sizes();
  if (packed_sizes_.empty()) return SizesOfGraphs(*reader_);
  return ItemSizes::Create(reader_->num_graphs(), schema().num_components(), packed_sizes_).value();
}

PlannerResult EpochPlan::Resolved() const {
  PlannerResult result;
  result.dataset_version = dataset().version;
  result.shapes = shapes_.Capacities();
  return result;
}

absl::Status EpochPlan::PackItems(absl::Span<const uint32_t> graphs, size_t look_ahead,
                                  const Making& making) {
  PH_ASSIGN_OR_RETURN(EpochBatches batches,
                      PackInOrder(items(), graphs, shapes(0)[0].packed, look_ahead, making));
  in_order_ = std::make_shared<const EpochBatches>(std::move(batches));
  PlannerResult result = Resolved();
  result.receipt = absl::StrCat("online-", kInOrderVersion);
  planned_ = std::make_shared<const PlannerResult>(std::move(result));
  return absl::OkStatus();
}

absl::Status EpochPlan::ScoreItems(const ByScoreRequest& request, absl::Span<const uint32_t> items,
                                   const Making& making) {
  uint32_t graph = 0;
  const auto graphs_of = [&](uint32_t item) {
    if (groups_) return groups_->graphs(item);
    graph = pieces_ != nullptr ? pieces_->GraphOf(item) : item;
    return absl::MakeConstSpan(&graph, 1);
  };
  PH_ASSIGN_OR_RETURN(
      score_order_,
      ScoreOrder::Create(request, *reader_, items, this->items().num_items(), graphs_of, making));
  return absl::OkStatus();
}

absl::Status EpochPlan::PlanItems(EpochItems taken, const EpochRequest& request,
                                  std::optional<uint64_t> steps, const Making& making) {
  PH_ASSIGN_OR_RETURN(classes_, SizeClasses::Create(items(), taken.numbers, making));
  // Freed here, since planners need the room.
  taken = EpochItems();
  const ShapeLimits limits = LimitsOfItems();
  if (planned_ != nullptr) return CheckGiven(*planned_, *classes_, limits, making);
  PlannerResult result = Resolved();
  PH_ASSIGN_OR_RETURN(memory_,
                      PlanPatterns(*classes_, limits, request.NumRanks(), steps, making, result));
  planned_ = std::make_shared<const PlannerResult>(std::move(result));
  return absl::OkStatus();
}

ShapeLimits EpochPlan::LimitsOfItems() const {
  return groups_ ? ShapeLimits{{groups_->limits()}} : shapes_.Packed();
}

absl::Status EpochPlan::Summarize(const Making& making) {
  PH_ASSIGN_OR_RETURN(
      figures_, in_order_ != nullptr
                    ? FiguresOfBatches(shapes_, items(), *in_order_, max_batch_bytes_, making)
                    : FiguresOfPatterns(shapes_, classes_->tuples(), classes_->num_components(),
                                        planned_->patterns, max_batch_bytes_, making));
  return absl::OkStatus();
}

ItemSizes EpochPlan::Graphs() const {
  return pieces_ != nullptr ? pieces_->sizes() : SizesOfGraphs(*reader_);
}

void EpochPlan::AddItem(const ItemSizes& graphs, uint32_t item, absl::Span<uint64_t> rows,
                        absl::Span<uint64_t> squares) const {
  if (!groups_) return AddGraph(graphs.tuple(item), rows, squares);
  for (const uint32_t graph : groups_->graphs(item)) AddGraph(graphs.tuple(graph), rows, squares);
}

size_t EpochPlan::DatasetOf(uint32_t item) const {
  const uint32_t graph = pieces_ != nullptr ? pieces_->GraphOf(item) : item;
  return static_cast<size_t>(absl::c_upper_bound(ends_, graph) - ends_.begin());
}

absl::Status EpochPlan::CountOversizeByDataset(const GraphSelection& selection,
                                               absl::Span<const uint32_t> taken,
                                               const Making& making) {
  oversize_.by_dataset.assign(ends_.size(), 0);
  if (ends_.empty() || oversize_.num_graphs == 0) return absl::OkStatus();
  size_t next = 0;
  for (size_t i = 0; i < selection.num_graphs(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const auto graph =
        static_cast<uint32_t>(selection.positions() ? (*selection.positions())[i] : i);
    const size_t first = next;
    // Pieces of a graph stand together.
    while (next < taken.size() &&
           (pieces_ != nullptr ? pieces_->GraphOf(taken[next]) : taken[next]) == graph) {
      ++next;
    }
    if (next == first) ++oversize_.by_dataset[DatasetOf(graph)];
  }
  return absl::OkStatus();
}

std::vector<std::vector<uint64_t>> EpochPlan::RowsByDataset(const EpochBatches& batches) const {
  const ItemSizes graphs = Graphs();
  std::vector<std::vector<uint64_t>> rows(ends_.size(),
                                          std::vector<uint64_t>(graphs.num_components() + 1));
  if (ends_.empty()) return rows;
  for (size_t b = 0; b < batches.num_batches(); ++b) {
    for (const uint32_t item : batches.batch(b)) {
      AddItem(graphs, item, absl::MakeSpan(rows[DatasetOf(item)]), {});
    }
  }
  return rows;
}

uint64_t EpochPlan::bytes() const {
  // Names, shapes, lists: small.
  constexpr uint64_t kBesides = 16384;
  return kBesides + planned_bytes_ + sizeof(uint32_t) * packed_sizes_.capacity() +
         (groups_ ? groups_->bytes() : 0) + (pieces_ != nullptr ? pieces_->bytes() : 0) +
         (classes_ ? classes_->bytes() : 0) + (score_order_ ? score_order_->bytes() : 0) +
         (in_order_ ? in_order_->bytes() : 0);
}

uint64_t EpochPlan::num_batches(size_t rank_group) const {
  uint64_t sum = 0;
  for (const ShapeSummary& shape : figures_.shapes[rank_group]) sum += shape.num_batches;
  return sum;
}

template <typename Value>
absl::StatusOr<std::shared_ptr<const Value>> EpochPlan::MadeOnce(
    SharedCache<Value>& cache, const std::string& key, const Making& making,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const Value>>()> make) const {
  const std::function<void()>& hurry = making.hurry();
  const auto gone = [&] {
    {
      absl::MutexLock lock(&mutex_);
      // Under the lock, since its maker may end.
      if (const auto maker = hurries_.extract(key)) (*maker.mapped())();
    }
    return making.CancelledWhileWaiting();
  };
  return cache.Get(key, gone, [&] {
    if (!hurry) return make();
    {
      absl::MutexLock lock(&mutex_);
      hurries_.insert_or_assign(key, &hurry);
    }
    const absl::Cleanup ended = [&] {
      absl::MutexLock lock(&mutex_);
      hurries_.erase(key);
    };
    return make();
  });
}

absl::StatusOr<EpochBatches> EpochPlan::DrawBatches(const EpochSeed& seed,
                                                    const Making& making) const {
  std::optional<absl::Span<const uint64_t>> group_ids;
  if (groups_) group_ids = groups_->group_ids();
  PH_ASSIGN_OR_RETURN(EpochBatches drawn,
                      mixing_ ? DrawFreshEpoch(*classes_, planned_->patterns, items(),
                                               LimitsOfItems(), seed, group_ids, making, *mixing_)
                              : DrawEpoch(*classes_, planned_->patterns, seed, group_ids, making));
  if (cost_order_) {
    const ItemSizes graphs = Graphs();
    PH_RETURN_IF_ERROR(cost_order_->Order(
        shapes_,
        [&](uint32_t item, absl::Span<uint64_t> rows, absl::Span<uint64_t> squares) {
          AddItem(graphs, item, rows, squares);
        },
        seed, making, drawn));
  }
  if (score_order_) PH_RETURN_IF_ERROR(score_order_->Order(*classes_, seed, making, drawn));
  return drawn;
}

absl::StatusOr<DrawnEpoch> EpochPlan::Draw(const EpochSeed& seed, const Making& making) const {
  DrawnEpoch drawn;
  drawn.batches = in_order_;
  if (in_order_ == nullptr) {
    PH_ASSIGN_OR_RETURN(EpochBatches batches, DrawBatches(seed, making));
    drawn.batches = std::make_shared<const EpochBatches>(std::move(batches));
  }
  drawn.figures = figures_;
  if (mixing_) {
    PH_ASSIGN_OR_RETURN(drawn.figures, FiguresOfBatches(shapes_, items(), *drawn.batches,
                                                        max_batch_bytes_, making));
  }
  if (cost_order_) {
    const ItemSizes graphs = Graphs();
    PH_ASSIGN_OR_RETURN(drawn.steps, cost_order_->Figures(
                                         shapes_,
                                         [&](uint32_t item, absl::Span<uint64_t> rows,
                                             absl::Span<uint64_t> squares) {
                                           AddItem(graphs, item, rows, squares);
                                         },
                                         seed, making, *drawn.batches));
  }
  drawn.rows_by_dataset = RowsByDataset(*drawn.batches);
  return drawn;
}

absl::StatusOr<std::shared_ptr<const DrawnEpoch>> EpochPlan::Drawn(const EpochSeed& seed,
                                                                   const Making& making) const {
  return MadeOnce<DrawnEpoch>(drawn_, KeyOf(seed), making,
                              [&]() -> absl::StatusOr<std::shared_ptr<const DrawnEpoch>> {
                                PH_ASSIGN_OR_RETURN(DrawnEpoch drawn, Draw(seed, making));
                                return std::make_shared<const DrawnEpoch>(std::move(drawn));
                              });
}

absl::StatusOr<std::shared_ptr<const EpochBatches>> EpochPlan::BatchesOf(
    const EpochSeed& seed, const Making& making) const {
  PH_ASSIGN_OR_RETURN(auto drawn, Drawn(seed, making));
  const EpochBatches* const batches = drawn->batches.get();
  return std::shared_ptr<const EpochBatches>(std::move(drawn), batches);
}

absl::StatusOr<std::optional<Company>> EpochPlan::CompanyAt(const EpochSeed& seed,
                                                            const EpochBatches& batches,
                                                            const Making& making) const {
  if (is_of_one_epoch_) return std::nullopt;
  const EpochSeed neighbour = {seed.seed, seed.epoch == 0 ? 1 : seed.epoch - 1};
  const auto measured = MadeOnce<Company>(
      companies_, KeyOfCompany(seed), making,
      [&]() -> absl::StatusOr<std::shared_ptr<const Company>> {
        PH_ASSIGN_OR_RETURN(const auto other, BatchesOf(neighbour, making));
        PH_ASSIGN_OR_RETURN(const Company company, MeasureCompany(batches, *other, making));
        return std::make_shared<const Company>(company);
      });
  if (absl::IsResourceExhausted(measured.status())) return std::nullopt;
  PH_RETURN_IF_ERROR(measured.status());
  return **measured;
}

std::optional<Company> EpochPlan::KnownCompanyAt(const EpochSeed& seed) const {
  const auto known = companies_.Find(KeyOfCompany(seed));
  return known == nullptr ? std::nullopt : std::optional<Company>(*known);
}

}  // namespace packhouse
