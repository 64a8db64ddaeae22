#include "client/cpp/pack_stream.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/lane_reader.h"
#include "client/cpp/lane_writer.h"
#include "client/cpp/message_size.h"
#include "client/cpp/schema_layout.h"
#include "client/cpp/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {
namespace {

// By what a call asks for a lane, and is offered one (docs/lane.md).
constexpr char kAskKey[] = "packhouse-lane";
constexpr char kOfferKey[] = "packhouse-lane-bin";
// The same of one for its graphs.
constexpr char kAskForGraphsKey[] = "packhouse-lane-graphs";
constexpr char kOfferForGraphsKey[] = "packhouse-lane-graphs-bin";

// What the headers of the answer offer under that name.
v1::Lane Offered(const grpc::ClientContext& context, const char* key) {
  v1::Lane offer;
  const auto& headers = context.GetServerInitialMetadata();
  if (const auto found = headers.find(key); found != headers.end()) {
    offer.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()));
  }
  return offer;
}

}  // namespace

struct PackStream::Call {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::PackRequest, v1::PackResponse>> stream;
  // True until the answer to `open` or the timer's end, whichever comes first.
  std::atomic<bool> opening = true;
};

absl::StatusOr<std::unique_ptr<PackStream>> PackStream::Open(
    v1::PackingService::StubInterface& stub, const v1::PackOpen& open,
    const PackStreamOptions& options) {
  const std::shared_ptr<Call> call(new Call, OwnProcess());
  call->context.set_deadline(absl::ToChronoTime(options.deadline));
  if (options.lane != LaneUse::kOff) {
    call->context.AddMetadata(kAskKey, "1");
    call->context.AddMetadata(kAskForGraphsKey, "1");
  }

  // A context has one deadline, that of the whole stream; a timer bounds the opening.
  grpc::Alarm alarm;
  alarm.Set(absl::ToChronoTime(absl::Now() + options.open_timeout), [call](bool expired) {
    if (expired && call->opening.exchange(false)) call->context.TryCancel();
  });
  call->stream = stub.Pack(&call->context);
  auto stream = std::unique_ptr<PackStream>(
      new PackStream(call, open.has_schema() ? open.schema() : DefaultSchema()));
  v1::PackRequest request;
  *request.mutable_open() = open;
  // If the write fails, the read fails too and has the reason.
  (void)stream->Write(request);
  absl::StatusOr<std::optional<v1::PackResponse>> response = stream->Next();
  const bool timed_out = !call->opening.exchange(false);
  alarm.Cancel();
  if (timed_out) {
    return absl::DeadlineExceededError(absl::StrCat("the stream was not opened within ",
                                                    absl::FormatDuration(options.open_timeout)));
  }
  if (!response.ok()) return response.status();
  if (!response->has_value() || !(*response)->has_opened()) {
    return absl::InternalError("the server's first response was not `opened`");
  }
  stream->opened_ = std::move(*(*response)->mutable_opened());
  if (absl::Status opened = stream->OpenLane(options.lane); !opened.ok()) return opened;
  return stream;
}

absl::Status PackStream::OpenLane(LaneUse use) {
  if (use == LaneUse::kOff) return absl::OkStatus();
  auto lane = LaneReader::Open(Offered(call_->context, kOfferKey), absl::InfiniteDuration());
  if (lane.ok()) {
    lane_ = *std::move(lane);
    OpenGraphLane();
  } else if (use == LaneUse::kRequired && !absl::IsNotFound(lane.status())) {
    return lane.status();
  }
  // Without one the stream goes on; or it has ended, if the server has closed the connection.
  return absl::OkStatus();
}

void PackStream::OpenGraphLane() {
  absl::StatusOr<SchemaLayout> schema = ResolveSchema(schema_);
  // A server that reads TF-GNN's schemas takes examples.
  if (!schema.ok() || schema->tensors.empty()) return;
  auto lane = LaneWriter::Open(Offered(call_->context, kOfferForGraphsKey), *std::move(schema));
  // Without one, graphs go by gRPC.
  if (lane.ok()) graph_lane_ = *std::move(lane);
}

PackStream::PackStream(std::shared_ptr<Call> call, v1::GraphSchema schema)
    : call_(std::move(call)), schema_(std::move(schema)) {}

PackStream::~PackStream() {
  if (status_.has_value()) return;
  Cancel();
  (void)Finish();
}

absl::Status PackStream::Write(const v1::PackRequest& request) {
  if (absl::Status own = process_.Check("stream"); !own.ok()) return own;
  if (half_closed_) return absl::CancelledError("the stream is half-closed");
  if (!call_->stream->Write(request)) return absl::CancelledError("the stream has ended");
  return absl::OkStatus();
}

