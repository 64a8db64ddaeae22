// The laws of the file of named histograms: they go on as if the server had not ended, and no
// damage goes unseen.
#include "service/engine/histograms/histogram_file.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

const absl::Time kBegin = absl::FromUnixSeconds(1'700'000'000);

std::string BytesOfHistograms(const HistogramStore& store, absl::Time now) {
  std::string bytes;
  EXPECT_THAT(WriteHistograms(store, now,
                              [&bytes](absl::string_view part) {
                                bytes.append(part.data(), part.size());
                                return absl::OkStatus();
                              }),
              IsOk());
  return bytes;
}

// One of a few histograms, exact and decaying, changed in some way.
std::string ChangeAtRandom(HistogramStore& store, uint64_t seed, absl::Time now) {
  Random random(seed);
  const uint64_t which = random.Below(4);
  HistogramKey key = {
      absl::StrCat("team/", which),
      which == 3 ? SizeSchema::Create({"a", "b", "c"}).value() : SizeSchema::NodesAndEdges()};
  if (which == 2) key.half_life = absl::Nanoseconds(2'500'000'001);
  const size_t width = key.schema.num_components();
  std::vector<uint32_t> sizes;
  for (uint64_t i = width * random.Between(1, 40); i > 0; --i) {
    sizes.push_back(static_cast<uint32_t>(random.Below(9)));
  }
  const auto table = SizeTable::WithConsecutiveIds(sizes.size() / width, width, sizes, 0).value();
  std::optional<ProducerSequence> producer;
  if (random.Below(2) == 0) producer = {absl::StrCat("p", random.Below(3)), random.Between(1, 60)};
  absl::StatusOr<CountedGraphs> counted;
  if (random.Below(4) == 0) {
    SizeHistogram some(width);
    EXPECT_THAT(some.Add(absl::MakeConstSpan(sizes).subspan(0, width)), IsOk());
    counted = store.Subtract(key, some, producer, now);
  } else {
    counted = store.Observe(key, table, producer, now);
  }
  return counted.ok() ? absl::StrCat(counted->counted, " of ", counted->num_graphs)
                      : counted.status().ToString();
}

class HistogramFileTest : public ::testing::Test {
 protected:
  std::string ReadAll() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  absl::StatusOr<uint64_t> Check() const {
    return ReadHistogramFile(path_, nullptr, [](const KeptHistogram&) { return absl::OkStatus(); });
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string path_ = folder_.path() + "/" + kHistogramsFile;
};

// The bits of the decaying ones too, and repetitions, and refusals.
TEST_F(HistogramFileTest, WhatIsReadGoesOnAsWhatWasWritten) {
  auto restarted = std::make_unique<HistogramStore>(HistogramStore::Bounds());
  HistogramStore always({});
  absl::Time now = kBegin;
  for (uint64_t step = 0; step < 400; ++step) {
    SCOPED_TRACE(step);
    now += absl::Milliseconds(777);
    ASSERT_EQ(ChangeAtRandom(*restarted, step, now), ChangeAtRandom(always, step, now));
    if (step % 50 != 49) continue;
    ASSERT_THAT(SaveHistogramFile(*restarted, folder_.path(), now), IsOk());
    EXPECT_EQ(ReadAll(), BytesOfHistograms(always, now));
    EXPECT_THAT(Check(), IsOkAndHolds(always.num_histograms()));
    restarted = std::make_unique<HistogramStore>(HistogramStore::Bounds());
    ASSERT_THAT(LoadHistogramFile(folder_.path(), now, nullptr, *restarted), IsOk());
    EXPECT_EQ(restarted->num_changes(), 0U);
  }
  EXPECT_GT(always.Get("team/2", now)->histogram.num_graphs(), 0U);
  // Those who look later see the same.
  now += absl::Seconds(4);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, always.Names());
  for (const std::string& name : names) {
    EXPECT_TRUE(restarted->Get(name, now)->histogram == always.Get(name, now)->histogram) << name;
  }
}

// More rows than are in one section.
TEST_F(HistogramFileTest, ManySizes) {
  HistogramStore store({});
  SizeHistogram many(2);
  for (uint32_t i = 0; i < 40'000; ++i) ASSERT_THAT(many.Add({{i, i % 7}}, i + 1), IsOk());
  ASSERT_THAT(store.Merge({"many", SizeSchema::NodesAndEdges()}, many, {}, kBegin), IsOk());
  ASSERT_THAT(SaveHistogramFile(store, folder_.path(), kBegin), IsOk());
  HistogramStore loaded({});
  ASSERT_THAT(LoadHistogramFile(folder_.path(), kBegin, nullptr, loaded), IsOk());
  EXPECT_TRUE(loaded.Get("many", kBegin)->histogram == many);
}

TEST_F(HistogramFileTest, EveryDamageIsFound) {
  HistogramStore store({});
  for (uint64_t step = 0; step < 8; ++step) ChangeAtRandom(store, step, kBegin);
  ASSERT_THAT(SaveHistogramFile(store, folder_.path(), kBegin), IsOk());
  const std::string sound = ReadAll();
  const auto lost = StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_));
  for (size_t at = 0; at < sound.size(); ++at) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    Write(damaged);
    EXPECT_THAT(Check(), lost) << "byte " << at;
    Write(sound.substr(0, at));
    EXPECT_THAT(Check(), lost) << "cut off at " << at;
  }
  Write(sound + '\0');
  EXPECT_THAT(Check(), lost);
  HistogramStore loaded({});
  EXPECT_THAT(LoadHistogramFile(folder_.path(), kBegin, nullptr, loaded),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("without the file")));
}

