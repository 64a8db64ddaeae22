#include "service/wings/graphs/services/source_graph_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/calls_grpc/stream_reactor.h"
#include "service/server/calls_grpc/unary_call.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_datasets.h"
#include "service/wings/graphs/services/source_graph_append_handler.h"
#include "service/wings/graphs/services/wire_source_graphs.h"

namespace packhouse::rpc {
namespace {

// Reports of progress: several a second from a slow disk.
constexpr uint64_t kVerifiedBytes = uint64_t{16} << 20;

// The one response of a call after its progress.
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

// The progress of a seal, then its result. The seal goes on when the call ends before.
class SealSource final : public ResponseSource<v1::SealSourceGraphResponse> {
 public:
  explicit SealSource(std::unique_ptr<SealRuns::Watch> watch) : watch_(std::move(watch)) {}

  absl::StatusOr<std::optional<v1::SealSourceGraphResponse>> Next() override {
    if (has_ended_) return std::nullopt;
    const SealRuns::State state = watch_->state();
    v1::SealSourceGraphResponse response;
    if (!state.result) {
      if (state.progress.done == reported_) return std::nullopt;
      reported_ = state.progress.done;
      response.set_work_done(state.progress.done);
      response.set_work_total(state.progress.total);
      return response;
    }
    has_ended_ = true;
    PH_RETURN_IF_ERROR(state.result->status());
    response.set_work_done(1);
    response.set_work_total(1);
    SourceGraphToWire(**state.result, *response.mutable_graph());
    return response;
  }
  bool IsWaiting() const override { return !has_ended_; }

