// PackStream against a server in this process whose answers the tests script.
#include "client/cpp/pack_stream.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/channel.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/message_size.h"
#include "client/cpp/status.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Stream = grpc::ServerReaderWriter<v1::PackResponse, v1::PackRequest>;

class ScriptedService final : public v1::PackingService::Service {
 public:
  using Script = std::function<grpc::Status(grpc::ServerContext&, Stream&)>;
  explicit ScriptedService(Script script) : script_(std::move(script)) {}
  grpc::Status Pack(grpc::ServerContext* context, Stream* stream) override {
    return script_(*context, *stream);
  }

 private:
  const Script script_;
};

class PackStreamTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PackStream>> Open(ScriptedService::Script script,
                                                   const PackStreamOptions& options = {}) {
    service_ = std::make_unique<ScriptedService>(std::move(script));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    const auto channel = Connect("127.0.0.1:" + std::to_string(port), absl::Seconds(10));
    if (!channel.ok()) return channel.status();
    const auto stub = v1::PackingService::NewStub(*channel);
    return PackStream::Open(*stub, v1::PackOpen(), options);
  }

  std::unique_ptr<ScriptedService> service_;
  std::unique_ptr<grpc::Server> server_;
};

void Answer(Stream& stream) {
  v1::PackRequest request;
  stream.Read(&request);
  EXPECT_TRUE(request.has_open());
  v1::PackResponse response;
  response.mutable_opened()->set_look_ahead(17);
  stream.Write(response);
}

// One batch for each table of sizes, `flushed` for each flush.
grpc::Status Echo(grpc::ServerContext& /*context*/, Stream& stream) {
  Answer(stream);
  v1::PackRequest request;
  uint64_t batches = 0;
  while (stream.Read(&request)) {
    v1::PackResponse response;
    if (request.has_flush()) {
      response.mutable_flushed()->set_token(request.flush().token());
    } else {
      response.mutable_batch()->set_id(batches++);
    }
    stream.Write(response);
  }
  return grpc::Status::OK;
}

TEST_F(PackStreamTest, ResponsesComeInOrderUntilTheEnd) {
  auto stream = Open(Echo);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ((*stream)->opened().look_ahead(), 17);
  EXPECT_TRUE((*stream)->SendSizes({}).ok());
  EXPECT_TRUE((*stream)->Send({}).ok());
  EXPECT_TRUE((*stream)->Flush(5).ok());
  EXPECT_TRUE((*stream)->HalfClose().ok());
  EXPECT_EQ((*stream)->HalfClose().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*stream)->SendSizes({}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*stream)->Next()->value().batch().id(), 0);
  EXPECT_EQ((*stream)->Next()->value().batch().id(), 1);
  EXPECT_EQ((*stream)->Next()->value().flushed().token(), 5);
  EXPECT_FALSE((*stream)->Next()->has_value());
  EXPECT_FALSE((*stream)->Next()->has_value());
  EXPECT_TRUE((*stream)->Finish().ok());
}

