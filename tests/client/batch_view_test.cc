#include "client/cpp/batch_view.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/loss_weights.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/sampling.pb.h"
#include "tests/support/random.h"

namespace packhouse::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;
std::string RandomBytes(Random& random, uint64_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

// Numbers of all lengths that a varint has.
uint64_t RandomNumber(Random& random) { return random.Next() >> random.Below(64); }

v1::Batch RandomBatch(Random& random) {
  v1::Batch batch;
  if (random.Below(4) != 0) batch.set_id(RandomNumber(random));
  if (random.Below(2) != 0) batch.set_epoch(RandomNumber(random));
  if (random.Below(2) != 0) batch.set_step(RandomNumber(random));
  batch.set_graph_ids(RandomBytes(random, 8 * random.Below(9)));
  batch.set_sizes(RandomBytes(random, 4 * random.Below(17)));
  for (uint64_t i = random.Below(7); i > 0; --i) batch.add_real_rows(RandomNumber(random));
  for (uint64_t i = random.Below(7); i > 0; --i) batch.add_rows(RandomNumber(random));
  for (uint64_t i = random.Below(6); i > 0; --i) {
    v1::Tensor* const tensor = batch.add_tensors();
    if (random.Below(8) != 0) tensor->set_name("t/" + std::to_string(i));
    tensor->set_dtype(static_cast<v1::DataType>(random.Below(14)));
    if (random.Below(3) == 0) {
      tensor->set_declared_dtype(static_cast<v1::DataType>(random.Below(14)));
    }
    for (uint64_t r = random.Below(6); r > 0; --r) tensor->add_shape(RandomNumber(random));
    tensor->set_data(RandomBytes(random, random.Below(300)));
  }
  return batch;
}

v1::LoadResponse RandomLoadResponse(Random& random) {
  v1::LoadResponse response;
  v1::LoadedBatch& loaded = *response.mutable_batch();
  *loaded.mutable_batch() = RandomBatch(random);
  loaded.set_is_padding(random.Below(2) != 0);
  loaded.set_is_redelivered(random.Below(2) != 0);
  loaded.set_graphs_of_step(RandomNumber(random));
  loaded.set_shape(static_cast<uint32_t>(RandomNumber(random)));
  for (uint64_t left = random.Below(4) == 0 ? random.Below(4) : 0; left > 0; --left) {
    v1::DrawnSmaller& smaller = *loaded.add_drawn_smaller();
    smaller.set_graph_id(RandomNumber(random));
    smaller.set_level(static_cast<uint32_t>(RandomNumber(random)));
  }
  return response;
}

// What a view says, as the message that it would be.
v1::LoadedBatch ToMessage(const BatchView& view) {
  v1::LoadedBatch loaded;
  v1::Batch& batch = *loaded.mutable_batch();
  batch.set_id(view.id());
  batch.set_epoch(view.epoch());
  batch.set_step(view.step());
  batch.set_graph_ids(std::string(view.graph_ids()));
  EXPECT_EQ(view.num_graphs(), view.graph_ids().size() / 8);
  batch.set_sizes(std::string(view.sizes()));
  batch.mutable_real_rows()->Add(view.real_rows().begin(), view.real_rows().end());
  batch.mutable_rows()->Add(view.rows().begin(), view.rows().end());
  for (const TensorView& tensor : view.tensors()) {
    v1::Tensor& wire = *batch.add_tensors();
    wire.set_name(std::string(tensor.name));
    wire.set_dtype(tensor.dtype);
    wire.set_declared_dtype(tensor.declared_dtype);
    wire.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    wire.set_data(std::string(tensor.data));
  }
  loaded.set_is_padding(view.is_padding());
  loaded.set_is_redelivered(view.is_redelivered());
  loaded.set_graphs_of_step(view.graphs_of_step());
  loaded.set_shape(view.shape());
  for (const BatchView::DrawnSmaller& smaller : view.drawn_smaller()) {
    v1::DrawnSmaller& wire = *loaded.add_drawn_smaller();
    wire.set_graph_id(smaller.graph_id);
    wire.set_level(smaller.level);
  }
  return loaded;
}

// `bytes` in pieces, some of them empty.
std::vector<absl::string_view> Cut(Random& random, absl::string_view bytes, uint64_t longest) {
  std::vector<absl::string_view> pieces;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), random.Below(longest + 1));
    pieces.push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  pieces.emplace_back();
  return pieces;
}

