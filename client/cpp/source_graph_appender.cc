#include "client/cpp/source_graph_appender.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/producer.h"

namespace packhouse::client {
namespace {

uint64_t CountOf(const v1::NodeIds& ids) {
  return ids.has_text() ? ids.text().lengths().size() / sizeof(uint32_t)
                        : ids.integers().size() / sizeof(int64_t);
}

}  // namespace

SourceGraphAppender::SourceGraphAppender(std::shared_ptr<grpc::Channel> channel,
                                         SourceGraphAppenderOptions options)
    : options_(std::move(options)),
      stub_(v1::SourceGraphService::NewStub(channel)),
      stream_(
          std::move(channel),
          {"request", absl::StrCat("AppendSourceGraph to '", options_.graph, "'"),
           options_.max_unanswered, options_.max_unanswered_bytes, options_.stream_time,
           options_.retry},
          [this](grpc::ClientContext* context) { return stub_->AppendSourceGraph(context); },
          [this](const v1::AppendSourceGraphRequest& request, std::size_t bytes,
                 const v1::AppendSourceGraphResponse& response) {
            return Take(request, bytes, response);
          }) {}

absl::Status SourceGraphAppender::Append(v1::AppendSourceGraphRequest request) {
  if (!stream_.status().ok()) return stream_.status();
  if (absl::Status asked = Ask(); !asked.ok()) return asked;
  request.set_graph(options_.graph);
  request.set_graph_id(options_.graph_id);
  SetProducer(options_.producer, ++last_sequence_, options_.forget_after,
              *request.mutable_producer_sequence());
  if (last_sequence_ < asked_->producer_state().first_remembered_sequence()) {
    has_unsent_ = true;
    v1::AppendSourceGraphResponse repetition;
    repetition.set_is_repetition(true);
    return Take(request, request.ByteSizeLong(), repetition);
  }
  return stream_.Send(std::move(request));
}

absl::Status SourceGraphAppender::Ask() {
  if (asked_) return absl::OkStatus();
  v1::AppendSourceGraphRequest request;
  request.set_graph(options_.graph);
  request.set_graph_id(options_.graph_id);
  request.mutable_producer_sequence()->set_producer(options_.producer);
  if (absl::Status sent = stream_.Send(std::move(request)); !sent.ok()) return sent;
  if (absl::Status flushed = stream_.Flush(); !flushed.ok()) return flushed;
  return asked_ ? absl::OkStatus() : absl::InternalError("the server said nothing of the producer");
}

absl::Status SourceGraphAppender::Finish() {
  if (absl::Status finished = stream_.Finish(); !finished.ok()) return finished;
  if (!has_unsent_) return absl::OkStatus();
  return CheckSomeWereSent(options_.producer, last_sequence_, asked_->producer_state());
}

absl::Status SourceGraphAppender::Take(const v1::AppendSourceGraphRequest& request,
                                       std::size_t bytes,
                                       const v1::AppendSourceGraphResponse& response) {
  if (request.producer_sequence().sequence() == 0) {
    asked_ = response;
    return absl::OkStatus();
  }
  SourceGraphAnswer answer;
  answer.sequence = request.producer_sequence().sequence();
  answer.bytes = bytes;
  for (const v1::SourceNodeRows& rows : request.nodes()) answer.num_nodes += CountOf(rows.ids());
  for (const v1::SourceEdgeRows& rows : request.edges()) {
    answer.num_edges += CountOf(rows.sources());
  }
  answer.is_repetition = response.is_repetition();
  if (!answer.is_repetition &&
      (response.num_nodes() != answer.num_nodes || response.num_edges() != answer.num_edges)) {
    return absl::InternalError(absl::StrCat("the server stored ", response.num_nodes(),
                                            " nodes and ", response.num_edges(),
                                            " edges of request ", answer.sequence, ", which has ",
                                            answer.num_nodes, " and ", answer.num_edges));
  }
  if (options_.on_answer) options_.on_answer(answer);
  return absl::OkStatus();
}

}  // namespace packhouse::client
