// The laws of the file of named histograms: they go on as if the server had not ended, and no
// damage goes unseen.
#include "service/engine/histograms/histogram_file.h"

#include <bit>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "tests/support/accounting.h"
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

// A file by hand, as docs/storage-format.md has it.
constexpr char kTitle[] = "packhouse histograms 1\n";

std::string Number(uint64_t number, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
  return out;
}
std::string Text(const std::string& text) { return Number(text.size(), 4) + text; }
std::string Section(const std::string& bytes) {
  const std::string framed = Number(bytes.size(), 8) + bytes;
  return framed + Number(Crc32c(framed), 4);
}

struct HeadByHand {
  std::vector<std::string> components = {"a", "b"};
  // Of one that decays: half-life, landmark, latest time, all weights.
  std::string decay = Number(0, 1);
  std::vector<uint32_t> digests = {7, 9};
  uint64_t last = 5;
  uint64_t rows = 1;
  std::string rest = "";

  std::string Bytes() const {
    std::string bytes = "h" + Text("of") + Number(components.size(), 4);
    for (const std::string& component : components) bytes += Text(component);
    bytes += decay + Number(6'000'000'000, 8);
    bytes += Number(1, 4) + Text("p") + Number(last, 8) + Number(33, 8);
    bytes += Number(digests.size(), 4);
    for (const uint32_t digest : digests) bytes += Number(digest, 4);
    return bytes + Number(rows, 8) + rest;
  }
};
std::string Decay(int64_t seconds, uint64_t nanoseconds, double total) {
  return Number(1, 1) + Number(static_cast<uint64_t>(seconds), 8) + Number(nanoseconds, 4) +
         Number(1'700'000'000'000'000'003, 8) + Number(1'700'000'001'000'000'000, 8) +
         Number(std::bit_cast<uint64_t>(total), 8);
}
std::string Row(uint32_t a, uint32_t b, uint64_t count) {
  return Number(a, 4) + Number(b, 4) + Number(count, 8);
}
std::string EndOf(uint64_t count) { return Section("e" + Number(count, 8)); }

// What one release has written, the next one reads, and writes so again.
TEST_F(HistogramFileTest, TheBytesStayFromReleaseToRelease) {
  HeadByHand decaying;
  decaying.decay = Decay(2, 500'000'001, 2.5);
  decaying.rows = 2;
  const auto bits = [](double weight) { return std::bit_cast<uint64_t>(weight); };
  const std::vector<std::string> files = {
      kTitle + Section(HeadByHand().Bytes()) + Section("r" + Row(3, 4, 5)) + EndOf(1),
      kTitle + Section(decaying.Bytes()) +
          Section("r" + Row(3, 4, bits(0.5)) + Row(1, 9, bits(2))) + EndOf(1)};
  for (const std::string& file : files) {
    std::vector<KeptHistogram> read;
    EXPECT_THAT(ReadHistogramBytes("f", file, nullptr,
                                   [&](KeptHistogram kept) {
                                     read.push_back(std::move(kept));
                                     return absl::OkStatus();
                                   }),
                IsOkAndHolds(1U));
    ASSERT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].name, "of");
    EXPECT_EQ(read[0].unused, absl::Seconds(6));
    ASSERT_EQ(read[0].producers.size(), 1U);
    EXPECT_EQ(read[0].producers[0].history, ProducerHistory(5, {7, 9}, 33));
    std::string again;
    EXPECT_THAT(WriteHistogramBytes(read[0],
                                    [&](absl::string_view part) {
                                      again.append(part.data(), part.size());
                                      return absl::OkStatus();
                                    }),
                IsOk());
    EXPECT_EQ(again, file);
  }
}

