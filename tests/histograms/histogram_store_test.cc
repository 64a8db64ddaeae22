#include "service/engine/histograms/histogram_store.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "service/stores/limits/retention.h"
#include "tests/support/accounting.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1000);

HistogramKey Key(std::string name, absl::Duration half_life = absl::InfiniteDuration()) {
  return {std::move(name), SizeSchema::NodesAndEdges(), half_life};
}

SizeTable TableOf(const std::vector<uint32_t>& sizes) {
  return SizeTable::WithConsecutiveIds(sizes.size() / 2, 2, sizes, 0).value();
}

// `num_graphs` graphs of one size.
SizeHistogram HistogramOf(const std::vector<uint32_t>& tuple, uint64_t num_graphs) {
  SizeHistogram histogram(tuple.size());
  EXPECT_THAT(histogram.Add(tuple, num_graphs), IsOk());
  return histogram;
}

ProducerSequence From(std::string producer, uint64_t sequence) {
  return {std::move(producer), sequence};
}

class HistogramStoreTest : public testing::Test {
 protected:
  uint64_t NumGraphs(const std::string& name, absl::Time now = kNow) {
    const auto snapshot = store_.Get(name, now);
    EXPECT_THAT(snapshot, IsOk());
    return snapshot.ok() ? snapshot->histogram.num_graphs() : 0;
  }

  HistogramStore store_{{.max_histograms = 3, .max_distinct = 4, .max_producers = 2}};
};

TEST_F(HistogramStoreTest, ObservationsAddUp) {
  PH_ASSERT_OK_AND_ASSIGN(CountedGraphs counted,
                          store_.Observe(Key("a"), TableOf({1, 2, 3, 4, 1, 2}), {}, kNow));
  EXPECT_EQ(counted.counted, 3);
  EXPECT_EQ(counted.num_graphs, 3);
  PH_ASSERT_OK_AND_ASSIGN(counted, store_.Merge(Key("a"), HistogramOf({3, 4}, 10), {}, kNow));
  EXPECT_EQ(counted.counted, 10);
  EXPECT_EQ(counted.num_graphs, 13);

  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store_.Get("a", kNow));
  EXPECT_EQ(snapshot.schema, SizeSchema::NodesAndEdges());
  EXPECT_EQ(snapshot.half_life, absl::InfiniteDuration());
  EXPECT_EQ(snapshot.histogram.num_distinct(), 2);
  EXPECT_EQ(snapshot.histogram.CountOf({{1, 2}}), 2);
  EXPECT_EQ(snapshot.histogram.CountOf({{3, 4}}), 11);
}

// What an OK says was counted is there, though the call that came first to the name was refused
// meanwhile: what it had made must not go again with what others counted in it.
TEST(HistogramStoreLawTest, WhatIsCountedStaysWhateverElseIsRefused) {
  constexpr size_t kBound = 2000;
  HistogramStore store({.max_histograms = 1000, .max_distinct = kBound, .max_producers = 2});
  std::vector<uint32_t> too_many;
  for (uint32_t i = 0; i <= kBound; ++i) too_many.insert(too_many.end(), {i, i});
  const SizeTable refused = TableOf(too_many);
  const SizeTable accepted = TableOf({1, 2});
  for (int round = 0; round < 200; ++round) {
    const std::string name = absl::StrCat("h", round);
    std::atomic<int> num_ready = 0;
    const auto together = [&] {
      ++num_ready;
      while (num_ready != 3) std::this_thread::yield();
    };
    std::thread first([&] {
      together();
      EXPECT_THAT(store.Observe(Key(name), refused, {}, kNow),
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("distinct")));
    });
    std::atomic<uint64_t> num_counted = 0;
    const auto count = [&] {
      together();
      PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                              store.Observe(Key(name), accepted, {}, kNow));
      num_counted += counted.counted;
    };
    std::thread second(count);
    std::thread third(count);
    first.join();
    second.join();
    third.join();
    PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store.Get(name, kNow));
    ASSERT_EQ(num_counted, 2U);
    ASSERT_EQ(snapshot.histogram.num_graphs(), 2U) << name;
  }
}

// A refused call creates nothing that anybody sees, even for a moment.
TEST(HistogramStoreLawTest, ARefusedCallIsNeverSeen) {
  HistogramStore store({.max_histograms = 3, .max_distinct = 4, .max_producers = 2});
  std::atomic<bool> is_done = false;
  std::thread refused([&] {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_THAT(store.Observe(Key("a"), TableOf({1, 1}), From("worker", 0), kNow),
                  StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
    }
    is_done = true;
  });
  while (!is_done) EXPECT_EQ(store.num_histograms(), 0U);
  refused.join();
}

TEST_F(HistogramStoreTest, AnEmptyTableCreatesTheHistogram) {
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                          store_.Observe(Key("a"), SizeTable(), {}, kNow));
  EXPECT_EQ(counted.counted, 0);
  EXPECT_EQ(counted.num_graphs, 0);
  EXPECT_EQ(store_.num_histograms(), 1);
  EXPECT_EQ(NumGraphs("a"), 0);
}

// A snapshot is a copy.
TEST_F(HistogramStoreTest, SnapshotsDoNotChange) {
  ASSERT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), {}, kNow), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store_.Get("a", kNow));
  ASSERT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), {}, kNow), IsOk());
  ASSERT_THAT(store_.Delete("a"), IsOk());
  EXPECT_EQ(snapshot.histogram.num_graphs(), 1);
}

