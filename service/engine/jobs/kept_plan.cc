#include "service/engine/jobs/kept_plan.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Takes numbers from the front of a list.
template <typename Number>
class Column {
 public:
  explicit Column(const google::protobuf::RepeatedField<Number>& numbers) : numbers_(numbers) {}

  // The next `count` numbers, or nullopt if there are fewer.
  std::optional<absl::Span<const Number>> Take(uint64_t count) {
    const auto left = static_cast<uint64_t>(numbers_.size()) - taken_;
    if (count > left) return std::nullopt;
    const absl::Span<const Number> taken(numbers_.data() + taken_, count);
    taken_ += count;
    return taken;
  }
  bool is_at_end() const { return taken_ == static_cast<uint64_t>(numbers_.size()); }

 private:
  const google::protobuf::RepeatedField<Number>& numbers_;
  uint64_t taken_ = 0;
};

std::string Encode(const PlannerResult& planned) {
  internal::Plan stored;
  stored.set_receipt(planned.receipt);
  stored.set_dataset_version(planned.dataset_version);
  stored.set_lower_bound(planned.lower_bound);
  for (const auto& shapes : planned.shapes) {
    stored.add_num_shapes(static_cast<uint32_t>(shapes.size()));
    for (const std::vector<uint64_t>& capacities : shapes) {
      stored.add_num_capacities(static_cast<uint32_t>(capacities.size()));
      for (const uint64_t capacity : capacities) stored.add_capacities(capacity + 1);
    }
  }
  stored.set_num_components(static_cast<uint32_t>(planned.num_components));
  uint32_t last = 0;
  for (size_t i = 0; i < planned.tuples.size(); ++i) {
    const bool is_first = i % planned.num_components == 0;
    stored.add_tuples(is_first ? planned.tuples[i] - last : planned.tuples[i]);
    if (is_first) last = planned.tuples[i];
  }
  for (const std::vector<Pattern>& patterns : planned.patterns) {
    stored.add_num_patterns(static_cast<uint32_t>(patterns.size()));
    for (const Pattern& pattern : patterns) {
      stored.add_repeats(pattern.repeats);
      stored.add_num_entries(static_cast<uint32_t>(pattern.entries.size()));
      for (const auto& [tuple, copies] : pattern.entries) {
        stored.add_entry_tuples(tuple);
        stored.add_entry_copies(copies);
      }
    }
  }
  if (const SegmentCounts& segments = planned.segments; !segments.num_batches.empty()) {
    internal::SegmentedPlan& to = *stored.mutable_segments();
    to.mutable_num_batches()->Add(segments.num_batches.begin(), segments.num_batches.end());
    to.mutable_digests()->Add(segments.digests.begin(), segments.digests.end());
    to.set_num_graphs(segments.num_graphs);
    to.set_num_oversize(segments.num_oversize);
    to.set_num_cut_graphs(segments.num_cut_graphs);
    to.set_num_pieces(segments.num_pieces);
    to.mutable_of_shapes()->Add(segments.of_shapes.begin(), segments.of_shapes.end());
    to.mutable_rows()->Add(segments.rows.begin(), segments.rows.end());
    to.mutable_fullest()->Add(segments.fullest.begin(), segments.fullest.end());
  }
  return stored.SerializeAsString();
}

bool ReadShapes(const internal::Plan& stored, PlannerResult& planned) {
  Column<uint32_t> num_capacities(stored.num_capacities());
  Column<uint64_t> capacities(stored.capacities());
  for (const uint32_t num_shapes : stored.num_shapes()) {
    const auto of_group = num_capacities.Take(num_shapes);
    if (!of_group) return false;
    planned.shapes.emplace_back();
    for (const uint32_t count : *of_group) {
      const auto of_shape = capacities.Take(count);
      if (!of_shape) return false;
      std::vector<uint64_t>& shape = planned.shapes.back().emplace_back();
      for (const uint64_t capacity : *of_shape) shape.push_back(capacity - 1);
    }
  }
  return num_capacities.is_at_end() && capacities.is_at_end();
}

bool ReadTuples(const internal::Plan& stored, PlannerResult& planned) {
  planned.num_components = stored.num_components();
  const auto num_numbers = static_cast<size_t>(stored.tuples_size());
  if (planned.num_components == 0 ? num_numbers != 0 : num_numbers % planned.num_components != 0) {
    return false;
  }
  planned.tuples.assign(stored.tuples().begin(), stored.tuples().end());
  for (size_t i = planned.num_components; i < num_numbers; i += planned.num_components) {
    planned.tuples[i] += planned.tuples[i - planned.num_components];
  }
  return true;
}

bool ReadSegments(const internal::Plan& stored, PlannerResult& planned) {
  const internal::SegmentedPlan& from = stored.segments();
  SegmentCounts& segments = planned.segments;
  segments.num_batches.assign(from.num_batches().begin(), from.num_batches().end());
  segments.digests.assign(from.digests().begin(), from.digests().end());
  segments.num_graphs = from.num_graphs();
  segments.num_oversize = from.num_oversize();
  segments.num_cut_graphs = from.num_cut_graphs();
  segments.num_pieces = from.num_pieces();
  segments.of_shapes.assign(from.of_shapes().begin(), from.of_shapes().end());
  segments.rows.assign(from.rows().begin(), from.rows().end());
  segments.fullest.assign(from.fullest().begin(), from.fullest().end());
  return segments.rows.size() == segments.fullest.size();
}

