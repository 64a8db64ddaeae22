#include "service/wings/partition/services/partitioning_service.h"

#include <map>
#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "tests/rpc/sampling_fixture.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class PartitioningServiceTest : public SamplingServerTest {
 protected:
  // The server ends before its source graphs.
  ~PartitioningServiceTest() override {
    channel_.reset();
    server_.reset();
  }

  void Start() {
    if (datasets_ == nullptr) OpenDatasets();
    server_.reset();
    ServerOptions options;
    options.job_logs = ledger_.get();
    options.wings.push_back(ServeGraphs(&stored_));
    options.wings.push_back(ServePartitions(&stored_, /*engine=*/nullptr));
    PH_ASSERT_OK_AND_ASSIGN(
        server_, Server::Start(options, &clock_, &observer_, &observer_, datasets_.get()));
    channel_ = NewChannel();
    stub_ = v1::PartitioningService::NewStub(channel_);
  }

  static v1::PartitionRequest RequestFor(const std::string& name, uint32_t parts) {
    v1::PartitionRequest request;
    request.set_graph("g");
    request.set_name(name);
    request.set_num_parts(parts);
    request.set_method(v1::PARTITION_METHOD_RANDOM);
    return request;
  }
  absl::StatusOr<v1::PartitionJob> Begin(const v1::PartitionRequest& request) {
    grpc::ClientContext context;
    v1::PartitionJob job;
    PH_RETURN_IF_ERROR(ToAbsl(stub_->Partition(&context, request, &job)));
    return job;
  }
  absl::StatusOr<v1::PartitionJob> AwaitEnd(const std::string& name) {
    v1::GetPartitionRequest request;
    request.set_graph("g");
    request.set_name(name);
    for (;;) {
      grpc::ClientContext context;
      v1::PartitionJob job;
      PH_RETURN_IF_ERROR(ToAbsl(stub_->GetPartition(&context, request, &job)));
      if (job.state() != v1::PARTITION_STATE_WAITING &&
          job.state() != v1::PARTITION_STATE_RUNNING) {
        return job;
      }
    }
  }
  absl::StatusOr<std::string> ReadAll(const std::string& name, const v1::PartitionFile& file) {
    v1::ReadPartitionFileRequest request;
    request.set_graph("g");
    request.set_name(name);
    request.set_path(file.path());
    request.set_max_bytes(1000);
    std::string bytes;
    while (bytes.size() < file.num_bytes()) {
      request.set_offset(bytes.size());
      grpc::ClientContext context;
      v1::ReadPartitionFileResponse response;
      PH_RETURN_IF_ERROR(ToAbsl(stub_->ReadPartitionFile(&context, request, &response)));
      if (response.data().empty()) return absl::DataLossError(file.path());
      bytes += response.data();
    }
    return bytes;
  }

  TemporaryFolder companion_;
  OneGraphStore stored_{SmallSourceGraph(kNodes), companion_.path() + "/companion"};
  std::unique_ptr<v1::PartitioningService::Stub> stub_;
};

INSTANTIATE_TEST_SUITE_P(All, PartitioningServiceTest, ::testing::Values(Transport::kInProcess),
                         TransportName);

