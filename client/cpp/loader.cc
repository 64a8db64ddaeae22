#include "client/cpp/loader.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <type_traits>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cpp/acknowledger.h"
#include "client/cpp/away.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/channel.h"
#include "client/cpp/lane_reader.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "packhouse/v1/loader.grpc.pb.h"

namespace packhouse::client {
namespace {

// The server's, for max_in_flight 0.
constexpr uint32_t kDefaultInFlight = 16;

// A response, from gRPC or from a lane.
struct Response {
  grpc::ByteBuffer buffer;
  LaneMessage in_lane;  // kBatch, if it is from a lane.

  absl::StatusOr<std::optional<BatchView>> View() const {
    if (in_lane.kind != LaneMessage::Kind::kBatch) return ViewLoadResponse(buffer);
    return BatchView::OfLoadResponse({in_lane.response}, in_lane.owner);
  }
};

// Calls a function of the loader, in the process that made it.
template <typename Impl, typename Function, typename... Arguments>
std::invoke_result_t<Function, Impl&, Arguments...> Own(
    const std::unique_ptr<Impl, OwnProcess>& impl, Function function, Arguments&&... arguments) {
  if (absl::Status own = impl.get_deleter().Check("loader"); !own.ok()) return own;
  return std::invoke(function, *impl, std::forward<Arguments>(arguments)...);
}

}  // namespace

// The functions of a loader, in the process that made it.
class Loader::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  absl::StatusOr<std::shared_ptr<const LoadedBatch>> Next();
  absl::Status Acknowledge(const LoadedBatch& batch);
  absl::Status Flush();
  absl::Status SetEpoch(uint64_t epoch);
  uint64_t epoch() const { return options_.spec.epoch(); }
  absl::StatusOr<v1::LoadOpened> Opened();
  LoadTransport transport() const { return transport_; }
  absl::StatusOr<v1::Epoch> Describe();
  absl::StatusOr<LoaderState> State();
  absl::Status LoadState(const LoaderState& state, const std::string& attempt);
  void Cancel();

 private:
  class Stream;
  using BatchPointer = std::shared_ptr<const LoadedBatch>;

  v1::LoadRequest MakeRequest();
  // A batch; or null for `opened`, and for the end, which sets `is_last_given_`.
  absl::StatusOr<BatchPointer> Receive();
  absl::StatusOr<BatchPointer> ReceiveOnce();
  // Opens the lane of a stream that has just been opened, as the options say.
  absl::Status OpenLane(Stream& stream, const v1::Lane& offer);
  // Waits for `opened`, if it has not come.
  absl::Status Open();
  void Leave();
  void Forget();
  // Marks the batch as given out; false if it was before.
  bool TakeUp(const BatchView& view);
  // Whether all batches have been given out, and the server's end waits only for the caller's
  // acknowledgements.
  bool HasAll();
  absl::Status AcknowledgeCurrent();
  absl::Status AcknowledgeLease(const BatchLease& lease);
  absl::StatusOr<uint64_t> StepsDone();
  // A unary call that is safe to retry.
  absl::Status Call(
      absl::FunctionRef<grpc::Status(v1::LoaderService::Stub&, grpc::ClientContext&)> call);

  LoaderOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  JobServers servers_;

  // Used by the thread that calls Next().
  std::string start_cursor_;
  bool attempt_is_used_ = false;
  std::shared_ptr<const JobServers::Server> loading_;  // Of the present stream.
  bool is_redirected_ = false;                         // The present server was named by another.
  bool is_last_given_ = false;                         // The server said so.
  bool ended_ = false;                                 // And all acknowledgements are durable.
  std::optional<v1::LoadOpened> opened_;               // Of the first stream in this generation.
  uint64_t session_ = 0;
  std::optional<BatchLease> current_;  // Given out last, not acknowledged yet.
  std::atomic<LoadTransport> transport_ = LoadTransport::kGrpc;

  absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<uint64_t> given_ ABSL_GUARDED_BY(mutex_);
  // Steps of batches that were given out and are not acknowledged, by batch number.
  absl::btree_map<uint64_t, uint64_t> held_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_left_ ABSL_GUARDED_BY(mutex_) = 0;  // When this worker loaded.
  uint64_t next_given_step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint64_t> last_acknowledged_step_ ABSL_GUARDED_BY(mutex_);

  // Destroyed first: its thread uses the stream.
  Acknowledger acknowledger_;
};

// One call of Load, whose responses come as bytes. Each function except Cancel must be called from
// one thread. The next response is asked for as soon as the previous one is taken.
class Loader::Impl::Stream {
 public:
  // `is_watched`: if nothing comes for `options.quiet`, asks the server whether it lives, and ends
  // if it is silent. gRPC's own pings would need somebody who waits for them while the caller
  // trains. `options` must outlive it.
  Stream(std::shared_ptr<grpc::Channel> channel, const v1::LoadRequest& request, bool is_watched,
         const LoaderOptions& options)
      : channel_(std::move(channel)),
        is_watched_(is_watched),
        options_(options),
        stub_(channel_),
        call_(stub_.PrepareCall(&context_, kLoadMethod, &queue_)) {
    call_->StartCall(this);
    if (Wait()) {
      call_->WriteLast(ToByteBuffer(request), grpc::WriteOptions(), this);
      is_open_ = Wait();
    }
    if (is_open_) {
      call_->Read(&response_, this);
    } else {
      // gRPC may send it again by another connection, and nobody reads what comes there.
      context_.TryCancel();
      is_unsent_ = true;
    }
  }

  ~Stream() {
    context_.TryCancel();
    // Batches that are kept hold its memory.
    lane_.reset();
    while (is_open_) (void)TakeFromGrpc();
    (void)Finish();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // Later responses than the first ones come by the lane.
  void Use(std::unique_ptr<LaneReader> lane) {
    const absl::MutexLock lock(&mutex_);
    lane_ = std::move(lane);
    if (is_cancelled_) lane_->Cancel();
  }

  // The next response; nullopt when the stream has ended. Finish() then has its status.
  std::optional<Response> Take() {
    if (lane_ == nullptr || num_taken_ < lane_->num_before()) return TakeFromGrpc();
    if (is_lane_over_) return TakeAfterLane();
    Response response;
    for (;;) {
      response.in_lane = lane_->Take();
      switch (response.in_lane.kind) {
        case LaneMessage::Kind::kBatch:
          return response;
        case LaneMessage::Kind::kQuiet:
          LeaveIfSilent();
          continue;
        case LaneMessage::Kind::kEnd:
          is_lane_over_ = true;
          return TakeAfterLane();
        case LaneMessage::Kind::kByGrpc:
          return TakeFromGrpc();
      }
    }
  }

  // Requires that Take() gave nullopt.
  absl::Status Finish() {
    if (!status_) {
      grpc::Status status;
      call_->Finish(&status, this);
      Wait();
      status_ = ToAbslStatus(status);
      if (is_unsent_ && absl::IsCancelled(*status_)) {
        status_ = absl::UnavailableError("the connection was lost before the call was sent");
      }
    }
    return *status_;
  }

  void Cancel() {
    context_.TryCancel();
    const absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
    if (lane_ != nullptr) lane_->Cancel();
  }

  // Whether it ended because the server is silent.
  bool is_silent() const { return is_silent_; }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    while (is_watched_ && !is_silent_) {
      const auto next =
          queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + options_.quiet));
      if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
      if (next == grpc::CompletionQueue::SHUTDOWN) return false;
      LeaveIfSilent();
    }
    return queue_.Next(&tag, &ok) && ok;
  }

  void LeaveIfSilent() {
    is_silent_ = !Answers(channel_, options_.silence);
    if (is_silent_) Cancel();
  }

  // The stream has to be over, too. Before a response that comes, batches may be missing that the
  // lane had, or would have had.
  std::optional<Response> TakeAfterLane() {
    if (!TakeFromGrpc()) return std::nullopt;
    context_.TryCancel();
    while (TakeFromGrpc()) {
    }
    (void)Finish();
    status_ = absl::UnavailableError("the lane ended before its stream did");
    return std::nullopt;
  }

  std::optional<Response> TakeFromGrpc() {
    if (!is_open_) return std::nullopt;
    is_open_ = Wait();
    if (!is_open_) return std::nullopt;
    Response response;
    response.buffer.Swap(&response_);
    call_->Read(&response_, this);
    ++num_taken_;
    return response;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const bool is_watched_;
  const LoaderOptions& options_;
  bool is_silent_ = false;
  bool is_unsent_ = false;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer response_;
  bool is_open_ = false;
  std::optional<absl::Status> status_;
  uint64_t num_taken_ = 0;  // From gRPC.
  bool is_lane_over_ = false;

  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Set once, by the thread that takes; Cancel() needs the mutex.
  std::unique_ptr<LaneReader> lane_;
};

