// PackStream by a lane of the real server: the same bytes as by gRPC, and nothing stays of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/pack_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/listen/server.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wire_chunk.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

class PackStreamLaneTest : public testing::Test {
 protected:
  void Serve(const std::string& lane_address) {
    rpc::ServerOptions options;
    options.address = absl::StrCat("unix:", folder_.path(), "/socket");
    options.lane_address = lane_address;
    server_ = nullptr;
    PH_ASSERT_OK_AND_ASSIGN(server_,
                            rpc::Server::Start(options, &clock_, &observer_, &observer_, nullptr));
    PH_ASSERT_OK_AND_ASSIGN(const auto channel, Connect(options.address, absl::Seconds(20)));
    stub_ = v1::PackingService::NewStub(channel);
  }
  void Serve() { Serve(absl::StrCat("unix:", folder_.path(), "/lane")); }

  static void SetLimit(const std::string& component, uint64_t rows, v1::PackOpen& open) {
    v1::Capacity& capacity = *open.mutable_limits()->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(rows);
  }

  // Whole graphs of this schema.
  static v1::PackOpen OpeningFor(const GraphSchema& schema) {
    v1::PackOpen open;
    GraphSchemaToWire(schema, *open.mutable_schema());
    open.set_payload(v1::PAYLOAD_GRAPHS);
    return open;
  }

  // All responses. A chunk is sent when `opened` has come, and a flush after each. `between` is
  // called before each response is read, while chunks are sent.
  std::vector<std::string> Pack(
      const v1::PackOpen& open, const std::vector<v1::GraphChunk>& chunks, LaneUse lane,
      const std::function<void(std::unique_ptr<PackStream>&)>& between = [](auto&) {}) {
    auto stream = PackStream::Open(*stub_, open, {.lane = lane}).value();
    EXPECT_EQ(stream->transport(),
              lane == LaneUse::kOff ? LoadTransport::kGrpc : LoadTransport::kLane);
    std::thread writer([&] {
      for (size_t i = 0; i < chunks.size(); ++i) {
        EXPECT_THAT(stream->Send(chunks[i]), IsOk());
        EXPECT_THAT(stream->Flush(i), IsOk());
      }
      EXPECT_THAT(stream->HalfClose(), IsOk());
    });
    std::vector<std::string> all;
    for (;;) {
      between(stream);
      auto response = stream->Next();
      EXPECT_THAT(response, IsOk());
      if (!response.ok() || !response->has_value()) break;
      if ((*response)->has_batch()) ++num_batches_;
      // It means nothing.
      for (v1::Tensor& tensor : *(*response)->mutable_batch()->mutable_tensors()) {
        tensor.clear_gap();
      }
      all.push_back((*response)->SerializeAsString());
    }
    writer.join();
    return all;
  }

  SimulatedClock clock_;
  rpc::CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::PackingService::Stub> stub_;
  uint64_t num_batches_ = 0;
};

TEST_F(PackStreamLaneTest, TheBytesAreTheSameAsByGrpc) {
  Serve();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    GraphSchema schema = RandomSchema(random);
    while (schema.tensors().empty()) schema = RandomSchema(random);
    v1::PackOpen open = OpeningFor(schema);
    for (size_t k = 0; k < schema.num_components(); ++k) SetLimit(absl::StrCat("c", k), 60, open);
    SetLimit("graphs", 6, open);
    open.set_padding(
        static_cast<v1::Padding>(random.Between(1, schema.num_components() == 0 ? 2 : 3)));
    open.set_integer_width(static_cast<v1::IntegerWidth>(random.Below(2)));
    std::vector<v1::GraphChunk> chunks(5);
    for (size_t i = 0; i < chunks.size(); ++i) {
      chunks[i] = ChunkToWire(RandomChunk(random, &schema, 40, 9, 40 * i));
    }
    EXPECT_EQ(Pack(open, chunks, LaneUse::kRequired), Pack(open, chunks, LaneUse::kOff));
  }
  EXPECT_GT(server_->lane_counts()->num_batches, 100U);
}

