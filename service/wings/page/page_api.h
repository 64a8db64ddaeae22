// What the page asks, by address: /api/... on the HTTP port.
//
// - state: the version, and whether the server is ready, or why not; at once.
// - overview: the same, rates, efficiency, memory, disks, who waits for whom; at once.
// - sources: what has sizes: data sets, named histograms, open streams.
// - sizes?source=S&x=C&y=C&bins=N&scale=linear|log: heat_map.h; of a data set also "bytes_per_row";
//   of a stream "sample_of", the graphs that have come, if those that are kept are fewer.
// - plan?source=S&limit=C:N&...&steps=N&seed=N&compare=1&patterns=N: a plan for limits: "best".
// - tune?source=S&max=C:N&multiple=C:N&bytes=C:N&memory=N&steps=N: limits for a device: "shape",
//   "frontier", "reasons", "exact".
// - jobs?page=TOKEN: jobs that have epochs.
// - job?name=N: one of them, with who works on it.
// - data: data sets (with "drift" if their sizes have changed), source graphs, measured models,
//   quotas.
//
// A plan also has "others" and "next_fit" if `compare` is 1, and that of PatternsJson() if
// `patterns` is not 0. Lists are bounded (page_answers.h); that of data says in "more" if there are
// more.
//
// S is dataset/NAME, histogram/NAME or stream/NUMBER. All but the first two are asked with
// `view=V`, a name that the browser has made up for the view: while there is work on them, the
// status is 202, and the browser asks again (page_jobs.h). An error is {"code", "error"}. Its HTTP
// status is 401 or 403 if the viewer may not ask, and 503 if the page has too much to do. Other
// errors are answers, such as that a graph exceeds the limits, and have status 200.
//
// Lists, plans and searches are calls to the server itself (PageCalls), with the viewer's own
// rights, shares and bounds. What is read without a call is shown to those who may view something,
// and names only to those who may see them. A stream is seen by its own principal, by those who
// may view what it names, and by those who may administer the server.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_API_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_API_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/authorizer.h"
#include "service/access/policy.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/engine/streams/live_streams.h"
#include "service/server/calls/page_calls.h"
#include "service/wings/page/history.h"
#include "service/wings/page/page_jobs.h"
#include "service/wings/page/page_query.h"
#include "service/wings/page/server_reading.h"

namespace packhouse::page {

// Where the page reads the server. Everything is thread-safe and outlives the PageApi.
struct PageSources {
  Clock* clock = nullptr;
  PageCalls* calls = nullptr;
  MemoryBudget* memory = nullptr;          // May be null.
  const Authorizer* authorizer = nullptr;  // Null: everybody may see everything.
  // Is also called on the thread of the HTTP port: does not wait for the disk.
  std::function<ServerReading()> reading;
  // The same of its state alone.
  std::function<ServerState()> state;
  // Of all namespaces that the policy gives any.
  std::function<std::vector<QuotaReading>()> quotas;
  std::function<std::vector<EpochWatch>(const std::string& job)> watch_job;
  const LiveStreams* streams = nullptr;  // Null: none are shown.
};

// Thread-safe.
class PageApi {
 public:
  explicit PageApi(PageSources sources, const PageJobs::Bounds& bounds = {});
  ~PageApi();
  PageApi(const PageApi&) = delete;
  PageApi& operator=(const PageApi&) = delete;

  // The paths that there are.
  static std::vector<std::string> Paths();

  // Does not wait for work. `query` is what comes after the question mark, as it came.
  PageAnswer Answer(absl::string_view path, absl::string_view query, const Viewer& viewer);

 private:
  // What the clock's callbacks hold.
  struct Alive;

  // The one place that says who may see what is read without a call.
  absl::Status Allowed(const Viewer& viewer) const;
  void SampleLater();
  void Sample();

  const PageSources sources_;
  History history_;
  const std::shared_ptr<Alive> alive_;
  // While all threads work, one sample waits for them, and no second one.
  std::atomic<bool> sample_waits_ = true;
  // Its threads use what is above.
  PageJobs jobs_;
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_API_H_