Loader::Impl::Impl(std::shared_ptr<grpc::Channel> channel, LoaderOptions options)
    : options_(std::move(options)),
      channel_(std::move(channel)),
      servers_(channel_, options_.connect, options_.other_servers),
      acknowledger_(
          channel_,
          [this](const v1::AcknowledgeRequest& request) -> absl::StatusOr<v1::AcknowledgeResponse> {
            v1::AcknowledgeResponse response;
            grpc::ClientContext context;
            context.set_deadline(absl::ToChronoTime(absl::Now() + options_.call_timeout));
            const grpc::Status status = servers_.Call(
                context, [&](v1::LoaderService::Stub& stub, grpc::ClientContext& once) {
                  return stub.Acknowledge(&once, request, &response);
                });
            if (!status.ok()) return ToAbslStatus(status);
            return response;
          },
          {options_.spec.job(),
           std::max(1U,
                    (options_.max_in_flight == 0 ? kDefaultInFlight : options_.max_in_flight) / 4),
           options_.retry,
           // Wakes a waiting Next(), which then sees the error.
           [this] {
             const absl::MutexLock lock(&mutex_);
             if (stream_ != nullptr) stream_->Cancel();
           }}) {}

Loader::Impl::~Impl() { Leave(); }

absl::StatusOr<std::shared_ptr<const LoadedBatch>> Loader::Impl::Next() {
  if (ended_) return BatchPointer();
  if (absl::Status acknowledged = AcknowledgeCurrent(); !acknowledged.ok()) return acknowledged;
  while (!is_last_given_ && !HasAll()) {
    absl::StatusOr<BatchPointer> received = Receive();
    if (!received.ok()) return received;
    if (*received != nullptr) {
      if (!TakeUp((*received)->view)) continue;
      if (options_.acknowledges_itself && !options_.is_evaluation) current_ = (*received)->lease;
      return received;
    }
    if (is_last_given_) break;
  }
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  Leave();
  ended_ = true;
  return BatchPointer();
}

absl::StatusOr<Loader::Impl::BatchPointer> Loader::Impl::Receive() {
  RetryOptions retry = options_.retry;
  // Another server takes the job at some moment of the wait.
  if (servers_.are_several()) {
    retry.longest_wait = std::min(retry.longest_wait, absl::Milliseconds(500));
  }
  Retrier retrier(channel_, retry, absl::StrCat("Load of job '", options_.spec.job(), "'"));
  for (;;) {
    // Otherwise a worker that was rolled back might wait for ever.
    if (absl::Status checked = acknowledger_.Check(); !checked.ok()) return checked;
    absl::StatusOr<BatchPointer> received = ReceiveOnce();
    if (received.ok()) return received;
    Leave();
    if (absl::Status checked = acknowledger_.Check(); !checked.ok()) return checked;
    {
      const absl::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("the loader was cancelled");
    }
    absl::Status failed = received.status();
    if (!retrier.WaitAfter(failed)) return failed;
  }
}

