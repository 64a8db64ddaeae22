#include "service/server/http/watching_pages.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace packhouse::http {
namespace {

Page OkUnless(const std::string& why_not, const char* ok) {
  return why_not.empty() ? Page{.body = ok}
                         : Page{.status = 503, .body = absl::StrCat(why_not, "\n")};
}

}  // namespace

std::vector<Route> WatchingPages(Watched watched) {
  return {
      {.path = "/metrics",
       .render =
           [open_metrics = std::move(watched.open_metrics)] {
             return Page{200, "application/openmetrics-text; version=1.0.0; charset=utf-8",
                         open_metrics()};
           },
       .accepts = "application/openmetrics-text"},
      {.path = "/metrics",
       .render =
           [exposition = std::move(watched.exposition)] {
             return Page{200, "text/plain; version=0.0.4; charset=utf-8", exposition()};
           }},
      {.path = "/healthz",
       .render = [why_not =
                      std::move(watched.why_not_healthy)] { return OkUnless(why_not(), "ok\n"); },
       .is_free = true},
      {.path = "/readyz",
       .render = [why_not =
                      std::move(watched.why_not_ready)] { return OkUnless(why_not(), "ready\n"); },
       .is_free = true}};
}

}  // namespace packhouse::http
