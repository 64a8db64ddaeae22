#include "service/server/services/pack_lane.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "tests/support/lane_client.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using Handler = StreamHandler<v1::PackRequest, PackReply>;

// As a response is without a lane.
std::string WithoutLane(v1::PackResponse response) {
  if (response.has_batch()) {
    for (v1::Tensor& tensor : *response.mutable_batch()->mutable_tensors()) tensor.clear_gap();
  }
  return response.SerializeAsString();
}

// Writes the tensors of a request's graphs to a slot, as docs/lane.md says, and says in their place
// which slot it is. False if they do not fit.
bool MoveToSlot(LaneClient& client, uint32_t slot, v1::PackRequest& request) {
  v1::GraphChunk graphs = request.graphs();
  uint64_t end = 0;
  for (const v1::TensorData& tensor : graphs.tensors()) {
    const uint64_t begin = (end + 63) / 64 * 64;
    end = begin + tensor.data().size();
    if (end > client.slot_bytes()) return false;
    std::memcpy(client.slot(slot) + begin, tensor.data().data(), tensor.data().size());
  }
  *request.mutable_slot_graphs()->mutable_sizes() = graphs.sizes();
  request.mutable_slot_graphs()->set_slot(slot);
  return true;
}

// A stream that asks for a lane, as its call drives it, and its client.
class PackLaneTest : public testing::Test {
 protected:
  void SetUp() override {
    PH_ASSERT_OK_AND_ASSIGN(door_, LaneDoor::Open(absl::StrCat("unix:", path_), &budget_));
  }

  std::unique_ptr<PackHandler> Plain() {
    return std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_);
  }
  std::unique_ptr<PackLaneHandler> WithLane(LaneDoor* door, bool takes_graphs = false) {
    return std::make_unique<PackLaneHandler>(
        Plain(), takes_graphs, door, &clock_,
        [this](const PackLaneHandler::Offers& offers) {
          offer_ = offers.to_client;
          offer_for_graphs_ = offers.to_server.value_or(v1::Lane());
          uses_lane_ = offers.uses_lane;
        },
        [this] { ++num_wakes_; });
  }

  // The beginning of a stream of graphs without tensors.
  static v1::PackRequest Opening(v1::Payload payload) {
    v1::PackRequest request;
    v1::Capacity& graphs = *request.mutable_open()->mutable_limits()->add_capacities();
    graphs.set_component("graphs");
    graphs.set_rows(4);
    request.mutable_open()->set_payload(payload);
    return request;
  }
  // A stream of whole graphs, which may be refused.
  static std::vector<v1::PackRequest> RandomRequests(Random& random) {
    const GraphSchema schema = RandomSchema(random);
    std::vector<v1::PackRequest> requests(1);
    v1::PackOpen& open = *requests[0].mutable_open();
    GraphSchemaToWire(schema, *open.mutable_schema());
    for (const std::string& name : schema.sizes().components()) {
      v1::Capacity& capacity = *open.mutable_limits()->add_capacities();
      capacity.set_component(name);
      capacity.set_rows(random.Between(11, 60));
    }
    v1::Capacity& graphs = *open.mutable_limits()->add_capacities();
    graphs.set_component("graphs");
    graphs.set_rows(random.Between(2, 9));
    open.set_payload(v1::PAYLOAD_GRAPHS);
    open.set_padding(static_cast<v1::Padding>(random.Between(1, 3)));
    open.set_look_ahead(static_cast<uint32_t>(random.Between(1, 16)));
    open.set_integer_width(static_cast<v1::IntegerWidth>(random.Between(1, 2)));
    if (random.Below(2) == 0) open.add_derived(v1::DERIVED_TENSOR_GRAPH_INDEX);
    for (uint64_t first_id = 0; first_id < 150;) {
      v1::PackRequest& request = requests.emplace_back();
      if (random.Below(8) == 0) {
        request.mutable_flush()->set_token(first_id);
        continue;
      }
      const uint64_t num_graphs = random.Below(9);
      // Some are beyond the limits.
      GraphChunkToWire(RandomChunk(random, &schema, num_graphs, 13, first_id),
                       *request.mutable_graphs());
      first_id += num_graphs;
    }
    return requests;
  }
  static absl::Status Accept(Handler& handler, const v1::PackRequest& request) {
    return handler.Accept(std::make_unique<v1::PackRequest>(request));
  }
  // After so many responses by gRPC.
  void OpenLane(LaneClient& client, uint64_t num_before) {
    ASSERT_FALSE(*uses_lane_);
    ASSERT_TRUE(client.Open(offer_.token()));
    ASSERT_EQ(client.num_before(), num_before);
    ASSERT_TRUE(*uses_lane_);
  }
  // By a slot that the client writes into again at once, when the server has given it back.
  static void AcceptInSlot(Handler& handler, LaneClient& client, v1::PackRequest request) {
    const uint32_t slot = client.Read()->slot;
    ASSERT_TRUE(MoveToSlot(client, slot, request));
    ASSERT_THAT(Accept(handler, request), IsOk());
    std::memset(client.slot(slot), 0x5a, client.slot_bytes());
  }
  // Whether by a slot: of one lane, where there is one, and as the seed has it.
  static bool AcceptSomehow(Handler& handler, std::optional<LaneClient>& lane,
                            const v1::PackRequest& request, Random& random) {
    if (lane && request.has_graphs() && random.Below(3) != 0) {
      AcceptInSlot(handler, *lane, request);
      return true;
    }
    EXPECT_THAT(Accept(handler, request), IsOk());
    return false;
  }

  // All responses of a stream by gRPC; empty if it is refused.
  std::vector<std::string> ByGrpc(const std::vector<v1::PackRequest>& requests) {
    const auto handler = Plain();
    std::vector<std::string> all;
    if (!Accept(*handler, requests[0]).ok()) return all;
    for (size_t i = 1;; ++i) {
      for (;;) {
        auto next = handler->Next().value();
        if (!next && !handler->IsBusy()) break;
        if (next) all.push_back(WithoutLane(ToMessage(*next)));
      }
      if (i > requests.size()) return all;
      if (i == requests.size()) {
        handler->HalfClose();
      } else {
        EXPECT_THAT(Accept(*handler, requests[i]), IsOk());
      }
    }
  }

  SimulatedClock clock_;
  HistogramStore histograms_{{}};
  UnwatchedStreams observers_;
  const TemporaryFolder folder_;
  const std::string path_ = absl::StrCat(folder_.path(), "/lane");
  MemoryBudget budget_{uint64_t{1} << 30};
  std::unique_ptr<LaneDoor> door_;
  v1::Lane offer_;
  v1::Lane offer_for_graphs_;
  std::shared_ptr<const std::atomic<bool>> uses_lane_;
  std::atomic<int> num_wakes_ = 0;
};