absl::StatusOr<Loader::Impl::BatchPointer> Loader::Impl::ReceiveOnce() {
  std::shared_ptr<Stream> stream;
  {
    const absl::MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream == nullptr) {
    loading_ = servers_.current();
    stream = std::make_shared<Stream>(loading_->channel, MakeRequest(), servers_.are_several(),
                                      options_);
    const absl::MutexLock lock(&mutex_);
    stream_ = stream;
    if (cancelled_) stream_->Cancel();
  }
  const std::optional<Response> response = stream->Take();
  if (!response) {
    absl::Status status = stream->Finish();
    if (status.ok()) status = absl::UnavailableError("the stream ended before the epoch did");
    if (stream->is_silent()) {
      status = absl::UnavailableError(absl::StrCat(loading_->address, " does not answer"));
    }
    if (Passes(status) && !absl::IsCancelled(status)) {
      servers_.Leave(*loading_);
      is_redirected_ = false;
    }
    return status;
  }
  absl::StatusOr<std::optional<BatchView>> view = response->View();
  if (!view.ok()) return view.status();
  if (view->has_value()) {
    if (!opened_) return absl::InternalError("the server sent a batch before `opened`");
    const BatchLease lease = {epoch(), opened_->generation(), session_, (*view)->id()};
    return std::make_shared<const LoadedBatch>(LoadedBatch{*std::move(*view), lease});
  }
  v1::LoadResponse message;
  if (absl::Status parsed = ParseMessage(response->buffer, message); !parsed.ok()) return parsed;
  if (message.has_redirect()) {
    Leave();
    // Two servers may name each other for a while: then it waits, as after any failure.
    if (is_redirected_) {
      servers_.Leave(*loading_);
      is_redirected_ = false;
      return absl::UnavailableError(absl::StrCat(loading_->address,
                                                 ", which another server named, ", "names ",
                                                 message.redirect().address()));
    }
    is_redirected_ = true;
    servers_.GoTo(message.redirect().address());
    return BatchPointer();
  }
  is_redirected_ = false;
  if (message.has_end_of_epoch()) is_last_given_ = true;
  if (!message.has_opened()) return BatchPointer();
  if (absl::Status opened = OpenLane(*stream, message.opened().lane()); !opened.ok()) return opened;
  session_ = message.opened().session();
  if (opened_) return BatchPointer();
  attempt_is_used_ = true;
  opened_ = std::move(*message.mutable_opened());
  const absl::MutexLock lock(&mutex_);
  num_left_ = opened_->num_steps() - opened_->num_steps_done();
  next_given_step_ = opened_->num_steps_done();
  return BatchPointer();
}

absl::Status Loader::Impl::OpenLane(Stream& stream, const v1::Lane& offer) {
  transport_ = LoadTransport::kGrpc;
  if (options_.lane == LaneUse::kOff) return absl::OkStatus();
  auto lane =
      LaneReader::Open(offer, servers_.are_several() ? options_.quiet : absl::InfiniteDuration());
  if (lane.ok()) {
    stream.Use(*std::move(lane));
    transport_ = LoadTransport::kLane;
  } else if (options_.lane == LaneUse::kRequired && !absl::IsNotFound(lane.status())) {
    return lane.status();
  }
  // Otherwise the server has closed it: all of a short stream had been sent before.
  return absl::OkStatus();
}

v1::LoadRequest Loader::Impl::MakeRequest() {
  v1::LoadRequest request;
  request.set_lane(options_.lane != LaneUse::kOff);
  *request.mutable_epoch() = options_.spec;
  if (options_.is_evaluation) {
    *request.mutable_evaluation()->mutable_ranked() = options_.ranked;
    const absl::MutexLock lock(&mutex_);
    request.mutable_evaluation()->set_first_step(next_given_step_);
    return request;
  }
  if (options_.dynamic) {
    *request.mutable_dynamic() = *options_.dynamic;
  } else {
    *request.mutable_ranked() = options_.ranked;
  }
  request.set_max_in_flight(options_.max_in_flight);
  request.set_attempt(options_.attempt);
  if (opened_) {
    request.set_generation(opened_->generation());
  } else {
    request.set_cursor(start_cursor_);
  }
  return request;
}

