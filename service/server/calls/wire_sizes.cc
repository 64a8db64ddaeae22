#include "service/server/calls/wire_sizes.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and is read by memcpy");

template <typename T>
std::vector<T> FromBytes(absl::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename T>
std::string ToBytes(absl::Span<const T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

std::vector<uint32_t> Uint32sFromWire(absl::string_view bytes) {
  return FromBytes<uint32_t>(bytes);
}
std::vector<uint64_t> Uint64sFromWire(absl::string_view bytes) {
  return FromBytes<uint64_t>(bytes);
}
std::string Uint32sToWire(absl::Span<const uint32_t> values) { return ToBytes(values); }
std::string Uint64sToWire(absl::Span<const uint64_t> values) { return ToBytes(values); }

absl::StatusOr<SizeSchema> ComponentsFromWire(
    const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (names.empty()) return SizeSchema::NodesAndEdges();
  return SizeSchema::Create({names.begin(), names.end()});
}

namespace {

absl::Status CheckCounts(const v1::SizeTable& wire, size_t num_components) {
  const uint64_t n = wire.num_graphs();
  if (n > kMaxTableGraphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes.num_graphs: ", n, ", at most ", kMaxTableGraphs));
  }
  if (wire.counts().size() != n * num_components * sizeof(uint32_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes.counts: ", wire.counts().size(), " bytes, ", n, " graphs of ",
                     num_components, " components take ", n * num_components * sizeof(uint32_t)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SizesView> SizesFromWire(const v1::SizeTable& wire, size_t num_components,
                                        std::vector<uint32_t>& copy) {
  PH_RETURN_IF_ERROR(CheckCounts(wire, num_components));
  const std::string& bytes = wire.counts();
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint32_t) == 0) {
    return SizesView::Create(
        wire.num_graphs(), num_components,
        {reinterpret_cast<const uint32_t*>(bytes.data()), bytes.size() / sizeof(uint32_t)});
  }
  copy = Uint32sFromWire(bytes);
  return SizesView::Create(wire.num_graphs(), num_components, copy);
}

absl::StatusOr<SizeTable> SizeTableFromWire(const v1::SizeTable& wire, size_t num_components,
                                            uint64_t next_id) {
  PH_RETURN_IF_ERROR(CheckCounts(wire, num_components));
  const uint64_t n = wire.num_graphs();
  std::vector<uint32_t> counts = Uint32sFromWire(wire.counts());
  if (wire.ids_case() == v1::SizeTable::kGraphIds) {
    if (wire.graph_ids().size() != n * sizeof(uint64_t)) {
      return absl::InvalidArgumentError(absl::StrCat("sizes.graph_ids: ", wire.graph_ids().size(),
                                                     " bytes, ", n, " graphs take ",
                                                     n * sizeof(uint64_t)));
    }
    return SizeTable::WithIds(n, num_components, std::move(counts),
                              Uint64sFromWire(wire.graph_ids()));
  }
  const uint64_t first_id = wire.ids_case() == v1::SizeTable::kFirstId ? wire.first_id() : next_id;
  return SizeTable::WithConsecutiveIds(n, num_components, std::move(counts), first_id);
}

absl::StatusOr<NamedHistogram> HistogramFromWire(const v1::Histogram& wire) {
  PH_ASSIGN_OR_RETURN(SizeSchema schema, ComponentsFromWire(wire.components()));
  const size_t l = schema.num_components();
  const std::vector<uint64_t> counts = Uint64sFromWire(wire.counts());
  if (wire.counts().size() % sizeof(uint64_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("histogram.counts: ", wire.counts().size(),
                                                   " bytes, must be a multiple of 8"));
  }
  if (wire.tuples().size() != counts.size() * l * sizeof(uint32_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram.tuples: ", wire.tuples().size(), " bytes, ", counts.size(),
                     " tuples of ", l, " components take ", counts.size() * l * sizeof(uint32_t)));
  }
  const std::vector<uint32_t> tuples = Uint32sFromWire(wire.tuples());
  SizeHistogram histogram(l);
  for (size_t row = 0; row < counts.size(); ++row) {
    const absl::Status added =
        histogram.Add(absl::MakeConstSpan(tuples).subspan(row * l, l), counts[row]);
    if (!added.ok()) return absl::InvalidArgumentError(added.message());
  }
  return NamedHistogram{std::move(schema), std::move(histogram)};
}

void HistogramToWire(const SizeHistogram& histogram, const SizeSchema& schema,
                     v1::Histogram& wire) {
  wire.Clear();
  for (const std::string& name : schema.components()) wire.add_components(name);
  std::vector<uint32_t> tuples;
  std::vector<uint64_t> counts;
  for (const uint32_t row : histogram.SortedRows()) {
    tuples.insert(tuples.end(), histogram.tuple(row).begin(), histogram.tuple(row).end());
    counts.push_back(histogram.count(row));
  }
  wire.set_tuples(Uint32sToWire(tuples));
  wire.set_counts(Uint64sToWire(counts));
  wire.set_num_graphs(histogram.num_graphs());
  for (size_t k = 0; k < histogram.num_components(); ++k) {
    wire.add_component_totals(histogram.total(k));
    wire.add_component_maxima(histogram.maximum(k));
  }
}

absl::StatusOr<absl::Duration> BoundFromWire(const google::protobuf::Duration& wire,
                                             absl::string_view field) {
  constexpr int32_t kNanosPerSecond = 1'000'000'000;
  const bool mixed =
      (wire.seconds() > 0 && wire.nanos() < 0) || (wire.seconds() < 0 && wire.nanos() > 0);
  if (mixed || wire.nanos() <= -kNanosPerSecond || wire.nanos() >= kNanosPerSecond) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", wire.seconds(), " seconds and ",
                                                   wire.nanos(), " nanos are not a duration"));
  }
  const absl::Duration duration = absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
  if (duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", absl::FormatDuration(duration), " is negative"));
  }
  return duration == absl::ZeroDuration() ? absl::InfiniteDuration() : duration;
}

void DurationToWire(absl::Duration duration, google::protobuf::Duration& wire) {
  absl::Duration rest = duration;
  wire.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  wire.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

std::optional<ProducerSequence> ProducerFromWire(bool is_set, const v1::ProducerSequence& wire,
                                                 absl::Time now) {
  if (!is_set || (wire.producer().empty() && wire.sequence() == 0)) return std::nullopt;
  ProducerSequence producer = {wire.producer(), wire.sequence()};
  producer.now = now;
  if (wire.has_forget_after()) {
    // Whoever writes the largest number of seconds does not want a named producer.
    producer.forget_after = std::min(absl::Seconds(wire.forget_after().seconds()) +
                                         absl::Nanoseconds(wire.forget_after().nanos()),
                                     2 * ProducerSequence::kMaxForgetAfter);
  }
  return producer;
}

bool AsksForProducer(bool is_set, const v1::ProducerSequence& wire) {
  return is_set && !wire.producer().empty() && wire.sequence() == 0;
}

void ProducerStateToWire(const ProducerHistory& history, v1::ProducerState& wire) {
  wire.set_next_sequence(history.last() + 1);
  wire.set_first_remembered_sequence(history.first_remembered());
}

}  // namespace packhouse
