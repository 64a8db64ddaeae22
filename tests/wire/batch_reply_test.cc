#include "service/server/calls/batch_reply.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/batch_place.h"
#include "service/algorithms/collation/collate.h"
#include "service/server/calls/message_pieces.h"
#include "service/server/calls/wire_graphs.h"
#include "tests/support/random_graphs.h"

namespace packhouse {
namespace {

// A random schema's graphs, joined.
Batch RandomBatch(Random& random, const GraphSchema& schema, const GraphChunk& chunk,
                  IntegerWidth width = IntegerWidth::kDeclared) {
  std::vector<GraphRef> graphs;
  for (size_t i = 0; i < chunk.num_graphs(); ++i) graphs.push_back({&chunk, i});
  const size_t l = schema.num_components();
  const auto padding = static_cast<Padding>(random.Below(3));
  const std::vector<uint64_t> capacities(
      l + 1, padding == Padding::kNone ? BatchLayout::kRagged : 40 + random.Below(40));
  const DerivedTensors derived = {true, random.Below(2) == 0, true, random.Below(2) == 0};
  const BatchLayout layout =
      BatchLayout::Create(&schema, capacities, padding, derived, {}, width).value();
  return Collate(layout, graphs, UINT64_MAX, &WireFraming()).value();
}

// As protobuf has it: with the tensors, copied.
void AddTensors(const Batch& batch, v1::Batch& wire) {
  for (const BatchTensor& tensor : batch.tensors) {
    v1::Tensor& out = *wire.add_tensors();
    out.set_name(tensor.name);
    out.set_dtype(DTypeToWire(tensor.dtype));
    if (tensor.declared_dtype) out.set_declared_dtype(DTypeToWire(*tensor.declared_dtype));
    out.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
    out.set_data(std::string(tensor.data));
  }
}

TEST(BatchReplyTest, HasTheBytesThatProtobufWrites) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const GraphChunk chunk = RandomChunk(random, &schema, random.Below(4), 9, seed);
    Batch batch = RandomBatch(random, schema, chunk);

    BatchReply<v1::PackResponse> packed;
    BatchToWire(batch, random.Below(1000), *packed.message.mutable_batch());
    v1::PackResponse whole = packed.message;
    AddTensors(batch, *whole.mutable_batch());

    BatchReply<v1::LoadResponse> loaded;
    v1::LoadedBatch& wire = *loaded.message.mutable_batch();
    BatchToWire(batch, 77, *wire.mutable_batch());
    wire.mutable_batch()->set_epoch(random.Below(3));
    wire.set_is_padding(random.Below(2) == 0);
    wire.set_is_redelivered(random.Below(2) == 0);
    wire.set_graphs_of_step(random.Below(3) * 1000);
    wire.set_shape(static_cast<uint32_t>(random.Below(2)));
    const auto draw_smaller = [&random](auto& smaller) {
      for (uint64_t n = random.Below(3); n != 0; --n) {
        v1::DrawnSmaller& one = *smaller.Add();
        one.set_graph_id(random.Below(1000));
        one.set_level(static_cast<uint32_t>(n));
      }
    };
    draw_smaller(*wire.mutable_drawn_smaller());
    v1::LoadResponse whole_loaded = loaded.message;
    AddTensors(batch, *whole_loaded.mutable_batch()->mutable_batch());
    BatchReply<v1::RebuildBatchesResponse> rebuilt;
    *rebuilt.message.mutable_batch() = wire;
    rebuilt.TakeTensors(batch);
    BatchReply<v1::SampleResponse> sampled;
    *sampled.message.mutable_batch() = packed.message.batch();
    draw_smaller(*sampled.message.mutable_drawn_smaller());
    v1::SampleResponse whole_sampled = sampled.message;
    AddTensors(batch, *whole_sampled.mutable_batch());
    sampled.TakeTensors(batch);
    EXPECT_EQ(ToMessage(rebuilt).batch().SerializeAsString(),
              whole_loaded.batch().SerializeAsString());
    EXPECT_EQ(PiecesOf(sampled).Join(), whole_sampled.SerializeAsString()) << "seed " << seed;

    packed.TakeTensors(batch);
    loaded.TakeTensors(std::move(batch));
    const MessagePieces pieces = PiecesOf(packed);
    EXPECT_EQ(pieces.Join(), whole.SerializeAsString()) << "seed " << seed;
    EXPECT_EQ(pieces.size(), whole.ByteSizeLong());
    EXPECT_EQ(PiecesOf(loaded).Join(), whole_loaded.SerializeAsString()) << "seed " << seed;
    EXPECT_EQ(ToMessage(packed).SerializeAsString(), whole.SerializeAsString());
    // The tensors are where they were built, all of them.
    EXPECT_EQ(pieces.framed_tensors.size(), packed.framed_tensors.size());
    if (!pieces.framed_tensors.empty()) {
      EXPECT_EQ(pieces.framed_tensors.data(), packed.framed_tensors.data());
    }
    EXPECT_EQ(pieces.head.size() + pieces.framed_tensors.size(), pieces.size());
  }
}

