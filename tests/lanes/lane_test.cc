#include "service/server/lanes/lane.h"

#include <poll.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "service/server/lanes/lane_door.h"
#include "tests/support/lane_client.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr LaneSize kSmall = {.num_slots = 4, .slot_bytes = 4096};

class LaneTest : public testing::Test {
 protected:
  void SetUp() override {
    PH_ASSERT_OK_AND_ASSIGN(door_, LaneDoor::Open(absl::StrCat("unix:", path_), &budget_));
  }

  std::shared_ptr<Lane> Offer(std::function<void()> wake = [] {}) {
    absl::StatusOr<std::shared_ptr<Lane>> lane = door_->Offer(kSmall, std::move(wake));
    EXPECT_THAT(lane, IsOk());
    return *std::move(lane);
  }
  // One that its client has opened.
  std::pair<std::shared_ptr<Lane>, LaneClient> OpenOne(std::function<void()> wake = [] {}) {
    std::shared_ptr<Lane> lane = Offer(std::move(wake));
    LaneClient client(path_);
    EXPECT_TRUE(client.Open(lane->token()));
    EXPECT_THAT(lane->IsOpen(), IsOkAndHolds(true));
    return {std::move(lane), std::move(client)};
  }
  static absl::Status SendOne(Lane& lane, absl::string_view text) {
    const auto slot = lane.TakeSlot();
    if (!slot) return absl::ResourceExhaustedError("no slot");
    std::memcpy(lane.slot(*slot) + 64, text.data(), text.size());
    return lane.Send(*slot, 64, text.size());
  }
  // That an exchange works still, from the offer to the release.
  void ExpectServed() {
    auto [lane, client] = OpenOne();
    ASSERT_THAT(SendOne(*lane, "batch"), IsOk());
    const auto message = client.Read();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(client.Bytes(*message), "batch");
    EXPECT_TRUE(client.Release({message->slot}));
    EXPECT_THAT(lane->IsOpen(), IsOkAndHolds(true));
    EXPECT_EQ(door_->counts().num_slots_sent, 0U);
  }
  // Until the door's thread, too, has let go of the last lane.
  void AwaitNoLane() const {
    while (door_->counts().num_offered != 0 || budget_.held() != 0) std::this_thread::yield();
  }

  const TemporaryFolder folder_;
  const std::string path_ = absl::StrCat(folder_.path(), "/lane");
  MemoryBudget budget_{1 << 20};
  std::unique_ptr<LaneDoor> door_;
};

TEST_F(LaneTest, BatchesComeInTheirSlotsAndInOrder) {
  const size_t descriptors = NumDescriptors();
  auto [lane, client] = OpenOne();
  // Its memory has none any more: there are the two ends of the connection.
  EXPECT_EQ(NumDescriptors(), descriptors + 2);
  EXPECT_EQ(client.num_slots(), kSmall.num_slots);
  EXPECT_EQ(client.slot_bytes(), kSmall.slot_bytes);
  for (const char* text : {"one", "two"}) ASSERT_THAT(SendOne(*lane, text), IsOk());
  ASSERT_THAT(lane->SendByGrpc(), IsOk());
  ASSERT_THAT(SendOne(*lane, "four"), IsOk());
  for (const char* text : {"one", "two", "", "four"}) {
    const auto message = client.Read();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->is_by_grpc(), *text == '\0');
    if (!message->is_by_grpc()) {
      EXPECT_EQ(client.Bytes(*message), text);
    }
  }
  EXPECT_EQ(door_->counts().num_slots_sent, 3U);
  EXPECT_EQ(door_->counts().num_batches, 3U);
}

