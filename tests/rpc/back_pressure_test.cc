// A reader that stops reading stops its own stream, and nothing else.
#include <atomic>
#include <thread>

#include "service/server/calls_grpc/stream_reactor.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

class BackPressureTest : public ServerTest {};
INSTANTIATE_TEST_SUITE_P(Transports, BackPressureTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

constexpr size_t kMinUnsent = Outbox::kFullResponses;
constexpr uint64_t kRowBytes = 1 << 20;
// Linux grows a socket's buffers to 6 MiB on the receiving and 4 MiB on the sending side.
constexpr uint64_t kMaxInSockets = 12;

// One graph a batch, one row of 1 MiB a graph.
v1::PackRequest OpenLargeRows() {
  v1::PackRequest request;
  v1::PackOpen& open = *request.mutable_open();
  open.mutable_schema();
  v1::TensorSpec& tensor = *open.mutable_schema()->add_tensors();
  tensor.set_name("x");
  tensor.set_dtype(v1::DATA_TYPE_UINT8);
  tensor.add_row_shape(kRowBytes);
  tensor.set_component("graphs");
  v1::Capacity& capacity = *open.mutable_limits()->add_capacities();
  capacity.set_component("graphs");
  capacity.set_rows(1);
  open.set_look_ahead(1);
  return request;
}

v1::PackRequest LargeRow(uint64_t id) {
  v1::PackRequest request;
  v1::GraphChunk& chunk = *request.mutable_graphs();
  chunk.mutable_sizes()->set_num_graphs(1);
  chunk.mutable_sizes()->set_first_id(id);
  v1::TensorData& tensor = *chunk.add_tensors();
  tensor.set_name("x");
  tensor.set_data(std::string(kRowBytes, static_cast<char>(id)));
  return request;
}

TEST_P(BackPressureTest, AStalledReaderHoldsNoMoreThanItsShare) {
  StartServer();
  constexpr uint64_t kGraphs = 200;
  const auto call = StartPack();
  auto& stream = call->stream;
  ASSERT_TRUE(stream->Write(OpenLargeRows()));
  v1::PackResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_opened());
  std::thread writer([&] {
    for (uint64_t id = 0; id < kGraphs; ++id) {
      if (!stream->Write(LargeRow(id))) return;
    }
    stream->WritesDone();
  });

  // Nothing more is read: the server builds what may wait unsent and what the sockets' buffers
  // take, and not one more, however long others keep it busy.
  observer_.AwaitBatches(kMinUnsent);
  auto histograms = v1::HistogramService::NewStub(NewChannel());
  for (int round = 0; round < 300; ++round) {
    grpc::ClientContext call_context;
    v1::GetHistogramRequest request;
    request.set_histogram("none");
    v1::GetHistogramResponse histogram;
    EXPECT_EQ(histograms->GetHistogram(&call_context, request, &histogram).error_code(),
              grpc::StatusCode::NOT_FOUND);
    EXPECT_LE(observer_.batches(), kMinUnsent + kMaxInSockets);
  }
  // One chunk is at work.
  EXPECT_LE(observer_.most_pending_bytes(), 2 * kRowBytes + 1024);

  // It goes on when the reader does, and nothing is lost.
  uint64_t next_id = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(Uint64sFromWire(response.batch().graph_ids()), std::vector<uint64_t>{next_id});
    EXPECT_EQ(response.batch().tensors(0).data(),
              std::string(kRowBytes, static_cast<char>(next_id)));
    ++next_id;
  }
  EXPECT_EQ(next_id, kGraphs);
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace packhouse::rpc
