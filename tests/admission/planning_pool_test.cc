// Turns of calls that plan: whose they are, and that nobody who waits is forgotten.
#include "service/access/planning_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/access/planning_caller.h"
#include "service/base/execution.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {
namespace {

class PlanningPoolTest : public ::testing::Test {
 protected:
  // Runs `job` with its turn.
  std::shared_ptr<PlanningTurn> Submit(
      PlanningPool& pool, const ClientId& client, std::function<void(PlanningTurn&)> job,
      PlanningTurn::Urgency urgency = PlanningTurn::Urgency::kCall) {
    auto turn = std::make_shared<PlanningTurn>(&pool, client, urgency);
    pool.Submit(turn, [turn = turn.get(), job = std::move(job)] { job(*turn); });
    return turn;
  }

  // Uses up its slice `slices` times, telling `begins` at the begin of each.
  std::function<void(PlanningTurn&)> Plan(int slices, std::function<void()> begins) {
    return [this, slices, begins = std::move(begins)](PlanningTurn& turn) {
      for (int slice = 0; slice < slices; ++slice) {
        if (turn.YieldTurn()) return;
        begins();
        clock_.Advance(PlanningPool::kSlice);
      }
    };
  }

  SimulatedClock clock_;
};

TEST_F(PlanningPoolTest, EveryJobRunsOnceAlsoThoseQueuedAtTheEnd) {
  std::atomic<int> ran = 0;
  {
    PlanningPool pool(&clock_, 2);
    for (int i = 0; i < 500; ++i) {
      Submit(pool, absl::StrCat("client ", i % 7), [&](PlanningTurn&) { ++ran; });
    }
  }
  EXPECT_EQ(ran, 500);
}

// With one turn at a time, and any numbers of clients, calls and slices: between two turns of a
// client every other client that has something to do has one.
TEST_F(PlanningPoolTest, ClientsTakeTurnsHoweverManyCallsEachHas) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed=", seed));
    Random random(seed);
    // Guarded by the one turn.
    std::vector<ClientId> turns;
    std::map<ClientId, int> left;
    {
      PlanningPool pool(&clock_, 1);
      std::latch submitted(1);
      Submit(pool, "first", [&](PlanningTurn&) { submitted.wait(); });
      const uint64_t clients = random.Between(1, 5);
      for (uint64_t i = 0; i < clients; ++i) {
        const ClientId client = absl::StrCat("client ", i);
        for (uint64_t call = random.Between(1, 12); call != 0; --call) {
          const int slices = static_cast<int>(random.Between(1, 6));
          left[client] += slices;
          Submit(pool, client, Plan(slices, [&turns, client] { turns.push_back(client); }));
        }
      }
      submitted.count_down();
    }
    std::map<ClientId, std::set<ClientId>> passed;
    for (const ClientId& client : turns) {
      --left[client];
      passed.erase(client);
      for (const auto& [other, slices] : left) {
        if (other == client || slices == 0) continue;
        ASSERT_TRUE(passed[other].insert(client).second)
            << client << " had two turns while " << other << " had none";
      }
    }
    for (const auto& [client, slices] : left) EXPECT_EQ(slices, 0) << client;
  }
}

// A client that has no more turns than others goes on when its slice is over: here it would wait
// for ever otherwise, as the other client's turn does not end before it.
TEST_F(PlanningPoolTest, WhoHasNoMoreThanItsShareNeedNotWait) {
  std::latch submitted(1);
  std::latch done(1);
  std::atomic<int> begun = 0;
  PlanningPool pool(&clock_, 2);
  for (int i = 0; i < 8; ++i) {
    Submit(pool, "many", [&](PlanningTurn&) {
      if (begun++ == 0) {
        done.wait();
      } else {
        submitted.wait();
      }
    });
  }
  Submit(pool, "one", [&](PlanningTurn& turn) {
    Plan(100, [] {})(turn);
    done.count_down();
  });
  submitted.count_down();
  done.wait();
}

