#include "service/wire/epoch_words.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "service/planning/feedback/measured_model.h"
#include "service/planning/feedback/measured_shapes.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// One model on one device, whose batches cost 0.01 s and 1 us a row.
class OneModel final : public MeasuredModels {
 public:
  explicit OneModel(std::string name) : name_(std::move(name)) {
    MeasuredShapes shapes;
    for (uint64_t times = 1; times <= 20; ++times) {
      BatchObservation observation;
      observation.capacities = {100 * times, 70 * times + times * times, 3 * times + times % 3};
      uint64_t rows = 0;
      for (const uint64_t capacity : observation.capacities) rows += capacity;
      observation.seconds = 0.01 + 1e-6 * static_cast<double>(rows);
      shapes.Add(observation);
    }
    model_ = std::make_shared<const MeasuredModel>(FitModel({"nodes", "edges", "graphs"}, shapes));
  }

  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override {
    return measured_as == name_ ? model_ : nullptr;
  }

 private:
  const std::string name_;
  std::shared_ptr<const MeasuredModel> model_;
};

// Evaluations, exports and figures of an epoch without a job: nothing would keep their limits, so
// ranks that ask one after the other would get others after a report.
TEST(EpochWordsTest, OnlyAJobPlansByWhatWasMeasured) {
  DatasetWorld world(10);
  world.Seal();
  const OneModel models("gin/sim");
  v1::EpochSpec spec;
  spec.set_dataset("graphs");
  v1::DeviceProfile& device = *spec.add_rank_groups()->mutable_device_profile();
  device.set_measured_as("gin/sim");
  for (const char* name : {"nodes", "edges", "graphs"}) {
    v1::DeviceProfile::Component& component = *device.add_components();
    component.set_component(name);
    component.set_max_rows(1000);
  }
  MemoryHold memory;
  const auto open = [&] {
    return OpenEpochRequest(spec, world.store(), nullptr, nullptr, memory, &models);
  };
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest without_job, open());
  ASSERT_EQ(without_job.rank_groups.size(), 1U);
  EXPECT_EQ(without_job.rank_groups[0].device->measured_as, "gin/sim");
  EXPECT_FALSE(without_job.rank_groups[0].measured.has_value());
  spec.set_job("job");
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest of_job, open());
  EXPECT_TRUE(of_job.rank_groups[0].measured.has_value());
}

}  // namespace
}  // namespace packhouse
