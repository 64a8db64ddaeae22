#include "service/wings/partition/jobs/partition_state.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/checked_lines.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kStateTitle = "packhouse partition 1";

absl::Status IsNoState() {
  return absl::DataLossError("is damaged, or was written by a later release of packhoused");
}

}  // namespace

std::string StateText(const PartitionState& state) {
  std::string lines = absl::StrCat("plan ", PlanText(state.plan), "\nowner ",
                                   absl::Utf8SafeCEscape(state.owner), "\n");
  if (state.end) {
    absl::StrAppend(&lines, "ended ", static_cast<int>(state.end->code()), " ",
                    absl::Utf8SafeCEscape(state.end->message()), "\n");
  }
  return WithChecksumLine(kStateTitle, lines);
}

absl::StatusOr<PartitionState> StateOfText(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines, LinesOf(kStateTitle, text));
  PartitionState state;
  for (absl::string_view line : lines) {
    if (absl::ConsumePrefix(&line, "plan ")) {
      auto plan = PlanOfText(line);
      if (!plan.ok()) return IsNoState();
      state.plan = *std::move(plan);
    } else if (absl::ConsumePrefix(&line, "owner ")) {
      if (!absl::CUnescape(line, &state.owner)) return IsNoState();
    } else if (absl::ConsumePrefix(&line, "ended ")) {
      const size_t blank = line.find(' ');
      int code = 0;
      std::string message;
      if (blank == absl::string_view::npos || !absl::SimpleAtoi(line.substr(0, blank), &code) ||
          !absl::CUnescape(line.substr(blank + 1), &message)) {
        return IsNoState();
      }
      state.end = absl::Status(static_cast<absl::StatusCode>(code), message);
    }
  }
  if (StateText(state) == text) return state;
  return IsNoState();
}

}  // namespace packhouse