absl::Status Loader::Impl::Open() {
  while (!opened_) {
    const absl::StatusOr<BatchPointer> received = Receive();
    if (!received.ok()) return received.status();
  }
  return absl::OkStatus();
}

void Loader::Impl::Leave() {
  std::shared_ptr<Stream> left;  // If it ends here, it ends without the lock.
  const absl::MutexLock lock(&mutex_);
  left.swap(stream_);
}

void Loader::Impl::Forget() {
  opened_.reset();
  is_last_given_ = false;
  ended_ = false;
  current_.reset();
  const absl::MutexLock lock(&mutex_);
  given_.clear();
  held_.clear();
  num_left_ = 0;
  next_given_step_ = 0;
  last_acknowledged_step_.reset();
}

bool Loader::Impl::TakeUp(const BatchView& view) {
  const absl::MutexLock lock(&mutex_);
  if (!given_.insert(view.id()).second) return false;
  held_.emplace(view.id(), view.step());
  next_given_step_ = std::max(next_given_step_, view.step() + 1);
  return true;
}

bool Loader::Impl::HasAll() {
  if (options_.is_evaluation || options_.acknowledges_itself || options_.dynamic || !opened_) {
    return false;
  }
  const absl::MutexLock lock(&mutex_);
  return given_.size() >= num_left_;
}

absl::Status Loader::Impl::AcknowledgeCurrent() {
  if (!current_) return absl::OkStatus();
  absl::Status acknowledged = AcknowledgeLease(*current_);
  if (acknowledged.ok()) current_.reset();
  return acknowledged;
}

absl::Status Loader::Impl::Acknowledge(const LoadedBatch& batch) {
  // The server does not wait for it.
  if (options_.is_evaluation) return absl::OkStatus();
  return AcknowledgeLease(batch.lease);
}

absl::Status Loader::Impl::AcknowledgeLease(const BatchLease& lease) {
  if (absl::Status added = acknowledger_.Add(lease); !added.ok()) return added;
  bool is_last = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (const auto held = held_.find(lease.batch); held != held_.end()) {
      last_acknowledged_step_ = std::max(last_acknowledged_step_.value_or(0), held->second);
      held_.erase(held);
    }
    is_last = held_.empty() && given_.size() >= num_left_;
  }
  // The server waits for it before it sends `end_of_epoch`.
  if (is_last) acknowledger_.Hurry();
  return absl::OkStatus();
}

absl::Status Loader::Impl::Flush() { return acknowledger_.Flush(); }

absl::Status Loader::Impl::SetEpoch(uint64_t epoch) {
  if (epoch == this->epoch() && !ended_) return absl::OkStatus();
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  Leave();
  options_.spec.set_epoch(epoch);
  start_cursor_.clear();
  Forget();
  return absl::OkStatus();
}

absl::StatusOr<v1::LoadOpened> Loader::Impl::Opened() {
  if (absl::Status opened = Open(); !opened.ok()) return opened;
  return *opened_;
}

