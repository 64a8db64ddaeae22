// The laws of stored source graphs.
#include "service/wings/graphs/stored/file_source_graph_store.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/memory_budget.h"
#include "service/base/seeded_random.h"
#include "service/stores/limits/retention.h"
#include "service/wings/graphs/source_graphs/retained_source_graphs.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/row_records.h"
#include "service/wings/graphs/stored/source_graph_check.h"
#include "service/wings/graphs/stored/source_graph_names.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/accounting.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kGoOn = [](const SourceGraphProgress&) { return true; };

void ExpectDamaged(SourceGraphStore& store, const std::string& name) {
  const auto report = store.Verify(name, kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->damaged.empty());
  for (const absl::Status& damage : report->damaged) {
    EXPECT_EQ(damage.code(), absl::StatusCode::kDataLoss) << damage;
  }
}

class FileSourceGraphStoreTest : public testing::Test {
 protected:
  FileSourceGraphStoreTest()
      : folder_(absl::StrCat(testing::TempDir(), "/source_graphs_",
                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    Reopen();
  }
  ~FileSourceGraphStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  FileSourceGraphStore::Options Options() const {
    FileSourceGraphStore::Options options;
    options.folder = folder_;
    options.min_free_bytes = 0;
    return options;
  }
  void Reopen() { Reopen(Options()); }
  void Reopen(const FileSourceGraphStore::Options& options) {
    store_.reset();
    auto store = FileSourceGraphStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Create(const std::string& name) {
    const auto info = store_->Create(name, schema_, options_);
    ASSERT_TRUE(info.ok()) << info.status();
  }
  absl::StatusOr<SourceAppendResult> TryAppend(const std::string& name, const RowsOfGraph& rows,
                                               const std::string& producer = "",
                                               uint64_t sequence = 0) {
    const ChunkOfRows chunk(schema_, options_, rows);
    std::optional<ProducerSequence> from;
    if (!producer.empty()) from = ProducerSequence{producer, sequence};
    return store_->Append({name, 0}, chunk.chunk(), from);
  }
  void Append(const std::string& name, const RowsOfGraph& rows, const std::string& producer = "",
              uint64_t sequence = 0) {
    const auto result = TryAppend(name, rows, producer, sequence);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->is_repetition);
    EXPECT_EQ(result->num_nodes, rows.nodes.size());
    EXPECT_EQ(result->num_edges, rows.edges.size());
  }
  absl::StatusOr<SourceGraphInfo> Seal(const std::string& name, SealOptions options = {}) {
    return store_->Seal(name, options, kGoOn);
  }
  ReadGraph ReadSealed(const std::string& name) {
    const auto graph = store_->Open(name);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return graph.ok() ? Read(**graph) : ReadGraph();
  }
  std::vector<std::filesystem::path> Files(const std::string& ending) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && absl::EndsWith(entry.path().string(), ending)) {
        files.push_back(entry.path());
      }
    }
    return files;
  }
  // How many files of the store are mapped into this process.
  size_t NumMaps() const {
    std::ifstream maps("/proc/self/maps");
    const std::string name = std::filesystem::path(folder_).filename();
    size_t num_maps = 0;
    for (std::string line; std::getline(maps, line);) {
      if (absl::StrContains(line, name)) ++num_maps;
    }
    return num_maps;
  }
  static void FlipByte(const std::filesystem::path& file, uint64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get());
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ 0x10));
  }

  const std::string folder_;
  const SourceGraphSchema schema_ = LawSchema();
  const SourceGraphOptions options_ = LawOptions();
  std::unique_ptr<FileSourceGraphStore> store_;
};

// A piece of `rows`, which loses it.
RowsOfGraph TakePiece(SeededRandom& random, RowsOfGraph& rows) {
  RowsOfGraph piece;
  const auto take = [&random](auto& from, auto& to) {
    for (uint64_t n = random.Below(40); n > 0 && !from.empty(); --n) {
      to.push_back(std::move(from.back()));
      from.pop_back();
    }
  };
  take(rows.nodes, piece.nodes);
  take(rows.edges, piece.edges);
  return piece;
}

// Conservation, and independence of order, producers, restarts and memory: whoever sends which rows
// when, the sealed graph is what the reference makes of all rows.
TEST_F(FileSourceGraphStoreTest, SealsToTheSameGraphHoweverTheRowsCome) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SeededRandom random(seed);
    const size_t size = seed < 4 ? seed : random.Below(150);
    RowsOfGraph rows = RandomRows(random, size, 3 * size);
    const ReadGraph expected = Expected(schema_, options_, rows);
    for (int way = 0; way < 3; ++way) {
      const std::string name = absl::StrCat("graph/", seed, "-", way);
      Create(name);
      RowsOfGraph left = rows;
      Shuffle(random, left.nodes);
      Shuffle(random, left.edges);
      std::vector<uint64_t> sequences(4);
      while (!left.nodes.empty() || !left.edges.empty()) {
        const size_t producer = random.Below(4);
        const RowsOfGraph piece = TakePiece(random, left);
        Append(name, piece, producer == 0 ? "" : absl::StrCat("p", producer),
               sequences[producer] += 1 + random.Below(3));
        if (random.Below(50) == 0) Reopen();
      }
      SealOptions options;
      // The least that sorters take: everything goes over the disk.
      if (way == 2) options.memory_bytes = 1;
      const auto info = Seal(name, options);
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ(info->state, SourceGraphState::kSealed);
      EXPECT_NE(info->version, 0U);
      EXPECT_TRUE(ReadSealed(name) == expected);
      if (way == 1) {
        Reopen();
        EXPECT_TRUE(ReadSealed(name) == expected);
        EXPECT_EQ(store_->Get(name)->version, info->version);
      }
      const auto report = store_->Verify(name, kGoOn);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->ok()) << report->damaged.front();
    }
  }
  uint64_t bytes = 0;
  for (const auto& file : Files("")) {
    if (file.parent_path().filename() == "arrays") bytes += std::filesystem::file_size(file);
  }
  EXPECT_EQ(store_->counts().num_bytes, bytes);
}

// An info in words.
std::string Told(const SourceGraphInfo& info) {
  std::string told = absl::StrCat(info.name, " ", info.id, " state ", static_cast<int>(info.state),
                                  " nodes ", absl::StrJoin(info.num_nodes, " "), " edges ",
                                  absl::StrJoin(info.num_edges, " "), " bytes ", info.num_bytes,
                                  " of ", info.options.max_bytes, " version ", info.version);
  const auto add = [&told](const std::vector<SourceColumnSpec>& columns) {
    for (const SourceColumnSpec& column : columns) {
      absl::StrAppend(&told, ", ", column.name, " ", static_cast<int>(column.dtype), " [",
                      absl::StrJoin(column.row_shape, " "), "] ", column.ragged, column.text);
    }
  };
  for (size_t n = 0; n < info.schema->node_sets().size(); ++n) {
    const SourceNodeSetOptions& options = info.options.node_sets[n];
    absl::StrAppend(&told, "; ", info.schema->node_sets()[n].name, " ", options.integer_ids,
                    options.nodes_from_edges);
    add(info.schema->node_sets()[n].columns);
  }
  for (size_t e = 0; e < info.schema->edge_sets().size(); ++e) {
    const SourceEdgeSetSpec& set = info.schema->edge_sets()[e];
    const SourceEdgeSetOptions& options = info.options.edge_sets[e];
    absl::StrAppend(&told, "; ", set.name, " ", set.source, " ", set.target, " ",
                    set.reverse_of.value_or(99), " ", options.by_source, options.by_target);
    add(set.columns);
  }
  return told;
}

TEST_F(FileSourceGraphStoreTest, AGraphIsAsItWasCreatedAlsoWhenItIsOpenedAnew) {
  std::vector<SourceColumnSpec> columns;
  for (uint32_t d = 0; d <= static_cast<uint32_t>(DType::kFloat64); ++d) {
    columns.push_back({absl::StrCat("c", d), static_cast<DType>(d), {d + 1, 2}, d % 2 == 0, false});
  }
  const SourceColumnSpec text = {"text", DType::kUint8, {}, true, true};
  SourceGraphInfo expected;
  expected.name = "team/a";
  expected.schema = std::make_shared<const SourceGraphSchema>(*SourceGraphSchema::Create(
      {{"n", columns}, {"m", {text}}},
      {{"e", 1, 0, {text}, {}}, {"f", 0, 0, columns, {}}, {"r", 0, 1, {}, 0}}));
  expected.options.max_bytes = 123456;
  expected.options.node_sets = {{true, false}, {false, true}};
  expected.options.edge_sets = {{false, true}, {true, false}, {true, true}};
  expected.num_nodes = {0, 0};
  expected.num_edges = {0, 0, 0};
  const SourceGraphInfo created = *store_->Create("team/a", *expected.schema, expected.options);
  EXPECT_NE(created.id, 0U);
  expected.id = created.id;
  EXPECT_EQ(Told(created), Told(expected));
  EXPECT_EQ(Told(*store_->Get("team/a")), Told(expected));
  Reopen();
  EXPECT_EQ(Told(*store_->Get("team/a")), Told(expected));
  EXPECT_EQ(Told(store_->List(0, "")->graphs[0]), Told(expected));
  const SourceGraphInfo sealed = *Seal("team/a");
  expected.state = SourceGraphState::kSealed;
  expected.version = sealed.version;
  expected.num_bytes = sealed.num_bytes;
  EXPECT_EQ(Told(sealed), Told(expected));
  Reopen();
  EXPECT_EQ(Told(*store_->Get("team/a")), Told(expected));
  EXPECT_EQ(Told((*store_->Open("team/a"))->info()), Told(expected));
}

TEST_F(FileSourceGraphStoreTest, CountsAreThoseOfTheRows) {
  SeededRandom random(21);
  const RowsOfGraph rows = RandomRows(random, 30, 80);
  std::vector<uint64_t> nodes(2);
  std::vector<uint64_t> edges(4);
  for (const RowOfNode& row : rows.nodes) ++nodes[row.set];
  for (const RowOfEdge& row : rows.edges) ++edges[row.set];
  FileSourceGraphStore::Options bounded = Options();
  bounded.max_bytes = 1 << 20;
  Reopen(bounded);
  Create("a");
  Create("b");
  Append("a", rows, "p", 1);
  EXPECT_TRUE(TryAppend("a", rows, "p", 1)->is_repetition);
  const auto again = TryAppend("a", rows);
  EXPECT_EQ(again->total_nodes, 2 * rows.nodes.size());
  EXPECT_EQ(again->total_edges, 2 * rows.edges.size());
  SourceGraphStoreCounts counts = store_->counts();
  EXPECT_EQ(counts.num_graphs, 2U);
  EXPECT_EQ(counts.max_bytes, uint64_t{1} << 20);
  EXPECT_EQ(counts.appended_nodes, 2 * rows.nodes.size());
  EXPECT_EQ(counts.appended_edges, 2 * rows.edges.size());
  const std::vector<uint64_t> twice = {2 * edges[0], 2 * edges[1], 2 * edges[1], 2 * edges[3]};
  for (const bool is_anew : {false, true}) {
    if (is_anew) Reopen(bounded);
    const SourceGraphInfo open = *store_->Get("a");
    EXPECT_THAT(open.num_nodes, ElementsAre(2 * nodes[0], 2 * nodes[1]));
    EXPECT_EQ(open.num_edges, twice);
    EXPECT_EQ(store_->counts().num_bytes, open.num_bytes);
  }
  EXPECT_EQ(store_->counts().appended_nodes, 0U);
  // A bound of the store leaves the graph's count, and the store's, as they were.
  const uint64_t before = store_->counts().num_bytes;
  bounded.max_bytes = before + 100;
  Reopen(bounded);
  const absl::Status refused = TryAppend("a", rows).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("are beyond the bound of ", before + 100)));
  EXPECT_EQ(store_->counts().num_bytes, before);
  EXPECT_EQ(store_->Get("a")->num_bytes, before);
  Reopen();
  const SourceGraphInfo sealed = *Seal("a");
  const ReadGraph expected = Expected(schema_, options_, rows);
  EXPECT_THAT(sealed.num_nodes, ElementsAre(expected.nodes[0].size(), expected.nodes[1].size()));
  EXPECT_EQ(sealed.num_edges, twice);
}