TEST_F(HistogramStoreTest, NamesAreChecked) {
  const std::string longest(128, 'x');
  for (const std::string& name : {std::string("a"), std::string("run-1/train_v2.0"), longest}) {
    EXPECT_THAT(store_.Observe(Key(name), SizeTable(), {}, kNow), IsOk());
  }
  for (const std::string& name : {std::string(), longest + "x", std::string("a b"),
                                  std::string("a\0b", 3), std::string("\xc3\xa9")}) {
    EXPECT_THAT(store_.Observe(Key(name), SizeTable(), {}, kNow),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name '")));
    EXPECT_THAT(store_.Merge(Key(name), SizeHistogram(2), {}, kNow),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name '")));
    EXPECT_THAT(store_.Subtract(Key(name), SizeHistogram(2), {}, kNow),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name '")));
  }
  EXPECT_EQ(store_.num_histograms(), 3);
  // It is shown without what might disturb a terminal, and no further than a name may be long.
  EXPECT_EQ(store_.Observe(Key(longest + "\n"), SizeTable(), {}, kNow).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "histogram: name '", longest, "' is not 1 to 128 characters of [A-Za-z0-9_./-]")));
  EXPECT_EQ(store_.Observe(Key("a\n"), SizeTable(), {}, kNow).status(),
            absl::InvalidArgumentError(
                "histogram: name 'a\\n' is not 1 to 128 characters of [A-Za-z0-9_./-]"));
}

TEST_F(HistogramStoreTest, HalfLivesArePositive) {
  for (const absl::Duration half_life : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    EXPECT_EQ(store_.Observe(Key("a", half_life), SizeTable(), {}, kNow).status(),
              absl::InvalidArgumentError(absl::StrCat(
                  "histogram: half_life ", absl::FormatDuration(half_life), " is not positive")));
  }
  EXPECT_EQ(store_.num_histograms(), 0);
}

TEST_F(HistogramStoreTest, TheSchemaMustBeThatOfTheHistogram) {
  ASSERT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), {}, kNow), IsOk());
  const HistogramKey other = {"a", SizeSchema::Create({"atoms", "bonds"}).value()};
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "histogram 'a': components [atoms, bonds], it was created with [nodes, edges]");
  EXPECT_THAT(store_.Observe(other, TableOf({1, 2}), {}, kNow), refused);
  EXPECT_THAT(store_.Merge(other, HistogramOf({1, 2}, 1), {}, kNow), refused);
  EXPECT_THAT(store_.Subtract(other, HistogramOf({1, 2}, 1), {}, kNow), refused);
  EXPECT_EQ(NumGraphs("a"), 1);
}

TEST_F(HistogramStoreTest, TheHalfLifeMustBeThatOfTheHistogram) {
  ASSERT_THAT(store_.Observe(Key("a", absl::Hours(1)), TableOf({1, 2}), {}, kNow), IsOk());
  ASSERT_THAT(store_.Observe(Key("forever"), TableOf({1, 2}), {}, kNow), IsOk());
  EXPECT_THAT(store_.Observe(Key("a", absl::Hours(2)), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "histogram 'a': half_life 2h, it was created with 1h"));
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "histogram 'a': half_life inf, it was created with 1h"));
  EXPECT_THAT(store_.Observe(Key("forever", absl::Hours(1)), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "histogram 'forever': half_life 1h, it was created with inf"));
  EXPECT_EQ(NumGraphs("a"), 1);
  EXPECT_EQ(NumGraphs("forever"), 1);
}

TEST_F(HistogramStoreTest, TablesMustSuitTheSchema) {
  const SizeTable one_component = SizeTable::WithConsecutiveIds(1, 1, {5}, 0).value();
  EXPECT_THAT(
      store_.Observe(Key("a"), one_component, {}, kNow),
      StatusIs(absl::StatusCode::kInvalidArgument, "histogram: sizes of 1 components, expected 2"));
  EXPECT_EQ(store_.num_histograms(), 0);
  EXPECT_THAT(store_.Merge(Key("a"), HistogramOf({5}, 1), {}, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 2")));
  EXPECT_THAT(store_.Merge(Key("b", absl::Hours(1)), HistogramOf({5}, 1), {}, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 2")));
}

TEST_F(HistogramStoreTest, CountsDecay) {
  const HistogramKey key = Key("a", absl::Hours(1));
  ASSERT_THAT(store_.Merge(key, HistogramOf({1, 2}, 1000), {}, kNow), IsOk());
  EXPECT_EQ(NumGraphs("a", kNow + absl::Hours(1)), 500);
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                          store_.Observe(key, TableOf({1, 2, 3, 4}), {}, kNow + absl::Hours(2)));
  EXPECT_EQ(counted.counted, 2);
  EXPECT_EQ(counted.num_graphs, 252);
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store_.Get("a", kNow + absl::Hours(2)));
  EXPECT_EQ(snapshot.half_life, absl::Hours(1));
  EXPECT_EQ(snapshot.histogram.CountOf({{1, 2}}), 251);
}

TEST_F(HistogramStoreTest, ARetryCountsOnce) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    PH_ASSERT_OK_AND_ASSIGN(
        const CountedGraphs counted,
        store_.Observe(Key("a"), TableOf({1, 2, 3, 4}), From("worker", 5), kNow));
    EXPECT_EQ(counted.counted, attempt == 0 ? 2 : 0);
    EXPECT_EQ(counted.num_graphs, 2);
  }
  // Other sizes are not taken for those, nor for what a number had that was left out.
  for (const uint64_t sequence : {4, 5}) {
    EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("worker", sequence), kNow),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("its next one is 6")));
  }
  // Gaps are fine.
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                          store_.Observe(Key("a"), TableOf({1, 2}), From("worker", 9), kNow));
  EXPECT_EQ(counted.counted, 1);
  EXPECT_EQ(counted.num_graphs, 3);
}

