#include "client/cpp/source_graph_client.h"

#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

SourceGraphClient::SourceGraphClient(Servers servers, SourceGraphClientOptions options)
    : anywhere_(WithRetry(servers, options.retry, "SourceGraphService", options.call_timeout)),
      at_home_(
          WithRetry(servers.current(), options.retry, "SourceGraphService", options.call_timeout)),
      slowly_(WithRetry(servers, options.retry, "SourceGraphService", options.long_timeout)) {}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Create(
    const v1::CreateSourceGraphRequest& request) const {
  return Call(at_home_, &Stub::CreateSourceGraph, request);
}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Get(const std::string& name) const {
  v1::GetSourceGraphRequest request;
  request.set_name(name);
  return Call(anywhere_, &Stub::GetSourceGraph, request);
}

absl::StatusOr<std::vector<v1::SourceGraph>> SourceGraphClient::List(uint32_t page_size) const {
  v1::ListSourceGraphsRequest request;
  request.set_page_size(page_size);
  return ListAll(anywhere_, &Stub::ListSourceGraphs, request,
                 &v1::ListSourceGraphsResponse::mutable_graphs);
}

absl::Status SourceGraphClient::Delete(const std::string& name) const {
  v1::DeleteSourceGraphRequest request;
  request.set_name(name);
  return CallToDelete(at_home_, &Stub::DeleteSourceGraph, request);
}

absl::StatusOr<v1::SourceGraph> SourceGraphClient::Seal(const v1::SealSourceGraphRequest& request,
                                                        Progress progress) const {
  v1::SealSourceGraphResponse last;
  const absl::Status status = slowly_(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto stream = Stub(channel).SealSourceGraph(&context, request);
        v1::SealSourceGraphResponse response;
        last.Clear();
        while (stream->Read(&response)) {
          progress(response.work_done(), response.work_total());
          last = std::move(response);
        }
        return stream->Finish();
      },
      nullptr);
  if (!status.ok()) return status;
  if (!last.has_graph()) return absl::InternalError("the sealing ended without a result");
  return std::move(*last.mutable_graph());
}

absl::StatusOr<v1::VerifySourceGraphResponse> SourceGraphClient::Verify(const std::string& name,
                                                                        Progress progress) const {
  v1::VerifySourceGraphRequest request;
  request.set_name(name);
  v1::VerifySourceGraphResponse last;
  const absl::Status status = slowly_(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto stream = Stub(channel).VerifySourceGraph(&context, request);
        v1::VerifySourceGraphResponse response;
        last.Clear();
        while (stream->Read(&response)) {
          progress(response.num_bytes(), response.num_bytes_total());
          last = std::move(response);
        }
        return stream->Finish();
      },
      nullptr);
  if (!status.ok()) return status;
  if (!last.finished()) return absl::InternalError("the verification ended without a result");
  return last;
}

absl::StatusOr<v1::LookupNodesResponse> SourceGraphClient::Lookup(
    const v1::LookupNodesRequest& request) const {
  return Call(anywhere_, &Stub::LookupNodes, request);
}

absl::StatusOr<v1::ReadEdgesResponse> SourceGraphClient::ReadEdges(
    const v1::ReadEdgesRequest& request) const {
  return Call(anywhere_, &Stub::ReadEdges, request);
}

}  // namespace packhouse::client
