// Data sets and the logs of jobs, whichever call of LMDB fails: done, or not done and as before,
// and the error is told.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "tests/support/failing_lmdb.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 24;

// Data sets "a", which is open, and "b" and "c", which are sealed. After an error the store is
// opened anew.
class DatasetsWorld final : public StepsWorld {
 public:
  using Call = std::function<absl::Status(DatasetsWorld&)>;

  explicit DatasetsWorld(Call call) : call_(std::move(call)) {
    EXPECT_TRUE(Open().ok());
    for (const char* const name : {"a", "b", "c"}) {
      EXPECT_TRUE(store_->Create(name, schema_, {}).ok());
      for (const int number : {1, 2}) EXPECT_TRUE(Append(name, number).ok());
      EXPECT_TRUE(*name == 'a' || store_->Seal(name).ok());
    }
  }

  absl::Status Attempt() override {
    absl::Status status = store_ == nullptr ? Open() : absl::OkStatus();
    status.Update(status.ok() ? call_(*this) : absl::OkStatus());
    if (!status.ok()) store_ = nullptr;
    return status;
  }
  std::string State() override {
    store_ = nullptr;
    EXPECT_TRUE(Open().ok());
    const auto read = ReadAll();
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? *read : "unreadable";
  }

  LmdbDatasetStore& store() { return *store_; }
  const std::string& path() const { return temporary_.path(); }
  void Close() { store_ = nullptr; }
  absl::Status Open() {
    store_ = nullptr;
    PH_ASSIGN_OR_RETURN(store_, LmdbDatasetStore::Open({path() + "/it", kMaxBytes}));
    return absl::OkStatus();
  }
  absl::Status Append(const std::string& name, int number) {
    Random random(number);
    const GraphChunk chunk = RandomChunk(random, &schema_, 4, 10, uint64_t{100} * number);
    return store_->Append(name, chunk, {}, ProducerSequence{"p", static_cast<uint64_t>(number)})
        .status();
  }
  absl::Status Create(const std::string& name) {
    return store_->Create(name, schema_, {}).status();
  }

  // All that calls say of all data sets.
  absl::StatusOr<std::string> ReadAll() const {
    std::string all;
    std::string token;
    do {
      PH_ASSIGN_OR_RETURN(const DatasetList list, store_->List(2, token));
      for (const DatasetInfo& listed : list.datasets) {
        PH_ASSIGN_OR_RETURN(const std::string one, ReadOne(listed.name));
        absl::StrAppend(&all, one, " ", static_cast<int>(listed.state), "\n");
      }
      token = list.next_page_token;
    } while (!token.empty());
    return all;
  }

 private:
  absl::StatusOr<std::string> ReadOne(const std::string& name) const {
    PH_ASSIGN_OR_RETURN(const DatasetInfo info, store_->Get(name));
    PH_ASSIGN_OR_RETURN(const SizeHistogram sizes, store_->GetHistogram(name));
    PH_ASSIGN_OR_RETURN(const ProducerHistory producer, store_->GetProducer({name, 0}, "p"));
    PH_ASSIGN_OR_RETURN(const VerifyReport report,
                        store_->Verify(name, [](const VerifyProgress&) { return true; }));
    if (info.state == DatasetState::kSealed) {
      PH_RETURN_IF_ERROR(store_->OpenChunks(name).status());
    }
    PH_ASSIGN_OR_RETURN(const auto reader, store_->OpenReader(name));
    std::string ids;
    for (size_t i = 0; i < reader->num_graphs(); ++i) {
      PH_RETURN_IF_ERROR(reader->Graph(i).status());
      absl::StrAppend(&ids, " ", reader->graph_ids()[i]);
    }
    return absl::StrCat(name, " ", static_cast<int>(info.state), " ", info.num_graphs, " ",
                        info.num_records, " ", sizes.num_graphs(), " ", sizes.num_distinct(), " ",
                        producer.last(), " ", report.num_graphs, " ", report.ok(), ids);
  }

  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt64, {}, 0, {}, {}}});
  const TemporaryFolder temporary_{TemporaryFolder::InMemory()};
  const Call call_;
  std::unique_ptr<LmdbDatasetStore> store_;
};

void ExpectTold(const DatasetsWorld::Call& call, absl::StatusCode again = absl::StatusCode::kOk) {
  FailingLmdb failing;
  StepsOptions options;
  options.most_steps = 400;
  options.again = again;
  ExpectDoneOrNot([&] { return std::make_unique<DatasetsWorld>(call); }, failing, options);
}