// Endless plans do not hold up short ones of the same client.
TEST_F(PlanningPoolTest, ShortPlansPassLongOnes) {
  constexpr int kShort = 50;
  std::latch done(kShort);
  PlanningPool pool(&clock_, 2);
  std::vector<std::shared_ptr<PlanningTurn>> endless;
  for (int i = 0; i < 6; ++i) {
    endless.push_back(Submit(pool, "client", [&](PlanningTurn& turn) {
      while (!turn.YieldTurn()) clock_.Advance(absl::Milliseconds(1));
    }));
  }
  for (int i = 0; i < kShort; ++i) {
    Submit(pool, "client", [&](PlanningTurn& turn) {
      Plan(2, [] {})(turn);
      done.count_down();
    });
  }
  done.wait();
  for (const auto& turn : endless) turn->Cancel();
}

TEST_F(PlanningPoolTest, ACancelledCallLeavesTheQueueAtOnce) {
  std::latch cancelled(1);
  PlanningPool pool(&clock_, 1);
  Submit(pool, "client", [&](PlanningTurn&) { cancelled.wait(); });
  std::thread::id ran_by;
  const auto queued = Submit(pool, "client", [&](PlanningTurn& turn) {
    EXPECT_TRUE(turn.YieldTurn());
    ran_by = std::this_thread::get_id();
  });
  queued->Cancel();
  EXPECT_EQ(ran_by, std::this_thread::get_id());
  cancelled.count_down();
}

TEST_F(PlanningPoolTest, ACallCancelledBeforehandNeverWaits) {
  PlanningPool pool(&clock_, 1);
  PlanningTurn* cancelled = nullptr;
  const auto turn = std::make_shared<PlanningTurn>(&pool, "client");
  turn->Cancel();
  pool.Submit(turn, [&] { cancelled = turn.get(); });
  EXPECT_EQ(cancelled, turn.get());
  EXPECT_TRUE(turn->YieldTurn());
  EXPECT_TRUE(turn->LeaveTurn());
}

// As long as it lives, the calling thread has no memory to begin another.
class NoMemoryForThreads final : public Execution {
 public:
  NoMemoryForThreads() { Enter(this); }
  ~NoMemoryForThreads() override { Enter(nullptr); }

  std::unique_ptr<Begun> Begin(std::function<void()> /*work*/) override { throw std::bad_alloc(); }
  void Pause(absl::Duration /*length*/) override {}
  bool Block(std::atomic<int32_t>& /*wakes*/, bool /*is_timed*/) override { return false; }
};

TEST_F(PlanningPoolTest, ACallThatIsRefusedIsAsBefore) {
  PlanningPool pool(&clock_, 1);
  std::atomic<int> ran = 0;
  for (const bool is_cancelled : {true, false}) {
    const auto turn =
        std::make_shared<PlanningTurn>(&pool, "client", PlanningTurn::Urgency::kBackground);
    {
      const NoMemoryForThreads none;
      EXPECT_THROW(pool.Submit(turn, [&] { ran += 10; }), std::bad_alloc);
    }
    if (is_cancelled) {
      turn->Cancel();
    } else {
      turn->Hurry();
    }
    EXPECT_EQ(ran, 0);
  }
}

TEST_F(PlanningPoolTest, ACallCancelledBetweenItsTurnsGoesOn) {
  std::latch other_has_the_turn(1);
  std::latch gone(1);
  std::latch end(1);
  PlanningPool pool(&clock_, 1);
  const auto cancelled = Submit(pool, "a", [&](PlanningTurn& turn) {
    while (!turn.YieldTurn()) clock_.Advance(PlanningPool::kSlice);
    gone.count_down();
  });
  Submit(pool, "b", [&](PlanningTurn&) {
    other_has_the_turn.count_down();
    end.wait();
  });
  other_has_the_turn.wait();
  cancelled->Cancel();
  gone.wait();
  end.count_down();
}

