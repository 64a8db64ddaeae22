#include "service/delivery/cursor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/epochs/record_codec.h"

namespace packhouse {

std::string EncodeCursor(const Cursor& cursor) {
  RecordWriter writer(RecordKind::kCursor);
  WriteIdentity(cursor.identity, writer);
  writer.Number(cursor.generation);
  writer.Batches(cursor.done);
  return absl::WebSafeBase64Escape(std::move(writer).Seal());
}

absl::StatusOr<Cursor> DecodeCursor(absl::string_view text) {
  const auto malformed = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("cursor: ", why));
  };
  std::string bytes;
  // The last character may have bits that say nothing; a cursor has one spelling all the same.
  if (!absl::WebSafeBase64Unescape(text, &bytes) || absl::WebSafeBase64Escape(bytes) != text) {
    return malformed("is not base64url");
  }
  const auto reader = RecordReader::Open(bytes);
  if (!reader.ok()) return malformed(reader.status().message());
  if (reader->kind() != static_cast<uint8_t>(RecordKind::kCursor)) {
    return malformed(absl::StrCat("is a record of kind ", reader->kind()));
  }
  RecordReader fields = *reader;
  Cursor cursor;
  cursor.identity = ReadIdentity(fields);
  cursor.generation = fields.Number();
  cursor.done = fields.Batches();
  if (const absl::Status status = fields.Finish(); !status.ok()) {
    return malformed(status.message());
  }
  if (const absl::Status status = CheckIdentity(cursor.identity); !status.ok()) {
    return malformed(status.message());
  }
  if (cursor.done.end() > cursor.identity.num_batches()) {
    return malformed(absl::StrCat("batch ", cursor.done.end() - 1, " is done, the epoch has ",
                                  cursor.identity.num_batches(), " batches"));
  }
  return cursor;
}

}  // namespace packhouse
