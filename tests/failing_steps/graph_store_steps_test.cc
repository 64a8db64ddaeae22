// A folder of source graphs, whichever call of its disk fails: graphs are made, copied, deleted,
// checked and given up, or all is as before, and the error is told.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/base/stored_damage.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "service/wings/graphs/stored/source_graph_check.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_steps.h"
#include "tests/support/files_below.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr auto kGoOn = [](const SourceGraphProgress&) { return true; };

absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> OpenStore(const std::string& folder) {
  FileSourceGraphStore::Options options;
  options.folder = folder;
  options.min_free_bytes = 0;
  return FileSourceGraphStore::Open(options);
}

absl::Status AppendRows(FileSourceGraphStore& store, const std::string& name, uint64_t number) {
  const SourceGraphSchema schema = LawSchema();
  SeededRandom random(number);
  const ChunkOfRows chunk(schema, LawOptions(), RandomRows(random, 8, 20));
  return store.Append({name, 0}, chunk.chunk(), ProducerSequence{"p", number}).status();
}

absl::Status Make(FileSourceGraphStore& store, const std::string& name, bool seals) {
  PH_RETURN_IF_ERROR(store.Create(name, LawSchema(), LawOptions()).status());
  PH_RETURN_IF_ERROR(AppendRows(store, name, 1));
  SealOptions options;
  options.duplicates = DuplicateNodes::kFirst;
  return seals ? store.Seal(name, options, kGoOn).status() : absl::OkStatus();
}

// What is copied: made once.
class Elsewhere {
 public:
  Elsewhere() {
    store_ = OpenStore(folder_.path() + "/it").value();
    EXPECT_TRUE(Make(*store_, "copied", true).ok());
  }
  SealedSourceGraph graph() const { return store_->OpenSealed("copied").value(); }

 private:
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<FileSourceGraphStore> store_;
};

// A folder with the graphs "open" and "sealed". After an error its store is opened anew.
class GraphsWorld final : public StepsWorld {
 public:
  using Call = std::function<absl::Status(GraphsWorld&)>;

  // `prepare`: what is done to the folder, which no store has open then.
  explicit GraphsWorld(
      Call call, const std::function<void(GraphsWorld&)>& prepare = [](GraphsWorld&) {})
      : call_(std::move(call)) {
    store_ = OpenStore(folder_).value();
    EXPECT_TRUE(Make(*store_, "open", false).ok());
    EXPECT_TRUE(Make(*store_, "sealed", true).ok());
    Close();
    prepare(*this);
  }

  absl::Status Attempt() override {
    const absl::Status status = call_(*this);
    if (!status.ok()) Close();
    return status;
  }
  std::string State() override {
    Close();
    std::string state;
    // What is being copied is looked at, and not repaired.
    const TemporaryFolder copy(TemporaryFolder::InMemory());
    std::filesystem::copy(folder_, copy.path() + "/it", std::filesystem::copy_options::recursive);
    const auto store = OpenStore(copy.path() + "/it");
    if (!store.ok()) return std::string(absl::StatusCodeToString(store.status().code()));
    const SourceGraphList list = (*store)->List(0, "").value();
    for (const SourceGraphInfo& info : list.graphs) {
      absl::StrAppend(&state, info.schema == nullptr ? "?" : info.name, " ",
                      static_cast<int>(info.state));
      for (const uint64_t number : info.num_nodes) absl::StrAppend(&state, " ", number);
      for (const uint64_t number : info.num_edges) absl::StrAppend(&state, " ", number);
      if (info.state == SourceGraphState::kSealed) {
        const auto report = (*store)->Verify(info.name, kGoOn);
        absl::StrAppend(&state, report.ok() && report->ok() ? " sound" : " damaged");
      }
      absl::StrAppend(&state, "; ");
    }
    return state;
  }
  std::string folder() const override { return folder_; }

  void Close() { store_ = nullptr; }
  absl::StatusOr<FileSourceGraphStore*> Store() {
    if (store_ == nullptr) {
      PH_ASSIGN_OR_RETURN(store_, OpenStore(folder_));
    }
    return store_.get();
  }
  // The folder of a graph, whose name was drawn.
  std::string FolderOf(absl::string_view file) const {
    for (const auto& [path, bytes] : FilesBelow(folder_)) {
      if (absl::StrContains(path, file)) return absl::StrCat(folder_, "/", path);
    }
    ADD_FAILURE() << file;
    return "";
  }

 private:
  const Call call_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/graphs";
  std::unique_ptr<FileSourceGraphStore> store_;
};

