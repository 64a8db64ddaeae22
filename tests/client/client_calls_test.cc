// What holds of every call of the C++ clients, whichever service it is of: a table of all of them,
// against a server that answers anything.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/away.h"
#include "client/cpp/channel.h"
#include "client/cpp/credentials.h"
#include "client/cpp/dataset_client.h"
#include "client/cpp/feedback_client.h"
#include "client/cpp/job_client.h"
#include "client/cpp/partition_client.h"
#include "client/cpp/receipt_client.h"
#include "client/cpp/sampling_client.h"
#include "client/cpp/source_graph_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "tests/client/scripted_server.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kShort = absl::Minutes(7);
constexpr absl::Duration kLong = absl::Hours(7);

// All clients of the same servers.
struct Clients {
  static RetryOptions Retry(absl::Duration patience) {
    RetryOptions retry;
    retry.patience = patience;
    retry.sleep = [](absl::Duration) {};
    return retry;
  }
  Clients(const Servers& servers, absl::Duration patience, const JobServers::Connect& connect)
      : admin(servers.current(), kShort, connect),
        datasets(servers, {kShort, kLong, Retry(patience)}),
        feedback(servers.current(), kShort),
        jobs(servers, kShort, connect),
        partitions(servers, {kShort, kLong, Retry(patience)}),
        receipts(servers, kShort, connect),
        sampling(servers, {kShort, Retry(patience)}),
        graphs(servers, {kShort, kLong, Retry(patience)}) {}

  const AdminClient admin;
  const DatasetClient datasets;
  const FeedbackClient feedback;
  const JobClient jobs;
  const PartitionClient partitions;
  const ReceiptClient receipts;
  const SamplingClient sampling;
  const SourceGraphClient graphs;
};

// What a caller gets of a call: messages, and the status.
struct Told {
  // Takes a message, or refuses those that are too many.
  absl::Status Take(const google::protobuf::Message& message) {
    messages.push_back(message.SerializeAsString());
    return messages.size() > most ? absl::DataLossError("the caller's own") : absl::OkStatus();
  }
  // Of an answer that is told in its own words.
  template <typename Value, typename Tell>
  void End(const absl::StatusOr<Value>& answer, Tell tell) {
    status = answer.status();
    if (answer.ok()) messages.push_back(tell(*answer).SerializeAsString());
  }
  template <typename Message>
  void End(const absl::StatusOr<Message>& answer) {
    End(answer, [](const Message& message) { return message; });
  }

  std::vector<std::string> messages;
  absl::Status status;
  size_t most = 1000;
};

enum class Way {
  kOnce,
  kHome,        // Again at the same server.
  kAnywhere,    // At the next server.
  kOwner,       // Once, and at the owner that a server names.
  kOwnerOrNext  // Of the servers that are given, at the next.
};

struct Row {
  std::string method;
  Way way;
  std::shared_ptr<google::protobuf::Message> request;
  std::shared_ptr<google::protobuf::Message> response;
  std::function<void(const Clients&, const google::protobuf::Message&, Told&)> call;
  absl::Duration timeout = kShort;
  // Fields that the last message of a stream alone has, or tells; without the first of them it is
  // no result. Unset: no stream.
  std::optional<std::vector<std::string>> last = std::nullopt;
  // Fields of the request that a caller does not give.
  std::vector<std::string> ungiven = {};
};

template <typename Request, typename Response, typename Call>
Row Of(std::string method, Way way, Call call, absl::Duration timeout = kShort,
       std::optional<std::vector<std::string>> last = std::nullopt,
       std::vector<std::string> ungiven = {}) {
  return {std::move(method),
          way,
          std::make_shared<Request>(),
          std::make_shared<Response>(),
          [call](const Clients& clients, const google::protobuf::Message& request, Told& told) {
            call(clients, dynamic_cast<const Request&>(request), told);
          },
          timeout,
          std::move(last),
          std::move(ungiven)};
}