// `bytes` must outlive what is viewed.
absl::StatusOr<std::optional<BatchView>> ViewLoad(const std::string& bytes) {
  const absl::string_view whole = bytes;
  return BatchView::OfLoadResponse({whole}, nullptr);
}

absl::StatusOr<std::optional<BatchView>> ViewPack(const std::string& bytes) {
  const absl::string_view whole = bytes;
  return BatchView::OfPackResponse({whole}, nullptr);
}

TEST(BatchViewTest, SaysWhatProtobufSaysHoweverTheBytesAreCut) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    const v1::LoadResponse response = RandomLoadResponse(random);
    const std::string bytes = response.SerializeAsString();
    for (const uint64_t longest : {1, 7, 100, 1 << 20}) {
      const auto view = BatchView::OfLoadResponse(Cut(random, bytes, longest), nullptr);
      ASSERT_TRUE(view.ok()) << view.status();
      ASSERT_TRUE(view->has_value());
      EXPECT_TRUE(MessageDifferencer::Equals(ToMessage(**view), response.batch()));
    }
    v1::PackResponse packed;
    *packed.mutable_batch() = response.batch().batch();
    const std::string packed_bytes = packed.SerializeAsString();
    const auto view = ViewPack(packed_bytes);
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_TRUE(view->has_value());
    EXPECT_TRUE(MessageDifferencer::Equals(ToMessage(**view).batch(), packed.batch()));
  }
}

TEST(BatchViewTest, OnePieceIsNotCopied) {
  Random random(2);
  for (int round = 0; round < 100; ++round) {
    const std::string bytes = RandomLoadResponse(random).SerializeAsString();
    const auto view = ViewLoad(bytes);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ((*view)->copied_bytes(), 0);
    for (const TensorView& tensor : (*view)->tensors()) {
      if (tensor.data.empty()) continue;
      EXPECT_GE(tensor.data.data(), bytes.data());
      EXPECT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
    }
  }
}

// Protobuf is the judge.
TEST(BatchViewTest, HostileBytesAreRefusedOrReadAsProtobufReadsThem) {
  Random random(3);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 60'000; ++round) {
    SCOPED_TRACE(testing::Message() << "round=" << round);
    std::string bytes = RandomLoadResponse(random).SerializeAsString();
    for (uint64_t change = random.Below(4); change > 0 && !bytes.empty(); --change) {
      // Mostly where the heads of fields are.
      const std::size_t at = random.Below(random.Below(2) == 0 ? bytes.size() : 24) % bytes.size();
      switch (random.Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random.Next());
          break;
        case 1:
          bytes.resize(at);
          break;
        case 2:
          bytes.insert(at, RandomBytes(random, 1 + random.Below(3)));
          break;
        default:
          bytes.erase(at, 1 + random.Below(3));
      }
    }
    const auto view = BatchView::OfLoadResponse(Cut(random, bytes, 50), nullptr);
    if (!view.ok()) {
      EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
      ++refused;
      continue;
    }
    v1::LoadResponse response;
    const bool parses = response.ParseFromString(bytes);
    if (!view->has_value()) {
      // Protobuf has the last word on it, and it is no batch for protobuf either.
      EXPECT_TRUE(!parses || !response.has_batch());
      continue;
    }
    ASSERT_TRUE(parses);
    ASSERT_TRUE(response.has_batch());
    response.DiscardUnknownFields();
    // Unset and empty are the same to a view.
    response.mutable_batch()->mutable_batch();
    EXPECT_TRUE(MessageDifferencer::Equals(ToMessage(**view), response.batch()));
    ++accepted;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(BatchViewTest, OtherResponsesAreNoBatch) {
  v1::LoadResponse opened;
  opened.mutable_opened()->set_num_steps(7);
  v1::LoadResponse end;
  end.mutable_end_of_epoch();
  v1::PackResponse flushed;
  flushed.mutable_flushed()->set_token(3);
  for (const auto& view : {ViewLoad(opened.SerializeAsString()), ViewLoad(end.SerializeAsString()),
                           ViewPack(flushed.SerializeAsString()), ViewPack("")}) {
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_FALSE(view->has_value());
  }
}