// All that is given, and nothing else; a lane is asked for by whoever may use it.
TEST_F(PackStreamTest, WhatIsGivenIsSentWhole) {
  v1::PackOpen open;
  open.mutable_schema()->add_components("nodes");
  open.set_look_ahead(5);
  std::vector<v1::PackRequest> expected(6);
  *expected[0].mutable_open() = open;
  expected[1].mutable_graphs()->mutable_sizes()->set_num_graphs(3);
  expected[1].mutable_graphs()->add_tensors()->set_data("data");
  expected[2].mutable_sizes()->set_counts("counts");
  expected[3].mutable_examples()->add_examples("an example");
  expected[4].mutable_flush()->set_token(9);
  expected[5].mutable_flush()->set_token(10);
  v1::PackResponse opened;
  opened.mutable_opened()->set_look_ahead(17);
  ScriptedServer server;
  for (const LaneUse lane : {LaneUse::kOff, LaneUse::kIfPossible, LaneUse::kRequired}) {
    server.Plays([&](const auto& /*asked*/) {
      return ScriptedServer::Answer{{opened.SerializeAsString()}, {}, {}, /*goes_on=*/true};
    });
    ChannelOptions channel;
    channel.secured_by = Credentials();
    const auto stub = v1::PackingService::NewStub(MakeChannel(server.address(), channel));
    auto stream = PackStream::Open(*stub, open, {.lane = lane});
    if (lane == LaneUse::kRequired) {
      EXPECT_THAT(stream.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("the server offers none")));
      continue;
    }
    ASSERT_THAT(stream, IsOk());
    EXPECT_THAT((*stream)->Send(expected[1].graphs()), IsOk());
    EXPECT_THAT((*stream)->SendSizes(expected[2].sizes()), IsOk());
    EXPECT_THAT((*stream)->SendExamples(expected[3].examples()), IsOk());
    EXPECT_THAT((*stream)->Flush(9), IsOk());
    EXPECT_THAT((*stream)->Flush(10), IsOk());
    EXPECT_THAT((*stream)->HalfClose(), IsOk());
    EXPECT_THAT((*stream)->Finish(), IsOk());
    const auto asked = server.asked();
    ASSERT_EQ(asked.size(), expected.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      EXPECT_EQ(asked[i].request, expected[i].SerializeAsString()) << i;
    }
    const size_t num_asked = lane == LaneUse::kOff ? 0 : 1;
    EXPECT_EQ(asked[0].metadata.count("packhouse-lane"), num_asked);
    EXPECT_EQ(asked[0].metadata.count("packhouse-lane-graphs"), num_asked);
  }
}

// What AwaitTuned() passes on its way comes from Next() all the same.
TEST_F(PackStreamTest, TheShapesMayBeAwaitedBeforeAnyBatch) {
  const auto script = [](grpc::ServerContext& /*context*/, Stream& stream) {
    Answer(stream);
    v1::PackResponse rejected;
    rejected.mutable_rejected()->add_rejections()->set_graph_id(3);
    stream.Write(rejected);
    v1::PackResponse tuned;
    tuned.mutable_tuned()->set_num_graphs(2000);
    stream.Write(tuned);
    v1::PackResponse batch;
    batch.mutable_batch()->set_id(8);
    stream.Write(batch);
    return grpc::Status::OK;
  };
  auto stream = Open(script);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ((*stream)->AwaitTuned()->value().num_graphs(), 2000);
  EXPECT_EQ((*stream)->AwaitTuned()->value().num_graphs(), 2000);
  EXPECT_EQ((*stream)->Next()->value().rejected().rejections(0).graph_id(), 3);
  EXPECT_TRUE((*stream)->Next()->value().has_tuned());
  EXPECT_EQ((*stream)->Next()->value().batch().id(), 8);
  EXPECT_FALSE((*stream)->Next()->has_value());
  EXPECT_TRUE((*stream)->AwaitTuned()->has_value());

  auto without = Open(Echo);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_TRUE((*without)->HalfClose().ok());
  EXPECT_FALSE((*without)->AwaitTuned()->has_value());
}

// More than any window holds: it ends only if both sides work at once.
TEST_F(PackStreamTest, OneThreadWritesWhileAnotherReads) {
  constexpr int kTables = 2000;
  auto stream = Open(Echo);
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::thread writer([&] {
    for (int i = 0; i < kTables; ++i) {
      v1::SizeTable table;
      table.set_counts(std::string(4096, '\0'));
      EXPECT_TRUE((*stream)->SendSizes(std::move(table)).ok());
    }
    EXPECT_TRUE((*stream)->HalfClose().ok());
  });
  int batches = 0;
  while (true) {
    const auto response = (*stream)->Next();
    ASSERT_TRUE(response.ok()) << response.status();
    if (!response->has_value()) break;
    ++batches;
  }
  writer.join();
  EXPECT_EQ(batches, kTables);
}

// Told before it is sent, with its name; the stream goes on.
TEST_F(PackStreamTest, AGraphThatNoMessageTakesIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const auto stream, Open(Echo));
  const std::string large((64 << 20) + 1, 'x');
  v1::GraphChunk one;
  one.mutable_sizes()->set_num_graphs(1);
  one.mutable_sizes()->set_first_id(70);
  one.add_tensors()->set_data(large);
  EXPECT_THAT(stream->Send(one), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("graph 70: it has 67108"),
                                                HasSubstr("at most 67043328: cut it"))));
  v1::Examples examples;
  examples.add_examples("small");
  examples.add_examples(large);
  EXPECT_THAT(
      stream->SendExamples(examples),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graph 1 of the message: it has")));
  v1::SizeTable sizes;
  sizes.set_num_graphs(1 << 24);
  sizes.set_counts(large);
  EXPECT_THAT(stream->SendSizes(sizes), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("16777216 graphs together have 67108")));
  EXPECT_THAT(stream->SendSizes(v1::SizeTable()), IsOk());
  EXPECT_THAT(stream->HalfClose(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto response, stream->Next());
  EXPECT_TRUE(response.has_value() && response->has_batch());
  EXPECT_THAT(stream->Finish(), IsOk());
}

