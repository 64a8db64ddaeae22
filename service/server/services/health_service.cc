#include "service/server/services/health_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls_grpc/call_reactor.h"
#include "service/server/calls_grpc/wire_bytes.h"

namespace packhouse::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

absl::Status CheckLength(size_t size, size_t most) {
  if (size <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("service: a name of ", size, " bytes, at most ", most));
}

// The budget does not count it: health must be answered even if there is no room.
absl::StatusOr<std::string> NameIn(const RequestBytes& bytes) {
  // With its tag and its length.
  PH_RETURN_IF_ERROR(CheckLength(bytes.size(), HealthService::kMaxNameLength + 8));
  HealthCheckRequest request;
  PH_RETURN_IF_ERROR(ParseRequest(bytes, /*working=*/nullptr, &request).status());
  PH_RETURN_IF_ERROR(CheckLength(request.service().size(), HealthService::kMaxNameLength));
  return std::move(*request.mutable_service());
}

}  // namespace

// One Watch. gRPC owns it until OnDone; the service may hold it for longer.
class HealthWatch final : public CallReactor, public std::enable_shared_from_this<HealthWatch> {
 public:
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& call,
                            HealthService* health) {
    const std::shared_ptr<HealthWatch> watch(new HealthWatch(server, call, health));
    watch->self_ = watch;
    const absl::Status entered = watch->Enter();
    absl::MutexLock lock(&watch->mutex_);
    if (entered.ok()) {
      watch->StartRead(&watch->request_);
    } else {
      watch->FinishLocked(entered);
    }
    return watch.get();
  }

  // To be called when the status may have changed.
  void Update() {
    absl::MutexLock lock(&mutex_);
    WriteLocked();
  }

  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (is_writing_) {
      // A status that is about to be sent comes first.
      if (!end_) end_ = status;
    } else {
      FinishLocked(status);
    }
  }

  void OnReadDone(bool ok) override {
    absl::Status status = absl::InvalidArgumentError("the call ended without a request");
    if (ok) {
      context_.OnRequest();
      status = EndOnAllocationFailure([this]() -> absl::Status {
        PH_ASSIGN_OR_RETURN(name_, NameIn(ReceivedBytes(&request_)));
        return absl::OkStatus();
      });
    } else if (call_.IsCancelled()) {
      status = absl::CancelledError("the client cancelled or is gone");
    }
    absl::MutexLock lock(&mutex_);
    if (!status.ok()) return FinishLocked(status);
    is_asked_ = true;
    WriteLocked();
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    is_writing_ = false;
    if (!ok) return FinishLocked(absl::CancelledError("the client is gone"));
    WriteLocked();
    if (!is_writing_ && end_) FinishLocked(*end_);
  }

  void OnCancel() override { End(absl::CancelledError("the client cancelled or is gone")); }

  void OnDone() override {
    health_->RemoveWatch(self_);
    place_.Reset();
    open_.Reset();
    const absl::Status final_status = [this] {
      absl::MutexLock lock(&mutex_);
      return final_;
    }();
    context_.OnFinished(Method::kWatch, final_status, started_);
    self_.reset();
  }

 private:
  HealthWatch(const CallContext& server, grpc::CallbackServerContext& call, HealthService* health)
      : context_(ContextOf(server, call)),
        call_(call),
        health_(health),
        started_(context_.clock->Now()) {
    context_.observer->OnStarted(Method::kWatch);
  }

  absl::Status Enter() {
    if (absl::Status taken = context_.TakePlace(open_); !taken.ok()) {
      call_.TryCancel();
      return taken;
    }
    PH_ASSIGN_OR_RETURN(place_, health_->watches_.Enter(context_.client));
    return health_->AddWatch(shared_from_this());
  }

  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!is_asked_ || is_writing_ || is_finished_) return;
    const HealthService::Status status =
        health_->StatusOf(name_).value_or(HealthCheckResponse::SERVICE_UNKNOWN);
    if (status == told_) return;
    HealthCheckResponse response;
    response.set_status(status);
    const absl::Status written = WriteBytes(response, context_.max_response_bytes, &response_);
    if (!written.ok()) return FinishLocked(written);
    told_ = status;
    is_writing_ = true;
    StartWrite(&response_);
  }

  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(is_finished_, true)) return;
    final_ = status;
    Finish(ToGrpc(status));
  }

  const CallContext context_;
  grpc::CallbackServerContext& call_;  // gRPC's, until OnDone.
  HealthService* const health_;
  const absl::Time started_;
  FairBound::Place open_;
  FairBound::Place place_;
  grpc::ByteBuffer request_;           // gRPC's until it was read.
  std::string name_;                   // Then constant.
  std::shared_ptr<HealthWatch> self_;  // Until OnDone.

  absl::Mutex mutex_;
  grpc::ByteBuffer response_;  // gRPC's while it writes.
  bool is_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<HealthService::Status> told_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // After the present write.
  absl::Status final_ ABSL_GUARDED_BY(mutex_);
};

HealthService::HealthService(const CallContext& context,
                             absl::flat_hash_map<std::string, bool> services,
                             const FairBound::Bounds& watches, const Readiness* readiness)
    : EarlyService(grpc::health::v1::Health::service_full_name(), context),
      services_(std::move(services)),
      readiness_(readiness),
      watches_("watches of health", "--max-health-watches, of one client half", watches) {
  Serve({{.method = Method::kCheck,
          .waits = Waits::kNothing,
          .answer = [this](const RequestBytes& request,
                           RequestCall& call) -> absl::StatusOr<RequestCall::Given> {
            PH_ASSIGN_OR_RETURN(const std::string name, NameIn(request));
            const std::optional<Status> status = StatusOf(name);
            if (!status) return absl::NotFoundError("there is no service of that name");
            HealthCheckResponse response;
            response.set_status(*status);
            return call.Write(response);
          }}});
  Serve("Watch", [this](grpc::CallbackServerContext* call) {
    return HealthWatch::Start(context_, *call, this);
  });
}

std::optional<HealthService::Status> HealthService::StatusOf(absl::string_view service) const {
  const auto found = services_.find(service);
  if (!service.empty() && found == services_.end()) return std::nullopt;
  const bool is_ready = readiness_ == nullptr || readiness_->is_ready();
  absl::MutexLock lock(&mutex_);
  const bool serves = is_ready && is_serving_ && (service.empty() || found->second);
  return serves ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Refresh() {
  // Each compares with what it has told last.
  for (const auto& watch : watching()) watch->Update();
}

void HealthService::StopServing() {
  {
    absl::MutexLock lock(&mutex_);
    is_serving_ = false;
  }
  for (const auto& watch : watching()) watch->Update();
}

void HealthService::EndWatches(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    end_ = status;
  }
  for (const auto& watch : watching()) watch->End(status);
}

absl::Status HealthService::AddWatch(const std::shared_ptr<HealthWatch>& watch) {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(end_);
  watching_.insert(watch);
  return absl::OkStatus();
}

void HealthService::RemoveWatch(const std::shared_ptr<HealthWatch>& watch) {
  absl::MutexLock lock(&mutex_);
  watching_.erase(watch);
}

absl::flat_hash_set<std::shared_ptr<HealthWatch>> HealthService::watching() const {
  absl::MutexLock lock(&mutex_);
  return watching_;
}

}  // namespace packhouse::rpc
