// Histograms that servers count together: whatever fails, all of them have the same totals, and
// these are what producers were told.
#include "service/wings/cluster/histograms/shared_histogram_store.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/internal/shared_histogram.pb.h"
#include "service/base/limited_log.h"
#include "service/base/memory_budget.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/stores/logs/shared_log.h"
#include "service/wings/cluster/histograms/shared_histogram_format.h"
#include "service/wings/cluster/histograms/waiting_counts.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random.h"
#include "tests/support/recorded_log.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1000);

HistogramKey KeyNamed(std::string name, absl::Duration half_life = absl::InfiniteDuration()) {
  return {std::move(name), SizeSchema::NodesAndEdges(), half_life};
}

SizeTable Sizes(const std::vector<uint32_t>& sizes) {
  return SizeTable::WithConsecutiveIds(sizes.size() / 2, 2, sizes, 0).value();
}

// A connection that calls something before each read and each transaction. An error of it is the
// answer.
class HookedConnection final : public KeyValueStore {
 public:
  using Hook = std::function<absl::Status()>;

  explicit HookedConnection(KeyValueStore* store) : store_(store) {}

  // While no call is under way.
  void SetHooks(Hook on_read, Hook on_commit) {
    on_read_ = std::move(on_read);
    on_commit_ = std::move(on_commit);
  }

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    if (on_read_) PH_RETURN_IF_ERROR(on_read_());
    return store_->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    if (on_commit_) PH_RETURN_IF_ERROR(on_commit_());
    return store_->Commit(transaction);
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return store_->GrantLease(length);
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    return store_->KeepAlive(lease);
  }
  absl::Status RevokeLease(LeaseId lease) override { return store_->RevokeLease(lease); }

 private:
  KeyValueStore* const store_;
  Hook on_read_;
  Hook on_commit_;
};

struct CountingServer {
  CountingServer(FakeKeyValueServers* servers, const std::string& name,
                 HistogramStore::Bounds bounds = {}, MemoryBudget* memory = nullptr)
      : connection(servers), store(&hooked, {name, std::move(bounds), nullptr}, memory) {}

  FakeConnection connection;
  HookedConnection hooked{&connection};
  SharedHistogramStore store;
};

// A budget without room: each time that somebody wants some, there comes as much, or no allocation
// works.
class Shortage {
 public:
  // The `failing`-th one finds no memory; 0: none.
  Shortage(MemoryBudget* budget, int failing) : budget_(budget), failing_(failing) {
    taken_ = budget->Hold("others", budget->bound() - budget->held()).value();
    budget->SetReclaim([this](uint64_t bytes) {
      if (++num_ == failing_) throw std::bad_alloc();
      taken_.ShrinkTo(taken_.bytes() - std::min(bytes, taken_.bytes()));
    });
  }
  ~Shortage() { budget_->SetReclaim(nullptr); }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

  bool has_failed() const { return num_ >= failing_; }

 private:
  MemoryBudget* const budget_;
  const int failing_;
  int num_ = 0;
  MemoryHold taken_;
};

class SharedHistogramStoreTest : public testing::Test {
 protected:
  std::unique_ptr<CountingServer> NewServer(HistogramStore::Bounds bounds = {},
                                            MemoryBudget* memory = nullptr) {
    return std::make_unique<CountingServer>(&servers_, absl::StrCat("s", ++num_servers_),
                                            std::move(bounds), memory);
  }
  static SizeHistogram All(CountingServer& server, const std::string& name,
                           absl::Time now = kStart) {
    const auto snapshot = server.store.Get(name, now);
    EXPECT_THAT(snapshot, IsOk());
    return snapshot.ok() ? snapshot->histogram : SizeHistogram(2);
  }
  size_t NumEntries() {
    FakeConnection reader(&servers_);
    return reader.Range(KeyRange::Prefix("hist/l/"), 0, 0)->values.size();
  }

  using Call = std::function<absl::StatusOr<CountedGraphs>(SharedHistogramStore& store)>;
  // "1 of 3" or an error's code for each of some calls that wait, in this order, for another one
  // that is busy with "h"; and how many transactions they take.
  static std::pair<std::vector<std::string>, int> CallTogether(CountingServer& server,
                                                               const std::vector<Call>& calls) {
    std::vector<std::string> told(calls.size());
    std::atomic<bool> is_busy = false;
    std::atomic<int> num_commits = 0;
    server.hooked.SetHooks(
        [&] {
          while (!is_busy.exchange(true)) {
            while (server.store.NumWaiting("h") < calls.size()) std::this_thread::yield();
          }
          return absl::OkStatus();
        },
        [&] {
          ++num_commits;
          return absl::OkStatus();
        });
    std::vector<std::thread> threads;
    threads.emplace_back([&] { server.store.SchemaOf("h").status().IgnoreError(); });
    while (!is_busy) std::this_thread::yield();
    for (size_t i = 0; i < calls.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto counted = calls[i](server.store);
        told[i] = counted.ok() ? absl::StrCat(counted->counted, " of ", counted->num_graphs)
                               : absl::StatusCodeToString(counted.status().code());
      });
      // With the last one, the busy one goes on.
      while (i + 1 < calls.size() && server.store.NumWaiting("h") <= i) std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
    server.hooked.SetHooks(nullptr, nullptr);
    return {told, num_commits};
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  int num_servers_ = 0;
  std::unique_ptr<CountingServer> a_ = NewServer();
  std::unique_ptr<CountingServer> b_ = NewServer();
};

TEST_F(SharedHistogramStoreTest, WhatOneServerCountsEveryOtherHasAtOnce) {
  PH_ASSERT_OK_AND_ASSIGN(CountedGraphs counted,
                          a_->store.Observe(KeyNamed("h"), Sizes({1, 2, 3, 4}), {}, kStart));
  EXPECT_EQ(counted.num_graphs, 2U);
  PH_ASSERT_OK_AND_ASSIGN(counted, b_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart));
  EXPECT_EQ(counted.counted, 1U);
  EXPECT_EQ(counted.num_graphs, 3U);
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot one, a_->store.Get("h", kStart));
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot other, b_->store.Get("h", kStart));
  EXPECT_EQ(one.histogram, other.histogram);
  EXPECT_EQ(one.histogram.num_graphs(), 3U);
  EXPECT_EQ(one.revision, other.revision);
  // Subtracted by one that has not seen the last change.
  EXPECT_THAT(b_->store.Observe(KeyNamed("h"), Sizes({5, 5}), {}, kStart), IsOk());
  SizeHistogram taken(2);
  ASSERT_THAT(taken.Add({5, 5}), IsOk());
  EXPECT_THAT(a_->store.Subtract(KeyNamed("h"), taken, {}, kStart), IsOk());
  EXPECT_THAT(b_->store.Subtract(KeyNamed("h"), taken, {}, kStart),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("(5, 5)")));
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot last, b_->store.Get("h", kStart));
  EXPECT_GT(last.revision, one.revision);
  EXPECT_EQ(last.histogram, one.histogram);
}

TEST_F(SharedHistogramStoreTest, AProducerMayTryAgainAtAnotherServer) {
  const ProducerSequence first = {"p", 1};
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), first, kStart), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs again,
                          b_->store.Observe(KeyNamed("h"), Sizes({1, 2}), first, kStart));
  EXPECT_EQ(again.counted, 0U);
  EXPECT_EQ(again.num_graphs, 1U);
  EXPECT_THAT(b_->store.Observe(KeyNamed("h"), Sizes({1, 3}), first, kStart),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("its next one is 2")));
  EXPECT_EQ(a_->store.GetProducer("h", "p")->last(), 1U);
  EXPECT_EQ(b_->store.GetProducer("h", "q")->last(), 0U);
  EXPECT_EQ(b_->store.GetProducer("none", "p")->last(), 0U);
}

// A copy that was made from a base remembers the same as one that made all changes itself.
TEST_F(SharedHistogramStoreTest, ProducersOfOneCallAreLetGoByAllServersAlike) {
  for (uint64_t call = 0; call < 300; ++call) {
    ProducerSequence producer = {absl::StrCat("made up ", call), 1};
    producer.forget_after = absl::Minutes(1);
    producer.now = kStart + absl::Seconds(call);
    CountingServer& server = call % 2 == 0 ? *a_ : *b_;
    ASSERT_THAT(server.store.Observe(KeyNamed("h"), Sizes({1, 2}), producer, producer.now), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs last,
                          a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart));
  EXPECT_EQ(last.num_graphs, 301U);
  ASSERT_THAT(b_->store.Get("h", kStart), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const KeptHistogram of_a, a_->store.Keep("h", kStart));
  PH_ASSERT_OK_AND_ASSIGN(const KeptHistogram of_b, b_->store.Keep("h", kStart));
  EXPECT_LE(of_a.producers.size(), 62U);
  ASSERT_EQ(of_a.producers.size(), of_b.producers.size());
  for (size_t i = 0; i < of_a.producers.size(); ++i) {
    EXPECT_EQ(of_a.producers[i].name, of_b.producers[i].name);
    EXPECT_EQ(of_a.producers[i].history, of_b.producers[i].history);
  }
}