// What is done comes to what is to do in the end, and not much before.
TEST_F(FileSourceGraphStoreTest, ProgressComesToItsEnd) {
  Create("a");
  SeededRandom random(6);
  // Each step counts more of them than it may be late.
  RowsOfGraph rows = RandomRows(random, 10000, 20000);
  // Nodes that edges make are more to do than is known in the beginning.
  std::set<std::pair<size_t, std::string>> ids;
  for (const RowOfNode& row : rows.nodes) ids.emplace(row.set, row.id);
  for (const RowOfEdge& row : rows.edges) {
    const SourceEdgeSetSpec& set = schema_.edge_sets()[row.set];
    for (const auto& [end, id] :
         {std::pair(set.source, row.source), std::pair(set.target, row.target)}) {
      if (!ids.emplace(end, id).second) continue;
      rows.nodes.push_back({end, id, {""}});
      if (end == 0) rows.nodes.back().cells = {BytesOf(uint64_t{0}), ""};
    }
  }
  const uint64_t beginning = std::filesystem::file_size(Files("rows").front());
  Append("a", rows);
  Append("a", {{rows.nodes[0]}, {}});
  const uint64_t second = store_->Get("a")->num_bytes;
  std::vector<SourceGraphProgress> told;
  const auto tell = [&told](const SourceGraphProgress& now) {
    told.push_back(now);
    return true;
  };
  const auto give_up = [](const SourceGraphProgress&) { return false; };
  EXPECT_EQ(store_->Verify("a", tell)->num_bytes, second);
  EXPECT_EQ(told.front().done, 0U);
  EXPECT_EQ(told.back().total, beginning + second);
  EXPECT_LT(told.back().done, told.back().total);
  EXPECT_GT(told.back().done, told.back().total / 2);
  EXPECT_EQ(store_->Verify("a", give_up).status().code(), absl::StatusCode::kCancelled);
  told.clear();
  ASSERT_TRUE(store_->Seal("a", {}, tell).ok());
  size_t num_at_end = 0;
  for (const SourceGraphProgress& now : told) num_at_end += now.done == now.total ? 1 : 0;
  EXPECT_LE(num_at_end, 2U);
  EXPECT_LT(told.back().total - told.back().done, 4096U);
  told.clear();
  const uint64_t bytes = store_->Get("a")->num_bytes;
  EXPECT_EQ(store_->Verify("a", tell)->num_bytes, bytes);
  EXPECT_EQ(told.back().done, bytes);
  for (const SourceGraphProgress& now : told) EXPECT_EQ(now.total, bytes);
  for (size_t i = 1; i < told.size(); ++i) EXPECT_GE(told[i].done, told[i - 1].done);
  EXPECT_EQ(store_->Verify("a", give_up).status().code(), absl::StatusCode::kCancelled);
}

// Each node and edge is the row of `rows`, which were appended at once, that it says; nodes that
// only edges name come behind.
void ExpectRowsOf(const SourceGraph& graph, const RowsOfGraph& rows) {
  const ReadGraph read = Read(graph);
  for (size_t set = 0; set < read.nodes.size(); ++set) {
    std::vector<const RowOfNode*> of_set;
    for (const RowOfNode& row : rows.nodes) {
      if (row.set == set) of_set.push_back(&row);
    }
    uint64_t behind = of_set.size();
    for (uint32_t node = 0; node < read.nodes[set].size(); ++node) {
      const uint64_t row = graph.NodeRows(set).row(node);
      if (row < of_set.size()) {
        EXPECT_EQ(of_set[row]->id, read.nodes[set][node].id);
      } else {
        EXPECT_EQ(row, behind++);
      }
      EXPECT_EQ(graph.NodesOfRows(set).node(row), node);
    }
  }
  for (size_t set = 0; set < read.edges.size(); ++set) {
    const SourceEdgeSetSpec& spec = graph.schema().edge_sets()[set];
    const size_t stored = spec.reverse_of.value_or(set);
    std::vector<const RowOfEdge*> of_set;
    for (const RowOfEdge& row : rows.edges) {
      if (row.set == stored) of_set.push_back(&row);
    }
    std::set<uint64_t> seen;
    for (size_t edge = 0; edge < read.edges[set].size(); ++edge) {
      const uint64_t row = graph.EdgeRows(set).row(edge);
      ASSERT_LT(row, of_set.size());
      EXPECT_TRUE(seen.insert(row).second);
      const ReadGraph::Edge& found = read.edges[set][edge];
      const bool is_reverse = spec.reverse_of.has_value();
      EXPECT_EQ(read.nodes[spec.source][found.source].id,
                is_reverse ? of_set[row]->target : of_set[row]->source);
      EXPECT_EQ(read.nodes[spec.target][found.target].id,
                is_reverse ? of_set[row]->source : of_set[row]->target);
      if (is_reverse) continue;
      EXPECT_EQ(found.cells, of_set[row]->cells);
    }
  }
}

// More than a sorter's smallest memory, several times over, so that runs are merged into runs.
TEST_F(FileSourceGraphStoreTest, SortsOverTheDiskAsInMemory) {
  SeededRandom random(1);
  const RowsOfGraph rows = RandomRows(random, 400, 60000);
  Create("a");
  Append("a", rows);
  Create("b");
  Append("b", rows);
  SealOptions tiny;
  tiny.memory_bytes = 1;
  ASSERT_TRUE(Seal("a").ok());
  ASSERT_TRUE(Seal("b", tiny).ok());
  EXPECT_TRUE(ReadSealed("a") == ReadSealed("b"));
  EXPECT_TRUE(ReadSealed("a") == Expected(schema_, options_, rows));
  ExpectRowsOf(**store_->Open("a"), rows);
  ExpectRowsOf(**store_->Open("b"), rows);
}

