// Searches for limits: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_TUNING_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_TUNING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "packhouse/v1/planning.pb.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/engine/streams/byte_quota.h"
#include "service/server/calls/response_source.h"

namespace packhouse {

// Components that are not listed have no limit. The result has passed CheckDeviceProfile(); what it
// is measured as is a name, and nothing is measured yet.
absl::StatusOr<DeviceProfile> DeviceProfileFromWire(const v1::DeviceProfile& wire,
                                                    const SizeSchema& schema);

// The profile with what was measured of the device, if it asks for that and `models`, which may be
// null, has it; else the profile. INVALID_ARGUMENT if it allows no limits then.
absl::StatusOr<DeviceProfile> AsMeasured(const DeviceProfile& profile, const SizeSchema& schema,
                                         const MeasuredModels* models = nullptr);

// The profile for a search for padded batches (ProfileForPadding), as measured.
absl::StatusOr<DeviceProfile> PaddedProfileFromWire(const v1::TuneRequest& request,
                                                    const SizeSchema& schema,
                                                    uint64_t max_graphs_per_batch,
                                                    const MeasuredModels* models = nullptr);

// Objective, budget, seed and grid; no callbacks.
absl::StatusOr<TuneOptions> TuneOptionsFromWire(const v1::TuneRequest& request);

void OversizeToWire(const OversizeGraphs& oversize, v1::Oversize& wire);
void TunedShapeToWire(const TunedShape& shape, const SizeSchema& schema, v1::TunedShape& wire);
void TuneProgressToWire(const TuneProgress& progress, const SizeSchema& schema,
                        v1::TuneProgress& wire);

// The result of a search, message by message: cells, frontier, and the recommendation at the end. A
// grid may have a hundred megabytes: its bytes count as held until they have been given out.
// Thread-compatible.
class TuneAnswers final : public ResponseSource<v1::TuneResponse> {
 public:
  // RESOURCE_EXHAUSTED, naming the bytes, if the quota, which must outlive the answers, has no room
  // for them.
  static absl::StatusOr<std::unique_ptr<TuneAnswers>> Create(TuneResult result, SizeSchema schema,
                                                             ByteQuota* quota);
  ~TuneAnswers() override;

  TuneAnswers(const TuneAnswers&) = delete;
  TuneAnswers& operator=(const TuneAnswers&) = delete;

  // Never an error.
  absl::StatusOr<std::optional<v1::TuneResponse>> Next() override;

 private:
  TuneAnswers(TuneResult result, SizeSchema schema, ByteQuota* quota, uint64_t held_bytes);

  void DropCells();

  TuneResult result_;
  const SizeSchema schema_;
  ByteQuota* const quota_;
  uint64_t held_bytes_;
  size_t next_cell_ = 0;
  size_t next_frontier_ = 0;
  bool recommended_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_TUNING_H_
