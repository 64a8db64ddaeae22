#include "client/cli/confirm.h"

#include <unistd.h>

#include <iostream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {

std::optional<ExitCode> RefusalToDo(bool yes,
                                    absl::FunctionRef<absl::StatusOr<std::string>()> describe) {
  if (yes) return std::nullopt;
  const absl::StatusOr<std::string> deed = describe();
  if (!deed.ok()) return Fail(deed.status());
  if (isatty(STDIN_FILENO) == 0) {
    return Misuse(absl::InvalidArgumentError(
        absl::StrCat("to ", *deed, " where nobody can be asked, add --yes")));
  }
  std::cerr << *deed << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  answer = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  if (answer == "y" || answer == "yes") return std::nullopt;
  return Fail(absl::CancelledError("nothing was done"));
}

}  // namespace packhouse::client
