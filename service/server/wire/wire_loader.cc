#include "service/server/wire/wire_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/base/mixture_name.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/round_plan.h"
#include "service/engine/epochs/score_order.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/cursor.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"

namespace packhouse {
namespace {

constexpr size_t kDefaultInFlight = 16;
constexpr uint32_t kMaxReaders = 1024;

absl::Status CheckLength(absl::string_view field, absl::string_view text) {
  if (text.size() <= kMaxJobNameLength) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", text.size(), " bytes, at most ", kMaxJobNameLength));
}

absl::StatusOr<RankGroupRequest> RankGroupFromWire(const v1::RankGroup& wire,
                                                   const GraphSchema& schema) {
  RankGroupRequest rank_group;
  rank_group.num_ranks = wire.num_ranks();
  if (wire.has_device_profile()) {
    PH_ASSIGN_OR_RETURN(rank_group.device,
                        DeviceProfileFromWire(wire.device_profile(), schema.sizes()));
  }
  for (const v1::Limits& shape : wire.shapes()) {
    PH_ASSIGN_OR_RETURN(std::vector<uint64_t> capacities,
                        CapacitiesFromWire(shape, schema.sizes()));
    rank_group.shapes.push_back(std::move(capacities));
  }
  return rank_group;
}

absl::StatusOr<SubsetRequest> SubsetFromWire(const v1::Subset& wire) {
  if (wire.graph_ids().size() % sizeof(uint64_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("subset.graph_ids: ", wire.graph_ids().size(),
                                                   " bytes, must be a multiple of 8"));
  }
  SubsetRequest subset;
  subset.ids = Uint64sFromWire(wire.graph_ids());
  for (const v1::GraphIdRange& range : wire.ranges()) {
    subset.ranges.emplace_back(range.first(), range.count());
  }
  return subset;
}

absl::StatusOr<WeightedDraw> DrawFromWire(const v1::Draw& wire) {
  if (wire.weights().size() % sizeof(double) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("draw.weights: ", wire.weights().size(), " bytes, must be a multiple of 8"));
  }
  WeightedDraw draw;
  const std::vector<uint64_t> bits = Uint64sFromWire(wire.weights());
  draw.weights.resize(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&draw.weights[i], &bits[i], sizeof(double));
  }
  draw.num_graphs = wire.num_graphs();
  draw.with_replacement = wire.with_replacement();
  return draw;
}

absl::StatusOr<MixingRequest> MixingFromWire(const v1::Mixing& wire) {
  MixingRequest mixing;
  mixing.is_off = wire.off();
  const double most = wire.most_company();
  if (wire.off() && most != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mixing.most_company: ", most, ", must be unset with mixing.off"));
  }
  if (wire.off()) return mixing;
  if (most != 0 && !(most >= 1 && std::isfinite(most))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mixing.most_company: ", most,
        ", must be a finite number of at least 1, the company of a shuffle; or say mixing.off"));
  }
  mixing.most_company = most == 0 ? MixingRequest::kMostCompany : most;
  return mixing;
}

absl::StatusOr<CostTerm> CostTermFromWire(const v1::CostTerm& wire, int number,
                                          const SizeSchema& schema) {
  const std::string field = absl::StrCat("order.cost_balanced.terms: number ", number);
  CostTerm term;
  term.weight = wire.weight() == 0 ? 1 : wire.weight();
  switch (wire.form()) {
    case v1::COST_FORM_UNSPECIFIED:
    case v1::COST_FORM_ROWS:
      term.form = CostForm::kRows;
      break;
    case v1::COST_FORM_SQUARED_ROWS:
      term.form = CostForm::kSquaredRows;
      break;
    case v1::COST_FORM_SUM_OF_SQUARES:
      term.form = CostForm::kSumOfSquares;
      break;
    case v1::COST_FORM_BATCH:
      if (!wire.component().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ": of COST_FORM_BATCH with component ", Quoted(wire.component()),
                         ", must have none"));
      }
      term.form = CostForm::kBatch;
      return term;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": unknown form ", static_cast<int>(wire.form())));
  }
  const std::optional<size_t> component = schema.IndexOf(wire.component());
  if (!component) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": unknown component ", Quoted(wire.component())));
  }
  term.component = *component;
  return term;
}