// Of the first graph a run and many records behind it are sorted, of the second more runs than are
// merged at a time.
TEST_F(FileSourceGraphStoreTest, ASealOverTheDiskEndsWheneverItIsGivenUp) {
  SealOptions tiny;
  tiny.memory_bytes = 1;
  for (const auto& [num_edges, step] : {std::pair(500, 40), std::pair(17'000, 3500)}) {
    const std::string name = absl::StrCat("edges-", num_edges);
    RowsOfGraph rows;
    for (int i = 0; i < num_edges; ++i) rows.edges.push_back({3, "a", "b", {"r"}});
    Create(name);
    Append(name, rows);
    for (int is_cancelled = 0;; is_cancelled += step) {
      int asked = 0;
      const auto sealed = store_->Seal(
          name, tiny, [&](const SourceGraphProgress&) { return asked++ != is_cancelled; });
      if (asked <= is_cancelled) {
        ASSERT_TRUE(sealed.ok()) << sealed.status();
        EXPECT_GT(is_cancelled, 2 * step);
        break;
      }
      ASSERT_EQ(sealed.status().code(), absl::StatusCode::kCancelled) << is_cancelled;
      EXPECT_EQ(store_->Get(name)->state, SourceGraphState::kOpen);
    }
    EXPECT_TRUE(ReadSealed(name) == Expected(schema_, options_, rows));
  }
}

TEST_F(FileSourceGraphStoreTest, ARetryIsNoRepetition) {
  SeededRandom random(2);
  const RowsOfGraph rows = RandomRows(random, 5, 5);
  Create("a");
  Append("a", rows, "p", 7);
  const RowsOfGraph others = RandomRows(random, 5, 5);
  const auto expect_known = [&] {
    const auto again = TryAppend("a", rows, "p", 7);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->is_repetition);
    EXPECT_EQ(again->num_nodes, 0U);
    // A sealed graph has nodes that only edges name, and each node once.
    const SourceGraphInfo now = *store_->Get("a");
    EXPECT_EQ(again->total_nodes, now.num_nodes[0] + now.num_nodes[1]);
    if (now.state == SourceGraphState::kOpen) {
      EXPECT_EQ(again->total_nodes, rows.nodes.size());
      EXPECT_EQ(again->total_edges, rows.edges.size());
    }
    // Other rows are not taken for these, nor for those of a number that was left out.
    for (const uint64_t sequence : {7, 1}) {
      const absl::Status taken = TryAppend("a", others, "p", sequence).status();
      EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
      EXPECT_THAT(std::string(taken.message()), HasSubstr("its next one is 8"));
    }
    EXPECT_EQ(store_->GetProducer("a", "p")->last(), 7U);
    EXPECT_EQ(store_->GetProducer("a", "q")->last(), 0U);
  };
  expect_known();
  Reopen();
  expect_known();
  ASSERT_TRUE(Seal("a").ok());
  expect_known();
  Reopen();
  expect_known();
  EXPECT_EQ(TryAppend("a", rows, "p", 8).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TryAppend("a", rows).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileSourceGraphStoreTest, NodesAreFoundByTheirIds) {
  SeededRandom random(3);
  Create("a");
  Append("a", RandomRows(random, 50, 100));
  ASSERT_TRUE(Seal("a").ok());
  const auto graph = *store_->Open("a");
  std::set<int64_t> integers;
  for (uint32_t n = 0; n < graph->num_nodes(0); ++n) {
    int64_t id;
    std::memcpy(&id, Cell(graph->NodeIds(0), n).data(), sizeof(id));
    integers.insert(id);
    EXPECT_EQ(FindNode(*graph, 0, id), n);
  }
  for (int64_t id = -60; id < 300; ++id) {
    if (!integers.contains(id)) {
      EXPECT_EQ(FindNode(*graph, 0, id), std::nullopt) << id;
    }
  }
  for (uint32_t n = 0; n < graph->num_nodes(1); ++n) {
    EXPECT_EQ(FindNode(*graph, 1, Cell(graph->NodeIds(1), n)), n);
  }
  EXPECT_EQ(FindNode(*graph, 1, "nobody"), std::nullopt);
  EXPECT_EQ(FindNode(*graph, 1, ""), std::nullopt);
  EXPECT_EQ(FindNode(*graph, 1, int64_t{1}), std::nullopt);
}

TEST_F(FileSourceGraphStoreTest, ANodeWithTwoRowsIsRefusedOrChosen) {
  const auto node = [](int64_t id, uint64_t x) {
    return RowOfNode{0, BytesOf(id), {BytesOf(x), "tt"}};
  };
  RowsOfGraph first = {{node(4, 1), node(5, 1)}, {}};
  RowsOfGraph second = {{node(4, 2)}, {}};
  Create("a");
  // The producer's name decides, not the time.
  Append("a", second, "q", 1);
  Append("a", first, "p", 9);
  const auto refused = Seal("a");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("node 4 of node set 'paper'"));
  EXPECT_EQ(store_->Get("a")->state, SourceGraphState::kOpen);
  SealOptions options;
  options.duplicates = DuplicateNodes::kLast;
  ASSERT_TRUE(Seal("a", options).ok());
  EXPECT_EQ(ReadSealed("a").nodes[0][0].cells[0], BytesOf(uint64_t{2}));
  // By producers, the first row is that which was not taken.
  const auto nodes_of = [&](std::vector<uint64_t> rows) {
    return FindNodesOfRows(**store_->Open("a"), 0, rows, "rows");
  };
  EXPECT_THAT(*nodes_of({2, 1}), ElementsAre(0, 1));
  EXPECT_EQ(nodes_of({1, 0}).status().ToString(),
            "OUT_OF_RANGE: rows: row 0 at position 1: its node of 'paper' was there twice, and "
            "another row was taken");
  EXPECT_EQ(nodes_of({3}).status().ToString(),
            "OUT_OF_RANGE: rows: row 3 at position 0, node set 'paper' has 3 rows");

  Create("b");
  Append("b", second, "q", 1);
  Append("b", first, "p", 9);
  options.duplicates = DuplicateNodes::kFirst;
  ASSERT_TRUE(Seal("b", options).ok());
  EXPECT_EQ(ReadSealed("b").nodes[0][0].cells[0], BytesOf(uint64_t{1}));
  EXPECT_EQ(ReadSealed("b").nodes[0].size(), 2U);

  Create("c");
  Append("c", first);
  Append("c", first);
  ASSERT_TRUE(Seal("c").ok()) << "the rows are equal";
  EXPECT_EQ(ReadSealed("c").nodes[0].size(), 2U);
}

TEST_F(FileSourceGraphStoreTest, AnEdgeToNoNodeIsRefusedIfNodesAreOnlyAppended) {
  SourceGraphOptions strict = options_;
  strict.node_sets[0].nodes_from_edges = false;
  ASSERT_TRUE(store_->Create("a", schema_, strict).ok());
  const RowsOfGraph rows = {
      {{0, BytesOf(int64_t{1}), {BytesOf(uint64_t{0}), ""}}},
      {{0, BytesOf(int64_t{1}), BytesOf(int64_t{-2}), {BytesOf(int64_t{0})}}}};
  Append("a", rows);
  const auto refused = Seal("a");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the target"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("node -2"));
  const uint64_t before = store_->Get("a")->num_bytes;
  Append("a", {{{0, BytesOf(int64_t{-2}), {BytesOf(uint64_t{0}), ""}}}, {}});
  EXPECT_GT(store_->Get("a")->num_bytes, before);
  EXPECT_TRUE(Seal("a").ok());
}

// Edges with the same ends: in ascending order of (producer, sequence, row).
TEST_F(FileSourceGraphStoreTest, ParallelEdgesAreInTheOrderOfTheirProducers) {
  Create("a");
  const auto edges = [](std::vector<int64_t> whens) {
    RowsOfGraph rows;
    for (const int64_t when : whens) {
      rows.edges.push_back({0, BytesOf(int64_t{1}), BytesOf(int64_t{1}), {BytesOf(when)}});
    }
    return rows;
  };
  Append("a", edges({50, 51}), "b", 1);
  Append("a", edges({30}), "a", 2);
  Append("a", edges({60}), "b", 2);
  Append("a", edges({10}));
  Append("a", edges({20, 21}));
  ASSERT_TRUE(Seal("a").ok());
  std::vector<std::string> whens;
  const ReadGraph sealed = ReadSealed("a");
  for (const auto& edge : sealed.edges[0]) whens.push_back(edge.cells[0]);
  std::vector<std::string> expected;
  for (const int64_t when : {10, 20, 21, 30, 50, 51, 60}) expected.push_back(BytesOf(when));
  EXPECT_EQ(whens, expected);
}

TEST_F(FileSourceGraphStoreTest, ADirectionThatWasNotAskedForIsRefused) {
  Create("a");
  ASSERT_TRUE(Seal("a").ok());
  const auto graph = *store_->Open("a");
  EXPECT_TRUE(graph->ByTarget(3).ok());
  EXPECT_EQ(graph->BySource(3).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(graph->BySource(3).status().message()), HasSubstr("'reads'"));
}

TEST_F(FileSourceGraphStoreTest, StatusCodes) {
  SeededRandom random(4);
  const RowsOfGraph rows = RandomRows(random, 3, 3);
  const auto code = [](const auto& result) { return result.status().code(); };
  EXPECT_EQ(code(store_->Create("a b", schema_, options_)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store_->Get("a")), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(TryAppend("a", rows)), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(Seal("a")), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(store_->Open("a")), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(store_->Verify("a", kGoOn)), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Delete("a").code(), absl::StatusCode::kNotFound);
  Create("a");
  EXPECT_EQ(code(store_->Create("a", schema_, options_)), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(store_->Open("a")), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(TryAppend("a", rows, "p", 0)), absl::StatusCode::kInvalidArgument);
  const ChunkOfRows chunk(schema_, options_, rows);
  EXPECT_EQ(code(store_->Append({"a", 12345}, chunk.chunk(), {})), absl::StatusCode::kNotFound);
  const auto cancelled = store_->Seal("a", {}, [](const SourceGraphProgress&) { return false; });
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kOk) << "nothing to do takes no step";
  EXPECT_TRUE(Seal("a").ok()) << "again";
  EXPECT_EQ(code(store_->List(10, "a b")), absl::StatusCode::kInvalidArgument);
  FileSourceGraphStore::Options few = Options();
  few.max_graphs = 1;
  Reopen(few);
  EXPECT_EQ(code(store_->Create("b", schema_, options_)), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FileSourceGraphStore::Open(Options()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileSourceGraphStoreTest, OptionsThatDoNotFitTheSchemaAreRefused) {
  const auto expect = [&](const SourceGraphSchema& schema, const SourceGraphOptions& options,
                          const std::string& what) {
    const absl::Status status = store_->Create("a", schema, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_EQ(store_->Get("a").status().code(), absl::StatusCode::kNotFound);
  };
  SourceGraphOptions options = options_;
  options.node_sets.emplace_back();
  expect(schema_, options, "options of 3 node sets, the schema has 2");
  options = options_;
  options.edge_sets.pop_back();
  expect(schema_, options, "options of 3 edge sets, the schema has 4");
  options = options_;
  options.edge_sets[1] = {false, false};
  expect(schema_, options, "edge set 'writes' could be looked up neither");
  // 4,096 arrays, and two more.
  for (const size_t of_last : {248, 249}) {
    std::vector<SourceNodeSetSpec> sets;
    for (size_t n = 0; n < 8; ++n) {
      SourceNodeSetSpec& set = sets.emplace_back();
      set.name = absl::StrCat("n", n);
      for (size_t c = 0; c < (n == 7 ? of_last : SourceGraphSchema::kMaxColumns); ++c) {
        set.columns.push_back({absl::StrCat(c), DType::kInt8, {}, false, false});
      }
    }
    const SourceGraphSchema schema = *SourceGraphSchema::Create(std::move(sets), {});
    if (of_last == 249) {
      expect(schema, {}, "up to 4098 arrays, beyond 4096");
    } else {
      EXPECT_EQ(store_->Create("most", schema, {}).status().code(), absl::StatusCode::kOk);
    }
  }
}

TEST_F(FileSourceGraphStoreTest, ABadChunkIsRefusedAndNamed) {
  Create("a");
  SeededRandom random(5);
  const ChunkOfRows good(schema_, options_, RandomRows(random, 8, 30));
  const auto refused = [&](const SourceGraphChunk& chunk) {
    const auto result = store_->Append({"a", 0}, chunk, {});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  SourceGraphChunk chunk = good.chunk();
  chunk.nodes[0].ids.data.remove_suffix(1);
  EXPECT_THAT(refused(chunk), HasSubstr("node set 'paper'"));
  chunk = good.chunk();
  chunk.nodes[1].ids.integers = true;
  EXPECT_THAT(refused(chunk), HasSubstr("node set 'author': ids are integers"));
  chunk = good.chunk();
  chunk.nodes[0].columns[1].data.remove_suffix(1);
  EXPECT_THAT(refused(chunk), HasSubstr("column 'tags' of node set 'paper'"));
  chunk = good.chunk();
  chunk.nodes.push_back(chunk.nodes[0]);
  EXPECT_THAT(refused(chunk), HasSubstr("is there twice"));
  chunk = good.chunk();
  chunk.edges[1].edge_set = 2;
  EXPECT_THAT(refused(chunk), HasSubstr("reverses 'writes'"));
  chunk = good.chunk();
  chunk.edges[0].targets.data.remove_suffix(8);
  EXPECT_THAT(refused(chunk), HasSubstr("targets of edge set 'cites'"));
  EXPECT_EQ(store_->Get("a")->num_bytes, 0U);
}

TEST_F(FileSourceGraphStoreTest, AGivenUpSealLeavesTheGraphOpen) {
  Create("a");
  SeededRandom random(6);
  const RowsOfGraph rows = RandomRows(random, 2000, 9000);
  Append("a", rows);
  const uint64_t bytes = store_->counts().num_bytes;
  uint64_t steps = 0;
  ASSERT_TRUE(store_
                  ->Seal("a", {},
                         [&](const SourceGraphProgress& now) {
                           EXPECT_LE(now.done, now.total);
                           return ++steps < 4;
                         })
                  .status()
                  .code() == absl::StatusCode::kCancelled);
  EXPECT_EQ(steps, 4U);
  EXPECT_EQ(store_->counts().num_bytes, bytes);
  Append("a", {});
  // A seal forbids appends, and another seal, while it is at work.
  const auto info = store_->Seal("a", {}, [&](const SourceGraphProgress&) {
    EXPECT_EQ(TryAppend("a", rows).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Seal("a").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store_->Get("a")->state, SourceGraphState::kSealing);
    return true;
  });
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(ReadSealed("a") == Expected(schema_, options_, rows));
}

TEST_F(FileSourceGraphStoreTest, AMapOutlivesItsGraph) {
  Create("a");
  SeededRandom random(7);
  const RowsOfGraph rows = RandomRows(random, 50, 90);
  Append("a", rows);
  ASSERT_TRUE(Seal("a").ok());
  auto graph = *store_->Open("a");
  EXPECT_TRUE(std::filesystem::is_directory(graph->companion_folder()));
  EXPECT_EQ(graph, *store_->Open("a")) << "readers share a map";
  ASSERT_TRUE(store_->Delete("a").ok());
  Create("a");
  EXPECT_TRUE(Read(*graph) == Expected(schema_, options_, rows));
  EXPECT_GT(store_->counts().num_bytes, 0U);
  EXPECT_GT(NumMaps(), 0U);
  graph.reset();
  EXPECT_EQ(NumMaps(), 0U) << "of the seal, or of readers";
  EXPECT_EQ(store_->counts().num_bytes, 0U);
  EXPECT_EQ(Files("arrays").size(), 0U);
}

TEST_F(FileSourceGraphStoreTest, ADeletedGraphIsNotSealed) {
  Create("a");
  SeededRandom random(8);
  Append("a", RandomRows(random, 2000, 9000));
  bool deleted = false;
  const auto sealed = store_->Seal("a", {}, [&](const SourceGraphProgress&) {
    if (!std::exchange(deleted, true)) {
      EXPECT_TRUE(store_->Delete("a").ok());
    }
    return true;
  });
  EXPECT_EQ(sealed.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->counts().num_bytes, 0U);
  Reopen();
  EXPECT_EQ(store_->counts().num_graphs, 0U);
}

// What is meant for a graph is never done to another one that has its name, whenever that comes.
TEST_F(FileSourceGraphStoreTest, AGraphThatIsCreatedAnewIsAnother) {
  Create("a");
  const uint64_t first = store_->Get("a")->id;
  SeededRandom random(11);
  Append("a", RandomRows(random, 500, 900));
  // While it is being sealed.
  bool deleted = false;
  const auto sealed = store_->Seal({"a", first}, {}, [&](const SourceGraphProgress&) {
    if (!std::exchange(deleted, true)) {
      EXPECT_TRUE(store_->Delete({"a", first}).ok());
      Create("a");
    }
    return true;
  });
  EXPECT_EQ(sealed.status().code(), absl::StatusCode::kNotFound);
  const SourceGraphInfo anew = *store_->Get("a");
  EXPECT_NE(anew.id, first);
  EXPECT_EQ(anew.state, SourceGraphState::kOpen);
  EXPECT_EQ(store_->Seal({"a", first}, {}, kGoOn).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Delete({"a", first}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->GetProducer({"a", first}, "p").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Get("a")->state, SourceGraphState::kOpen);
  EXPECT_TRUE(store_->Seal({"a", anew.id}, {}, kGoOn).ok());
  EXPECT_TRUE(store_->Delete({"a", anew.id}).ok());
  EXPECT_EQ(store_->counts().num_bytes, 0U);
}

TEST_F(FileSourceGraphStoreTest, ProducersOfOneCallAreLetGo) {
  Create("a");
  SeededRandom random(12);
  const RowsOfGraph rows = RandomRows(random, 1, 0);
  const ChunkOfRows chunk(schema_, options_, rows);
  ProducerSequence producer = {"", 1};
  producer.forget_after = absl::Minutes(10);
  const auto append = [&](uint64_t call) {
    producer.producer = absl::StrCat("made up ", call);
    producer.now = absl::UnixEpoch() + absl::Seconds(call);
    return store_->Append("a", chunk.chunk(), producer);
  };
  constexpr uint64_t kCalls = SourceGraphStore::kMaxProducers + 300;
  for (uint64_t call = 0; call < kCalls; ++call) {
    const auto appended = append(call);
    ASSERT_TRUE(appended.ok()) << appended.status();
    ASSERT_FALSE(appended->is_repetition);
  }
  EXPECT_TRUE(append(kCalls - 1)->is_repetition);
  Append("a", rows, "named", 1);
  Reopen();
  EXPECT_TRUE(append(kCalls - 1)->is_repetition);
  Append("a", rows, "named", 2);
  SealOptions first;
  first.duplicates = DuplicateNodes::kFirst;
  ASSERT_TRUE(Seal("a", first).ok());
  EXPECT_TRUE(append(kCalls - 1)->is_repetition);
  EXPECT_TRUE(TryAppend("a", rows, "named", 2)->is_repetition);
}

TEST_F(FileSourceGraphStoreTest, NamedProducersAreBounded) {
  Create("a");
  const uint64_t id = store_->Get("a")->id;
  const std::filesystem::path log = Files("rows").front();
  SeededRandom random(3);
  const RowsOfGraph rows = RandomRows(random, 1, 0);
  const ChunkOfRows chunk(schema_, options_, rows);
  store_.reset();
  {
    std::ofstream file(log, std::ios::binary | std::ios::app);
    for (size_t p = 1; p < SourceGraphStore::kMaxProducers; ++p) {
      file << EncodeRows(chunk.chunk(), ProducerSequence{absl::StrCat("p", p), 1}, id, 0);
    }
  }
  Reopen();
  Append("a", rows, "last", 1);
  const absl::Status refused = TryAppend("a", rows, "more", 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'a' has 4096 producers, the most that it may have"));
  Append("a", rows, "p7", 2);
  EXPECT_TRUE(TryAppend("a", rows, "p7", 1)->is_repetition);
  // Of names that are made up there may be others.
  ProducerSequence made_up = {"call", 1};
  made_up.forget_after = absl::Minutes(10);
  EXPECT_TRUE(store_->Append("a", chunk.chunk(), made_up).ok());
}

// Of those whose names are made up: the ones that are forgotten last are kept, and others take the
// places of those whose time is over, however many of them there were when it was last looked.
TEST_F(FileSourceGraphStoreTest, ProducersOfOneCallAreBounded) {
  Create("a");
  const uint64_t id = store_->Get("a")->id;
  const std::filesystem::path log = Files("rows").front();
  constexpr uint64_t kMost = SourceGraphStore::kMaxMadeUpProducers;
  const auto call = [](uint64_t number) {
    ProducerSequence producer = {absl::StrCat("call ", number), 1};
    producer.now = absl::UnixEpoch() + absl::Seconds(10 * number);
    producer.forget_after = absl::Minutes(10);
    return producer;
  };
  store_.reset();
  {
    std::ofstream file(log, std::ios::binary | std::ios::app);
    for (uint64_t number = 2 * kMost; number > 0; --number) {
      file << EncodeRows(SourceGraphChunk(), call(number), id, 0);
    }
    file << EncodeRows(SourceGraphChunk(), ProducerSequence{"named", 1}, id, 0)
         << EncodeRows(SourceGraphChunk(), call(0), id, 0);
  }
  Reopen();
  const auto append = [&](const ProducerSequence& producer) {
    return store_->Append("a", SourceGraphChunk(), producer);
  };
  EXPECT_TRUE(append({"named", 1})->is_repetition);
  EXPECT_TRUE(append(call(kMost + 1))->is_repetition);
  EXPECT_TRUE(append(call(2 * kMost))->is_repetition);
  const absl::Status full = absl::ResourceExhaustedError(
      "source graph 'a' has 65536 producers whose names were made up for one call and whose time "
      "for retries is not over, the most that it may have");
  EXPECT_EQ(append(call(kMost)).status(), full);
  EXPECT_EQ(append(call(0)).status(), full);
  // The time of the first is over, and that of the second is not.
  ProducerSequence late = call(kMost + 1 + 60);
  late.now += absl::Seconds(5);
  late.producer = "late";
  EXPECT_FALSE(append(late)->is_repetition);
  EXPECT_TRUE(append(late)->is_repetition);
  late.producer = "later";
  EXPECT_EQ(append(late).status(), full);
  EXPECT_FALSE(append({"named", 2})->is_repetition);
}

TEST_F(FileSourceGraphStoreTest, Bounds) {
  SeededRandom random(9);
  const RowsOfGraph rows = RandomRows(random, 50, 90);
  SourceGraphOptions small = options_;
  small.max_bytes = 20000;
  ASSERT_TRUE(store_->Create("a", schema_, small).ok());
  absl::Status refused;
  while (refused.ok()) refused = TryAppend("a", rows).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("20000"));
  EXPECT_LE(store_->Get("a")->num_bytes, 20000U);
  const auto sealed = Seal("a");
  EXPECT_EQ(sealed.status().code(), absl::StatusCode::kResourceExhausted) << "no room for arrays";
  EXPECT_EQ(store_->Get("a")->state, SourceGraphState::kOpen);

  MemoryBudget little(1000);
  SealOptions options;
  options.memory = &little;
  EXPECT_EQ(Seal("a", options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(little.held(), 0U);
  MemoryBudget enough(uint64_t{1} << 30);
  options.memory = &enough;
  Create("b");
  Append("b", rows);
  EXPECT_TRUE(Seal("b", options).ok());
  EXPECT_EQ(enough.held(), 0U);

  FileSourceGraphStore::Options full = Options();
  full.min_free_bytes = uint64_t{1} << 60;
  Reopen(full);
  const auto created = store_->Create("c", schema_, options_);
  EXPECT_EQ(created.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(created.status().message()), HasSubstr("the disk of"));
}

// Whatever a seal finds no room for: the graph stays open, and seals then.
TEST_F(FileSourceGraphStoreTest, WhatASealReservesIsAccountedFor) {
  SeededRandom random(9);
  const RowsOfGraph rows = RandomRows(random, 50, 90);
  uint64_t number = 0;
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<uint64_t> {
        const std::string name = absl::StrCat("graph", ++number);
        Create(name);
        Append(name, rows);
        SealOptions options;
        options.memory = memory;
        const absl::Status sealed = Seal(name, options).status();
        if (!sealed.ok()) {
          EXPECT_EQ(store_->Get(name)->state, SourceGraphState::kOpen);
          EXPECT_TRUE(Seal(name).ok());
        }
        EXPECT_TRUE(store_->Delete({name, 0}).ok());
        if (!sealed.ok()) return sealed;
        return 0;
      },
      [](uint64_t none) { return none; });
}

// Beside what sorts there are buffers of files.
TEST_F(FileSourceGraphStoreTest, ASealReservesMoreThanWhatSorts) {
  Create("a");
  SeededRandom random(9);
  Append("a", RandomRows(random, 5, 9));
  SeenBudget seen;
  SealOptions options;
  options.memory = seen.memory();
  ASSERT_TRUE(Seal("a", options).ok());
  EXPECT_GT(seen.highs().back(), options.memory_bytes);
  EXPECT_EQ(seen.held(), 0U);
}

// Each of these keeps it.
TEST_F(FileSourceGraphStoreTest, AGraphThatIsAppendedToSealedOrOpenedIsUsed) {
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  RetainedSourceGraphs retained(store_.get(), folder_ + ".last_uses", {absl::Hours(1)},
                                [&now] { return now; });
  const auto num_expired = [&] {
    std::vector<Expired> expired;
    EXPECT_TRUE(retained.Sweep(expired).ok());
    return expired.size();
  };
  ASSERT_TRUE(retained.Create("a", schema_, options_).ok());
  SeededRandom random(3);
  const RowsOfGraph rows = RandomRows(random, 5, 9);
  const ChunkOfRows chunk(schema_, options_, rows);
  const std::vector<std::function<absl::Status()>> uses = {
      [&] {
        return retained.Append({"a", 0}, chunk.chunk(), std::nullopt).status();
      },
      [&] {
        return retained.Seal({"a", 0}, SealOptions(), kGoOn).status();
      },
      [&] { return retained.Open("a").status(); }};
  for (size_t i = 0; i < uses.size(); ++i) {
    SCOPED_TRACE(i);
    now += absl::Minutes(50);
    const absl::Status used = uses[i]();
    EXPECT_TRUE(used.ok()) << used;
    EXPECT_EQ(num_expired(), 0U);
    now += absl::Minutes(50);
    EXPECT_EQ(num_expired(), 0U);
  }
  now += absl::Minutes(20);
  EXPECT_EQ(num_expired(), 1U);
  EXPECT_EQ(store_->Get("a").status().code(), absl::StatusCode::kNotFound);
}

// Every byte of every array: a flipped one is found, and named by its file.
TEST_F(FileSourceGraphStoreTest, VerifyFindsEveryDamagedByteOfAnArray) {
  Create("a");
  SeededRandom random(10);
  Append("a", RandomRows(random, 4, 8));
  ASSERT_TRUE(Seal("a").ok());
  size_t num_bytes = 0;
  for (const auto& file : Files("")) {
    if (file.parent_path().filename() != "arrays") continue;
    for (uint64_t at = 0; at < std::filesystem::file_size(file); ++at, ++num_bytes) {
      FlipByte(file, at);
      const auto report = store_->Verify("a", kGoOn);
      ASSERT_TRUE(report.ok());
      ASSERT_EQ(report->num_damaged, 1U) << file << " " << at;
      EXPECT_EQ(report->damaged[0].code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(report->damaged[0].message()), HasSubstr(file.string()));
      FlipByte(file, at);
    }
  }
  EXPECT_GT(num_bytes, 500U);
  EXPECT_TRUE(store_->Verify("a", kGoOn)->ok());
  const auto array = Files("node0.ids").front();
  std::filesystem::resize_file(array, std::filesystem::file_size(array) - 1);
  EXPECT_EQ(store_->Open("a").status().code(), absl::StatusCode::kDataLoss);
  ExpectDamaged(*store_, "a");
  std::filesystem::remove(array);
  Reopen();
  EXPECT_EQ(store_->Open("a").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(store_->Open("a").status().message()), HasSubstr("is missing"));
}

// Every byte of the small files: the graph is damaged, the others are served.
TEST_F(FileSourceGraphStoreTest, ADamagedDescriptionDoesNotHideOtherGraphs) {
  Create("a");
  ASSERT_TRUE(Seal("a").ok());
  const auto definition = Files("definition").front();
  const auto manifest = Files("manifest").front();
  Create("b");
  for (const auto& file : {definition, manifest}) {
    for (uint64_t at = 0; at < std::filesystem::file_size(file); ++at) {
      FlipByte(file, at);
      store_.reset();
      auto store = FileSourceGraphStore::Open(Options());
      ASSERT_TRUE(store.ok()) << store.status();
      EXPECT_TRUE((*store)->Get("b").ok());
      const auto list = (*store)->List(10, "");
      ASSERT_EQ(list->graphs.size(), 2U);
      EXPECT_EQ(list->graphs[0].name, "a") << "the other file has its name";
      EXPECT_EQ(list->graphs[0].state, SourceGraphState::kDamaged);
      for (const absl::Status& status :
           {(*store)->Get("a").status(), (*store)->Open("a").status()}) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
        EXPECT_THAT(std::string(status.message()), HasSubstr("source graph 'a' is damaged"));
      }
      ExpectDamaged(**store, "a");
      FlipByte(file, at);
    }
  }
  Reopen();
  EXPECT_TRUE(store_->Open("a").ok());
  // Another release wrote it: its checksum is right.
  std::string bytes = *ReadWhole(definition);
  bytes[8] = 2;
  const uint32_t crc = Crc32c(absl::string_view(bytes).substr(0, bytes.size() - sizeof(crc)));
  std::memcpy(bytes.data() + bytes.size() - sizeof(crc), &crc, sizeof(crc));
  store_.reset();
  std::ofstream(definition, std::ios::binary) << bytes;
  EXPECT_EQ(FileSourceGraphStore::Open(Options()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Whatever is flipped in whichever array: a reader gets the bytes that were sealed, or DATA_LOSS
// that names the graph, which is then put aside. The others are served.
TEST_F(FileSourceGraphStoreTest, ReadersGetWhatWasSealedOrDataLoss) {
  Create("a");
  Create("b");
  SeededRandom random(11);
  const RowsOfGraph rows = RandomRows(random, 8, 16);
  Append("a", rows);
  Append("b", rows);
  ASSERT_TRUE(Seal("a").ok());
  const std::vector<std::filesystem::path> files = Files("");
  ASSERT_TRUE(Seal("b").ok());
  const ReadGraph expected = Expected(schema_, options_, rows);
  size_t num_flipped = 0;
  size_t num_found = 0;
  for (const auto& file : files) {
    if (file.parent_path().filename() != "arrays") continue;
    for (uint64_t at = 0; at < std::filesystem::file_size(file); at += 1 + random.Below(4)) {
      SCOPED_TRACE(absl::StrCat(file.string(), " ", at));
      FlipByte(file, at);
      Reopen();
      ++num_flipped;
      const auto opened = store_->Open("a");
      const absl::StatusOr<ReadGraph> read =
          opened.ok() ? TryRead(**opened) : absl::StatusOr<ReadGraph>(opened.status());
      if (read.ok()) {
        EXPECT_TRUE(*read == expected);
      } else {
        ++num_found;
        EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
        EXPECT_THAT(
            std::string(read.status().message()),
            AllOf(HasSubstr("source graph 'a' is damaged"), HasSubstr(file.filename().string())));
        EXPECT_EQ(store_->Open("a").status(), read.status());
        EXPECT_EQ(store_->Get("a").status(), read.status());
        EXPECT_EQ(store_->List(10, "")->graphs[0].state, SourceGraphState::kDamaged);
        ExpectDamaged(*store_, "a");
      }
      EXPECT_TRUE(ReadSealed("b") == expected);
      FlipByte(file, at);
    }
  }
  EXPECT_GT(num_flipped, 300U);
  EXPECT_EQ(num_found, num_flipped) << "all of a graph was read";
  Reopen();
  EXPECT_TRUE(ReadSealed("a") == expected);
}

// Arrays whose checksums are right, and that no seal writes.
TEST_F(FileSourceGraphStoreTest, VerifyFindsWhatNoGraphHas) {
  Create("a");
  SeededRandom random(23);
  RowsOfGraph rows = RandomRows(random, 8, 60);
  // There are more papers than authors, and the first one has an edge.
  rows.nodes.push_back({0, BytesOf(int64_t{1} << 40), {BytesOf(uint64_t{0}), ""}});
  rows.edges.push_back({0, BytesOf(int64_t{-40}), BytesOf(int64_t{-40}), {BytesOf(int64_t{1})}});
  Append("a", rows);
  const SourceGraphInfo info = *Seal("a");
  const uint64_t papers = info.num_nodes[0];
  const uint64_t authors = info.num_nodes[1];
  const uint64_t cites = info.num_edges[0];
  const std::filesystem::path sealed = Files("manifest").front();
  const std::string manifest = *ReadWhole(sealed);
  const auto write = [](const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  const auto expect_found = [&](const std::string& what) {
    Reopen();
    const auto report = store_->Verify("a", kGoOn);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->num_damaged, 1U) << what;
    EXPECT_EQ(report->damaged[0].code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(report->damaged[0].message()), HasSubstr(what));
  };
  // Of an array of numbers, the one at a place.
  const auto changed = [&](const std::string& array, size_t place, auto number,
                           const std::string& what) {
    const std::filesystem::path path = Files("/" + array).front();
    const std::string before = *ReadWhole(path);
    std::string after = before;
    ASSERT_GE(after.size(), (place + 1) * sizeof(number)) << array;
    std::memcpy(after.data() + place * sizeof(number), &number, sizeof(number));
    GraphManifest claims = *DecodeGraphManifest("manifest", manifest);
    for (ArrayInfo& of : claims.arrays) {
      if (of.name == array) of.block_crcs = {Crc32c(after)};
    }
    store_.reset();
    write(path, after);
    write(sealed, EncodeManifest(claims));
    expect_found(what);
    write(path, before);
  };
  const auto far = uint64_t{1} << 40;
  for (const char* const name :
       {"node1.ids", "node0.column1", "node1.column0", "edge3.column0", "edge0.by_source",
        "edge0.by_target", "edge1.by_source", "edge1.by_target", "edge3.by_target"}) {
    const std::string array = absl::StrCat(name, ".offsets");
    const bool is_column = absl::StrContains(array, "column") || absl::StrContains(array, "ids");
    changed(array, 1, far,
            absl::StrCat(is_column ? array : name, ": the offsets descend after row 1"));
  }
  const std::string not_those = absl::StrCat("are not those of ", cites, " edges");
  changed("edge0.by_source.offsets", 0, uint64_t{1}, not_those);
  changed("edge0.by_source.offsets", papers, cites + 1, not_those);
  const auto ends = [](const std::string& set, uint64_t node, uint64_t num_nodes, uint64_t edge,
                       uint64_t num_edges) {
    return absl::StrCat(set, ": the edge at place 0 ends at node ", node, " of ", num_nodes,
                        ", and is edge ", edge, " of ", num_edges);
  };
  const auto of_papers = static_cast<uint32_t>(papers);
  const auto of_authors = static_cast<uint32_t>(authors);
  ASSERT_NE(papers, authors);
  changed("edge0.by_source.neighbours", 0, of_papers,
          ends("edge0.by_source", papers, papers, 0, cites));
  changed("edge1.by_source.neighbours", 0, of_papers,
          ends("edge1.by_source", papers, papers, 0, info.num_edges[1]));
  changed("edge1.by_target.neighbours", 0, of_authors, absl::StrCat(" of ", authors, ", and is"));
  changed("edge0.by_target.edges", 0, cites, absl::StrCat("is edge ", cites, " of ", cites));
  changed("node0.by_row", 0, of_papers,
          absl::StrCat("node0.by_row: row 0 is node ", papers, ", which is another row"));
  uint32_t of_row;
  std::memcpy(&of_row, ReadWhole(Files("/node0.by_row").front())->data(), sizeof(of_row));
  changed("node0.by_row", 0, static_cast<uint32_t>((of_row + 1) % papers), "is another row");
  changed("node0.column1.offsets", papers, far, "array node0.column1 has ");
  // One of the two that are there together.
  for (const char* const array : {"node0.by_row", "node0.rows"}) {
    GraphManifest claims = *DecodeGraphManifest("manifest", manifest);
    std::erase_if(claims.arrays, [array](const ArrayInfo& of) { return of.name == array; });
    write(sealed, EncodeManifest(claims));
    expect_found("array node0.by_row and node0.rows: one is there without the other");
  }
  write(sealed, manifest);
  Reopen();
  EXPECT_TRUE(store_->Verify("a", kGoOn)->ok());
}

TEST(RowRecordsTest, ARecordIsReadAsItWasWrittenAndNothingElseIs) {
  const SourceGraphSchema schema = LawSchema();
  const SourceGraphOptions options = LawOptions();
  SeededRandom random(5);
  const ChunkOfRows rows(schema, options, RandomRows(random, 8, 30));
  const SourceGraphChunk& good = rows.chunk();
  const auto view = [&](const SourceGraphChunk& chunk, size_t cut = 0) {
    const std::string record = EncodeRows(chunk, std::nullopt, 99, 0);
    const RowHeader header = *RowHeader::Decode(record);
    const RowIndex index =
        *DecodeIndex(header, absl::string_view(record).substr(RowHeader::kBytes));
    return ViewRows(schema, options, header, index,
                    absl::string_view(record).substr(0, record.size() - cut))
        .status();
  };
  ProducerSequence producer = {"p", 7};
  const std::string record = EncodeRows(good, producer, 99, 12345);
  const RowHeader header = *RowHeader::Decode(record);
  EXPECT_EQ(header.record_bytes, record.size());
  EXPECT_EQ(header.graph, 99U);
  EXPECT_EQ(header.durable_bytes, 12345U);
  EXPECT_EQ(header.sequence, 7U);
  EXPECT_EQ(header.forget_seconds, 0U);
  EXPECT_FALSE(RowHeader::Decode(absl::string_view(record).substr(0, 63)).has_value());
  producer.forget_after = absl::Seconds(30);
  producer.now = absl::FromUnixSeconds(1000);
  EXPECT_EQ(RowHeader::Decode(EncodeRows(good, producer, 99, 0))->forget_seconds, 1030U);
  const RowIndex index = *DecodeIndex(header, absl::string_view(record).substr(RowHeader::kBytes));
  EXPECT_EQ(index.producer, "p");
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  for (const SourceNodeRows& each : good.nodes) num_nodes += each.num_rows;
  for (const SourceEdgeRows& each : good.edges) num_edges += each.num_rows;
  EXPECT_EQ(index.num_nodes(), num_nodes);
  EXPECT_EQ(index.num_edges(), num_edges);
  // Nothing of an index that ends too early, or says that it has more than there is.
  const std::string all = record.substr(RowHeader::kBytes, header.index_bytes);
  const auto is_index = [&](const std::string& bytes) {
    RowHeader of = header;
    of.index_bytes = static_cast<uint32_t>(bytes.size());
    of.index_crc = Crc32c(bytes);
    return DecodeIndex(of, bytes).has_value();
  };
  EXPECT_TRUE(is_index(all));
  for (size_t size = 0; size < all.size(); ++size) EXPECT_FALSE(is_index(all.substr(0, size)));
  EXPECT_FALSE(DecodeIndex(header, absl::string_view(all).substr(1)).has_value());
  std::string many = all;
  // The number of arrays of the first part.
  many.replace(32, 8, BytesOf(uint64_t{1} << 60));
  EXPECT_FALSE(is_index(many));
  SourceGraphChunk with_none = good;
  with_none.nodes[0].num_rows = 0;
  with_none.edges[0].num_rows = 0;
  const std::string rest = EncodeRows(with_none, producer, 99, 0);
  EXPECT_EQ(DecodeIndex(*RowHeader::Decode(rest), absl::string_view(rest).substr(RowHeader::kBytes))
                ->parts.size(),
            index.parts.size() - 2);
  EXPECT_EQ(view(good).code(), absl::StatusCode::kOk);

  const auto refused = [&](auto change) {
    SourceGraphChunk chunk = good;
    change(chunk);
    const absl::Status status = view(chunk);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  using Chunk = SourceGraphChunk;
  const std::string of_papers = "rows of 'paper': an array has a wrong length";
  const std::string of_authors = "rows of 'author': an array has a wrong length";
  const std::string of_edges = "rows of 'writes': an array has a wrong length";
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].ids.data.remove_suffix(1); }), of_papers);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].ids.integers = false; }), of_papers);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].columns.pop_back(); }), of_papers);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].columns[1].data.remove_suffix(1); }), of_papers);
  EXPECT_EQ(refused([](Chunk& c) { ++c.nodes[0].num_rows; }), of_papers);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[1].ids.lengths.remove_suffix(4); }), of_authors);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[1].ids.integers = true; }), of_authors);
  std::string lengths(good.nodes[1].ids.lengths);
  lengths.replace(0, 8, BytesOf(uint32_t{0xffffffff}) + BytesOf(uint32_t{2}));
  EXPECT_EQ(refused([&](Chunk& c) { c.nodes[1].ids.lengths = lengths; }), of_authors);
  EXPECT_EQ(refused([](Chunk& c) { std::swap(c.edges[1].sources, c.edges[1].targets); }), of_edges);
  EXPECT_EQ(refused([](Chunk& c) { c.edges[1].columns.emplace_back(); }), of_edges);
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].node_set = 2; }), "rows of a set number 2");
  EXPECT_EQ(refused([](Chunk& c) { c.edges[0].edge_set = 4; }), "rows of a set number 4");
  EXPECT_EQ(refused([](Chunk& c) { c.nodes[0].num_rows = (1 << 24) + 1; }),
            "rows of a set number 0");
  EXPECT_EQ(view(good, /*cut=*/64).code(), absl::StatusCode::kDataLoss);
}

