// From a job's seed to the random numbers of one epoch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SEED_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SEED_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// What decides the random choices of one epoch.
struct EpochSeed {
  uint64_t seed = 0;
  uint64_t epoch = 0;

  friend bool operator==(const EpochSeed&, const EpochSeed&) = default;
};

// What random numbers are drawn for. Each purpose has a sequence of its own, so that a change in
// the use of one leaves the others as they are. Never change a number: they are part of what "the
// same seed" means.
enum class DrawPurpose : uint64_t {
  kPlaces = 1,
  kBatchOrder = 2,
  kGroups = 3,
  kSample = 4,
  kEstimate = 5,
  kSeeds = 6,
  kParts = 7,
  kSegments = 8,
  kTracks = 9,
  kOtherDraw = 10,
  kExchanges = 11,
  kSteps = 12,
  kShuffledSteps = 13,
  kScores = 14,
  kSegmentShares = 15,
};

// Where the sequence of a purpose starts. For a fixed seed and purpose, other epochs have other
// starts: each step is a bijection of 64 bits.
inline uint64_t SequenceStart(const EpochSeed& seed, DrawPurpose purpose) {
  uint64_t state = SeededRandom(seed.seed).Next();
  state = SeededRandom(state ^ seed.epoch).Next();
  return SeededRandom(state ^ static_cast<uint64_t>(purpose)).Next();
}

// Fisher-Yates: every order is equally likely. CANCELLED as `making`, midway.
template <typename T>
absl::Status Shuffle(absl::Span<T> values, SeededRandom& random, const Making& making) {
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    std::swap(values[i], values[i + random.Below(values.size() - i)]);
  }
  return absl::OkStatus();
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SEED_H_