absl::StatusOr<CostBalancedRequest> CostBalancedFromWire(const v1::CostBalanced& wire,
                                                         const SizeSchema& schema) {
  CostBalancedRequest request;
  if (wire.terms().empty()) return request;
  std::vector<CostTerm> terms;
  for (int i = 0; i < wire.terms_size(); ++i) {
    PH_ASSIGN_OR_RETURN(const CostTerm term, CostTermFromWire(wire.terms(i), i, schema));
    terms.push_back(term);
  }
  auto cost = BatchCost::Create(std::move(terms), schema.num_components());
  if (!cost.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("order.cost_balanced: ", cost.status().message()));
  }
  request.cost = *std::move(cost);
  return request;
}

absl::StatusOr<ByScoreRequest> ByScoreFromWire(const v1::ByScore& wire, const GraphSchema& schema) {
  ByScoreRequest request;
  request.descending = wire.descending();
  request.num_buckets = wire.num_buckets();
  if (wire.has_tensor()) {
    request.tensor = schema.TensorIndex(wire.tensor());
    if (request.tensor && IsScore(schema, *request.tensor)) return request;
    return absl::InvalidArgumentError(
        absl::StrCat("order.by_score.tensor: ", Quoted(wire.tensor()),
                     ", must be a tensor that has one number for each graph"));
  }
  const std::optional<size_t> component = schema.sizes().IndexOf(wire.component());
  if (!component || *component == schema.num_components()) {
    return absl::InvalidArgumentError(
        absl::StrCat("order.by_score.component: unknown component ", Quoted(wire.component())));
  }
  request.component = *component;
  return request;
}

absl::StatusOr<Sharing> RankedFromWire(const v1::Ranked& wire, const EpochRequest& epoch) {
  if (wire.num_ranks() == 0 || wire.num_ranks() > Sharing::kMaxRanks ||
      wire.rank() >= wire.num_ranks()) {
    return absl::InvalidArgumentError(absl::StrCat("ranked: rank ", wire.rank(), " of ",
                                                   wire.num_ranks(), ", must be below it, and it ",
                                                   "at most ", Sharing::kMaxRanks));
  }
  const LastSteps last_steps = wire.drop_last() ? LastSteps::kDropped : LastSteps::kPadded;
  if (epoch.rank_groups.size() <= 1) return Sharing::Ranked(wire.num_ranks(), last_steps);
  Sharing sharing;
  sharing.last_steps = last_steps;
  uint64_t sum = 0;
  for (const RankGroupRequest& rank_group : epoch.rank_groups) sum += rank_group.num_ranks;
  if (sum != wire.num_ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranked: ", wire.num_ranks(), " ranks, the rank groups have ", sum));
  }
  for (size_t i = 0; i < epoch.rank_groups.size(); ++i) {
    sharing.rank_group_of_rank.insert(sharing.rank_group_of_rank.end(),
                                      epoch.rank_groups[i].num_ranks, static_cast<uint32_t>(i));
  }
  return sharing;
}

}  // namespace

absl::Status CheckJobName(absl::string_view job) {
  bool valid = !job.empty() && job.size() <= kMaxJobNameLength;
  for (const char c : job) {
    valid &= absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
             absl::string_view("_./-").find(c) != absl::string_view::npos;
  }
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "job: ", Quoted(job), " must be 1 to ", kMaxJobNameLength, " characters of [A-Za-z0-9_./-]"));
}