// A small file with these fields of its message, and the right checksum.
std::string FileOf(const std::string& fields, uint32_t version = 1) {
  std::string bytes = "PHGRAPH\n" + BytesOf(version);
  bytes += BytesOf(static_cast<uint32_t>(fields.size())) + fields;
  return bytes + BytesOf(Crc32c(bytes));
}

// Bytes that no release has written, or that another one has.
TEST(GraphFilesTest, OnlyWhatThisReleaseWritesIsRead) {
  GraphDefinition definition;
  definition.name = "a";
  definition.id = 7;
  definition.schema = std::make_shared<const SourceGraphSchema>(
      *SourceGraphSchema::Create({{"n", {{"x", DType::kFloat64, {3}, false, false}}}}, {}));
  definition.options.node_sets.resize(1);
  const std::string good = EncodeDefinition(definition);
  const std::string fields = good.substr(16, good.size() - 20);
  EXPECT_EQ(FileOf(fields), good);
  const auto said = [](const std::string& bytes) {
    return DecodeGraphDefinition("file", bytes).status().ToString();
  };
  EXPECT_EQ(said(good), "OK");
  const std::string none = "DATA_LOSS: file: is cut off, or is no file of a source graph";
  EXPECT_EQ(said(""), none);
  EXPECT_EQ(said(good.substr(0, 19)), none);
  EXPECT_EQ(said("Q" + good.substr(1)), none);
  EXPECT_EQ(said(good.substr(0, 20)), "DATA_LOSS: file: fails its checksum");
  EXPECT_EQ(said(FileOf(fields, 2)),
            "FAILED_PRECONDITION: file: has format 2, this release reads format 1");
  std::string longer = good.substr(0, good.size() - 4) + "x";
  longer += BytesOf(Crc32c(longer));
  EXPECT_EQ(said(longer), "DATA_LOSS: file: has another length than it says");
  EXPECT_EQ(said(FileOf("")), "DATA_LOSS: file: the schema has no node set");
  const std::string not_written = "DATA_LOSS: file: has fields that this release does not write";
  EXPECT_EQ(said(FileOf(fields + "\x0a")), not_written);
  // A name, which comes first, once more; and field 31 of a later release.
  EXPECT_EQ(said(FileOf(fields + "\x0a\x01" + "a")), not_written);
  EXPECT_EQ(said(FileOf(fields + "\xf8\x01\x01")), not_written);
  std::string other_type = fields;
  const size_t dtype = other_type.find(std::string("\x10") + static_cast<char>(DType::kFloat64));
  ASSERT_NE(dtype, std::string::npos);
  other_type[dtype + 1] = static_cast<char>(DType::kFloat64) + 1;
  EXPECT_EQ(said(FileOf(other_type)), "DATA_LOSS: file: has an unknown element type");

  GraphManifest manifest;
  manifest.name = "a";
  manifest.id = 7;
  manifest.version = 9;
  manifest.num_nodes = {3};
  manifest.arrays = {{"node0.ids", 24, {5}}};
  manifest.producers.emplace("p", ProducerHistory(4, {1, 2}, 60));
  const std::string sealed = EncodeManifest(manifest);
  const std::string of_manifest = sealed.substr(16, sealed.size() - 20);
  const auto said_of_manifest = [](const std::string& bytes) {
    return DecodeGraphManifest("file", bytes).status().ToString();
  };
  EXPECT_EQ(said_of_manifest(sealed), "OK");
  EXPECT_EQ(said_of_manifest(FileOf(of_manifest + "\xf8\x01\x01")), not_written);
  manifest.producers.clear();
  for (const uint64_t last : {2, 1}) {
    // Named "p", with a number and two digests.
    const std::string producer =
        std::string("\x0a\x01p\x10") + static_cast<char>(last) + "\x1a\x08" + "abcdefgh";
    const std::string before = EncodeManifest(manifest);
    std::string with = before.substr(16, before.size() - 20);
    // The name of the graph comes last.
    with.insert(with.size() - 3,
                absl::StrCat("\x32", std::string(1, static_cast<char>(producer.size())), producer));
    EXPECT_EQ(said_of_manifest(FileOf(with)),
              last == 2 ? "OK" : "DATA_LOSS: file: a producer has more digests than requests");
  }
}

