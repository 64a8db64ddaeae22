// The laws of retention: what is used stays, what is not used goes in its time and not before, and
// restarts change neither.
#include "service/stores/datasets/retained_datasets.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/stores/datasets/fixed_dataset_store.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/datasets/stored_files.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RetainedDatasetsTest : public ::testing::Test {
 protected:
  RetainedDatasetsTest() { Restart(absl::ZeroDuration()); }

  // Another server, after a time without one.
  void Restart(absl::Duration without_server) {
    datasets_ = nullptr;
    now_ += without_server;
    datasets_ = std::make_unique<RetainedDatasets>(&store_, File(), *ParseRetention("8h,kept=0s"),
                                                   [this] { return now_; });
  }
  std::string File() const { return folder_.path() + "/last_uses"; }
  void Create(const std::string& name) {
    ASSERT_THAT(datasets_->Create(name, schema_, {}), IsOk());
  }
  void Append(const std::string& name) {
    Random random(1);
    const GraphChunk chunk = RandomChunk(random, &schema_, 3, 9, 0);
    ASSERT_THAT(datasets_->Append(name, chunk, {}, std::nullopt), IsOk());
  }
  // Names of those that go now.
  std::vector<std::string> Sweep() {
    std::vector<Expired> expired;
    EXPECT_THAT(datasets_->Sweep(expired), IsOk());
    std::vector<std::string> names;
    for (const auto& each : expired) {
      EXPECT_GE(each.unused, absl::Hours(8));
      EXPECT_THAT(store_.Get(each.name), StatusIs(absl::StatusCode::kNotFound, _));
      names.push_back(each.name);
    }
    return names;
  }
  std::vector<std::string> SweepAfter(absl::Duration duration) {
    now_ += duration;
    return Sweep();
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  MemoryDatasetStore store_{uint64_t{1} << 30};
  std::unique_ptr<RetainedDatasets> datasets_;
};

TEST_F(RetainedDatasetsTest, WhatNobodyUsesGoesInItsTime) {
  Create("a");
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  Create("b");
  // To look at it is no use.
  EXPECT_THAT(datasets_->Get("a"), IsOk());
  EXPECT_THAT(datasets_->List(0, ""), IsOk());
  EXPECT_THAT(datasets_->Verify("a", [](const VerifyProgress&) { return true; }), IsOk());
  EXPECT_THAT(SweepAfter(absl::Hours(1) - absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(SweepAfter(absl::Seconds(1)), ElementsAre("a"));
  EXPECT_EQ(datasets_->num_expired(), 1U);
  EXPECT_THAT(SweepAfter(absl::Hours(7)), ElementsAre("b"));
  EXPECT_THAT(Sweep(), IsEmpty());
}

// A store whose machine has no room for chunks.
class FullStore final : public ForwardingDatasetStore {
 public:
  using ForwardingDatasetStore::ForwardingDatasetStore;
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    PH_ASSIGN_OR_RETURN(auto chunks, store()->OpenChunks(name));
    return std::make_shared<const Chunks>(std::move(chunks));
  }

 private:
  class Chunks final : public DatasetChunks {
   public:
    explicit Chunks(std::shared_ptr<const DatasetChunks> chunks) : chunks_(std::move(chunks)) {}
    const DatasetInfo& info() const override { return chunks_->info(); }
    absl::Span<const uint32_t> num_graphs() const override { return chunks_->num_graphs(); }
    uint64_t bytes() const override { return chunks_->bytes(); }
    absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
      return chunks_->AddSizes(chunk, histogram);
    }
    absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
        absl::Span<const uint32_t> chunks) const override {
      return chunks_->Open(chunks);
    }
    absl::Status CheckFits(absl::Span<const uint32_t> chunks) const override {
      return absl::ResourceExhaustedError(absl::StrCat(chunks.size(), " chunks"));
    }

   private:
    const std::shared_ptr<const DatasetChunks> chunks_;
  };
};

TEST_F(RetainedDatasetsTest, WhatDoesNotFitIsRefusedAsTheStoreDoes) {
  Create("a");
  Append("a");
  ASSERT_THAT(datasets_->Seal("a"), IsOk());
  FullStore full(&store_);
  const RetainedDatasets retained(&full, File(), *ParseRetention("8h"), [this] { return now_; });
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, retained.OpenChunks("a"));
  EXPECT_THAT(chunks->CheckFits({0}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1 chunks")));
}

TEST_F(RetainedDatasetsTest, EveryUseCounts) {
  Create("a");
  now_ += absl::Hours(7);
  Append("a");
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  EXPECT_THAT(datasets_->Seal("a"), IsOk());
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, datasets_->OpenReader("a"));
  // As long as graphs are read, however long that takes.
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
    EXPECT_THAT(reader->Graph(0), IsOk());
  }
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  // A reader that reads nothing does not keep the name, but its graphs.
  EXPECT_THAT(SweepAfter(absl::Hours(8)), ElementsAre("a"));
  EXPECT_THAT(reader->Graph(0), IsOk());
  // What has the name now is another one.
  Create("a");
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
}