TEST_F(HistogramStoreTest, SequencesBelongToAProducerAndAHistogram) {
  for (const char* producer : {"one", "two"}) {
    for (const char* name : {"a", "b"}) {
      PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                              store_.Observe(Key(name), TableOf({1, 2}), From(producer, 1), kNow));
      EXPECT_EQ(counted.counted, 1);
    }
  }
  EXPECT_EQ(NumGraphs("a"), 2);
  EXPECT_EQ(NumGraphs("b"), 2);
}

TEST_F(HistogramStoreTest, RetriesOfMergeAndSubtractCountOnce) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_THAT(store_.Merge(Key("a"), HistogramOf({1, 2}, 10), From("worker", 1), kNow), IsOk());
  }
  EXPECT_EQ(NumGraphs("a"), 10);
  for (int attempt = 0; attempt < 2; ++attempt) {
    PH_ASSERT_OK_AND_ASSIGN(
        const CountedGraphs counted,
        store_.Subtract(Key("a"), HistogramOf({1, 2}, 6), From("worker", 2), kNow));
    EXPECT_EQ(counted.counted, attempt == 0 ? 6 : 0);
    EXPECT_EQ(counted.num_graphs, 4);
  }
}

// What was refused was not counted, so its sequence number is still to come.
TEST_F(HistogramStoreTest, AnErrorDoesNotUseUpTheSequence) {
  ASSERT_THAT(store_.Merge(Key("a"), HistogramOf({1, 2}, 10), {}, kNow), IsOk());
  EXPECT_THAT(store_.Subtract(Key("a"), HistogramOf({1, 2}, 11), From("worker", 1), kNow),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("(1, 2), there are 10")));
  PH_ASSERT_OK_AND_ASSIGN(
      const CountedGraphs counted,
      store_.Subtract(Key("a"), HistogramOf({1, 2}, 10), From("worker", 1), kNow));
  EXPECT_EQ(counted.counted, 10);
  EXPECT_EQ(NumGraphs("a"), 0);
}

TEST_F(HistogramStoreTest, ProducersAreChecked) {
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("", 1), kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be 1 to 128")));
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From(std::string(129, 'x'), 1), kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a name of 129 characters")));
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("worker", 0), kNow),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "producer 'worker': sequence 0, must be at least 1"));
  EXPECT_THAT(
      store_.Observe(Key("a"), TableOf({1, 2}), From(std::string(128, 'x'), UINT64_MAX), kNow),
      IsOk());
  EXPECT_EQ(NumGraphs("a"), 1);
}

TEST_F(HistogramStoreTest, SubtractNeedsAnExactHistogram) {
  EXPECT_EQ(store_.Subtract(Key("a"), HistogramOf({1, 2}, 1), {}, kNow).status(),
            absl::NotFoundError("histogram: there is none named 'a'"));
  EXPECT_EQ(store_.num_histograms(), 0);
  ASSERT_THAT(store_.Merge(Key("a", absl::Hours(1)), HistogramOf({1, 2}, 10), {}, kNow), IsOk());
  EXPECT_THAT(store_.Subtract(Key("a", absl::Hours(1)), HistogramOf({1, 2}, 1), {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "histogram 'a' has a half-life: nothing can be subtracted"));
  EXPECT_EQ(NumGraphs("a"), 10);
}

TEST_F(HistogramStoreTest, DeletedIsGoneAndForgetsItsProducers) {
  EXPECT_EQ(store_.Delete("a"), absl::NotFoundError("histogram: there is none named 'a'"));
  EXPECT_THAT(store_.Get("a", kNow), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'a'")));
  ASSERT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("worker", 7), kNow), IsOk());
  ASSERT_THAT(store_.Delete("a"), IsOk());
  EXPECT_EQ(store_.num_histograms(), 0);
  EXPECT_THAT(store_.Get("a", kNow), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'a'")));
  // A new one of this name may be of another kind.
  PH_ASSERT_OK_AND_ASSIGN(
      const CountedGraphs counted,
      store_.Observe(Key("a", absl::Hours(1)), TableOf({1, 2}), From("worker", 1), kNow));
  EXPECT_EQ(counted.num_graphs, 1);
}

TEST_F(HistogramStoreTest, HistogramsHaveABound) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT(store_.Observe(Key(name), SizeTable(), {}, kNow), IsOk());
  }
  EXPECT_THAT(store_.Observe(Key("d"), SizeTable(), {}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, "histogram: there are 3, at most 3"));
  EXPECT_THAT(store_.Observe(Key("c"), TableOf({1, 2}), {}, kNow), IsOk());
  ASSERT_THAT(store_.Delete("a"), IsOk());
  EXPECT_THAT(store_.Observe(Key("d"), SizeTable(), {}, kNow), IsOk());
}

