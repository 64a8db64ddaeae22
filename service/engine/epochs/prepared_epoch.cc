#include "service/engine/epochs/prepared_epoch.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/collate.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/group_items.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/padding_batch.h"

namespace packhouse {
namespace {

// Items lie anywhere in memory; what is known of each is prefetched this many items before it is
// used.
constexpr size_t kItemsAhead = 16;

}  // namespace

std::string EpochOptions(const EpochRequest& request, absl::string_view receipt) {
  return absl::StrCat(request.Words(), DeviceCostWords(request), "; plan ", receipt, "; rules ",
                      kRulesVersion);
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> PreparedEpoch::Prepare(
    std::shared_ptr<const EpochPlan> plan, const EpochRequest& request, const EpochBounds& bounds,
    const Making& making, std::shared_ptr<GatheredRows> gathered) {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const DrawnEpoch> drawn,
                      plan->Drawn({request.seed, request.key.epoch}, making));
  PH_ASSIGN_OR_RETURN(EpochIdentity identity, IdentityOf(request, *plan));
  // Pieces of graphs are no graphs of the data set.
  if (!request.whole_graphs || plan->pieces() != nullptr) gathered = nullptr;
  return std::shared_ptr<const PreparedEpoch>(
      new PreparedEpoch(std::move(plan), std::move(drawn), std::move(identity), bounds,
                        request.whole_graphs, std::move(gathered)));
}

uint64_t PreparedEpoch::bytes() const { return plan_->bytes() + drawn_->batches->bytes(); }

uint64_t PreparedEpoch::NumGraphs(uint64_t number) const {
  const auto items = drawn_->batches->batch(number);
  if (!plan_->groups()) return items.size();
  uint64_t sum = 0;
  for (const uint32_t group : items) sum += plan_->groups()->graphs(group).size();
  return sum;
}

absl::StatusOr<GraphsOfBatch> PreparedEpoch::GraphsOf(uint64_t number) const {
  const auto items = drawn_->batches->batch(number);
  GraphsOfBatch graphs;
  graphs.reader = std::shared_ptr<const DatasetReader>(plan_, &plan_->reader());
  graphs.places = plan_->groups() ? plan_->groups()->GraphsOf(items)
                                  : std::vector<uint32_t>(items.begin(), items.end());
  return graphs;
}

size_t PreparedEpoch::RankGroupOf(uint64_t number) const {
  size_t rank_group = 0;
  for (uint64_t end = 0; rank_group < identity_.rank_groups.size(); ++rank_group) {
    end += identity_.rank_groups[rank_group].num_batches;
    if (number < end) break;
  }
  return rank_group;
}

absl::StatusOr<BuiltBatch> PreparedEpoch::Build(uint64_t number) const {
  const auto items = drawn_->batches->batch(number);
  const size_t rank_group = RankGroupOf(number);
  const size_t shape = ShapeFor(rank_group, items);
  const BatchShape& of_shape = plan_->shapes(rank_group)[shape];
  if (plan_->groups()) {
    PH_ASSIGN_OR_RETURN(Batch batch, CollateGraphs(of_shape, plan_->groups()->GraphsOf(items)));
    return BuiltBatch{std::move(batch), shape, {}};
  }
  PH_ASSIGN_OR_RETURN(Batch batch, CollateGraphs(of_shape, items));
  return BuiltBatch{std::move(batch), shape, {}};
}

size_t PreparedEpoch::ShapeFor(size_t rank_group, absl::Span<const uint32_t> items) const {
  if (plan_->shapes(rank_group).size() == 1) return 0;
  std::vector<uint64_t> rows(plan_->schema().num_components() + 1);
  const ItemSizes sizes = plan_->items();
  for (size_t i = 0; i < items.size(); ++i) {
    if (i + kItemsAhead < items.size()) {
      __builtin_prefetch(sizes.tuple(items[i + kItemsAhead]).data());
    }
    AddRows(sizes.tuple(items[i]), 1, absl::MakeSpan(rows));
  }
  const MinRows& min_rows = plan_->shapes(rank_group)[0].layout.min_rows();
  for (size_t k = 0; k < rows.size(); ++k) {
    rows[k] = min_rows.RealRows(k, rows[k], rows.back());
  }
  return plan_->ShapeFor(rank_group, rows);
}

absl::StatusOr<BuiltBatch> PreparedEpoch::BuildPadding(size_t rank_group) const {
  return PaddingBatch(plan_->shapes(rank_group), whole_graphs_, bounds_);
}

absl::StatusOr<Batch> PreparedEpoch::CollateGraphs(const BatchShape& shape,
                                                   absl::Span<const uint32_t> graphs) const {
  if (plan_->pieces() != nullptr) {
    PH_ASSIGN_OR_RETURN(const EpochPieces::Gathered gathered,
                        plan_->pieces()->Gather(plan_->reader(), graphs));
    std::vector<GraphRef> refs;
    refs.reserve(graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) refs.push_back({&gathered.graphs, i});
    auto batch = Collate(shape.layout, refs, bounds_.max_batch_bytes, bounds_.framing);
    PH_RETURN_IF_ERROR(plan_->reader().CheckIntact());
    return batch;
  }
  absl::StatusOr<Batch> batch = CollateStored(shape, graphs);
  // The rows were copied from the store's file, which may have been lost meanwhile.
  PH_RETURN_IF_ERROR(plan_->reader().CheckIntact());
  return batch;
}

absl::StatusOr<Batch> PreparedEpoch::CollateStored(const BatchShape& shape,
                                                   absl::Span<const uint32_t> graphs) const {
  if (gathered_ != nullptr) {
    if (const auto copy = gathered_->Ready()) {
      std::vector<absl::string_view> refs;
      refs.reserve(graphs.size());
      for (size_t i = 0; i < graphs.size(); ++i) {
        if (i + kItemsAhead < graphs.size()) copy->PrefetchPlace(graphs[i + kItemsAhead]);
        refs.push_back(copy->graph(graphs[i]));
      }
      return CollateGathered(shape.layout, refs, bounds_.max_batch_bytes, bounds_.framing);
    }
    // The batch itself does not need it.
    RunWithinMemory([&] { gathered_->Make(); });
  }
  std::vector<GraphRef> refs;
  refs.reserve(graphs.size());
  for (const uint32_t graph : graphs) {
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, plan_->reader().Graph(graph));
    refs.push_back({stored.chunk, stored.index});
  }
  return whole_graphs_ ? Collate(shape.layout, refs, bounds_.max_batch_bytes, bounds_.framing)
                       : CollateSizes(shape.layout, refs);
}

}  // namespace packhouse
