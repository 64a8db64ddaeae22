// Turns go round by client, and nothing is lost.
#include "service/admission/turn_queue.h"

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

TEST(TurnQueueTest, OneClientIsFirstInFirstOut) {
  TurnQueue<int> queue;
  for (int i = 0; i < 100; ++i) queue.Push("a", i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.Pop(), i);
  EXPECT_TRUE(queue.empty());
}

TEST(TurnQueueTest, ClientsAlternateHoweverMuchEachHas) {
  TurnQueue<std::string> queue;
  for (const char* item : {"a1", "a2", "a3", "a4"}) queue.Push("a", item);
  for (const char* item : {"b1", "b2"}) queue.Push("b", item);
  std::vector<std::string> order;
  while (!queue.empty()) order.push_back(queue.Pop());
  EXPECT_EQ(order, (std::vector<std::string>{"a1", "b1", "a2", "b2", "a3", "a4"}));
}

// Streams that queue again after each turn: the one stream of a client has as many turns as the
// three of another together.
TEST(TurnQueueTest, StreamsGoRoundWithinTheirClientsTurns) {
  using Stream = std::pair<std::string, int>;
  TurnQueue<Stream> queue;
  for (int i = 0; i < 3; ++i) queue.Push("many", {"many", i});
  queue.Push("one", {"one", 0});
  std::map<Stream, int> turns;
  for (int turn = 0; turn < 600; ++turn) {
    const Stream stream = queue.Pop();
    ++turns[stream];
    queue.Push(stream.first, stream);
  }
  EXPECT_EQ((turns[{"one", 0}]), 300);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((turns[{"many", i}]), 100);
}

// For any schedule: every item leaves once, in its client's order; and whoever has something queued
// all the while between two turns of another client has a turn in between.
TEST(TurnQueueTest, NobodyIsPassedTwice) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed=", seed));
    Random random(seed);
    TurnQueue<uint64_t> queue;
    std::map<ClientId, std::deque<uint64_t>> expected;
    // Clients that have had a turn while the one in question had something queued, and no turn.
    std::map<ClientId, std::set<ClientId>> passed;
    uint64_t next = 0;
    const uint64_t clients = 1 + random.Below(8);
    for (int step = 0; step < 2000; ++step) {
      // Times of growing and of shrinking.
      const bool push = random.Below(8) < (step % 400 < 200 ? 5 : 3);
      if (push) {
        const ClientId client =
            absl::StrCat("a client whose name is not short ", random.Below(clients));
        expected[client].push_back(next);
        queue.Push(client, next++);
      } else if (!queue.empty()) {
        const uint64_t item = queue.Pop();
        ClientId turn;
        for (auto& [client, items] : expected) {
          if (!items.empty() && items.front() == item) turn = client;
        }
        ASSERT_NE(turn, "") << item << " is nobody's next";
        expected[turn].pop_front();
        if (expected[turn].empty()) expected.erase(turn);
        passed.erase(turn);
        for (const auto& [client, items] : expected) {
          if (client == turn) continue;
          ASSERT_TRUE(passed[client].insert(turn).second)
              << turn << " had two turns while " << client << " had none";
        }
      }
      ASSERT_EQ(queue.num_clients(), expected.size());
      ASSERT_EQ(queue.empty(), expected.empty());
    }
  }
}

}  // namespace
}  // namespace packhouse