// A deletion whose answer is lost is tried again. By then another histogram may have the name.
TEST_F(SharedHistogramStoreTest, ADeletionThatIsTriedAgainIsOfTheSameHistogram) {
  for (const bool is_known : {false, true}) {
    SCOPED_TRACE(is_known);
    ASSERT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
    bool has_come = false;
    a_->hooked.SetHooks(nullptr, [&]() -> absl::Status {
      if (std::exchange(has_come, true)) return absl::OkStatus();
      PH_RETURN_IF_ERROR(b_->store.Delete("h"));
      PH_RETURN_IF_ERROR(
          b_->store.Observe(KeyNamed("h"), Sizes({3, 4, 5, 6}), {}, kStart).status());
      return is_known ? absl::OkStatus() : absl::UnknownError("the answer was lost");
    });
    const absl::Status deleted = a_->store.Delete("h");
    a_->hooked.SetHooks(nullptr, nullptr);
    EXPECT_EQ(deleted.code(), is_known ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
    PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot anew, b_->store.Get("h", kStart));
    EXPECT_EQ(anew.histogram.num_graphs(), 2U);
    ASSERT_THAT(b_->store.Delete("h"), IsOk());
  }
}

// What one server changes or reads, no other one deletes, not even at the last moment.
TEST_F(SharedHistogramStoreTest, WhatNoServerUsesGoesInItsTime) {
  SharedHistogramStore::Options options = {"c", {}, nullptr, *ParseRetention("8h")};
  options.steady_now = [this] { return clock_.Now(); };
  SharedHistogramStore c(&a_->hooked, options, nullptr);
  options.replica = "d";
  SharedHistogramStore d(&b_->hooked, options, nullptr);
  std::vector<Expired> expired;
  const auto sweep_for = [&](absl::Duration time) {
    expired.clear();
    for (; time > absl::ZeroDuration(); time -= absl::Minutes(10)) {
      clock_.Advance(absl::Minutes(10));
      EXPECT_THAT(c.SweepUnused(expired), IsOk());
    }
    return expired.size();
  };
  const auto observe = [&] {
    return d.Observe(KeyNamed("team/h"), Sizes({1, 2}), {}, clock_.Now()).status();
  };
  ASSERT_THAT(observe(), IsOk());
  const auto head = a_->connection.Get("hist/h/team%2Fh");
  ASSERT_THAT(head, IsOk());
  // What is none, or cannot be read, is left to be looked at.
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"hist/h/a b", (*head)->value}, {"hist/h/broken", "?"}}) {
    ASSERT_THAT(a_->connection.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  sweep_for(absl::Minutes(10));
  EXPECT_EQ(sweep_for(absl::Hours(7)), 0U);
  EXPECT_THAT(observe(), IsOk());
  EXPECT_EQ(sweep_for(absl::Hours(7)), 0U);
  EXPECT_THAT(d.Get("team/h", clock_.Now()), IsOk());
  EXPECT_EQ(sweep_for(absl::Hours(8)), 0U);
  int num_uses = 0;
  a_->hooked.SetHooks(nullptr, [&]() -> absl::Status {
    // The count of time, and then the deletion.
    if (++num_uses % 2 == 0) PH_RETURN_IF_ERROR(d.Get("team/h", clock_.Now()).status());
    return absl::OkStatus();
  });
  EXPECT_EQ(sweep_for(absl::Hours(1)), 0U);
  a_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_EQ(sweep_for(absl::Hours(7)), 0U);
  EXPECT_THAT(d.GetProducer("team/h", "p"), IsOk());
  const auto last = a_->connection.Get("hist/h/team%2Fh");
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(sweep_for(absl::Hours(2)), 1U);
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].name, "team/h");
  EXPECT_GE(expired[0].unused, absl::Hours(8));
  EXPECT_LT(expired[0].unused, absl::Hours(11));
  EXPECT_EQ(expired[0].num_bytes, SharedLogHead::Decode(**last)->num_bytes);
  EXPECT_GT(expired[0].num_bytes, 0U);
  EXPECT_EQ(c.num_expired(), 1U);
  EXPECT_THAT(d.Get("team/h", clock_.Now()), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

// Whichever of its requests fails: of the count of time, of the uses, of the list, of what is
// noted.
TEST_F(SharedHistogramStoreTest, ASweepSaysWhatFailed) {
  SharedHistogramStore::Options options = {"c", {}, nullptr, *ParseRetention("8h")};
  options.steady_now = [this] { return clock_.Now(); };
  SharedHistogramStore c(&a_->hooked, options, nullptr);
  int num_failed = 0;
  for (bool has_failed = true; has_failed; num_failed += has_failed ? 1 : 0) {
    // Nobody has noted it yet.
    const HistogramKey key = KeyNamed(absl::StrCat("h", num_failed));
    ASSERT_THAT(b_->store.Observe(key, Sizes({1, 2}), {}, kStart), IsOk());
    clock_.Advance(absl::Minutes(10));
    has_failed = false;
    int left = num_failed;
    const auto fail = [&] {
      if (left-- != 0) return absl::OkStatus();
      has_failed = true;
      return absl::InternalError("no luck");
    };
    a_->hooked.SetHooks(fail, fail);
    std::vector<Expired> expired;
    const absl::Status swept = c.SweepUnused(expired);
    EXPECT_EQ(swept, has_failed ? absl::InternalError("no luck") : absl::OkStatus()) << num_failed;
    a_->hooked.SetHooks(nullptr, nullptr);
  }
  EXPECT_GE(num_failed, 5);
}

TEST_F(SharedHistogramStoreTest, WhatStreamsHaveCountedGoesWithTheHistogram) {
  ASSERT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  ASSERT_THAT(a_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  ASSERT_THAT(a_->store.Delete("h"), IsOk());
  ASSERT_THAT(a_->store.Flush(), IsOk());
  EXPECT_THAT(a_->store.Get("h", kStart), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(SharedHistogramStoreTest, PropertiesAndBoundsAreThoseOfAll) {
  const HistogramKey decaying = KeyNamed("team/h", absl::Hours(1) + absl::Milliseconds(500));
  EXPECT_THAT(a_->store.Observe(decaying, Sizes({1, 2}), {}, kStart), IsOk());
  EXPECT_THAT(b_->store.Observe(decaying, Sizes({1, 2}), {}, kStart), IsOk());
  EXPECT_THAT(b_->store.SchemaOf("team/h"), IsOkAndHolds(SizeSchema::NodesAndEdges()));
  EXPECT_THAT(b_->store.Observe(KeyNamed("team/h"), Sizes({1, 2}), {}, kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half_life")));
  EXPECT_THAT(
      b_->store.Observe({"team/h", SizeSchema::Create({"x"}).value()}, SizeTable(), {}, kStart),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("components")));
  Quotas one;
  one.histograms = 1;
  const auto bounded = NewServer(
      {.max_histograms = 3,
       .max_distinct = 2,
       .max_producers = 1,
       .quotas_of = [one](absl::string_view where) { return where == "other" ? Quotas() : one; }});
  EXPECT_THAT(
      bounded->store.Observe(KeyNamed("team/i"), Sizes({1, 2}), {}, kStart),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("team"), HasSubstr("histograms"), HasSubstr("2"), HasSubstr("1"))));
  EXPECT_THAT(
      bounded->store.Observe(KeyNamed("k"), Sizes({1, 2}), ProducerSequence{"p", 1}, kStart),
      IsOk());
  EXPECT_THAT(
      bounded->store.Observe(KeyNamed("k"), Sizes({1, 2}), ProducerSequence{"q", 1}, kStart),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("producers")));
  EXPECT_THAT(bounded->store.Observe(KeyNamed("k"), Sizes({3, 2, 4, 2}), {}, kStart),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("distinct")));
  EXPECT_THAT(bounded->store.Observe(KeyNamed("other/l"), Sizes({1, 2}), {}, kStart), IsOk());
  EXPECT_THAT(bounded->store.Observe(KeyNamed("other/m"), Sizes({1, 2}), {}, kStart),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("there are 3, at most 3")));
  EXPECT_EQ(bounded->store.CountByNamespace(),
            (std::map<std::string, uint64_t>{{"default", 1}, {"other", 1}, {"team", 1}}));
  SizeHistogram none(2);
  EXPECT_THAT(bounded->store.Subtract(KeyNamed("none"), none, {}, kStart),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  std::vector<uint32_t> many;
  for (uint32_t i = 0; i < 200'000; ++i) many.insert(many.end(), {i, i});
  EXPECT_THAT(a_->store.Observe(KeyNamed("k"), Sizes(many), {}, kStart),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at a time")));
  // All servers keep to one bound of sizes, whatever theirs is.
  for (uint32_t part = 0; part < 3; ++part) {
    many.clear();
    for (uint32_t i = 0; i < 50'000; ++i) many.insert(many.end(), {50'000 * part + i, 0});
    const auto counted = a_->store.Observe(KeyNamed("large"), Sizes(many), {}, kStart);
    EXPECT_EQ(counted.status().code(),
              part < 2 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(SharedHistogramStoreTest, NoOtherNameLeadsToAHistogram) {
  EXPECT_THAT(
      a_->store.Observe(KeyNamed("team/h"), Sizes({1, 2}), ProducerSequence{"p", 1}, kStart),
      IsOk());
  for (const char* name : {"team%2Fh", "team%2fh", "team/h/", ""}) {
    EXPECT_THAT(a_->store.Get(name, kStart), StatusIs(absl::StatusCode::kNotFound, testing::_));
    EXPECT_THAT(a_->store.Delete(name), StatusIs(absl::StatusCode::kNotFound, testing::_));
    EXPECT_THAT(a_->store.SchemaOf(name), StatusIs(absl::StatusCode::kNotFound, testing::_));
    EXPECT_EQ(a_->store.GetProducer(name, "p")->last(), 0U);
    EXPECT_EQ(a_->store.NumWaiting(name), 0U);
  }
  EXPECT_EQ(a_->store.NumWaiting("none"), 0U);
  // Without a retention nothing is swept.
  std::vector<Expired> expired;
  EXPECT_THAT(a_->store.SweepUnused(expired), IsOk());
  EXPECT_TRUE(expired.empty());
  EXPECT_EQ(a_->store.num_expired(), 0U);
  const HistogramKey of_one = {"team/h", SizeSchema::Create({"x"}).value()};
  EXPECT_THAT(a_->store.Observe(of_one, Sizes({1, 2}), {}, kStart), testing::Not(IsOk()));
  EXPECT_EQ(All(*a_, "team/h").num_graphs(), 1U);
}

// A key or a producer that is none is refused as by a server alone, and nothing is asked for.
TEST_F(SharedHistogramStoreTest, WhatIsNoKeyIsRefusedBeforeAnythingIsAskedFor) {
  const auto server = NewServer();
  const auto asked = [] { return absl::InternalError("the store was asked"); };
  server->hooked.SetHooks(asked, asked);
  SizeHistogram sizes(2);
  ASSERT_THAT(sizes.Add({1, 2}, 3), IsOk());
  const HistogramKey good = KeyNamed("h");
  const ProducerSequence producer = {"p", 1};
  for (const auto& [key, of] : std::vector<std::pair<HistogramKey, ProducerSequence>>{
           {KeyNamed(""), producer},
           {KeyNamed("a b"), producer},
           {KeyNamed(std::string(HistogramStore::kMaxNameLength + 1, 'a')), producer},
           {KeyNamed("h", absl::ZeroDuration()), producer},
           {KeyNamed("h", -absl::Seconds(1)), producer},
           {good, {"", 1}},
           {good, {"p", 0}},
           {good, {"p", 1, -absl::Seconds(1)}}}) {
    SCOPED_TRACE(absl::StrCat(key.name, " ", of.producer, " ", of.sequence));
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, testing::_);
    EXPECT_THAT(server->store.Merge(key, sizes, of, kStart), refused);
    EXPECT_THAT(server->store.Subtract(key, sizes, of, kStart), refused);
    EXPECT_THAT(server->store.Observe(key, Sizes({1, 2}), of, kStart), refused);
    if (key.name != good.name || key.half_life != good.half_life) {
      EXPECT_THAT(server->store.ObserveSoon(key, Sizes({1, 2}), kStart), refused);
    }
  }
  EXPECT_THAT(server->store.Flush(), IsOk());
  EXPECT_THAT(server->store.Merge(good, sizes, producer, kStart),
              StatusIs(absl::StatusCode::kInternal, testing::_));
}

// Whatever of a histogram is gone, or other than it was written: every call of a server that has no
// copy says so, and changes nothing.
TEST_F(SharedHistogramStoreTest, WhatIsDamagedIsToldByEveryCall) {
  servers_.SetForgetful(false);
  FakeConnection direct(&servers_);
  SizeHistogram many(2);
  for (uint32_t i = 0; i < 7000; ++i) ASSERT_THAT(many.Add({~i, ~uint32_t{0} - 2 * i}, 1), IsOk());
  const auto first = NewServer();
  ASSERT_THAT(first->store.Merge(KeyNamed("h"), many, std::nullopt, kStart), IsOk());
  ASSERT_THAT(first->store.Observe(KeyNamed("h"), Sizes({1, 2}), std::nullopt, kStart), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult all, direct.Range(KeyRange::Prefix("hist/"), 0, 0));
  ASSERT_EQ(all.values.size(), 3U);  // A head, a base of one entry, a run.
  const auto put = [&](const std::string& key, const std::string& value) {
    ASSERT_THAT(direct.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  };
  const auto expect_told = [&](const std::string& what) {
    SCOPED_TRACE(what);
    const Revision before = servers_.revision();
    const auto server = NewServer();
    const auto told = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("hist"));
    SizeHistogram one(2);
    ASSERT_THAT(one.Add({1, 2}, 1), IsOk());
    EXPECT_THAT(server->store.Get("h", kStart), told);
    EXPECT_THAT(server->store.SchemaOf("h"), told);
    EXPECT_THAT(server->store.GetProducer("h", "p"), told);
    EXPECT_THAT(server->store.Merge(KeyNamed("h"), one, std::nullopt, kStart), told);
    EXPECT_THAT(server->store.Subtract(KeyNamed("h"), one, std::nullopt, kStart), told);
    EXPECT_EQ(servers_.revision(), before);
  };
  internal::SharedHistogramHead head;
  internal::SharedHistogramRun run;
  for (const KeyValue& each : all.values) {
    const bool is_head = absl::StartsWith(each.key, "hist/h/");
    std::vector<std::string> others = {"x", each.value.substr(0, each.value.size() - 1)};
    if (is_head) {
      PH_ASSERT_OK_AND_ASSIGN(const SharedLogHead of_log, SharedLogHead::Decode(each));
      ASSERT_TRUE(head.ParseFromString(of_log.value));
      for (const int num_components : {0, 2}) {
        head.clear_components();
        for (int i = 0; i < num_components; ++i) head.add_components("twice");
        others.push_back(absl::StrCat(each.value.substr(0, each.value.size() - of_log.value.size()),
                                      head.SerializeAsString()));
      }
    } else {
      const auto of_entry = [](const std::string& contents) {
        return EncodeSharedLogEntry("s1-9", contents);
      };
      const std::vector<std::string> parts = absl::StrSplit(each.value, absl::MaxSplits(' ', 2));
      others.push_back(of_entry(parts[2].substr(0, parts[2].size() - 1)));
      if (each.key == all.values.back().key) {
        ASSERT_TRUE(run.ParseFromString(parts[2]));
        run.add_counts(1);
        others.push_back(of_entry(run.SerializeAsString()));
        run.mutable_counts()->RemoveLast();
        // More than can be, by itself and with what was there before; more than there is.
        run.set_numbers(0, ~uint64_t{0});
        others.push_back(of_entry(run.SerializeAsString()));
        run.set_counts(1, 1);
        others.push_back(of_entry(run.SerializeAsString()));
        run.set_subtracts(true);
        others.push_back(of_entry(run.SerializeAsString()));
      }
    }
    for (const std::string& other : others) {
      put(each.key, other);
      expect_told(absl::StrCat(each.key, " of ", other.size(), " bytes"));
    }
    if (!is_head) {
      ASSERT_THAT(direct.Commit({{}, {Operation::Delete(KeyRange::Of(each.key))}, {}}), IsOk());
      expect_told(absl::StrCat(each.key, " is gone"));
    }
    put(each.key, each.value);
  }
  EXPECT_EQ(All(*NewServer(), "h").num_graphs(), 7001U);
}

TEST_F(SharedHistogramStoreTest, ADeletedHistogramIsGoneEverywhereAndMayBeMadeAnew) {
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), ProducerSequence{"p", 7}, kStart),
              IsOk());
  EXPECT_EQ(All(*b_, "h").num_graphs(), 1U);
  EXPECT_THAT(b_->store.Delete("h"), IsOk());
  EXPECT_THAT(b_->store.Delete("h"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  EXPECT_THAT(a_->store.Get("h", kStart), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  // Nothing of the first is known to it.
  const HistogramKey key = {"h", SizeSchema::Create({"x"}).value()};
  EXPECT_THAT(a_->store.Observe(key, SizeTable(), ProducerSequence{"p", 1}, kStart), IsOk());
  EXPECT_THAT(b_->store.SchemaOf("h"), IsOkAndHolds(key.schema));
}

// Sums of weights depend on their order, which is one for all.
TEST_F(SharedHistogramStoreTest, HalfLivesAreTheSameToTheLastBitOnAllServers) {
  Random random(3);
  const HistogramKey key = KeyNamed("h", absl::Minutes(5));
  std::unique_ptr<CountingServer> late;
  for (int i = 0; i < 200; ++i) {
    std::vector<uint32_t> sizes;
    for (int k = 0; k < 40; ++k) sizes.push_back(static_cast<uint32_t>(random.Below(60)));
    // Clocks of servers differ.
    CountingServer& server = random.Below(2) == 0 ? *a_ : *b_;
    const absl::Time now = kStart + i * absl::Seconds(7) + absl::Seconds(random.Below(5));
    EXPECT_THAT(server.store.Observe(key, Sizes(sizes), {}, now), IsOk());
  }
  late = NewServer();  // Has it from a base and runs.
  for (const absl::Duration after : {absl::ZeroDuration(), absl::Minutes(3), absl::Hours(1)}) {
    const absl::Time now = kStart + absl::Hours(1) + after;
    EXPECT_EQ(All(*a_, "h", now), All(*b_, "h", now));
    EXPECT_EQ(All(*a_, "h", now), All(*late, "h", now));
  }
}

// Runs are put together, so that a new server has little to read.
TEST_F(SharedHistogramStoreTest, RunsDoNotPileUp) {
  Random random(5);
  SizeHistogram expected(2);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint32_t> sizes;
    for (int k = 0; k < 60; ++k) sizes.push_back(static_cast<uint32_t>(random.Below(200)));
    const SizeTable table = Sizes(sizes);
    ASSERT_THAT(expected.AddTable(table), IsOk());
    EXPECT_THAT((i % 2 == 0 ? a_ : b_)->store.Observe(KeyNamed("h"), table, {}, kStart), IsOk());
  }
  FakeConnection reader(&servers_);
  PH_ASSERT_OK_AND_ASSIGN(const RangeResult all, reader.Range(KeyRange::Prefix("hist/"), 0, 0));
  uint64_t bytes = 0;
  for (const KeyValue& value : all.values) bytes += value.value.size();
  // A base has 16 bytes a size; runs are at most as many, and one more.
  EXPECT_LT(bytes, 3 * 16 * expected.num_distinct() + SharedHistogramStore::kMinRunBytes);
  EXPECT_EQ(All(*NewServer(), "h"), expected);
  EXPECT_EQ(All(*a_, "h"), expected);
}

TEST_F(SharedHistogramStoreTest, CallsThatWaitShareATransaction) {
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), SizeTable(), {}, kStart), IsOk());
  constexpr int kCallers = 16;
  constexpr int kCalls = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kCallers; ++t) {
    threads.emplace_back([&, t] {
      CountingServer& server = t % 2 == 0 ? *a_ : *b_;
      for (uint64_t i = 1; i <= kCalls; ++i) {
        EXPECT_THAT(server.store.Observe(KeyNamed("h"), Sizes({1, 2}),
                                         ProducerSequence{absl::StrCat(t), i}, kStart),
                    IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(All(*a_, "h").num_graphs(), kCallers * kCalls);
}

// Streams wait for nothing.
TEST_F(SharedHistogramStoreTest, WhatNobodyWaitsForIsCountedLater) {
  b_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  EXPECT_THAT(b_->store.Flush(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2, 3, 4}), kStart), IsOk());
  b_->connection.SetFaults(nullptr);
  EXPECT_THAT(b_->store.Flush(), IsOk());
  EXPECT_EQ(All(*a_, "h").num_graphs(), 3U);
  // What does not fit is refused at once, as far as this server knows.
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h", absl::Hours(1)), Sizes({1, 2}), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half_life")));
  // A server that ends counts what it has.
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  b_ = nullptr;
  EXPECT_EQ(All(*a_, "h").num_graphs(), 4U);
}