// Those who wait for what another makes hold no turn, and have one again when they go on.
TEST_F(PlanningPoolTest, WaitingForAnotherTakesNoTurn) {
  std::latch made(1);
  std::latch done(4);
  PlanningPool pool(&clock_, 1);
  for (int i = 0; i < 3; ++i) {
    Submit(pool, absl::StrCat("waits ", i), [&](PlanningTurn& turn) {
      EXPECT_FALSE(turn.LeaveTurn());
      made.wait();
      EXPECT_FALSE(turn.YieldTurn());
      done.count_down();
    });
  }
  Submit(pool, "makes", [&](PlanningTurn& turn) {
    Plan(3, [] {})(turn);
    made.count_down();
    done.count_down();
  });
  done.wait();
}

// Those who wait for another machine take no turn either, however deep below they wait.
TEST_F(PlanningPoolTest, WaitingForAStoreTakesNoTurn) {
  std::latch answered(1);
  std::latch done(2);
  PlanningPool pool(&clock_, 1);
  Submit(pool, "waits", [&](PlanningTurn& turn) {
    PlanningCaller caller(&turn);
    const CallerScope scope(&caller);
    EXPECT_TRUE(BeginWait().ok());
    answered.wait();
    EXPECT_FALSE(turn.YieldTurn());
    turn.Cancel();
    EXPECT_TRUE(absl::IsCancelled(CheckCaller()));
    done.count_down();
  });
  Submit(pool, "plans", [&](PlanningTurn& turn) {
    EXPECT_TRUE(CheckCaller().ok());
    Plan(3, [] {})(turn);
    answered.count_down();
    done.count_down();
  });
  done.wait();
}

// A namespace's calls are never more at work than its share allows, whosever they are; all of them
// are done, and calls of other namespaces use the turns that are left.
TEST_F(PlanningPoolTest, ANamespaceHasNoMoreThanItsShare) {
  const QuotasOf quotas_of = [](absl::string_view where) {
    Quotas quotas;
    if (where == "bounded") quotas.planning = 0.5;
    return quotas;
  };
  std::atomic<int> at_work = 0;
  std::atomic<int> most = 0;
  std::atomic<int> slices = 0;
  std::atomic<int> others = 0;
  {
    PlanningPool pool(&clock_, 4, quotas_of);
    for (int call = 0; call < 24; ++call) {
      const bool is_bounded = call % 3 != 0;
      Submit(pool, absl::StrCat("client ", call % 5), [&, is_bounded](PlanningTurn& turn) {
        if (turn.YieldTurnIn(is_bounded ? "bounded" : "free")) return;
        for (int slice = 0; slice < 5; ++slice) {
          if (is_bounded) {
            const int now = ++at_work;
            int seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now)) {
            }
            std::this_thread::yield();
            ++slices;
            --at_work;
          } else {
            ++others;
          }
          clock_.Advance(PlanningPool::kSlice);
          if (turn.YieldTurn()) return;
        }
      });
    }
  }
  EXPECT_EQ(slices, 16 * 5);
  EXPECT_EQ(others, 8 * 5);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
}

// One call of it holds the whole share: another waits although turns are free, and goes on if it is
// cancelled.
// Its namespace counts from its next turn on, and as long as it has that.
TEST_F(PlanningPoolTest, ACallMayTellItsNamespaceWithoutATurn) {
  PlanningPool pool(&clock_, 1);
  Submit(pool, "client", [&pool](PlanningTurn& turn) {
    EXPECT_FALSE(turn.LeaveTurn());
    EXPECT_FALSE(turn.YieldTurnIn("team"));
    EXPECT_EQ(pool.ShareOf("team"), 0);
    EXPECT_FALSE(turn.YieldTurn());
    EXPECT_EQ(pool.ShareOf("team"), 1);
    EXPECT_FALSE(turn.LeaveTurn());
    EXPECT_EQ(pool.ShareOf("team"), 0);
  });
}