// The law: whenever the client opens the lanes, whatever it keeps, whatever it writes into what it
// has, and whichever of its graphs go by which way, it gets the responses of a stream without a
// lane, in their order.
TEST_F(PackLaneTest, AStreamIsTheSameWithALane) {
  int num_refused = 0;
  uint64_t num_in_slots = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const std::vector<v1::PackRequest> requests = RandomRequests(random);
    const std::vector<std::string> expected = ByGrpc(requests);
    const auto handler = WithLane(door_.get(), /*takes_graphs=*/true);
    const absl::Status opened = Accept(*handler, requests[0]);
    ASSERT_EQ(opened.ok(), !expected.empty()) << opened;
    if (!opened.ok()) {
      ++num_refused;
      continue;
    }
    std::optional<LaneClient> client;
    std::optional<LaneClient> for_graphs;
    const size_t graphs_from = random.Below(20);
    const uint64_t opens_at = random.Below(8);
    std::vector<std::string> got;
    std::deque<std::string> by_grpc;
    std::vector<uint32_t> held;
    uint64_t num_responses = 0;
    size_t next_request = 1;
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
        v1::PackResponse response;
        ASSERT_TRUE(response.ParseFromString(std::string(client->Bytes(*message))));
        got.push_back(WithoutLane(std::move(response)));
        std::memset(client->slot(message->slot), 0xa5, client->slot_bytes());
        held.push_back(message->slot);
      }
    };
    for (;;) {
      if (num_responses == opens_at && !client) {
        OpenLane(client.emplace(path_), num_responses);
      }
      PH_ASSERT_OK_AND_ASSIGN(const auto next, handler->Next());
      if (next) {
        ++num_responses;
        const std::string response = WithoutLane(ToMessage(*next));
        if (client && num_responses > client->num_before()) {
          by_grpc.push_back(response);
          read_lane();
        } else {
          got.push_back(response);
        }
        continue;
      }
      if (handler->IsBusy()) continue;
      if (!handler->IsWaiting()) {
        if (next_request > requests.size()) break;
        if (next_request == requests.size()) {
          handler->HalfClose();
        } else {
          if (next_request == graphs_from) {
            for_graphs.emplace(path_);
            ASSERT_TRUE(for_graphs->Open(offer_for_graphs_.token()));
          }
          num_in_slots += AcceptSomehow(*handler, for_graphs, requests[next_request], random);
        }
        ++next_request;
      }
      read_lane();
      if (handler->IsWaiting() && (held.empty() || random.Below(8) == 0)) {
        clock_.Advance(LaneReplies<PackReply>::kLongWait);
      } else if (!held.empty() && (handler->IsWaiting() || random.Below(4) == 0)) {
        const size_t place = random.Below(held.size());
        client->Release({held[place]});
        held.erase(held.begin() + static_cast<ptrdiff_t>(place));
      }
    }
    read_lane();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << i;
  }
  EXPECT_LT(num_refused, 100);
  EXPECT_GT(num_in_slots, 500U);
  EXPECT_GT(door_->counts().num_batches, 500U);
  EXPECT_GT(door_->counts().num_without_slot, 10U);
  EXPECT_EQ(door_->counts().num_chunks, num_in_slots);
  // Its thread may have been about to wake the last stream, and have held its lane.
  door_->Stop();
  EXPECT_EQ(budget_.held(), 0U);
}

