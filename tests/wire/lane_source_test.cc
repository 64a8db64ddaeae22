#include "service/server/services/lane_source.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/lane_client.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// Gives some openings, and then waits.
class WaitingSource final : public ResponseSource<LoadReply> {
 public:
  explicit WaitingSource(uint64_t num_openings) : num_left_(num_openings) {}

  absl::StatusOr<std::optional<LoadReply>> Next() override {
    if (num_left_ == 0) return std::nullopt;
    --num_left_;
    LoadReply reply;
    reply.message.mutable_opened();
    return reply;
  }
  bool IsWaiting() const override { return true; }

 private:
  uint64_t num_left_;
};

// Those of another source; before one of them something happens.
class InterruptedSource final : public ResponseSource<LoadReply> {
 public:
  InterruptedSource(std::unique_ptr<ResponseSource<LoadReply>> source, int num_before,
                    std::function<void()> happens)
      : source_(std::move(source)), num_before_(num_before), happens_(std::move(happens)) {}

  absl::StatusOr<std::optional<LoadReply>> Next() override {
    if (num_before_-- == 0) happens_();
    return source_->Next();
  }
  bool IsWaiting() const override { return source_->IsWaiting(); }

 private:
  const std::unique_ptr<ResponseSource<LoadReply>> source_;
  int num_before_;
  const std::function<void()> happens_;
};

// An evaluation of an epoch, and a door where its lane can be opened.
class LaneSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    world_.Seal();
    PH_ASSERT_OK_AND_ASSIGN(door_, LaneDoor::Open(absl::StrCat("unix:", path_), &budget_));
  }

  std::shared_ptr<const LoadableEpoch> Epoch(Padding padding, IntegerWidth width) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job.clear();
    request.padding = padding;
    request.integer_width = width;
    request.derived = {true, true, true, true};
    return catalog_.Prepare(request).value();
  }

  std::unique_ptr<ResponseSource<LoadReply>> Evaluate(std::shared_ptr<const LoadableEpoch> epoch) {
    auto observer = observers_.ForStream(epoch->schema().sizes(), {});
    auto evaluation = Evaluation::Open(std::move(epoch), {}, /*memory=*/nullptr).value();
    return std::make_unique<EvaluationSource>(std::move(evaluation), std::move(observer),
                                              &early_end_, [] {});
  }
  std::unique_ptr<LaneSource> WithLane(const std::shared_ptr<const LoadableEpoch>& epoch,
                                       absl::StatusOr<std::shared_ptr<Lane>> lane) {
    return std::make_unique<LaneSource>(Evaluate(epoch), std::move(lane), door_.get(),
                                        epoch->schema(), &clock_, [this] { ++num_wakes_; });
  }
  absl::StatusOr<std::shared_ptr<Lane>> Offer(const LoadableEpoch& epoch) {
    return OfferLane(epoch, door_.get(), [] {});
  }

  // A response as it is without a lane.
  static std::string WithoutLane(v1::LoadResponse response) {
    if (response.has_opened()) response.mutable_opened()->clear_lane();
    if (response.has_batch()) {
      for (v1::Tensor& tensor : *response.mutable_batch()->mutable_batch()->mutable_tensors()) {
        tensor.clear_gap();
      }
    }
    return response.SerializeAsString();
  }
  static std::vector<std::string> AllOf(ResponseSource<LoadReply>& source) {
    std::vector<std::string> all;
    for (;;) {
      const auto next = source.Next().value();
      if (!next) return all;
      all.push_back(WithoutLane(ToMessage(*next)));
    }
  }

  DatasetWorld world_{300};
  EpochCatalog catalog_{&world_.store(), {.planner_steps = 1000, .framing = &WireFraming()}};
  UnwatchedStreams observers_;
  EarlyEnd early_end_;
  SimulatedClock clock_;
  const TemporaryFolder folder_;
  const std::string path_ = absl::StrCat(folder_.path(), "/lane");
  MemoryBudget budget_{uint64_t{1} << 30};
  std::unique_ptr<LaneDoor> door_;
  int num_wakes_ = 0;
};