// Batches without padding, of which some are larger than any slot.
TEST_F(PackStreamLaneTest, WhatFindsNoSlotComesByGrpcInItsPlace) {
  Serve();
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {300}, 0, {}, {}}})
          .value();
  v1::PackOpen open = OpeningFor(schema);
  SetLimit("graphs", 1, open);
  open.set_padding(v1::PADDING_NONE);
  open.set_look_ahead(1);
  Random random(3);
  std::vector<v1::GraphChunk> chunks(40);
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i] = ChunkToWire(RandomChunk(random, &schema, 2, i % 3 == 0 ? 2500 : 29, 2 * i));
  }
  EXPECT_EQ(Pack(open, chunks, LaneUse::kRequired), Pack(open, chunks, LaneUse::kOff));
  // Graphs too: a chunk that is small, or too large, is sent.
  EXPECT_GT(server_->lane_counts()->num_chunks, 10U);
  EXPECT_LT(server_->lane_counts()->num_chunks, 27U);
  EXPECT_GT(server_->lane_counts()->num_batches, 20U);
  EXPECT_GT(server_->lane_counts()->num_too_large, 5U);
  EXPECT_EQ(num_batches_, 160U);
}

// Dropped, cancelled or left with the server's end, after any number of batches.
TEST_F(PackStreamLaneTest, NothingStaysOfAStream) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {3}, 0, {}, {}}})
          .value();
  v1::PackOpen open = OpeningFor(schema);
  for (const char* component : {"nodes", "edges", "graphs"}) SetLimit(component, 20, open);
  Random random(4);
  v1::GraphChunk chunk = ChunkToWire(RandomChunk(random, &schema, 400, 9, 0));
  Serve();
  for (int num_read = 0; num_read < 30; ++num_read) {
    SCOPED_TRACE(testing::Message() << num_read << " read");
    PH_ASSERT_OK_AND_ASSIGN(auto stream,
                            PackStream::Open(*stub_, open, {.lane = LaneUse::kRequired}));
    ASSERT_THAT(stream->Send(chunk), IsOk());
    for (int i = 0; i < num_read; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const auto response, stream->Next());
      ASSERT_TRUE(response.has_value() && response->has_batch());
    }
    if (num_read % 3 == 1) {
      stream->Cancel();
      while (stream->Next().ok()) {
      }
      EXPECT_THAT(stream->Finish(), StatusIs(absl::StatusCode::kCancelled, testing::_));
    } else if (num_read % 3 == 2) {
      Serve();
      while (stream->Next().ok()) {
      }
      EXPECT_FALSE(stream->Finish().ok());
    }
    stream = nullptr;
    // The server notices when it does.
    while (server_->lane_counts()->num_offered != 0) std::this_thread::yield();
    EXPECT_EQ(server_->lane_counts()->num_open, 0U);
    EXPECT_EQ(server_->lane_counts()->num_slots_sent, 0U);
  }
}

TEST_F(PackStreamLaneTest, AForkedChildNeitherUsesNorHarmsAStream) {
  Serve();
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {30}, 0, {}, {}}})
          .value();
  v1::PackOpen open = OpeningFor(schema);
  for (const char* component : {"nodes", "edges", "graphs"}) SetLimit(component, 60, open);
  Random random(7);
  std::vector<v1::GraphChunk> chunks(4);
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i] = ChunkToWire(RandomChunk(random, &schema, 100, 9, 100 * i));
  }
  const auto fork = [&](std::unique_ptr<PackStream>& stream) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // Ends one that waits for ever.
      bool is_right = true;
      for (const absl::Status& refused :
           {stream->Send(chunks[0]), stream->SendSizes({}), stream->SendExamples({}),
            stream->Flush(99), stream->HalfClose(), stream->AwaitTuned().status(),
            stream->Next().status(), stream->Finish()}) {
        is_right = is_right && absl::IsFailedPrecondition(refused) &&
                   absl::StrContains(refused.message(), "this stream was made by process");
      }
      stream->Cancel();
      stream = nullptr;
      stub_ = nullptr;
      ::_exit(is_right ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  };
  for (const LaneUse lane : {LaneUse::kOff, LaneUse::kRequired}) {
    EXPECT_EQ(Pack(open, chunks, lane, fork), Pack(open, chunks, lane));
  }
  EXPECT_GT(server_->lane_counts()->num_batches, 0U);
  EXPECT_EQ(server_->lane_counts()->num_chunks, 2 * chunks.size());
}