TEST_F(PackLaneTest, TellsTheLaneOrWhyThereIsNone) {
  auto handler = WithLane(door_.get());
  ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
  EXPECT_EQ(offer_.socket_path(), path_);
  EXPECT_EQ(offer_.token().size(), LaneDoor::kTokenBytes);
  EXPECT_EQ(offer_.refusal(), "");
  handler = WithLane(nullptr);
  ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
  EXPECT_EQ(offer_.socket_path(), "");
  EXPECT_THAT(offer_.refusal(), HasSubstr("--lane"));
  handler = WithLane(door_.get());
  ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_SIZES)), IsOk());
  EXPECT_THAT(offer_.refusal(), HasSubstr("sizes"));
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold rest,
                          budget_.Hold("all", budget_.bound() - budget_.held()));
  handler = WithLane(door_.get());
  ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
  EXPECT_THAT(offer_.refusal(), HasSubstr("a lane"));
}

// That for graphs comes second: without it they come by gRPC.
TEST_F(PackLaneTest, EachLaneIsOfferedWhereThereIsMemoryForIt) {
  const auto held_with = [this](bool takes_graphs) {
    const auto handler = WithLane(door_.get(), takes_graphs);
    EXPECT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
    return budget_.held();
  };
  const uint64_t one = held_with(false);
  const uint64_t both = held_with(true);
  ASSERT_LT(one, both);
  ASSERT_EQ(budget_.held(), 0U);
  for (const uint64_t left : {one - 1, one, both - 1, both}) {
    SCOPED_TRACE(left);
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold rest, budget_.Hold("all", budget_.bound() - left));
    const auto handler = WithLane(door_.get(), /*takes_graphs=*/true);
    ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
    EXPECT_EQ(offer_.token().size(), left < one ? 0 : LaneDoor::kTokenBytes);
    EXPECT_THAT(offer_.refusal(), HasSubstr(left < one ? "a lane" : ""));
    EXPECT_EQ(offer_.refusal().empty(), left >= one);
    EXPECT_EQ(uses_lane_ != nullptr, left >= one);
    EXPECT_EQ(offer_for_graphs_.token().size(), left < both ? 0 : LaneDoor::kTokenBytes);
    EXPECT_THAT(offer_for_graphs_.refusal(), HasSubstr(left < both ? "a lane" : ""));
    EXPECT_EQ(offer_for_graphs_.refusal().empty(), left >= both);
    EXPECT_TRUE(handler->Next().value()->message.has_opened());
    v1::PackRequest request;
    request.mutable_graphs()->mutable_sizes()->set_num_graphs(1);
    request.mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire({1, 1}));
    ASSERT_THAT(Accept(*handler, request), IsOk());
    handler->HalfClose();
    EXPECT_TRUE(handler->Next().value()->message.has_batch());
  }
}

