#include "client/cpp/source_graph_client.h"

#include <iterator>
#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

SourceGraphClient::SourceGraphClient(std::shared_ptr<grpc::Channel> channel,
                                     SourceGraphClientOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      stub_(v1::SourceGraphService::NewStub(channel_)) {}

absl::Status SourceGraphClient::Try(absl::Duration timeout,
                                    absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call,
                                    bool* was_retried) const {
  return CallWithRetry(channel_, options_.retry, "SourceGraphService", timeout, call, was_retried);
}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Create(
    const v1::CreateSourceGraphRequest& request) const {
  v1::SourceGraph graph;
  absl::Status status = Try(options_.call_timeout, [&](grpc::ClientContext& context) {
    return stub_->CreateSourceGraph(&context, request, &graph);
  });
  if (!status.ok()) return status;
  return graph;
}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Get(const std::string& name) const {
  v1::GetSourceGraphRequest request;
  request.set_name(name);
  v1::SourceGraph graph;
  absl::Status status = Try(options_.call_timeout, [&](grpc::ClientContext& context) {
    return stub_->GetSourceGraph(&context, request, &graph);
  });
  if (!status.ok()) return status;
  return graph;
}

absl::StatusOr<std::vector<v1::SourceGraph>> SourceGraphClient::List(uint32_t page_size) const {
  std::vector<v1::SourceGraph> graphs;
  v1::ListSourceGraphsRequest request;
  request.set_page_size(page_size);
  do {
    v1::ListSourceGraphsResponse response;
    absl::Status status = Try(options_.call_timeout, [&](grpc::ClientContext& context) {
      return stub_->ListSourceGraphs(&context, request, &response);
    });
    if (!status.ok()) return status;
    if (!response.next_page_token().empty() && response.next_page_token() == request.page_token()) {
      return absl::InternalError("the server's next page is the one that it has just sent");
    }
    graphs.insert(graphs.end(), std::make_move_iterator(response.mutable_graphs()->begin()),
                  std::make_move_iterator(response.mutable_graphs()->end()));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return graphs;
}

absl::Status SourceGraphClient::Delete(const std::string& name) const {
  v1::DeleteSourceGraphRequest request;
  request.set_name(name);
  v1::DeleteSourceGraphResponse response;
  bool was_retried = false;
  absl::Status status = Try(
      options_.call_timeout,
      [&](grpc::ClientContext& context) {
        return stub_->DeleteSourceGraph(&context, request, &response);
      },
      &was_retried);
  if (was_retried && absl::IsNotFound(status)) return absl::OkStatus();
  return status;
}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Seal(const v1::SealSourceGraphRequest& request,
                                                        Progress progress) const {
  v1::SealSourceGraphResponse last;
  absl::Status status = Try(options_.long_timeout, [&](grpc::ClientContext& context) {
    const auto stream = stub_->SealSourceGraph(&context, request);
    v1::SealSourceGraphResponse response;
    last.Clear();
    while (stream->Read(&response)) {
      progress(response.work_done(), response.work_total());
      last = std::move(response);
    }
    return stream->Finish();
  });
  if (!status.ok()) return status;
  if (!last.has_graph()) return absl::InternalError("the sealing ended without a result");
  return std::move(*last.mutable_graph());
}

absl::StatusOr<v1::VerifySourceGraphResponse> SourceGraphClient::Verify(const std::string& name,
                                                                        Progress progress) const {
  v1::VerifySourceGraphRequest request;
  request.set_name(name);
  v1::VerifySourceGraphResponse last;
  absl::Status status = Try(options_.long_timeout, [&](grpc::ClientContext& context) {
    const auto stream = stub_->VerifySourceGraph(&context, request);
    v1::VerifySourceGraphResponse response;
    last.Clear();
    while (stream->Read(&response)) {
      progress(response.num_bytes(), response.num_bytes_total());
      last = std::move(response);
    }
    return stream->Finish();
  });
  if (!status.ok()) return status;
  if (!last.finished()) return absl::InternalError("the verification ended without a result");
  return last;
}

absl::StatusOr<v1::LookupNodesResponse> SourceGraphClient::Lookup(
    const v1::LookupNodesRequest& request) const {
  v1::LookupNodesResponse response;
  absl::Status status = Try(options_.call_timeout, [&](grpc::ClientContext& context) {
    return stub_->LookupNodes(&context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::ReadEdgesResponse> SourceGraphClient::ReadEdges(
    const v1::ReadEdgesRequest& request) const {
  v1::ReadEdgesResponse response;
  absl::Status status = Try(options_.call_timeout, [&](grpc::ClientContext& context) {
    return stub_->ReadEdges(&context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

}  // namespace packhouse::client