// Chunks that are not as the schema says are refused in the same words as by gRPC, also where they
// are as long as those that go into slots; and their tensors may come in any order.
TEST_F(PackStreamLaneTest, AChunkIsCheckedEitherWay) {
  Serve();
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {3000}, 0, {}, {}},
                                                        {"i", DType::kInt32, {}, 1, 0, {}}})
          .value();
  v1::PackOpen open = OpeningFor(schema);
  SetLimit("graphs", 2, open);
  Random random(6);
  const v1::GraphChunk good = ChunkToWire(RandomChunk(random, &schema, 4, 9, 0));
  using Change = void (*)(v1::GraphChunk&);
  const Change changes[] = {
      [](v1::GraphChunk&) {},
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors()->SwapElements(0, 1); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors(0)->mutable_data()->push_back('x'); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors(0)->mutable_data()->resize(48'000); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors(1)->set_name("y"); },
      [](v1::GraphChunk& chunk) { *chunk.mutable_tensors(1) = chunk.tensors(0); },
      [](v1::GraphChunk& chunk) { *chunk.add_tensors() = chunk.tensors(0); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors()->RemoveLast(); },
      [](v1::GraphChunk& chunk) { chunk.mutable_sizes()->mutable_counts()->pop_back(); },
      [](v1::GraphChunk& chunk) { chunk.mutable_sizes()->set_num_graphs(UINT32_MAX); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors(1)->mutable_data()->assign(4, '\x7f'); },
      [](v1::GraphChunk& chunk) { chunk.mutable_tensors(1)->mutable_data()->back() = '\x7f'; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    SCOPED_TRACE(testing::Message() << "change " << i);
    v1::GraphChunk chunk = good;
    changes[i](chunk);
    std::vector<absl::Status> ends;
    for (const LaneUse lane : {LaneUse::kRequired, LaneUse::kOff}) {
      PH_ASSERT_OK_AND_ASSIGN(const auto stream, PackStream::Open(*stub_, open, {.lane = lane}));
      ASSERT_THAT(stream->Send(chunk), IsOk());
      // The server may have ended it.
      (void)stream->HalfClose();
      ends.push_back(stream->Finish());
    }
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_EQ(ends[0].ok(), i < 2);
  }
  // The good ones, and that with a bad index.
  EXPECT_EQ(server_->lane_counts()->num_chunks, 3U);
}

TEST_F(PackStreamLaneTest, WithoutALaneBatchesComeByGrpcOrTheStreamSaysWhy) {
  Serve("");
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {3}, 0, {}, {}}})
          .value();
  v1::PackOpen open = OpeningFor(schema);
  SetLimit("graphs", 2, open);
  PH_ASSERT_OK_AND_ASSIGN(auto stream, PackStream::Open(*stub_, open));
  EXPECT_EQ(stream->transport(), LoadTransport::kGrpc);
  Random random(5);
  v1::GraphChunk chunk = ChunkToWire(RandomChunk(random, &schema, 2, 9, 0));
  ASSERT_THAT(stream->Send(chunk), IsOk());
  ASSERT_THAT(stream->HalfClose(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto response, stream->Next());
  EXPECT_TRUE(response.has_value() && response->has_batch());
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_THAT(PackStream::Open(*stub_, open, {.lane = LaneUse::kRequired}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--lane")));
  Serve();
  open = v1::PackOpen();
  open.set_payload(v1::PAYLOAD_SIZES);
  SetLimit("nodes", 9, open);
  EXPECT_THAT(PackStream::Open(*stub_, open, {.lane = LaneUse::kRequired}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("stream of sizes")));
}

}  // namespace
}  // namespace packhouse::client