// What is counted of a namespace is its own alone.
TEST(HistogramQuotaTest, EachNamespaceHasItsBound) {
  HistogramStore::Bounds bounds;
  bounds.quotas_of = [](absl::string_view where) {
    Quotas quotas;
    if (where == "team") quotas.histograms = 2;
    if (where == "none") quotas.histograms = 0;
    return quotas;
  };
  HistogramStore store(bounds);
  for (const char* const name : {"team/a", "others/a", "team/b", "others/b", "others/c", "alone"}) {
    EXPECT_THAT(store.Observe(Key(name), TableOf({1, 2}), {}, kNow), IsOk());
  }
  EXPECT_THAT(store.Observe(Key("team/c"), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("team")));
  EXPECT_THAT(store.Observe(Key("none/a"), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("none")));
  EXPECT_THAT(store.Observe(Key("team/a"), TableOf({1, 2}), {}, kNow), IsOk());
  EXPECT_EQ(store.CountByNamespace(),
            (std::map<std::string, uint64_t>{{"default", 1}, {"others", 3}, {"team", 2}}));
  ASSERT_THAT(store.Delete("team/b"), IsOk());
  EXPECT_THAT(store.Observe(Key("team/c"), TableOf({1, 2}), {}, kNow), IsOk());
}

// Of an observation near the bound of sizes each reservation in turn finds no room: it is refused
// as a whole.
TEST(HistogramMemoryTest, AnObservationNearTheBoundIsMadeOrNot) {
  for (const absl::Duration half_life : {absl::InfiniteDuration(), absl::Hours(1)}) {
    SeenBudget seen;
    HistogramStore store({.max_histograms = 3, .max_distinct = 600, .max_producers = 2},
                         seen.memory());
    const HistogramKey key = Key("a", half_life);
    std::vector<uint32_t> known;
    for (uint32_t i = 0; i < 400; ++i) known.insert(known.end(), {i, i});
    ASSERT_THAT(store.Observe(key, TableOf(known), {}, kNow), IsOk());
    // 150 new sizes, each of two graphs; and 201 of them.
    std::vector<uint32_t> few;
    std::vector<uint32_t> many;
    for (uint32_t i = 0; i < 201; ++i) {
      if (i < 150) few.insert(few.end(), {i, 1000, i, 1000});
      many.insert(many.end(), {i, 1000});
    }
    const uint64_t held = seen.held();
    EXPECT_EQ(
        store.Observe(key, TableOf(many), From("p", 1), kNow).status(),
        absl::ResourceExhaustedError("histogram: there would be 601 distinct sizes, at most 600"));
    EXPECT_EQ(seen.held(), held);
    for (uint64_t refused = 0;; ++refused) {
      SCOPED_TRACE(refused);
      seen.RefuseFromNow(refused);
      const auto counted = store.Observe(key, TableOf(few), From("p", 1), kNow);
      const bool has_refused = seen.has_refused();
      seen.RefuseFromNow(SeenBudget::kNone);
      if (!has_refused) {
        ASSERT_THAT(counted, IsOk());
        EXPECT_EQ(counted->counted, 300U);
        EXPECT_EQ(counted->num_graphs, 700U);
        EXPECT_GE(refused, 2U);
        break;
      }
      EXPECT_THAT(counted, StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("histogram 'a': room of ")));
      EXPECT_EQ(seen.held(), held);
      PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store.Get("a", kNow));
      EXPECT_EQ(snapshot.histogram.num_graphs(), 400U);
      EXPECT_EQ(snapshot.histogram.num_distinct(), 400U);
    }
    EXPECT_EQ(store.Get("a", kNow)->histogram.num_distinct(), 550U);
  }
}

TEST(HistogramMemoryTest, WhatIsKeptIsPutBackWithinTheMemory) {
  HistogramStore store({});
  ASSERT_THAT(store.Observe(Key("a"), TableOf({1, 2}), From("p", 1), kNow), IsOk());
  const auto none = absl::NotFoundError("histogram: there is none named 'b'");
  EXPECT_EQ(store.Keep("b", kNow).status(), none);
  EXPECT_EQ(store.UseKept("b", kNow, [](const KeptHistogram&) { return absl::OkStatus(); }), none);
  EXPECT_EQ(store.SchemaOf("b").status(), none);
  PH_ASSERT_OK_AND_ASSIGN(KeptHistogram kept, store.Keep("a", kNow));
  MemoryBudget narrow(100);
  HistogramStore full({}, &narrow);
  EXPECT_THAT(full.PutBack(std::move(kept), kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("histogram 'a': room of ")));
  EXPECT_EQ(full.num_histograms(), 0U);
  EXPECT_EQ(narrow.held(), 0U);
}

// A quota that is lowered while a histogram is made holds for it.
TEST(HistogramQuotaTest, ANewHistogramIsCountedWhenItIsThere) {
  uint64_t most = 1;
  HistogramStore::Bounds bounds;
  bounds.quotas_of = [&](absl::string_view) {
    Quotas quotas;
    quotas.histograms = std::exchange(most, 0);
    return quotas;
  };
  HistogramStore store(bounds);
  EXPECT_THAT(store.Observe(Key("team/a"), TableOf({1, 2}), {}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("team")));
  EXPECT_EQ(store.num_histograms(), 0U);
}

