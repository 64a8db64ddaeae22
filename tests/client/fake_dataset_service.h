// DatasetService in memory, in this process, with faults that tests ask for.
#ifndef PACKHOUSE_TESTS_CLIENT_FAKE_DATASET_SERVICE_H_
#define PACKHOUSE_TESTS_CLIENT_FAKE_DATASET_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {

// What a stream of appends does at a chunk.
enum class AppendFault {
  kNone,
  kBreakBefore,  // The stream breaks, the chunk is not stored.
  kBreakAfter,   // The chunk is stored, but the answer is lost.
  kRefuse,       // OUT_OF_RANGE.
  kWrongAnswer,  // The answer is that of another chunk.
  kStoreLess,    // The answer says that a graph is missing.
  kStorePieces,  // Each graph is stored as two.
  kEndEarly,     // The stream ends with OK.
};

// Thread-safe.
class FakeDatasetService final : public v1::DatasetService::Service {
 public:
  struct Stored {
    v1::Dataset dataset;
    std::vector<v1::AppendRequest> records;
    std::map<std::string, uint64_t> sequences;
  };

  // Asked at each chunk; called under the lock.
  void set_fault(std::function<AppendFault(const v1::AppendRequest&)> fault) {
    const absl::MutexLock lock(&mutex_);
    fault_ = std::move(fault);
  }
  // How many of each producer's last sequences it can compare.
  void set_remembered(uint64_t sequences) {
    const absl::MutexLock lock(&mutex_);
    remembered_ = sequences;
  }
  Stored stored(const std::string& name) const {
    const absl::MutexLock lock(&mutex_);
    const auto found = datasets_.find(name);
    return found == datasets_.end() ? Stored() : found->second;
  }
  int num_streams() const {
    const absl::MutexLock lock(&mutex_);
    return num_streams_;
  }
  // What every data set gives when it is exported; the call breaks after each response of two.
  void set_examples(std::vector<std::string> examples) {
    const absl::MutexLock lock(&mutex_);
    examples_ = std::move(examples);
  }

  grpc::Status ExportDataset(grpc::ServerContext* /*context*/,
                             const v1::ExportDatasetRequest* request,
                             grpc::ServerWriter<v1::ExportDatasetResponse>* writer) override {
    const absl::MutexLock lock(&mutex_);
    v1::ExportDatasetResponse response;
    response.set_first_graph(request->first_graph());
    const uint64_t most = request->num_graphs() == 0 ? UINT64_MAX : request->num_graphs();
    uint64_t at = request->first_graph();
    while (at < examples_.size() && response.examples_size() < 2 &&
           at - request->first_graph() < most) {
      response.add_examples(examples_[at++]);
    }
    if (response.examples_size() != 0 && !writer->Write(response)) {
      return {grpc::StatusCode::UNAVAILABLE, "gone"};
    }
    const bool is_last = at == examples_.size() || at - request->first_graph() == most;
    if (is_last) return grpc::Status::OK;
    return {grpc::StatusCode::UNAVAILABLE, "broken"};
  }

  grpc::Status CreateDataset(grpc::ServerContext* /*context*/,
                             const v1::CreateDatasetRequest* request,
                             v1::Dataset* response) override {
    const absl::MutexLock lock(&mutex_);
    const auto [place, created] = datasets_.try_emplace(request->name());
    if (!created) return {grpc::StatusCode::ALREADY_EXISTS, "data set '" + request->name() + "'"};
    v1::Dataset& dataset = place->second.dataset;
    dataset.set_name(request->name());
    *dataset.mutable_schema() = request->schema();
    dataset.set_state(v1::DATASET_STATE_OPEN);
    dataset.set_version(++last_version_);
    dataset.set_id(1000 + last_version_);
    dataset.set_max_bytes(request->max_bytes());
    dataset.set_grouped(request->grouped());
    *dataset.mutable_max_rows() = request->max_rows();
    if (request->oversize_policy() == v1::OVERSIZE_POLICY_PARTITION) {
      for (const char* const name : {"#piece", "#pieces", "#cut_edges"}) {
        v1::TensorSpec& tensor = *dataset.mutable_schema()->add_tensors();
        tensor.set_name(name);
        tensor.set_dtype(v1::DATA_TYPE_UINT32);
        tensor.set_component("graphs");
      }
    }
    *response = dataset;
    return grpc::Status::OK;
  }

  grpc::Status Append(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::AppendResponse, v1::AppendRequest>* stream) override {
    {
      const absl::MutexLock lock(&mutex_);
      ++num_streams_;
    }
    v1::AppendRequest request;
    while (stream->Read(&request)) {
      v1::AppendResponse response;
      AppendFault fault = AppendFault::kNone;
      const grpc::Status status = Store(request, response, fault);
      if (!status.ok()) return status;
      if (fault == AppendFault::kEndEarly) return grpc::Status::OK;
      if (fault == AppendFault::kBreakBefore || fault == AppendFault::kBreakAfter) {
        // Both ways in which a stream breaks.
        if (request.producer_sequence().sequence() % 2 == 0) context->TryCancel();
        return {grpc::StatusCode::UNAVAILABLE, "broken"};
      }
      if (!stream->Write(response)) return {grpc::StatusCode::UNAVAILABLE, "gone"};
    }
    return grpc::Status::OK;
  }