 private:
  const std::unique_ptr<SealRuns::Watch> watch_;
  uint64_t reported_ = 0;
  bool has_ended_ = false;
};

absl::StatusOr<std::unique_ptr<ResponseSource<v1::SealSourceGraphResponse>>> SealGraph(
    const v1::SealSourceGraphRequest& request, const ClientId& client, SealRuns& seals,
    MemoryBudget* working, ProgressSink<v1::SealSourceGraphResponse>& sink) {
  SealOptions options;
  PH_ASSIGN_OR_RETURN(options.duplicates, DuplicateNodesFromWire(request.duplicates()));
  options.memory = working;
  // Others need room, too.
  if (working != nullptr) {
    options.memory_bytes = std::min(options.memory_bytes, working->bound() / 4);
  }
  PH_ASSIGN_OR_RETURN(auto watch, seals.Start(client, request.name(), options, sink.Waker()));
  return std::make_unique<SealSource>(std::move(watch));
}

SealRuns::Executor OnPlanningPool(PlanningPool* pool) {
  return [pool](const ClientId& client, const std::string& graph, SealRuns::Work work) {
    const auto turn = std::make_shared<PlanningTurn>(pool, client);
    pool->Submit(turn, [turn, graph, work = std::move(work)] {
      // Nobody cancels the turn.
      turn->GivenUpIn(NamespaceOf(graph));
      work([&turn] { return turn->GivenUp(); });
    });
  };
}

absl::StatusOr<std::unique_ptr<ResponseSource<v1::VerifySourceGraphResponse>>> VerifyGraph(
    const v1::VerifySourceGraphRequest& request, const SourceGraphStore& graphs, const CallLog& log,
    ProgressSink<v1::VerifySourceGraphResponse>& sink) {
  uint64_t reported = 0;
  const auto progress = [&](const SourceGraphProgress& now) {
    if (now.done - reported >= kVerifiedBytes) {
      reported = now.done;
      v1::VerifySourceGraphResponse response;
      response.set_num_bytes(now.done);
      response.set_num_bytes_total(now.total);
      sink.Report(response);
    }
    return !sink.given_up();
  };
  PH_ASSIGN_OR_RETURN(const SourceGraphVerifyReport report,
                      graphs.Verify(request.name(), progress));
  if (!report.ok()) LogDamage(log, request.name(), report.num_damaged, report.damaged.front());
  v1::VerifySourceGraphResponse response;
  SourceGraphReportToWire(report, response);
  return std::make_unique<LastResponse<v1::VerifySourceGraphResponse>>(std::move(response));
}

// A page ends at this many bytes of schemas, so that there are not a thousand of them in memory
// three times.
constexpr size_t kMostListedBytes = size_t{2} << 20;
constexpr size_t kGraphsAtOnce = 16;

constexpr absl::string_view kList = "ListSourceGraphs";

// Shows what the caller may see. The token names something that it may see, too.
absl::StatusOr<v1::ListSourceGraphsResponse> ListGraphs(const v1::ListSourceGraphsRequest& request,
                                                        const CallContext& context,
                                                        const SourceGraphStore& graphs) {
  const size_t asked_for =
      request.page_size() == 0 ? SourceGraphStore::kDefaultPageSize : request.page_size();
  const size_t page_size = std::min(asked_for, SourceGraphStore::kMaxPageSize);
  v1::ListSourceGraphsResponse response;
  PH_ASSIGN_OR_RETURN(std::string after, PageTokenFromClient(context, kList, request.page_token()));
  size_t bytes = 0;
  size_t listed = 0;
  do {
    PH_ASSIGN_OR_RETURN(SourceGraphList list,
                        graphs.List(std::min(page_size - listed, kGraphsAtOnce), after));
    after = list.next_page_token;
    if (context.authorizer != nullptr) {
      std::erase_if(list.graphs, [&](const SourceGraphInfo& info) {
        return !context.authorizer->MaySee(context.principal(), info.name);
      });
    }
    if (list.graphs.empty()) continue;
    v1::ListSourceGraphsResponse part;
    SourceGraphListToWire(list, part);
    bytes += part.ByteSizeLong();
    listed += list.graphs.size();
    response.MergeFrom(part);
    response.set_next_page_token(list.graphs.back().name);
  } while (!after.empty() && listed < page_size && bytes < kMostListedBytes);
  response.set_next_page_token(
      after.empty() ? "" : PageTokenToClient(context, kList, response.next_page_token()));
  return response;
}

}  // namespace

SourceGraphService::SourceGraphService(const CallContext& context, SourceGraphStore* graphs,
                                       DeleteGraph delete_graph, EpochCatalog* catalog,
                                       bool are_distant)
    : EarlyService(v1::SourceGraphService::service_full_name()),
      context_(context),
      append_context_(context.OnAppendPool()),
      open_context_(are_distant ? append_context_ : context_),
      graphs_(graphs),
      delete_graph_(std::move(delete_graph)),
      catalog_(catalog),
      seals_(graphs, OnPlanningPool(context.planning_pool)) {
  Serve("CreateSourceGraph", &SourceGraphService::Create);
  Serve("AppendSourceGraph", &SourceGraphService::Append);
  Serve("SealSourceGraph", &SourceGraphService::Seal);
  Serve("GetSourceGraph", &SourceGraphService::Get);
  Serve("ListSourceGraphs", &SourceGraphService::List);
  Serve("DeleteSourceGraph", &SourceGraphService::Delete);
  Serve("VerifySourceGraph", &SourceGraphService::Verify);
  Serve("LookupNodes", &SourceGraphService::Lookup);
  Serve("ReadEdges", &SourceGraphService::Edges);
}

CallReactor* SourceGraphService::Create(grpc::CallbackServerContext* call) {
  return RunUnary<v1::CreateSourceGraphRequest>(
      append_context_, Method::kCreateSourceGraph, call,
      [this](const v1::CreateSourceGraphRequest& parsed) -> absl::StatusOr<v1::SourceGraph> {
        if (graphs_ == nullptr) return NoDataFolder();
        PH_ASSIGN_OR_RETURN(const NewSourceGraph created, NewSourceGraphFromWire(parsed));
        PH_ASSIGN_OR_RETURN(const SourceGraphInfo info,
                            graphs_->Create(created.name, created.schema, created.options));
        v1::SourceGraph response;
        SourceGraphToWire(info, response);
        return response;
      });
}

CallReactor* SourceGraphService::Append(grpc::CallbackServerContext* call) {
  return StreamReactor<v1::AppendSourceGraphRequest, v1::AppendSourceGraphResponse>::Start(
      append_context_, *call, Method::kAppendSourceGraph,
      std::make_unique<SourceGraphAppendHandler>(graphs_, append_context_.working,
                                                 append_context_.clock));
}

CallReactor* SourceGraphService::Seal(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::SealSourceGraphRequest, v1::SealSourceGraphResponse>;
  const auto begin = [this, client = context_.ClientOf(CredentialsOf(*call))](
                         const v1::SealSourceGraphRequest& parsed,
                         ProgressSink<v1::SealSourceGraphResponse>& sink)
      -> absl::StatusOr<std::unique_ptr<Call::Source>> {
    if (graphs_ == nullptr) return NoDataFolder();
    return SealGraph(parsed, client, seals_, context_.working, sink);
  };
  return Call::Start(context_, *call, Method::kSealSourceGraph, begin, /*at_once=*/begin);
}

CallReactor* SourceGraphService::Get(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetSourceGraphRequest>(
      context_, Method::kGetSourceGraph, call,
      [this](const v1::GetSourceGraphRequest& parsed) -> absl::StatusOr<v1::SourceGraph> {
        if (graphs_ == nullptr) return NoDataFolder();
        PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs_->Get(parsed.name()));
        v1::SourceGraph response;
        SourceGraphToWire(info, response);
        return response;
      });
}