absl::StatusOr<EpochRequest> EpochRequestFromWire(const v1::EpochSpec& wire,
                                                  const GraphSchema& schema) {
  if (!wire.job().empty()) PH_RETURN_IF_ERROR(CheckJobName(wire.job()));
  EpochRequest request;
  request.dataset = wire.dataset();
  request.key = {wire.job(), wire.epoch()};
  request.seed = wire.seed();
  if (wire.rank_groups_size() > static_cast<int>(RoundPlan::kMaxRankGroups)) {
    return absl::InvalidArgumentError(absl::StrCat("rank_groups: ", wire.rank_groups_size(),
                                                   ", must be 1 to ", RoundPlan::kMaxRankGroups));
  }
  for (const v1::RankGroup& rank_group : wire.rank_groups()) {
    PH_ASSIGN_OR_RETURN(RankGroupRequest from_wire, RankGroupFromWire(rank_group, schema));
    request.rank_groups.push_back(std::move(from_wire));
  }
  PH_ASSIGN_OR_RETURN(request.padding, PaddingFromWire(wire.padding()));
  PH_ASSIGN_OR_RETURN(request.derived, DerivedFromWire(wire.derived()));
  PH_ASSIGN_OR_RETURN(request.whole_graphs, CarriesGraphs(wire.payload(), schema));
  PH_ASSIGN_OR_RETURN(request.integer_width,
                      IntegerWidthFromWire(wire.integer_width(), /*whole_graphs=*/true));
  PH_ASSIGN_OR_RETURN(const OversizeRule oversize, OversizeRuleFromWire(wire.oversize_policy()));
  request.oversize_is_error = oversize == OversizeRule::kError;
  request.cuts_oversize = oversize == OversizeRule::kCut;
  request.said.oversize = wire.oversize_policy() != v1::OVERSIZE_POLICY_UNSPECIFIED;
  request.in_order = wire.in_order();
  if (wire.look_ahead() != 0) {
    if (wire.look_ahead() > OnlinePackerOptions::kMaxLookAhead) {
      return absl::InvalidArgumentError(absl::StrCat(
          "look_ahead: ", wire.look_ahead(), ", at most ", OnlinePackerOptions::kMaxLookAhead));
    }
    request.said.look_ahead = true;
    request.look_ahead = wire.look_ahead();
  }
  request.grouped = wire.grouped();
  request.adaptive = wire.adaptive();
  if (wire.has_segments()) {
    SegmentsRequest segments;
    if (wire.segments().graphs() != 0) segments.graphs = wire.segments().graphs();
    if (wire.segments().tracks() != 0) segments.tracks = wire.segments().tracks();
    request.segments = segments;
  }
  if (wire.has_mixing()) {
    PH_ASSIGN_OR_RETURN(request.mixing, MixingFromWire(wire.mixing()));
  }
  request.said.shuffled = wire.order().has_shuffled();
  if (wire.order().has_cost_balanced()) {
    const v1::CostBalanced& balanced = wire.order().cost_balanced();
    PH_ASSIGN_OR_RETURN(request.cost_balanced, CostBalancedFromWire(balanced, schema.sizes()));
    if (request.rank_groups.size() == 1) {
      request.rank_groups[0].num_ranks = balanced.num_ranks();
    } else if (balanced.num_ranks() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("order.cost_balanced.num_ranks: ", balanced.num_ranks(),
                       ", must be unset with several rank groups, which have their own"));
    }
  }
  if (wire.order().has_by_score()) {
    PH_ASSIGN_OR_RETURN(request.by_score, ByScoreFromWire(wire.order().by_score(), schema));
  }
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> min_rows,
                      CountsFromWire(wire.min_rows(), schema.sizes(), "min_rows"));
  request.min_rows = MinRows(std::move(min_rows));
  if (wire.has_subset()) {
    PH_ASSIGN_OR_RETURN(request.subset, SubsetFromWire(wire.subset()));
  }
  if (wire.has_draw()) {
    PH_ASSIGN_OR_RETURN(request.draw, DrawFromWire(wire.draw()));
  }
  return request;
}