TEST(RowRecordsTest, AHeaderOfNumbersThatCannotBeIsNone) {
  const auto is_read = [](uint64_t record_bytes, uint32_t index_bytes) {
    RowHeader header;
    header.record_bytes = record_bytes;
    header.index_bytes = index_bytes;
    return RowHeader::Decode(header.Encode()).has_value();
  };
  EXPECT_TRUE(is_read(64, 0));
  EXPECT_TRUE(is_read(128, 64));
  EXPECT_FALSE(is_read(128, 65));
  EXPECT_FALSE(is_read(100, 0));
  EXPECT_TRUE(is_read(uint64_t{1} << 32, 0));
  EXPECT_FALSE(is_read((uint64_t{1} << 32) + 64, 0));
}

// Up to the bound exactly; what a graph finds no room for in the store is not counted of it.
TEST(GraphSpaceTest, TakesUpToItsBoundsAndNoMore) {
  const std::string folder = testing::TempDir();
  const auto refused = [](const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(status.message(), why);
  };
  const auto store = std::make_shared<DiskSpace>(folder, 100, 0);
  GraphSpace bounded(store, "g", 60);
  GraphSpace other(store, "h", 0);
  refused(bounded.Take(61),
          "source graph 'g' takes 0 bytes of the disk; 61 more are beyond its max_bytes of 60");
  EXPECT_TRUE(bounded.Take(60).ok());
  EXPECT_TRUE(bounded.Take(0).ok());
  refused(bounded.Take(1),
          "source graph 'g' takes 60 bytes of the disk; 1 more are beyond its max_bytes of 60");
  refused(other.Take(41),
          "source graphs take 60 bytes of the disk; 41 more are beyond the bound of 100");
  EXPECT_EQ(other.used(), 0U);
  EXPECT_TRUE(other.Take(40).ok());
  EXPECT_EQ(store->used(), 100U);
  // What is there already is counted, also beyond the bounds.
  bounded.TakeStored(5);
  EXPECT_EQ(bounded.used(), 65U);
  EXPECT_EQ(store->used(), 105U);
  refused(bounded.Take(0),
          "source graph 'g' takes 65 bytes of the disk; 0 more are beyond its max_bytes of 60");
  refused(other.Take(0),
          "source graphs take 105 bytes of the disk; 0 more are beyond the bound of "
          "100");
  bounded.Give(65);
  EXPECT_EQ(bounded.used(), 0U);
  EXPECT_EQ(store->used(), 40U);
  DiskSpace full(folder, UINT64_MAX, UINT64_MAX);
  EXPECT_THAT(std::string(full.Take(7).message()),
              testing::MatchesRegex(absl::StrCat(
                  "no space left on the disk of ", folder,
                  ": it has [0-9]+ bytes; 7 more would leave less than ", UINT64_MAX)));
}