// Bytes with a right checksum that this server would not have written.
TEST_F(HistogramFileTest, WhatNoServerHasWrittenIsNamed) {
  const auto refuses = [](const std::string& file, size_t at, const std::string& what) {
    EXPECT_EQ(
        ReadHistogramBytes("f", file, nullptr,
                           [](const KeptHistogram&) { return absl::OkStatus(); })
            .status(),
        absl::DataLossError(absl::StrCat("'f': the section that ends at byte ", at, " ", what)));
  };
  const std::string title = kTitle;
  // Ends with the last of the sections.
  const auto refuses_last = [&](const std::vector<std::string>& sections, const std::string& what) {
    std::string file = title;
    for (const std::string& section : sections) file += Section(section);
    refuses(file, file.size(), what);
  };
  refuses("", 0, "begins otherwise");
  refuses("packhouse histograms 2\n", title.size(), "begins otherwise");
  refuses(title, title.size(), "is cut off");
  refuses(title + "1234567", title.size() + 7, "is cut off");
  refuses(title + Number(0, 8), title.size() + 8, "has no such length");
  refuses(title + Number(2, 8) + "e", title.size() + 8, "has no such length");
  const uint64_t longest = uint64_t{64} << 20;
  refuses(title + Number(longest + 1, 8) + std::string(longest + 1, 'x'), title.size() + 8,
          "has no such length");
  refuses(title + Number(2, 8) + "ee123", title.size() + 13, "is cut off");
  refuses(title + Number(2, 8) + "ee1234", title.size() + 14, "has another checksum");
  refuses_last({"e" + Number(1, 8)}, "ends otherwise");
  refuses_last({"e" + Number(0, 7)}, "ends otherwise");
  refuses_last({"e" + Number(0, 9)}, "ends otherwise");
  refuses(title + EndOf(0) + "x", title.size() + EndOf(0).size(), "ends otherwise");
  refuses_last({"r" + Row(1, 2, 3)}, "is no histogram");
  // Numbers of what would follow that nothing has.
  const std::string very_many = Number(UINT32_MAX, 4);
  refuses_last({"h" + Text("of") + very_many + Text("a")},
               "schema: component name '' is not 1 to 128 characters of [A-Za-z0-9_.#/:%!^~@+=-]");
  const std::string up_to_producers =
      "h" + Text("of") + Number(1, 4) + Text("a") + Number(0, 1) + Number(0, 8);
  refuses_last({up_to_producers + very_many}, "is no description of a histogram");
  refuses_last({up_to_producers + Number(1, 4) + Text("p") + Number(UINT64_MAX, 8) + Number(0, 8) +
                very_many + Number(7, 4)},
               "is no description of a histogram");

  const auto refuses_head = [&](const std::function<void(HeadByHand&)>& change,
                                const std::string& what) {
    HeadByHand head;
    change(head);
    const std::string section = Section(head.Bytes());
    // What follows has room for a row.
    refuses(title + section + Section("r" + Row(3, 4, 5)) + EndOf(1), title.size() + section.size(),
            what);
  };
  refuses_head(
      [](auto& head) {
        head.components = {"a", "a"};
      },
      "schema: component 'a' is listed twice");
  refuses_head([](auto& head) { head.decay = Decay(0, 0, 1); }, "has no such half-life");
  refuses_head([](auto& head) { head.decay = Decay(-1, 0, 1); }, "has no such half-life");
  refuses_head(
      [](auto& head) { head.decay = Decay(std::numeric_limits<int64_t>::max(), 2'000'000'000, 1); },
      "has no such half-life");
  refuses_head([](auto& head) { head.last = 1; }, "has a producer with more digests than requests");
  refuses_head([](auto& head) { head.rest = "x"; }, "is no description of a histogram");
  refuses_head([](auto& head) { head.rows = 4; }, "has more rows than the file has");
  const std::string cut_off = HeadByHand().Bytes();
  refuses_last({cut_off.substr(0, cut_off.size() - 1)}, "is no description of a histogram");

  const auto refuses_rows = [&](HeadByHand head, uint64_t rows, const std::string& section,
                                const std::string& what) {
    head.rows = rows;
    refuses_last({head.Bytes(), section}, what);
  };
  const HeadByHand exact;
  HeadByHand decaying;
  decaying.decay = Decay(1, 0, std::numeric_limits<double>::infinity());
  refuses_rows(exact, 1, "x" + Row(3, 4, 5), "has other rows");
  refuses_rows(exact, 1, "r" + Row(3, 4, 5).substr(0, 15), "has other rows");
  HeadByHand two;
  two.rows = 2;
  const std::string of_two = title + Section(two.Bytes()) + Section("r" + Row(3, 4, 5));
  refuses(of_two + EndOf(1), of_two.size(), "has other rows");
  refuses_rows(exact, 1, "r" + Row(3, 4, 5) + "x", "has more rows");
  refuses_rows(exact, 2, "r" + Row(3, 4, 5) + Row(3, 4, 1), "has no new size");
  refuses_rows(exact, 1, "r" + Row(3, 4, 0), "has no new size");
  refuses_rows(exact, 1, "r" + Row(3, 4, UINT64_MAX),
               "histogram: 18446744073709551615 graphs of size (3, 4): their total exceeds "
               "2^64 - 1");
  refuses_rows(decaying, 1, "r" + Row(3, 4, 0), "histogram: a weight of 0");
  refuses_rows(decaying, 1, "r" + Row(3, 4, std::bit_cast<uint64_t>(1.0)),
               "histogram: weights of inf in all");
}

// Whichever part is not taken, its error is told, and nothing more is given.
TEST_F(HistogramFileTest, TheErrorsOfOthersAreTold) {
  MemoryBudget narrow(uint64_t{1} << 20);
  HistogramStore store({}, &narrow);
  for (uint64_t step = 0; step < 8; ++step) ChangeAtRandom(store, step, kBegin);
  PH_ASSERT_OK_AND_ASSIGN(const KeptHistogram kept, store.Keep("team/0", kBegin));
  const absl::Status no = absl::AbortedError("no");
  using Append = absl::FunctionRef<absl::Status(absl::string_view)>;
  const auto expect_told = [&](const std::function<absl::Status(Append)>& write) {
    size_t num_parts = 1;
    for (size_t failing = 0; failing < num_parts; ++failing) {
      size_t part = 0;
      const absl::Status written =
          write([&](absl::string_view) { return part++ == failing ? no : absl::OkStatus(); });
      EXPECT_EQ(part, failing + 1);
      EXPECT_EQ(written, no) << failing;
      if (failing != 0) continue;
      part = 0;
      EXPECT_THAT(write([&](absl::string_view) {
                    ++part;
                    return absl::OkStatus();
                  }),
                  IsOk());
      num_parts = part;
    }
    EXPECT_GE(num_parts, 4U);
  };
  expect_told([&](Append append) { return WriteHistogramBytes(kept, append); });
  expect_told([&](Append append) { return WriteHistograms(store, kBegin, append); });
  // Without memory for copies, too.
  const MemoryHold rest = *narrow.Hold("the rest", narrow.bound() - narrow.held());
  expect_told([&](Append append) { return WriteHistograms(store, kBegin, append); });
  EXPECT_EQ(ReadHistogramBytes("f", BytesOfHistograms(store, kBegin), nullptr,
                               [&](const KeptHistogram&) { return no; })
                .status(),
            no);
}

// A store whose calls fail.
class FailingStore final : public HistogramStore {
 public:
  FailingStore() : HistogramStore(Bounds()) {}
  absl::StatusOr<std::vector<std::string>> Names() const override {
    if (!of_names.ok()) return of_names;
    std::vector<std::string> names = {"gone"};
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> there, HistogramStore::Names());
    names.insert(names.end(), there.begin(), there.end());
    return names;
  }
  absl::Status of_names;
};

// One that was deleted meanwhile is left out; other errors are told, and leave nothing behind.
TEST_F(HistogramFileTest, WhatIsDeletedMeanwhileIsNotWritten) {
  FailingStore store;
  HistogramStore same({});
  for (uint64_t step = 0; step < 8; ++step) {
    ChangeAtRandom(store, step, kBegin);
    ChangeAtRandom(same, step, kBegin);
  }
  EXPECT_EQ(BytesOfHistograms(store, kBegin), BytesOfHistograms(same, kBegin));
  ASSERT_THAT(SaveHistogramFile(store, folder_.path(), kBegin), IsOk());
  const std::string before = ReadAll();
  store.of_names = absl::AbortedError("no names");
  EXPECT_EQ(SaveHistogramFile(store, folder_.path(), kBegin), store.of_names);
  EXPECT_EQ(ReadAll(), before);
  EXPECT_FALSE(std::ifstream(path_ + ".unfinished").good());
  EXPECT_THAT(SaveHistogramFile(same, folder_.path() + "/none", kBegin),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.path() + "/none")));
}

