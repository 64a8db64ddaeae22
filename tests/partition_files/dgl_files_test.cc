#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/dgl_format.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "tests/partition_files/failing_sink.h"
#include "tests/partition_files/partition_data.h"
#include "tests/partition_files/random_arrays.h"
#include "tests/support/fingerprint.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr DType kDglTypes[] = {DType::kInt8,    DType::kInt16,   DType::kInt32,  DType::kInt64,
                               DType::kUint8,   DType::kUint16,  DType::kUint32, DType::kUint64,
                               DType::kFloat16, DType::kFloat32, DType::kFloat64};

std::vector<ArraySource> SourcesOfViews(const std::vector<ArrayView>& views) {
  std::vector<ArraySource> sources;
  for (const ArrayView& view : views) sources.push_back(SourceOf(view));
  return sources;
}

DglGraphSource SourceOfGraph(const DglGraphView& view) {
  DglGraphSource graph;
  graph.num_nodes = view.num_nodes;
  if (view.coo) {
    graph.coo = DglCooSource{SourceOf(view.coo->sources), SourceOf(view.coo->targets),
                             view.coo->sources_ascend, view.coo->targets_ascend};
  }
  const auto csr = [](const DglCsrView& of) {
    return DglCsrSource{SourceOf(of.offsets), SourceOf(of.neighbours), SourceOf(of.edges),
                        of.neighbours_ascend};
  };
  if (view.csr) graph.csr = csr(*view.csr);
  if (view.csc) graph.csc = csr(*view.csc);
  graph.node_data = SourcesOfViews(view.node_data);
  graph.edge_data = SourcesOfViews(view.edge_data);
  return graph;
}

// Random edges in all three forms, or in some.
std::string RandomGraphFile(Random& random) {
  const uint64_t nodes = random.Between(1, 20);
  const uint64_t edges = random.Below(40);
  const auto node = [nodes](uint64_t i) { return i * 7 % nodes; };
  const auto ids = [&](const std::string& name) {
    return MadeArray<int64_t>(name, DType::kInt64, edges, node);
  };
  DglGraphSource graph;
  graph.num_nodes = nodes;
  const uint64_t forms = random.Between(1, 7);
  const auto offsets = MadeArray<int64_t>("", DType::kInt64, nodes + 1,
                                          [=](uint64_t i) { return i == 0 ? uint64_t{0} : edges; });
  if (forms & 1) graph.coo = DglCooSource{ids("s"), ids("t"), random.Below(2) == 0, false};
  if (forms & 2) graph.csr = DglCsrSource{offsets, ids("n"), ids("e"), false};
  if (forms & 4) graph.csc = DglCsrSource{offsets, ids("n"), ids("e"), true};
  graph.node_data.push_back(MadeArray<uint8_t>("inner_node", DType::kUint8, nodes, node));
  graph.edge_data.push_back(ids("_ID"));
  StringSink sink;
  EXPECT_THAT(WriteDglGraphFile(graph, sink), IsOk());
  return sink.bytes();
}

// Two nodes and three edges in all forms.
DglGraphSource InAllForms() {
  const auto ids = [](const std::string& name, uint64_t count) {
    return MadeArray<int64_t>(name, DType::kInt64, count, [](uint64_t) { return 0; });
  };
  DglGraphSource graph;
  graph.num_nodes = 2;
  graph.coo = DglCooSource{ids("s", 3), ids("t", 3), true, false};
  graph.csr = DglCsrSource{ids("o", 3), ids("n", 3), ids("e", 3), false};
  graph.csc = DglCsrSource{ids("o", 3), ids("n", 3), ids("e", 3), false};
  graph.node_data.push_back(ids("inner_node", 2));
  graph.edge_data.push_back(ids("inner_edge", 3));
  return graph;
}

TEST(DglTensorFileTest, GivesBackWhatWasWritten) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::vector<OwnedArray> arrays;
    for (const DType dtype : kDglTypes) {
      arrays.push_back(RandomArray(absl::StrCat("user/", arrays.size()), dtype, random));
    }
    StringSink sink;
    ASSERT_THAT(WriteDglTensorFile(SourcesOf(arrays), sink), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const auto got, ReadDglTensorFile(sink.bytes()));
    ASSERT_EQ(got.size(), arrays.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(Same(got[i], arrays[i].view()));
    EXPECT_EQ(FindArray(got, "user/3"), &got[3]);
    EXPECT_EQ(FindArray(got, "user"), nullptr);
  }
}