void TakeRanks(const v1::LoadRequest& wire, EpochRequest& epoch) {
  if (!epoch.cost_balanced || epoch.rank_groups.size() != 1) return;
  const v1::Ranked& ranked = wire.has_evaluation() ? wire.evaluation().ranked() : wire.ranked();
  uint32_t& num_ranks = epoch.rank_groups[0].num_ranks;
  if (num_ranks == 0) num_ranks = ranked.num_ranks();
}

absl::StatusOr<JoinRequest> JoinRequestFromWire(const v1::LoadRequest& wire,
                                                const EpochRequest& epoch,
                                                absl::string_view cursor) {
  PH_RETURN_IF_ERROR(CheckJobName(epoch.key.job));
  JoinRequest join;
  switch (wire.sharing_case()) {
    case v1::LoadRequest::kRanked: {
      PH_ASSIGN_OR_RETURN(join.sharing, RankedFromWire(wire.ranked(), epoch));
      join.queue = wire.ranked().rank();
      if (wire.ranked().num_readers() > kMaxReaders ||
          wire.ranked().reader() >= std::max(wire.ranked().num_readers(), 1u)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "ranked: reader ", wire.ranked().reader(), " of ", wire.ranked().num_readers(),
            ", must be below it, and it at most ", kMaxReaders));
      }
      join.reader = {wire.ranked().reader(), std::max(wire.ranked().num_readers(), 1u)};
      break;
    }
    case v1::LoadRequest::kDynamic:
      join.sharing = Sharing::Dynamic();
      join.queue = wire.dynamic().rank_group();
      join.worker = wire.dynamic().worker();
      join.ends_when_all_leased = wire.dynamic().end_when_all_leased();
      PH_RETURN_IF_ERROR(CheckLength("dynamic.worker", join.worker));
      break;
    case v1::LoadRequest::kEvaluation:
    case v1::LoadRequest::SHARING_NOT_SET:
      return absl::InvalidArgumentError("the request carries neither 'ranked' nor 'dynamic'");
  }
  PH_RETURN_IF_ERROR(CheckLength("attempt", wire.attempt()));
  join.attempt = wire.attempt();
  if (wire.has_generation()) join.generation = wire.generation();
  if (!cursor.empty()) {
    PH_ASSIGN_OR_RETURN(join.cursor, DecodeCursor(cursor));
  }
  return join;
}

absl::StatusOr<EvaluationRequest> EvaluationFromWire(const v1::LoadRequest& wire,
                                                     const EpochRequest& epoch) {
  const auto must_be_unset = [](absl::string_view field) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": must be unset for an evaluation, of which nothing is kept"));
  };
  if (!epoch.key.job.empty()) return must_be_unset("epoch.job");
  if (wire.max_in_flight() != 0) return must_be_unset("max_in_flight");
  if (!wire.attempt().empty()) return must_be_unset("attempt");
  if (wire.has_generation()) return must_be_unset("generation");
  if (!wire.cursor().empty()) return must_be_unset("cursor");
  EvaluationRequest request;
  v1::Ranked ranked = wire.evaluation().ranked();
  if (ranked.num_readers() != 0 || ranked.reader() != 0) {
    return must_be_unset("evaluation.ranked.num_readers");
  }
  if (!wire.evaluation().has_ranked()) ranked.set_num_ranks(1);
  PH_ASSIGN_OR_RETURN(request.sharing, RankedFromWire(ranked, epoch));
  request.rank = ranked.rank();
  request.first_step = wire.evaluation().first_step();
  return request;
}

absl::StatusOr<Sharing> AllRanksOf(const EpochRequest& epoch) {
  uint64_t num_ranks = 0;
  for (const RankGroupRequest& rank_group : epoch.rank_groups) num_ranks += rank_group.num_ranks;
  v1::Ranked ranked;
  ranked.set_num_ranks(epoch.rank_groups.size() == 1
                           ? 1
                           : static_cast<uint32_t>(std::min<uint64_t>(num_ranks, UINT32_MAX)));
  return RankedFromWire(ranked, epoch);
}