// Each reservation of reading in turn finds no room: that is told, and nothing is held.
TEST_F(HistogramFileTest, EachReservationOfReadingIsTold) {
  HistogramStore store({});
  SizeHistogram many(2);
  for (uint32_t i = 0; i < 1500; ++i) ASSERT_THAT(many.Add({{i, i}}), IsOk());
  ASSERT_THAT(store.Merge({"many", SizeSchema::NodesAndEdges()}, many, {}, kBegin), IsOk());
  const std::string bytes = BytesOfHistograms(store, kBegin);
  uint64_t num_refused = 0;
  for (bool has_refused = true; has_refused; ++num_refused) {
    SeenBudget seen(num_refused);
    {
      HistogramStore loaded({}, seen.memory());
      const auto read = ReadHistogramBytes("f", bytes, seen.memory(), [&](KeptHistogram histogram) {
        return loaded.PutBack(std::move(histogram), kBegin);
      });
      has_refused = seen.has_refused();
      if (has_refused) {
        EXPECT_THAT(read, StatusIs(absl::StatusCode::kResourceExhausted,
                                   HasSubstr("histogram 'many': room of ")))
            << num_refused;
        EXPECT_EQ(loaded.num_histograms(), 0U);
        EXPECT_EQ(seen.held(), 0U);
      } else {
        EXPECT_THAT(read, IsOkAndHolds(1U));
        EXPECT_GT(seen.held(), 0U);
      }
    }
    EXPECT_EQ(seen.held(), 0U);
  }
  EXPECT_GT(num_refused, 3U);
}