TEST(LmdbStepsTest, DatasetsAreChanged) {
  ExpectTold([](DatasetsWorld& world) { return world.Create("d"); },
             absl::StatusCode::kAlreadyExists);
  ExpectTold([](DatasetsWorld& world) { return world.Append("a", 3); });
  ExpectTold([](DatasetsWorld& world) { return world.store().Seal("a").status(); });
  // Its thread erases meanwhile.
  ExpectTold(
      [](DatasetsWorld& world) -> absl::Status {
        PH_RETURN_IF_ERROR(world.store().Delete("b"));
        return absl::OkStatus();
      },
      absl::StatusCode::kNotFound);
  ExpectTold([](DatasetsWorld& world) { return world.store().TryCommit(0); });
}

TEST(LmdbStepsTest, DatasetsAreRead) {
  std::string whole;
  ExpectTold([&](DatasetsWorld& world) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const std::string all, world.ReadAll());
    if (whole.empty()) whole = all;
    EXPECT_EQ(all, whole);
    return absl::OkStatus();
  });
  ExpectTold([&](DatasetsWorld& world) -> absl::Status {
    PH_RETURN_IF_ERROR(world.Open());
    PH_ASSIGN_OR_RETURN(const std::string all, world.ReadAll());
    EXPECT_EQ(all, whole);
    return absl::OkStatus();
  });
}

TEST(LmdbStepsTest, DatasetsAreCopiedAndRestored) {
  uint64_t whole = 0;
  ExpectTold([&](DatasetsWorld& world) -> absl::Status {
    std::vector<std::pair<std::string, std::string>> values;
    const auto visit = [&](absl::string_view key, absl::string_view raw_value) {
      values.emplace_back(key, raw_value);
      return absl::OkStatus();
    };
    size_t page_bytes = 0;
    {
      PH_ASSIGN_OR_RETURN(const auto cut, world.store().TakeCut(visit));
      page_bytes = cut->page_bytes();
      for (const DatasetsCut::Dataset& dataset : cut->datasets()) {
        for (uint64_t from = 0; from < dataset.num_graphs;) {
          PH_ASSIGN_OR_RETURN(from, cut->VisitRecords(dataset, from, 1, visit));
        }
      }
    }
    if (whole == 0) whole = values.size();
    EXPECT_EQ(values.size(), whole);
    size_t next = 0;
    const TemporaryFolder restored(TemporaryFolder::InMemory());
    PH_RETURN_IF_ERROR(RestoreDatasetFolder(
        restored.path() + "/it", page_bytes, kMaxBytes,
        [&](absl::string_view& key, absl::string_view& value) -> absl::StatusOr<bool> {
          if (next == values.size()) return false;
          key = values[next].first;
          value = values[next++].second;
          return true;
        }));
    // An error would be of the new folder.
    PH_ASSIGN_OR_RETURN(const std::string before, world.ReadAll());
    PH_ASSIGN_OR_RETURN(const auto store,
                        LmdbDatasetStore::Open({restored.path() + "/it", kMaxBytes}));
    PH_ASSIGN_OR_RETURN(const DatasetList list, store->List(100, ""));
    EXPECT_EQ(list.datasets.size(), 3U);
    return absl::OkStatus();
  });
}

// An open store: whichever call of LMDB fails, `call` says so, and `state` is as before. The number
// of LMDB's calls; of many, those in the middle are left out.
uint64_t ExpectToldAtOnce(absl::FunctionRef<absl::Status()> call,
                          absl::FunctionRef<std::string()> state) {
  constexpr uint64_t kFirst = 10;
  constexpr uint64_t kLast = 1020;
  const DatasetsWorld unused([](DatasetsWorld&) { return absl::OkStatus(); });
  const std::string before = state();
  FailingLmdb failing;
  const auto ends = [&](uint64_t step) {
    failing.Begin(step, unused);
    const absl::Status ended = call();
    if (!failing.End()) {
      EXPECT_TRUE(ended.ok()) << ended;
      return true;
    }
    EXPECT_TRUE(absl::IsUnavailable(ended)) << step << ": " << ended;
    EXPECT_EQ(state(), before) << step;
    return testing::Test::HasFailure();
  };
  uint64_t step = 0;
  while (!ends(step)) step = step == kFirst && before == "many" ? kLast : step + 1;
  return step;
}