TEST_P(PartitioningServiceTest, IsBegunFoundReadAndDeleted) {
  Start();
  PH_ASSERT_OK_AND_ASSIGN(const v1::PartitionJob begun, Begin(RequestFor("mine", 3)));
  EXPECT_EQ(begun.request().imbalance(), 1.03);
  EXPECT_EQ(begun.graph_version(), 42);
  PH_ASSERT_OK_AND_ASSIGN(const v1::PartitionJob done, AwaitEnd("mine"));
  ASSERT_EQ(done.state(), v1::PARTITION_STATE_DONE);
  EXPECT_EQ(done.share_done(), 1);
  EXPECT_EQ(done.report().num_nodes(), kNodes);
  EXPECT_EQ(done.report().parts_size(), 3);
  std::map<std::string, std::string> files;
  for (const v1::PartitionFile& file : done.files()) {
    PH_ASSERT_OK_AND_ASSIGN(files[file.path()], ReadAll("mine", file));
    EXPECT_EQ(files[file.path()].size(), file.num_bytes());
  }
  EXPECT_THAT(files["mine.json"], HasSubstr("\"num_parts\""));
  // The same words find it, also by another server on the same folder; others do not.
  Start();
  PH_ASSERT_OK_AND_ASSIGN(const v1::PartitionJob found, Begin(RequestFor("mine", 3)));
  EXPECT_EQ(found.state(), v1::PARTITION_STATE_DONE);
  EXPECT_THAT(Begin(RequestFor("mine", 4)).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'mine'")));
  for (const int parts : {0, 65'537}) {
    EXPECT_THAT(Begin(RequestFor("other", static_cast<uint32_t>(parts))).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_parts is")));
  }
  v1::DeletePartitionRequest request;
  request.set_graph("g");
  request.set_name("mine");
  for (const absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kNotFound}) {
    grpc::ClientContext context;
    v1::DeletePartitionResponse response;
    EXPECT_EQ(ToAbsl(stub_->DeletePartition(&context, request, &response)).code(), code);
  }
}

TEST_P(PartitioningServiceTest, IsListedAndCancelled) {
  Start();
  for (const char* const name : {"a", "b"}) {
    ASSERT_THAT(Begin(RequestFor(name, 3)).status(), IsOk());
    ASSERT_THAT(AwaitEnd(name).status(), IsOk());
  }
  v1::ListPartitionsRequest list;
  list.set_graph("g");
  grpc::ClientContext listing;
  v1::ListPartitionsResponse listed;
  ASSERT_THAT(ToAbsl(stub_->ListPartitions(&listing, list, &listed)), IsOk());
  ASSERT_EQ(listed.partitions_size(), 2);
  EXPECT_EQ(listed.partitions(1).request().name(), "b");
  EXPECT_EQ(listed.partitions(1).state(), v1::PARTITION_STATE_DONE);
  v1::CancelPartitionRequest cancel;
  cancel.set_graph("g");
  cancel.set_name("b");
  grpc::ClientContext cancelling;
  v1::PartitionJob job;
  // What is done stays so.
  ASSERT_THAT(ToAbsl(stub_->CancelPartition(&cancelling, cancel, &job)), IsOk());
  EXPECT_EQ(job.state(), v1::PARTITION_STATE_DONE);
  EXPECT_EQ(job.request().name(), "b");
}

TEST_P(PartitioningServiceTest, ADataSetOfPartsHasWhatItsRequestSays) {
  Start();
  ASSERT_THAT(Begin(RequestFor("fine", 20)).status(), IsOk());
  ASSERT_THAT(AwaitEnd("fine").status(), IsOk());
  // The last response, and the names of the tensors.
  const auto make = [&](const std::string& dataset, v1::PartitionDatasetRequest request)
      -> absl::StatusOr<std::pair<v1::PartitionDatasetResponse, std::set<std::string>>> {
    request.set_graph("g");
    request.set_partition("fine");
    request.set_dataset(dataset);
    grpc::ClientContext context;
    const auto responses = stub_->PartitionDataset(&context, request);
    v1::PartitionDatasetResponse last;
    while (responses->Read(&last)) EXPECT_EQ(last.num_graphs_total(), 20U);
    PH_RETURN_IF_ERROR(ToAbsl(responses->Finish()));
    std::set<std::string> names;
    for (const auto& tensor : last.dataset().schema().tensors()) names.insert(tensor.name());
    return std::pair(last, names);
  };
  v1::PartitionDatasetRequest request;
  PH_ASSERT_OK_AND_ASSIGN(const auto plain, make("plain", request));
  EXPECT_EQ(plain.first.num_graphs(), 20U);
  EXPECT_TRUE(plain.second.contains("n.x"));
  EXPECT_FALSE(plain.second.contains("n.#id"));
  EXPECT_FALSE(plain.second.contains("n.#inner"));
  request.set_ids(true);
  EXPECT_TRUE(make("ids", request)->second.contains("n.#id"));
  request.Clear();
  request.set_without_features(true);
  EXPECT_FALSE(make("bare", request)->second.contains("n.x"));
  request.Clear();
  request.set_halo(true);
  EXPECT_TRUE(make("halo", request)->second.contains("n.#inner"));
  request.Clear();
  request.set_max_bytes(1000);
  EXPECT_THAT(make("small", request).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000")));
}

TEST_P(PartitioningServiceTest, PartsBecomeADataSetThatIsJoinedInBatches) {
  Start();
  v1::PartitionDatasetRequest request;
  request.set_graph("g");
  request.set_partition("fine");
  request.set_dataset("parts");
  const auto make = [&]() -> absl::StatusOr<v1::PartitionDatasetResponse> {
    grpc::ClientContext context;
    const auto responses = stub_->PartitionDataset(&context, request);
    v1::PartitionDatasetResponse last;
    while (responses->Read(&last)) {
    }
    PH_RETURN_IF_ERROR(ToAbsl(responses->Finish()));
    return last;
  };
  EXPECT_THAT(make().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'fine'")));
  v1::PartitionRequest fine = RequestFor("fine", 20);
  fine.set_without_files(true);
  ASSERT_THAT(Begin(fine).status(), IsOk());
  ASSERT_THAT(AwaitEnd("fine").status(), IsOk());
  request.set_dataset("not a name");
  EXPECT_THAT(make().status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a name")));
  request.set_dataset("parts");
  PH_ASSERT_OK_AND_ASSIGN(const v1::PartitionDatasetResponse made, make());
  EXPECT_EQ(made.num_graphs(), 20);
  EXPECT_EQ(made.dataset().state(), v1::DATASET_STATE_SEALED);

  v1::LoadRequest load;
  v1::EpochSpec& epoch = *load.mutable_epoch();
  epoch.set_dataset("parts");
  epoch.set_job("job");
  epoch.set_join_parts(true);
  for (const auto& [component, rows] :
       {std::pair("n", 150), std::pair("e", 900), std::pair("graphs", 8)}) {
    if (epoch.rank_groups().empty()) epoch.add_rank_groups()->add_shapes();
    v1::Capacity& capacity = *epoch.mutable_rank_groups(0)->mutable_shapes(0)->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(static_cast<uint64_t>(rows));
  }
  load.mutable_ranked()->set_num_ranks(1);
  load.set_max_in_flight(100);
  grpc::ClientContext context;
  const auto loader = v1::LoaderService::NewStub(channel_);
  const auto stream = loader->Load(&context, load);
  v1::LoadResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const v1::Epoch opened = response.opened().epoch();
  EXPECT_EQ(opened.num_graphs(), 20);
  EXPECT_GT(opened.joined_parts().num_restored_edges(), 0);
  EXPECT_EQ(response.opened().schema().components_size(), 2);
  std::multiset<uint64_t> parts;
  uint64_t edges = 0;
  for (uint64_t i = 0; i < opened.num_batches(); ++i) {
    ASSERT_TRUE(stream->Read(&response));
    const v1::Batch& batch = response.batch().batch();
    for (const uint64_t id : Uint64sFromWire(batch.graph_ids())) parts.insert(id);
    EXPECT_LE(batch.real_rows(0), 150);
    EXPECT_LE(batch.real_rows(1), 900);
    edges += batch.real_rows(1);
  }
  EXPECT_EQ(parts.size(), 20);
  EXPECT_EQ(std::set<uint64_t>(parts.begin(), parts.end()).size(), 20);
  EXPECT_EQ(edges,
            opened.joined_parts().num_inner_edges() + opened.joined_parts().num_restored_edges());
  context.TryCancel();
}

}  // namespace
}  // namespace packhouse::rpc