absl::StatusOr<size_t> MaxInFlightFromWire(uint32_t wire) {
  if (wire > kMaxInFlight) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_in_flight: ", wire, ", at most ", kMaxInFlight));
  }
  return wire == 0 ? kDefaultInFlight : wire;
}

void RejectionsToWire(uint64_t num_graphs, const std::vector<OversizeItem>& items,
                      const SizeSchema& schema, v1::Epoch& wire) {
  wire.set_num_rejected(num_graphs);
  for (const OversizeItem& item : items) {
    v1::Rejection& rejection = *wire.add_rejections();
    rejection.set_graph_id(item.id);
    if (item.component == OversizeItem::kBytes) {
      rejection.set_reason(v1::REJECTION_REASON_TOO_MANY_BYTES);
    } else {
      rejection.set_reason(item.is_too_small ? v1::REJECTION_REASON_TOO_SMALL
                                             : v1::REJECTION_REASON_TOO_LARGE);
      rejection.set_component(std::string(schema.name(item.component)));
    }
    rejection.set_value(item.value);
    rejection.set_bound(item.bound);
  }
}

void ShapesToWire(const LoadableEpoch& epoch, absl::Span<const uint64_t> num_batches,
                  v1::Epoch& wire) {
  const SizeSchema& schema = epoch.schema().sizes();
  wire.set_num_batches(std::accumulate(num_batches.begin(), num_batches.end(), uint64_t{0}));
  for (size_t i = 0; i < num_batches.size(); ++i) {
    v1::EpochRankGroup& rank_group = *wire.add_rank_groups();
    rank_group.set_num_batches(num_batches[i]);
    for (const BatchShape& shape : epoch.shapes(i)) {
      v1::EpochShape& out = *rank_group.add_shapes();
      CapacitiesToWire(shape.capacities, schema, *out.mutable_limits());
      CapacitiesToWire(shape.usable.capacities(), schema, *out.mutable_usable());
      if (epoch.shapes(i).size() == 1) out.set_num_batches(num_batches[i]);
      out.set_batch_bytes(shape.layout.FixedBatchBytes().value_or(0));
    }
  }
}