  grpc::Status SealDataset(grpc::ServerContext* /*context*/, const v1::SealDatasetRequest* request,
                           v1::Dataset* response) override {
    const absl::MutexLock lock(&mutex_);
    const auto found = datasets_.find(request->name());
    if (found == datasets_.end()) return NotFound(request->name());
    found->second.dataset.set_state(v1::DATASET_STATE_SEALED);
    *response = found->second.dataset;
    return grpc::Status::OK;
  }

  grpc::Status GetDataset(grpc::ServerContext* /*context*/, const v1::GetDatasetRequest* request,
                          v1::GetDatasetResponse* response) override {
    const absl::MutexLock lock(&mutex_);
    const auto found = datasets_.find(request->name());
    if (found == datasets_.end()) return NotFound(request->name());
    *response->mutable_dataset() = found->second.dataset;
    if (request->include_histogram()) response->mutable_histogram();
    return grpc::Status::OK;
  }

 private:
  static grpc::Status NotFound(const std::string& name) {
    return {grpc::StatusCode::NOT_FOUND, "data set '" + name + "'"};
  }

  grpc::Status Store(const v1::AppendRequest& request, v1::AppendResponse& response,
                     AppendFault& fault) {
    const absl::MutexLock lock(&mutex_);
    const auto found = datasets_.find(request.dataset());
    if (found == datasets_.end()) return NotFound(request.dataset());
    Stored& stored = found->second;
    if (request.producer_sequence().sequence() == 0 && !request.has_graphs()) {
      *response.mutable_producer_sequence() = request.producer_sequence();
      const uint64_t next = stored.sequences[request.producer_sequence().producer()] + 1;
      response.mutable_producer_state()->set_next_sequence(next);
      response.mutable_producer_state()->set_first_remembered_sequence(
          next > remembered_ ? next - remembered_ : 1);
      response.set_num_graphs(stored.dataset.num_graphs());
      return grpc::Status::OK;
    }
    if (fault_) fault = fault_(request);
    if (fault == AppendFault::kRefuse) return {grpc::StatusCode::OUT_OF_RANGE, "graph 7"};
    if (fault == AppendFault::kBreakBefore) return grpc::Status::OK;
    const v1::ProducerSequence& sequence = request.producer_sequence();
    uint64_t& last = stored.sequences[sequence.producer()];
    *response.mutable_producer_sequence() = sequence;
    if (sequence.sequence() <= last) {
      response.set_is_repetition(true);
    } else {
      if (stored.dataset.state() == v1::DATASET_STATE_SEALED) {
        return {grpc::StatusCode::FAILED_PRECONDITION, "sealed"};
      }
      last = sequence.sequence();
      const uint64_t graphs = request.graphs().sizes().num_graphs();
      stored.records.push_back(request);
      stored.dataset.set_num_graphs(stored.dataset.num_graphs() + graphs);
      response.set_num_appended(graphs);
    }
    response.set_num_graphs(stored.dataset.num_graphs());
    if (fault == AppendFault::kStorePieces && !response.is_repetition()) {
      stored.dataset.set_num_graphs(stored.dataset.num_graphs() + response.num_appended());
      response.set_num_graphs(stored.dataset.num_graphs());
      response.set_num_appended(2 * response.num_appended());
    }
    if (fault == AppendFault::kStoreLess) response.set_num_appended(response.num_appended() - 1);
    if (fault == AppendFault::kWrongAnswer) {
      response.mutable_producer_sequence()->set_sequence(sequence.sequence() + 1);
    }
    return grpc::Status::OK;
  }

  mutable absl::Mutex mutex_;
  uint64_t remembered_ ABSL_GUARDED_BY(mutex_) = 256;
  std::map<std::string, Stored> datasets_ ABSL_GUARDED_BY(mutex_);
  std::function<AppendFault(const v1::AppendRequest&)> fault_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> examples_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_streams_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A server with the service, on a socket in a folder of its own; it can be ended and come back,
// with what is stored.
class FakeDatasetServer {
 public:
  FakeDatasetServer() { Start(); }
  ~FakeDatasetServer() { Stop(); }
  FakeDatasetServer(const FakeDatasetServer&) = delete;
  FakeDatasetServer& operator=(const FakeDatasetServer&) = delete;

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  // Breaks all calls.
  void Stop() {
    // The epoch, not the infinite past, since gRPC takes times before 1970 for the infinite future.
    if (server_ != nullptr) server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
    server_.reset();
  }

  std::string address() const { return "unix:" + folder_.path() + "/socket"; }
  // Every error reaches the caller.
  std::shared_ptr<grpc::Channel> Channel() const {
    ChannelOptions options;
    options.retries = false;
    return *Connect(address(), absl::Seconds(10), options);
  }
  FakeDatasetService& service() { return service_; }

 private:
  const TemporaryFolder folder_;
  FakeDatasetService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_TESTS_CLIENT_FAKE_DATASET_SERVICE_H_