// A list, as the answer that it was taken from.
template <typename Response, typename Item>
auto As(google::protobuf::RepeatedPtrField<Item>* (Response::*items)()) {
  return [items](const std::vector<Item>& list) {
    Response response;
    (response.*items)()->Add(list.begin(), list.end());
    return response;
  };
}
template <typename Response>
void Gone(const absl::Status& status, Told& told) {
  told.status = status;
  if (status.ok()) told.messages.push_back(Response().SerializeAsString());
}
// The messages of a stream whose result has the last of them, and a thing that it ends with.
template <typename Response>
void Ended(const absl::StatusOr<Response>& result, Told& told) {
  told.status = result.status();
  if (result.ok()) told.messages.back() = result->SerializeAsString();
}

// Takes each message: of a stream that cannot be stopped, by an error, and by false.
auto Progress(Told& told) {
  return [&told](const auto& message) { (void)told.Take(message); };
}
auto TakeEach(Told& told) {
  return [&told](const auto& message) { return told.Take(message); };
}
auto GoesOn(Told& told) {
  return [&told](const auto& message) { return told.Take(message).ok(); };
}

using C = const Clients&;
using T = Told&;

std::vector<Row> RowsOfServer() {
  return {
      Of<v1::GetServerRequest, v1::GetServerResponse>(
          "AdminService/GetServer", Way::kOnce,
          [](C c, const auto&, T told) { told.End(c.admin.GetServer()); }),
      Of<v1::ListClientsRequest, v1::ListClientsResponse>(
          "AdminService/ListClients", Way::kOnce,
          [](C c, const auto&, T told) { told.End(c.admin.ListClients()); }),
      Of<v1::SetLogLevelRequest, v1::SetLogLevelResponse>(
          "AdminService/SetLogLevel", Way::kOnce,
          [](C c, const auto& q, T told) {
            told.End(c.admin.SetLogLevel(q.level()), [](v1::LogLevel before) {
              v1::SetLogLevelResponse response;
              response.set_before(before);
              return response;
            });
          }),
      Of<v1::ReloadRequest, v1::ReloadResponse>("AdminService/Reload", Way::kOnce,
                                                [](C c, const auto&, T told) {
                                                  told.End(c.admin.Reload(),
                                                           As(&v1::ReloadResponse::mutable_files));
                                                }),
      Of<v1::DrainRequest, v1::DrainResponse>("AdminService/Drain", Way::kOnce,
                                              [](C c, const auto&, T told) {
                                                told.End(c.admin.Drain(), [](bool was_draining) {
                                                  v1::DrainResponse response;
                                                  response.set_was_draining(was_draining);
                                                  return response;
                                                });
                                              }),
      Of<v1::MoveJobRequest, v1::MoveJobResponse>(
          "AdminService/MoveJob", Way::kOwner,
          [](C c, const auto& q, T told) {
            Gone<v1::MoveJobResponse>(c.admin.MoveJob(q.job(), q.address()), told);
          }),
      Of<v1::TakeSnapshotRequest, v1::TakeSnapshotResponse>(
          "AdminService/TakeSnapshot", Way::kOnce,
          [](C c, const auto& q, T told) {
            Ended(c.admin.TakeSnapshot(q.name(), GoesOn(told)), told);
          },
          absl::InfiniteDuration(), {{"is_done"}}),
      Of<v1::ReportRequest, v1::ReportResponse>("FeedbackService/Report", Way::kOnce,
                                                [](C c, const auto& q, T told) {
                                                  told.End(c.feedback.Report(q),
                                                           [](uint64_t num_reports) {
                                                             v1::ReportResponse response;
                                                             response.set_num_reports(num_reports);
                                                             return response;
                                                           });
                                                }),
      Of<v1::ListModelsRequest, v1::ListModelsResponse>(
          "FeedbackService/ListModels", Way::kOnce,
          [](C c, const auto&, T told) {
            told.End(c.feedback.List(), As(&v1::ListModelsResponse::mutable_models));
          }),
      Of<v1::GetModelRequest, v1::DeviceModel>(
          "FeedbackService/GetModel", Way::kOnce,
          [](C c, const auto& q, T told) { told.End(c.feedback.Get(q.model(), q.device())); }),
      Of<v1::DeleteModelRequest, v1::DeleteModelResponse>(
          "FeedbackService/DeleteModel", Way::kOnce,
          [](C c, const auto& q, T told) {
            Gone<v1::DeleteModelResponse>(c.feedback.Delete(q.model(), q.device()), told);
          }),
  };
}