// As where gRPC takes no more responses: whoever flushes a thousand times and then reads gets a
// thousand answers.
TEST_F(PackLaneTest, AClientThatDoesNotReadIsWaitedFor) {
  constexpr uint64_t kFlushes = 1000;
  const auto handler = WithLane(door_.get());
  v1::PackRequest request = Opening(v1::PAYLOAD_GRAPHS);
  ASSERT_THAT(Accept(*handler, request), IsOk());
  ASSERT_TRUE(handler->Next().value().has_value());
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(offer_.token()));
  uint64_t num_waits = 0;
  uint64_t num_read = 0;
  for (uint64_t token = 1; token <= kFlushes; ++token) {
    request.mutable_flush()->set_token(token);
    ASSERT_THAT(Accept(*handler, request), IsOk());
    for (;;) {
      PH_ASSERT_OK_AND_ASSIGN(const auto next, handler->Next());
      if (next) {
        EXPECT_EQ(next->message.flushed().token(), token);
      } else if (handler->IsWaiting()) {
        ++num_waits;
        const int wakes = num_wakes_;
        for (; client.HasMessage(); ++num_read) ASSERT_TRUE(client.Read()->is_by_grpc());
        while (num_wakes_ == wakes) std::this_thread::yield();
      } else {
        break;
      }
    }
  }
  for (; client.HasMessage(); ++num_read) ASSERT_TRUE(client.Read()->is_by_grpc());
  EXPECT_EQ(num_read, kFlushes);
  EXPECT_GT(num_waits, 0U);
}

TEST_F(PackLaneTest, EndsWithItsLane) {
  const v1::PackRequest request = Opening(v1::PAYLOAD_GRAPHS);
  for (const bool lies : {false, true}) {
    const auto handler = WithLane(door_.get());
    ASSERT_THAT(Accept(*handler, request), IsOk());
    ASSERT_TRUE(handler->Next().value().has_value());
    LaneClient client(path_);
    ASSERT_TRUE(client.Open(offer_.token()));
    EXPECT_FALSE(handler->Next().value().has_value());
    if (lies) {
      client.Release({3});
    } else {
      client.Close();
    }
    // No request comes.
    num_wakes_ = 0;
    clock_.Advance(LaneReplies<PackReply>::kLongWait);
    EXPECT_GE(num_wakes_, 1);  // Perhaps only now the door tells that the client has come, too.
    EXPECT_THAT(handler->Next(),
                StatusIs(lies ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                         HasSubstr("lane")));
  }
}

// The law: a client that writes into a slot all the time gets its graphs checked or refused, never
// packed with an index that points out of its batch.
TEST_F(PackLaneTest, WhatIsCheckedCannotChange) {
  constexpr uint32_t kNodes = 50;
  constexpr uint32_t kEdges = 20'000;
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                                 {{"edge_index", DType::kInt32, {2}, 1, 0, {}}})
                                 .value();
  v1::PackRequest request = Opening(v1::PAYLOAD_GRAPHS);
  GraphSchemaToWire(schema, *request.mutable_open()->mutable_schema());
  request.mutable_open()->mutable_limits()->mutable_capacities(0)->set_rows(1);
  for (int round = 0; round < 300; ++round) {
    const auto handler = WithLane(door_.get(), /*takes_graphs=*/true);
    ASSERT_THAT(Accept(*handler, request), IsOk());
    ASSERT_TRUE(handler->Next().value().has_value());
    LaneClient client(path_);
    ASSERT_TRUE(client.Open(offer_for_graphs_.token()));
    const uint32_t slot = client.Read()->slot;
    v1::PackRequest graphs;
    v1::SizeTable& sizes = *graphs.mutable_slot_graphs()->mutable_sizes();
    sizes.set_num_graphs(1);
    sizes.set_counts(Uint32sToWire({kNodes, kEdges}));
    graphs.mutable_slot_graphs()->set_slot(slot);
    // Whatever the threads' order: some are refused, and some are left alone.
    const bool is_wrong = round % 3 == 0;
    std::atomic<bool> is_over = round % 3 == 1;
    auto* const indices = reinterpret_cast<volatile int32_t*>(client.slot(slot));
    if (is_wrong) indices[0] = 1 << 30;
    std::thread writer([&] {
      for (Random random(static_cast<uint64_t>(round)); !is_over;) {
        const uint64_t place = 1 + random.Below(2 * kEdges - 1);
        indices[place] = 1 << 30;
        indices[place] = 7;
      }
    });
    const absl::Status accepted = Accept(*handler, graphs);
    handler->HalfClose();
    const auto reply = handler->Next();
    is_over = true;
    writer.join();
    if (!accepted.ok()) {
      EXPECT_THAT(accepted, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("edge_index")));
      EXPECT_NE(round % 3, 1);
      continue;
    }
    ASSERT_FALSE(is_wrong);
    ASSERT_TRUE(reply.ok() && reply->has_value());
    const v1::PackResponse response = ToMessage(**reply);
    const std::string& packed = response.batch().tensors(0).data();
    ASSERT_EQ(packed.size(), 2 * kEdges * sizeof(int32_t));
    for (size_t i = 0; i < packed.size(); i += sizeof(int32_t)) {
      int32_t index;
      std::memcpy(&index, packed.data() + i, sizeof(index));
      ASSERT_LT(index, static_cast<int32_t>(kNodes));
    }
  }
}

