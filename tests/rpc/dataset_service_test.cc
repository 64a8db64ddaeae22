// DatasetService over the real server and a real store.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "service/algorithms/histograms/drift_detector.h"
#include "service/server/calls/wire_graphs.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"

namespace packhouse::rpc {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GraphSchema Schema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kFloat32, {3}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

void ChunkToWire(const GraphChunk& chunk, v1::GraphChunk& wire) {
  const SizeTable& sizes = chunk.sizes();
  std::vector<uint32_t> counts;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < chunk.num_graphs(); ++i) {
    counts.insert(counts.end(), sizes.tuple(i).begin(), sizes.tuple(i).end());
    ids.push_back(sizes.graph_id(i));
  }
  wire.mutable_sizes()->set_num_graphs(chunk.num_graphs());
  wire.mutable_sizes()->set_counts(Uint32sToWire(counts));
  wire.mutable_sizes()->set_graph_ids(Uint64sToWire(ids));
  for (size_t t = 0; t < chunk.num_columns(); ++t) {
    v1::TensorData& tensor = *wire.add_tensors();
    tensor.set_name(chunk.schema().tensors()[t].name);
    tensor.set_data(std::string(chunk.column(t)));
  }
}

// Graphs (n, 0) without ids.
v1::GraphChunk NodesOf(const std::vector<uint32_t>& nodes) {
  v1::GraphChunk chunk;
  *chunk.mutable_sizes() = SizesOf(nodes, 0).sizes();
  chunk.mutable_sizes()->clear_ids();
  return chunk;
}

// An Append stream with all it needs.
struct AppendCall {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AppendRequest, v1::AppendResponse>> stream;

  // The answer to one request, or how the stream ended instead.
  absl::StatusOr<v1::AppendResponse> Append(const v1::AppendRequest& request) {
    v1::AppendResponse response;
    if (stream->Write(request) && stream->Read(&response)) return response;
    absl::Status status = ToAbsl(stream->Finish());
    return status.ok() ? absl::UnknownError("ended without an answer") : status;
  }
  absl::Status End() {
    stream->WritesDone();
    v1::AppendResponse response;
    EXPECT_FALSE(stream->Read(&response));
    return ToAbsl(stream->Finish());
  }
};

// Delegates everything that a test does not replace. Appends wait until `meeting` of them are
// inside.
class MeetingStore final : public DatasetStore {
 public:
  explicit MeetingStore(int meeting) : meeting_(meeting) {}

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override {
    return store_.Create(name, schema, options);
  }
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override {
    {
      absl::MutexLock lock(&mutex_);
      ++inside_;
      mutex_.Await(absl::Condition(&released_));
    }
    return store_.AppendTo(target, chunk, group_ids, producer);
  }
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override {
    return store_.GetProducer(target, producer);
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override { return store_.Seal(target); }
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    return store_.Get(name);
  }
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override {
    return store_.GetHistogram(name);
  }
  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override {
    return store_.List(page_size, page_token);
  }
  absl::Status Delete(const Target& target) override { return store_.Delete(target); }
  // Goes on for as long as it may.
  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override {
    VerifyProgress done;
    while (progress(done)) {
      // Large records, or small ones.
      if (name == "large") {
        done.num_bytes += uint64_t{1} << 20;
      } else {
        done.num_records += 512;
      }
    }
    return absl::CancelledError("given up");
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    return store_.OpenReader(name);
  }

  void AwaitMeeting() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &MeetingStore::AllAreInside));
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    released_ = true;
  }

 private:
  bool AllAreInside() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ >= meeting_; }

  MemoryDatasetStore store_{uint64_t{1} << 30};
  const int meeting_;
  absl::Mutex mutex_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

class DatasetServiceTest : public ServerTest {
 protected:
  void StartWithDatasets(const ServerOptions& options = {}) {
    OpenDatasets();
    StartServer(options);
    stub_ = v1::DatasetService::NewStub(channel_);
  }
  void StartWith(std::unique_ptr<DatasetStore> store, const ServerOptions& options = {}) {
    datasets_ = std::move(store);
    StartServer(options);
    stub_ = v1::DatasetService::NewStub(channel_);
  }

