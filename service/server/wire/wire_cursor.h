// Cursors and page tokens as clients have them: signed by the server that gave them.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_CURSOR_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_CURSOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "service/access/text_signer.h"
#include "service/server/calls/call_context.h"

namespace packhouse {

// A cursor for a client. Empty stays empty. Without a signer it is not signed.
std::string SignedCursor(const TextSigner* signer, std::string cursor);
// Of all cursors in a message.
void SignCursors(const TextSigner* signer, v1::Epoch& epoch);
void SignCursors(const TextSigner* signer, v1::LoadOpened& opened);

// A cursor that a client has brought, without its signature. Releases up to 0.1 did not sign
// cursors; these are taken if the context says so. INVALID_ARGUMENT naming the cursor as
// TextSigner::Verify; what is in it is for DecodeCursor() to check.
absl::StatusOr<std::string> CursorFromClient(const CallContext& context, absl::string_view cursor);

// A page token: the name after which the next page begins, signed for one kind of list
// ("ListJobs"). Empty stays empty.
std::string PageTokenToClient(const CallContext& context, absl::string_view list,
                              absl::string_view name);
// INVALID_ARGUMENT naming page_token. Without a signer it is what the client has sent.
absl::StatusOr<std::string> PageTokenFromClient(const CallContext& context, absl::string_view list,
                                                absl::string_view token);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_CURSOR_H_