void ExpectTold(
    const GraphsWorld::Call& call, absl::StatusCode again = absl::StatusCode::kOk,
    const std::function<void(GraphsWorld&)>& prepare = [](GraphsWorld&) {}) {
  for (const int error : {EIO, EMFILE}) {
    SCOPED_TRACE(error);
    FailingDisk disk({error, false, false});
    StepsOptions options;
    options.again = again;
    options.may_all_be_survived = true;
    options.most_steps = error == EIO ? 40 : 0;
    options.each_kind = true;
    ExpectDoneOrNot([&] { return std::make_unique<GraphsWorld>(call, prepare); }, disk, options);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(GraphStoreStepsTest, TheDiskFailsUnderCalls) {
  const auto with = [](const std::function<absl::Status(FileSourceGraphStore&)>& call) {
    return [call](GraphsWorld& world) -> absl::Status {
      PH_ASSIGN_OR_RETURN(FileSourceGraphStore* const store, world.Store());
      return call(*store);
    };
  };
  ExpectTold(with([](FileSourceGraphStore& store) {
               return store.Create("new", LawSchema(), LawOptions()).status();
             }),
             absl::StatusCode::kAlreadyExists);
  ExpectTold(with([](FileSourceGraphStore& store) { return AppendRows(store, "open", 2); }));
  ExpectTold(with([](FileSourceGraphStore& store) { return store.Delete("sealed"); }),
             absl::StatusCode::kNotFound);
  ExpectTold(with([](FileSourceGraphStore& store) { return store.Delete("open"); }),
             absl::StatusCode::kNotFound);
  const Elsewhere elsewhere;
  ExpectTold(with([&](FileSourceGraphStore& store) {
    return store.CopyIn(elsewhere.graph(), kGoOn).status();
  }));
}

TEST(GraphStoreStepsTest, TheDiskFailsUnderReading) {
  uint64_t whole = 0;
  ExpectTold([&](GraphsWorld& world) -> absl::Status {
    PH_ASSIGN_OR_RETURN(FileSourceGraphStore* const store, world.Store());
    PH_ASSIGN_OR_RETURN(const auto report, store->Verify("sealed", kGoOn));
    PH_ASSIGN_OR_RETURN(const auto graph, store->Open("sealed"));
    if (whole == 0) whole = report.num_bytes;
    // What a disk does not read is told as damage of what it has.
    if (!report.ok()) return absl::UnavailableError("damaged");
    EXPECT_EQ(report.num_bytes, whole);
    PH_ASSIGN_OR_RETURN(const LinkedGraphs linked, store->LinkAll());
    return absl::OkStatus();
  });
}

TEST(GraphStoreStepsTest, TheDiskFailsUnderACheck) {
  ExpectTold([](GraphsWorld& world) -> absl::Status {
    absl::Status damaged;
    int num_companions = 0;
    PH_ASSIGN_OR_RETURN(const uint64_t num_graphs,
                        CheckSourceGraphFolders(
                            world.folder(),
                            [&](const StoredDamage& damage) {
                              damaged.Update(absl::UnavailableError(damage.what));
                            },
                            [&](const std::string&, const std::string&) { ++num_companions; }));
    // As above.
    PH_RETURN_IF_ERROR(damaged);
    EXPECT_EQ(num_graphs, 2U);
    EXPECT_EQ(num_companions, 2);
    return absl::OkStatus();
  });
}

TEST(GraphStoreStepsTest, TheDiskFailsUnderARepair) {
  const auto accept = [](GraphsWorld& world) {
    return AcceptMissingSourceGraphs(
        world.folder(), [](const StoredDamage&) {},
        [](const std::string&, const std::string&) { return absl::OkStatus(); });
  };
  // The list is mended first, which an error does not take back.
  ExpectTold(
      [&](GraphsWorld& world) {
        const absl::Status accepted = accept(world);
        if (!accepted.ok()) {
          std::filesystem::resize_file(world.folder() + "/graphs", 3);
        }
        return accepted;
      },
      absl::StatusCode::kOk,
      [](GraphsWorld& world) { std::filesystem::resize_file(world.folder() + "/graphs", 3); });
  ExpectTold(
      [](GraphsWorld& world) -> absl::Status {
        const absl::Status dropped = DropDamagedSourceGraph(world.folder(), "sealed");
        if (dropped.ok()) return dropped;
        // What has no name any more is removed when the folder is opened.
        for (const auto& [path, bytes] : FilesBelow(world.folder())) {
          if (absl::EndsWith(path, "/manifest") && !absl::StrContains(path, ".deleted")) {
            return dropped;
          }
        }
        return absl::OkStatus();
      },
      absl::StatusCode::kNotFound,
      [](GraphsWorld& world) { std::filesystem::resize_file(world.FolderOf("/manifest"), 3); });
}

// So many nodes of each set, and about as many edges; of `writes` twice as many.
RowsOfGraph ManyRows(int64_t num_nodes) {
  RowsOfGraph rows;
  const auto paper = [&](int64_t number) { return BytesOf(number % num_nodes); };
  const auto author = [&](int64_t number) {
    return absl::StrCat("author-number-", number % num_nodes);
  };
  for (int64_t n = 0; n < num_nodes; ++n) {
    rows.nodes.push_back({0, paper(n * 3), {BytesOf(n), std::string(4 + 2 * (n % 3), 't')}});
    rows.nodes.push_back({1, author(n * 3), {std::string(8 + n % 3, 'n')}});
    rows.edges.push_back({0, paper(n), paper(n * 7 + 1), {BytesOf(n)}});
    rows.edges.push_back({3, author(n), author(n * 7 + 1), {std::string(8 + n % 3, 'r')}});
  }
  for (int64_t e = 0; e < 2 * num_nodes; ++e) {
    rows.edges.push_back({1, author(e), paper(e * 3 + 1), {}});
  }
  return rows;
}

// It takes its room in pieces of a MiB; there is room for two more each time.
TEST(GraphStoreStepsTest, ASealThatFindsNoRoomLeavesTheGraphAsItWas) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  FileSourceGraphStore::Options options;
  options.folder = above.path() + "/graphs";
  options.min_free_bytes = 0;
  uint64_t before = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FileSourceGraphStore::Open(options));
    const SourceGraphSchema schema = LawSchema();
    ASSERT_THAT(store->Create("g", schema, LawOptions()), IsOk());
    // Each array is longer than the MiB that its writer holds back.
    const ChunkOfRows chunk(schema, LawOptions(), ManyRows(140000));
    ASSERT_THAT(store->Append({"g", 0}, chunk.chunk(), std::nullopt), IsOk());
    before = store->Get("g")->num_bytes;
  }
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::recursive_directory_iterator(options.folder)) {
      found.insert(each.path().string());
    }
    return found;
  };
  std::set<std::string> files;
  SealOptions seal;
  seal.memory_bytes = 1 << 20;
  int num_refused = 0;
  for (uint64_t room = before;; room += uint64_t{2} << 20) {
    options.max_bytes = room;
    PH_ASSERT_OK_AND_ASSIGN(const auto store, FileSourceGraphStore::Open(options));
    if (files.empty()) files = names();
    const auto sealed = store->Seal({"g", 0}, seal, kGoOn);
    if (sealed.ok()) break;
    ASSERT_THAT(sealed, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
    PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, store->Get("g"));
    ASSERT_EQ(info.state, SourceGraphState::kOpen);
    ASSERT_EQ(info.num_bytes, before);
    ASSERT_EQ(store->counts().num_bytes, before);
    ASSERT_EQ(names(), files) << room;
    ++num_refused;
  }
  EXPECT_GT(num_refused, 10);
  PH_ASSERT_OK_AND_ASSIGN(const auto store, FileSourceGraphStore::Open(options));
  const auto report = store->Verify("g", kGoOn);
  EXPECT_TRUE(report.ok() && report->ok());
  // Nor has a copy of it.
  const SealedSourceGraph sealed = store->OpenSealed("g").value();
  options.folder = above.path() + "/copies";
  num_refused = 0;
  for (options.max_bytes = 0;; options.max_bytes += uint64_t{4} << 20) {
    PH_ASSERT_OK_AND_ASSIGN(const auto copies, FileSourceGraphStore::Open(options));
    const auto copied = copies->CopyIn(sealed, kGoOn);
    if (copied.ok()) break;
    ASSERT_THAT(copied, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
    ASSERT_EQ(copies->counts().num_bytes, 0U);
    ++num_refused;
  }
  EXPECT_GT(num_refused, 5);
}

