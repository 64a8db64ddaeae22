#include "service/program/flag_checks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

std::function<std::string(const std::string&)> DurationFrom(absl::Duration least,
                                                            absl::Duration most) {
  return [least, most](const std::string& text) -> std::string {
    absl::Duration duration;
    if (absl::ParseDuration(text, &duration) && duration >= least && duration <= most) return "";
    return absl::StrCat("'", text, "' is not a duration from ",
                        least == absl::ZeroDuration() ? "0s" : absl::FormatDuration(least), " to ",
                        absl::ToInt64Hours(most), "h, such as 30s");
  };
}

std::string HasSecret(const std::string& address) {
  return absl::StrContains(address, '@')
             ? "it has an '@': it names a host and a port, never a user or password"
             : "";
}

std::string IsRetention(const std::string& text) {
  return std::string(ParseRetention(text).status().message());
}

absl::Status CheckRetention(absl::string_view flag, const Retention& retention,
                            const Options& options) {
  if (options.membership.ledger.empty() || options.store.is_shared || retention.is_for_ever()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": not with --ledger and --data-dir: each server has a copy, which nothing changes"));
}

std::string RetentionText(const Retention& retention) {
  std::string text = absl::FormatDuration(retention.otherwise);
  for (const auto& [name, duration] : retention.of_namespace) {
    absl::StrAppend(&text, ",", name, "=", absl::FormatDuration(duration));
  }
  return text;
}

}  // namespace packhouse
