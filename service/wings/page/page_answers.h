// The answers of the page that take calls to the server.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_ANSWERS_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/access/authorizer.h"
#include "service/access/policy.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/engine/streams/live_streams.h"
#include "service/server/calls/page_calls.h"
#include "service/wings/page/history.h"
#include "service/wings/page/json.h"
#include "service/wings/page/page_query.h"

namespace packhouse::page {

// Makes one answer. Each function blocks for its calls, and gives their errors; page_api.h says
// what is in the answers.
class PageAnswers {
 public:
  // The most things of one kind that are listed, and the most bytes of their messages: as JSON
  // these take some fifteen times as much, while the question has PageJobs::Bounds::bytes_at_work.
  static constexpr size_t kMostListed = 500;
  static constexpr uint64_t kMostListedBytes = uint64_t{512} << 10;
  // The first so many data sets of a list are asked whether their sizes have changed, each by a
  // call.
  static constexpr size_t kMostDrifts = 100;

  PageAnswers(PageCalls* calls, const Authorizer* authorizer, Viewer viewer, StopSwitch* stop,
              const LiveStreams* streams = nullptr)
      : calls_(calls),
        authorizer_(authorizer),
        viewer_(std::move(viewer)),
        stop_(stop),
        streams_(streams) {}

  absl::StatusOr<Json> Sources() const;
  absl::StatusOr<Json> Sizes(const PageQuery& query) const;
  absl::StatusOr<Json> Plan(const PageQuery& query) const;
  absl::StatusOr<Json> Tune(const PageQuery& query) const;
  absl::StatusOr<Json> Jobs(const PageQuery& query) const;
  // `watched` are the epochs of the job that somebody loads.
  using WatchJob = std::function<std::vector<EpochWatch>(const std::string& job)>;
  absl::StatusOr<Json> Job(const PageQuery& query, const WatchJob& watch, const History& history,
                           absl::Time now) const;
  // `quotas` are those of all namespaces.
  absl::StatusOr<Json> Data(const std::vector<QuotaReading>& quotas) const;

 private:
  struct Source;

  // The histogram that `source` names (page_api.h), and for a data set its schema.
  absl::StatusOr<Source> Find(const PageQuery& query) const;
  bool MaySee(const LiveStreams::Stream& stream) const;
  absl::StatusOr<LiveStreams::Sizes> FindStream(absl::string_view number) const;
  absl::Status Call(const char* method, const google::protobuf::Message& request,
                    google::protobuf::Message& response) const;
  template <typename Request, typename Response, typename Items, typename Take>
  absl::StatusOr<bool> ForEachListed(const char* method, const Items& items,
                                     const Take& take) const;
  // True if there are no more.
  absl::StatusOr<bool> AddModels(Json& models) const;
  absl::Status AddDrifts(Json& datasets) const;

  PageCalls* const calls_;
  const Authorizer* const authorizer_;
  const Viewer viewer_;
  StopSwitch* const stop_;
  const LiveStreams* const streams_;  // Null: there are none.
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_ANSWERS_H_