// Of all sizes in one section as of those in the next one: a section is full with 16,384.
TEST_F(HistogramFileTest, ASectionHasSoManyRows) {
  for (const uint32_t rows : {16'384U, 16'385U}) {
    SizeHistogram many(2);
    for (uint32_t i = 0; i < rows; ++i) ASSERT_THAT(many.Add({{i, 1}}), IsOk());
    const KeptHistogram kept = {"many", SizeSchema::NodesAndEdges(), many, {}, {}};
    std::vector<size_t> parts;
    EXPECT_THAT(WriteHistogramBytes(kept,
                                    [&](absl::string_view part) {
                                      parts.push_back(part.size());
                                      return absl::OkStatus();
                                    }),
                IsOk());
    // The title, the head, the rows, and the end.
    ASSERT_EQ(parts.size(), rows == 16'384 ? 4U : 5U);
    EXPECT_EQ(parts[2], 8U + 1 + 16'384 * 16 + 4);
    if (rows != 16'384) {
      EXPECT_EQ(parts[3], 8U + 1 + 16 + 4);
    }
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
  EXPECT_EQ(
      LoadHistogramFile(folder_.path(), kBegin, nullptr, loaded),
      absl::DataLossError(absl::StrCat(Check().status().message(), "; without the file '", path_,
                                       "' the server starts, and has no named histograms")));
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
  // A use that is no later than the last one by ten minutes is none that is worth saving.
  EXPECT_THAT(store.Get("a", kBegin + absl::Minutes(10) - absl::Nanoseconds(1)), IsOk());
  EXPECT_FALSE(has_changed());
  EXPECT_THAT(store.Get("a", kBegin + absl::Minutes(20) - absl::Nanoseconds(1)), IsOk());
  EXPECT_TRUE(has_changed());
  ASSERT_THAT(store.Delete("a"), IsOk());
  EXPECT_TRUE(has_changed());
}

TEST_F(HistogramFileTest, WhatIsThereIsNotReplaced) {
  HistogramStore store({});
  ASSERT_THAT(store.Observe({"a", SizeSchema::NodesAndEdges()}, SizeTable(), {}, kBegin), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(KeptHistogram kept, store.Keep("a", kBegin));
  EXPECT_EQ(store.PutBack(std::move(kept), kBegin),
            absl::AlreadyExistsError("histogram: there is one named 'a' already"));
  EXPECT_EQ(store.PutBack({"a b", SizeSchema::NodesAndEdges(), SizeHistogram(2), {}, {}}, kBegin),
            absl::InvalidArgumentError(
                "histogram: name 'a b' is not 1 to 128 characters of [A-Za-z0-9_./-]"));
}

}  // namespace
}  // namespace packhouse