TEST(DglTensorFileTest, BooleansAreBytesAndBfloat16IsRefused) {
  StringSink sink;
  const std::string bytes = {1, 0, 1};
  ASSERT_THAT(WriteDglTensorFile({SourceOf({{"mask", DType::kBool, {3}}, bytes})}, sink), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto got, ReadDglTensorFile(sink.bytes()));
  EXPECT_EQ(got[0].header.dtype, DType::kUint8);
  EXPECT_EQ(got[0].bytes, bytes);
  StringSink none;
  EXPECT_THAT(WriteDglTensorFile({SourceOf({{"b", DType::kBfloat16, {1}}, "xx"})}, none),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'b' is bfloat16")));
  EXPECT_EQ(none.bytes(), "");
}

TEST(DglFilesTest, ErrorsOfSinksAreTold) {
  Random random(5);
  const std::string file = RandomGraphFile(random);
  PH_ASSERT_OK_AND_ASSIGN(const DglGraphView view, ReadDglGraphFile(file));
  const DglGraphSource graph = SourceOfGraph(view);
  ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteDglGraphFile(graph, sink); });
  ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteDglGraphFile(InAllForms(), sink); });
  ExpectSinkErrorsAreTold(
      [&](ByteSink& sink) { return WriteDglTensorFile(graph.node_data, sink); });
}

TEST(DglGraphFileTest, GivesBackWhatWasWritten) {
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const std::string file = RandomGraphFile(random);
    PH_ASSERT_OK_AND_ASSIGN(const DglGraphView view, ReadDglGraphFile(file));
    StringSink again;
    ASSERT_THAT(WriteDglGraphFile(SourceOfGraph(view), again), IsOk());
    EXPECT_EQ(again.bytes(), file);
  }
  StringSink none;
  EXPECT_THAT(WriteDglGraphFile({}, none),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in no form")));
}

// Of a file of these after `change`.
absl::Status ReadChanged(const std::function<void(DglGraphSource&)>& change) {
  DglGraphSource graph = InAllForms();
  change(graph);
  StringSink sink;
  EXPECT_THAT(WriteDglGraphFile(graph, sink), IsOk());
  return ReadDglGraphFile(sink.bytes()).status();
}

// What is said of each cut and of each changed byte of a file in all forms.
TEST(DglGraphFileTest, EveryByteIsReadOrNamed) {
  DglGraphSource graph = InAllForms();
  graph.coo->targets_ascend = true;
  StringSink sink;
  ASSERT_THAT(WriteDglGraphFile(graph, sink), IsOk());
  const std::string& file = sink.bytes();
  Fingerprint fingerprint;
  fingerprint.AddAll(file);
  size_t num_refused = 0;
  const auto read = [&](absl::string_view changed) {
    const absl::Status status = ReadDglGraphFile(changed).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    num_refused += status.ok() ? 0 : 1;
    fingerprint.AddAll(status.message());
  };
  for (size_t size = kDglHeadBytes; size < file.size(); ++size) {
    read(absl::string_view(file).substr(0, size));
  }
  EXPECT_EQ(num_refused, file.size() - kDglHeadBytes);
  for (size_t at = kDglHeadBytes; at < file.size(); ++at) {
    for (const int bit : {1, 128}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      read(damaged);
    }
  }
  EXPECT_EQ(fingerprint.value(), 10931081226021012180U);
}