TEST_F(PlanningPoolTest, ACallThatWaitsForItsNamespaceCanBeCancelled) {
  std::latch has_share(1);
  std::latch may_end(1);
  std::atomic<bool> was_given_up = false;
  std::latch ended(1);
  PlanningPool pool(&clock_, 2, [](absl::string_view /*where*/) {
    Quotas quotas;
    quotas.planning = 0.1;  // At least one turn.
    return quotas;
  });
  Submit(pool, "a", [&](PlanningTurn& turn) {
    EXPECT_FALSE(turn.YieldTurnIn("x"));
    has_share.count_down();
    may_end.wait();
  });
  has_share.wait();
  EXPECT_EQ(pool.ShareOf("x"), 0.5);
  EXPECT_EQ(pool.ShareOf("y"), 0);
  const auto waiting = Submit(pool, "b", [&](PlanningTurn& turn) {
    was_given_up = turn.YieldTurnIn("x");
    ended.count_down();
  });
  waiting->Cancel();
  ended.wait();
  EXPECT_TRUE(was_given_up);
  may_end.count_down();
}

// A call that gives up its turn makes room in its namespace: two that share one turn alternate.
TEST_F(PlanningPoolTest, CallsOfOneNamespaceShareItsTurns) {
  std::string turns;  // Guarded by the namespace's turn.
  {
    std::latch is_parked(1);
    PlanningPool pool(&clock_, 2, [](absl::string_view where) {
      Quotas quotas;
      if (where == "x") quotas.planning = 0.5;
      return quotas;
    });
    const auto plan = [&](const char* name) {
      Submit(pool, name, [&, name](PlanningTurn& turn) {
        bool is_given_up = turn.YieldTurnIn("x");
        for (int slice = 0; slice < 5 && !is_given_up; ++slice) {
          turns += name;
          is_parked.wait();
          clock_.Advance(PlanningPool::kSlice);
          is_given_up = turn.YieldTurn();
        }
      });
    };
    plan("a");
    while (pool.ShareOf("x") == 0) std::this_thread::yield();
    plan("b");
    // It has the other turn once the second call has none.
    Submit(pool, "c", [&](PlanningTurn&) { is_parked.count_down(); });
  }
  // The first one of the second was later than that of the first.
  EXPECT_EQ(turns, "aababababb");
}

TEST_F(PlanningPoolTest, ANamespaceHasItsWholeShare) {
  std::latch have_share(2);
  std::latch may_end(1);
  PlanningPool pool(&clock_, 4, [](absl::string_view /*where*/) {
    Quotas quotas;
    quotas.planning = 0.5;
    return quotas;
  });
  for (const char* const client : {"a", "b"}) {
    Submit(pool, client, [&](PlanningTurn& turn) {
      EXPECT_FALSE(turn.YieldTurnIn("x"));
      have_share.count_down();
      may_end.wait();
    });
  }
  have_share.wait();
  EXPECT_EQ(pool.ShareOf("x"), 0.5);
  may_end.count_down();
}

// Of one client: what has worked for a second, in all its slices, lets the next one begin.
TEST_F(PlanningPoolTest, AShortCallIsOneOfLessThanASecond) {
  const absl::Time start = clock_.Now();
  absl::Time next_began;
  {
    std::latch submitted(1);
    PlanningPool pool(&clock_, 1);
    Submit(pool, "client", [&](PlanningTurn& turn) {
      submitted.wait();
      Plan(100, [] {})(turn);
    });
    Submit(pool, "client", [&](PlanningTurn&) { next_began = clock_.Now(); });
    submitted.count_down();
  }
  // Nobody could go on when its second was over.
  EXPECT_EQ(next_began - start, PlanningPool::kLong + PlanningPool::kSlice);
  std::string turns;  // Guarded by the one turn.
  {
    std::latch submitted(1);
    PlanningPool pool(&clock_, 1);
    Submit(pool, "client", [&](PlanningTurn& turn) {
      submitted.wait();
      Plan(100, [&] { turns += 'a'; })(turn);
    });
    Submit(pool, "client", [&](PlanningTurn&) { turns += 'b'; });
    Submit(pool, "other", Plan(100, [&] { turns += 'o'; }));
    submitted.count_down();
  }
  const std::string before = turns.substr(0, turns.find('b'));
  EXPECT_EQ(std::count(before.begin(), before.end(), 'a'),
            PlanningPool::kLong / PlanningPool::kSlice);
  EXPECT_EQ(std::count(before.begin(), before.end(), 'o'),
            PlanningPool::kLong / PlanningPool::kSlice);
}

