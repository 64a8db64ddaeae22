// Limits that learn, in simulation: devices with hidden constants and noise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using Capacities = std::vector<uint64_t>;

// A device that nobody knows.
struct HiddenDevice {
  double fixed_seconds = 0;
  std::vector<double> row_seconds;  // Nodes, edges, graphs.
  uint64_t fixed_bytes = 0;
  std::vector<uint64_t> row_bytes;
  uint64_t memory = 0;

  double Seconds(const Capacities& capacities) const {
    double seconds = fixed_seconds;
    for (size_t k = 0; k < 3; ++k) seconds += row_seconds[k] * static_cast<double>(capacities[k]);
    return seconds;
  }
  uint64_t Bytes(const Capacities& capacities) const {
    uint64_t bytes = fixed_bytes;
    for (size_t k = 0; k < 3; ++k) bytes += row_bytes[k] * capacities[k];
    return bytes;
  }
};

HiddenDevice MakeDevice(Random& random) {
  HiddenDevice device;
  device.fixed_seconds = 1e-3 * static_cast<double>(random.Between(1, 12));
  device.row_seconds = {1e-7 * static_cast<double>(random.Between(2, 30)),
                        1e-7 * static_cast<double>(random.Between(2, 20)),
                        1e-7 * static_cast<double>(random.Below(20))};
  device.memory = uint64_t{1} << 30;
  device.fixed_bytes = device.memory / 100 * random.Between(5, 50);
  device.row_bytes = {random.Between(20'000, 60'000), random.Between(4'000, 20'000),
                      random.Below(20'000)};
  return device;
}

SizeHistogram Molecules(Random& random) {
  SizeHistogram histogram(2);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t nodes = 6 + random.Below(12) + random.Below(12) + random.Below(12);
    const uint64_t edges = 2 * nodes + 2 * random.Below(6);
    EXPECT_THAT(
        histogram.Add(SizeTuple{static_cast<uint32_t>(nodes), static_cast<uint32_t>(edges)}, 1),
        IsOk());
  }
  return histogram;
}

// What the user declares: hardly anything is right.
DeviceProfile Declared(double bytes_factor, const HiddenDevice& device) {
  DeviceProfile profile;
  profile.components.resize(3);
  profile.components[0].max_rows = 16'384;
  profile.components[1].max_rows = 40'960;
  profile.components[2].max_rows = 1024;
  profile.components[0].multiple_of = 64;
  profile.components[1].multiple_of = 128;
  profile.components[2].relative_cost = 0;
  profile.components[2].fits_packs = true;
  for (size_t k = 0; k < 2; ++k) {
    profile.components[k].bytes_per_row =
        static_cast<uint64_t>(bytes_factor * static_cast<double>(device.row_bytes[k]));
  }
  profile.fixed_bytes = device.fixed_bytes / 2;
  profile.memory_bytes = device.memory;
  profile.measured_as = "gin/sim";
  return profile;
}

TuneResult Tuned(const SizeHistogram& histogram, const DeviceProfile& profile) {
  TuneOptions options;
  options.steps = 100'000'000;
  auto tuned = TuneLimits(histogram, profile, SizeSchema::NodesAndEdges(), options);
  EXPECT_THAT(tuned.status(), IsOk());
  return tuned.ok() ? *std::move(tuned) : TuneResult();
}

// An epoch's seconds without noise for limits with so many packs: batches that do not fit are split
// in two.
double EpochSeconds(const HiddenDevice& device, const TunedShape& shape) {
  Capacities capacities = shape.capacities;
  double batches = static_cast<double>(shape.packs);
  while (device.Bytes(capacities) > device.memory) {
    for (uint64_t& capacity : capacities) capacity = (capacity + 1) / 2 + capacity / 32;
    batches *= 2;
  }
  return batches * device.Seconds(capacities);
}

class Trainer {
 public:
  Trainer(const HiddenDevice& device, Random& random) : device_(device), random_(random) {}

  // Runs an epoch and reports it. The number of batches that ran out of memory: after one, batches
  // of the shape are split before they are tried.
  uint64_t Run(const TunedShape& shape, MeasuredShapes& shapes) {
    uint64_t out_of_memory = 0;
    Capacities capacities = shape.capacities;
    while (device_.Bytes(capacities) > device_.memory) {
      BatchObservation observation;
      observation.capacities = capacities;
      observation.out_of_memory = true;
      shapes.Add(observation);
      ++out_of_memory;
      for (uint64_t& capacity : capacities) capacity = (capacity + 1) / 2 + capacity / 32;
    }
    for (int i = 0; i < 12; ++i) {
      BatchObservation observation;
      observation.capacities = capacities;
      observation.num_batches = 8;
      const double noise = 1 + 0.03 * (static_cast<double>(random_.Below(2001)) / 1000 - 1);
      observation.seconds = device_.Seconds(capacities) * noise;
      // Somebody else's work.
      if (random_.Below(10) == 0) observation.seconds *= 3;
      observation.peak_bytes = device_.Bytes(capacities) - random_.Below(1'000'000);
      shapes.Add(observation);
    }
    return out_of_memory;
  }

 private:
  const HiddenDevice& device_;
  Random& random_;
};

DeviceProfile TrueProfile(DeviceProfile profile, const HiddenDevice& device) {
  for (size_t k = 0; k < 3; ++k) {
    profile.components[k].relative_cost = device.row_seconds[k];
    profile.components[k].bytes_per_row = device.row_bytes[k];
  }
  profile.fixed_cost = device.fixed_seconds;
  profile.fixed_bytes = device.fixed_bytes;
  return profile;
}

enum class Memory { kDeclared, kUnknown };

void Learn(uint64_t seed, double bytes_factor, Memory memory = Memory::kDeclared) {
  SCOPED_TRACE(testing::Message() << "seed=" << seed << " declared bytes * " << bytes_factor);
  Random random(seed);
  const HiddenDevice device = MakeDevice(random);
  const SizeHistogram histogram = Molecules(random);
  DeviceProfile declared = Declared(bytes_factor, device);
  const TuneResult best = Tuned(histogram, TrueProfile(declared, device));
  if (memory == Memory::kUnknown) declared.memory_bytes = 0;
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  MeasuredShapes shapes;
  Trainer trainer(device, random);
  uint64_t out_of_memory_later = 0;
  double seconds = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const MeasuredModel model = FitModel({"nodes", "edges", "graphs"}, shapes);
    const DeviceProfile profile = WithMeasured(declared, schema, model).value_or(declared);
    const TuneResult chosen = Tuned(histogram, profile);
    ASSERT_FALSE(chosen.shapes.empty());
    seconds = EpochSeconds(device, chosen.shapes[0]);
    const uint64_t out_of_memory = trainer.Run(chosen.shapes[0], shapes);
    if (epoch > 0) out_of_memory_later += out_of_memory;
    if (epoch >= 3 && memory == Memory::kDeclared) {
      EXPECT_GE(best.epoch_cost / seconds, 0.98) << "epoch " << epoch;
    }
  }
  EXPECT_LE(out_of_memory_later, 1);
}

// After three epochs the throughput is 98 % of the best limits', and after the first at most one
// batch of a rank runs out of memory.
TEST(LearningTest, FromDeclaredBytesThatAreTooMany) {
  for (uint64_t seed = 0; seed < 12; ++seed) Learn(seed, 3);
}

TEST(LearningTest, FromDeclaredBytesThatAreTooFew) {
  for (uint64_t seed = 0; seed < 12; ++seed) Learn(seed, 0.3);
}

// What ran out of memory is then all that is known of the memory's size.
TEST(LearningTest, OfADeviceWhoseMemoryNobodyKnows) {
  for (uint64_t seed = 0; seed < 12; ++seed) Learn(seed, 1, Memory::kUnknown);
}

}  // namespace
}  // namespace packhouse
