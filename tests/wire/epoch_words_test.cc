#include "service/server/wire/epoch_words.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/server/wire/wire_loader.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(EpochWordsTest, MixingIsReadOrRefusedByName) {
  DatasetWorld world(10);
  world.Seal();
  v1::EpochSpec spec;
  spec.set_dataset("graphs");
  MemoryHold memory;
  const auto read = [&] { return OpenEpochRequest(spec, world.store(), nullptr, nullptr, memory); };
  EXPECT_EQ(read()->mixing.most_company, std::nullopt);
  EXPECT_FALSE(read()->mixing.is_off);
  v1::Mixing& mixing = *spec.mutable_mixing();
  EXPECT_EQ(read()->mixing.most_company, MixingRequest::kMostCompany);
  for (const double most : {1.0, 1.5, 1e9}) {
    mixing.set_most_company(most);
    EXPECT_EQ(read()->mixing.most_company, most);
  }
  for (const double most : {0.99, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    mixing.set_most_company(most);
    EXPECT_THAT(read(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixing.most_company: ")));
  }
  mixing.set_most_company(2);
  mixing.set_off(true);
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("must be unset with mixing.off")));
  mixing.clear_most_company();
  EXPECT_TRUE(read()->mixing.is_off);
  EXPECT_EQ(read()->mixing.most_company, std::nullopt);
}

TEST(EpochWordsTest, TheCompanyOfAnEpochIsTold) {
  DatasetWorld world(60);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(DatasetWorld::Request()));
  v1::Epoch wire;
  EpochToWire(*epoch, EpochProgress(), wire);
  ASSERT_TRUE(epoch->company().has_value());
  EXPECT_GT(wire.company().of_shuffle(), 0);
  EXPECT_EQ(wire.company().of_shuffle(), epoch->company()->of_shuffle);
  EXPECT_EQ(wire.company().chance(), epoch->company()->chance);
  EXPECT_THAT(UntoldFields(wire.company()), IsEmpty());
}

}  // namespace
}  // namespace packhouse