// Of several graphs, with the schema: which one it is.
TEST(MessageSizeTest, TheLargeOneOfSeveralIsFound) {
  v1::GraphSchema schema;
  schema.add_components("nodes");
  v1::TensorSpec& x = *schema.add_tensors();
  x.set_name("x");
  x.set_dtype(v1::DATA_TYPE_FLOAT32);
  x.set_component("nodes");
  const auto chunk = [](const std::vector<uint32_t>& counts) {
    v1::GraphChunk made;
    uint64_t rows = 0;
    for (const uint32_t count : counts) rows += count;
    made.mutable_sizes()->set_num_graphs(counts.size());
    AppendLittleEndian<uint32_t>(counts, *made.mutable_sizes()->mutable_counts());
    made.add_tensors()->set_data(std::string(rows * 4, 'x'));
    return made;
  };
  const auto large = [](const std::string& graph, uint64_t bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph, ": it has ", bytes,
                     " bytes, a message takes at most 67043328: cut it (docs/partitioning.md)"));
  };
  const auto many = [](uint64_t num_graphs, uint64_t bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_graphs, " graphs together have ", bytes,
                     " bytes, a message takes at most 67043328: send fewer at once"));
  };
  EXPECT_THAT(CheckMessageSize(chunk({1, 2, 3}), &schema), IsOk());
  EXPECT_EQ(CheckMessageSize(chunk({1, 1 << 24, 3}), &schema),
            large("graph 1 of the message", 1 << 26));
  const v1::GraphChunk two = chunk({1 << 23, 1 << 23});
  EXPECT_EQ(CheckMessageSize(two, &schema), many(2, two.ByteSizeLong()));
  // By its id, or where they are counted from.
  v1::GraphChunk named = chunk({1, 3, 1 << 24});
  named.mutable_sizes()->set_first_id(70);
  EXPECT_EQ(CheckMessageSize(named, &schema), large("graph 72", 1 << 26));
  AppendLittleEndian<uint64_t>({8, 9, 10}, *named.mutable_sizes()->mutable_graph_ids());
  EXPECT_EQ(CheckMessageSize(named, &schema), large("graph 10", 1 << 26));
  // What makes no sense is not read.
  named.mutable_sizes()->mutable_counts()->pop_back();
  EXPECT_EQ(CheckMessageSize(named, &schema), many(3, named.ByteSizeLong()));
  EXPECT_EQ(CheckMessageSize(named, nullptr), many(3, named.ByteSizeLong()));
  // A graph that is as large as a message, with its own row, is not too large by itself.
  v1::TensorSpec& y = *schema.add_tensors();
  y.set_name("y");
  y.set_dtype(v1::DATA_TYPE_FLOAT32);
  y.set_component("graphs");
  const uint32_t most = (67'043'328 - 4) / 4;
  const v1::GraphChunk full = chunk({1, most});
  EXPECT_EQ(CheckMessageSize(full, &schema), many(2, full.ByteSizeLong()));
  EXPECT_EQ(CheckMessageSize(chunk({1, most + 1}), &schema),
            large("graph 1 of the message", 67'043'332));
  schema.mutable_tensors(0)->set_component("faces");
  EXPECT_EQ(CheckMessageSize(full, &schema), many(2, full.ByteSizeLong()));
  // Examples and tables of sizes tell no more than their bytes.
  v1::Examples examples;
  examples.add_examples(std::string(67'043'328, 'x'));
  EXPECT_EQ(CheckMessageSize(examples), many(1, examples.ByteSizeLong()));
  examples.mutable_examples(0)->push_back('x');
  examples.set_first_id(5);
  EXPECT_EQ(CheckMessageSize(examples), large("graph 5", 67'043'329));
  v1::SizeTable sizes;
  sizes.set_num_graphs(9);
  sizes.set_counts(std::string(67'043'328, 'x'));
  EXPECT_EQ(CheckMessageSize(sizes), many(9, sizes.ByteSizeLong()));
}