// Both are in one server's queue when the run of the first is lost.
TEST_F(SharedHistogramStoreTest, ARepetitionIsNotAnsweredBeforeTheFirstIs) {
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  std::atomic<int> num_commits = 0;
  a_->hooked.SetHooks(nullptr, [&]() -> absl::Status {
    // The first waits until both are in the queue, and is made. All after it are lost.
    if (num_commits++ != 0) return absl::UnavailableError("lost");
    while (a_->store.NumWaiting("h") < 2) std::this_thread::yield();
    return absl::OkStatus();
  });
  std::vector<absl::StatusOr<CountedGraphs>> twice(2, absl::UnknownError(""));
  std::thread first([&] {
    EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({3, 4}), {}, kStart), IsOk());
  });
  while (num_commits == 0) std::this_thread::yield();
  std::vector<std::thread> threads;
  for (auto& result : twice) {
    threads.emplace_back([&] {
      result = a_->store.Observe(KeyNamed("h"), Sizes({5, 6}), ProducerSequence{"p", 1}, kStart);
    });
  }
  first.join();
  for (std::thread& thread : threads) thread.join();
  a_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_EQ(All(*b_, "h").num_graphs(), 2U);
  for (const auto& result : twice) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable, testing::_));
  }
}

// Whatever the calls: while one of them asks the store about a histogram, or changes it there, no
// other one of this server does.
TEST_F(SharedHistogramStoreTest, OneCallAtATimeIsBusyWithAHistogram) {
  constexpr int kRounds = 20;
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  std::atomic<int> num_inside = 0;
  std::atomic<int> num_met = 0;
  const auto visit = [&]() -> absl::Status {
    if (++num_inside != 1) ++num_met;
    // Others may come meanwhile, if they can.
    for (int i = 0; i < 100 && num_met == 0; ++i) std::this_thread::yield();
    --num_inside;
    return absl::OkStatus();
  };
  a_->hooked.SetHooks(visit, visit);
  const std::vector<std::function<absl::Status(int)>> calls = {
      [&](int) { return a_->store.Get("h", kStart).status(); },
      [&](int) { return a_->store.SchemaOf("h").status(); },
      [&](int) { return a_->store.GetProducer("h", "p").status(); },
      [&](int i) {
        const ProducerSequence producer = {"p", static_cast<uint64_t>(i) + 1};
        return a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), producer, kStart).status();
      },
      [&](int) {
        if (absl::Status soon = a_->store.ObserveSoon(KeyNamed("h"), Sizes({3, 4}), kStart);
            !soon.ok()) {
          return soon;
        }
        return a_->store.Flush();
      },
  };
  std::vector<std::thread> threads;
  for (const auto& call : calls) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) EXPECT_THAT(call(i), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  a_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_EQ(num_met, 0);
  EXPECT_EQ(All(*b_, "h").num_graphs(), 1 + 2 * kRounds);
}

