#include "client/cli/reports/job_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// Empty if unknown.
template <typename Message>
std::string LastUsed(const Message& message, absl::string_view format) {
  if (!message.has_last_used()) return "";
  return absl::FormatTime(format, absl::FromUnixSeconds(message.last_used().seconds()),
                          absl::UTCTimeZone());
}

constexpr absl::string_view kForPeople = "%Y-%m-%d %H:%M UTC";
constexpr absl::string_view kForPrograms = "%Y-%m-%dT%H:%M:%SZ";

bool IsFinished(const v1::JobEpoch& epoch) { return epoch.num_done() == epoch.num_batches(); }

bool HasOwner(const v1::Job& job) { return !job.owner().empty(); }

bool IsInSegments(const v1::JobEpoch& epoch) { return epoch.num_segments() != 0; }

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string JobTable(const std::vector<v1::Job>& jobs) {
  std::vector<TextTable::Column> columns = {
      {"job", ""}, {"epochs", ""}, {"finished", ""}, {"streams", ""}, {"last used", ""}};
  // Where one server has all jobs, none is named.
  const bool has_owners = std::any_of(jobs.begin(), jobs.end(), HasOwner);
  if (has_owners) columns.push_back({"owner", ""});
  TextTable table(std::move(columns));
  for (const v1::Job& job : jobs) {
    const auto finished =
        static_cast<uint64_t>(std::count_if(job.epochs().begin(), job.epochs().end(), IsFinished));
    // For a job with very many epochs, only the latest are in the response.
    const bool all = job.num_epochs() == static_cast<uint64_t>(job.epochs_size());
    std::vector<std::string> cells = {job.job(), Grouped(job.num_epochs()),
                                      absl::StrCat(all ? "" : "at least ", Grouped(finished)),
                                      Grouped(job.num_sessions()), LastUsed(job, kForPeople)};
    if (has_owners) cells.push_back(job.owner());
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

std::string JobText(const v1::Job& job) {
  std::vector<TextTable::Column> columns = {{"epoch", ""},      {"done", ""},     {"batches", ""},
                                            {"generation", ""}, {"streams", ""},  {"data set", ""},
                                            {"opened by", ""},  {"last used", ""}};
  // Most jobs have no such epochs.
  const bool has_segments = std::any_of(job.epochs().begin(), job.epochs().end(), IsInSegments);
  if (has_segments) {
    columns.push_back({"segments", ""});
    columns.push_back({"lost to them", ""});
  }
  TextTable table(std::move(columns));
  for (const v1::JobEpoch& epoch : job.epochs()) {
    std::vector<std::string> cells = {absl::StrCat(epoch.epoch()),
                                      Grouped(epoch.num_done()),
                                      Grouped(epoch.num_batches()),
                                      absl::StrCat(epoch.generation()),
                                      Grouped(epoch.num_sessions()),
                                      epoch.dataset(),
                                      epoch.client(),
                                      LastUsed(epoch, kForPeople)};
    if (IsInSegments(epoch)) {
      cells.push_back(Grouped(epoch.num_segments()));
      cells.push_back(SmallPercent(epoch.segmentation_loss()));
    }
    table.AddRow(std::move(cells));
  }
  std::string text = absl::StrCat(job.job(), ": ", Grouped(job.num_epochs()), " epochs, ",
                                  Grouped(job.num_sessions()), " streams",
                                  HasOwner(job) ? absl::StrCat(", with ", job.owner()) : "", "\n\n",
                                  table.Render());
  const auto listed = static_cast<uint64_t>(job.epochs_size());
  if (job.num_epochs() > listed) {
    absl::StrAppend(&text, "and ", Grouped(job.num_epochs() - listed), " earlier ones\n");
  }
  return text;
}

Json JobJson(const v1::Job& job) {
  Json epochs = Json::array();
  for (const v1::JobEpoch& epoch : job.epochs()) {
    epochs.push_back(
        {{"epoch", epoch.epoch()},
         {"generation", epoch.generation()},
         {"done", epoch.num_done()},
         {"batches", epoch.num_batches()},
         {"dataset", epoch.dataset()},
         {"streams", epoch.num_sessions()},
         {"client", TextOrNull(epoch.client())},
         {"last_used", TextOrNull(LastUsed(epoch, kForPrograms))},
         {"segments", IsInSegments(epoch) ? Json(epoch.num_segments()) : Json()},
         {"segmentation_loss", IsInSegments(epoch) ? Json(epoch.segmentation_loss()) : Json()}});
  }
  return {{"job", job.job()},
          {"num_epochs", job.num_epochs()},
          {"streams", job.num_sessions()},
          {"last_used", TextOrNull(LastUsed(job, kForPrograms))},
          {"owner", TextOrNull(job.owner())},
          {"epochs", std::move(epochs)}};
}

}  // namespace packhouse::client