CallReactor* SourceGraphService::List(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListSourceGraphsRequest>(
      context_, Method::kListSourceGraphs, call,
      [this](const v1::ListSourceGraphsRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::ListSourceGraphsResponse> {
        if (graphs_ == nullptr) return NoDataFolder();
        return ListGraphs(parsed, context, *graphs_);
      });
}

CallReactor* SourceGraphService::Delete(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeleteSourceGraphRequest>(
      append_context_, Method::kDeleteSourceGraph, call,
      [this](const v1::DeleteSourceGraphRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::DeleteSourceGraphResponse> {
        if (graphs_ == nullptr) return NoDataFolder();
        PH_RETURN_IF_ERROR(delete_graph_(parsed.name()));
        if (catalog_ != nullptr) catalog_->ForgetThing(parsed.name());
        LogDeletion(context.log, context.client, "source graph", parsed.name());
        return v1::DeleteSourceGraphResponse();
      });
}

CallReactor* SourceGraphService::Verify(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::VerifySourceGraphRequest, v1::VerifySourceGraphResponse>;
  return Call::Start(context_, *call, Method::kVerifySourceGraph,
                     [this](const v1::VerifySourceGraphRequest& parsed,
                            ProgressSink<v1::VerifySourceGraphResponse>& sink)
                         -> absl::StatusOr<std::unique_ptr<Call::Source>> {
                       if (graphs_ == nullptr) return NoDataFolder();
                       return VerifyGraph(parsed, *graphs_, context_.log, sink);
                     });
}

CallReactor* SourceGraphService::Lookup(grpc::CallbackServerContext* call) {
  return RunUnary<v1::LookupNodesRequest>(
      open_context_, Method::kLookupNodes, call,
      [this](const v1::LookupNodesRequest& parsed) -> absl::StatusOr<v1::LookupNodesResponse> {
        if (graphs_ == nullptr) return NoDataFolder();
        PH_ASSIGN_OR_RETURN(const auto graph, graphs_->Open(parsed.graph()));
        MemoryHold hold;
        return LookUpNodes(parsed, *graph, context_.max_response_bytes, context_.working, hold);
      });
}

CallReactor* SourceGraphService::Edges(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ReadEdgesRequest>(
      open_context_, Method::kReadEdges, call,
      [this](const v1::ReadEdgesRequest& parsed) -> absl::StatusOr<v1::ReadEdgesResponse> {
        if (graphs_ == nullptr) return NoDataFolder();
        PH_ASSIGN_OR_RETURN(const auto graph, graphs_->Open(parsed.graph()));
        MemoryHold hold;
        return ReadEdges(parsed, *graph, context_.max_response_bytes, context_.working, hold);
      });
}

}  // namespace packhouse::rpc