TEST(DglGraphFileTest, EdgesOfPairsHaveAnIdEachOrNone) {
  StringSink sink;
  ASSERT_THAT(WriteDglGraphFile(InAllForms(), sink), IsOk());
  const std::string& file = sink.bytes();
  const auto bytes_of = [](uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  // Behind its mark and numbers of nodes, two arrays of three ids, the head of another and its
  // extent and bytes.
  const size_t coo = file.find(bytes_of(kDglCoo));
  const size_t extent = coo + 24 + 2 * 72 + 32;
  for (const uint64_t count : {1, 3}) {
    std::string with_ids = file;
    with_ids.replace(extent, 16, bytes_of(count) + bytes_of(8 * count));
    with_ids.insert(extent + 16, std::string(8 * count, '\0'));
    EXPECT_EQ(ReadDglGraphFile(with_ids).status(),
              count == 3 ? absl::OkStatus()
                         : absl::InvalidArgumentError(
                               absl::StrCat("at byte ", extent + 16 + 8 * count,
                                            ": edges must have no elements or one an edge")));
  }
  std::string most = file;
  most.replace(coo + 16, 8, bytes_of(INT64_MAX));
  EXPECT_EQ(ReadDglGraphFile(most).status(),
            absl::InvalidArgumentError(
                absl::StrCat("at byte ", coo + 24, ": 9223372036854775807 nodes")));
}

// Nothing is written of a graph that cannot be read again.
TEST(DglGraphFileTest, ArraysAreCheckedBeforeTheFirstByte) {
  ArraySource deep = MadeArray<int64_t>("deep", DType::kInt64, 1, [](uint64_t) { return 0; });
  deep.header.shape.assign(33, 1);
  for (const bool nodes : {true, false}) {
    for (const bool twice : {true, false}) {
      DglGraphSource graph = InAllForms();
      std::vector<ArraySource>& data = nodes ? graph.node_data : graph.edge_data;
      data.push_back(twice ? data[0] : deep);
      StringSink none;
      EXPECT_EQ(WriteDglGraphFile(graph, none),
                absl::InvalidArgumentError(twice ? absl::StrCat("array '",
                                                                nodes ? "inner_node" : "inner_edge",
                                                                "' is there twice")
                                                 : "array 'deep' has 33 dimensions, at most 32"));
      EXPECT_EQ(none.bytes(), "");
    }
  }
  DglGraphSource graph = InAllForms();
  graph.csr->offsets = deep;
  StringSink sink;
  EXPECT_EQ(WriteDglGraphFile(graph, sink),
            absl::InvalidArgumentError("array 'deep' has 33 dimensions, at most 32"));
}

TEST(DglGraphFileTest, CountsThatDisagreeAreRefused) {
  const auto ids = [](uint64_t count, DType dtype = DType::kInt64) {
    return MadeArray<int64_t>("ids", dtype, count, [](uint64_t) { return 0; });
  };
  ArraySource floats = ids(3, DType::kFloat64);
  ArraySource table = ids(3);
  table.header.shape = {3, 1};
  ArraySource scalar = ids(1);
  scalar.header.shape = {};
  EXPECT_THAT(ReadChanged([](DglGraphSource&) {}), IsOk());
  // Edges without ids are in their order; ids may be int32.
  EXPECT_THAT(ReadChanged([&](DglGraphSource& graph) { graph.csr->edges = ids(0); }), IsOk());
  EXPECT_THAT(ReadChanged([&](DglGraphSource& graph) {
                graph.coo->sources =
                    MadeArray<int32_t>("ids", DType::kInt32, 3, [](uint64_t) { return 0; });
              }),
              IsOk());
  struct Case {
    std::function<void(DglGraphSource&)> change;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[&](DglGraphSource& graph) { graph.coo->targets = ids(2); }, "targets has 2 elements"},
      {[&](DglGraphSource& graph) { graph.csr->offsets = ids(2); }, "offsets has 2 elements"},
      {[&](DglGraphSource& graph) { graph.csr->neighbours = ids(4); }, "neighbours has 4"},
      {[&](DglGraphSource& graph) { graph.csr->edges = ids(2); }, "edges has 2 elements"},
      {[&](DglGraphSource& graph) { graph.csc->offsets = ids(4); }, "offsets has 4 elements"},
      {[&](DglGraphSource& graph) { graph.csc->neighbours = ids(2); }, "neighbours has 2"},
      {[&](DglGraphSource& graph) { graph.csc->edges = ids(4); }, "edges has 4 elements"},
      {[&](DglGraphSource& graph) { graph.coo->sources = floats; }, "sources must be one dim"},
      {[&](DglGraphSource& graph) { graph.coo->sources = table; }, "sources must be one dim"},
      {[&](DglGraphSource& graph) { graph.node_data[0] = ids(3); }, "'ids' must have 2 rows"},
      {[&](DglGraphSource& graph) { graph.edge_data[0] = ids(2); }, "'ids' must have 3 rows"},
      {[&](DglGraphSource& graph) { graph.edge_data[0] = scalar; }, "'ids' must have 3 rows"},
      // By the first form there is, which need not be coo.
      {[&](DglGraphSource& graph) {
         graph.coo.reset();
         graph.csc->neighbours = ids(2);
       },
       "neighbours has 2"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(ReadChanged(each.change),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(each.says)));
  }
}