std::vector<Row> RowsOfDatasets() {
  return {
      Of<v1::CreateDatasetRequest, v1::Dataset>(
          "DatasetService/CreateDataset", Way::kHome,
          [](C c, const auto& q, T told) { told.End(c.datasets.Create(q)); }),
      Of<v1::SealDatasetRequest, v1::Dataset>(
          "DatasetService/SealDataset", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.datasets.Seal(q.name())); }),
      Of<v1::GetDatasetRequest, v1::GetDatasetResponse>("DatasetService/GetDataset", Way::kAnywhere,
                                                        [](C c, const auto& q, T told) {
                                                          told.End(c.datasets.Get(
                                                              q.name(), q.include_histogram()));
                                                        }),
      Of<v1::ListDatasetsRequest, v1::ListDatasetsResponse>(
          "DatasetService/ListDatasets", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            told.End(c.datasets.List(q.page_size()),
                     As(&v1::ListDatasetsResponse::mutable_datasets));
          }),
      Of<v1::DeleteDatasetRequest, v1::DeleteDatasetResponse>(
          "DatasetService/DeleteDataset", Way::kHome,
          [](C c, const auto& q, T told) {
            Gone<v1::DeleteDatasetResponse>(c.datasets.Delete(q.name()), told);
          }),
      Of<v1::VerifyDatasetRequest, v1::VerifyDatasetResponse>(
          "DatasetService/VerifyDataset", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.datasets.Verify(q.name(), Progress(told))); },
          kLong, {{"finished"}}),
      Of<v1::ExportDatasetRequest, v1::ExportDatasetResponse>(
          "DatasetService/ExportDataset", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.status = c.datasets.Export(q, TakeEach(told)); },
          kLong, {{}}, {"num_graphs"}),
      Of<v1::ExportEpochRequest, v1::ExportDatasetResponse>(
          "LoaderService/ExportEpoch", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            told.status = c.datasets.ExportEpoch(q, TakeEach(told));
          },
          kLong, {{}}, {"num_graphs"}),
  };
}

std::vector<Row> RowsOfJobs() {
  return {
      Of<v1::ListJobsRequest, v1::ListJobsResponse>(
          "LoaderService/ListJobs", Way::kOwnerOrNext,
          [](C c, const auto& q, T told) {
            told.End(c.jobs.List(q.page_size()), As(&v1::ListJobsResponse::mutable_jobs));
          }),
      Of<v1::GetJobRequest, v1::Job>(
          "LoaderService/GetJob", Way::kOwnerOrNext,
          [](C c, const auto& q, T told) { told.End(c.jobs.Get(q.job())); }),
      Of<v1::DeleteJobRequest, v1::DeleteJobResponse>("LoaderService/DeleteJob", Way::kOwner,
                                                      [](C c, const auto& q, T told) {
                                                        Gone<v1::DeleteJobResponse>(
                                                            c.jobs.Delete(q.job()), told);
                                                      }),
      Of<v1::GetEpochRequest, v1::Epoch>(
          "LoaderService/GetEpoch", Way::kOwnerOrNext,
          [](C c, const auto& q, T told) { told.End(c.jobs.GetEpoch(q.epoch())); }, kShort,
          std::nullopt, {"evaluation", "attempt", "generation", "cursor"}),
      Of<v1::ReplanRequest, v1::ReplanResponse>(
          "ReceiptService/Replan", Way::kOwnerOrNext,
          [](C c, const auto& q, T told) { told.End(c.receipts.Replan(q)); }),
      Of<v1::RebuildBatchesRequest, v1::RebuildBatchesResponse>(
          "ReceiptService/RebuildBatches", Way::kOwner,
          [](C c, const auto& q, T told) {
            told.status = c.receipts.RebuildBatches(q, TakeEach(told));
          },
          kShort, {{}}),
  };
}