  absl::StatusOr<v1::Dataset> Create(const std::string& text) {
    v1::CreateDatasetRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    return Create(request);
  }
  absl::StatusOr<v1::Dataset> Create(const v1::CreateDatasetRequest& request) {
    return Call<v1::Dataset>([&](auto* context, auto* response) {
      return stub_->CreateDataset(context, request, response);
    });
  }
  absl::StatusOr<v1::Dataset> Seal(const std::string& name) {
    v1::SealDatasetRequest request;
    request.set_name(name);
    return Call<v1::Dataset>([&](auto* context, auto* response) {
      return stub_->SealDataset(context, request, response);
    });
  }
  absl::StatusOr<v1::GetDatasetResponse> Get(const std::string& name,
                                             bool include_histogram = false) {
    v1::GetDatasetRequest request;
    request.set_name(name);
    request.set_include_histogram(include_histogram);
    return Call<v1::GetDatasetResponse>([&](auto* context, auto* response) {
      return stub_->GetDataset(context, request, response);
    });
  }
  absl::StatusOr<v1::ListDatasetsResponse> List(uint32_t page_size, const std::string& token) {
    v1::ListDatasetsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    return Call<v1::ListDatasetsResponse>([&](auto* context, auto* response) {
      return stub_->ListDatasets(context, request, response);
    });
  }
  absl::Status Delete(const std::string& name) {
    v1::DeleteDatasetRequest request;
    request.set_name(name);
    return Call<v1::DeleteDatasetResponse>([&](auto* context, auto* response) {
             return stub_->DeleteDataset(context, request, response);
           })
        .status();
  }
  // The last response; the ones before say how far it is.
  absl::StatusOr<v1::VerifyDatasetResponse> Verify(const std::string& name) {
    grpc::ClientContext context;
    v1::VerifyDatasetRequest request;
    request.set_name(name);
    const auto stream = stub_->VerifyDataset(&context, request);
    v1::VerifyDatasetResponse response;
    v1::VerifyDatasetResponse last;
    while (stream->Read(&response)) {
      EXPECT_FALSE(last.finished());
      EXPECT_GE(response.num_records(), last.num_records());
      last = response;
    }
    const absl::Status status = ToAbsl(stream->Finish());
    if (!status.ok()) return status;
    EXPECT_TRUE(last.finished());
    return last;
  }

  std::unique_ptr<AppendCall> StartAppend() {
    auto call = std::make_unique<AppendCall>();
    call->stream = stub_->Append(&call->context);
    return call;
  }
  // One request on a stream of its own.
  absl::StatusOr<v1::AppendResponse> Append(const v1::AppendRequest& request) {
    const auto call = StartAppend();
    auto response = call->Append(request);
    if (!response.ok()) return response;
    EXPECT_THAT(call->End(), IsOk());
    return response;
  }
  absl::StatusOr<v1::AppendResponse> Append(const std::string& name, const v1::GraphChunk& chunk) {
    v1::AppendRequest request;
    request.set_dataset(name);
    *request.mutable_graphs() = chunk;
    return Append(request);
  }

  std::unique_ptr<v1::DatasetService::Stub> stub_;