// Calls that rest keep their threads: so many begin, and one more does when one has ended.
TEST_F(PlanningPoolTest, ThreadsAreBoundedAndHalfAreForClientsThatHaveNone) {
  struct Law {
    size_t num_turns;
    size_t of_client;
    size_t of_all;
  };
  for (const Law& law : {Law{1, 8, 64}, Law{5, 10, 64}, Law{20, 40, 80}}) {
    SCOPED_TRACE(law.num_turns);
    std::atomic<size_t> begun = 0;
    std::latch may_end(1);
    PlanningPool pool(&clock_, law.num_turns);
    const auto begin = [&](const ClientId& client, size_t expected) {
      Submit(pool, client, [&](PlanningTurn& turn) {
        ++begun;
        turn.LeaveTurn();
        may_end.wait();
      });
      while (begun < expected) std::this_thread::yield();
      EXPECT_EQ(begun, expected);
    };
    size_t expected = 0;
    while (expected < law.of_client) begin("one", ++expected);
    begin("one", expected);
    while (expected + 1 < law.of_all / 2) {
      ++expected;
      begin(absl::StrCat("client ", expected), expected);
    }
    // A second one, in the first half.
    if (expected < law.of_all / 2) {
      const ClientId client = absl::StrCat("client ", expected);
      begin(client, ++expected);
    }
    begin("other", ++expected);
    begin("other", expected);
    while (expected < law.of_all) {
      ++expected;
      begin(absl::StrCat("other ", expected), expected);
    }
    begin("late", expected);
    may_end.count_down();
  }
}

TEST_F(PlanningPoolTest, OneTurnNeedsOneThreadOfLowPriority) {
  std::set<std::thread::id> threads;  // Guarded by the one turn.
  const int priority = ::getpriority(PRIO_PROCESS, 0);
  {
    PlanningPool pool(&clock_, 1);
    for (int i = 0; i < 100; ++i) {
      Submit(pool, absl::StrCat("client ", i % 3), [&](PlanningTurn&) {
        threads.insert(std::this_thread::get_id());
        EXPECT_TRUE(::getpriority(PRIO_PROCESS, 0) > priority || priority == 19);
      });
    }
  }
  EXPECT_EQ(threads.size(), 1U);
}

constexpr auto kBackground = PlanningTurn::Urgency::kBackground;

// However many clients and slices there are: no slice of it is before the last one of the calls.
TEST_F(PlanningPoolTest, TheBackgroundHasWhatCallsLeave) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed=", seed));
    Random random(seed);
    std::string turns;  // Guarded by the one turn.
    {
      PlanningPool pool(&clock_, 1);
      std::latch submitted(1);
      Submit(pool, "first", [&](PlanningTurn&) { submitted.wait(); });
      for (uint64_t call = random.Between(2, 20); call != 0; --call) {
        const bool is_background = random.Below(2) == 0;
        Submit(pool, absl::StrCat("client ", random.Below(3)),
               Plan(static_cast<int>(random.Between(1, 6)),
                    [&turns, is_background] { turns += is_background ? 'b' : 'c'; }),
               is_background ? kBackground : PlanningTurn::Urgency::kCall);
      }
      submitted.count_down();
    }
    EXPECT_EQ(turns.find("bc"), std::string::npos) << turns;
  }
}

// A call that comes has the turn when the slice is over, and the rest is done then.
TEST_F(PlanningPoolTest, TheBackgroundGivesWayToACallThatComes) {
  std::atomic<bool> is_done = false;
  std::latch begun(1);
  std::latch came(1);
  PlanningPool pool(&clock_, 1);
  Submit(
      pool, "client",
      [&](PlanningTurn& turn) {
        EXPECT_FALSE(turn.YieldTurn());
        begun.count_down();
        came.wait();
        clock_.Advance(PlanningPool::kSlice);
        EXPECT_FALSE(turn.YieldTurn());
        EXPECT_TRUE(is_done);
      },
      kBackground);
  begun.wait();
  Submit(pool, "client", [&](PlanningTurn&) { is_done = true; });
  came.count_down();
}