// Bytes, numbers and zeros, within blocks and across their ends.
TEST_F(FileSourceGraphStoreTest, AnArrayIsWrittenInBlocks) {
  constexpr uint64_t kBlock = ArrayInfo::kBlockBytes;
  const auto store = std::make_shared<DiskSpace>(folder_, UINT64_MAX, 0);
  GraphSpace space(store, "g", 0);
  ArrayWriter writer = *ArrayWriter::Create(folder_, "array", &space);
  std::string expected;
  const auto append = [&](const std::string& bytes) {
    EXPECT_TRUE(writer.Append(bytes).ok());
    expected += bytes;
    EXPECT_EQ(writer.bytes(), expected.size());
  };
  const auto append_zeros = [&](uint64_t bytes) {
    EXPECT_TRUE(writer.AppendZeros(bytes).ok());
    expected.append(bytes, '\0');
    EXPECT_EQ(writer.bytes(), expected.size());
  };
  append("ab");
  append_zeros(3);
  append(std::string(kBlock - 5, 'x'));  // A whole block, which is written with what comes next.
  append("c");
  append(std::string(2 * kBlock, 'y'));
  append_zeros(2 * kBlock - 1);
  append_zeros(kBlock);
  EXPECT_TRUE(writer.AppendValue(uint64_t{0x0102030405060708}).ok());
  expected += BytesOf(uint64_t{0x0102030405060708});
  const ArrayInfo info = *writer.Finish();
  EXPECT_EQ(info.name, "array");
  EXPECT_EQ(info.bytes, expected.size());
  EXPECT_EQ(space.used(), expected.size());
  ASSERT_EQ(info.block_crcs.size(), (expected.size() + kBlock - 1) / kBlock);
  for (size_t b = 0; b < info.block_crcs.size(); ++b) {
    EXPECT_EQ(info.block_crcs[b], Crc32c(absl::string_view(expected).substr(b * kBlock, kBlock)));
  }
  EXPECT_TRUE(*ReadWhole(folder_ + "/array") == expected);
}

