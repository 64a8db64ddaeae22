#include "client/cpp/status.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/away.h"

namespace packhouse::client {

absl::Status ToAbslStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(status.error_message(), MeaningOfEnd(status.error_message())));
}

}  // namespace packhouse::client