TEST_F(SharedHistogramStoreTest, CopiesAreRightWhereverMemoryRanOut) {
  const auto count = [&](const std::string& name, int i) {
    const auto size = static_cast<uint32_t>(i);
    EXPECT_THAT(
        a_->store.Observe(KeyNamed(name), Sizes({size, size}),
                          ProducerSequence{std::string(120, 'p') + std::to_string(i), 1}, kStart),
        IsOk());
  };
  int num_failed = 0;
  for (int failing = 1; failing == num_failed + 1; ++failing) {
    SCOPED_TRACE(failing);
    const std::string name = absl::StrCat("h", failing);
    MemoryBudget budget(1 << 20);
    const auto server = NewServer({}, &budget);
    for (int i = 0; i < 3; ++i) count(name, i);
    EXPECT_EQ(All(*server, name).num_graphs(), 3U);
    for (int i = 3; i < 6; ++i) count(name, i);
    {
      const Shortage shortage(&budget, failing);
      RunWithinMemory([&] { (void)server->store.Get(name, kStart); });
      if (shortage.has_failed()) ++num_failed;
    }
    EXPECT_EQ(All(*server, name), All(*a_, name));
  }
  EXPECT_GT(num_failed, 3);
}

TEST_F(SharedHistogramStoreTest, WhatIsRefusedForMemoryIsNotCounted) {
  int num_failed = 0;
  for (int failing = 1; failing == num_failed + 1; ++failing) {
    SCOPED_TRACE(failing);
    const std::string name = absl::StrCat("h", failing);
    MemoryBudget budget(1 << 20);
    const auto server = NewServer({}, &budget);
    EXPECT_THAT(server->store.Observe(KeyNamed(name), Sizes({1, 2}), {}, kStart), IsOk());
    SizeHistogram sizes(2);
    ASSERT_THAT(sizes.Add({3, 4}), IsOk());
    absl::StatusOr<CountedGraphs> counted = absl::UnknownError("");
    {
      const Shortage shortage(&budget, failing);
      counted = server->store.Merge(KeyNamed(name), sizes, ProducerSequence{"p", 1}, kStart);
      if (shortage.has_failed()) ++num_failed;
    }
    if (counted.ok()) {
      EXPECT_EQ(counted->counted, 1U);
      EXPECT_EQ(counted->num_graphs, 2U);
    }
    if (!absl::IsUnavailable(counted.status())) {
      EXPECT_EQ(All(*a_, name).num_graphs(), counted.ok() ? 2U : 1U);
    }
    EXPECT_EQ(All(*server, name), All(*a_, name));
  }
  EXPECT_GT(num_failed, 1);
}