// A number stands for what it had: other sizes, other counts or the other direction are no retry.
TEST_F(HistogramStoreTest, ARetryIsOfTheSameChange) {
  ASSERT_THAT(store_.Merge(Key("a"), HistogramOf({1, 2}, 10), From("w", 1), kNow), IsOk());
  EXPECT_THAT(store_.Merge(Key("a"), HistogramOf({1, 2}, 10), From("w", 1), kNow), IsOk());
  const auto is_other = StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("its next one is 2"));
  EXPECT_THAT(store_.Merge(Key("a"), HistogramOf({1, 2}, 9), From("w", 1), kNow), is_other);
  EXPECT_THAT(store_.Merge(Key("a"), HistogramOf({1, 3}, 10), From("w", 1), kNow), is_other);
  EXPECT_THAT(store_.Subtract(Key("a"), HistogramOf({1, 2}, 10), From("w", 1), kNow), is_other);
  SizeHistogram more = HistogramOf({1, 2}, 10);
  ASSERT_THAT(more.Merge(HistogramOf({5, 5}, 1)), IsOk());
  EXPECT_THAT(store_.Merge(Key("a"), more, From("w", 1), kNow), is_other);
  EXPECT_EQ(NumGraphs("a"), 10);
}

// Those whose time for retries is not over have a bound, too; named ones have their own.
TEST(HistogramProducersTest, ProducersOfOneCallHaveABound) {
  constexpr size_t kBound = HistogramStore::kMaxMadeUpProducers;
  HistogramStore store({.max_histograms = 3, .max_distinct = 4, .max_producers = 1});
  const SizeTable table = TableOf({1, 2});
  const auto observe = [&](uint64_t call, absl::Time now) {
    ProducerSequence producer = From(absl::StrCat("made up ", call), 1);
    producer.forget_after = absl::Minutes(1);
    producer.now = now;
    return store.Observe(Key("a"), table, producer, now).status();
  };
  for (uint64_t call = 0; call < kBound; ++call) ASSERT_THAT(observe(call, kNow), IsOk());
  EXPECT_THAT(observe(kBound, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "histogram: there are 65536 producers whose names were made up for one call "
                       "and whose time for retries is not over, at most 65536"));
  // Who is known is answered, and who has a name has other room.
  EXPECT_THAT(observe(7, kNow), IsOk());
  EXPECT_THAT(store.Observe(Key("a"), table, From("named", 1), kNow), IsOk());
  EXPECT_THAT(observe(kBound, kNow + absl::Minutes(2)), IsOk());
}

// However far a producer goes back, nothing that was not counted is taken for counted.
TEST_F(HistogramStoreTest, AnOldNumberIsKnownOrRefused) {
  const auto table = [](uint64_t sequence) {
    return TableOf({static_cast<uint32_t>(sequence % 2), 2});
  };
  constexpr uint64_t kNumbers = HistogramStore::kRememberedSequences + 5;
  for (uint64_t sequence = 1; sequence <= kNumbers; ++sequence) {
    ASSERT_THAT(store_.Observe(Key("a"), table(sequence), From("p", sequence), kNow), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const ProducerHistory history, store_.GetProducer("a", "p"));
  EXPECT_EQ(history.first_remembered(), 6);
  EXPECT_EQ(history.last(), kNumbers);
  for (const uint64_t sequence : {uint64_t{1}, uint64_t{5}, uint64_t{6}, kNumbers}) {
    const auto again = store_.Observe(Key("a"), table(sequence), From("p", sequence), kNow);
    if (sequence < 6) {
      EXPECT_THAT(again, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is older than")));
    } else {
      ASSERT_THAT(again, IsOk());
      EXPECT_EQ(again->counted, 0);
    }
    EXPECT_THAT(store_.Observe(Key("a"), table(sequence + 1), From("p", sequence), kNow),
                StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
  }
  EXPECT_EQ(NumGraphs("a"), kNumbers);
  EXPECT_EQ(store_.GetProducer("none", "p")->last(), 0);
}

TEST_F(HistogramStoreTest, ProducersOfOneCallAreLetGo) {
  for (uint64_t call = 0; call < 10'000; ++call) {
    ProducerSequence producer = From(absl::StrCat("made up ", call), 1);
    producer.forget_after = absl::Minutes(1);
    producer.now = kNow + absl::Seconds(call);
    for (const uint64_t counted : {1, 0}) {
      const auto result = store_.Observe(Key("a"), TableOf({1, 2}), producer, kNow);
      ASSERT_THAT(result, IsOk());
      ASSERT_EQ(result->counted, counted);
    }
  }
  // Those of the last minute are there, and named ones have all their room.
  PH_ASSERT_OK_AND_ASSIGN(const KeptHistogram kept, store_.Keep("a", kNow));
  EXPECT_LE(kept.producers.size(), 62);
  for (const char* producer : {"one", "two"}) {
    EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From(producer, 1), kNow), IsOk());
  }
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("three", 1), kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST_F(HistogramStoreTest, ProducersHaveABound) {
  for (const char* producer : {"one", "two"}) {
    ASSERT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From(producer, 1), kNow), IsOk());
  }
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("three", 1), kNow),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "histogram: there are 2 producers, at most 2"));
  EXPECT_THAT(store_.Observe(Key("a"), TableOf({1, 2}), From("two", 2), kNow), IsOk());
  EXPECT_EQ(NumGraphs("a"), 3);
}