TEST(BatchViewTest, RefusalsNameMessageAndByte) {
  v1::PackResponse batch;
  batch.mutable_batch()->set_id(300);
  const std::string bytes = batch.SerializeAsString();
  v1::PackResponse flushed;
  flushed.mutable_flushed();
  v1::PackResponse named;
  named.mutable_batch()->add_tensors()->set_name("\xc3\xa9");
  const std::pair<std::string, std::string> refusals[] = {
      {bytes.substr(0, bytes.size() - 1), "2: a field ends behind its message"},
      {bytes + bytes, "7: a second message in one response"},
      {bytes + flushed.SerializeAsString(), "7: a second message in one response"},
      {std::string("\x00\x01", 2), "1: a bad tag"},
      {"\x0b", "1: a group, which no message here has"},
      {"\x10" + std::string(11, '\x80'), "11: a number is too long"},
      {"\x10\x80", "2: a number ends behind its message"},
      {"\x12\xff\xff\xff\xff\x0f", "6: a field is too long"},
      {named.SerializeAsString(), "8: a tensor's name is not ASCII"},
  };
  for (const auto& [hostile, message] : refusals) {
    EXPECT_EQ(ViewPack(hostile).status(),
              absl::InvalidArgumentError("PackResponse, byte " + message));
  }
  v1::LoadResponse loaded;
  loaded.mutable_batch()->mutable_batch();
  const std::string once = loaded.batch().SerializeAsString();
  EXPECT_EQ(ViewLoad(absl::StrCat("\x12\x04", once, once)).status(),
            absl::InvalidArgumentError("LoadResponse, byte 6: a second batch in one response"));
}

TEST(BatchViewTest, FieldsOfTheFutureAreSkipped) {
  Random random(4);
  const v1::LoadResponse response = RandomLoadResponse(random);
  // Field 100 as a number, as 8 bytes, as text, as 4 bytes.
  const std::string future = std::string("\xa0\x06\x07", 3) + "\xa1\x06" + "12345678" +
                             "\xa2\x06\x03" + "abc" + "\xa5\x06" + "1234";
  const std::string bytes = future + response.SerializeAsString() + future;
  const auto view = ViewLoad(bytes);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(MessageDifferencer::Equals(ToMessage(**view), response.batch()));
}

// A message as a field of another.
std::string AsField(uint32_t number, absl::string_view bytes) {
  EXPECT_LT(number, 16U);
  EXPECT_LT(bytes.size(), 128U);
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(bytes.size())), bytes);
}

// A field that ends behind the message that it is in is refused where it ends, wherever it is.
TEST(BatchViewTest, FieldsEndWithinTheirMessage) {
  const std::vector<std::vector<uint32_t>> places = {
      {v1::LoadResponse::kBatchFieldNumber},
      {v1::LoadResponse::kBatchFieldNumber, v1::LoadedBatch::kDrawnSmallerFieldNumber},
      {v1::LoadResponse::kBatchFieldNumber, v1::LoadedBatch::kBatchFieldNumber},
      {v1::LoadResponse::kBatchFieldNumber, v1::LoadedBatch::kBatchFieldNumber,
       v1::Batch::kTensorsFieldNumber}};
  // Of fixed size, of a length, and numbers.
  const std::pair<std::string, std::string> cut[] = {
      {"\x79"
       "1234567",
       "a field ends behind its message"},
      {"\x7d"
       "123",
       "a field ends behind its message"},
      {"\x7a\x02"
       "1",
       "a field ends behind its message"},
      {"\x78\x80", "a number ends behind its message"},
      {"\x7a\x80", "a number ends behind its message"},
      {"\x80", "a number ends behind its message"}};
  for (const auto& place : places) {
    for (const auto& [field, why] : cut) {
      std::string bytes = field;
      for (auto outer = place.rbegin(); outer != place.rend(); ++outer) {
        bytes = AsField(*outer, bytes);
      }
      // What follows is no part of it.
      const std::size_t byte = why[2] == 'f' ? 2 * place.size() + field.find('1') : bytes.size();
      EXPECT_EQ(ViewLoad(bytes + bytes).status(),
                absl::InvalidArgumentError(absl::StrCat("LoadResponse, byte ", byte, ": ", why)));
    }
  }
}