TEST_F(SharedHistogramStoreTest, ForgottenSizesMakeRoomForOthers) {
  const auto bounded = NewServer({.max_distinct = 2});
  const HistogramKey key = KeyNamed("h", absl::Minutes(1));
  EXPECT_THAT(bounded->store.Observe(key, Sizes({1, 1, 2, 2}), {}, kStart), IsOk());
  EXPECT_THAT(bounded->store.Observe(key, Sizes({3, 3}), {}, kStart + absl::Minutes(31)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("distinct")));
  const absl::Time later = kStart + absl::Minutes(60);
  EXPECT_THAT(bounded->store.Observe(key, Sizes({2, 2, 3, 3}), {}, later), IsOk());
  EXPECT_THAT(bounded->store.Observe(key, Sizes({4, 4}), {}, later),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("distinct")));
  EXPECT_EQ(All(*a_, "h", later).num_graphs(), 2U);
}

TEST_F(SharedHistogramStoreTest, WhatWaitsTogetherIsAlike) {
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  const HistogramKey other = {"h", SizeSchema::Create({"x", "y"}).value()};
  EXPECT_THAT(b_->store.ObserveSoon(other, Sizes({1, 2}), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("components [x, y]")));
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h", absl::Hours(1)), Sizes({1, 2}), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half_life 1h")));
  EXPECT_THAT(b_->store.Flush(), IsOk());
  EXPECT_EQ(All(*a_, "h").num_graphs(), 1U);
}

