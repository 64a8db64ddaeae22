// The table of methods: a method is a row and a function.
//
//   Row(Method::kMoveJob, Waits::kStore, lacks_cluster,
//       [this](const v1::MoveJobRequest& request, RequestCall& call) { return Move(request, call);
//       })
//
// The function answers a request with a message or, if its second parameter is a ProgressSink, with
// what it reports and then the messages of a source, or one last message. Which right a request
// needs, and whether a call is a stream, is in the contract. Streams both ways have StreamRow().
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_METHOD_TABLE_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_METHOD_TABLE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/status_macros.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_headers.h"
#include "service/server/calls/call_planning.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/request_bytes.h"
#include "service/server/calls/request_call.h"
#include "service/server/calls/response_source.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/calls/stream_handler.h"

namespace packhouse {

// What a call waits for, and so where it is worked on.
enum class Waits {
  kNothing,  // On the thread that brings the request, for anybody, and beside the gate.
  kTurns,    // It is quick: on the call pool; a stream, on the stream pool.
  kStore,    // The disk, or another machine: on the append pool; a stream, all of it.
  kPlans,    // In turns on the planning pool.
  // First on the call pool, for what is ready; if the function ends with CANCELLED there
  // (RequestCall::is_trial), on the planning pool.
  kPlansUnlessReady,
};

// What a stream both ways begins with. The pointees live as long as the call.
struct StreamOpening {
  const CallContext& context;
  CallHeaders& headers;
  // Given up when the call is stopped.
  std::shared_ptr<StreamPlanning> planning;
  std::function<void()> wake;  // The call's Waker().
};

// Constant; outlives its calls.
struct MethodRow {
  using Answer =
      std::function<absl::StatusOr<RequestCall::Given>(const RequestBytes&, RequestCall&)>;
  using Open = std::function<std::unique_ptr<CallWork>(const StreamOpening&)>;

  Method method = Method::kPack;
  Waits waits = Waits::kTurns;
  // Why the server cannot answer, such as that it has no folder for data; OK if it can.
  absl::Status lacks = absl::OkStatus();
  // The one of them that the method has is set.
  Answer answer = nullptr;
  Open open = nullptr;
  // Its kind for the gate; unset: what it waits for says it.
  std::optional<Gate::CallKind> counts_as = std::nullopt;
  // As in the contract; empty: as the method is called here.
  std::string name = "";

  bool Plans() const { return waits == Waits::kPlans || waits == Waits::kPlansUnlessReady; }
  // One request, and a stream of responses.
  bool IsSource() const { return open == nullptr && IsStream(method); }
  // Nullopt: the gate does not count it.
  std::optional<Gate::CallKind> CountsAs() const {
    if (counts_as || waits == Waits::kNothing) return counts_as;
    return Plans() ? Gate::CallKind::kPlanning : Gate::CallKind::kQuick;
  }
};

namespace internal {

// The message after all progress.
template <typename Response>
class LastResponse final : public ResponseSource<Response> {
 public:
  explicit LastResponse(Response response) : response_(std::move(response)) {}
  absl::StatusOr<std::optional<Response>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::optional<Response> response_;
};

template <typename Request, typename Response>
MethodRow::Answer AnswerBy(
    std::function<absl::StatusOr<Response>(const Request&, RequestCall&)> respond) {
  return [respond = std::move(respond)](const RequestBytes& bytes,
                                        RequestCall& call) -> absl::StatusOr<RequestCall::Given> {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, call.Read(bytes, request));
    PH_ASSIGN_OR_RETURN(const Response response, respond(request, call));
    return call.Write(response);
  };
}

template <typename Request, typename Response>
MethodRow::Answer AnswerBy(std::function<absl::StatusOr<std::unique_ptr<ResponseSource<Response>>>(
                               const Request&, ProgressSink<Response>&)>
                               begin) {
  return [begin = std::move(begin)](const RequestBytes& bytes,
                                    RequestCall& call) -> absl::StatusOr<RequestCall::Given> {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, call.Read(bytes, request));
    ProgressSink<Response> sink(&call);
    PH_ASSIGN_OR_RETURN(auto source, begin(request, sink));
    return std::make_unique<SourceWork<Response>>(call.context(), std::move(source));
  };
}

template <typename Request, typename Response>
MethodRow::Answer AnswerBy(
    std::function<absl::StatusOr<Response>(const Request&, ProgressSink<Response>&)> respond) {
  using Source = std::unique_ptr<ResponseSource<Response>>;
  return AnswerBy(std::function<absl::StatusOr<Source>(const Request&, ProgressSink<Response>&)>(
      [respond = std::move(respond)](const Request& request,
                                     ProgressSink<Response>& sink) -> absl::StatusOr<Source> {
        PH_ASSIGN_OR_RETURN(Response response, respond(request, sink));
        return std::make_unique<LastResponse<Response>>(std::move(response));
      }));
}

}  // namespace internal

template <typename Function>
MethodRow Row(Method method, Waits waits, absl::Status lacks, Function function) {
  return {.method = method,
          .waits = waits,
          .lacks = std::move(lacks),
          .answer = internal::AnswerBy(std::function(std::move(function)))};
}
template <typename Function>
MethodRow Row(Method method, Waits waits, Function function) {
  return Row(method, waits, absl::OkStatus(), std::move(function));
}

// `open`: from a StreamOpening to a std::unique_ptr<StreamHandler<Request, Response>>, which takes
// no request if the server lacks something.
template <typename Request, typename Response, typename Open>
MethodRow StreamRow(Method method, Waits waits, absl::Status lacks, Open open) {
  return {.method = method,
          .waits = waits,
          .lacks = lacks,
          .open = [lacks, open = std::move(open)](const StreamOpening& opening) {
            return std::make_unique<StreamWork<Request, Response>>(opening.context, open(opening),
                                                                   lacks);
          }};
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_METHOD_TABLE_H_
