// Sizes, histograms and names: wire to domain and back. All input is checked here, once. Every
// error is INVALID_ARGUMENT and names the field, the value and the bound.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_SIZES_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/sizes.pb.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/engine/histograms/histogram_store.h"

namespace packhouse {

// The most graphs in one table; needed for tables whose graphs take no bytes.
inline constexpr uint64_t kMaxTableGraphs = uint64_t{1} << 20;

// Dense little-endian integers in a bytes field. The length must be a multiple of 4 or 8.
std::vector<uint32_t> Uint32sFromWire(absl::string_view bytes);
std::vector<uint64_t> Uint64sFromWire(absl::string_view bytes);
std::string Uint32sToWire(absl::Span<const uint32_t> values);
std::string Uint64sToWire(absl::Span<const uint64_t> values);

// No names: `nodes`, `edges`.
absl::StatusOr<SizeSchema> ComponentsFromWire(
    const google::protobuf::RepeatedPtrField<std::string>& names);

// Graphs without ids are numbered from `next_id`.
absl::StatusOr<SizeTable> SizeTableFromWire(const v1::SizeTable& wire, size_t num_components,
                                            uint64_t next_id);
// The same without ids. Views the message's counts or, if they are not aligned for integers,
// `copy`.
absl::StatusOr<SizesView> SizesFromWire(const v1::SizeTable& wire, size_t num_components,
                                        std::vector<uint32_t>& copy);

struct NamedHistogram {
  SizeSchema schema;
  SizeHistogram histogram;
};
absl::StatusOr<NamedHistogram> HistogramFromWire(const v1::Histogram& wire);

void HistogramToWire(const SizeHistogram& histogram, const SizeSchema& schema, v1::Histogram& wire);

// A duration that bounds something: unset or 0 is infinite. `field` is for messages.
absl::StatusOr<absl::Duration> BoundFromWire(const google::protobuf::Duration& wire,
                                             absl::string_view field);
void DurationToWire(absl::Duration duration, google::protobuf::Duration& wire);

// nullopt if it is unset, or has neither producer nor sequence. `now`: when the request came.
std::optional<ProducerSequence> ProducerFromWire(bool is_set, const v1::ProducerSequence& wire,
                                                 absl::Time now);
// Whether a request without content asks what is remembered of its producer.
bool AsksForProducer(bool is_set, const v1::ProducerSequence& wire);
void ProducerStateToWire(const ProducerHistory& history, v1::ProducerState& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_SIZES_H_