TEST(DglFilesTest, EveryByteOfTheMarksCounts) {
  Random random(3);
  const std::string graph = RandomGraphFile(random);
  StringSink tensors;
  ASSERT_THAT(WriteDglTensorFile(
                  {MadeArray<int8_t>("a", DType::kInt8, 1, [](uint64_t) { return 0; })}, tensors),
              IsOk());
  const auto changed = [](std::string file, size_t at) {
    file[at] = static_cast<char>(file[at] ^ 1);
    return file;
  };
  // Of a graph: mark, version, kind and number of graphs, and where the graph begins.
  for (size_t at = 0; at < 4 * sizeof(uint64_t); ++at) {
    EXPECT_THAT(ReadDglGraphFile(changed(graph, at)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is expected")))
        << at;
  }
  EXPECT_THAT(ReadDglGraphFile(changed(graph, kDglHeadBytes)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the head says at")));
  // Of tensors: mark and number.
  for (size_t at = 0; at < 2 * sizeof(uint64_t); ++at) {
    EXPECT_THAT(ReadDglTensorFile(changed(tensors.bytes(), at)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at byte")))
        << at;
  }
  EXPECT_THAT(ReadDglTensorFile(tensors.bytes() + "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 bytes too many")));
}

// The reader's, as its writer refuses them.
TEST(DglTensorFileTest, AnArrayThatIsThereTwiceIsRefused) {
  const auto array = [](const std::string& name) {
    return MadeArray<int8_t>(name, DType::kInt8, 1, [](uint64_t) { return 0; });
  };
  StringSink sink;
  EXPECT_THAT(WriteDglTensorFile({array("a"), array("a")}, sink),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' is there twice")));
  ASSERT_THAT(WriteDglTensorFile({array("a"), array("b")}, sink), IsOk());
  std::string file = sink.bytes();
  file[file.rfind('b')] = 'a';
  EXPECT_THAT(ReadDglTensorFile(file),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' is there twice")));
}

// No prefix of a file is a file, and no length in it can lead out of it.
TEST(DglGraphFileTest, DamageIsRefusedOrHarmless) {
  constexpr size_t kTailBytes = 2 * (2 * sizeof(uint64_t) + 2) + 4 * sizeof(uint64_t);
  Random random(11);
  const std::string file = RandomGraphFile(random);
  for (size_t size = 0; size < file.size(); size += 1 + random.Below(30)) {
    EXPECT_THAT(ReadDglGraphFile(file.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at byte")));
  }
  EXPECT_THAT(ReadDglGraphFile(file + "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 bytes too many")));
  for (size_t at = kDglHeadBytes; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.Below(8)));
    const absl::StatusOr<DglGraphView> view = ReadDglGraphFile(damaged);
    if (!view.ok()) continue;
    // In the rows of an array, a name, or what is not looked at.
    EXPECT_EQ(view->node_data.size(), 1U);
    // Behind the arrays there are two names, counts and positions.
    if (at >= file.size() - kTailBytes) {
      EXPECT_THAT(file[at], testing::AnyOf('_', 'N', 'E')) << at;
    }
  }
}

// Files of DGL 2.1.0, and what it leaves undefined: the rest of the head.
TEST(DglGoldenTest, NativeFilesAreReadAndWrittenAgainEqual) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  int files = 0;
  for (const auto& [name, parts] : {std::pair("hetero_metis_k2_h1", 2), {"homo_metis_k4_h1", 4}}) {
    for (int part = 0; part < parts; ++part) {
      const std::string folder = absl::StrCat("native/", name, "/part", part, "/");
      for (const std::string kind : {"node_feat.dgl", "edge_feat.dgl"}) {
        const std::string file = PartitionFile(folder + kind);
        PH_ASSERT_OK_AND_ASSIGN(const auto arrays, ReadDglTensorFile(file));
        EXPECT_FALSE(arrays.empty());
        StringSink again;
        ASSERT_THAT(WriteDglTensorFile(SourcesOfViews(arrays), again), IsOk());
        EXPECT_EQ(again.bytes(), file) << folder << kind;
        ++files;
      }
      std::string file = PartitionFile(folder + "graph.dgl");
      PH_ASSERT_OK_AND_ASSIGN(const DglGraphView graph, ReadDglGraphFile(file));
      ASSERT_TRUE(graph.coo.has_value());
      EXPECT_NE(FindArray(graph.node_data, "inner_node"), nullptr);
      StringSink again;
      ASSERT_THAT(WriteDglGraphFile(SourceOfGraph(graph), again), IsOk());
      const size_t head = 4 * sizeof(uint64_t);
      std::memset(file.data() + head, 0, kDglHeadBytes - head);
      EXPECT_EQ(again.bytes(), file) << folder;
      ++files;
    }
  }
  EXPECT_EQ(files, 18);
}

}  // namespace
}  // namespace packhouse
