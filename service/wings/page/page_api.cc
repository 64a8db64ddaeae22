#include "service/wings/page/page_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/page/page_answers.h"

namespace packhouse::page {
namespace {

constexpr absl::string_view kOverview = "/api/overview";
constexpr absl::string_view kState = "/api/state";

PageAnswer ErrorAnswer(const absl::Status& status) {
  int http = 200;
  if (absl::IsUnauthenticated(status)) http = 401;
  if (absl::IsPermissionDenied(status)) http = 403;
  return {http, JsonText({{"code", absl::StatusCodeToString(status.code())},
                          {"error", std::string(status.message())}})};
}

PageAnswer AnswerOf(const absl::StatusOr<Json>& json) {
  return json.ok() ? PageAnswer{200, JsonText(*json)} : ErrorAnswer(json.status());
}

}  // namespace

struct PageApi::Alive {
  absl::Mutex mutex;
  PageApi* api ABSL_GUARDED_BY(mutex) = nullptr;  // Null: it is gone.
};

PageApi::PageApi(PageSources sources, const PageJobs::Bounds& bounds)
    : sources_(std::move(sources)),
      alive_(std::make_shared<Alive>()),
      jobs_(bounds, sources_.clock, sources_.memory) {
  {
    absl::MutexLock lock(&alive_->mutex);
    alive_->api = this;
  }
  jobs_.RunSoon([this] { Sample(); });
  SampleLater();
}

PageApi::~PageApi() {
  absl::MutexLock lock(&alive_->mutex);
  alive_->api = nullptr;
}

void PageApi::Sample() {
  sample_waits_ = false;
  const ServerReading now = sources_.reading();
  history_.Add(sources_.clock->Now(), now.served, now.delivery.progress);
}

void PageApi::SampleLater() {
  sources_.clock->CallAt(sources_.clock->Now() + History::kInterval, [alive = alive_] {
    absl::MutexLock lock(&alive->mutex);
    PageApi* const api = alive->api;
    if (api == nullptr) return;
    // First, so that there is another sample also if there is no memory or no thread for this one.
    api->SampleLater();
    if (api->sample_waits_.exchange(true)) return;
    if (!RunWithinMemory([api] { api->jobs_.RunSoon([api] { api->Sample(); }); })) {
      api->sample_waits_ = false;
    }
  });
}

std::vector<std::string> PageApi::Paths() {
  return {std::string(kState), std::string(kOverview),
          "/api/sources",      "/api/sizes",
          "/api/plan",         "/api/tune",
          "/api/jobs",         "/api/job",
          "/api/data"};
}

absl::Status PageApi::Allowed(const Viewer& viewer) const {
  if (sources_.authorizer == nullptr) return absl::OkStatus();
  return sources_.authorizer->Check(viewer.principal,
                                    {Right::kView, Demand::Where::kSomewhere, "", ""});
}

PageAnswer PageApi::Answer(absl::string_view path, absl::string_view query, const Viewer& viewer) {
  if (const absl::Status allowed = Allowed(viewer); !allowed.ok()) return ErrorAnswer(allowed);
  if (path == kState) return AnswerOf(StateJson(sources_.state()));
  const absl::Time now = sources_.clock->Now();
  if (path == kOverview) {
    const ServerReading reading = sources_.reading();
    return AnswerOf(OverviewJson(reading, history_.ToJson(now, reading.served), now));
  }
  absl::StatusOr<PageQuery> parsed = PageQuery::Parse(query);
  if (!parsed.ok()) return ErrorAnswer(parsed.status());
  auto work = [this, path = std::string(path), query = *parsed,
               viewer](StopSwitch& stop) -> PageAnswer {
    const PageAnswers answers(sources_.calls, sources_.authorizer, viewer, &stop, sources_.streams);
    if (path == "/api/sources") return AnswerOf(answers.Sources());
    if (path == "/api/sizes") return AnswerOf(answers.Sizes(query));
    if (path == "/api/plan") return AnswerOf(answers.Plan(query));
    if (path == "/api/tune") return AnswerOf(answers.Tune(query));
    if (path == "/api/jobs") return AnswerOf(answers.Jobs(query));
    if (path == "/api/job") {
      return AnswerOf(answers.Job(query, sources_.watch_job, history_, sources_.clock->Now()));
    }
    if (path == "/api/data") return AnswerOf(answers.Data(sources_.quotas()));
    return {404, R"({"code":"NOT_FOUND","error":"no such question"})"};
  };
  // The same words of another viewer are another question.
  const PageJobs::Asker asker = {viewer.principal, parsed->Text("view")};
  const auto answer = jobs_.Ask(asker, absl::StrCat(path, "?", query), std::move(work));
  return answer.value_or(PageAnswer{202, "{}"});
}

}  // namespace packhouse::page
