#include "service/server/wire/wire_memory.h"

#include <algorithm>
#include <utility>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/plan_memory.h"

namespace packhouse {
namespace {

// The allocator's own bytes for each block, and a pointer to the block in a list that has up to
// twice the room that it needs and exists twice for a moment.
constexpr uint64_t kBlock = 16 + 3 * sizeof(void*);

// Copies of a message's bytes: where they are made, and in gRPC's hands.
constexpr uint64_t kCopiesOfBytes = 2;
// A tag, a length or a number, at most.
constexpr uint64_t kBytesOfEntryOnWire = 2 + 2 * 6;
constexpr uint64_t kBytesOfPatternOnWire = 2 * 6 + 11;

}  // namespace

uint64_t BytesOfHistogram(const v1::Histogram& wire) {
  // Unnamed components are nodes and edges.
  const uint64_t l = wire.components().empty() ? 2 : static_cast<uint64_t>(wire.components_size());
  const uint64_t num_tuples = std::max<uint64_t>(wire.counts().size() / sizeof(uint64_t),
                                                 wire.tuples().size() / (l * sizeof(uint32_t)));
  return SizeHistogram::BytesFor(num_tuples, l) + wire.counts().size() + wire.tuples().size();
}

uint64_t BytesOfPlan(const v1::PackingPlan& wire) {
  // The tuples, and how often each is used: at least 4 bytes for each tuple, if there are
  // components.
  uint64_t bytes = 3 * wire.tuples().size() + sizeof(uint64_t) + 4096;
  for (const v1::Pattern& pattern : wire.patterns()) {
    // Lists have up to twice the room that they need and exist twice for a moment.
    bytes += 3 * sizeof(Pattern) + kBlock +
             2 * sizeof(PatternEntry) * static_cast<uint64_t>(pattern.entries_size());
  }
  return bytes;
}

uint64_t BytesOfRequest(const v1::EpochSpec& wire) {
  // Ranges are in a list that grows.
  return wire.draw().weights().size() + wire.subset().graph_ids().size() +
         3 * sizeof(std::pair<uint64_t, uint64_t>) *
             static_cast<uint64_t>(wire.subset().ranges_size());
}

uint64_t BytesToWire(uint64_t num_distinct, size_t num_components) {
  const uint64_t bytes = num_distinct * (sizeof(uint64_t) + sizeof(uint32_t) * num_components);
  // Integers in a list, as a field, and written.
  return (2 + kCopiesOfBytes) * bytes + 4096;
}

uint64_t BytesToWire(const PackingPlan& plan) {
  uint64_t num_entries = 0;
  for (const Pattern& pattern : plan.patterns) num_entries += pattern.entries.size();
  return (2 + kCopiesOfBytes) * sizeof(uint32_t) * plan.tuples.size() +
         plan.patterns.size() *
             (sizeof(v1::Pattern) + kBlock + kCopiesOfBytes * kBytesOfPatternOnWire) +
         num_entries * (sizeof(v1::PatternEntry) + kBlock + kCopiesOfBytes * kBytesOfEntryOnWire);
}

}  // namespace packhouse
