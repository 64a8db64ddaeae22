// The memory of parsed messages and of answers, so that calls can reserve it before.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_MEMORY_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/sizes.pb.h"
#include "service/algorithms/planning/plan.h"

namespace packhouse {

// At most the bytes that HistogramFromWire() and PlanFromWire() take, with their results.
uint64_t BytesOfHistogram(const v1::Histogram& wire);
uint64_t BytesOfPlan(const v1::PackingPlan& wire);

// At most the bytes of the lists of EpochRequestFromWire(): a subset and weights.
uint64_t BytesOfRequest(const v1::EpochSpec& wire);

// At most the bytes of a message that HistogramToWire() or PlanToWire() fills, with its serialized
// bytes.
uint64_t BytesToWire(uint64_t num_distinct, size_t num_components);
uint64_t BytesToWire(const PackingPlan& plan);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_MEMORY_H_