TEST_F(HistogramStoreTest, DistinctSizesHaveABound) {
  const auto exhausted = StatusIs(absl::StatusCode::kResourceExhausted,
                                  "histogram: there would be 5 distinct sizes, at most 4");
  for (const absl::Duration half_life : {absl::InfiniteDuration(), absl::Hours(1)}) {
    SCOPED_TRACE(absl::FormatDuration(half_life));
    const HistogramKey key =
        Key(half_life == absl::InfiniteDuration() ? "exact" : "decaying", half_life);
    ASSERT_THAT(store_.Observe(key, TableOf({1, 1, 2, 2, 3, 3}), {}, kNow), IsOk());
    // Known sizes take no room, however many there are.
    ASSERT_THAT(store_.Observe(key, TableOf({1, 1, 2, 2, 1, 1, 3, 3, 1, 1}), {}, kNow), IsOk());
    EXPECT_THAT(store_.Observe(key, TableOf({4, 4, 1, 1, 5, 5}), {}, kNow), exhausted);
    EXPECT_EQ(NumGraphs(key.name), 8);
    SizeHistogram two_new = HistogramOf({4, 4}, 1);
    ASSERT_THAT(two_new.Merge(HistogramOf({5, 5}, 1)), IsOk());
    EXPECT_THAT(store_.Merge(key, two_new, {}, kNow), exhausted);
    EXPECT_EQ(NumGraphs(key.name), 8);
    ASSERT_THAT(store_.Observe(key, TableOf({4, 4}), {}, kNow), IsOk());
    EXPECT_EQ(NumGraphs(key.name), 9);
  }
}

// What has decayed to nothing makes room: a full histogram does not stay full for good.
TEST_F(HistogramStoreTest, ForgottenSizesMakeRoom) {
  const HistogramKey key = Key("a", absl::Hours(1));
  ASSERT_THAT(store_.Observe(key, TableOf({1, 1, 2, 2, 3, 3, 4, 4}), {}, kNow), IsOk());
  EXPECT_THAT(store_.Observe(key, TableOf({5, 5}), {}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("5 distinct sizes")));
  PH_ASSERT_OK_AND_ASSIGN(const CountedGraphs counted,
                          store_.Observe(key, TableOf({5, 5}), {}, kNow + absl::Hours(40)));
  EXPECT_EQ(counted.num_graphs, 1);
  EXPECT_THAT(store_.Merge(key, HistogramOf({6, 6}, 1), {}, kNow + absl::Hours(80)), IsOk());
}

// What stores ask that keep copies here.
class CheckedStore final : public HistogramStore {
 public:
  explicit CheckedStore(MemoryBudget* memory = nullptr) : HistogramStore(Bounds(), memory) {}
  using HistogramStore::CheckChange;
  using HistogramStore::HistoryOf;
  using HistogramStore::NumGraphsOf;
  using HistogramStore::Remember;
  using HistogramStore::SizesOf;
};

TEST(HistogramChecksTest, AChangeIsRefusedByItsFirstReason) {
  CheckedStore store;
  ASSERT_THAT(store.Merge(Key("exact"), HistogramOf({1, 2}, 10), From("p", 1), kNow), IsOk());
  ASSERT_THAT(store.Merge(Key("decaying", absl::Hours(1)), HistogramOf({1, 2}, 10), {}, kNow),
              IsOk());
  const auto check = [&](const HistogramKey& key, const SizeHistogram& sizes, bool subtracts,
                         const std::optional<ProducerSequence>& producer = std::nullopt,
                         size_t max_producers = 1, size_t max_distinct = 2) {
    HistogramStore::Bounds bounds;
    bounds.max_producers = max_producers;
    bounds.max_distinct = max_distinct;
    return store.CheckChange(key, sizes, subtracts, producer, kNow, bounds);
  };
  const SizeHistogram one = HistogramOf({1, 2}, 1);
  SizeHistogram three = HistogramOf({1, 2}, 1);
  ASSERT_THAT(three.Merge(HistogramOf({3, 4}, 1)), IsOk());
  ASSERT_THAT(three.Merge(HistogramOf({5, 6}, 1)), IsOk());
  const absl::Status too_many =
      absl::ResourceExhaustedError("histogram: there would be 3 distinct sizes, at most 2");
  EXPECT_THAT(check(Key("none"), one, false), IsOk());
  EXPECT_EQ(check(Key("none"), one, true),
            absl::NotFoundError("histogram: there is none named 'none'"));
  EXPECT_EQ(check(Key("none"), three, false), too_many);
  EXPECT_THAT(check(Key("none"), one, false, From("p", 1), 1), IsOk());
  EXPECT_EQ(check(Key("none"), one, false, From("p", 1), 0),
            absl::ResourceExhaustedError("histogram: there are 0 producers, at most 0"));
  EXPECT_EQ(
      check(Key("exact", absl::Hours(1)), one, false),
      absl::FailedPreconditionError("histogram 'exact': half_life 1h, it was created with inf"));
  EXPECT_THAT(check(Key("exact"), one, false, From("p", 2)), IsOk());
  EXPECT_EQ(check(Key("exact"), one, false, From("q", 1)),
            absl::ResourceExhaustedError("histogram: there are 1 producers, at most 1"));
  for (const char* const name : {"exact", "decaying"}) {
    const HistogramKey key = {name, SizeSchema::NodesAndEdges()};
    EXPECT_EQ(check(key, three, false), too_many);
    EXPECT_THAT(check(key, three, false, std::nullopt, 1, 3), IsOk());
  }
  EXPECT_THAT(check(Key("exact"), HistogramOf({0, 0}, UINT64_MAX - 10), false), IsOk());
  EXPECT_EQ(check(Key("exact"), HistogramOf({0, 0}, UINT64_MAX - 9), false),
            absl::ResourceExhaustedError("histogram 'exact': more than 2^64 - 1 graphs"));
  // It has 20 rows of the second component.
  EXPECT_THAT(check(Key("exact"), HistogramOf({0, 1}, UINT64_MAX - 20), false), IsOk());
  EXPECT_EQ(
      check(Key("exact"), HistogramOf({0, 1}, UINT64_MAX - 19), false),
      absl::ResourceExhaustedError("histogram 'exact': component 1 would exceed 2^64 - 1 in all"));
  EXPECT_THAT(check(Key("exact"), HistogramOf({1, 2}, 10), true), IsOk());
  EXPECT_EQ(check(Key("exact"), HistogramOf({1, 2}, 11), true),
            absl::OutOfRangeError("histogram 'exact': there are 10 graphs of size (1, 2), 11 would "
                                  "be taken away"));
  EXPECT_EQ(check({"decaying", SizeSchema::NodesAndEdges()}, one, true),
            absl::FailedPreconditionError(
                "histogram 'decaying' has a half-life: nothing can be subtracted"));
}

