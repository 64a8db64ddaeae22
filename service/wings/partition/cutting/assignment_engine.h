// What calls METIS. The partitioner knows it by this interface, so that tests have their own, and
// so that no process is started in this room.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_ENGINE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// Numbers that an engine can read without a copy. They grow at their end; what is there may move.
// Thread-compatible.
class EngineArray {
 public:
  virtual ~EngineArray() = default;
  // Makes room for `capacity` numbers. Memory is taken as they are written. RESOURCE_EXHAUSTED.
  virtual absl::Status Reserve(uint64_t capacity) = 0;
  virtual uint32_t* data() = 0;
};

// One graph, checked: symmetric, without self loops, at most 2^31 - 1 entries. It must outlive the
// calls.
struct EngineProblem {
  uint32_t num_nodes = 0;
  absl::Span<const uint64_t> offsets;  // num_nodes + 1.
  EngineArray* neighbours = nullptr;   // offsets.back() entries, ascending in each row.
  EngineArray* weights = nullptr;      // Of these, or null if all are 1.
  // num_constraints for each node, node after node. Sums are below 2^31.
  absl::Span<const uint32_t> node_weights;
  uint32_t num_constraints = 1;
  uint32_t num_parts = 2;
  // What a copy of each node costs, where the objective is the volume; empty: 1 each. Their sum is
  // below 2^31.
  absl::Span<const uint32_t> node_sizes;
  // For each constraint: the largest part over the mean.
  absl::Span<const double> imbalance;
};

// One call.
struct EngineAttempt {
  // Engines have seeds of 31 bits.
  static constexpr uint32_t kMostSeed = INT32_MAX;

  PartScheme scheme = PartScheme::kKWay;
  PartObjective objective = PartObjective::kCut;
  uint32_t seed = 1;  // At most kMostSeed.
};

// The seed of the first of up to 64 attempts, whose seeds follow each other. Small seeds are
// themselves; others are hashed, so that seeds with the same low bits do not give the same parts.
inline uint32_t EngineSeed(uint64_t seed) {
  constexpr uint32_t kSeeds = EngineAttempt::kMostSeed - 63;
  return static_cast<uint32_t>(seed < kSeeds ? seed : SeededRandom(seed).Below(kSeeds));
}

struct EngineLimits {
  uint64_t memory_bytes = 0;                             // For each call; 0: no bound.
  absl::Duration time_limit = absl::InfiniteDuration();  // For each call.
  uint32_t parallel = 1;                                 // Calls at one time.
};

class AssignmentEngine {
 public:
  virtual ~AssignmentEngine() = default;

  virtual absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() = 0;

  // A part below num_parts for each node, for each attempt in order: whatever happens to one does
  // not touch the others. The same problem and attempt give the same parts. For each attempt:
  // RESOURCE_EXHAUSTED beyond the memory, DEADLINE_EXCEEDED beyond the time, CANCELLED if
  // `cancelled` (which may be empty) says so, INTERNAL naming what happened if the engine ended in
  // another way or gave no parts.
  virtual std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& problem, absl::Span<const EngineAttempt> attempts,
      const EngineLimits& limits, const std::function<bool()>& cancelled) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_ENGINE_H_