// A plan of a large data set may read sizes for long before the first graph.
TEST_F(RetainedDatasetsTest, SizesOfChunksCount) {
  Create("a");
  Append("a");
  ASSERT_THAT(datasets_->Seal("a"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, datasets_->OpenChunks("a"));
  SizeHistogram histogram(schema_.num_components());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
    EXPECT_THAT(chunks->AddSizes(0, histogram), IsOk());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
    EXPECT_THAT(chunks->ReadSizes({0})->AddNext(histogram), IsOk());
  }
  EXPECT_EQ(histogram.num_graphs(), 6 * 3U);
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  EXPECT_THAT(SweepAfter(absl::Hours(8)), ElementsAre("a"));
}

// Whichever reader it was, whether it is still there or not, and also if a snapshot comes first.
TEST_F(RetainedDatasetsTest, EachReaderCounts) {
  Create("a");
  Append("a");
  ASSERT_THAT(datasets_->Seal("a"), IsOk());
  for (int round = 0; round < 3; ++round) {
    PH_ASSERT_OK_AND_ASSIGN(auto reads, datasets_->OpenReader("a"));
    now_ += absl::Hours(7);
    if (round == 0) {
      EXPECT_THAT(reads->Graph(0), IsOk());
      reads = nullptr;
    }
    Create(absl::StrCat("other", round));
    Append(absl::StrCat("other", round));
    PH_ASSERT_OK_AND_ASSIGN(const auto other, datasets_->OpenReader(absl::StrCat("other", round)));
    if (round == 1) {
      EXPECT_THAT(reads->Graph(0), IsOk());
    }
    if (round == 2) {
      PH_ASSERT_OK_AND_ASSIGN(const auto chunks, datasets_->OpenChunks("a"));
      now_ += absl::Hours(2);
      PH_ASSERT_OK_AND_ASSIGN(const auto part, chunks->Open({0}));
      EXPECT_THAT(part->Graph(0), IsOk());
      ASSERT_THAT(datasets_->Save(), IsOk());
      Restart(absl::Minutes(10));
    }
    ASSERT_THAT(datasets_->Delete(absl::StrCat("other", round)), IsOk());
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty()) << round;
    ASSERT_THAT(datasets_->Seal("a"), IsOk());
  }
}

// What a reader that is gone had read is still to be counted when the next one comes.
TEST_F(RetainedDatasetsTest, AReaderThatIsGoneIsNotForgotten) {
  for (const std::string name : {"a", "b"}) {
    Create(name);
    Append(name);
  }
  PH_ASSERT_OK_AND_ASSIGN(auto reader, datasets_->OpenReader("a"));
  // So soon that the uses are not yet counted for the file.
  now_ += absl::Minutes(5);
  EXPECT_THAT(reader->Graph(0), IsOk());
  reader = nullptr;
  EXPECT_THAT(datasets_->OpenReader("b"), IsOk());
  EXPECT_THAT(SweepAfter(absl::Hours(8) - absl::Minutes(4)), IsEmpty());
}

// Errors of the store are its callers'.
TEST_F(RetainedDatasetsTest, WhatTheStoreRefusesIsTold) {
  const auto is_none = StatusIs(absl::StatusCode::kNotFound, _);
  EXPECT_THAT(datasets_->Delete("none"), is_none);
  EXPECT_THAT(datasets_->OpenReader("none"), is_none);
  EXPECT_THAT(datasets_->OpenChunks("none"), is_none);
  Create("a");
  Append("a");
  ASSERT_THAT(datasets_->Seal("a"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, datasets_->OpenChunks("a"));
  store_.before_open_chunks = [] { return absl::UnavailableError("not now"); };
  EXPECT_THAT(chunks->Open({0}), StatusIs(absl::StatusCode::kUnavailable, "not now"));
  EXPECT_EQ(store_.DatasetStore::OpenChunks("a").status(),
            absl::UnimplementedError("data set 'a': this store reads data sets only as a whole"));
}

// Without a file nothing is remembered, and that is no error.
TEST_F(RetainedDatasetsTest, WithoutAFileItIsKnownWhileTheServerRuns) {
  RetainedDatasets datasets(&store_, "", *ParseRetention("8h"), [this] { return now_; });
  ASSERT_THAT(datasets.Create("a", schema_, {}), IsOk());
  EXPECT_THAT(datasets.Save(), IsOk());
  now_ += absl::Hours(8);
  std::vector<Expired> expired;
  EXPECT_THAT(datasets.Sweep(expired), IsOk());
  EXPECT_THAT(expired, testing::SizeIs(1));
}

TEST_F(RetainedDatasetsTest, FixedDataSetsDoNotChange) {
  Create("a");
  Append("a");
  FixedDatasetStore fixed(&store_, "they are a copy");
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, "they are a copy");
  Random random(1);
  EXPECT_THAT(fixed.Create("b", schema_, {}), refused);
  EXPECT_THAT(fixed.Append("a", RandomChunk(random, &schema_, 3, 9, 0), {}, std::nullopt), refused);
  EXPECT_THAT(fixed.Seal("a"), refused);
  EXPECT_THAT(fixed.Delete("a"), refused);
  EXPECT_EQ(fixed.Get("a")->num_graphs, 3U);
  EXPECT_EQ(store_.List(0, "")->datasets.size(), 1U);
}