TEST(BatchSlicesTest, ViewsLiveAsLongAsTheViewOfReceivedSlices) {
  Random random(5);
  const v1::LoadResponse response = RandomLoadResponse(random);
  const std::string bytes = response.SerializeAsString();
  std::optional<BatchView> kept;
  {
    std::vector<grpc::Slice> slices;
    for (const absl::string_view piece : Cut(random, bytes, 40)) {
      slices.emplace_back(std::string(piece));
    }
    const grpc::ByteBuffer buffer(slices.data(), slices.size());
    auto view = ViewLoadResponse(buffer);
    ASSERT_TRUE(view.ok()) << view.status();
    kept = std::move(*view);
  }
  EXPECT_TRUE(MessageDifferencer::Equals(ToMessage(*kept), response.batch()));
}

TEST(BatchSlicesTest, MessagesGoThroughBuffersAndBack) {
  Random random(6);
  const v1::LoadResponse response = RandomLoadResponse(random);
  const grpc::ByteBuffer buffer = ToByteBuffer(response);
  v1::LoadResponse parsed;
  ASSERT_TRUE(ParseMessage(buffer, parsed).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(parsed, response));
  // The buffer keeps what it has.
  ASSERT_TRUE(ParseMessage(buffer, parsed).ok());
  grpc::Slice broken(std::string("\x12\x05"));
  EXPECT_EQ(ParseMessage(grpc::ByteBuffer(&broken, 1), parsed),
            absl::InvalidArgumentError("what was received is no packhouse.v1.LoadResponse"));
}

// As gRPC leaves one into which nothing was read.
TEST(BatchSlicesTest, ABufferOfNothingIsAnError) {
  const grpc::ByteBuffer nothing;
  EXPECT_EQ(ViewLoadResponse(nothing).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ViewPackResponse(nothing).status().code(), absl::StatusCode::kFailedPrecondition);
  v1::LoadResponse parsed;
  EXPECT_EQ(ParseMessage(nothing, parsed).code(), absl::StatusCode::kInternal);
}

// Of two rank groups, the first with two shapes; the last component is `graphs`.
TEST(LossWeightsTest, AreTheRowsOverThoseOfTheMeanBatch) {
  v1::Epoch epoch;
  epoch.set_epoch(7);
  epoch.set_num_batches(10);
  const auto add = [](v1::EpochRankGroup& group, uint64_t num_batches, double nodes,
                      double graphs) {
    v1::EpochShape& shape = *group.add_shapes();
    shape.set_num_batches(num_batches);
    for (const auto& [name, efficiency] :
         {std::pair("nodes", nodes), std::pair("graphs", graphs)}) {
      v1::ComponentEfficiency& of = *shape.add_components();
      of.set_component(name);
      of.set_fullest_pack(8);
      of.set_efficiency_of_fullest(efficiency);
    }
  };
  v1::EpochRankGroup& first = *epoch.add_rank_groups();
  add(first, 4, 0.5, 0);
  add(first, 3, 1, 0);
  add(*epoch.add_rank_groups(), 3, 0.25, 0);
  const auto weights = LossWeights::Of(epoch);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT(weights->components(), testing::ElementsAre("nodes", "graphs"));
  EXPECT_THAT(weights->real_rows(), testing::ElementsAre(16 + 24 + 6, 0));
  v1::PackResponse response;
  response.mutable_batch()->add_real_rows(23);
  const std::string bytes = response.SerializeAsString();
  const auto view = ViewPack(bytes);
  ASSERT_TRUE(view.ok() && view->has_value());
  // Of the second the batch says nothing, and the epoch has none.
  EXPECT_THAT(weights->WeightsOf(**view), testing::ElementsAre(5, 0));
  EXPECT_EQ(weights->WeightOf(**view, "nodes").value(), 5);
  EXPECT_EQ(weights->WeightOf(**view, "graphs").value(), 0);
  EXPECT_EQ(weights->WeightOf(**view, "edges").status(),
            absl::NotFoundError("loss weights: no component 'edges', there are nodes, graphs"));
  const absl::Status unknown = absl::FailedPreconditionError(
      "loss weights: the rows of epoch 7 are not known beforehand, as of sub-graphs and of parts "
      "that are joined");
  v1::Epoch joined = epoch;
  joined.mutable_joined_parts();
  epoch.mutable_samples();
  EXPECT_EQ(LossWeights::Of(epoch).status(), unknown);
  EXPECT_EQ(LossWeights::Of(joined).status(), unknown);
  joined = v1::Epoch();
  joined.set_epoch(7);
  EXPECT_EQ(LossWeights::Of(joined).status(), unknown);
}

}  // namespace
}  // namespace packhouse::client
