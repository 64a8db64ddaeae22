// Turns go round by client, and nothing is lost.
#include "service/access/turn_queue.h"

#include <algorithm>
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

// A turn that takes as long as all.
template <typename Item>
Item TakeTurn(TurnQueue<Item>& queue) {
  auto turn = queue.Pop();
  queue.Done(turn.client, TurnQueue<Item>::kLeastTurn);
  return std::move(turn.item);
}

TEST(TurnQueueTest, OneClientIsFirstInFirstOut) {
  TurnQueue<int> queue;
  for (int i = 0; i < 100; ++i) queue.Push("a", i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(TakeTurn(queue), i);
  EXPECT_TRUE(queue.empty());
}

TEST(TurnQueueTest, ClientsAlternateHoweverMuchEachHas) {
  TurnQueue<std::string> queue;
  for (const char* item : {"a1", "a2", "a3", "a4"}) queue.Push("a", item);
  for (const char* item : {"b1", "b2"}) queue.Push("b", item);
  std::vector<std::string> order;
  while (!queue.empty()) order.push_back(TakeTurn(queue));
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
    const Stream stream = TakeTurn(queue);
    ++turns[stream];
    queue.Push(stream.first, stream);
  }
  EXPECT_EQ((turns[{"one", 0}]), 300);
  for (int i = 0; i < 3; ++i) EXPECT_EQ((turns[{"many", i}]), 100);
}

// In any schedule, every item leaves once, in the order of its client. A client that has something
// queued during the whole time between two turns of another client gets a turn in between.
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
        const uint64_t item = TakeTurn(queue);
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

// Turns may have any length, and several run at a time. Clients that always have something queued
// get the same time. It differs by at most two turns and the turns that still run.
TEST(TurnQueueTest, ClientsHaveTheSameTime) {
  using Queue = TurnQueue<absl::Duration>;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed=", seed));
    Random random(seed);
    Queue queue;
    const uint64_t clients = random.Between(2, 5);
    const uint64_t threads = random.Between(1, 3);
    constexpr uint64_t kLongestMs = 40;
    std::vector<uint64_t> longest(clients);
    const auto push = [&](const ClientId& client, uint64_t i) {
      queue.Push(client, absl::Milliseconds(random.Between(1, longest[i])));
    };
    std::map<ClientId, uint64_t> numbers;
    for (uint64_t i = 0; i < clients; ++i) {
      longest[i] = random.Between(1, kLongestMs);
      const ClientId client = absl::StrCat("client ", i);
      numbers[client] = i;
      for (uint64_t stream = 0; stream <= threads; ++stream) push(client, i);
    }
    std::map<ClientId, absl::Duration> had;
    std::deque<Queue::Turn> at_work;
    for (int turn = 0; turn < 3000; ++turn) {
      at_work.push_back(queue.Pop());
      if (at_work.size() < threads) continue;
      const Queue::Turn done = std::move(at_work.front());
      at_work.pop_front();
      had[done.client] += done.item;
      push(done.client, numbers[done.client]);
      queue.Done(done.client, done.item);
    }
    for (const auto& [client, time] : had) {
      EXPECT_LE(absl::AbsDuration(time - had.begin()->second),
                absl::Milliseconds(kLongestMs) * static_cast<int64_t>(2 * threads));
    }
  }
}

// A client that was away has nothing saved up, and nothing to make up for.
TEST(TurnQueueTest, WhoComesBackStartsAfresh) {
  TurnQueue<int> queue;
  for (int i = 0; i < 1000; ++i) queue.Push("stays", i);
  queue.Push("goes", 0);
  for (int i = 0; i < 500; ++i) TakeTurn(queue);
  EXPECT_EQ(queue.num_clients(), 1U);
  for (int i = 0; i < 100; ++i) queue.Push("goes", i);
  int turns = 0;
  for (int i = 0; i < 100; ++i) {
    auto turn = queue.Pop();
    if (turn.client == "goes") ++turns;
    queue.Done(turn.client, TurnQueue<int>::kLeastTurn);
  }
  EXPECT_EQ(turns, 50);
}

// A client that queues one item after another is charged their time, although it has nothing queued
// between them.
TEST(TurnQueueTest, OneItemAtATimeIsChargedItsTime) {
  using Queue = TurnQueue<std::string>;
  Queue queue;
  queue.Push("one", "long");
  for (int i = 0; i < 3; ++i) queue.Push("many", "short");
  std::map<std::string, absl::Duration> times;
  for (int turn = 0; turn < 10'000; ++turn) {
    const auto next = queue.Pop();
    const absl::Duration time = next.client == "one" ? 20 * Queue::kLeastTurn : Queue::kLeastTurn;
    times[next.client] += time;
    queue.Done(next.client, time);
    queue.Push(next.client, next.item);
  }
  EXPECT_LE(times["one"], 1.1 * times["many"]);
  EXPECT_LE(times["many"], 1.1 * times["one"]);
}

TEST(TurnQueueTest, NothingIsLeftOfClientsThatHaveGone) {
  TurnQueue<int> queue;
  for (int client = 0; client < 5'000; ++client) {
    queue.Push(absl::StrCat(client), client);
    queue.Push("busy", client);
    for (int turn = 0; turn < 2; ++turn) {
      const auto next = queue.Pop();
      queue.Done(next.client, absl::Seconds(1 + client % 7));
    }
    EXPECT_LE(queue.num_remembered(), TurnQueue<int>::kMaxRemembered);
  }
  EXPECT_EQ(queue.num_clients(), 0U);
  EXPECT_EQ(queue.num_remembered(), 0U);
}

// Of more than may be remembered, those are forgotten whose time is over first: they start afresh.
TEST(TurnQueueTest, NoMoreAreRememberedThanMayBe) {
  constexpr size_t kMost = TurnQueue<int>::kMaxRemembered;
  TurnQueue<int> queue;
  for (size_t client = 0; client < kMost + 10; ++client) queue.Push(absl::StrCat(client), 0);
  queue.Push("busy", 0);
  for (size_t client = 0; client < kMost + 10; ++client) {
    EXPECT_EQ(queue.Pop().client, absl::StrCat(client));
    queue.Done(absl::StrCat(client), absl::Seconds(100 + client));
    EXPECT_EQ(queue.num_remembered(), std::min(client + 1, kMost));
  }
  for (const char* const client : {"10", "9"}) queue.Push(client, 0);
  for (const char* const next : {"busy", "9", "10"}) EXPECT_EQ(queue.Pop().client, next);
}

}  // namespace
}  // namespace packhouse