 private:
  template <typename Response, typename Run>
  absl::StatusOr<Response> Call(Run run) {
    grpc::ClientContext context;
    Response response;
    const absl::Status status = ToAbsl(run(&context, &response));
    if (!status.ok()) return status;
    return response;
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, DatasetServiceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

// Anybody may ask for one, and a data set may have millions of sizes.
TEST_P(DatasetServiceTest, AHistogramIsReservedBeforeItIsRead) {
  constexpr uint32_t kSizes = 150'000;
  ServerOptions options;
  options.memory_budget = uint64_t{32} << 20;
  options.max_message_bytes = uint64_t{4} << 20;
  StartWithDatasets(options);
  ASSERT_THAT(Create(R"pb(name: "many"
                          schema { components: "nodes" })pb")
                  .status(),
              IsOk());
  for (uint32_t first : {0U, kSizes / 2}) {
    std::vector<uint32_t> sizes(kSizes / 2);
    std::iota(sizes.begin(), sizes.end(), first);
    v1::GraphChunk chunk;
    chunk.mutable_sizes()->set_num_graphs(sizes.size());
    chunk.mutable_sizes()->set_counts(Uint32sToWire(sizes));
    ASSERT_THAT(Append("many", chunk).status(), IsOk());
    const auto with_histogram = Get("many", /*include_histogram=*/true);
    if (first == 0) {
      ASSERT_THAT(with_histogram.status(), IsOk());
      EXPECT_EQ(with_histogram->histogram().counts().size(), sizes.size() * sizeof(uint64_t));
    } else {
      EXPECT_THAT(with_histogram, StatusIs(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("the histogram of the data set")));
    }
    EXPECT_THAT(Get("many").status(), IsOk());
  }
}

// It stays known when the data set is sealed; another one of its name has none.
TEST_P(DatasetServiceTest, AChangeOfSizesIsToldWithTheDataSet) {
  StartWithDatasets();
  for (const bool drifts : {true, false}) {
    ASSERT_THAT(Create(R"pb(name: "d"
                            schema { components: "nodes" components: "edges" })pb")
                    .status(),
                IsOk());
    const auto call = StartAppend();
    for (int chunk = 0; chunk < 80; ++chunk) {
      v1::AppendRequest request;
      request.set_dataset("d");
      *request.mutable_graphs() =
          NodesOf(std::vector<uint32_t>(200, drifts && chunk >= 40 ? 11 : 10));
      ASSERT_THAT(call->Append(request).status(), IsOk());
    }
    EXPECT_EQ(Get("d")->has_drift(), drifts);
    EXPECT_THAT(call->End(), IsOk());
    ASSERT_THAT(Seal("d").status(), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const v1::GetDatasetResponse sealed, Get("d"));
    EXPECT_EQ(sealed.has_drift(), drifts);
    EXPECT_EQ(sealed.drift().components_size(), drifts ? 2 : 0);
    EXPECT_THAT(Delete("d"), IsOk());
  }
}

// Watches keep the last data sets from memory that others could use.
TEST_P(DatasetServiceTest, AWatchOfSizesEndsWithItsDataSet) {
  StartWithDatasets();
  const uint64_t watch_bytes = 2 * DriftDetector::BytesFor(2);
  for (const bool seals : {true, false}) {
    ASSERT_THAT(Create(R"pb(name: "d"
                            schema { components: "nodes" components: "edges" })pb")
                    .status(),
                IsOk());
    ASSERT_THAT(Append("d", NodesOf({1, 2})), IsOk());
    EXPECT_GE(server_->working_bytes(), watch_bytes);
    if (seals) {
      ASSERT_THAT(Seal("d").status(), IsOk());
      EXPECT_LT(server_->working_bytes(), watch_bytes);
    }
    EXPECT_THAT(Delete("d"), IsOk());
    EXPECT_LT(server_->working_bytes(), watch_bytes);
  }
}

TEST_P(DatasetServiceTest, WhatIsAppendedIsWhatIsStored) {
  StartWithDatasets();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const std::string name = absl::StrCat("random/", seed);
    const bool grouped = random.Below(2) == 0;
    v1::CreateDatasetRequest create;
    create.set_name(name);
    GraphSchemaToWire(schema, *create.mutable_schema());
    create.set_grouped(grouped);
    PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset created, Create(create));
    EXPECT_EQ(created.state(), v1::DATASET_STATE_OPEN);
    EXPECT_EQ(created.schema().SerializeAsString(), create.schema().SerializeAsString());

    std::vector<GraphChunk> chunks;
    std::vector<uint64_t> groups;
    SizeHistogram sizes(schema.num_components());
    uint64_t num_graphs = 0;
    const auto call = StartAppend();
    for (int i = 0; i < 5; ++i) {
      chunks.push_back(RandomChunk(random, &schema, random.Below(6), 5, num_graphs));
      const GraphChunk& chunk = chunks.back();
      num_graphs += chunk.num_graphs();
      ASSERT_THAT(sizes.AddTable(chunk.sizes()), IsOk());
      v1::AppendRequest request;
      if (i == 0) request.set_dataset(name);
      ChunkToWire(chunk, *request.mutable_graphs());
      std::vector<uint64_t> chunk_groups;
      for (size_t g = 0; grouped && g < chunk.num_graphs(); ++g) {
        chunk_groups.push_back(random.Next());
      }
      request.set_group_ids(Uint64sToWire(chunk_groups));
      groups.insert(groups.end(), chunk_groups.begin(), chunk_groups.end());
      PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse response, call->Append(request));
      EXPECT_EQ(response.num_appended(), chunk.num_graphs());
      EXPECT_EQ(response.num_graphs(), num_graphs);
    }
    EXPECT_THAT(call->End(), IsOk());

    PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset sealed, Seal(name));
    EXPECT_EQ(sealed.state(), v1::DATASET_STATE_SEALED);
    EXPECT_NE(sealed.version(), created.version());
    PH_ASSERT_OK_AND_ASSIGN(const v1::GetDatasetResponse got, Get(name, true));
    EXPECT_EQ(got.dataset().SerializeAsString(), sealed.SerializeAsString());
    EXPECT_EQ(got.dataset().num_graphs(), num_graphs);
    v1::Histogram histogram;
    HistogramToWire(sizes, schema.sizes(), histogram);
    EXPECT_EQ(got.histogram().SerializeAsString(), histogram.SerializeAsString());

    PH_ASSERT_OK_AND_ASSIGN(const auto reader, datasets_->OpenReader(name));
    EXPECT_EQ(std::vector<uint64_t>(reader->group_ids().begin(), reader->group_ids().end()),
              groups);
    size_t at = 0;
    for (const GraphChunk& chunk : chunks) {
      for (size_t i = 0; i < chunk.num_graphs(); ++i) {
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(at++));
        EXPECT_TRUE(SameGraph(*graph.chunk, graph.index, chunk, i)) << "graph " << at;
      }
    }
    PH_ASSERT_OK_AND_ASSIGN(const v1::VerifyDatasetResponse verified, Verify(name));
    EXPECT_EQ(verified.num_records(), sealed.num_records());
    EXPECT_EQ(verified.num_damaged(), 0U);
    EXPECT_THAT(verified.disagreements(), IsEmpty());
  }
}