TEST(GraphStoreStepsTest, WhatIsGivenUpAtAnyMomentWorksWhenItIsTriedAgain) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(above.path() + "/graphs"));
  const SourceGraphSchema schema = LawSchema();
  ASSERT_THAT(store->Create("g", schema, LawOptions()), IsOk());
  const ChunkOfRows chunk(schema, LawOptions(), ManyRows(5000));
  ASSERT_THAT(store->Append({"g", 0}, chunk.chunk(), std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto other, OpenStore(above.path() + "/other"));
  // At each question in turn, until there is none left. How many there were.
  const auto give_up = [&](const std::function<std::string()>& state, const auto& call) {
    const std::string before = state();
    for (int moment = 0;; ++moment) {
      int asked = 0;
      const absl::Status status =
          call([&](const SourceGraphProgress& /*now*/) { return asked++ != moment; });
      if (status.ok()) return moment;
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
      EXPECT_EQ(asked, moment + 1) << "it went on";
      EXPECT_EQ(state(), before);
      if (testing::Test::HasFailure()) return 0;
    }
  };
  const auto state_of_it = [&] {
    return absl::StrCat(static_cast<int>(store->Get("g")->state), " ", store->counts().num_bytes);
  };
  const auto of_other = [&] {
    return absl::StrCat(other->List(0, "")->graphs.size(), " ", other->counts().num_bytes);
  };
  EXPECT_GT(give_up(state_of_it,
                    [&](const auto& progress) {
                      return store->Seal({"g", 0}, {}, progress).status();
                    }),
            20);
  EXPECT_GT(give_up(state_of_it,
                    [&](const auto& progress) { return store->Verify("g", progress).status(); }),
            20);
  EXPECT_GT(give_up(of_other,
                    [&](const auto& progress) {
                      return other->CopyIn(store->OpenSealed("g").value(), progress).status();
                    }),
            20);
}

}  // namespace
}  // namespace packhouse
