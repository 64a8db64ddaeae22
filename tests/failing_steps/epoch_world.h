// An epoch that is to be opened.
#ifndef PACKHOUSE_TESTS_FAILING_STEPS_EPOCH_WORLD_H_
#define PACKHOUSE_TESTS_FAILING_STEPS_EPOCH_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/epochs/segmented_plan.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/failing_steps.h"

namespace packhouse {

class EpochWorld final : public StepsWorld {
 public:
  // `chunks` is for an epoch in segments.
  EpochWorld(const std::shared_ptr<const DatasetReader>& reader,
             std::shared_ptr<const DatasetChunks> chunks, const EpochRequest& request,
             std::function<bool()> is_cancelled, RefusedMemory& memory)
      : reader_(reader),
        chunks_(std::move(chunks)),
        request_(request),
        making_(memory.budget(), std::move(is_cancelled)),
        memory_(memory) {}
  absl::Status Attempt() override { return request_.segments ? InSegments() : AtOnce(); }
  absl::Status AtOnce() {
    const auto plan = EpochPlan::Make(reader_, request_, EpochBounds(), making_);
    if (!plan.ok()) return plan.status();
    const auto epoch = PreparedEpoch::Prepare(*plan, request_, EpochBounds(), making_);
    if (!epoch.ok()) return epoch.status();
    const auto company = (*epoch)->MeasureCompany(making_);
    if (!company.ok()) return company.status();
    const uint64_t num_batches = (*epoch)->identity().num_batches();
    for (uint64_t batch = 0; batch < num_batches; ++batch) {
      const auto built = (*epoch)->Build(batch);
      if (!built.ok()) return built.status();
    }
    state_ = absl::StrCat(num_batches, " batches");
    return absl::OkStatus();
  }
  absl::Status InSegments() {
    const auto plan = SegmentedPlan::Make(chunks_, request_, EpochBounds(), making_);
    if (!plan.ok()) return plan.status();
    const auto epoch = SegmentedEpoch::Prepare(*plan, request_, EpochBounds(), making_);
    if (!epoch.ok()) return epoch.status();
    const uint64_t num_batches = (*epoch)->identity().num_batches();
    for (uint64_t batch = 0; batch < num_batches; ++batch) {
      SegmentedEpoch::Pins pins;
      if (const auto missing = (*epoch)->Pin({batch}, pins)) {
        const absl::Status made = (*epoch)->MakeSegment(*missing, false, making_);
        if (!made.ok()) return made;
      }
      const auto built = (*epoch)->Build(batch);
      if (!built.ok()) return built.status();
    }
    state_ = absl::StrCat(num_batches, " batches");
    return absl::OkStatus();
  }
  std::string State() override { return state_; }
  std::string Held() override {
    return memory_.held() == 0 ? "" : absl::StrCat(memory_.held(), " bytes of the budget");
  }

 private:
  const std::shared_ptr<const DatasetReader>& reader_;
  const std::shared_ptr<const DatasetChunks> chunks_;
  const EpochRequest& request_;
  const Making making_;
  RefusedMemory& memory_;
  std::string state_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_STEPS_EPOCH_WORLD_H_