// A stream may end before the server has looked at the last releases.
TEST_F(LaneTest, WhatWasSentIsReadThoughItsStreamHasEnded) {
  auto [lane, client] = OpenOne();
  for (const char* text : {"one", "two", "three"}) ASSERT_THAT(SendOne(*lane, text), IsOk());
  ASSERT_THAT(lane->SendByGrpc(), IsOk());
  const auto first = client.Read();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(client.Release({first->slot}));
  lane.reset();
  for (const char* text : {"two", "three", ""}) {
    const auto message = client.Read();
    ASSERT_TRUE(message.has_value()) << text;
    EXPECT_EQ(message->is_by_grpc(), *text == '\0');
    if (!message->is_by_grpc()) {
      EXPECT_EQ(client.Bytes(*message), text);
    }
  }
  EXPECT_FALSE(client.Read().has_value());
  EXPECT_FALSE(client.Release({0}));
}

// Also if the door's thread looks at a connection just as its stream closes it.
TEST_F(LaneTest, AClientSeesTheEndOfItsStream) {
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::pair<std::shared_ptr<Lane>, LaneClient>> lanes;
    for (int i = 0; i < 2; ++i) lanes.push_back(OpenOne());
    lanes[0].second.Release({});
    for (auto& [lane, client] : lanes) lane.reset();
    for (auto& [lane, client] : lanes) {
      pollfd end = {client.socket(), POLLIN, 0};
      ASSERT_EQ(::poll(&end, 1, 30'000), 1) << round;
      EXPECT_FALSE(client.Read().has_value());
    }
  }
}

TEST_F(LaneTest, SaysHowManyResponsesCameBefore) {
  const auto lane = Offer();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(lane->SendByGrpc(), IsOk());
  EXPECT_THAT(lane->IsOpen(), IsOkAndHolds(false));
  LaneClient client(path_);
  ASSERT_TRUE(client.Open(lane->token()));
  EXPECT_EQ(client.num_before(), 3U);
  EXPECT_FALSE(client.HasMessage());
}

// So nobody can end the server by cutting off what it writes to.
TEST_F(LaneTest, NobodyCanChangeTheSizeOfItsMemory) {
  auto [lane, client] = OpenOne();
  EXPECT_FALSE(client.can_cut());
  EXPECT_EQ(client.seals() & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

TEST_F(LaneTest, ATokenIsGoodOnce) {
  const auto lane = Offer();
  const auto other = Offer();
  EXPECT_NE(lane->token(), other->token());
  EXPECT_EQ(lane->token().size(), LaneDoor::kTokenBytes);
  LaneClient first(path_);
  ASSERT_TRUE(first.Open(lane->token()));
  EXPECT_FALSE(LaneClient(path_).Open(lane->token()));
  EXPECT_FALSE(LaneClient(path_).Open(std::string(LaneDoor::kTokenBytes, 'x')));
  EXPECT_FALSE(LaneClient(path_).Open(""));
  EXPECT_FALSE(LaneClient(path_).Open(lane->token().substr(1)));
  EXPECT_FALSE(LaneClient(path_).Open(other->token() + "x"));
  // Those tries cost nobody else anything.
  EXPECT_THAT(other->IsOpen(), IsOkAndHolds(false));
  EXPECT_TRUE(LaneClient(path_).Open(other->token()));
  ASSERT_THAT(SendOne(*lane, "batch"), IsOk());
  EXPECT_TRUE(first.Read().has_value());
}

TEST_F(LaneTest, ATokenEndsWithItsStream) {
  const std::string token = Offer()->token();
  EXPECT_FALSE(LaneClient(path_).Open(token));
  ExpectServed();
}

TEST_F(LaneTest, AnUntruthfulReleaseEndsItsOwnStream) {
  auto [honest, its_client] = OpenOne();
  ASSERT_THAT(SendOne(*honest, "batch"), IsOk());
  for (const std::vector<uint32_t>& lie :
       {std::vector<uint32_t>{0, 0}, {1}, {4}, {UINT32_MAX}, {}, {0, 1, 2, 3, 4}, {0, 7, 0}}) {
    auto [lane, client] = OpenOne();
    ASSERT_THAT(SendOne(*lane, "batch"), IsOk());
    client.Release(lie);
    const auto code =
        lie.empty() ? absl::StatusCode::kUnavailable : absl::StatusCode::kInvalidArgument;
    EXPECT_THAT(lane->IsOpen(), StatusIs(code, HasSubstr("lane")));
    // It stays so.
    EXPECT_THAT(lane->IsOpen(), StatusIs(code, HasSubstr("lane")));
  }
  auto [lane, client] = OpenOne();
  client.Say(std::string(100'000, 'x'));
  EXPECT_THAT(lane->IsOpen(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
  EXPECT_THAT(honest->IsOpen(), IsOkAndHolds(true));
  const auto message = its_client.Read();
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(its_client.Release({message->slot}));
  EXPECT_THAT(honest->IsOpen(), IsOkAndHolds(true));
}

TEST_F(LaneTest, DescriptorsThatAClientPassesAreDropped) {
  const auto pass = [](const LaneClient& client, absl::string_view text) {
    iovec part = {const_cast<char*>(text.data()), text.size()};
    std::array<int, 200> passed;
    passed.fill(0);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(passed))> control = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(passed));
    std::memcpy(CMSG_DATA(message), passed.data(), sizeof(passed));
    EXPECT_GT(::sendmsg(client.socket(), &header, 0), 0);
  };
  auto [lane, client] = OpenOne();
  ASSERT_THAT(SendOne(*lane, "batch"), IsOk());
  const uint32_t slot = client.Read()->slot;
  const size_t before = NumDescriptors();
  pass(client, {reinterpret_cast<const char*>(&slot), sizeof(slot)});
  EXPECT_THAT(lane->IsOpen(), IsOkAndHolds(true));
  EXPECT_EQ(NumDescriptors(), before);
  {
    const LaneClient stranger(path_);
    pass(stranger, "PHL1 and what is no token");
    EXPECT_TRUE(stranger.IsLeft());
  }
  EXPECT_EQ(NumDescriptors(), before);
}

TEST_F(LaneTest, AThousandThatSayNothingKeepNobodyOut) {
  const auto lane = Offer();
  const size_t before = NumDescriptors();
  std::vector<LaneClient> silent;
  for (int i = 0; i < 400; ++i) silent.emplace_back(path_);
  // The oldest are closed for the latest.
  EXPECT_TRUE(silent.front().IsLeft());
  LaneClient client(path_);
  EXPECT_TRUE(client.Open(lane->token()));
  EXPECT_LE(NumDescriptors(), before + silent.size() + LaneDoor::kMostSilent + 2);
  for (int i = 0; i < 600; ++i) silent[static_cast<size_t>(i) % silent.size()].Close();
  ExpectServed();
}

TEST_F(LaneTest, WhoHasShownItsTokenIsNotClosedForLaterOnes) {
  for (int round = 0; round < 50; ++round) {
    const auto lane = Offer();
    LaneClient client(path_);
    ASSERT_TRUE(client.Show(lane->token()));
    std::vector<LaneClient> silent;
    for (int i = 0; i < 100; ++i) silent.emplace_back(path_);
    ASSERT_TRUE(client.IsAnswered()) << round;
  }
}

TEST_F(LaneTest, ItsMemoryIsOfTheBudgetAsLongAsItsStream) {
  std::vector<std::shared_ptr<Lane>> lanes;
  for (int i = 0; i < 48; ++i) lanes.push_back(Offer());
  EXPECT_EQ(budget_.held(), 48 * kSmall.bytes());
  // The rest is for others.
  EXPECT_EQ(budget_.held(), budget_.bound() / 4 * 3);
  EXPECT_THAT(door_->Offer(kSmall, [] {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a lane")));
  EXPECT_EQ(door_->counts().num_refused, 1U);
  EXPECT_EQ(door_->counts().num_offered, 48U);
  lanes.pop_back();
  ExpectServed();
  // What comes to the server is copied, a slot at a time.
  EXPECT_THAT(door_->Offer(
                  kSmall, [] {}, LaneWay::kToServer),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a lane")));
  lanes.pop_back();
  while (budget_.held() != 46 * kSmall.bytes()) std::this_thread::yield();
  lanes.push_back(door_
                      ->Offer(
                          kSmall, [] {}, LaneWay::kToServer)
                      .value());
  EXPECT_EQ(budget_.held(), 47 * kSmall.bytes() + kSmall.slot_bytes);
  EXPECT_EQ(door_->counts().num_offered, 46U);
  lanes.clear();
  AwaitNoLane();
  const auto of_others = budget_.Hold("others", budget_.bound() - kSmall.bytes() + 1);
  EXPECT_THAT(door_->Offer(kSmall, [] {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a lane")));
}

// It is woken again a little later, for what it waits for.
TEST_F(LaneTest, AWakeThatFindsNoMemoryIsPutOff) {
  for (const bool for_room : {false, true}) {
    std::atomic<int> num_failures = 3;
    absl::Notification woken;
    auto [lane, client] = OpenOne([&] {
      if (num_failures-- > 0) throw std::bad_alloc();
      woken.Notify();
    });
    if (for_room) {
      lane->AwaitRoom();
    } else {
      ASSERT_THAT(SendOne(*lane, "batch"), IsOk());
      lane->AwaitRelease();
      client.Release({0});
    }
    woken.WaitForNotification();
    EXPECT_EQ(num_failures.load(), -1);
  }
}

TEST_F(LaneTest, WhatIsSentToALaneThatIsClosedEndsTheStream) {
  auto [lane, client] = OpenOne();
  client.Close();
  const auto closed = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has closed its lane"));
  EXPECT_THAT(SendOne(*lane, "batch"), closed);
  EXPECT_THAT(lane->SendByGrpc(), closed);
  EXPECT_THAT(lane->IsOpen(), closed);
}

TEST_F(LaneTest, ADoorThatIsStoppedLetsNobodyIn) {
  const size_t descriptors = NumDescriptors();
  const std::string path = path_ + "2";
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto door, LaneDoor::Open("unix:" + path, nullptr));
    PH_ASSERT_OK_AND_ASSIGN(const auto lane, door->Offer(kSmall, [] {}));
    const LaneClient silent(path);
    LaneClient client(path);
    ASSERT_TRUE(client.Open(lane->token()));
    // More than there can be.
    EXPECT_THAT(door->Offer({.num_slots = 1, .slot_bytes = uint64_t{1} << 63}, [] {}),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("shared memory")));
    EXPECT_EQ(door->counts().num_refused, 1U);
    door->Stop();
    EXPECT_FALSE(LaneClient(path).is_connected());
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(NumDescriptors(), descriptors);
}

TEST_F(LaneTest, AReleaseWakesWhoWaits) {
  for (const bool closes : {false, true}) {
    absl::Notification woken;
    auto [lane, client] = OpenOne([&] { woken.Notify(); });
    while (SendOne(*lane, "batch").ok()) {
    }
    EXPECT_EQ(door_->counts().num_slots_sent, kSmall.num_slots);
    lane->AwaitRelease();
    if (closes) {
      client.Close();
      woken.WaitForNotification();
      EXPECT_THAT(lane->IsOpen(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
    } else {
      client.Release({2});
      woken.WaitForNotification();
      EXPECT_THAT(lane->IsOpen(), IsOkAndHolds(true));
      EXPECT_EQ(lane->TakeSlot(), 2U);
      lane->GiveBack(2);
    }
  }
}

// A client that dies is one whose descriptors are closed and whose memory is unmapped, whatever it
// was at. Nothing of it is left; and what a client keeps mapped is its own.
TEST_F(LaneTest, NothingIsLeftWhereverEitherSideDies) {
  ExpectServed();
  AwaitNoLane();
  const size_t descriptors = NumDescriptors();
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    auto lane = Offer();
    LaneClient client(path_);
    std::vector<uint32_t> held;
    const uint64_t server_dies = random.Below(12);
    const uint64_t client_dies = random.Below(12);
    for (uint64_t step = 0; step < 12; ++step) {
      if (step == server_dies) lane = nullptr;
      if (step == client_dies) {
        client.Close();
        if (random.Below(2) == 0) client.Unmap();
      }
      if (step == 1 && lane != nullptr && client.is_connected()) {
        ASSERT_TRUE(client.Open(lane->token()));
      }
      if (step < 2) continue;
      if (lane != nullptr && lane->IsOpen().value_or(false)) (void)SendOne(*lane, "batch");
      if (client.is_connected() && client.HasMessage()) {
        if (const auto message = client.Read()) held.push_back(message->slot);
      }
      if (client.is_connected() && !held.empty() && random.Below(2) == 0) {
        client.Release({held.back()});
        held.pop_back();
      }
    }
  }
  // The door's thread has closed what it was told of when it has served another.
  ExpectServed();
  AwaitNoLane();
  EXPECT_EQ(NumDescriptors(), descriptors);
  EXPECT_EQ(door_->counts().num_slots_sent, 0U);
  EXPECT_EQ(door_->counts().num_open, 0U);
}

// A writer and a reader at their own pace: every batch comes once, in order, and whole.
TEST_F(LaneTest, TwoThreadsLoseNothing) {
  constexpr uint64_t kBatches = 20'000;
  absl::Mutex mutex;
  bool is_woken = false;
  const auto wake = [&] {
    const absl::MutexLock lock(&mutex);
    is_woken = true;
  };
  auto [lane, client] = OpenOne(wake);
  std::thread reader([client = &client] {
    Random random(5);
    std::vector<uint32_t> held;
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      const auto message = client->Read();
      ASSERT_TRUE(message.has_value());
      const absl::string_view bytes = client->Bytes(*message);
      ASSERT_EQ(bytes, std::string(bytes.size(), static_cast<char>('a' + batch % 26)));
      // What a client writes there is nobody's matter.
      std::memset(client->slot(message->slot), 'z', client->slot_bytes());
      held.push_back(message->slot);
      while (held.size() == kSmall.num_slots || (!held.empty() && random.Below(2) == 0)) {
        const size_t place = random.Below(held.size());
        ASSERT_TRUE(client->Release({held[place]}));
        held.erase(held.begin() + static_cast<ptrdiff_t>(place));
      }
    }
  });
  Random random(6);
  for (uint64_t batch = 0; batch < kBatches;) {
    ASSERT_THAT(lane->IsOpen(), IsOkAndHolds(true));
    const auto slot = lane->TakeSlot();
    if (!slot) {
      lane->AwaitRelease();
      const absl::MutexLock lock(&mutex);
      mutex.Await(absl::Condition(&is_woken));
      is_woken = false;
      continue;
    }
    const uint64_t size = random.Between(1, 500);
    std::memset(lane->slot(*slot) + 64, static_cast<char>('a' + batch % 26), size);
    ASSERT_THAT(lane->Send(*slot, 64, size), IsOk());
    ++batch;
  }
  reader.join();
}

TEST(LaneDoorTest, RefusesAPathThatIsInUse) {
  const TemporaryFolder folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/lane");
  PH_ASSERT_OK_AND_ASSIGN(const auto door, LaneDoor::Open(address, nullptr));
  EXPECT_THAT(LaneDoor::Open(address, nullptr),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process listens there")));
  // By a server of another kind, too.
  EXPECT_THAT(ListeningSockets::Open(address),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process listens there")));
}

TEST(LaneSizeTest, HasFewSlotsAndIsBounded) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::tuple<uint64_t, uint64_t, uint32_t> sizes[] = {
      {0, 4096, 16},           {1, 4096, 16},
      {4096, 4096, 16},        {4097, 8192, 16},
      {kMiB, kMiB, 16},        {kMiB + 1, kMiB + 4096, 15},
      {2 * kMiB, 2 * kMiB, 8}, {4 * kMiB, 4 * kMiB, 4},
      {5 * kMiB, 5 * kMiB, 4}, {kMiB << 20, 16 * kMiB, 4}};
  for (const auto& [bytes, slot_bytes, num_slots] : sizes) {
    const LaneSize size = LaneSize::For(bytes);
    EXPECT_EQ(size.slot_bytes, slot_bytes) << bytes;
    EXPECT_EQ(size.num_slots, num_slots) << bytes;
  }
}

}  // namespace
}  // namespace packhouse