TEST_F(HistogramFileTest, WithoutAFileThereIsNothingToLoad) {
  HistogramStore store({});
  EXPECT_THAT(LoadHistogramFile(folder_.path(), kBegin, nullptr, store), IsOk());
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kNotFound, _));
}

// Also while it is written and read; one that no copy has room for is written as it is.
TEST_F(HistogramFileTest, MemoryIsReservedFirst) {
  SizeHistogram many(2);
  for (uint32_t i = 0; i < 10'000; ++i) ASSERT_THAT(many.Add({{i, 1}}), IsOk());
  const HistogramKey key = {"many", SizeSchema::NodesAndEdges()};
  MemoryBudget wide(uint64_t{1} << 30);
  HistogramStore store({}, &wide);
  ASSERT_THAT(store.Merge(key, many, {}, kBegin), IsOk());
  ASSERT_THAT(SaveHistogramFile(store, folder_.path(), kBegin), IsOk());
  const uint64_t held = wide.held();
  EXPECT_EQ(store.Keep("many", kBegin)->memory.bytes(), held);

  // Room for a histogram, and then none for its copy.
  MemoryBudget narrow(SizeHistogram::BytesFor(10'000, 2) + 4096);
  HistogramStore full({}, &narrow);
  ASSERT_THAT(LoadHistogramFile(folder_.path(), kBegin, &narrow, full), IsOk());
  EXPECT_GT(narrow.held(), many.bytes() / 2);
  const std::string before = ReadAll();
  const MemoryHold rest = *narrow.Hold("the rest", narrow.bound() - narrow.held());
  EXPECT_THAT(full.Keep("many", kBegin),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("many")));
  Write("");
  EXPECT_THAT(SaveHistogramFile(full, folder_.path(), kBegin), IsOk());
  EXPECT_EQ(ReadAll(), before);
  EXPECT_THAT(
      full.UseKept("many", kBegin, [](const KeptHistogram&) { return absl::AbortedError("no"); }),
      StatusIs(absl::StatusCode::kAborted, _));
  EXPECT_THAT(full.UseKept("many", kBegin,
                           [&](const KeptHistogram& kept) {
                             EXPECT_EQ(std::get<SizeHistogram>(kept.histogram), many);
                             return absl::OkStatus();
                           }),
              IsOk());

  MemoryBudget none(1000);
  HistogramStore empty({}, &none);
  EXPECT_THAT(LoadHistogramFile(folder_.path(), kBegin, &none, empty),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("many")));
  EXPECT_EQ(none.held(), 0U);
  EXPECT_EQ(empty.num_histograms(), 0U);
}

// Otherwise a server that had used all of its memory could not start again.
TEST_F(HistogramFileTest, TheMemoryThatTheyHadIsEnoughToReadThem) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    MemoryBudget wide(uint64_t{1} << 30);
    HistogramStore store({}, &wide);
    const uint64_t number = random.Between(1, 6);
    for (uint64_t which = 0; which < number; ++which) {
      HistogramKey key = {absl::StrCat("of", which), SizeSchema::Create({"a", "b", "c"}).value()};
      if (random.Below(3) == 0) key.half_life = absl::Hours(1);
      const uint64_t kinds = random.Between(1, 100'000);
      for (uint64_t calls = random.Between(1, 4); calls > 0; --calls) {
        std::vector<uint32_t> sizes;
        for (uint64_t i = 3 * random.Between(1, 4000); i > 0; --i) {
          sizes.push_back(static_cast<uint32_t>(random.Below(kinds)));
        }
        const auto table = SizeTable::WithConsecutiveIds(sizes.size() / 3, 3, sizes, 0).value();
        const ProducerSequence producer = {absl::StrCat("p", calls), 1};
        ASSERT_THAT(store.Observe(key, table, producer, kBegin).status(), IsOk());
      }
    }
    ASSERT_THAT(SaveHistogramFile(store, folder_.path(), kBegin), IsOk());
    MemoryBudget same(wide.held() + uint64_t{3} * 6 * 1024);
    HistogramStore loaded({}, &same);
    EXPECT_THAT(LoadHistogramFile(folder_.path(), kBegin, &same, loaded), IsOk());
    EXPECT_LE(same.held(), wide.held());
    EXPECT_TRUE(BytesOfHistograms(loaded, kBegin) == ReadAll());
  }
}