TEST_P(DatasetServiceTest, PagesListEveryDataSetOnceInOrder) {
  StartWithDatasets();
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) {
    names.push_back(absl::StrCat("d", i));
    ASSERT_THAT(Create("name: '" + names.back() + "'"), IsOk());
  }
  for (const uint32_t page_size : {0, 1, 3, 7, 1001}) {
    SCOPED_TRACE(page_size);
    std::vector<std::string> listed;
    std::string token;
    do {
      PH_ASSERT_OK_AND_ASSIGN(const v1::ListDatasetsResponse page, List(page_size, token));
      for (const v1::Dataset& dataset : page.datasets()) listed.push_back(dataset.name());
      EXPECT_TRUE(page_size == 0 || page.datasets_size() <= static_cast<int>(page_size));
      token = page.next_page_token();
    } while (!token.empty());
    EXPECT_EQ(listed, names);
  }
  EXPECT_THAT(List(0, "a b"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page token")));
}

// A page that is too large for a message becomes shorter, not an error that no retry gets over.
TEST_P(DatasetServiceTest, LargeSchemasMakeShortPages) {
  ServerOptions options;
  options.max_message_bytes = 4 << 20;
  StartWithDatasets(options);
  v1::CreateDatasetRequest create;
  for (size_t t = 0; t < GraphSchema::kMaxTensors; ++t) {
    v1::TensorSpec& tensor = *create.mutable_schema()->add_tensors();
    tensor.set_name(absl::StrCat(std::string(GraphSchema::kMaxTensorNameLength - 3, 'x'), t));
    tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
    tensor.set_component("graphs");
  }
  std::set<std::string> names;
  for (int i = 0; i < 150; ++i) {
    create.set_name(absl::StrCat("d", i));
    names.insert(create.name());
    ASSERT_THAT(Create(create), IsOk());
  }
  std::set<std::string> listed;
  int num_pages = 0;
  std::string token;
  do {
    PH_ASSERT_OK_AND_ASSIGN(const v1::ListDatasetsResponse page, List(1000, token));
    EXPECT_LE(page.ByteSizeLong(), size_t{4} << 20)
        << "schemas of a thousand are in memory at once";
    for (const v1::Dataset& dataset : page.datasets()) {
      EXPECT_TRUE(listed.insert(dataset.name()).second);
    }
    token = page.next_page_token();
    ++num_pages;
  } while (!token.empty());
  EXPECT_EQ(listed, names);
  EXPECT_GT(num_pages, 1);
}

TEST_P(DatasetServiceTest, ADeletedNameIsFree) {
  StartWithDatasets();
  PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset first, Create("name: 'd'"));
  ASSERT_THAT(Append("d", NodesOf({1, 2})), IsOk());
  EXPECT_THAT(Delete("d"), IsOk());
  EXPECT_THAT(Get("d"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'d'")));
  PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset second, Create("name: 'd'"));
  EXPECT_NE(second.version(), first.version());
  EXPECT_EQ(second.num_graphs(), 0U);
}

TEST_P(DatasetServiceTest, EachErrorHasItsCode) {
  StartWithDatasets();
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Create("name: 'a b'"), StatusIs(invalid, HasSubstr("name 'a b'")));
  EXPECT_THAT(Create("name: 'd' schema { components: '' }"), StatusIs(invalid, _));
  EXPECT_THAT(Create("name: 'd' max_rows { component: 'faces' rows: 1 }"),
              StatusIs(invalid, HasSubstr("'faces'")));
  ASSERT_THAT(Create("name: 'd' max_rows { component: 'nodes' rows: 9 }"), IsOk());
  EXPECT_THAT(Create("name: 'd'"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'d' exists already")));

  EXPECT_THAT(Append("", NodesOf({1})), StatusIs(invalid, HasSubstr("must be named")));
  EXPECT_THAT(Append("q", NodesOf({1})), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'q'")));
  EXPECT_THAT(
      Append("d", NodesOf({9, 10})),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("graph 1 has 10 nodes, at most 9")));
  v1::GraphChunk malformed = NodesOf({1});
  malformed.mutable_sizes()->set_num_graphs(2);
  EXPECT_THAT(Append("d", malformed), StatusIs(invalid, HasSubstr("sizes.counts: 8 bytes")));
  malformed = NodesOf({1});
  malformed.add_tensors()->set_name("y");
  EXPECT_THAT(Append("d", malformed), StatusIs(invalid, HasSubstr("'y' is not in the schema")));
  v1::AppendRequest grouped;
  grouped.set_dataset("d");
  *grouped.mutable_graphs() = NodesOf({1});
  grouped.set_group_ids(Uint64sToWire({1}));
  EXPECT_THAT(Append(grouped), StatusIs(invalid, HasSubstr("without group ids")));
  v1::AppendRequest unnamed;
  unnamed.set_dataset("d");
  unnamed.mutable_producer_sequence()->set_sequence(1);
  *unnamed.mutable_graphs() = NodesOf({1});
  EXPECT_THAT(Append(unnamed), StatusIs(invalid, HasSubstr("producer: a name of 0 characters")));

  ASSERT_THAT(Create("name: 'small' max_bytes: 10000"), IsOk());
  EXPECT_THAT(Append("small", NodesOf(std::vector<uint32_t>(2000, 1))),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("its quota is 10000")));
  // Smaller ones still go in.
  EXPECT_THAT(Append("small", NodesOf({1})), IsOk());

  ASSERT_THAT(Seal("d"), IsOk());
  ASSERT_THAT(Seal("d"), IsOk());
  EXPECT_THAT(Append("d", NodesOf({1})),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'d' is sealed")));

  const auto not_found = StatusIs(absl::StatusCode::kNotFound, HasSubstr("'q'"));
  EXPECT_THAT(Seal("q"), not_found);
  EXPECT_THAT(Get("q"), not_found);
  EXPECT_THAT(Get("q", true), not_found);
  EXPECT_THAT(Delete("q"), not_found);
  EXPECT_THAT(Verify("q"), not_found);
}

TEST_P(DatasetServiceTest, AFullStoreIsResourceExhaustedAndServesOn) {
  OpenDatasets(/*max_bytes=*/1 << 20);
  StartServer();
  stub_ = v1::DatasetService::NewStub(channel_);
  ASSERT_THAT(Create("name: 'd'"), IsOk());
  const v1::GraphChunk chunk = NodesOf(std::vector<uint32_t>(20'000, 1));
  uint64_t num_stored = 0;
  absl::Status status;
  while (status.ok()) {
    status = Append("d", chunk).status();
    if (status.ok()) num_stored += 20'000;
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("bytes of all data sets, at most 1048576")));
  PH_ASSERT_OK_AND_ASSIGN(const v1::GetDatasetResponse got, Get("d"));
  EXPECT_EQ(got.dataset().num_graphs(), num_stored);
  ASSERT_THAT(Delete("d"), IsOk());
  ASSERT_THAT(Create("name: 'd'"), IsOk());
  EXPECT_THAT(Append("d", chunk), IsOk());
}

TEST_P(DatasetServiceTest, WhatCameBeforeAnErrorIsAnsweredAndStays) {
  StartWithDatasets();
  ASSERT_THAT(Create("name: 'd'"), IsOk());
  const auto call = StartAppend();
  v1::AppendRequest request;
  request.set_dataset("d");
  *request.mutable_graphs() = NodesOf({1, 2});
  v1::AppendRequest wrong;
  *wrong.mutable_graphs() = NodesOf({3});
  wrong.mutable_graphs()->mutable_sizes()->set_counts("abc");
  ASSERT_TRUE(call->stream->Write(request));
  ASSERT_TRUE(call->stream->Write(request));
  call->stream->Write(wrong);
  v1::AppendResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  ASSERT_TRUE(call->stream->Read(&response));
  EXPECT_EQ(response.num_graphs(), 4U);
  EXPECT_FALSE(call->stream->Read(&response));
  EXPECT_THAT(ToAbsl(call->stream->Finish()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sizes.counts: 3 bytes")));
  PH_ASSERT_OK_AND_ASSIGN(const v1::GetDatasetResponse got, Get("d"));
  EXPECT_EQ(got.dataset().num_graphs(), 4U);
}

// Appends chunks 1 to n of a producer, one graph (producer * 1000 + i) each, over streams that
// break at random; what was not answered is sent again. A stream that broke may still be at work
// when all is done, so the data set is named by its id too.
void AppendOverBrokenStreams(v1::DatasetService::Stub& stub, const v1::Dataset& dataset,
                             uint64_t seed, uint32_t producer, uint64_t num_chunks) {
  // As many as a stream takes from a client that does not read.
  constexpr uint64_t kMostUnanswered = 3;
  Random random(seed * 100 + producer);
  uint64_t answered = 0;
  while (answered < num_chunks) {
    grpc::ClientContext context;
    const auto stream = stub.Append(&context);
    uint64_t sent = answered;
    bool is_broken = false;
    while (answered < num_chunks && !is_broken) {
      const bool may_send = sent < num_chunks && sent - answered < kMostUnanswered;
      if (may_send && (sent == answered || random.Below(2) == 0)) {
        v1::AppendRequest request;
        if (sent == answered) {
          request.set_dataset(dataset.name());
          request.set_dataset_id(dataset.id());
        }
        ++sent;
        request.mutable_producer_sequence()->set_producer(absl::StrCat("producer", producer));
        request.mutable_producer_sequence()->set_sequence(sent);
        *request.mutable_graphs() = NodesOf({producer});
        request.mutable_graphs()->mutable_sizes()->set_first_id(producer * 1000 + sent);
        ASSERT_TRUE(stream->Write(request));
      } else {
        v1::AppendResponse response;
        ASSERT_TRUE(stream->Read(&response));
        ++answered;
        EXPECT_EQ(response.producer_sequence().sequence(), answered);
        EXPECT_EQ(response.num_appended(), response.is_repetition() ? 0U : 1U);
      }
      is_broken = random.Below(6) == 0;
    }
    if (is_broken) {
      context.TryCancel();
    } else {
      stream->WritesDone();
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(is_broken || status.ok()) << status.error_message();
  }
}

TEST_P(DatasetServiceTest, RetriesOfSeveralProducersStoreEveryGraphOnce) {
  constexpr uint32_t kProducers = 3;
  constexpr uint32_t kChunks = 30;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    if (seed == 0) StartWithDatasets();
    PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset dataset, Create("name: 'd'"));
    std::vector<std::thread> producers;
    for (uint32_t producer = 0; producer < kProducers; ++producer) {
      producers.emplace_back(
          [&, producer] { AppendOverBrokenStreams(*stub_, dataset, seed, producer, kChunks); });
    }
    for (std::thread& producer : producers) producer.join();
    ASSERT_THAT(Seal("d"), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, datasets_->OpenReader("d"));
    std::map<uint64_t, std::vector<uint64_t>> stored;
    for (const uint64_t id : reader->graph_ids()) stored[id / 1000].push_back(id % 1000);
    ASSERT_EQ(stored.size(), kProducers);
    std::vector<uint64_t> in_order;
    for (uint64_t sequence = 1; sequence <= kChunks; ++sequence) in_order.push_back(sequence);
    for (const auto& [producer, sequences] : stored) EXPECT_EQ(sequences, in_order) << producer;
    ASSERT_THAT(Delete("d"), IsOk());
  }
}

// As many appends as the pool has threads wait for the disk together, and hold up nobody else.
TEST_P(DatasetServiceTest, AppendsWaitTogetherAndApart) {
  constexpr int kAppends = 5;
  ServerOptions options;
  options.stream_threads = 1;
  options.call_threads = 1;
  options.append_threads = kAppends;
  auto owned = std::make_unique<MeetingStore>(kAppends);
  MeetingStore& store = *owned;
  StartWith(std::move(owned), options);
  ASSERT_THAT(Create("name: 'd'"), IsOk());
  std::vector<std::unique_ptr<AppendCall>> calls;
  for (int i = 0; i < kAppends; ++i) {
    calls.push_back(StartAppend());
    v1::AppendRequest request;
    request.set_dataset("d");
    *request.mutable_graphs() = NodesOf({1});
    ASSERT_TRUE(calls.back()->stream->Write(request));
  }
  store.AwaitMeeting();
  // A Pack stream, and reading calls, from beginning to end.
  const auto pack = StartPack();
  ASSERT_TRUE(pack->stream->Write(OpenSizes(10)));
  ASSERT_TRUE(pack->stream->Write(SizesOf({3, 4}, 0)));
  pack->stream->WritesDone();
  EXPECT_THAT(Finish(*pack->stream), IsOk());
  EXPECT_THAT(Get("d"), IsOk());
  EXPECT_THAT(List(0, ""), IsOk());
  store.Release();
  for (const auto& call : calls) {
    v1::AppendResponse response;
    EXPECT_TRUE(call->stream->Read(&response));
    EXPECT_THAT(call->End(), IsOk());
  }
  EXPECT_EQ(Get("d")->dataset().num_graphs(), uint64_t{kAppends});
}

TEST_P(DatasetServiceTest, ADamagedRecordIsFoundAndTheRestIsSound) {
  StartWithDatasets();
  const GraphSchema schema = Schema();
  v1::CreateDatasetRequest create;
  create.set_name("d");
  GraphSchemaToWire(schema, *create.mutable_schema());
  ASSERT_THAT(Create(create), IsOk());
  Random random(7);
  std::string column;
  for (int record = 0; record < 3; ++record) {
    const GraphChunk chunk = RandomChunk(random, &schema, 40, 9, 40 * record);
    if (record == 1) column = std::string(chunk.column(0));
    v1::AppendRequest request;
    request.set_dataset("d");
    ChunkToWire(chunk, *request.mutable_graphs());
    ASSERT_THAT(Append(request), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(v1::VerifyDatasetResponse verified, Verify("d"));
  EXPECT_EQ(verified.num_damaged(), 0U);

  const std::string path = folder_.path() + "/datasets/data.mdb";
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t at = bytes.find(column);
  ASSERT_NE(at, std::string::npos);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at + column.size() / 2));
  file.put(static_cast<char>(column[column.size() / 2] ^ 4));
  file.close();

  PH_ASSERT_OK_AND_ASSIGN(verified, Verify("d"));
  EXPECT_EQ(verified.num_records(), 3U);
  EXPECT_EQ(verified.num_records_total(), 3U);
  EXPECT_EQ(verified.num_bytes(), verified.num_bytes_total());
  ASSERT_EQ(verified.num_damaged(), 1U);
  EXPECT_EQ(verified.damaged(0).record(), 1U);
  EXPECT_EQ(verified.damaged(0).first_graph(), 40U);
  EXPECT_EQ(verified.damaged(0).num_graphs(), 40U);
  EXPECT_THAT(verified.damaged(0).message(), HasSubstr("'d'"));
}

TEST_P(DatasetServiceTest, AVerificationReportsProgressAndEndsWithItsClient) {
  StartWith(std::make_unique<MeetingStore>(0));
  for (const std::string name : {"large", "small"}) {
    grpc::ClientContext context;
    v1::VerifyDatasetRequest request;
    request.set_name(name);
    const auto stream = stub_->VerifyDataset(&context, request);
    v1::VerifyDatasetResponse response;
    // Not of each record.
    const uint64_t step = name == "large" ? uint64_t{16} << 20 : 4096;
    uint64_t before = 0;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(stream->Read(&response));
      EXPECT_FALSE(response.finished());
      const uint64_t now = name == "large" ? response.num_bytes() : response.num_records();
      EXPECT_GT(now, before);
      EXPECT_EQ(now % step, 0U);
      before = now;
    }
    context.TryCancel();
    while (stream->Read(&response)) continue;
    EXPECT_THAT(ToAbsl(stream->Finish()), StatusIs(absl::StatusCode::kCancelled, _));
  }
  observer_.AwaitFinished(Method::kVerifyDataset, absl::StatusCode::kCancelled);
}

TEST_P(DatasetServiceTest, AStreamMayStartWithoutGraphs) {
  StartWithDatasets();
  v1::AppendRequest request;
  request.set_dataset("d");
  EXPECT_THAT(Append(request), StatusIs(absl::StatusCode::kNotFound, _));
  ASSERT_THAT(Create("name: 'd'"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse response, Append(request));
  EXPECT_EQ(response.num_appended(), 0U);
  EXPECT_EQ(Get("d")->dataset().num_records(), 0U);
}

TEST_P(DatasetServiceTest, WithoutAFolderForDataEveryCallSaysSo) {
  StartServer();
  stub_ = v1::DatasetService::NewStub(channel_);
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("the server was started without a folder for data (--data-dir)"));
  EXPECT_THAT(Create("name: 'd'"), refused);
  EXPECT_THAT(Seal("d"), refused);
  EXPECT_THAT(Get("d"), refused);
  EXPECT_THAT(List(0, ""), refused);
  EXPECT_THAT(Delete("d"), refused);
  EXPECT_THAT(Verify("d"), refused);
  EXPECT_THAT(Append("d", NodesOf({1})), refused);
  // A stream without requests is no stream that has stored something.
  EXPECT_THAT(StartAppend()->End(), refused);
}

}  // namespace
}  // namespace packhouse::rpc