// The law: whenever the client opens the lane, whatever it keeps, and whichever batches find no
// slot, it gets the responses of a stream without a lane, in their order.
TEST_F(LaneSourceTest, AStreamIsTheSameWithALane) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto epoch =
        Epoch(static_cast<Padding>(random.Below(3)), static_cast<IntegerWidth>(random.Below(2)));
    const std::vector<std::string> expected = AllOf(*Evaluate(epoch));
    // Some batches are too large for some lanes.
    const LaneSize size = {.num_slots = static_cast<uint32_t>(random.Between(2, 5)),
                           .slot_bytes = 1024 * random.Between(1, 4)};
    PH_ASSERT_OK_AND_ASSIGN(const auto lane, door_->Offer(size, [] {}));
    const auto source = WithLane(epoch, lane);
    std::optional<LaneClient> client;
    const uint64_t opens_at = random.Below(8);
    std::vector<std::string> got;
    std::deque<std::string> by_grpc;
    std::vector<uint32_t> held;
    uint64_t num_responses = 0;
    const auto read_lane = [&] {
      while (client && got.size() >= client->num_before() && client->HasMessage()) {
        const auto message = client->Read();
        ASSERT_TRUE(message.has_value());
        if (message->is_by_grpc()) {
          ASSERT_FALSE(by_grpc.empty());
          got.push_back(std::exchange(by_grpc.front(), {}));
          by_grpc.pop_front();
          continue;
        }
        v1::LoadResponse response;
        ASSERT_TRUE(response.ParseFromString(std::string(client->Bytes(*message))));
        for (const v1::Tensor& tensor : response.batch().batch().tensors()) {
          EXPECT_FALSE(tensor.name().empty());
        }
        got.push_back(WithoutLane(std::move(response)));
        held.push_back(message->slot);
      }
    };
    for (;;) {
      if (num_responses == opens_at && !client) {
        client.emplace(path_);
        ASSERT_TRUE(client->Open(lane->token()));
        ASSERT_EQ(client->num_before(), num_responses);
      }
      PH_ASSERT_OK_AND_ASSIGN(const auto next, source->Next());
      if (next) {
        ++num_responses;
        const v1::LoadResponse response = ToMessage(*next);
        if (client && num_responses > client->num_before()) {
          by_grpc.push_back(WithoutLane(response));
          read_lane();
        } else {
          got.push_back(WithoutLane(response));
        }
        continue;
      }
      if (!source->IsBusy() && !source->IsWaiting()) break;
      read_lane();
      if (source->IsWaiting() && (held.empty() || random.Below(8) == 0)) {
        clock_.Advance(LaneSource::kLongWait);
      } else if (!held.empty() && (source->IsWaiting() || random.Below(2) == 0)) {
        const size_t place = random.Below(held.size());
        client->Release({held[place]});
        held.erase(held.begin() + static_cast<ptrdiff_t>(place));
      }
    }
    read_lane();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << i;
  }
  EXPECT_GT(door_->counts().num_batches, 1000U);
  EXPECT_GT(door_->counts().num_too_large, 100U);
  EXPECT_GT(door_->counts().num_without_slot, 10U);
  // Its thread may have been about to wake the last stream, and have held its lane.
  door_->Stop();
  EXPECT_EQ(budget_.held(), 0U);
}

TEST_F(LaneSourceTest, EveryBatchFitsTheLaneThatIsOffered) {
  for (const Padding padding : {Padding::kNone, Padding::kMasked, Padding::kGraph}) {
    const auto epoch = Epoch(padding, IntegerWidth::kDeclared);
    PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
    const auto source = WithLane(epoch, lane);
    LaneClient client(path_);
    ASSERT_TRUE(client.Open(lane->token()));
    for (;;) {
      PH_ASSERT_OK_AND_ASSIGN(const auto next, source->Next());
      if (next) {
        EXPECT_FALSE(next->message.has_batch());
      }
      if (!next && !source->IsBusy()) break;
      const auto message = client.Read();
      ASSERT_TRUE(message.has_value());
      if (message->is_by_grpc()) continue;
      client.Release({message->slot});
    }
  }
  EXPECT_EQ(door_->counts().num_too_large, 0U);
}

TEST(LaneRepliesTest, AResponseTakesItsTensorsAndWhatIsAroundThem) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"xyz", DType::kInt64, {}, 0, {}, {}}})
          .value();
  const FieldBytes fields = FieldBytes::Of(schema);
  EXPECT_EQ(fields.fixed, 32U * 10 + 2 * 10 * 3);
  EXPECT_EQ(fields.for_each_graph, 8U + 4 * 2 + 3 * 10);
  EXPECT_EQ(fields.For(3), 380U + 3 * 46);
  BatchShapeOptions options;
  options.padding = Padding::kMasked;
  options.max_batch_bytes = uint64_t{1} << 40;
  const auto bytes_of = [&](const std::vector<uint64_t>& capacities) {
    const BatchShape shape = BatchShape::Resolve(schema, capacities, options).value();
    uint64_t frames = 0;
    for (const BatchColumn& column : shape.layout.columns()) frames += column.name.size() + 256;
    const uint64_t tensors = shape.layout.FixedBatchBytes().value();
    return std::pair(MostResponseBytes(shape, fields), tensors + frames);
  };
  // Aligned: 380 + 5 * 46 is 610.
  const auto [some, without] = bytes_of({100, 100, 5});
  EXPECT_EQ(some, without + 2 * 640);
  // Half of the tensors' bytes, where a bound of graphs is far above what there will be.
  const auto [many, without_many] = bytes_of({100, 100, 4000});
  EXPECT_LT(many, without_many + 2 * fields.For(4000));
  EXPECT_GE(many, without_many + 2 * LaneSize::kSlotUnit);
  EXPECT_EQ(bytes_of({uint64_t{16} << 20, 100, 5}).first, LaneSize::kMostBytes);
}