std::vector<Row> RowsOfParts() {
  return {
      Of<v1::PartitionRequest, v1::PartitionJob>(
          "PartitioningService/Partition", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.partitions.Partition(q)); }),
      Of<v1::GetPartitionRequest, v1::PartitionJob>(
          "PartitioningService/GetPartition", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.partitions.Get(q.graph(), q.name())); }),
      Of<v1::ListPartitionsRequest, v1::ListPartitionsResponse>(
          "PartitioningService/ListPartitions", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            told.End(c.partitions.List(q.graph()),
                     As(&v1::ListPartitionsResponse::mutable_partitions));
          }),
      Of<v1::CancelPartitionRequest, v1::PartitionJob>(
          "PartitioningService/CancelPartition", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.partitions.Cancel(q.graph(), q.name())); }),
      Of<v1::DeletePartitionRequest, v1::DeletePartitionResponse>(
          "PartitioningService/DeletePartition", Way::kHome,
          [](C c, const auto& q, T told) {
            Gone<v1::DeletePartitionResponse>(c.partitions.Delete(q.graph(), q.name()), told);
          }),
      Of<v1::PartitionDatasetRequest, v1::PartitionDatasetResponse>(
          "PartitioningService/PartitionDataset", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            v1::PartitionDatasetResponse last;
            const auto made = c.partitions.MakeDataset(q, [&](const auto& response) {
              last = response;
              (void)told.Take(last);
            });
            told.status = made.status();
            if (!made.ok()) return;
            *last.mutable_dataset() = *made;
            told.messages.back() = last.SerializeAsString();
          },
          kLong, {{"dataset"}}),
      Of<v1::EstimateSizesRequest, v1::EstimateSizesResponse>(
          "SamplingService/EstimateSizes", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.sampling.EstimateSizes(q)); }),
      Of<v1::SampleDatasetRequest, v1::SampleDatasetResponse>(
          "SamplingService/SampleDataset", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.sampling.SampleDataset(q, Progress(told))); },
          absl::InfiniteDuration(), {{"dataset"}}),
  };
}

std::vector<Row> RowsOfGraphs() {
  return {
      Of<v1::CreateSourceGraphRequest, v1::SourceGraph>(
          "SourceGraphService/CreateSourceGraph", Way::kHome,
          [](C c, const auto& q, T told) { told.End(c.graphs.Create(q)); }),
      Of<v1::SealSourceGraphRequest, v1::SealSourceGraphResponse>(
          "SourceGraphService/SealSourceGraph", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            v1::SealSourceGraphResponse last;
            const auto sealed = c.graphs.Seal(q, [&](uint64_t done, uint64_t total) {
              last.set_work_done(done);
              last.set_work_total(total);
              (void)told.Take(last);
            });
            told.status = sealed.status();
            if (!sealed.ok()) return;
            *last.mutable_graph() = *sealed;
            told.messages.back() = last.SerializeAsString();
          },
          kLong, {{"graph"}}),
      Of<v1::GetSourceGraphRequest, v1::SourceGraph>(
          "SourceGraphService/GetSourceGraph", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.graphs.Get(q.name())); }),
      Of<v1::ListSourceGraphsRequest, v1::ListSourceGraphsResponse>(
          "SourceGraphService/ListSourceGraphs", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            told.End(c.graphs.List(q.page_size()),
                     As(&v1::ListSourceGraphsResponse::mutable_graphs));
          }),
      Of<v1::DeleteSourceGraphRequest, v1::DeleteSourceGraphResponse>(
          "SourceGraphService/DeleteSourceGraph", Way::kHome,
          [](C c, const auto& q, T told) {
            Gone<v1::DeleteSourceGraphResponse>(c.graphs.Delete(q.name()), told);
          }),
      Of<v1::VerifySourceGraphRequest, v1::VerifySourceGraphResponse>(
          "SourceGraphService/VerifySourceGraph", Way::kAnywhere,
          [](C c, const auto& q, T told) {
            Ended(c.graphs.Verify(q.name(),
                                  [&](uint64_t done, uint64_t total) {
                                    v1::VerifySourceGraphResponse response;
                                    response.set_num_bytes(done);
                                    response.set_num_bytes_total(total);
                                    (void)told.Take(response);
                                  }),
                  told);
          },
          kLong, {{"finished", "num_damaged", "damaged"}}),
      Of<v1::LookupNodesRequest, v1::LookupNodesResponse>(
          "SourceGraphService/LookupNodes", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.graphs.Lookup(q)); }),
      Of<v1::ReadEdgesRequest, v1::ReadEdgesResponse>(
          "SourceGraphService/ReadEdges", Way::kAnywhere,
          [](C c, const auto& q, T told) { told.End(c.graphs.ReadEdges(q)); }),
  };
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const auto of : {RowsOfServer, RowsOfDatasets, RowsOfJobs, RowsOfParts, RowsOfGraphs}) {
    for (Row& row : of()) rows.push_back(std::move(row));
  }
  return rows;
}