TEST(LmdbStepsTest, AHistogramIsFolded) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const auto store = LmdbDatasetStore::Open({folder.path(), kMaxBytes}).value();
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  EXPECT_TRUE(store->Create("a", schema, {}).ok());
  const auto append = [&](uint32_t sizes) {
    std::vector<uint32_t> counts;
    for (uint32_t i = 0; i < sizes * sizes; ++i) {
      counts.push_back(i / sizes);
      counts.push_back(i % sizes);
    }
    const auto table =
        SizeTable::WithConsecutiveIds(sizes * sizes, 2, std::move(counts), 0).value();
    return store->Append("a", GraphChunk::OfSizes(&schema, table), {}, std::nullopt).status();
  };
  const auto state = [&] {
    const SizeHistogram sizes = store->GetHistogram("a").value();
    return absl::StrCat(sizes.num_distinct(), " of ", sizes.num_graphs(), " in ",
                        store->Get("a")->num_records);
  };
  EXPECT_TRUE(append(1).ok());
  EXPECT_GE(ExpectToldAtOnce([&] { return append(80); }, state), 11U);
  EXPECT_EQ(state(), "6400 of 6401 in 2");
}

// All are looked at, and three go.
TEST(LmdbStepsTest, ProducersWhoseTimeIsOverGo) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const auto store = LmdbDatasetStore::Open({folder.path(), kMaxBytes}).value();
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  EXPECT_TRUE(store->Create("a", schema, {}).ok());
  const GraphChunk none =
      GraphChunk::OfSizes(&schema, SizeTable::WithConsecutiveIds(0, 2, {}, 0).value());
  const auto append = [&](const std::string& name, int hours) {
    ProducerSequence producer = {name, 1, absl::Minutes(1)};
    producer.now = absl::UnixEpoch() + absl::Hours(hours);
    return store->Append("a", none, {}, producer).status();
  };
  const auto is_known = [&](const std::string& name) {
    return store->GetProducer({"a", 0}, name).value().last() == 1;
  };
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(append(absl::StrCat(i), i < 3 ? 1 : 9).ok());
  const uint64_t num_calls =
      ExpectToldAtOnce([&] { return append("p", 5); },
                       [&] { return is_known("0") && !is_known("p") ? "many" : "changed"; });
  EXPECT_EQ(num_calls, 1036U);
  EXPECT_TRUE(is_known("p") && is_known("3") && is_known("1023"));
  EXPECT_FALSE(is_known("0") || is_known("1") || is_known("2"));
}

// Whoever takes a copy, or restores one, ends it at any value.
TEST(LmdbStepsTest, ACopyIsEndedAtAnyValue) {
  DatasetsWorld world([](DatasetsWorld&) { return absl::OkStatus(); });
  const absl::Status enough = absl::CancelledError("enough");
  std::vector<std::pair<std::string, std::string>> values;
  size_t last = SIZE_MAX;
  const auto copy = [&]() -> absl::Status {
    values.clear();
    const auto visit = [&](absl::string_view key, absl::string_view raw_value) {
      values.emplace_back(key, raw_value);
      return values.size() > last ? enough : absl::OkStatus();
    };
    PH_ASSIGN_OR_RETURN(const auto cut, world.store().TakeCut(visit));
    for (const DatasetsCut::Dataset& dataset : cut->datasets()) {
      PH_ASSIGN_OR_RETURN(const uint64_t next, cut->VisitRecords(dataset, 0, 1 << 20, visit));
      EXPECT_EQ(next, dataset.num_graphs);
    }
    return absl::OkStatus();
  };
  ASSERT_EQ(copy(), absl::OkStatus());
  const auto whole = values;
  for (last = 0; last < whole.size(); ++last) {
    ASSERT_EQ(copy(), enough) << last;
    ASSERT_EQ(values.size(), last + 1);
    const TemporaryFolder restored(TemporaryFolder::InMemory());
    size_t next = 0;
    ASSERT_EQ(RestoreDatasetFolder(
                  restored.path() + "/it",
                  world.store()
                      .TakeCut([](auto, auto) { return absl::OkStatus(); })
                      .value()
                      ->page_bytes(),
                  kMaxBytes,
                  [&](absl::string_view& key, absl::string_view& value) -> absl::StatusOr<bool> {
                    if (next == last) return enough;
                    std::tie(key, value) = whole[next++];
                    return true;
                  }),
              enough)
        << last;
  }
}

// Logs of the jobs "j" and "k". After an error the folder is opened anew.
class LogsWorld final : public StepsWorld {
 public:
  using Call = std::function<absl::Status(LogsWorld&)>;

  explicit LogsWorld(Call call) : call_(std::move(call)) {
    EXPECT_TRUE(Open().ok());
    EXPECT_TRUE(Of("j").value()->Append({"one", "two", "three"}).ok());
    EXPECT_TRUE(Of("k").value()->Append({"first"}).ok());
    EXPECT_TRUE(Of("k").value()->Replace({"only"}).ok());
    EXPECT_TRUE(logs_->RaiseMark(7).ok());
  }