// A large column is checked by blocks, as its rows are read; what was found sound stays so.
TEST_F(FileSourceGraphStoreTest, ColumnsAreCheckedByBlocks) {
  const SourceGraphSchema schema =
      *SourceGraphSchema::Create({{"n", {{"x", DType::kUint8, {1024}, false, false}}}}, {});
  ASSERT_TRUE(store_->Create("large", schema, {}).ok());
  constexpr uint64_t kRows = 4096;
  std::string ids;
  for (uint64_t row = 0; row < kRows; ++row) ids += BytesOf(static_cast<int64_t>(row));
  const std::string data(kRows * 1024, 'x');
  SourceGraphChunk chunk;
  chunk.nodes = {{0, kRows, {true, ids, ""}, {{data, ""}}}};
  ASSERT_TRUE(store_->Append({"large", 0}, chunk, std::nullopt).ok());
  // The last record is read again, piece by piece, as nobody says that it is durable.
  const auto log = Files("rows").front();
  const uint64_t log_bytes = std::filesystem::file_size(log);
  Reopen();
  EXPECT_EQ(std::filesystem::file_size(log), log_bytes);
  EXPECT_EQ(store_->Get("large")->num_nodes[0], kRows);
  EXPECT_TRUE(store_->Verify("large", kGoOn)->ok());
  // One that is behind says so of a damaged one, however large that is.
  ASSERT_TRUE(store_->Append({"large", 0}, SourceGraphChunk(), ProducerSequence{"p", 1}).ok());
  FlipByte(log, 128 + 20);
  Reopen();
  EXPECT_THAT(std::string(store_->Get("large").status().message()),
              HasSubstr("rows: the record at byte 128 is damaged"));
  FlipByte(log, 128 + 20);
  Reopen();
  ASSERT_TRUE(Seal("large").ok());
  const auto file = Files("node0.column0").front();
  ASSERT_EQ(std::filesystem::file_size(file), kRows * 1024);
  {
    const auto graph = *store_->Open("large");
    EXPECT_TRUE(graph->NodeColumn(0, 0).CheckRow(2048).ok());
  }
  FlipByte(file, 1500 * 1024);
  const auto graph = *store_->Open("large");
  const SourceColumn column = graph->NodeColumn(0, 0);
  EXPECT_TRUE(column.CheckRow(0).ok());
  EXPECT_TRUE(column.CheckRow(1023).ok());
  EXPECT_TRUE(column.CheckRow(2047 + 1).ok());
  EXPECT_TRUE(store_->Open("large").ok());
  EXPECT_THAT(std::string(column.CheckRow(1024).message()),
              HasSubstr("source graph 'large' is damaged: array node0.column0: bytes 1048576 to "
                        "2097152 fail their checksum"));
  EXPECT_EQ(column.CheckRow(kRows).code(), absl::StatusCode::kDataLoss) << "beyond its end";
  // Others are told so from now on; who had it open still reads what is sound.
  EXPECT_EQ(store_->Open("large").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(column.CheckRow(0).ok());
  EXPECT_TRUE(store_->Delete("large").ok());
}

// Nothing is removed of a graph whose arrays are all that is left. What a seal leaves that did not
// come to its end is no such graph, also without any rows.
TEST_F(FileSourceGraphStoreTest, ALostManifestCostsNoArrays) {
  Create("a");
  SeededRandom random(13);
  const RowsOfGraph rows = RandomRows(random, 50, 90);
  Append("a", rows);
  ASSERT_TRUE(Seal("a").ok());
  const std::filesystem::path manifest = Files("manifest").front();
  store_.reset();
  std::filesystem::rename(manifest, folder_ + "/aside");
  Reopen();
  const absl::Status damage = store_->Open("a").status();
  EXPECT_EQ(damage.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damage.message()), HasSubstr("manifest: is missing"));
  EXPECT_EQ(TryAppend("a", rows).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Seal("a").status().code(), absl::StatusCode::kDataLoss);
  ExpectDamaged(*store_, "a");
  store_.reset();
  std::filesystem::rename(folder_ + "/aside", manifest);
  Reopen();
  EXPECT_TRUE(ReadSealed("a") == Expected(schema_, options_, rows));
  ASSERT_TRUE(store_->Delete("a").ok());

  Create("empty");
  // As a crash in the middle of a seal leaves it.
  const std::filesystem::path graph = Files("definition").front().parent_path();
  store_.reset();
  std::filesystem::create_directory(graph / "arrays");
  Reopen();
  EXPECT_FALSE(std::filesystem::exists(graph / "arrays"));
  EXPECT_EQ(store_->Get("empty")->state, SourceGraphState::kOpen);
  EXPECT_TRUE(Seal("empty").ok());
}

// A log that was emptied, removed, or lost its beginning is not that of a graph without rows.
TEST_F(FileSourceGraphStoreTest, ALostLogIsNoEmptyOne) {
  for (const bool has_rows : {false, true}) {
    Create("a");
    if (has_rows) {
      SeededRandom random(11);
      Append("a", RandomRows(random, 2, 3), "p", 1);
    }
    const auto log = Files("rows").front();
    store_.reset();
    const auto copy = folder_ + "/copy";
    std::filesystem::copy_file(log, copy);
    for (const int damage : {0, 1, 2, 3}) {
      if (damage == 0) std::filesystem::remove(log);
      if (damage == 1) std::filesystem::resize_file(log, 0);
      if (damage == 2) std::filesystem::resize_file(log, 100);
      if (damage == 3) FlipByte(log, 40);
      Reopen();
      EXPECT_EQ(store_->Get("a").status().code(), absl::StatusCode::kDataLoss) << damage;
      EXPECT_EQ(Seal("a").status().code(), absl::StatusCode::kDataLoss) << damage;
      ExpectDamaged(*store_, "a");
      store_.reset();
      std::filesystem::copy_file(copy, log, std::filesystem::copy_options::overwrite_existing);
    }
    std::filesystem::remove(copy);
    Reopen();
    EXPECT_TRUE(Seal("a").ok());
    ASSERT_TRUE(store_->Delete("a").ok());
  }
}

// Two folders of one name are never both there, and neither hides the other.
TEST_F(FileSourceGraphStoreTest, TwoGraphsOfOneNameAreNotOpened) {
  Create("a");
  const std::filesystem::path graph = Files("definition").front().parent_path();
  store_.reset();
  const std::filesystem::path twin = folder_ + "/0123456789abcdef";
  std::filesystem::copy(graph, twin, std::filesystem::copy_options::recursive);
  const absl::Status refused = FileSourceGraphStore::Open(Options()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("0123456789abcdef"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(graph.filename().string()));
  std::filesystem::remove_all(twin);
  Reopen();
  EXPECT_TRUE(store_->Get("a").ok());
}

// The log, cut off at every byte: what was appended before the cut record is there. Appends go on.
TEST_F(FileSourceGraphStoreTest, ARecordThatWasWrittenInPartIsNone) {
  Create("a");
  const uint64_t beginning = std::filesystem::file_size(Files("rows").front());
  SeededRandom random(11);
  const RowsOfGraph rows = RandomRows(random, 2, 3);
  Append("a", rows, "p", 1);
  const auto log = Files("rows").front();
  const uint64_t first = std::filesystem::file_size(log);
  Append("a", rows, "p", 2);
  const uint64_t both = std::filesystem::file_size(log);
  store_.reset();
  const auto copy = folder_ + "/copy";
  std::filesystem::copy_file(log, copy);
  for (uint64_t cut = beginning; cut < both; cut += 1 + (cut % 7)) {
    std::filesystem::copy_file(copy, log, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(log, cut);
    Reopen();
    const uint64_t kept = cut < first ? 0 : 1;
    EXPECT_EQ(store_->Get("a")->num_bytes, kept * (first - beginning)) << cut;
    EXPECT_EQ(TryAppend("a", rows, "p", 1)->is_repetition, kept == 1);
    EXPECT_FALSE(TryAppend("a", rows, "p", 2)->is_repetition);
  }
  // Nor is one that has its length, and another byte, wherever that is.
  for (uint64_t at = first; at < both; at += 1 + at % 41) {
    std::filesystem::copy_file(copy, log, std::filesystem::copy_options::overwrite_existing);
    FlipByte(log, at);
    Reopen();
    EXPECT_EQ(store_->Get("a")->num_bytes, first - beginning) << at;
    EXPECT_EQ(std::filesystem::file_size(log), first) << at;
  }
}

// A damaged record that was durable before a later one was written is no interrupted append.
TEST_F(FileSourceGraphStoreTest, ADamagedRecordIsFound) {
  Create("a");
  SeededRandom random(12);
  const RowsOfGraph rows = RandomRows(random, 2, 3);
  Append("a", rows, "p", 1);
  const auto log = Files("rows").front();
  const uint64_t first = std::filesystem::file_size(log);
  Append("a", rows, "p", 2);
  for (uint64_t at = 0; at < first; ++at) {
    FlipByte(log, at);
    const auto report = store_->Verify("a", kGoOn);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->num_damaged, 1U) << at;
    EXPECT_EQ(Seal("a").status().code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_EQ(store_->Get("a")->state, SourceGraphState::kOpen);
    FlipByte(log, at);
  }
  // A damaged header is found when the store is opened; nothing is cut off.
  FlipByte(log, 20);
  Reopen();
  EXPECT_EQ(store_->Get("a").status().code(), absl::StatusCode::kDataLoss);
  FlipByte(log, 20);
  Reopen();
  EXPECT_TRUE(TryAppend("a", rows, "p", 2)->is_repetition);
  EXPECT_TRUE(Seal("a").ok());
}

// What a check, or a repair, tells of a folder of graphs, in words without the folder's name.
class ToldDamage {
 public:
  explicit ToldDamage(const std::string& folder) : folder_(folder) {}
  void operator()(const StoredDamage& damage) {
    told.push_back(absl::StrReplaceAll(
        absl::StrCat(damage.file, "|", damage.place, "|", damage.what, "|", damage.cost),
        {{folder_ + "/", ""}}));
  }
  std::vector<std::string> told;

 private:
  const std::string folder_;
};

std::vector<std::string> FoundIn(const std::string& folder) {
  ToldDamage found(folder);
  const auto checked = CheckSourceGraphFolders(
      folder, [&](const StoredDamage& damage) { found(damage); },
      [](const std::string&, const std::string&) {});
  if (!checked.ok()) found.told.push_back(checked.status().ToString());
  return found.told;
}

// A copy of the folder of a store that is not open, for each damage.
class SourceGraphCheckTest : public FileSourceGraphStoreTest {
 protected:
  SourceGraphCheckTest() {
    SeededRandom random(31);
    const RowsOfGraph rows = RandomRows(random, 20, 30);
    for (const char* const name : {"a", "b", "open"}) {
      Create(name);
      Append(name, rows);
      folders_[name] = SourceGraphFolderName(store_->Get(name)->id);
    }
    EXPECT_TRUE(Seal("a").ok());
    EXPECT_TRUE(Seal("b").ok());
    store_.reset();
    CopyAnew();
  }
  ~SourceGraphCheckTest() override { std::filesystem::remove_all(copy_); }

  void CopyAnew() const {
    std::filesystem::remove_all(copy_);
    std::filesystem::copy(folder_, copy_, std::filesystem::copy_options::recursive);
  }
  // A file of a graph of the copy.
  std::filesystem::path In(const std::string& graph, const std::string& file) const {
    return copy_ + "/" + folders_.at(graph) + "/" + file;
  }
  template <typename Change>
  std::vector<std::string> FoundAfter(const Change& change) const {
    CopyAnew();
    change();
    return FoundIn(copy_);
  }
  static constexpr auto kNoCompanions = [](const std::string&, const std::string&) {
    return absl::OkStatus();
  };

  const std::string copy_ = folder_ + ".copy";
  std::map<std::string, std::string> folders_;
};

TEST_F(SourceGraphCheckTest, TellsWhatIsDamagedAndWhatThatCosts) {
  const std::string& a = folders_["a"];
  const std::string& open = folders_["open"];
  EXPECT_THAT(FoundIn(copy_), testing::IsEmpty());
  EXPECT_EQ(*CheckSourceGraphFolders(
                copy_ + "/none", [](const StoredDamage&) {},
                [](const std::string&, const std::string&) {}),
            0U);
  std::map<std::string, std::string> companions;
  EXPECT_EQ(*CheckSourceGraphFolders(
                copy_, [](const StoredDamage&) {},
                [&](const std::string& graph, const std::string& companion) {
                  companions[graph] = companion;
                }),
            3U);
  for (const auto& [graph, companion] : companions) EXPECT_EQ(companion, In(graph, "companion"));
  EXPECT_EQ(companions.size(), 3U);

  const uint64_t bytes = std::filesystem::file_size(In("open", "rows"));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::resize_file(In("open", "rows"), bytes + 70); }),
              ElementsAre(absl::StrCat(
                  open, "/rows|bytes ", bytes, " to ", bytes + 70,
                  "|are no whole record|nothing if the server or the machine ended while they were "
                  "written; otherwise the last append")));
  EXPECT_THAT(FoundAfter([&] { FlipByte(In("open", "rows"), bytes - 1); }),
              ElementsAre(absl::StrCat(
                  open, "/rows|bytes 128 to ", bytes,
                  "|are no whole record|nothing if the server or the machine ended while they were "
                  "written; otherwise the last append")));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::remove(In("open", "rows")); }),
              ElementsAre(open + "/rows||is missing|source graph 'open'"));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::remove(In("a", "manifest")); }),
              ElementsAre(a + "/manifest||is missing|source graph 'a'"));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::remove_all(In("a", "companion")); }),
              ElementsAre(a + "/companion||is missing|the partitions of source graph 'a'"));
  EXPECT_THAT(FoundAfter([&] { FlipByte(In("a", "definition"), 30); }),
              ElementsAre(absl::StrCat(a, "/definition||", a,
                                       "/definition: fails its checksum|source graph 'a'")));
  EXPECT_THAT(FoundAfter([&] { FlipByte(In("a", "manifest"), 30); }),
              ElementsAre(absl::StrCat(a, "||", a,
                                       "/manifest: fails its checksum|source graph "
                                       "'a'")));
  EXPECT_THAT(
      FoundAfter([&] { FlipByte(In("a", "arrays/node0.ids"), 3); }),
      ElementsAre(testing::MatchesRegex(
          a + "/arrays/node0.ids..bytes 0 to [0-9]+ fail their checksum.source graph 'a'")));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::remove(In("a", "arrays/node0.ids")); }),
              ElementsAre(a + "/arrays/node0.ids||is missing|source graph 'a'"));
  EXPECT_THAT(FoundAfter([&] {
                std::filesystem::copy_file(In("b", "manifest"), In("a", "manifest"),
                                           std::filesystem::copy_options::overwrite_existing);
              }),
              ElementsAre(absl::StrCat(a, "||", a,
                                       "/manifest: is that of another graph|source graph 'a'")));
  EXPECT_THAT(FoundAfter([&] { std::filesystem::remove_all(copy_ + "/" + a); }),
              ElementsAre(a + "||is missing|source graph 'a'"));
  EXPECT_THAT(
      FoundAfter([&] {
        std::filesystem::copy(copy_ + "/" + a, copy_ + "/ffffffffffffffff",
                              std::filesystem::copy_options::recursive);
      }),
      ElementsAre(absl::StrCat("ffffffffffffffff||has a source graph of the same name as ", a,
                               "|no server starts before one of the two, of source graph "
                               "'a', is moved away")));
  EXPECT_THAT(FoundAfter([&] { FlipByte(copy_ + "/graphs", 60); }),
              ElementsAre("graphs||'graphs' is damaged, or was written by a later release of "
                          "packhoused|nothing that is there: packhoused store repair "
                          "--accept-missing writes it anew"));
}