TEST_F(PackStreamTest, AnErrorAtOpeningIsOpensError) {
  const auto stream = Open([](grpc::ServerContext&, Stream&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "limits: none");
  });
  EXPECT_EQ(stream.status(), absl::InvalidArgumentError("limits: none"));
}

TEST_F(PackStreamTest, AFirstResponseOtherThanOpenedIsInternal) {
  const auto silent = Open([](grpc::ServerContext&, Stream&) { return grpc::Status::OK; });
  EXPECT_EQ(silent.status().code(), absl::StatusCode::kInternal);
  const auto wrong = Open([](grpc::ServerContext&, Stream& stream) {
    v1::PackResponse response;
    response.mutable_batch();
    stream.Write(response);
    return grpc::Status::OK;
  });
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInternal);
}

// A server that reads but never answers.
grpc::Status Silence(grpc::ServerContext& /*context*/, Stream& stream) {
  v1::PackRequest request;
  while (stream.Read(&request)) {
  }
  return grpc::Status::OK;
}

TEST_F(PackStreamTest, OpeningIsBounded) {
  const auto stream = Open(Silence, {.open_timeout = absl::Milliseconds(20)});
  EXPECT_EQ(stream.status(), absl::DeadlineExceededError("the stream was not opened within 20ms"));
}

TEST_F(PackStreamTest, TheDeadlineEndsAnOpenStream) {
  const auto stream = Open(Echo, {.deadline = absl::Now() + absl::Milliseconds(500)});
  if (stream.ok()) {
    EXPECT_EQ((*stream)->Next().status().code(), absl::StatusCode::kDeadlineExceeded);
  } else {
    EXPECT_EQ(stream.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(PackStreamTest, BatchesBeforeAnErrorAreDelivered) {
  const auto stream = Open([](grpc::ServerContext&, Stream& server) {
    Answer(server);
    v1::PackResponse response;
    response.mutable_batch()->set_id(3);
    server.Write(response);
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "graph 4");
  });
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ((*stream)->Next()->value().batch().id(), 3);
  EXPECT_EQ((*stream)->Next().status(), absl::OutOfRangeError("graph 4"));
  EXPECT_EQ((*stream)->Finish(), absl::OutOfRangeError("graph 4"));
  EXPECT_EQ((*stream)->SendSizes({}).code(), absl::StatusCode::kCancelled);
}

TEST_F(PackStreamTest, CancelWakesAReader) {
  const auto stream = Open(Echo);
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::thread canceller([&] { (*stream)->Cancel(); });
  EXPECT_EQ((*stream)->Next().status().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

// A second half-close would end the process within gRPC.
TEST_F(PackStreamTest, AHalfClosedStreamTakesNothingMoreAndIsReadToItsEnd) {
  const auto stream = Open(Echo);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*stream)->SendSizes({}).ok());
  ASSERT_TRUE((*stream)->HalfClose().ok());
  const absl::Status refused = absl::CancelledError("the stream is half-closed");
  EXPECT_EQ((*stream)->HalfClose(), refused);
  EXPECT_EQ((*stream)->Send({}), refused);
  EXPECT_EQ((*stream)->SendSizes({}), refused);
  EXPECT_EQ((*stream)->SendExamples({}), refused);
  EXPECT_EQ((*stream)->Flush(1), refused);
  const auto batch = (*stream)->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_TRUE(batch->has_value());
  const auto end = (*stream)->Next();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->has_value());
}

TEST_F(PackStreamTest, AStreamMayBeDroppedAtAnyTime) {
  auto stream = Open(Echo);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE((*stream)->SendSizes({}).ok());
  stream->reset();
}

TEST(ToAbslStatusTest, KeepsCodeAndMessage) {
  EXPECT_EQ(ToAbslStatus(grpc::Status(grpc::StatusCode::DATA_LOSS, "torn")),
            absl::DataLossError("torn"));
  EXPECT_TRUE(ToAbslStatus(grpc::Status::OK).ok());
}

}  // namespace
}  // namespace packhouse::client
