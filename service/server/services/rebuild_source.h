// One stream of ReceiptService.RebuildBatches.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_REBUILD_SOURCE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_REBUILD_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "packhouse/v1/receipts.pb.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/response_source.h"

namespace packhouse {

using RebuildReply = BatchReply<v1::RebuildBatchesResponse>;

inline constexpr int kMaxRebuilt = 1024;

// `opened`, then the batches, each built when it is asked for.
class RebuildSource final : public ResponseSource<RebuildReply> {
 public:
  // Plans the epoch's windows, as far as the numbers need it, in any case in the calling thread.
  // OUT_OF_RANGE naming the first number that is not one of a batch; errors of windows and
  // `making`.
  static absl::StatusOr<std::unique_ptr<ResponseSource<RebuildReply>>> Open(
      std::shared_ptr<const LoadableEpoch> epoch, std::vector<uint64_t> numbers,
      std::optional<uint64_t> words_of_epoch, const Making& making);

  // Errors as LoadableEpoch::Build.
  absl::StatusOr<std::optional<RebuildReply>> Next() override;

 private:
  RebuildSource(std::shared_ptr<const LoadableEpoch> epoch, std::vector<uint64_t> numbers,
                std::optional<uint64_t> words_of_epoch)
      : epoch_(std::move(epoch)), numbers_(std::move(numbers)), words_of_epoch_(words_of_epoch) {}

  const std::shared_ptr<const LoadableEpoch> epoch_;
  const std::vector<uint64_t> numbers_;
  const std::optional<uint64_t> words_of_epoch_;
  bool is_opened_ = false;
  size_t next_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_REBUILD_SOURCE_H_