// Whether every call of the contract is a row, but for streams that have clients of their own and
// services that this client does not have.
TEST(ClientCallsTableTest, AllCallsAreTried) {
  const std::set<std::string> elsewhere = {
      // acknowledger.h, dataset_appender.h, source_graph_appender.h, pack_stream.h, loader.h,
      // PartitionClient::Download().
      "LoaderService/Acknowledge", "DatasetService/Append", "SourceGraphService/AppendSourceGraph",
      "PackingService/Pack", "LoaderService/Load", "LoaderService/ReportStep",
      "PartitioningService/ReadPartitionFile",
      // By a stub.
      "SamplingService/Sample", "HistogramService/Observe", "HistogramService/GetHistogram",
      "HistogramService/ListHistograms", "HistogramService/MergeHistogram",
      "HistogramService/DeleteHistogram", "PlanningService/Plan", "PlanningService/Tune"};
  std::set<std::string> tried = elsewhere;
  for (const Row& row : Rows()) EXPECT_TRUE(tried.insert(row.method).second) << row.method;
  std::set<std::string> known;
  for (const google::protobuf::Descriptor* const some :
       {v1::GetServerRequest::descriptor(), v1::CreateDatasetRequest::descriptor(),
        v1::ReportRequest::descriptor(), v1::ListJobsRequest::descriptor(),
        v1::PartitionRequest::descriptor(), v1::ReplanRequest::descriptor(),
        v1::EstimateSizesRequest::descriptor(), v1::CreateSourceGraphRequest::descriptor(),
        v1::PackRequest::descriptor(), v1::PlanRequest::descriptor(),
        v1::ObserveRequest::descriptor()}) {
    for (int s = 0; s < some->file()->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *some->file()->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        known.insert(absl::StrCat(service.name(), "/", service.method(m)->name()));
      }
    }
  }
  EXPECT_EQ(tried, known);
}

void Clear(google::protobuf::Message& message, const std::string& name) {
  const auto* const field = message.GetDescriptor()->FindFieldByName(name);
  if (field != nullptr) message.GetReflection()->ClearField(&message, field);
}

// Each row with a request whose fields differ, against one server or two.
class ClientCallsTest : public testing::Test {
 protected:
  struct Call {
    const Row& row;
    std::string request;
    std::vector<std::string> answers;  // What a server answers that does what it is asked.
  };

  static ChannelOptions Once() {
    ChannelOptions options;
    options.retries = false;
    options.secured_by = Credentials();
    return options;
  }
  static ScriptedServer::Script Gives(const std::vector<std::string>& messages,
                                      const grpc::Status& status = grpc::Status::OK) {
    return [=](const auto& /*asked*/) { return ScriptedServer::Answer{messages, status}; };
  }

