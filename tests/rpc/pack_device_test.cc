// Pack streams that declare their hardware, over the wire.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "service/server/wire/wire_planning.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class PackDeviceTest : public ServerTest {
 protected:
  static v1::PackRequest OpenProfiled(const std::string& more = "") {
    v1::PackRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "open { padding: PADDING_MASKED "
        "device_profile { components { component: 'nodes' max_rows: 200 multiple_of: 8 } "
        "components { component: 'edges' max_rows: 500 multiple_of: 8 } max_distinct_shapes: 3 } " +
            more + " }",
        &request));
    return request;
  }
  static v1::PackRequest RandomSizes(uint64_t seed, size_t num_graphs, uint64_t first_id) {
    Random random(seed);
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < num_graphs; ++i) {
      const auto nodes = static_cast<uint32_t>(random.Between(5, 40));
      counts.insert(counts.end(), {nodes, nodes + static_cast<uint32_t>(random.Below(nodes))});
    }
    v1::PackRequest request;
    request.mutable_sizes()->set_num_graphs(num_graphs);
    request.mutable_sizes()->set_counts(Uint32sToWire(counts));
    request.mutable_sizes()->set_first_id(first_id);
    return request;
  }

  // A histogram of so many sizes that the search for shapes takes long.
  void ObserveManySizes(const std::string& name) {
    const auto stub = v1::HistogramService::NewStub(channel_);
    SizeHistogram histogram(2);
    Random random(1);
    for (int i = 0; i < 20'000; ++i) {
      EXPECT_THAT(histogram.Add({static_cast<uint32_t>(random.Between(1, 2000)),
                                 static_cast<uint32_t>(random.Between(1, 2000))}),
                  IsOk());
    }
    v1::MergeHistogramRequest request;
    request.set_histogram(name);
    HistogramToWire(histogram, SizeSchema::NodesAndEdges(), *request.mutable_addend());
    grpc::ClientContext context;
    v1::MergeHistogramResponse response;
    EXPECT_TRUE(stub->MergeHistogram(&context, request, &response).ok());
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, PackDeviceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(PackDeviceTest, TheShapesComeBeforeTheBatchesAndTakeThem) {
  StartServer();
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenProfiled("calibration { num_graphs: 150 }")));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_opened());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(stream->Write(RandomSizes(i, 100, 100 * i)));
  ASSERT_TRUE(stream->WritesDone());
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_tuned()) << response.ShortDebugString();
  EXPECT_EQ(response.tuned().num_graphs(), 150U);
  std::set<std::vector<uint64_t>> shapes;
  for (const v1::PackShape& shape : response.tuned().shapes()) {
    std::vector<uint64_t> rows;
    for (const v1::TunedCapacity& capacity : shape.capacities()) rows.push_back(capacity.rows());
    shapes.insert(rows);
  }
  EXPECT_EQ(shapes.size(), 3U);
  std::multiset<uint64_t> ids;
  while (stream->Read(&response)) {
    const v1::Batch& batch = response.batch();
    EXPECT_TRUE(shapes.contains({batch.rows().begin(), batch.rows().end()}));
    for (const uint64_t id : Uint64sFromWire(batch.graph_ids())) ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 400U);
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), 400U);
  EXPECT_THAT(ToAbsl(stream->Finish()), IsOk());
}

TEST_P(PackDeviceTest, AHistogramMakesTheFirstGraphUnnecessary) {
  StartServer();
  ObserveManySizes("h");
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenProfiled("calibration { histogram: 'h' }")));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.tuned().num_graphs(), 20'000U);
  EXPECT_GT(response.tuned().oversize().num_graphs(), 0U);
  ASSERT_TRUE(stream->WritesDone());
  EXPECT_THAT(Finish(*stream), IsOk());
}

TEST_P(PackDeviceTest, AMissingHistogramIsNotFound) {
  StartServer();
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenProfiled("calibration { histogram: 'none' }")));
  EXPECT_THAT(Finish(*call->stream), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
}

// A search that nobody waits for is given up: else these would take many seconds of the one turn
// that the pool has, and the server would wait for them.
TEST_P(PackDeviceTest, AStreamWhoseClientIsGoneGivesItsSearchUp) {
  ServerOptions options;
  options.plan_threads = 1;
  StartServer(options);
  ObserveManySizes("h");
  std::vector<std::unique_ptr<PackCall>> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(StartPack());
    ASSERT_TRUE(calls.back()->stream->Write(OpenProfiled("calibration { histogram: 'h' }")));
    v1::PackResponse response;
    ASSERT_TRUE(calls.back()->stream->Read(&response));
    EXPECT_TRUE(response.has_opened());
  }
  for (const auto& call : calls) call->context.TryCancel();
  for (const auto& call : calls) {
    EXPECT_THAT(Finish(*call->stream), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  }
  calls.clear();
  // The pool has its turn for others.
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenProfiled()));
  ASSERT_TRUE(call->stream->Write(RandomSizes(1, 10, 0)));
  ASSERT_TRUE(call->stream->WritesDone());
  EXPECT_THAT(Finish(*call->stream), IsOk());
  server_.reset();
}

// A drain ends a stream that waits for its shapes as any other.
TEST_P(PackDeviceTest, TheServerMayEndDuringASearch) {
  StartServer();
  ObserveManySizes("h");
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenProfiled("calibration { histogram: 'h' }")));
  v1::PackResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(Finish(*call->stream), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  server_.reset();
}

}  // namespace
}  // namespace packhouse::rpc