namespace {

void StepsToWire(const std::optional<StepFigures>& steps, v1::Epoch& wire) {
  if (!steps) return;
  wire.mutable_steps()->set_efficiency(steps->efficiency);
  wire.mutable_steps()->set_of_shuffle(steps->of_shuffle);
  for (const uint32_t num_ranks : steps->num_ranks) wire.mutable_steps()->add_num_ranks(num_ranks);
}

void ShareToWire(const EpochShare& share, v1::EpochShare& wire) {
  wire.set_num_steps(share.num_steps);
  wire.set_num_steps_done(share.num_steps_done);
  wire.set_num_steps_is_estimate(share.is_estimate);
  wire.set_num_batches_before(share.num_batches_before);
  wire.set_num_steps_of_epoch(share.num_steps_of_epoch);
}

void MixtureToWire(const PreparedEpoch& epoch, v1::Epoch& wire) {
  const auto& rows = epoch.rows_by_dataset();
  if (rows.empty()) return;
  // Of each component, in all batches; 0: no limit.
  std::vector<double> capacities(rows[0].size());
  for (size_t k = 0; k < capacities.size(); ++k) {
    for (size_t i = 0; i < epoch.plan().num_rank_groups(); ++i) {
      for (size_t j = 0; j < epoch.shapes(i).size(); ++j) {
        if (epoch.summaries(i)[j].num_batches == 0) continue;
        const uint64_t capacity = epoch.shapes(i)[j].capacities[k];
        capacities[k] += static_cast<double>(epoch.summaries(i)[j].num_batches) *
                         (capacity == kUnlimited ? HUGE_VAL : static_cast<double>(capacity));
      }
    }
  }
  const std::vector<absl::string_view> names = NamesInMixture(epoch.identity().dataset);
  const SizeSchema& schema = epoch.schema().sizes();
  for (size_t d = 0; d < rows.size(); ++d) {
    v1::MixedDataset& dataset = *wire.add_mixture();
    dataset.set_dataset(std::string(names[d]));
    dataset.set_num_graphs(rows[d].back());
    dataset.set_num_rejected(epoch.plan().oversize_by_dataset()[d]);
    for (size_t k = 0; k < capacities.size(); ++k) {
      v1::MixedRows& component = *dataset.add_components();
      component.set_component(std::string(schema.name(k)));
      component.set_rows(rows[d][k]);
      component.set_efficiency(capacities[k] > 0 ? static_cast<double>(rows[d][k]) / capacities[k]
                                                 : 0);
    }
  }
}

// `shapes`: figures of an epoch or a plan (EpochPlan::summaries()).
template <typename Shapes>
void RankGroupsToWire(const LoadableEpoch& epoch, const Shapes& shapes, v1::Epoch& wire) {
  const SizeSchema& schema = epoch.schema().sizes();
  wire.set_num_batches(epoch.identity().num_batches());
  for (size_t i = 0; i < epoch.identity().rank_groups.size(); ++i) {
    v1::EpochRankGroup& rank_group = *wire.add_rank_groups();
    rank_group.set_num_batches(epoch.identity().rank_groups[i].num_batches);
    for (size_t j = 0; j < epoch.shapes(i).size(); ++j) {
      const BatchShape& shape = epoch.shapes(i)[j];
      const ShapeSummary& summary = shapes.summaries(i)[j];
      v1::EpochShape& out = *rank_group.add_shapes();
      CapacitiesToWire(shape.capacities, schema, *out.mutable_limits());
      CapacitiesToWire(shape.usable.capacities(), schema, *out.mutable_usable());
      out.set_num_batches(summary.num_batches);
      EfficienciesToWire(summary.components, schema, *out.mutable_components());
      out.set_batch_bytes(shape.layout.FixedBatchBytes().value_or(0));
    }
  }
}

void SegmentedEpochToWire(const SegmentedEpoch& epoch, const EpochProgress& progress,
                          v1::Epoch& wire) {
  const SegmentedPlan& plan = epoch.plan();
  wire.set_num_graphs(plan.counts().num_graphs);
  wire.set_num_rejected(plan.counts().num_oversize);
  wire.set_num_cut_graphs(plan.counts().num_cut_graphs);
  wire.set_num_pieces(plan.counts().num_pieces);
  RankGroupsToWire(epoch, plan, wire);
  v1::EpochSegments& segments = *wire.mutable_segments();
  segments.set_num_segments(plan.layout().num_segments());
  segments.set_num_tracks(plan.num_tracks());
  segments.set_max_graphs(plan.layout().max_graphs());
  segments.set_loss(plan.loss());
  wire.set_lower_bound(plan.lower_bound());
  wire.set_receipt(plan.receipt());
  wire.set_start_cursor(EncodeCursor({epoch.identity(), progress.generation, {}, {}}));
}

}  // namespace

void EpochToWire(const LoadableEpoch& any, const EpochProgress& progress, v1::Epoch& wire) {
  const EpochIdentity& identity = any.identity();
  wire.set_job(identity.key.job);
  wire.set_epoch(identity.key.epoch);
  wire.set_dataset(identity.dataset);
  wire.set_dataset_version(identity.dataset_version);
  wire.set_num_done(progress.num_done);
  wire.set_generation(progress.generation);
  if (progress.share) ShareToWire(*progress.share, *wire.mutable_share());
  StepsToWire(any.steps(), wire);
  if (any.teller() != nullptr) return any.teller()->Tell(any, progress, wire);
  if (any.segmented() != nullptr) return SegmentedEpochToWire(*any.segmented(), progress, wire);
  // Of a kind that has nothing to tell.
  if (any.prepared() == nullptr) return;
  const PreparedEpoch& epoch = *any.prepared();
  const EpochPlan& plan = epoch.plan();
  wire.set_num_graphs(plan.num_graphs());
  RejectionsToWire(plan.num_oversize(), plan.oversize(), plan.schema().sizes(), wire);
  RankGroupsToWire(epoch, epoch, wire);
  MixtureToWire(epoch, wire);
  wire.set_num_cut_graphs(plan.num_cut_graphs());
  wire.set_num_pieces(plan.num_pieces());
  wire.set_lower_bound(plan.lower_bound());
  wire.set_receipt(plan.receipt());
  wire.set_start_cursor(EncodeCursor({identity, progress.generation, {}, {}}));
}