// Protobuf reads narrow tensors, too; only the order of a tensor's fields is another.
TEST(BatchReplyTest, NarrowTensorsNameTheirOwnTypes) {
  size_t num_narrow = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const GraphChunk chunk = RandomChunk(random, &schema, random.Below(4), 9, seed);
    Batch batch = RandomBatch(random, schema, chunk, IntegerWidth::kCompact);
    BatchReply<v1::PackResponse> packed;
    BatchToWire(batch, 5, *packed.message.mutable_batch());
    v1::PackResponse whole = packed.message;
    AddTensors(batch, *whole.mutable_batch());
    packed.TakeTensors(std::move(batch));
    EXPECT_EQ(ToMessage(packed).SerializeAsString(), whole.SerializeAsString()) << "seed " << seed;
    EXPECT_EQ(PiecesOf(packed).size(), whole.ByteSizeLong());
    for (const v1::Tensor& tensor : whole.batch().tensors()) {
      if (tensor.declared_dtype() == v1::DATA_TYPE_UNSPECIFIED) continue;
      ++num_narrow;
      EXPECT_NE(tensor.declared_dtype(), tensor.dtype());
    }
  }
  EXPECT_GT(num_narrow, 100U);
}

// Memory of another that has something in it, if there is enough.
class OneRoom final : public BatchPlace {
 public:
  explicit OneRoom(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  std::shared_ptr<char[]> RoomFor(uint64_t bytes, size_t num_graphs) override {
    num_graphs_ = num_graphs;
    if (bytes > most_bytes_) return nullptr;
    memory_.assign(bytes + 64, '?');
    char* const begin = memory_.data();
    return std::shared_ptr<char[]>(std::shared_ptr<void>(),
                                   begin + (64 - reinterpret_cast<uintptr_t>(begin) % 64) % 64);
  }
  size_t num_graphs() const { return num_graphs_; }

 private:
  const uint64_t most_bytes_;
  std::vector<char> memory_;
  size_t num_graphs_ = 0;
};

// The law: a batch is the same wherever it is built, or is brought to; at a place, its tensors are
// aligned.
TEST(BatchReplyTest, ABatchIsTheSameAtAPlace) {
  const auto message_of = [](Batch batch) {
    BatchReply<v1::LoadResponse> reply;
    BatchToWire(batch, 5, *reply.message.mutable_batch()->mutable_batch());
    reply.TakeTensors(std::move(batch));
    return ToMessage(reply);
  };
  size_t num_gaps = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const GraphChunk chunk = RandomChunk(random, &schema, random.Below(4), 9, seed);
    const auto width = static_cast<IntegerWidth>(random.Below(2));
    Random same = random;
    const v1::LoadResponse plain = message_of(RandomBatch(random, schema, chunk, width));
    for (const int way : {0, 1, 2, 3}) {
      const uint64_t most_bytes = way < 2 ? UINT64_MAX : 0;
      OneRoom room(most_bytes);
      Random again = same;
      std::optional<Batch> built;
      if (way % 2 == 0) {
        const BatchPlaceScope scope(&room);
        built = RandomBatch(again, schema, chunk, width);
      } else {
        built = RandomBatch(again, schema, chunk, width);
        const BatchPlaceScope scope(&room);
        built = AtBatchPlace(*std::move(built), &WireFraming());
      }
      if (!built->tensors.empty()) {
        EXPECT_EQ(room.num_graphs(), chunk.num_graphs());
      }
      for (const BatchTensor& tensor : built->tensors) {
        if (most_bytes == 0 || tensor.data.empty()) continue;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.data()) % 64, 0U) << tensor.name;
      }
      v1::LoadResponse there = message_of(*std::move(built));
      for (v1::Tensor& tensor : *there.mutable_batch()->mutable_batch()->mutable_tensors()) {
        num_gaps += tensor.gap().empty() ? 0 : 1;
        tensor.clear_gap();
      }
      EXPECT_EQ(there.SerializeAsString(), plain.SerializeAsString());
    }
  }
  EXPECT_GT(num_gaps, 300U);
}

TEST(BatchReplyTest, OtherResponsesAreSerialisedAsTheyAre) {
  BatchReply<v1::LoadResponse> reply;
  reply.message.mutable_end_of_epoch()->set_num_steps(7);
  EXPECT_EQ(PiecesOf(reply).Join(), reply.message.SerializeAsString());
}

// With its tensors, and by itself.
TEST(BatchReplyTest, AResponseMayHaveSoManyBytes) {
  Random random(3);
  const GraphSchema schema = RandomSchema(random);
  Batch batch = RandomBatch(random, schema, RandomChunk(random, &schema, 3, 9, 1));
  BatchReply<v1::PackResponse> reply;
  BatchToWire(batch, 7, *reply.message.mutable_batch());
  reply.TakeTensors(std::move(batch));
  const auto refused = [](uint64_t bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the response packhouse.v1.PackResponse has ",
                                                     bytes, " bytes, at most ", bytes - 1,
                                                     " may be sent"));
  };
  const v1::PackResponse whole = ToMessage(reply);
  const uint64_t bytes = whole.ByteSizeLong();
  EXPECT_EQ(PiecesWithin(reply, bytes)->Join(), whole.SerializeAsString());
  EXPECT_EQ(PiecesWithin(whole, bytes)->Join(), whole.SerializeAsString());
  EXPECT_EQ(PiecesWithin(reply, bytes - 1).status(), refused(bytes));
  EXPECT_EQ(PiecesWithin(whole, bytes - 1).status(), refused(bytes));
}

}  // namespace
}  // namespace packhouse