// Time without a server is no time in which nobody used it, and to be saved is no use.
TEST_F(HistogramFileTest, RetentionGoesOn) {
  HistogramStore store({});
  const Retention retention = *ParseRetention("8h");
  ASSERT_THAT(store.Observe({"team/a", SizeSchema::NodesAndEdges()}, SizeTable(), {}, kBegin),
              IsOk());
  const absl::Time saved = kBegin + absl::Hours(5);
  ASSERT_THAT(SaveHistogramFile(store, folder_.path(), saved), IsOk());
  HistogramStore loaded({});
  const absl::Time started = saved + absl::Hours(1000);
  ASSERT_THAT(LoadHistogramFile(folder_.path(), started, nullptr, loaded), IsOk());
  EXPECT_TRUE(loaded.DeleteUnused(retention, started + absl::Hours(2)).empty());
  EXPECT_EQ(loaded.DeleteUnused(retention, started + absl::Hours(3)).size(), 1U);
}

TEST_F(HistogramFileTest, ChangesAreCounted) {
  HistogramStore store({});
  const HistogramKey key = {"a", SizeSchema::NodesAndEdges()};
  const SizeTable one = SizeTable::WithConsecutiveIds(1, 2, {3, 4}, 0).value();
  uint64_t before = store.num_changes();
  const auto has_changed = [&] {
    const uint64_t last = before;
    before = store.num_changes();
    return before != last;
  };
  ASSERT_THAT(store.Observe(key, one, ProducerSequence{"p", 1}, kBegin), IsOk());
  EXPECT_TRUE(has_changed());
  ASSERT_THAT(store.Observe(key, one, ProducerSequence{"p", 1}, kBegin), IsOk());
  EXPECT_FALSE(has_changed());
  EXPECT_THAT(store.Get("a", kBegin), IsOk());
  EXPECT_THAT(store.Keep("a", kBegin), IsOk());
  EXPECT_FALSE(has_changed());
  EXPECT_THAT(store.Keep("a", kBegin + absl::Hours(1)), IsOk());
  EXPECT_FALSE(has_changed());
  EXPECT_THAT(store.Get("a", kBegin + absl::Hours(1)), IsOk());
  EXPECT_TRUE(has_changed());
  ASSERT_THAT(store.Delete("a"), IsOk());
  EXPECT_TRUE(has_changed());
}

TEST_F(HistogramFileTest, WhatIsThereIsNotReplaced) {
  HistogramStore store({});
  ASSERT_THAT(store.Observe({"a", SizeSchema::NodesAndEdges()}, SizeTable(), {}, kBegin), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(KeptHistogram kept, store.Keep("a", kBegin));
  EXPECT_THAT(store.PutBack(std::move(kept), kBegin),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a")));
}

}  // namespace
}  // namespace packhouse
