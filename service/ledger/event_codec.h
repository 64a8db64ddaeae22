// The bytes of the ledger's events: packhouse.internal.LedgerEvent.
#ifndef PACKHOUSE_SERVICE_LEDGER_EVENT_CODEC_H_
#define PACKHOUSE_SERVICE_LEDGER_EVENT_CODEC_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/ledger/ledger_event.h"

namespace packhouse {

// Equal events have equal bytes. They have no checksum of their own: a RecordLog gives back what
// was appended, or says that it cannot.
std::string EncodeEvent(const LedgerEvent& event);

// No event has so many: a plan, or the runs of batches of an epoch, are the most.
inline constexpr size_t kMaxEventBytes = size_t{16} << 20;

// Reads any bytes. INVALID_ARGUMENT, saying why, for what EncodeEvent() has not written, byte for
// byte: the events of later releases among it. Time O(length); memory at most 24 times the length,
// and 256 KiB for ranks, whatever it claims.
absl::StatusOr<LedgerEvent> DecodeEvent(absl::string_view record);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_EVENT_CODEC_H_