// So that threads are left for calls.
TEST_F(PlanningPoolTest, NoMoreOfTheBackgroundBeginsThanThereAreTurns) {
  std::atomic<int> begun = 0;
  std::latch two(2);
  std::latch submitted(1);
  std::latch resting(1);
  {
    PlanningPool pool(&clock_, 2);
    for (int i = 0; i < 12; ++i) {
      Submit(
          pool, absl::StrCat("client ", i),
          [&](PlanningTurn& turn) {
            if (++begun > 2) return;
            turn.LeaveTurn();
            two.count_down();
            resting.wait();
          },
          kBackground);
    }
    two.wait();
    // Turns are free, and calls have them.
    std::latch called(8);
    for (int i = 0; i < 8; ++i) Submit(pool, "calls", [&](PlanningTurn&) { called.count_down(); });
    called.wait();
    EXPECT_EQ(begun, 2);
    resting.count_down();
  }
  EXPECT_EQ(begun, 12);
}

// Queued, between two slices, at work or at rest: once somebody waits for it, it is a call.
TEST_F(PlanningPoolTest, WhatIsHurriedIsACall) {
  for (const std::string state : {"queued", "parked", "at work", "resting"}) {
    SCOPED_TRACE(state);
    std::latch begun(1);
    std::latch hurried(1);
    std::latch ended(1);
    std::latch done(1);
    PlanningPool pool(&clock_, 1);
    std::shared_ptr<PlanningTurn> endless;
    const auto begin_endless = [&] {
      std::latch at_work(1);
      endless = Submit(pool, "calls", [&](PlanningTurn& turn) {
        bool is_first = true;
        while (!turn.YieldTurn()) {
          if (std::exchange(is_first, false)) at_work.count_down();
          clock_.Advance(PlanningPool::kSlice);
        }
        ended.count_down();
      });
      at_work.wait();
    };
    if (state == "queued") begin_endless();
    const auto turn = Submit(
        pool, "client",
        [&](PlanningTurn& own) {
          begun.count_down();
          if (state == "resting") own.LeaveTurn();
          if (state == "at work" || state == "resting") hurried.wait();
          // Until the endless call, which has the turn, gives way.
          clock_.Advance(PlanningPool::kSlice);
          EXPECT_FALSE(own.YieldTurn());
          clock_.Advance(PlanningPool::kSlice);
          EXPECT_FALSE(own.YieldTurn());
          done.count_down();
        },
        kBackground);
    if (state != "queued") begun.wait();
    if (state == "parked" || state == "resting") begin_endless();
    turn->Hurry();
    turn->Hurry();
    hurried.count_down();
    if (state == "at work") begin_endless();
    done.wait();
    endless->Cancel();
    ended.wait();
  }
}

TEST_F(PlanningPoolTest, TheBackgroundCanBeCancelledAndHurriedAtAnyTime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed=", seed));
    Random random(seed);
    std::atomic<int> ran = 0;
    {
      PlanningPool pool(&clock_, 2);
      std::vector<std::shared_ptr<PlanningTurn>> turns;
      for (int i = 0; i < 40; ++i) {
        turns.push_back(Submit(
            pool, absl::StrCat("client ", random.Below(3)),
            [&](PlanningTurn& turn) {
              Plan(3, [] {})(turn);
              ++ran;
            },
            random.Below(3) == 0 ? PlanningTurn::Urgency::kCall : kBackground));
        PlanningTurn& other = *turns[random.Below(turns.size())];
        if (random.Below(2) == 0) other.Hurry();
        if (random.Below(4) == 0) other.Cancel();
      }
    }
    EXPECT_EQ(ran, 40);
  }
}

}  // namespace
}  // namespace packhouse
