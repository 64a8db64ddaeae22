#include "service/server/wire/wire_cursor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/engine/jobs/cursor.h"

namespace packhouse {
namespace {

constexpr absl::string_view kCursor = "cursor";
// More than any signature.
constexpr size_t kSignature = 64;

std::string PurposeOf(absl::string_view list) { return absl::StrCat("page_token of ", list); }

}  // namespace

std::string SignedCursor(const TextSigner* signer, std::string cursor) {
  if (signer == nullptr || cursor.empty()) return cursor;
  return signer->Sign(kCursor, cursor);
}

void SignCursors(const TextSigner* signer, v1::Epoch& epoch) {
  epoch.set_start_cursor(SignedCursor(signer, std::move(*epoch.mutable_start_cursor())));
}

void SignCursors(const TextSigner* signer, v1::LoadOpened& opened) {
  opened.set_cursor(SignedCursor(signer, std::move(*opened.mutable_cursor())));
  if (opened.has_epoch()) SignCursors(signer, *opened.mutable_epoch());
}

absl::StatusOr<std::string> CursorFromClient(const CallContext& context, absl::string_view cursor) {
  // What is too long to be a cursor is refused by its length.
  if (context.signer == nullptr || cursor.empty() ||
      cursor.size() > kMaxCursorLength + kSignature) {
    return std::string(cursor);
  }
  return context.signer->Verify(kCursor, cursor);
}

std::string PageTokenToClient(const CallContext& context, absl::string_view list,
                              absl::string_view name) {
  if (context.signer == nullptr || name.empty()) return std::string(name);
  return context.signer->Sign(PurposeOf(list), name);
}

absl::StatusOr<std::string> PageTokenFromClient(const CallContext& context, absl::string_view list,
                                                absl::string_view token) {
  if (context.signer == nullptr || token.empty()) return std::string(token);
  return context.signer->Verify(PurposeOf(list), token);
}

}  // namespace packhouse
