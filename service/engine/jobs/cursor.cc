#include "service/engine/jobs/cursor.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "packhouse/internal/stored.pb.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/stored_epoch.h"

namespace packhouse {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint32_t);

absl::Status Malformed(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cursor: ", why));
}

// Little-endian.
std::string ChecksumOf(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  std::string checksum;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    checksum.push_back(static_cast<char>(crc >> (8 * i)));
  }
  return checksum;
}

std::string EncodeBytes(const Cursor& cursor) {
  internal::Cursor stored;
  WriteIdentity(cursor.identity, *stored.mutable_identity());
  stored.set_generation(cursor.generation);
  WriteBatches(cursor.done, *stored.mutable_done());
  stored.mutable_windows()->Add(cursor.windows.begin(), cursor.windows.end());
  std::string bytes = stored.SerializeAsString();
  return bytes + ChecksumOf(bytes);
}

absl::StatusOr<Cursor> DecodeBytes(absl::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return Malformed(absl::StrCat(bytes.size(), " bytes"));
  const absl::string_view message = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (bytes.substr(message.size()) != ChecksumOf(message)) {
    return Malformed("its checksum is wrong; the text was changed");
  }
  internal::Cursor stored;
  if (!stored.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Malformed("is no message of a cursor");
  }
  auto identity = ReadIdentity(stored.identity());
  auto done = ReadBatches(stored.done());
  if (!identity || !done) return Malformed("malformed");
  Cursor cursor = {*std::move(identity),
                   stored.generation(),
                   *std::move(done),
                   {stored.windows().begin(), stored.windows().end()}};
  if (EncodeBytes(cursor) != bytes) {
    return Malformed("malformed, or written by a later release of packhoused");
  }
  return cursor;
}

}  // namespace

std::string EncodeCursor(const Cursor& cursor) {
  return absl::WebSafeBase64Escape(EncodeBytes(cursor));
}

absl::StatusOr<Cursor> DecodeCursor(absl::string_view text) {
  if (text.size() > kMaxCursorLength) {
    return Malformed(absl::StrCat(text.size(), " characters, at most ", kMaxCursorLength));
  }
  std::string bytes;
  // The last character may have unused bits, but a cursor has exactly one spelling.
  if (!absl::WebSafeBase64Unescape(text, &bytes) || absl::WebSafeBase64Escape(bytes) != text) {
    return Malformed("is not base64url");
  }
  PH_ASSIGN_OR_RETURN(Cursor cursor, DecodeBytes(bytes));
  if (const absl::Status status = CheckIdentity(cursor.identity); !status.ok()) {
    return Malformed(status.message());
  }
  if (cursor.done.end() > cursor.identity.num_batches()) {
    return Malformed(absl::StrCat("batch ", cursor.done.end() - 1, " is done, the epoch has ",
                                  cursor.identity.num_batches(), " batches"));
  }
  if (!FitsWindows(cursor.identity, cursor.windows)) {
    return Malformed(absl::StrCat("has ", cursor.windows.size(), " numbers of batches of ",
                                  cursor.identity.num_windows, " windows"));
  }
  const std::vector<uint64_t> first = cursor.identity.first_batches();
  const std::vector<uint64_t> known = KnownBatches(cursor.identity, cursor.windows);
  for (size_t j = 0; j < known.size(); ++j) {
    if (cursor.done.SizeBelow(first[j + 1]) == cursor.done.SizeBelow(first[j] + known[j])) continue;
    return Malformed(absl::StrCat("a batch of rank group ", j, " is done beyond the first ",
                                  known[j], ", which are known"));
  }
  return cursor;
}

}  // namespace packhouse