absl::StatusOr<v1::Epoch> Loader::Impl::Describe() {
  v1::GetEpochRequest request;
  request.set_company(true);
  *request.mutable_epoch() = options_.spec;
  v1::Epoch response;
  const absl::Status status =
      Call([&](v1::LoaderService::Stub& stub, grpc::ClientContext& context) {
        return stub.GetEpoch(&context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<uint64_t> Loader::Impl::StepsDone() {
  const absl::MutexLock lock(&mutex_);
  if (held_.empty()) return next_given_step_;
  uint64_t steps = next_given_step_;
  for (const auto& [batch, step] : held_) steps = std::min(steps, step);
  if (last_acknowledged_step_ && *last_acknowledged_step_ > steps) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", *last_acknowledged_step_, " is acknowledged, step ", steps, " before it is not"));
  }
  return steps;
}

absl::StatusOr<LoaderState> Loader::Impl::State() {
  if (options_.is_evaluation) {
    return absl::FailedPreconditionError("an evaluation has no state: the server keeps none");
  }
  if (absl::Status opened = Open(); !opened.ok()) return opened;
  if (absl::Status acknowledged = AcknowledgeCurrent(); !acknowledged.ok()) return acknowledged;
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  LoaderState state;
  state.epoch = epoch();
  absl::Status status;
  if (options_.dynamic) {
    v1::AcknowledgeRequest request;
    request.set_job(options_.spec.job());
    request.set_epoch(epoch());
    request.set_generation(opened_->generation());
    request.set_session(session_);
    v1::AcknowledgeResponse response;
    status = Call([&](v1::LoaderService::Stub& stub, grpc::ClientContext& context) {
      return stub.Acknowledge(&context, request, &response);
    });
    state.cursor = std::move(*response.mutable_cursor());
  } else {
    const absl::StatusOr<uint64_t> steps = StepsDone();
    if (!steps.ok()) return steps.status();
    v1::ReportStepRequest request;
    request.set_job(options_.spec.job());
    request.set_epoch(epoch());
    request.set_generation(opened_->generation());
    request.set_steps(*steps);
    v1::ReportStepResponse response;
    status = Call([&](v1::LoaderService::Stub& stub, grpc::ClientContext& context) {
      return stub.ReportStep(&context, request, &response);
    });
    state.cursor = std::move(*response.mutable_cursor());
  }
  if (!status.ok()) return status;
  return state;
}

absl::Status Loader::Impl::LoadState(const LoaderState& state, const std::string& attempt) {
  if (attempt.empty() && !options_.attempt.empty() && attempt_is_used_) {
    return absl::InvalidArgumentError(
        absl::StrCat("attempt '", options_.attempt, "' has loaded already: give a new one"));
  }
  if (attempt.empty() && options_.attempt.empty() && options_.dynamic) {
    return absl::InvalidArgumentError("dynamic workers need an attempt to load a state");
  }
  Leave();
  acknowledger_.Reset();
  if (!attempt.empty()) options_.attempt = attempt;
  attempt_is_used_ = false;
  options_.spec.set_epoch(state.epoch);
  start_cursor_ = state.cursor;
  Forget();
  return absl::OkStatus();
}

void Loader::Impl::Cancel() {
  const absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

absl::Status Loader::Impl::Call(
    absl::FunctionRef<grpc::Status(v1::LoaderService::Stub&, grpc::ClientContext&)> call) {
  return CallWithRetry(channel_, options_.retry,
                       absl::StrCat("LoaderService for job '", options_.spec.job(), "'"),
                       options_.call_timeout,
                       [&](grpc::ClientContext& context) { return servers_.Call(context, call); });
}

Loader::Loader(std::shared_ptr<grpc::Channel> channel, LoaderOptions options)
    : impl_(new Impl(std::move(channel), std::move(options))) {}

Loader::~Loader() = default;

absl::StatusOr<std::shared_ptr<const LoadedBatch>> Loader::Next() {
  return Own(impl_, &Impl::Next);
}

absl::Status Loader::Acknowledge(const LoadedBatch& batch) {
  return Own(impl_, &Impl::Acknowledge, batch);
}

absl::Status Loader::Flush() { return Own(impl_, &Impl::Flush); }

absl::Status Loader::SetEpoch(uint64_t epoch) { return Own(impl_, &Impl::SetEpoch, epoch); }

uint64_t Loader::epoch() const { return impl_->epoch(); }

absl::StatusOr<v1::LoadOpened> Loader::Opened() { return Own(impl_, &Impl::Opened); }

LoadTransport Loader::transport() const { return impl_->transport(); }

absl::StatusOr<v1::Epoch> Loader::Describe() { return Own(impl_, &Impl::Describe); }

absl::StatusOr<LoaderState> Loader::State() { return Own(impl_, &Impl::State); }

absl::Status Loader::LoadState(const LoaderState& state, const std::string& attempt) {
  return Own(impl_, &Impl::LoadState, state, attempt);
}

void Loader::Cancel() {
  if (!impl_.get_deleter().is_forked()) impl_->Cancel();
}

}  // namespace packhouse::client