TEST_F(SourceGraphCheckTest, WhatIsMissingIsAccepted) {
  FlipByte(copy_ + "/graphs", 60);
  std::filesystem::remove_all(In("a", "companion"));
  ToldDamage missing(copy_);
  std::vector<std::string> companions;
  const auto accept = [&](const absl::Status& of_companions) {
    return AcceptMissingSourceGraphs(
        copy_, [&](const StoredDamage& damage) { missing(damage); },
        [&](const std::string& graph, const std::string& companion) {
          EXPECT_EQ(companion, In(graph, "companion"));
          companions.push_back(graph);
          return of_companions;
        });
  };
  EXPECT_TRUE(accept(absl::OkStatus()).ok());
  EXPECT_EQ(missing.told.size(), 2U);
  EXPECT_THAT(companions, testing::UnorderedElementsAre("a", "b", "open"));
  // The list is of those that are there, by the list alone.
  EXPECT_TRUE(std::filesystem::is_directory(In("a", "companion")));
  EXPECT_THAT(FoundIn(copy_), testing::IsEmpty());
  const absl::Status failed = absl::UnavailableError("not now");
  EXPECT_EQ(accept(failed), failed);
  EXPECT_EQ(missing.told.size(), 2U);
  EXPECT_TRUE(AcceptMissingSourceGraphs(
                  copy_ + "/none", [](const StoredDamage&) { ADD_FAILURE(); },
                  [&](const std::string&, const std::string&) { return failed; })
                  .ok());
}

TEST_F(SourceGraphCheckTest, OnlyADamagedGraphIsDropped) {
  const auto drop = [&](const std::string& name) {
    return DropDamagedSourceGraph(copy_, name).ToString();
  };
  EXPECT_EQ(drop("c"), "NOT_FOUND: source graph 'c': there is none");
  EXPECT_EQ(drop("a"), "FAILED_PRECONDITION: source graph 'a' is sound: a server can delete it");
  EXPECT_EQ(DropDamagedSourceGraph(copy_ + "/none", "a").ToString(),
            "NOT_FOUND: source graph 'a': there is none");
  FlipByte(In("a", "definition"), 30);
  EXPECT_EQ(drop("a"), "OK");
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/" + folders_["a"]));
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/" + folders_["a"] + ".deleted"));
  EXPECT_THAT(FoundIn(copy_), testing::IsEmpty());
  // By what the list calls it, if it does not say so itself; or by its folder.
  FlipByte(In("b", "definition"), 30);
  FlipByte(In("b", "manifest"), 30);
  const std::string other = "0123456789abcdef";
  std::filesystem::copy(copy_ + "/" + folders_["b"], copy_ + "/" + other,
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(FoundIn(copy_).size(), 2U);
  EXPECT_THAT(FoundIn(copy_)[1] + FoundIn(copy_)[0],
              AllOf(HasSubstr("source graph 'b'"), HasSubstr("source graph '" + other + "'")));
  EXPECT_EQ(drop("b"), "OK");
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/" + folders_["b"]));
  EXPECT_EQ(drop(other), "OK");
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/" + other));
  // One that is listed alone.
  std::filesystem::remove_all(copy_ + "/" + folders_["open"]);
  EXPECT_EQ(drop("open"), "OK");
  EXPECT_EQ(drop("open"), "NOT_FOUND: source graph 'open': there is none");
  EXPECT_THAT(FoundIn(copy_), testing::IsEmpty());
}

TEST_F(SourceGraphCheckTest, AFolderThatIsOpenIsLeftAlone) {
  FileSourceGraphStore::Options options = Options();
  options.folder = copy_;
  Reopen(options);
  const std::string in_use =
      absl::StrCat("FAILED_PRECONDITION: store '", copy_, "' is in use by process ", ::getpid());
  EXPECT_THAT(FoundIn(copy_), ElementsAre(in_use));
  EXPECT_EQ(DropDamagedSourceGraph(copy_, "a").ToString(), in_use);
  EXPECT_EQ(AcceptMissingSourceGraphs(
                copy_, [](const StoredDamage&) {}, kNoCompanions)
                .ToString(),
            in_use);
}

TEST(TellDamageTest, MoreThanAreListedAreCounted) {
  SourceGraphVerifyReport report;
  report.damaged = {absl::DataLossError("/g/rows: is cut: off"),
                    absl::DataLossError("is lost: all"), absl::DataLossError("/g/rows")};
  report.num_damaged = 5;
  std::vector<std::string> told;
  TellDamage("/g", "much", report, [&](const StoredDamage& damage) {
    told.push_back(
        absl::StrCat(damage.file, "|", damage.place, "|", damage.what, "|", damage.cost));
  });
  EXPECT_THAT(told, ElementsAre("/g/rows||is cut: off|much", "/g||is lost: all|much",
                                "/g||/g/rows|much", "/g||2 more places|much"));
  told.clear();
  report.num_damaged = 3;
  TellDamage("/g", "much", report,
             [&](const StoredDamage& damage) { told.push_back(damage.what); });
  EXPECT_EQ(told.size(), 3U);
}

TEST_F(FileSourceGraphStoreTest, ListsInPages) {
  for (const char* name : {"d", "b", "a", "c"}) Create(name);
  std::vector<std::string> names;
  std::string token;
  do {
    const auto list = store_->List(3, token);
    ASSERT_TRUE(list.ok());
    for (const SourceGraphInfo& info : list->graphs) names.push_back(info.name);
    token = list->next_page_token;
  } while (!token.empty());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(store_->List(0, "")->graphs.size(), 4U);
  EXPECT_EQ(store_->List(4, "")->next_page_token, "");
}

// What is used, or open, stays; what is not goes in its time; restarts change neither.
TEST_F(FileSourceGraphStoreTest, WhatNobodyUsesExpires) {
  absl::Time now = absl::UnixEpoch() + absl::Hours(1000);
  std::unique_ptr<RetainedSourceGraphs> retained;
  const auto restart = [&] {
    retained = std::make_unique<RetainedSourceGraphs>(
        store_.get(), folder_ + "/uses", *ParseRetention("8h,kept=0s"), [&now] { return now; });
  };
  const auto sweep_after = [&](absl::Duration duration) {
    now += duration;
    std::vector<Expired> expired;
    EXPECT_TRUE(retained->Sweep(expired).ok());
    std::vector<std::string> names;
    for (const Expired& one : expired) {
      EXPECT_EQ(store_->Get(one.name).status().code(), absl::StatusCode::kNotFound);
      names.push_back(one.name);
    }
    return names;
  };
  restart();
  SeededRandom random(14);
  const RowsOfGraph rows = RandomRows(random, 20, 30);
  for (const char* const name : {"kept/a", "open", "sealed", "unused"}) {
    ASSERT_TRUE(retained->Create(name, schema_, options_).ok());
  }
  EXPECT_THAT(sweep_after(absl::Hours(7)), testing::IsEmpty());
  const ChunkOfRows chunk(schema_, options_, rows);
  ASSERT_TRUE(retained->Append({"open", 0}, chunk.chunk(), std::nullopt).ok());
  // A graph is not deleted while it is sealed, however long that takes.
  const auto sealed = retained->Seal("sealed", {}, [&](const SourceGraphProgress&) {
    EXPECT_THAT(sweep_after(absl::Hours(6)), testing::Not(testing::Contains("sealed")));
    return true;
  });
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_THAT(sweep_after(absl::Hours(1)), testing::Not(testing::Contains("sealed")));
  EXPECT_EQ(store_->Get("unused").status().code(), absl::StatusCode::kNotFound);
  auto opened = retained->Open("sealed");
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT(sweep_after(absl::Hours(9)), testing::Not(testing::Contains("sealed")));
  // Time without a server does not count.
  EXPECT_TRUE(retained->Save().ok());
  opened = absl::UnknownError("");
  retained = nullptr;
  now += absl::Hours(100);
  restart();
  EXPECT_THAT(sweep_after(absl::Hours(7)), testing::IsEmpty());
  EXPECT_THAT(sweep_after(absl::Hours(3)), testing::ElementsAre("sealed"));
  EXPECT_TRUE(store_->Get("kept/a").ok());
}

}  // namespace
}  // namespace packhouse