bool ReadPatterns(const internal::Plan& stored, PlannerResult& planned) {
  Column<uint64_t> repeats(stored.repeats());
  Column<uint32_t> num_entries(stored.num_entries());
  Column<uint32_t> tuples(stored.entry_tuples());
  Column<uint32_t> copies(stored.entry_copies());
  for (const uint32_t num_patterns : stored.num_patterns()) {
    const auto repeats_of_group = repeats.Take(num_patterns);
    const auto entries_of_group = num_entries.Take(num_patterns);
    if (!repeats_of_group || !entries_of_group) return false;
    std::vector<Pattern>& patterns = planned.patterns.emplace_back(num_patterns);
    for (size_t i = 0; i < patterns.size(); ++i) {
      const uint32_t count = (*entries_of_group)[i];
      const auto tuples_of_pattern = tuples.Take(count);
      const auto copies_of_pattern = copies.Take(count);
      if (!tuples_of_pattern || !copies_of_pattern) return false;
      patterns[i].repeats = (*repeats_of_group)[i];
      patterns[i].entries.reserve(count);
      for (size_t k = 0; k < count; ++k) {
        patterns[i].entries.push_back({(*tuples_of_pattern)[k], (*copies_of_pattern)[k]});
      }
    }
  }
  return repeats.is_at_end() && num_entries.is_at_end() && tuples.is_at_end() && copies.is_at_end();
}

// A number of one byte takes eight bytes in a list. A list may have twice the room that it needs,
// and exists twice for a moment.
constexpr uint64_t kParsedBytes = 24;

// The bytes of a plan's lists in memory.
uint64_t BytesToRead(const internal::Plan& stored) {
  constexpr uint64_t kBytesPerPattern = sizeof(Pattern) + 16;
  constexpr uint64_t kBytesPerShape = sizeof(std::vector<uint64_t>) + 16;
  return sizeof(PlannerResult) + stored.receipt().size() +
         sizeof(uint32_t) * static_cast<uint64_t>(stored.tuples_size()) +
         kBytesPerPattern * static_cast<uint64_t>(stored.repeats_size()) +
         sizeof(PatternEntry) * static_cast<uint64_t>(stored.entry_tuples_size()) +
         3 * kBytesPerShape * static_cast<uint64_t>(stored.num_capacities_size()) +
         3 * sizeof(uint64_t) * static_cast<uint64_t>(stored.capacities_size()) +
         6 * kBytesPerShape * static_cast<uint64_t>(stored.num_shapes_size()) +
         sizeof(uint32_t) * static_cast<uint64_t>(stored.segments().num_batches_size()) +
         sizeof(uint64_t) * static_cast<uint64_t>(stored.segments().digests_size() +
                                                  stored.segments().of_shapes_size() +
                                                  2 * stored.segments().rows_size());
}

// The least bytes of a plan, so that one that is too large is not encoded.
uint64_t LeastBytes(const PlannerResult& planned) {
  uint64_t bytes = planned.tuples.size() + planned.segments.num_batches.size() +
                   8 * planned.segments.digests.size();
  for (const std::vector<Pattern>& patterns : planned.patterns) {
    for (const Pattern& pattern : patterns) bytes += 2 + 2 * pattern.entries.size();
  }
  return bytes;
}

}  // namespace

std::string DigestOfPlan(absl::string_view bytes) {
  Digest digest;
  digest.Add(bytes);
  return digest.Hex(16);
}

std::shared_ptr<const KeptPlan> KeepPlan(const PlannerResult& planned) {
  if (LeastBytes(planned) > kMaxPlanBytes) return nullptr;
  std::string bytes = Encode(planned);
  if (bytes.size() > kMaxPlanBytes) return nullptr;
  std::string digest = DigestOfPlan(bytes);
  return std::make_shared<const KeptPlan>(
      KeptPlan{planned.receipt, std::move(digest), std::move(bytes)});
}

absl::StatusOr<PlannerResult> ReadPlan(const KeptPlan& plan,
                                       absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) {
  internal::Plan stored;
  PlannerResult planned;
  if (plan.bytes.size() <= kMaxPlanBytes) {
    PH_RETURN_IF_ERROR(reserve(kParsedBytes * plan.bytes.size()));
    if (stored.ParseFromString(plan.bytes)) {
      PH_RETURN_IF_ERROR(reserve(BytesToRead(stored)));
      planned.receipt = stored.receipt();
      planned.dataset_version = stored.dataset_version();
      planned.lower_bound = stored.lower_bound();
      // The digest shows that the bytes are those that were written (DecodeEvent()).
      if (planned.receipt == plan.receipt && ReadShapes(stored, planned) &&
          ReadTuples(stored, planned) && ReadPatterns(stored, planned) &&
          ReadSegments(stored, planned)) {
        return planned;
      }
    }
  }
  return absl::DataLossError(
      absl::StrCat("plan ", plan.receipt, ": what the ledger keeps of it is malformed"));
}

KeptSegments SegmentsOf(const KeptPlan& plan) {
  if (!absl::StartsWith(plan.receipt, kSegmentsReceipt)) return {};
  internal::Plan stored;
  if (!stored.ParseFromString(plan.bytes)) return {};
  return {static_cast<uint64_t>(stored.segments().digests_size()), stored.lower_bound()};
}

}  // namespace packhouse