  absl::Status Attempt() override {
    absl::Status status = logs_ == nullptr ? Open() : absl::OkStatus();
    status.Update(status.ok() ? call_(*this) : absl::OkStatus());
    if (!status.ok()) logs_ = nullptr;
    return status;
  }
  std::string State() override {
    EXPECT_TRUE(Open().ok());
    const auto read = ReadAll();
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? *read : "unreadable";
  }

  absl::Status Open() {
    logs_ = nullptr;
    LmdbJobLogs::Options options;
    options.folder = temporary_.path() + "/it";
    options.max_bytes = kMaxBytes;
    PH_ASSIGN_OR_RETURN(logs_, LmdbJobLogs::Open(options));
    return absl::OkStatus();
  }
  LmdbJobLogs& logs() { return *logs_; }
  absl::StatusOr<std::unique_ptr<RecordLog>> Of(const std::string& job) {
    PH_ASSIGN_OR_RETURN(JobPlace place, logs_->Open(job));
    return std::move(place.log);
  }
  absl::StatusOr<std::string> ReadAll() {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> names, logs_->Names());
    std::string all = absl::StrCat(logs_->num_records(), " records of ", absl::StrJoin(names, ","));
    for (const std::string& name : names) {
      PH_ASSIGN_OR_RETURN(const auto log, Of(name));
      PH_ASSIGN_OR_RETURN(const std::vector<std::string> records, log->ReadAll());
      PH_ASSIGN_OR_RETURN(const uint64_t mark, log->mark());
      PH_ASSIGN_OR_RETURN(const std::vector<std::string> read, logs_->Read(name));
      EXPECT_EQ(read, records);
      absl::StrAppend(&all, "; ", name, " ", mark, " ", absl::StrJoin(records, " "));
    }
    PH_ASSIGN_OR_RETURN(const LmdbTransaction moment, logs_->BeginReading());
    PH_ASSIGN_OR_RETURN(const uint64_t mark, logs_->MarkAt(moment));
    absl::StrAppend(&all, "; ", mark);
    PH_RETURN_IF_ERROR(logs_->ForEach(moment, [&](absl::string_view job, absl::string_view record) {
      absl::StrAppend(&all, " ", job, "/", record);
      return absl::OkStatus();
    }));
    return all;
  }

 private:
  const TemporaryFolder temporary_{TemporaryFolder::InMemory()};
  const Call call_;
  std::unique_ptr<LmdbJobLogs> logs_;
};

void ExpectToldOfLogs(const LogsWorld::Call& call) {
  FailingLmdb failing;
  ExpectDoneOrNot([&] { return std::make_unique<LogsWorld>(call); }, failing);
}

TEST(LmdbStepsTest, LogsAreChanged) {
  // What is known to be done is not asked for again.
  const auto once = [](const std::string& job, size_t num_records,
                       const std::function<absl::Status(RecordLog&)>& change) {
    return [=](LogsWorld& world) -> absl::Status {
      PH_ASSIGN_OR_RETURN(const auto log, world.Of(job));
      PH_ASSIGN_OR_RETURN(const std::vector<std::string> before, log->ReadAll());
      return before.size() == num_records ? absl::OkStatus() : change(*log);
    };
  };
  ExpectToldOfLogs(once("j", 5, [](RecordLog& log) { return log.Append({"four", "five"}); }));
  ExpectToldOfLogs(once("new", 1, [](RecordLog& log) { return log.Append({"first"}); }));
  ExpectToldOfLogs(once("j", 2, [](RecordLog& log) { return log.Replace({"all", "anew"}); }));
  ExpectToldOfLogs(once("j", 0, [](RecordLog& log) { return log.Erase(9); }));
  ExpectToldOfLogs([](LogsWorld& world) { return world.logs().RaiseMark(11); });
  ExpectToldOfLogs([](LogsWorld& world) { return world.logs().TryCommit(0); });
}

TEST(LmdbStepsTest, LogsAreRead) {
  const std::string whole =
      "4 records of j,k; j 7 one two three; k 7 only; 7 j/one j/two j/three k/only";
  ExpectToldOfLogs([&](LogsWorld& world) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const std::string all, world.ReadAll());
    EXPECT_EQ(all, whole);
    return absl::OkStatus();
  });
  ExpectToldOfLogs([&](LogsWorld& world) -> absl::Status {
    PH_RETURN_IF_ERROR(world.Open());
    PH_ASSIGN_OR_RETURN(const std::string all, world.ReadAll());
    EXPECT_EQ(all, whole);
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace packhouse