  Call CallOf(const Row& row) {
    int last = 0;
    const std::unique_ptr<google::protobuf::Message> request(row.request->New());
    Fill(*request, last);
    for (const std::string& name : row.ungiven) Clear(*request, name);
    Clear(*request, "page_token");
    Call call = {row, request->SerializeAsString(), {}};
    for (int left = row.last ? 2 : 0; left >= 0; --left) {
      const std::unique_ptr<google::protobuf::Message> answer(row.response->New());
      Fill(*answer, last);
      Clear(*answer, "next_page_token");
      if (left > 0) {
        for (const std::string& name : *row.last) Clear(*answer, name);
      }
      call.answers.push_back(answer->SerializeAsString());
    }
    return call;
  }
  Told Make(const Call& call, const Clients& clients, size_t most = 1000) {
    Told told;
    told.most = most;
    const std::unique_ptr<google::protobuf::Message> request(call.row.request->New());
    EXPECT_TRUE(request->ParseFromString(call.request));
    call.row.call(clients, *request, told);
    return told;
  }
  Told Make(const Call& call, size_t most = 1000) {
    return Make(call, Clients(channel_, absl::ZeroDuration(), Connect()), most);
  }
  JobServers::Connect Connect() {
    return [this](const std::string& address) { return MakeChannel(address, Once()); };
  }

  const std::vector<Row> rows_ = Rows();
  ScriptedServer server_;
  const std::shared_ptr<grpc::Channel> channel_ = MakeChannel(server_.address(), Once());
  ScriptedServer other_;
  const std::shared_ptr<grpc::Channel> other_channel_ = MakeChannel(other_.address(), Once());
};

TEST_F(ClientCallsTest, EachSendsAllThatItIsGivenAndTellsAllThatIsAnswered) {
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.method);
    const Call call = CallOf(row);
    server_.Plays(Gives(call.answers));
    const Told told = Make(call);
    EXPECT_THAT(told.status, IsOk());
    EXPECT_EQ(told.messages, call.answers);
    const auto asked = server_.asked();
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_EQ(asked[0].method, row.method);
    EXPECT_EQ(asked[0].request, call.request);
    EXPECT_THAT(asked[0].metadata, testing::Not(testing::Contains(testing::Key("authorization"))));
    // gRPC rounds what is left.
    const double most = absl::ToDoubleSeconds(row.timeout);
    EXPECT_LE(asked[0].seconds_left, 1.1 * most);
    EXPECT_GE(asked[0].seconds_left, std::min(0.9 * most, 1e9));
  }
}

TEST_F(ClientCallsTest, ListsAreReadPageByPage) {
  for (const Row& row : rows_) {
    const auto* const token = row.response->GetDescriptor()->FindFieldByName("next_page_token");
    if (token == nullptr) continue;
    SCOPED_TRACE(row.method);
    const Call call = CallOf(row);
    const auto page = [&](const std::string& next) {
      const std::unique_ptr<google::protobuf::Message> answer(row.response->New());
      EXPECT_TRUE(answer->ParseFromString(call.answers[0]));
      answer->GetReflection()->SetString(answer.get(), token, next);
      return std::vector{answer->SerializeAsString()};
    };
    int pages = 0;
    server_.Plays([&](const auto& asked) {
      EXPECT_EQ(asked.request, call.request + (pages == 0 ? "" : absl::StrCat("\x12\1", pages)));
      return ScriptedServer::Answer{page(++pages == 3 ? "" : absl::StrCat(pages)), {}};
    });
    const Told told = Make(call);
    EXPECT_THAT(told.status, IsOk());
    // Repeated fields one behind the other are those of all.
    EXPECT_EQ(told.messages, std::vector{call.answers[0] + call.answers[0] + call.answers[0]});
    EXPECT_EQ(pages, 3);
    // A server that names the page that it has just sent would be asked for ever.
    server_.Plays(Gives(page("1")));
    EXPECT_THAT(Make(call).status, StatusIs(absl::StatusCode::kInternal, HasSubstr("next page")));
    EXPECT_THAT(server_.asked(), SizeIs(2));
  }
}