TEST_F(PackLaneTest, GraphsInASlotThatTheClientDoesNotHaveAreRefused) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {3}, 0, {}, {}}})
          .value();
  v1::PackRequest open = Opening(v1::PAYLOAD_GRAPHS);
  GraphSchemaToWire(schema, *open.mutable_open()->mutable_schema());
  const auto graphs_in = [](uint32_t slot, uint32_t nodes) {
    v1::PackRequest request;
    v1::SizeTable& sizes = *request.mutable_slot_graphs()->mutable_sizes();
    sizes.set_num_graphs(2);
    sizes.set_counts(Uint32sToWire({1, 0, nodes, 0}));
    request.mutable_slot_graphs()->set_slot(slot);
    return request;
  };
  const auto refused = [](absl::string_view why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  // Before it has opened the lane.
  auto handler = WithLane(door_.get(), /*takes_graphs=*/true);
  ASSERT_THAT(Accept(*handler, open), IsOk());
  EXPECT_THAT(Accept(*handler, graphs_in(0, 1)), refused("slot 0 of 4"));
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(offer_for_graphs_.token()));
  EXPECT_THAT(Accept(*handler, graphs_in(4, 1)), refused("slot 4 of 4"));
  // Graphs larger than the slot; the sum of their rows would wrap around in 32 bits.
  EXPECT_THAT(Accept(*handler, graphs_in(0, UINT32_MAX)), refused("does not fit the slot"));
  const uint32_t most = static_cast<uint32_t>(client.slot_bytes() / (3 * sizeof(float)));
  EXPECT_THAT(Accept(*handler, graphs_in(0, most)), refused("does not fit the slot"));
  EXPECT_THAT(Accept(*handler, graphs_in(0, most)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("lane: tensor 'x' with ", most + 1,
                                    " rows of 12 bytes does not fit the slot of ",
                                    client.slot_bytes(), " bytes behind its first 0")));
  // As often as it likes: the server gives it again each time.
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Accept(*handler, graphs_in(0, most - 1)), IsOk());
  // Without a lane there are no slots.
  handler = WithLane(door_.get());
  ASSERT_THAT(Accept(*handler, open), IsOk());
  EXPECT_THAT(Accept(*handler, graphs_in(0, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("slot_graphs")));
}

// Its graphs come by gRPC then.
TEST_F(PackLaneTest, TheLaneForGraphsMayBeClosed) {
  const auto handler = WithLane(door_.get(), /*takes_graphs=*/true);
  ASSERT_THAT(Accept(*handler, Opening(v1::PAYLOAD_GRAPHS)), IsOk());
  ASSERT_TRUE(handler->Next().value().has_value());
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(offer_for_graphs_.token()));
  client.Close();
  v1::PackRequest request;
  request.mutable_graphs()->mutable_sizes()->set_num_graphs(1);
  request.mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire({1, 1}));
  ASSERT_THAT(Accept(*handler, request), IsOk());
  handler->HalfClose();
  EXPECT_TRUE(handler->Next().value()->message.has_batch());
}

}  // namespace
}  // namespace packhouse
