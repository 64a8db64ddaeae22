// What messages become on the way in, and answers on the way out: for calls to reserve before.
#ifndef PACKHOUSE_SERVICE_WIRE_WIRE_MEMORY_H_
#define PACKHOUSE_SERVICE_WIRE_WIRE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/sizes.pb.h"
#include "service/planning/plan.h"

namespace packhouse {

// At most what HistogramFromWire() and PlanFromWire() take, their results among it.
uint64_t BytesOfHistogram(const v1::Histogram& wire);
uint64_t BytesOfPlan(const v1::PackingPlan& wire);

// At most what the lists of EpochRequestFromWire() take: a subset and weights.
uint64_t BytesOfRequest(const v1::EpochSpec& wire);

// At most what a message takes that HistogramToWire() or PlanToWire() fills, and its bytes when it
// is written.
uint64_t BytesToWire(uint64_t num_distinct, size_t num_components);
uint64_t BytesToWire(const PackingPlan& plan);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_WIRE_MEMORY_H_
