// Any bytes as a Tune request. Whatever comes in: no crash, no limits that the profile does not
// allow, nothing below its bound, and every message in its place.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "packhouse/v1/planning.pb.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/engine/streams/byte_quota.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_tuning.h"

namespace {

using packhouse::ComponentProfile;
using packhouse::DeviceProfile;
using packhouse::TunedShape;

// Longer searches and larger grids would make the fuzzer slow and find nothing else.
constexpr uint64_t kSteps = 20'000;
constexpr uint64_t kMaxCells = 1000;

void Check(bool holds) {
  if (!holds) std::abort();
}

// Whether the profile has at most kMaxCells limits to choose from.
bool HasSmallGrid(const DeviceProfile& profile) {
  uint64_t cells = 1;
  for (const ComponentProfile& component : profile.components) {
    if (component.max_rows == 0) continue;
    const uint64_t choices = component.max_rows / component.multiple_of -
                             (component.min_rows - 1) / component.multiple_of;
    if (choices > kMaxCells) return false;
    cells *= choices;
    if (cells > kMaxCells) return false;
  }
  return true;
}

void CheckShape(const TunedShape& shape, const DeviceProfile& profile) {
  Check(shape.capacities.size() == profile.components.size());
  for (size_t k = 0; k < shape.capacities.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    const uint64_t capacity = shape.capacities[k];
    if (component.max_rows == 0) {
      Check(capacity == packhouse::kUnlimited);
      continue;
    }
    Check(capacity >= component.min_rows && capacity <= component.max_rows);
    Check(capacity % component.multiple_of == 0);
  }
  Check(profile.memory_bytes == 0 || shape.batch_bytes <= profile.memory_bytes);
  Check(shape.packs >= shape.lower_bound);
  Check(shape.epoch_cost >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::v1::TuneRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  auto source = packhouse::HistogramFromWire(request.histogram());
  if (!source.ok()) return 0;
  const auto profile = packhouse::PaddedProfileFromWire(request, source->schema, 65536);
  if (!profile.ok()) return 0;
  auto options = packhouse::TuneOptionsFromWire(request);
  if (!options.ok()) return 0;
  options->steps = std::min(options->steps, kSteps);
  options->include_grid = options->include_grid && HasSmallGrid(*profile);
  packhouse::TuneProgress last;
  options->progress = [&](const packhouse::TuneProgress& progress) {
    Check(progress.planned >= last.planned && progress.excluded >= last.excluded);
    last = progress;
    packhouse::v1::TuneProgress wire;
    packhouse::TuneProgressToWire(progress, source->schema, wire);
  };
  auto result = packhouse::TuneLimits(source->histogram, *profile, source->schema, *options);
  if (!result.ok()) {
    if (absl::IsInternal(result.status())) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      std::abort();
    }
    return 0;
  }
  Check(!result->shapes.empty() && result->shapes.size() <= profile->max_distinct_shapes);
  for (const TunedShape& shape : result->shapes) CheckShape(shape, *profile);
  CheckShape(result->single_shape, *profile);
  Check(result->epoch_cost >= result->least_cost * (1 - 1e-9));
  for (size_t i = 0; i < result->frontier.size(); ++i) {
    CheckShape(result->frontier[i], *profile);
    Check(i == 0 || result->frontier[i].epoch_cost < result->frontier[i - 1].epoch_cost);
  }
  Check(options->include_grid || result->cells.empty());
  Check(result->cells.size() <= kMaxCells);

  const size_t cells = result->cells.size();
  const size_t messages = cells + result->frontier.size() + 1;
  packhouse::ByteQuota quota(uint64_t{1} << 30);
  {
    const auto answers =
        packhouse::TuneAnswers::Create(*std::move(result), std::move(source->schema), &quota);
    Check(answers.ok());
    for (size_t i = 0; i < messages; ++i) {
      const auto response = (*answers)->Next();
      Check(response.ok() && response->has_value());
      Check((*response)->has_cell() == (i < cells));
      Check((*response)->has_recommendation() == (i + 1 == messages));
    }
    const auto end = (*answers)->Next();
    Check(end.ok() && !end->has_value());
  }
  Check(quota.held() == 0);
  return 0;
}