TEST_F(LaneSourceTest, TellsTheLaneOrWhyThereIsNone) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
  const auto offered = WithLane(epoch, lane)->Next().value();
  EXPECT_EQ(offered->message.opened().lane().socket_path(), path_);
  EXPECT_EQ(offered->message.opened().lane().token(), lane->token());
  EXPECT_EQ(offered->message.opened().lane().refusal(), "");
  const auto none = WithLane(epoch, OfferLane(*epoch, nullptr, [] {}))->Next().value();
  EXPECT_EQ(none->message.opened().lane().socket_path(), "");
  EXPECT_THAT(none->message.opened().lane().refusal(), HasSubstr("--lane"));
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold rest,
                          budget_.Hold("all", budget_.bound() - budget_.held()));
  const auto full = WithLane(epoch, Offer(*epoch))->Next().value();
  EXPECT_THAT(full->message.opened().lane().refusal(), HasSubstr("a lane"));
}

// A slow trainer is not a lost one: its stream waits, then goes on by gRPC, and comes back.
TEST_F(LaneSourceTest, WaitsForASlotAndNotForEver) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
  const auto source = WithLane(epoch, lane);
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(lane->token()));
  ASSERT_TRUE(source->Next().value().has_value());
  for (uint32_t i = 0; i < lane->size().num_slots; ++i) {
    EXPECT_FALSE(source->Next().value().has_value());
    EXPECT_TRUE(source->IsBusy());
    EXPECT_FALSE(source->IsWaiting());
  }
  EXPECT_FALSE(source->Next().value().has_value());
  EXPECT_FALSE(source->IsBusy());
  EXPECT_TRUE(source->IsWaiting());
  clock_.Advance(LaneSource::kLongWait - absl::Milliseconds(1));
  EXPECT_EQ(num_wakes_, 0);
  EXPECT_FALSE(source->Next().value().has_value());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(num_wakes_, 1);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(source->Next().value()->message.has_batch());
  client.Release({0});
  EXPECT_FALSE(source->Next().value().has_value());
  EXPECT_TRUE(source->IsBusy());
  // The next wait begins anew.
  EXPECT_FALSE(source->Next().value().has_value());
  EXPECT_TRUE(source->IsWaiting());
}

TEST_F(LaneSourceTest, EndsWithItsLane) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  for (const bool lies : {false, true}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
    const auto source = WithLane(epoch, lane);
    LaneClient client(path_);
    ASSERT_TRUE(client.Open(lane->token()));
    ASSERT_TRUE(source->Next().value().has_value());
    EXPECT_FALSE(source->Next().value().has_value());
    if (lies) {
      client.Release({3});
    } else {
      client.Close();
    }
    EXPECT_THAT(source->Next(),
                StatusIs(lies ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                         HasSubstr("lane")));
  }
}