void CompanyToWire(const Company& company, v1::Company& wire) {
  wire.set_chance(company.chance);
  wire.set_of_shuffle(company.of_shuffle);
}

void JobToWire(const JobSummary& job, v1::Job& wire) {
  wire.set_job(job.name);
  for (const EpochSummary& epoch : job.epochs) {
    v1::JobEpoch& out = *wire.add_epochs();
    out.set_epoch(epoch.progress.key.epoch);
    out.set_generation(epoch.progress.generation);
    out.set_num_done(epoch.progress.num_done);
    out.set_num_batches(epoch.progress.num_batches);
    out.set_dataset(epoch.dataset);
    if (const KeptSegments& segments = epoch.progress.segments; segments.num_segments != 0) {
      out.set_num_segments(segments.num_segments);
      out.set_segmentation_loss(segments.Loss(epoch.progress.num_batches));
    }
    out.set_num_sessions(epoch.num_sessions);
    out.set_client(epoch.client);
    if (epoch.used_seconds != 0) {
      out.mutable_last_used()->set_seconds(static_cast<int64_t>(epoch.used_seconds));
    }
  }
  wire.set_owner(job.owner);
  wire.set_num_epochs(job.num_epochs);
  wire.set_num_sessions(job.num_sessions);
  if (job.used_seconds != 0) {
    wire.mutable_last_used()->set_seconds(static_cast<int64_t>(job.used_seconds));
  }
}

void LoadOpenedToWire(const LoadSession& session, v1::LoadOpened& wire) {
  const LoadStart& start = session.start();
  EpochToWire(session.epoch(), start.progress, *wire.mutable_epoch());
  GraphSchemaToWire(session.epoch().schema(), *wire.mutable_schema());
  wire.set_num_steps_is_estimate(start.num_steps_is_estimate);
  wire.set_generation(start.join.generation);
  wire.set_session(start.session);
  wire.set_num_steps(start.num_steps);
  wire.set_num_steps_done(start.num_steps_done);
  wire.set_cursor(start.join.cursor);
}

void EvaluationOpenedToWire(const Evaluation& evaluation, v1::LoadOpened& wire) {
  EpochProgress progress;
  progress.share = evaluation.share();
  EpochToWire(evaluation.epoch(), progress, *wire.mutable_epoch());
  GraphSchemaToWire(evaluation.epoch().schema(), *wire.mutable_schema());
  wire.set_num_steps(evaluation.num_steps());
  wire.set_num_steps_done(evaluation.first_step());
}

void LoadedBatchToWire(const LoadEvent& event, uint64_t epoch, v1::LoadedBatch& wire) {
  BatchToWire(event.built.batch, event.number, *wire.mutable_batch());
  wire.mutable_batch()->set_epoch(epoch);
  wire.mutable_batch()->set_step(event.place.position);
  wire.set_is_padding(event.is_padding);
  wire.set_is_redelivered(event.is_redelivered);
  wire.set_graphs_of_step(event.graphs_of_step);
  wire.set_shape(static_cast<uint32_t>(event.built.shape));
  for (const auto& [id, level] : event.built.drawn_smaller) {
    v1::DrawnSmaller& smaller = *wire.add_drawn_smaller();
    smaller.set_graph_id(id);
    smaller.set_level(level);
  }
}

}  // namespace packhouse
