// The bytes of the ledger's events: packhouse.internal.LedgerEvent.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_EVENT_CODEC_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_EVENT_CODEC_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

// Equal events have equal bytes. They have no checksum of their own: a RecordLog gives back exactly
// what was appended, or an error.
std::string EncodeEvent(const LedgerEvent& event);

// No event has this many bytes. The largest are plans and the runs of batches of an epoch.
inline constexpr size_t kMaxEventBytes = size_t{16} << 20;

// Reads any bytes. INVALID_ARGUMENT, saying why, unless they are exactly what EncodeEvent() writes;
// so also for events of later releases. Time O(length). Memory at most 24 times the length, and 256
// KiB for ranks, whatever the bytes claim.
absl::StatusOr<LedgerEvent> DecodeEvent(absl::string_view record);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_EVENT_CODEC_H_
