#include "service/wings/graphs/services/source_graph_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_datasets.h"
#include "service/wings/graphs/services/source_graph_append_handler.h"
#include "service/wings/graphs/services/wire_source_graphs.h"

namespace packhouse::rpc {
namespace {

// Reports of progress: several a second from a slow disk.
constexpr uint64_t kVerifiedBytes = uint64_t{16} << 20;

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
    const v1::SealSourceGraphRequest& request, SealRuns& seals,
    ProgressSink<v1::SealSourceGraphResponse>& sink) {
  const CallContext& context = sink.call().context();
  SealOptions options;
  PH_ASSIGN_OR_RETURN(options.duplicates, DuplicateNodesFromWire(request.duplicates()));
  options.memory = context.working;
  // Others need room, too.
  if (context.working != nullptr) {
    options.memory_bytes = std::min(options.memory_bytes, context.working->bound() / 4);
  }
  PH_ASSIGN_OR_RETURN(auto watch,
                      seals.Start(context.client, request.name(), options, sink.Waker()));
  return std::make_unique<SealSource>(std::move(watch));
}

SealRuns::Executor OnPlanningPool(PlanningPool* pool) {
  return [pool](const ClientId& client, const std::string& graph, SealRuns::Work work) {
    const auto turn = std::make_shared<PlanningTurn>(pool, client);
    pool->Submit(turn, [turn, graph, work = std::move(work)] {
      // Nobody cancels the turn.
      turn->YieldTurnIn(NamespaceOf(graph));
      work([&turn] { return turn->YieldTurn(); });
    });
  };
}

absl::StatusOr<v1::VerifySourceGraphResponse> VerifyGraph(
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
    return !sink.YieldTurn();
  };
  PH_ASSIGN_OR_RETURN(const SourceGraphVerifyReport report,
                      graphs.Verify(request.name(), progress));
  if (!report.ok()) LogDamage(log, request.name(), report.num_damaged, report.damaged.front());
  v1::VerifySourceGraphResponse response;
  SourceGraphReportToWire(report, response);
  return response;
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

absl::StatusOr<v1::SourceGraph> CreateGraph(const v1::CreateSourceGraphRequest& request,
                                            SourceGraphStore& graphs) {
  PH_ASSIGN_OR_RETURN(const NewSourceGraph created, NewSourceGraphFromWire(request));
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info,
                      graphs.Create(created.name, created.schema, created.options));
  v1::SourceGraph response;
  SourceGraphToWire(info, response);
  return response;
}

absl::StatusOr<v1::SourceGraph> GetGraph(const v1::GetSourceGraphRequest& request,
                                         const SourceGraphStore& graphs) {
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs.Get(request.name()));
  v1::SourceGraph response;
  SourceGraphToWire(info, response);
  return response;
}

absl::StatusOr<v1::DeleteSourceGraphResponse> DeleteGraphBy(
    const v1::DeleteSourceGraphRequest& request,
    const SourceGraphService::DeleteGraph& delete_graph, EpochCatalog* catalog,
    const CallContext& context) {
  PH_RETURN_IF_ERROR(delete_graph(request.name()));
  if (catalog != nullptr) catalog->ForgetThing(request.name());
  LogDeletion(context.log, context.client, "source graph", request.name());
  return v1::DeleteSourceGraphResponse();
}

}  // namespace

SourceGraphService::SourceGraphService(const CallContext& context, SourceGraphStore* graphs,
                                       DeleteGraph delete_graph, EpochCatalog* catalog,
                                       bool are_distant)
    : EarlyService(v1::SourceGraphService::service_full_name(), context),
      delete_graph_(std::move(delete_graph)),
      seals_(graphs, OnPlanningPool(context.planning_pool)) {
  const absl::Status lacks = graphs == nullptr ? NoDataFolder() : absl::OkStatus();
  const Waits opens = are_distant ? Waits::kStore : Waits::kTurns;
  Serve({
      Row(Method::kCreateSourceGraph, Waits::kStore, lacks,
          [graphs](const v1::CreateSourceGraphRequest& request, RequestCall& /*call*/) {
            return CreateGraph(request, *graphs);
          }),
      StreamRow<v1::AppendSourceGraphRequest, v1::AppendSourceGraphResponse>(
          Method::kAppendSourceGraph, Waits::kStore, lacks,
          [graphs](const StreamOpening& stream) {
            return std::make_unique<SourceGraphAppendHandler>(graphs, stream.context.working,
                                                              stream.context.clock);
          }),
      Row(Method::kSealSourceGraph, Waits::kTurns, lacks,
          [this](const v1::SealSourceGraphRequest& request,
                 ProgressSink<v1::SealSourceGraphResponse>& sink) {
            return SealGraph(request, seals_, sink);
          }),
      Row(Method::kGetSourceGraph, Waits::kTurns, lacks,
          [graphs](const v1::GetSourceGraphRequest& request, RequestCall& /*call*/) {
            return GetGraph(request, *graphs);
          }),
      Row(Method::kListSourceGraphs, Waits::kTurns, lacks,
          [graphs](const v1::ListSourceGraphsRequest& request, RequestCall& call) {
            return ListGraphs(request, call.context(), *graphs);
          }),
      Row(Method::kDeleteSourceGraph, Waits::kStore, lacks,
          [this, catalog](const v1::DeleteSourceGraphRequest& request, RequestCall& call) {
            return DeleteGraphBy(request, delete_graph_, catalog, call.context());
          }),
      Row(Method::kVerifySourceGraph, Waits::kPlans, lacks,
          [graphs](const v1::VerifySourceGraphRequest& request,
                   ProgressSink<v1::VerifySourceGraphResponse>& sink) {
            return VerifyGraph(request, *graphs, sink.call().context().log, sink);
          }),
      Row(Method::kLookupNodes, opens, lacks,
          [graphs](const v1::LookupNodesRequest& request,
                   RequestCall& call) -> absl::StatusOr<v1::LookupNodesResponse> {
            PH_ASSIGN_OR_RETURN(const auto graph, graphs->Open(request.graph()));
            // Until it is told: who does not read the answer holds no work's memory.
            MemoryHold memory;
            return LookUpNodes(request, *graph, call.context().max_response_bytes,
                               call.context().working, memory);
          }),
      Row(Method::kReadEdges, opens, lacks,
          [graphs](const v1::ReadEdgesRequest& request,
                   RequestCall& call) -> absl::StatusOr<v1::ReadEdgesResponse> {
            PH_ASSIGN_OR_RETURN(const auto graph, graphs->Open(request.graph()));
            MemoryHold memory;
            return ReadEdges(request, *graph, call.context().max_response_bytes,
                             call.context().working, memory);
          }),
  });
}

}  // namespace packhouse::rpc