absl::Status PackStream::Send(v1::GraphChunk chunk) {
  if (absl::Status own = process_.Check("stream"); !own.ok()) return own;
  if (absl::Status fits = CheckMessageSize(chunk, &schema_); !fits.ok()) return fits;
  v1::PackRequest request;
  const auto slot = graph_lane_ == nullptr ? std::nullopt : graph_lane_->Place(chunk);
  if (slot) {
    *request.mutable_slot_graphs()->mutable_sizes() = std::move(*chunk.mutable_sizes());
    request.mutable_slot_graphs()->set_slot(*slot);
  } else {
    *request.mutable_graphs() = std::move(chunk);
  }
  return Write(request);
}

absl::Status PackStream::SendSizes(v1::SizeTable sizes) {
  if (absl::Status fits = CheckMessageSize(sizes); !fits.ok()) return fits;
  v1::PackRequest request;
  *request.mutable_sizes() = std::move(sizes);
  return Write(request);
}

absl::Status PackStream::SendExamples(v1::Examples examples) {
  if (absl::Status fits = CheckMessageSize(examples); !fits.ok()) return fits;
  v1::PackRequest request;
  *request.mutable_examples() = std::move(examples);
  return Write(request);
}

absl::Status PackStream::Flush(uint64_t token) {
  v1::PackRequest request;
  request.mutable_flush()->set_token(token);
  return Write(request);
}

absl::Status PackStream::HalfClose() {
  if (absl::Status own = process_.Check("stream"); !own.ok()) return own;
  if (half_closed_) return absl::CancelledError("the stream is half-closed");
  half_closed_ = true;
  if (!call_->stream->WritesDone()) return absl::CancelledError("the stream has ended");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::PackTuned>> PackStream::AwaitTuned() {
  if (absl::Status own = process_.Check("stream"); !own.ok()) return own;
  while (!tuned_.has_value()) {
    absl::StatusOr<std::optional<v1::PackResponse>> response = Read();
    if (!response.ok()) return response.status();
    if (!response->has_value()) break;
    early_.push_back(*std::move(*response));
  }
  return tuned_;
}

absl::StatusOr<std::optional<v1::PackResponse>> PackStream::Next() {
  if (absl::Status own = process_.Check("stream"); !own.ok()) return own;
  if (early_.empty()) return Read();
  std::optional<v1::PackResponse> response = std::move(early_.front());
  early_.pop_front();
  return response;
}

absl::StatusOr<std::optional<v1::PackResponse>> PackStream::Read() {
  if (!status_.has_value()) {
    v1::PackResponse response;
    if (Take(response)) {
      if (response.has_tuned()) tuned_ = response.tuned();
      return response;
    }
    // Only now: gRPC hands out the status when every response has been read.
    if (!status_.has_value()) status_ = ToAbslStatus(call_->stream->Finish());
  }
  if (!status_->ok()) return *status_;
  return std::nullopt;
}

absl::Status PackStream::Finish() {
  while (true) {
    const absl::StatusOr<std::optional<v1::PackResponse>> response = Next();
    if (!response.ok()) return response.status();
    if (!response->has_value()) return absl::OkStatus();
  }
}

bool PackStream::Take(v1::PackResponse& response) {
  if (lane_ == nullptr || num_from_grpc_ < lane_->num_before()) return TakeFromGrpc(response);
  const LaneMessage message = lane_->Take();
  switch (message.kind) {
    case LaneMessage::Kind::kBatch:
      if (response.ParseFromArray(message.response.data(),
                                  static_cast<int>(message.response.size()))) {
        return true;
      }
      Lose(absl::InternalError(absl::StrCat("lane: the server has put ", message.response.size(),
                                            " bytes that are no PackResponse")));
      return false;
    case LaneMessage::Kind::kByGrpc:
      return TakeFromGrpc(response);
    case LaneMessage::Kind::kQuiet:
    case LaneMessage::Kind::kEnd:
      break;
  }
  // The stream has to be over, too.
  if (TakeFromGrpc(response)) {
    Lose(absl::UnavailableError("the lane ended before its stream did"));
  }
  return false;
}

bool PackStream::TakeFromGrpc(v1::PackResponse& response) {
  if (!call_->stream->Read(&response)) return false;
  ++num_from_grpc_;
  return true;
}

void PackStream::Lose(absl::Status status) {
  Cancel();
  v1::PackResponse response;
  while (call_->stream->Read(&response)) {
  }
  (void)call_->stream->Finish();
  status_ = std::move(status);
}

void PackStream::Cancel() {
  if (process_.is_forked()) return;
  call_->context.TryCancel();
  if (lane_ != nullptr) lane_->Cancel();
  if (graph_lane_ != nullptr) graph_lane_->Cancel();
}

}  // namespace packhouse::client