// Of the opening, which goes by gRPC, and of batches in slots.
TEST_F(LaneSourceTest, EndsWithALaneThatIsClosedWhileAResponseIsMade) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  for (const int num_before : {0, 1, 2}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
    LaneClient client(path_);
    ASSERT_TRUE(client.Open(lane->token()));
    LaneSource source(std::make_unique<InterruptedSource>(Evaluate(epoch), num_before,
                                                          [&client] { client.Close(); }),
                      lane, door_.get(), epoch->schema(), &clock_, [] {});
    for (int i = 0; i < num_before; ++i) EXPECT_THAT(source.Next(), IsOk());
    EXPECT_THAT(source.Next(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lane")))
        << num_before;
  }
}

TEST_F(LaneSourceTest, ASlotTakesOneBatchAndWhatIsAroundIt) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(lane->token()));
  ASSERT_TRUE(lane->IsOpen().value());
  const uint64_t room = lane->size().slot_bytes;
  // 110 bytes, aligned.
  const FieldBytes fields = {100, 10};
  SlotPlace place(lane, 1, fields);
  EXPECT_EQ(place.RoomFor(room - 255, 1), nullptr);
  EXPECT_TRUE(place.is_too_large());
  EXPECT_EQ(place.RoomFor(0, room), nullptr);
  EXPECT_TRUE(place.is_too_large());
  const std::shared_ptr<char[]> tensors = place.RoomFor(room - 256, 1);
  EXPECT_FALSE(place.is_too_large());
  EXPECT_EQ(tensors.get(), lane->slot(1) + 128);
  EXPECT_EQ(place.RoomFor(1, 1), nullptr);
  EXPECT_FALSE(place.is_too_large());
  EXPECT_FALSE(place.Has({lane->slot(1), 0}));
  EXPECT_FALSE(place.Has({lane->slot(1) - 1, 1}));
  EXPECT_TRUE(place.Has({lane->slot(1), 1}));
  EXPECT_TRUE(place.Has({lane->slot(1) + room - 1, 1}));
  EXPECT_FALSE(place.Has({lane->slot(1) + room, 1}));

  const uint32_t slot = lane->TakeSlot().value();
  MessagePieces pieces;
  pieces.framed_tensors = {lane->slot(slot) + 32, 64};
  std::memset(lane->slot(slot) + 32, 't', 64);
  for (const auto& [head, tail] : {std::pair(uint64_t{33}, uint64_t{2}), {3, room - 95}}) {
    pieces.head = std::string(head, 'h');
    pieces.tail = std::string(tail, 'b');
    EXPECT_EQ(
        SendSlot(*lane, slot, pieces),
        absl::InternalError(absl::StrCat("a slot has 32 and ", room - 96,
                                         " bytes around the tensors, for ", head, " and ", tail)));
    EXPECT_EQ(lane->TakeSlot(), slot) << "it was given back";
  }
  pieces.head = std::string(32, 'h');
  pieces.tail = std::string(room - 96, 'b');
  EXPECT_THAT(SendSlot(*lane, slot, pieces), IsOk());
  const auto message = client.Read();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(client.Bytes(*message), pieces.head + std::string(64, 't') + pieces.tail);
}

// The law: whatever a stream waits for, and whenever its lane was opened, it is woken soon after
// its client has ended the lane, or lied, though nothing else wakes it.
TEST_F(LaneSourceTest, HearsItsClientWhateverItWaitsFor) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  struct Case {
    const char* waits_for;
    uint64_t num_openings;
    bool opens_late;
  };
  for (const Case& one : {Case{"its source", 1, false}, Case{"its source", 1, true},
                          Case{"room for messages", UINT64_MAX, false}}) {
    for (const char* says : {"the end", "nothing", "a slot that it does not have"}) {
      SCOPED_TRACE(testing::Message() << one.waits_for << ", " << one.opens_late << ", " << says);
      PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
      LaneSource source(std::make_unique<WaitingSource>(one.num_openings), lane, door_.get(),
                        epoch->schema(), &clock_, [this] { ++num_wakes_; });
      LaneClient client(path_);
      if (!one.opens_late) {
        ASSERT_TRUE(client.Open(lane->token()));
      }
      while (source.Next().value()) {
      }
      if (one.opens_late) {
        ASSERT_TRUE(client.Open(lane->token()));
      }
      // As often as it takes.
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(source.IsWaiting());
        if (i == 2 && *says == 't') client.Close();
        if (i == 2 && *says == 'n') client.Release({});
        if (i == 2 && *says == 'a') client.Release({3});
        num_wakes_ = 0;
        clock_.Advance(LaneSource::kLongWait);
        EXPECT_EQ(num_wakes_, 1);
        if (i < 2) {
          EXPECT_FALSE(source.Next().value().has_value());
        }
      }
      EXPECT_THAT(source.Next(), StatusIs(*says == 'a' ? absl::StatusCode::kInvalidArgument
                                                       : absl::StatusCode::kUnavailable,
                                          HasSubstr("lane")));
    }
  }
}

// The client has everything: that it closes the lane is no failure.
TEST_F(LaneSourceTest, ALaneMayBeClosedAfterTheEnd) {
  const auto epoch = Epoch(Padding::kMasked, IntegerWidth::kDeclared);
  PH_ASSERT_OK_AND_ASSIGN(const auto lane, Offer(*epoch));
  const auto source = WithLane(epoch, lane);
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(lane->token()));
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(const auto next, source->Next());
    if (next && next->message.has_end_of_epoch()) break;
    const auto message = client.Read();
    if (!message->is_by_grpc()) client.Release({message->slot});
  }
  client.Close();
  EXPECT_THAT(source->Next(), IsOk());
  EXPECT_FALSE(source->IsBusy());
  EXPECT_FALSE(source->IsWaiting());
}

}  // namespace
}  // namespace packhouse