// After each number of messages, with each code.
TEST_F(ClientCallsTest, ErrorsPassThroughWithCodeAndMessage) {
  for (const Row& row : rows_) {
    const Call call = CallOf(row);
    for (int code = 1; code <= 16; ++code) {
      for (size_t before = 0; before < (row.last ? 3U : 1U); ++before) {
        SCOPED_TRACE(absl::StrCat(row.method, " ", code, " after ", before));
        const std::vector<std::string> messages(call.answers.begin(),
                                                call.answers.begin() + before);
        const std::string why = absl::StrCat("since ", code);
        server_.Plays(Gives(messages, {static_cast<grpc::StatusCode>(code), why}));
        const Told told = Make(call);
        EXPECT_EQ(told.status.code(), static_cast<absl::StatusCode>(code));
        // Of those that may pass, calls that are made again say who has answered so.
        const bool says_who = (row.way == Way::kHome || row.way == Way::kAnywhere) &&
                              row.method != "SamplingService/SampleDataset" &&
                              Passes(told.status) && !absl::IsDeadlineExceeded(told.status);
        EXPECT_EQ(told.status.message(),
                  says_who ? absl::StrCat("ipv4:", server_.address(), ": ", why) : why);
        EXPECT_EQ(told.messages, messages);
        EXPECT_THAT(server_.asked(), SizeIs(1));
      }
    }
  }
}

TEST_F(ClientCallsTest, AStreamWithoutItsResultIsAnError) {
  for (const Row& row : rows_) {
    if (!row.last || row.last->empty()) continue;
    const Call call = CallOf(row);
    for (size_t num = 0; num < call.answers.size(); ++num) {
      SCOPED_TRACE(absl::StrCat(row.method, " after ", num));
      server_.Plays(Gives({call.answers.begin(), call.answers.begin() + num}));
      EXPECT_EQ(Make(call).status.code(), absl::StatusCode::kInternal);
    }
  }
}

TEST_F(ClientCallsTest, ASnapshotNeedsNobodyWhoIsToldOfIt) {
  v1::TakeSnapshotResponse done;
  done.set_is_done(true);
  server_.Plays(Gives({done.SerializeAsString()}));
  EXPECT_THAT(AdminClient(channel_).TakeSnapshot("name"), IsOk());
}

// Who may stop a call ends it by that, and is told no more.
TEST_F(ClientCallsTest, CallersStopStreams) {
  int num_tried = 0;
  for (const Row& row : rows_) {
    const bool gives_errors = row.last && row.last->empty();
    if (!gives_errors && row.method != "AdminService/TakeSnapshot") continue;
    ++num_tried;
    const Call call = CallOf(row);
    for (size_t most = 0; most < 3; ++most) {
      SCOPED_TRACE(absl::StrCat(row.method, " after ", most));
      // A snapshot that is done is done: only one that goes on can be stopped.
      server_.Plays(Gives(call.answers, {grpc::StatusCode::CANCELLED, "stopped"}));
      const Told told = Make(call, most);
      EXPECT_EQ(told.status.code(),
                gives_errors ? absl::StatusCode::kDataLoss : absl::StatusCode::kCancelled);
      EXPECT_THAT(told.messages, SizeIs(most + 1));
    }
  }
  EXPECT_EQ(num_tried, 4);
}

// The first answer is that the server goes away, the second is good.
TEST_F(ClientCallsTest, EachIsRepeatedWhereThatIsSafe) {
  const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "away");
  for (const Row& row : rows_) {
    for (const bool are_two : {false, true}) {
      SCOPED_TRACE(absl::StrCat(row.method, are_two ? ", two servers" : ""));
      const Call call = CallOf(row);
      int num_asked = 0;
      const auto script = [&](const auto& asked) {
        EXPECT_EQ(asked.method, row.method);
        return num_asked++ == 0 ? ScriptedServer::Answer{{}, away}
                                : ScriptedServer::Answer{call.answers, {}};
      };
      server_.Plays(script);
      other_.Plays(script);
      const Servers servers = are_two ? Servers({channel_, other_channel_}) : Servers(channel_);
      const Told told = Make(call, Clients(servers, absl::Hours(1), Connect()));
      const bool is_repeated = row.way == Way::kHome || row.way == Way::kAnywhere ||
                               (are_two && row.way == Way::kOwnerOrNext);
      const bool is_next = are_two && (row.way == Way::kAnywhere || row.way == Way::kOwnerOrNext);
      EXPECT_EQ(told.status.code(),
                is_repeated ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable);
      EXPECT_EQ(told.messages, is_repeated ? call.answers : std::vector<std::string>());
      EXPECT_THAT(server_.asked(), SizeIs(is_repeated && !is_next ? 2 : 1));
      EXPECT_THAT(other_.asked(), SizeIs(is_next ? 1 : 0));
    }
  }
}