TEST_F(RetainedDatasetsTest, NamespacesHaveTheirOwn) {
  Create("kept/a");
  Create("other/a");
  EXPECT_THAT(SweepAfter(absl::Hours(8)), ElementsAre("other/a"));
  EXPECT_THAT(SweepAfter(absl::Hours(10000)), IsEmpty());
}

// Time without a server does not count; a start costs one period, here ten minutes.
TEST_F(RetainedDatasetsTest, ItLastsOverRestarts) {
  Create("a");
  now_ += absl::Hours(3);
  Create("b");
  now_ += absl::Hours(3);
  ASSERT_THAT(datasets_->Save(), IsOk());
  Restart(absl::Hours(1000));
  EXPECT_THAT(SweepAfter(absl::Minutes(130) - absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(SweepAfter(absl::Seconds(1)), ElementsAre("a"));
}

// Killed at any time, it knows every use up to one period.
TEST_F(RetainedDatasetsTest, NoUseIsForgotten) {
  Create("a");
  EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty());
  Append("a");
  Restart(absl::ZeroDuration());
  EXPECT_THAT(SweepAfter(absl::Hours(8) - absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(SweepAfter(absl::Seconds(1)), ElementsAre("a"));
  Create("b");
  Append("b");
  // So soon after the other, this one is not in the file; the start makes up for it.
  now_ += absl::Minutes(9);
  Append("b");
  Restart(absl::ZeroDuration());
  EXPECT_THAT(SweepAfter(absl::Hours(8) - absl::Seconds(1)), IsEmpty());
}

TEST_F(RetainedDatasetsTest, ALostFileCostsNoDataSet) {
  Create("a");
  now_ += absl::Hours(7);
  ASSERT_THAT(datasets_->Save(), IsOk());
  const std::string sound = ReadFile(File());
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string damaged = sound;
    damaged[i] ^= 8;
    WriteFile(File(), damaged);
    Restart(absl::ZeroDuration());
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty()) << i;
  }
  // Whole, and yet none: of another title, or without a time.
  for (const std::string text :
       {"packhouse last uses 2\n28800 a\n", "packhouse last uses 1\nlong a\n"}) {
    WriteFile(File(), absl::StrCat(text, "end ", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n"));
    Restart(absl::ZeroDuration());
    EXPECT_THAT(SweepAfter(absl::Hours(7)), IsEmpty()) << text;
  }
  // It counts as used when the server began.
  EXPECT_THAT(SweepAfter(absl::Hours(1)), ElementsAre("a"));
  Create("a");
  WriteFile(File(), sound);
  Restart(absl::ZeroDuration());
  EXPECT_THAT(SweepAfter(absl::Minutes(70)), ElementsAre("a"));
}

TEST_F(RetainedDatasetsTest, Durations) {
  PH_ASSERT_OK_AND_ASSIGN(const Retention retention, ParseRetention("720h,drafts=24h,kept=0s"));
  EXPECT_EQ(retention.Of("a"), absl::Hours(720));
  EXPECT_EQ(retention.Of("drafts/a"), absl::Hours(24));
  EXPECT_EQ(retention.Of("kept/a"), absl::InfiniteDuration());
  EXPECT_EQ(retention.Period(), absl::Minutes(10));
  EXPECT_FALSE(retention.is_for_ever());
  EXPECT_FALSE(ParseRetention("0s,drafts=1h")->is_for_ever());
  EXPECT_FALSE(ParseRetention("1h,kept=0s")->is_for_ever());
  EXPECT_TRUE(ParseRetention("0s,kept=0s")->is_for_ever());
  // An eighth of the shortest, within bounds.
  EXPECT_EQ(ParseRetention("1h")->Period(), absl::Seconds(450));
  EXPECT_EQ(ParseRetention("1h,drafts=80s,kept=0s")->Period(), absl::Seconds(10));
  EXPECT_EQ(ParseRetention("80m")->Period(), absl::Minutes(10));
  EXPECT_EQ(ParseRetention("8s")->Period(), absl::Seconds(1));
  EXPECT_EQ(ParseRetention("1s")->Period(), absl::Seconds(1));
  EXPECT_EQ(ParseRetention("0s")->Period(), absl::Minutes(10));
  EXPECT_TRUE(ParseRetention("0s")->is_for_ever());
  EXPECT_TRUE(ParseRetention("")->is_for_ever());
  for (const char* const bad : {"30d", "-1s", "a=", "a=b", "1h,x"}) {
    EXPECT_THAT(ParseRetention(bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("duration")))
        << bad;
  }
}

}  // namespace
}  // namespace packhouse
