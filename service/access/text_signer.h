// Texts that the server gives to clients and takes back: nobody else can make one.
#ifndef PACKHOUSE_SERVICE_ACCESS_TEXT_SIGNER_H_
#define PACKHOUSE_SERVICE_ACCESS_TEXT_SIGNER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Thread-safe.
class TextSigner {
 public:
  virtual ~TextSigner() = default;

  // `text` with its signature: printable, without blanks, some 30 characters longer. `purpose`,
  // such as "cursor", is signed too: what was signed for one is no good for another.
  virtual std::string Sign(absl::string_view purpose, absl::string_view text) const = 0;

  // The text that was signed. INVALID_ARGUMENT naming the purpose, and saying what is wrong, if it
  // is not one that Sign() has given with the same key.
  virtual absl::StatusOr<std::string> Verify(absl::string_view purpose,
                                             absl::string_view signed_text) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_TEXT_SIGNER_H_