TEST(HistogramChecksTest, WhatIsRememberedTakesMemory) {
  MemoryBudget memory(uint64_t{1} << 20);
  CheckedStore store(&memory);
  EXPECT_EQ(store.Remember("a", From("p", 1), 7),
            absl::NotFoundError("histogram: there is none named 'a'"));
  ASSERT_THAT(store.Observe(Key("a"), TableOf({1, 2}), {}, kNow), IsOk());
  EXPECT_EQ(store.NumGraphsOf("a", kNow), 1U);
  EXPECT_EQ(store.NumGraphsOf("none", kNow), 0U);
  EXPECT_EQ(store.HistoryOf("none", "p"), ProducerHistory());
  const uint64_t before = memory.held();
  ASSERT_THAT(store.Remember("a", From("p", 1), 7), IsOk());
  EXPECT_EQ(store.HistoryOf("a", "p"), ProducerHistory(1, {7}, 0));
  // A producer's place, its name twice, and a digest twice.
  EXPECT_EQ(memory.held() - before, 256U + 2 + 8);
  ASSERT_THAT(store.Remember("a", From("p", 3), 8), IsOk());
  EXPECT_EQ(store.HistoryOf("a", "p"), ProducerHistory(3, {7, 0, 8}, 0));
  EXPECT_EQ(memory.held() - before, 256U + 2 + 3 * 8);
  {
    const MemoryHold rest = *memory.Hold("the rest", memory.bound() - memory.held());
    EXPECT_EQ(store.Remember("a", From("q", 1), 7).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(store.HistoryOf("a", "q"), ProducerHistory());
    EXPECT_EQ(store.SizesOf(Key("a"), TableOf({1, 2})).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(store.SizesOf(Key("a"), SizeTable::WithConsecutiveIds(1, 1, {5}, 0).value()).status(),
            absl::InvalidArgumentError("histogram: sizes of 1 components, expected 2"));
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram sizes,
                          store.SizesOf(Key("a"), TableOf({1, 2, 1, 2})));
  EXPECT_EQ(sizes, HistogramOf({1, 2}, 2));
  ASSERT_THAT(store.Delete("a"), IsOk());
  EXPECT_EQ(memory.held(), 0U);
}

// One whose name was made up is there once, by its last time.
TEST(HistogramChecksTest, AMadeUpNameIsForgottenAfterItsLastRequest) {
  CheckedStore store;
  const auto observe = [&](const std::string& name, uint64_t sequence, absl::Duration after) {
    ProducerSequence producer = From(name, sequence);
    producer.forget_after = absl::Minutes(1);
    producer.now = kNow + after;
    EXPECT_THAT(store.Observe(Key("a"), TableOf({1, 2}), producer, kNow), IsOk());
  };
  const auto is_known = [&](const std::string& name) {
    return store.HistoryOf("a", name).last() != 0;
  };
  observe("first", 1, absl::ZeroDuration());
  observe("second", 1, absl::Seconds(10));
  observe("first", 2, absl::Seconds(50));
  // Those of before a minute go when another one comes.
  observe("first", 3, absl::Seconds(71));
  EXPECT_TRUE(is_known("second"));
  observe("third", 1, absl::Seconds(70));
  EXPECT_TRUE(is_known("second"));
  observe("fourth", 1, absl::Seconds(71));
  EXPECT_FALSE(is_known("second"));
  EXPECT_TRUE(is_known("first"));
  // As what was put back.
  PH_ASSERT_OK_AND_ASSIGN(KeptHistogram kept, store.Keep("a", kNow));
  ASSERT_THAT(store.Delete("a"), IsOk());
  ASSERT_THAT(store.PutBack(std::move(kept), kNow), IsOk());
  observe("fifth", 1, absl::Seconds(131));
  EXPECT_TRUE(is_known("first"));
  EXPECT_FALSE(is_known("third"));
  EXPECT_TRUE(is_known("fourth"));
  observe("sixth", 1, absl::Seconds(132));
  EXPECT_FALSE(is_known("first"));
  EXPECT_FALSE(is_known("fourth"));
}

// Whatever the interleaving: all observations are counted, each once, though every request is sent
// twice and others create, read and delete histograms at the same time.
TEST(HistogramStoreConcurrencyTest, ConcurrentObserversAddUp) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 200;
  HistogramStore store(HistogramStore::Bounds{});
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::vector<SizeHistogram> sent(kThreads, SizeHistogram(2));
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&store, &sent, t] {
      Random random(t);
      const std::string name = "worker-" + std::to_string(t);
      for (uint64_t sequence = 1; sequence <= kRequests; ++sequence) {
        std::vector<uint32_t> sizes;
        for (uint64_t i = 2 * random.Below(20); i != 0; --i) {
          sizes.push_back(static_cast<uint32_t>(random.Below(8)));
        }
        const SizeTable table = TableOf(sizes);
        ASSERT_THAT(sent[t].AddTable(table), IsOk());
        for (int attempt = 0; attempt < 2; ++attempt) {
          ASSERT_THAT(store.Observe(Key("shared"), table, From(name, sequence), kNow), IsOk());
        }
        ASSERT_THAT(store.Observe(Key("decaying", absl::Hours(1)), table, {}, kNow), IsOk());
        ASSERT_THAT(store.Observe(Key(name), table, {}, kNow), IsOk());
        // This one comes and goes by all threads; only that it may be missing is known.
        ASSERT_THAT(store.Observe(Key("fleeting"), table, {}, kNow), IsOk());
        store.Delete("fleeting").IgnoreError();
        PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store.Get("shared", kNow));
        ASSERT_GE(snapshot.histogram.num_graphs(), sent[t].num_graphs());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  SizeHistogram all(2);
  for (int t = 0; t < kThreads; ++t) {
    PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot own,
                            store.Get("worker-" + std::to_string(t), kNow));
    EXPECT_EQ(own.histogram, sent[t]);
    ASSERT_THAT(all.Merge(sent[t]), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot shared, store.Get("shared", kNow));
  EXPECT_EQ(shared.histogram, all);
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot decaying, store.Get("decaying", kNow));
  EXPECT_EQ(decaying.histogram, all);
  EXPECT_EQ(store.num_histograms(), kThreads + 2);
}