TEST_F(SharedHistogramStoreTest, AStreamHasNoErrorsOfOthers) {
  const HistogramKey other = {"h", SizeSchema::Create({"x", "y"}).value()};
  EXPECT_THAT(a_->store.Observe(other, Sizes({1, 2}), {}, kStart), IsOk());
  RecordedLog lines;
  LimitedLog log(&lines, [] { return kStart; });
  SharedHistogramStore store(&b_->hooked, {"logged", {}, &log}, nullptr);
  // It does not know better.
  EXPECT_THAT(store.ObserveSoon(KeyNamed("h"), Sizes({1, 2, 3, 4}), kStart), IsOk());
  EXPECT_THAT(store.ObserveSoon(KeyNamed("i"), Sizes({1, 2}), kStart), IsOk());
  std::vector<uint32_t> many;
  for (uint32_t i = 0; i < 60'000; ++i) many.insert(many.end(), {i, i});
  EXPECT_THAT(store.ObserveSoon(KeyNamed("large"), Sizes(many), kStart), IsOk());
  EXPECT_EQ(All(*a_, "large").num_graphs(), 60'000U);
  EXPECT_THAT(store.Flush(), StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  // What is refused is told, and gone; the rest is counted.
  EXPECT_THAT(lines.lines(), testing::ElementsAre(AllOf(
                                 HasSubstr("warning"), HasSubstr("\"histogram\":\"h\""),
                                 HasSubstr("\"graphs\":2"), HasSubstr("created with [x, y]"))));
  EXPECT_EQ(All(*a_, "i").num_graphs(), 1U);
  EXPECT_THAT(store.Flush(), IsOk());
}

TEST_F(SharedHistogramStoreTest, AStartedServerCountsByItself) {
  absl::Notification is_counted;
  b_->hooked.SetHooks(nullptr, [&] {
    if (!is_counted.HasBeenNotified()) is_counted.Notify();
    return absl::OkStatus();
  });
  b_->store.Start();
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  is_counted.WaitForNotification();
  EXPECT_THAT(b_->store.Flush(), IsOk());
  EXPECT_EQ(All(*a_, "h").num_graphs(), 1U);
  b_ = nullptr;  // Before what its hook refers to.
}

TEST_F(SharedHistogramStoreTest, AFlushEndsWhereTheStoreCannotBeReached) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(b_->store.ObserveSoon(KeyNamed(absl::StrCat("h", i)), Sizes({1, 2}), kStart),
                IsOk());
  }
  int num_calls = 0;
  const auto lost = [&]() -> absl::Status {
    ++num_calls;
    return absl::UnavailableError("lost");
  };
  b_->hooked.SetHooks(lost, lost);
  EXPECT_THAT(b_->store.Flush(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(num_calls, 1);
  b_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_THAT(b_->store.Flush(), IsOk());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(All(*a_, absl::StrCat("h", i)).num_graphs(), 1U);
}

TEST_F(SharedHistogramStoreTest, AFlushWaitsForWhatAnotherOneHasBegun) {
  EXPECT_THAT(b_->store.ObserveSoon(KeyNamed("h"), Sizes({1, 2}), kStart), IsOk());
  std::atomic<bool> is_begun = false;
  std::atomic<bool> has_second_begun = false;
  b_->hooked.SetHooks(nullptr, [&]() -> absl::Status {
    is_begun = true;
    while (!has_second_begun) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    return absl::OkStatus();
  });
  std::thread first([&] { EXPECT_THAT(b_->store.Flush(), IsOk()); });
  while (!is_begun) std::this_thread::yield();
  has_second_begun = true;
  EXPECT_THAT(b_->store.Flush(), IsOk());
  EXPECT_EQ(All(*a_, "h").num_graphs(), 1U);
  first.join();
}

TEST_F(SharedHistogramStoreTest, WhatWaitsTakesOfTheBudget) {
  MemoryBudget budget(1 << 20);
  const auto server = NewServer({}, &budget);
  std::vector<uint32_t> some;
  for (uint32_t i = 0; i < 1000; ++i) some.insert(some.end(), {i, i});
  EXPECT_THAT(server->store.ObserveSoon(KeyNamed("h"), Sizes(some), kStart), IsOk());
  const uint64_t held = budget.held();
  EXPECT_GE(held, 8000U);
  EXPECT_THAT(server->store.ObserveSoon(KeyNamed("h"), Sizes(some), kStart), IsOk());
  EXPECT_EQ(budget.held(), held);
  absl::Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    refused = server->store.ObserveSoon(KeyNamed(absl::StrCat("i", i)), Sizes(some), kStart);
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  (void)server->store.Flush();
  (void)server->store.Flush();
  server->store.DropUnused();
  server->store.DropUnused();
  EXPECT_EQ(budget.held(), 0U);
}

// Streams go on without the store, but do not fill the memory: who would is told so, and counts
// nothing. What was taken is counted once.
TEST_F(SharedHistogramStoreTest, WhatWaitsForAStoreOutOfReachIsBounded) {
  constexpr uint64_t kBound = SharedHistogramStore::kMaxSoonBytes;
  MemoryBudget budget(uint64_t{1} << 30);
  const auto server = NewServer({}, &budget);
  const auto lost = [] { return absl::UnavailableError("lost"); };
  server->hooked.SetHooks(lost, lost);
  std::vector<uint32_t> some;
  for (uint32_t i = 0; i < 20'000; ++i) some.insert(some.end(), {i, i % 7});
  int num_taken = 0;
  uint64_t of_one = 0;
  absl::Status refused;
  for (int i = 0; i < 1000 && refused.ok(); ++i) {
    refused = server->store.ObserveSoon(KeyNamed(absl::StrCat("h", i)), Sizes(some), kStart);
    if (refused.ok()) ++num_taken;
    if (i == 0) of_one = budget.held();
    EXPECT_LE(budget.held(), kBound);
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
  EXPECT_GT(budget.held() + of_one, kBound);
  const uint64_t full = budget.held();
  for (const std::string name : {"h0", "others"}) {
    // What waits for the first has room for it: the same sizes take no memory.
    EXPECT_EQ(server->store.ObserveSoon(KeyNamed(name), Sizes(some), kStart).ok(), name == "h0");
    EXPECT_EQ(budget.held(), full);
  }
  server->hooked.SetHooks(nullptr, nullptr);
  EXPECT_THAT(server->store.Flush(), IsOk());
  for (int i = 0; i < num_taken; ++i) {
    EXPECT_EQ(All(*a_, absl::StrCat("h", i)).num_graphs(), i == 0 ? 40'000U : 20'000U);
  }
  EXPECT_THAT(a_->store.Get("others", kStart), StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_THAT(a_->store.Get(absl::StrCat("h", num_taken), kStart),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(SharedHistogramStoreTest, WhetherThereIsAHistogramIsUnknownWithoutTheStore) {
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  b_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(b_->store.SchemaOf("h"), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(b_->store.Names(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(b_->store.CountByNamespace(), (std::map<std::string, uint64_t>()));
}

// An answer that needs no transaction is of now, too: of what others have done since, or an error.
TEST_F(SharedHistogramStoreTest, WhatIsAnsweredWithoutATransactionIsOfNow) {
  const ProducerSequence first = {"p", 1};
  const auto observe = [&] {
    const auto counted = a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), first, kStart);
    return counted.ok() ? absl::StrCat(counted->counted, " of ", counted->num_graphs)
                        : absl::StatusCodeToString(counted.status().code());
  };
  const auto nothing = [&](const std::optional<ProducerSequence>& producer) {
    const auto counted = a_->store.Observe(KeyNamed("h"), SizeTable(), producer, kStart);
    return counted.ok() ? absl::StrCat(counted->counted, " of ", counted->num_graphs)
                        : absl::StatusCodeToString(counted.status().code());
  };
  EXPECT_EQ(observe(), "1 of 1");
  EXPECT_THAT(b_->store.Observe(KeyNamed("h"), Sizes({1, 2, 3, 4}), {}, kStart), IsOk());
  const uint64_t before = servers_.num_commits();
  EXPECT_EQ(nothing(std::nullopt), "0 of 3");
  EXPECT_THAT(b_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  EXPECT_EQ(observe(), "0 of 4");
  EXPECT_EQ(servers_.num_commits(), before + 1);
  const auto lost = [] { return absl::UnavailableError("lost"); };
  a_->hooked.SetHooks(lost, lost);
  EXPECT_EQ(observe(), "UNAVAILABLE");
  EXPECT_EQ(nothing(std::nullopt), "UNAVAILABLE");
  a_->hooked.SetHooks(nullptr, nullptr);
  // A producer's is remembered, though it counts nothing.
  EXPECT_EQ(nothing(ProducerSequence{"p", 2}), "0 of 4");
  EXPECT_EQ(b_->store.GetProducer("h", "p")->last(), 2U);
  EXPECT_THAT(b_->store.Delete("h"), IsOk());
  EXPECT_EQ(observe(), "1 of 1");
}

// Those that fit one run share a transaction, and each has its own answer; what does not fit it has
// the next one.
TEST_F(SharedHistogramStoreTest, WhatWaitsTogetherIsMadeInItsOrder) {
  const auto add = [](std::vector<uint32_t> sizes, uint64_t sequence = 0,
                      HistogramKey key = KeyNamed("h")) -> Call {
    return [=](SharedHistogramStore& store) {
      std::optional<ProducerSequence> producer;
      if (sequence != 0) producer = ProducerSequence{"p", sequence};
      return store.Observe(key, Sizes(sizes), producer, kStart);
    };
  };
  const auto take = [](const std::vector<uint32_t>& sizes) -> Call {
    return [sizes](SharedHistogramStore& store) {
      SizeHistogram taken(2);
      EXPECT_THAT(taken.AddTable(Sizes(sizes)), IsOk());
      return store.Subtract(KeyNamed("h"), taken, {}, kStart);
    };
  };
  const HistogramKey others = {"h", SizeSchema::Create({"x", "y"}).value()};
  const auto of_two = NewServer({.max_distinct = 2});
  const struct {
    const char* name;
    CountingServer* server;
    std::vector<uint32_t> before;
    std::vector<Call> calls;
    std::vector<std::string> told;
    int num_commits;
    uint64_t num_graphs;
  } kCases[] = {
      {"one run",
       a_.get(),
       {1, 2},
       {add({3, 4}), add({5, 6, 5, 6}, 1), add({7, 8}, 2)},
       {"1 of 5", "2 of 5", "1 of 5"},
       1,
       5},
      {"taken in between",
       a_.get(),
       {1, 2},
       {add({3, 4}), take({3, 4}), add({5, 6})},
       {"1 of 2", "1 of 1", "1 of 2"},
       3,
       2},
      {"taken twice",
       a_.get(),
       {1, 2, 1, 2},
       {take({1, 2}), take({1, 2}), take({1, 2})},
       {"1 of 1", "1 of 0", "OUT_OF_RANGE"},
       2,
       0},
      {"a new one",
       a_.get(),
       {},
       {add({1, 2}), add({1, 2}, 0, KeyNamed("h", absl::Hours(1))), add({1, 2}, 0, others),
        add({3, 4})},
       {"1 of 1", "FAILED_PRECONDITION", "FAILED_PRECONDITION", "1 of 2"},
       2,
       2},
      {"taken from none", a_.get(), {}, {take({1, 2}), add({1, 2})}, {"NOT_FOUND", "1 of 1"}, 1, 1},
      {"a repetition",
       a_.get(),
       {1, 2},
       {add({3, 4}, 1), add({3, 4}, 1), add({5, 6}, 1), add({7, 8}, 2)},
       {"1 of 2", "0 of 2", "ALREADY_EXISTS", "1 of 3"},
       2,
       3},
      {"a bound of sizes",
       of_two.get(),
       {1, 2},
       {add({3, 4}), add({5, 6}), add({1, 2})},
       {"1 of 2", "RESOURCE_EXHAUSTED", "1 of 3"},
       2,
       3},
  };
  for (const auto& each : kCases) {
    SCOPED_TRACE(each.name);
    if (!each.before.empty()) {
      ASSERT_THAT(b_->store.Observe(KeyNamed("h"), Sizes(each.before), {}, kStart), IsOk());
    }
    const auto [told, num_commits] = CallTogether(*each.server, each.calls);
    EXPECT_EQ(told, each.told);
    EXPECT_EQ(num_commits, each.num_commits);
    EXPECT_EQ(All(*b_, "h").num_graphs(), each.num_graphs);
    EXPECT_EQ(All(*each.server, "h"), All(*b_, "h"));
    ASSERT_THAT(b_->store.Delete("h"), IsOk());
  }
  // Each is more than the half of a run.
  std::vector<uint32_t> many;
  std::vector<uint32_t> more;
  for (uint32_t i = 0; i < 60'000; ++i) {
    many.insert(many.end(), {i, i});
    more.insert(more.end(), {i, i + 1});
  }
  EXPECT_THAT(CallTogether(*a_, {add(many), add(more)}).first,
              testing::ElementsAre("60000 of 60000", "60000 of 120000"));
  EXPECT_EQ(All(*b_, "h").num_graphs(), 120'000U);
}

TEST_F(SharedHistogramStoreTest, WhoIsAlwaysTooLateIsToldToTryAgain) {
  int races = 0;
  a_->hooked.SetHooks(nullptr, [&]() -> absl::Status {
    if (races-- <= 0) return absl::OkStatus();
    return b_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart).status();
  });
  races = 99;
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({3, 4}), {}, kStart), IsOk());
  EXPECT_EQ(All(*b_, "h").num_graphs(), 100U);
  races = 100;
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({3, 4}), {}, kStart),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("faster 100 times")));
  a_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_EQ(All(*a_, "h").num_graphs(), 200U);
}

// The store drops each state as soon as there is a later one, and others change all the time.
TEST_F(SharedHistogramStoreTest, WhatTheStoreForgetsWhileItIsReadIsReadAgain) {
  servers_.SetForgetful(false);
  EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  Revision revision = 1 << 20;
  // Of the head and of the runs, each time.
  int reads = 0;
  b_->hooked.SetHooks(
      [&] {
        if (reads-- > 0) {
          servers_.SkipTo(++revision);
          servers_.Compact(revision);
        }
        return absl::OkStatus();
      },
      nullptr);
  reads = 8;
  EXPECT_THAT(b_->store.Get("h", kStart), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(reads, 0);
  reads = 6;
  EXPECT_EQ(All(*b_, "h").num_graphs(), 1U);
}

TEST_F(SharedHistogramStoreTest, RunsThatAreSmallBesideTheirBaseAreLeft) {
  const auto count = [&](uint32_t num_sizes) {
    std::vector<uint32_t> sizes;
    for (uint32_t i = 0; i < num_sizes; ++i) sizes.insert(sizes.end(), {~i, ~uint32_t{0} - 2 * i});
    EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes(sizes), {}, kStart), IsOk());
  };
  for (size_t i = 1; i <= 3; ++i) {
    count(1);
    EXPECT_EQ(NumEntries(), i);
  }
  // A base; then more than the least number of bytes, but less than the base has.
  count(20'000);
  EXPECT_EQ(NumEntries(), 1U);
  count(7'000);
  EXPECT_EQ(NumEntries(), 2U);
  EXPECT_EQ(All(*b_, "h"), All(*a_, "h"));
}

// Who has all that a base was made of reads on behind it.
TEST_F(SharedHistogramStoreTest, ABaseOfWhatACopyHasIsNotRead) {
  SizeHistogram many(2);
  for (uint32_t i = 0; i < 7000; ++i) ASSERT_THAT(many.Add({~i, ~uint32_t{0} - 2 * i}, 1), IsOk());
  int num_commits = 0;
  a_->hooked.SetHooks(nullptr, [&] {
    // Between the run and the base.
    if (++num_commits == 2) {
      EXPECT_EQ(All(*b_, "h").num_graphs(), 7000U);
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(a_->store.Merge(KeyNamed("h"), many, std::nullopt, kStart), IsOk());
  a_->hooked.SetHooks(nullptr, nullptr);
  EXPECT_EQ(num_commits, 2);
  int num_reads = 0;
  const auto count_reads = [&] {
    num_reads = 0;
    b_->hooked.SetHooks(
        [&] {
          ++num_reads;
          return absl::OkStatus();
        },
        nullptr);
  };
  count_reads();
  EXPECT_EQ(All(*b_, "h"), All(*a_, "h"));
  EXPECT_EQ(num_reads, 1);
  ASSERT_THAT(a_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  count_reads();
  EXPECT_EQ(All(*b_, "h"), All(*a_, "h"));
  EXPECT_EQ(num_reads, 2);
  b_->hooked.SetHooks(nullptr, nullptr);
}

// Of calls that use a histogram: it might be deleted for want of a use.
TEST_F(SharedHistogramStoreTest, AUseThatCannotBeNotedIsRefused) {
  ASSERT_THAT(b_->store.Observe(KeyNamed("h"), Sizes({1, 2}), {}, kStart), IsOk());
  SharedHistogramStore::Options options = {"c", {}, nullptr, *ParseRetention("8h")};
  options.steady_now = [this] { return clock_.Now(); };
  SharedHistogramStore c(&a_->hooked, options, nullptr);
  SizeHistogram sizes(2);
  ASSERT_THAT(sizes.Add({1, 2}), IsOk());
  const std::vector<std::function<absl::Status()>> uses = {
      [&] { return c.Get("h", kStart).status(); },
      [&] { return c.Merge(KeyNamed("h"), sizes, {}, kStart).status(); },
      [&] { return c.Subtract(KeyNamed("h"), sizes, {}, kStart).status(); },
  };
  for (const bool is_of_read : {false, true}) {
    for (const auto& use : uses) {
      clock_.Advance(absl::Hours(2));
      bool has_failed = false;
      const auto fail_once = [&] {
        return std::exchange(has_failed, true) ? absl::OkStatus() : absl::InternalError("no luck");
      };
      a_->hooked.SetHooks(is_of_read ? HookedConnection::Hook(fail_once) : nullptr,
                          is_of_read ? nullptr : HookedConnection::Hook(fail_once));
      EXPECT_THAT(use(), StatusIs(absl::StatusCode::kInternal, HasSubstr("no luck")));
      a_->hooked.SetHooks(nullptr, nullptr);
      EXPECT_EQ(All(*b_, "h").num_graphs(), 1U);
    }
  }
}

TEST_F(SharedHistogramStoreTest, TheNamesAreThoseOfAllServers) {
  for (const char* name : {"team/b", "team-a", "z"}) {
    EXPECT_THAT(a_->store.Observe(KeyNamed(name), Sizes({1, 2}), {}, kStart), IsOk());
  }
  EXPECT_THAT(b_->store.Observe(KeyNamed("a"), Sizes({1, 2}), {}, kStart), IsOk());
  EXPECT_THAT(a_->store.Delete("z"), IsOk());
  // Also at a server that has no copy of any.
  const std::unique_ptr<CountingServer> fresh = NewServer();
  for (const CountingServer* server : {a_.get(), b_.get(), fresh.get()}) {
    EXPECT_THAT(server->store.Names(),
                IsOkAndHolds(std::vector<std::string>{"a", "team-a", "team/b"}));
  }
}

TEST_F(SharedHistogramStoreTest, ANewServerReadsManySmallRunsAtOnce) {
  for (uint32_t part = 0; part < 4; ++part) {
    std::vector<uint32_t> many;
    for (uint32_t i = 0; i < 25'000; ++i) many.insert(many.end(), {1'000'000 + i, part});
    EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes(many), {}, kStart), IsOk());
  }
  std::vector<uint32_t> some;
  for (uint32_t i = 0; i < 1000; ++i) some.insert(some.end(), {1'000'000 + i, 0});
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(a_->store.Observe(KeyNamed("h"), Sizes(some), {}, kStart), IsOk());
  }
  int num_reads = 0;
  b_->hooked.SetHooks(
      [&] {
        ++num_reads;
        return absl::OkStatus();
      },
      nullptr);
  EXPECT_EQ(All(*b_, "h"), All(*a_, "h"));
  EXPECT_LT(num_reads, 20);
}

TEST_F(SharedHistogramStoreTest, CopiesThatNobodyUsesGo) {
  for (const char* name : {"h", "i"}) {
    EXPECT_THAT(a_->store.Observe(KeyNamed(name), Sizes({1, 2}), {}, kStart), IsOk());
  }
  EXPECT_THAT(b_->store.Delete("h"), IsOk());
  a_->store.DropUnused();
  EXPECT_EQ(a_->store.num_histograms(), 2U);
  EXPECT_EQ(All(*a_, "i").num_graphs(), 1U);
  a_->store.DropUnused();
  EXPECT_EQ(a_->store.num_histograms(), 1U);
  a_->store.DropUnused();
  EXPECT_EQ(a_->store.num_histograms(), 0U);
  EXPECT_EQ(All(*a_, "i").num_graphs(), 1U);
}

TEST_F(SharedHistogramStoreTest, CopiesThatNobodyUsesNowMakeRoom) {
  std::vector<uint32_t> some;
  for (uint32_t i = 0; i < 1000; ++i) some.insert(some.end(), {i, i});
  MemoryBudget budget(1 << 20);
  const auto small = NewServer({}, &budget);
  for (int i = 0; i < 50; ++i) {
    const std::string name = absl::StrCat("h", i);
    EXPECT_THAT(a_->store.Observe(KeyNamed(name), Sizes(some), {}, kStart), IsOk());
    EXPECT_EQ(All(*small, name).num_graphs(), 1000U);
  }
  // Those that were used last are left.
  const size_t num_left = small->store.num_histograms();
  EXPECT_LT(num_left, 50U);
  EXPECT_GT(num_left, 1U);
  std::vector<std::string> last;
  for (size_t i = 50 - num_left; i < 50; ++i) last.push_back(absl::StrCat("h", i));
  EXPECT_THAT(small->store.HistogramStore::Names().value(),
              testing::UnorderedElementsAreArray(last));
}

TEST(WaitingCountsTest, OnlySoMuchWaits) {
  WaitingCounts waiting(nullptr);
  const auto add = [&](const std::string& name, uint32_t distinct = 1, absl::Time now = kStart) {
    SizeHistogram sizes(2);
    for (uint32_t i = 0; i < distinct; ++i) EXPECT_THAT(sizes.Add({i, i}), IsOk());
    return waiting.Add(KeyNamed(name), sizes, now);
  };
  const absl::Status full = absl::AbortedError("full");
  for (size_t i = 0; i < WaitingCounts::kMaxHistograms; ++i) {
    ASSERT_THAT(add(absl::StrCat("h", i)), IsOkAndHolds(false));
  }
  EXPECT_THAT(add("more"), IsOkAndHolds(true));
  EXPECT_THAT(add("h0"), IsOkAndHolds(true));
  auto more = waiting.Take("more");
  ASSERT_TRUE(more.has_value());
  EXPECT_THAT(add("h0"), IsOkAndHolds(false));
  EXPECT_EQ(waiting.PutBack(*more, full), full);
  // What was taken is added to what has come since.
  auto h0 = waiting.Take("h0");
  ASSERT_TRUE(h0.has_value());
  EXPECT_EQ(h0->sizes.num_graphs(), 3U);
  EXPECT_FALSE(waiting.Take("h0").has_value());
  EXPECT_THAT(add("h0"), IsOkAndHolds(false));
  EXPECT_THAT(waiting.PutBack(*h0, full), IsOk());
  h0 = waiting.Take("h0");
  ASSERT_TRUE(h0.has_value());
  EXPECT_EQ(h0->sizes.num_graphs(), 4U);
  EXPECT_THAT(waiting.PutBack(*more, full), IsOk());
  EXPECT_TRUE(waiting.Take("more").has_value());
  // Neither is a run of more than the half; both would be more than one.
  EXPECT_THAT(add("h1", 60'000), IsOkAndHolds(true));
  auto h1 = waiting.Take("h1");
  ASSERT_TRUE(h1.has_value());
  EXPECT_THAT(add("h1", 60'000), IsOkAndHolds(true));
  EXPECT_EQ(waiting.PutBack(*h1, full), full);
  EXPECT_EQ(waiting.Take("h1")->sizes.num_graphs(), 60'000U);
  // Time does not go back.
  for (const int later : {0, 1}) {
    for (const int i : {0, 1}) {
      EXPECT_THAT(add("time", 1, kStart + absl::Seconds(i == later ? 2 : 1)), IsOkAndHolds(false));
    }
    EXPECT_EQ(waiting.Take("time")->now, kStart + absl::Seconds(2));
  }
  EXPECT_EQ(waiting.NameAfter("h1"), "h10");
  EXPECT_EQ(waiting.NameAfter("h999"), std::nullopt);
}

TEST(SharedHistogramFormatTest, NoRunTakesMoreThanWasReckoned) {
  Random random(9);
  for (const int bits : {1, 7, 8, 14, 15, 21, 22, 28, 29, 32}) {
    SCOPED_TRACE(bits);
    SizeHistogram sizes(3);
    internal::SharedHistogramRun run;
    constexpr uint32_t kRows = 5000;
    for (uint32_t row = 0; row < kRows; ++row) {
      const uint32_t large = ~uint32_t{0} >> (32 - bits);
      const uint64_t number = random.Below(1000) + 1;
      ASSERT_THAT(sizes.Add({row, large, large}, number), IsOk());
      for (const uint32_t count : {row, large, large}) run.add_counts(count);
      run.add_numbers(number);
    }
    const uint64_t reckoned = shared_histogram::RunBytes(sizes);
    EXPECT_GE(reckoned, run.ByteSizeLong());
    // A byte more of each number, and as if all were as large as the largest.
    EXPECT_LE(reckoned, 4096 + kRows * ((1 + 2) + 2 * (1 + (bits + 6) / 7) + (1 + 4)));
  }
}

// Producers try again, at any server, until they are answered. Requests and answers are lost, come
// late, and servers crash.
// Revisions that a server has seen come again, and name what others have counted since. Some runs
// are large, so that servers write bases.
TEST(SharedHistogramModelTest, CopiesAreEqualAlsoWhenTheStoreWasRestored) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    std::vector<std::unique_ptr<CountingServer>> cluster;
    for (int i = 0; i < 2; ++i) {
      cluster.push_back(std::make_unique<CountingServer>(&servers, absl::StrCat("s", i)));
    }
    std::optional<FakeKeyValueServers::Backup> backup;
    const auto change_some = [&] {
      for (uint64_t step = random.Below(5); step > 0; --step) {
        SharedHistogramStore& store = cluster[random.Below(2)]->store;
        if (random.Below(8) == 0) {
          store.Delete("h").IgnoreError();
          continue;
        }
        std::vector<uint32_t> sizes;
        const uint64_t rows = random.Below(4) == 0 ? 8000 : 1;
        for (uint64_t k = 0; k < 2 * rows; ++k) {
          sizes.push_back(static_cast<uint32_t>(random.Below(1000)));
        }
        ASSERT_THAT(store.Observe(KeyNamed("h"), Sizes(sizes), {}, kStart), IsOk());
      }
    };
    for (int restores = 0; restores < 4; ++restores) {
      change_some();
      backup = servers.TakeBackup();
      change_some();
      servers.Restore(*backup);
      change_some();
      CountingServer fresh(&servers, "fresh");
      const auto expected = fresh.store.Get("h", kStart);
      for (const auto& server : cluster) {
        const auto copy = server->store.Get("h", kStart);
        ASSERT_EQ(copy.status(), expected.status());
        if (!copy.ok()) continue;
        ASSERT_EQ(copy->histogram, expected->histogram);
      }
    }
  }
}

TEST(SharedHistogramModelTest, EachRequestIsCountedOnceWhateverFails) {
  const std::vector<StoreFault> kFaults = {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                           StoreFault::kReplyLost,   StoreFault::kDoneLater,
                                           StoreFault::kCrashBefore, StoreFault::kCrashAfter};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    int num_started = 0;
    const auto start = [&] {
      auto server = std::make_unique<CountingServer>(&servers, absl::StrCat("s", ++num_started));
      server->connection.SetFaults(RandomFaults(random.Next(), 15, kFaults));
      return server;
    };
    std::vector<std::unique_ptr<CountingServer>> cluster;
    for (int i = 0; i < 3; ++i) cluster.push_back(start());
    SizeHistogram expected(2);
    uint64_t num_told = 0;
    uint64_t num_doubtful = 0;
    std::map<std::string, uint64_t> sequences;
    for (int step = 0; step < 40; ++step) {
      const std::string producer = absl::StrCat("p", random.Below(3));
      const uint64_t sequence = ++sequences[producer];
      std::vector<uint32_t> sizes;
      // Some are large enough for a base now and then.
      const uint64_t rows = random.Below(10) == 0 ? 4000 : 1 + random.Below(4);
      for (uint64_t k = 0; k < 2 * rows; ++k) {
        sizes.push_back(static_cast<uint32_t>(random.Below(1000)));
      }
      const SizeTable table = Sizes(sizes);
      ASSERT_THAT(expected.AddTable(table), IsOk());
      bool is_doubtful = false;
      for (;;) {
        std::unique_ptr<CountingServer>& server = cluster[random.Below(cluster.size())];
        const auto counted = server->store.Observe(KeyNamed("h"), table,
                                                   ProducerSequence{producer, sequence}, kStart);
        if (server->connection.crashed()) server = start();
        if (!counted.ok()) {
          ASSERT_THAT(counted, StatusIs(absl::StatusCode::kUnavailable, testing::_));
          is_doubtful = true;
          continue;
        }
        ASSERT_TRUE(counted->counted == rows || is_doubtful) << counted->counted;
        num_told += counted->counted;
        num_doubtful += rows - counted->counted;
        break;
      }
    }
    servers.DoLateRequests();
    EXPECT_EQ(num_told + num_doubtful, expected.num_graphs());
    for (const auto& server : cluster) {
      server->connection.SetFaults(nullptr);
      PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot all, server->store.Get("h", kStart));
      EXPECT_EQ(all.histogram, expected);
    }
  }
}

}  // namespace
}  // namespace packhouse