// What was deleted by a try whose answer was lost is not there at the next one.
TEST_F(ClientCallsTest, ADeletionThatFindsNothingAtItsSecondTryIsDone) {
  for (const Row& row : rows_) {
    if (row.way != Way::kHome || !absl::StrContains(row.method, "/Delete")) continue;
    SCOPED_TRACE(row.method);
    for (const grpc::StatusCode second :
         {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::PERMISSION_DENIED}) {
      server_.Plays([&, num = 0](const auto& /*asked*/) mutable {
        return ScriptedServer::Answer{
            {}, {num++ == 0 ? grpc::StatusCode::UNAVAILABLE : second, "it is so"}};
      });
      const Told told = Make(CallOf(row), Clients(channel_, absl::Hours(1), Connect()));
      EXPECT_EQ(told.status.code(), second == grpc::StatusCode::NOT_FOUND
                                        ? absl::StatusCode::kOk
                                        : absl::StatusCode::kPermissionDenied);
    }
  }
}

TEST_F(ClientCallsTest, CallsOfJobsGoToTheOwnerThatAServerNames) {
  for (const Row& row : rows_) {
    if (row.way != Way::kOwner && row.way != Way::kOwnerOrNext) continue;
    SCOPED_TRACE(row.method);
    const Call call = CallOf(row);
    const ScriptedServer::Answer elsewhere = {{},
                                              {grpc::StatusCode::UNAVAILABLE, "another has it"},
                                              {{"packhouse-owner", other_.address()}}};
    server_.Plays([&](const auto& /*asked*/) { return elsewhere; });
    other_.Plays(Gives(call.answers));
    EXPECT_EQ(Make(call).messages, call.answers);
    ASSERT_THAT(other_.asked(), SizeIs(1));
    EXPECT_EQ(other_.asked()[0].request, call.request);
    EXPECT_GT(other_.asked()[0].seconds_left, 0.9 * absl::ToDoubleSeconds(kShort));
    // Two that name each other are not asked for ever.
    other_.Plays([&](const auto& /*asked*/) { return elsewhere; });
    EXPECT_THAT(Make(call).status,
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another has it")));
    EXPECT_THAT(other_.asked(), SizeIs(2));
  }
}

TEST_F(ClientCallsTest, EachShowsTheTokenThatTheFileHasNowAndNamesAFileThatIsGone) {
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "house");
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs = {
      {ReadText(folder.path() + "/house.key"), ReadText(folder.path() + "/house.crt")}};
  ScriptedServer server(grpc::SslServerCredentials(tls));
  ChannelOptions options = Once();
  options.secured_by = Credentials();
  options.secured_by->tls_ca = folder.path() + "/house.crt";
  options.secured_by->tls_server_name = "house";
  const std::string file = folder.path() + "/token";
  options.secured_by->token_file = file;
  WriteText(file, "begin");
  const std::shared_ptr<grpc::Channel> channel = MakeChannel(server.address(), options);
  const Clients clients(channel, absl::ZeroDuration(), Connect());
  int number = 0;
  for (const Row& row : rows_) {
    SCOPED_TRACE(row.method);
    const Call call = CallOf(row);
    server.Plays(Gives(call.answers));
    const std::string token = absl::StrCat("token-", ++number);
    WriteText(file, token + "\n");
    EXPECT_EQ(Make(call, clients).messages, call.answers);
    ASSERT_THAT(server.asked(), SizeIs(1));
    EXPECT_EQ(server.asked()[0].metadata["authorization"], "Bearer " + token);
    for (const bool is_there : {false, true}) {
      std::filesystem::remove(file);
      if (is_there) WriteText(file, token + " " + token);
      const Told told = Make(call, clients);
      EXPECT_THAT(told.status.ToString(),
                  testing::AllOf(HasSubstr(file), testing::Not(HasSubstr(token))));
      EXPECT_THAT(told.messages, IsEmpty());
      EXPECT_THAT(server.asked(), SizeIs(1));
    }
  }
}

}  // namespace
}  // namespace packhouse::client