// All threads send the same sequence: one of them is counted.
TEST(HistogramStoreConcurrencyTest, ARetryFromAnotherThreadCountsOnce) {
  constexpr int kRequests = 300;
  HistogramStore store(HistogramStore::Bounds{});
  std::vector<std::thread> threads;
  std::vector<uint64_t> counted(4, 0);
  threads.reserve(counted.size());
  for (uint64_t& mine : counted) {
    threads.emplace_back([&store, &mine] {
      for (uint64_t sequence = 1; sequence <= kRequests; ++sequence) {
        const auto result =
            store.Observe(Key("a"), TableOf({1, 2}), From("worker", sequence), kNow);
        ASSERT_THAT(result, IsOk());
        mine += result->counted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  PH_ASSERT_OK_AND_ASSIGN(const HistogramSnapshot snapshot, store.Get("a", kNow));
  // A thread that lags behind finds its numbers counted already, so each number counts once.
  uint64_t total = 0;
  for (const uint64_t mine : counted) total += mine;
  EXPECT_EQ(total, snapshot.histogram.num_graphs());
  EXPECT_EQ(total, kRequests);
}

// What is changed or read stays; what is not goes in its time, and its memory with it.
TEST(HistogramRetentionTest, WhatNobodyUsesGoes) {
  MemoryBudget memory(uint64_t{1} << 30);
  HistogramStore store(HistogramStore::Bounds{}, &memory);
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("8h,kept=0s,short=1h"));
  for (const char* const name : {"read", "changed", "unused", "kept/a", "short/a"}) {
    ASSERT_THAT(store.Observe(Key(name), TableOf({1, 2}), {}, kNow), IsOk());
  }
  const auto gone_at = [&](absl::Duration after) {
    std::vector<std::string> names;
    for (const Expired& one : store.DeleteUnused(retention, kNow + after)) {
      EXPECT_GT(one.num_bytes, 0U);
      names.push_back(one.name);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_THAT(gone_at(absl::Minutes(59)), testing::IsEmpty());
  EXPECT_THAT(gone_at(absl::Hours(1)), testing::ElementsAre("short/a"));
  {
    const auto copy = store.Get("read", kNow + absl::Hours(2));
    ASSERT_THAT(copy, IsOk());
  }
  ASSERT_THAT(store.Observe(Key("changed"), TableOf({1, 2}), {}, kNow + absl::Hours(2)), IsOk());
  EXPECT_THAT(gone_at(absl::Hours(8)), testing::ElementsAre("unused"));
  // What a call has stays until it is given back.
  EXPECT_THAT(store.UseKept("read", kNow + absl::Hours(10),
                            [&](const KeptHistogram&) {
                              std::thread([&] {
                                EXPECT_THAT(gone_at(absl::Hours(10)),
                                            testing::ElementsAre("changed"));
                              }).join();
                              return absl::OkStatus();
                            }),
              IsOk());
  EXPECT_TRUE(store.DeleteUnused(Retention(), kNow + absl::Hours(1000)).empty());
  EXPECT_THAT(gone_at(absl::Hours(10)), testing::ElementsAre("read"));
  EXPECT_THAT(store.Names(), IsOkAndHolds(std::vector<std::string>{"kept/a"}));
  ASSERT_THAT(store.Delete("kept/a"), IsOk());
  EXPECT_EQ(memory.held(), 0U);
}

}  // namespace
}  // namespace packhouse
