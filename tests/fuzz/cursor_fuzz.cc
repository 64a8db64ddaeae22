// Any text as a cursor. If the first byte is odd, what follows is made a cursor's message with the
// checksum, in base64. Whatever comes in: no crash, nothing larger than the text, and what is
// accepted is written as a text that reads the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "service/engine/jobs/cursor.h"
#include "tests/fuzz/sealed_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) text = absl::WebSafeBase64Escape(packhouse::Sealed(text));
  const auto cursor = packhouse::DecodeCursor(text);
  if (!cursor.ok()) {
    if (cursor.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    return 0;
  }
  size_t num_values = cursor->done.num_runs() + cursor->identity.key.job.size() +
                      cursor->identity.dataset.size() + cursor->identity.options.size() +
                      cursor->windows.size();
  for (const auto& rank_group : cursor->identity.rank_groups)
    num_values += rank_group.capacities.size();
  if (num_values > text.size()) std::abort();
  if (cursor->done.end() > cursor->identity.num_batches()) std::abort();

  const std::string encoded = packhouse::EncodeCursor(*cursor);
  const auto again = packhouse::DecodeCursor(encoded);
  if (!again.ok() || !(*again == *cursor)) std::abort();
  if (packhouse::EncodeCursor(*again) != encoded) std::abort();
  return 0;
}
