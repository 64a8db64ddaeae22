// The laws of mixtures: all graphs of all data sets, each as it was stored, and what one lacks is
// filled.
#include "service/stores/datasets/mixed_datasets.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/mixture_name.h"
#include "service/stores/datasets/reader_bytes.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/accounting.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Some of the components, in another order, and some of the tensors that they allow; not the first
// of a name that every mixture has.
GraphSchema Narrower(Random& random, const GraphSchema& all) {
  std::vector<std::string> components = all.sizes().components();
  for (size_t k = components.size(); k > 1; --k) {
    std::swap(components[k - 1], components[random.Below(k)]);
  }
  if (!components.empty() && random.Below(2) == 0) components.pop_back();
  SizeSchema sizes = SizeSchema::Create(std::move(components)).value();
  std::vector<TensorSpec> tensors;
  for (TensorSpec tensor : all.tensors()) {
    const auto component = sizes.IndexOf(all.sizes().name(tensor.component));
    if (!component) continue;
    tensor.component = *component;
    if (tensor.index_into) {
      const auto target = sizes.IndexOf(all.sizes().name(*tensor.index_into));
      // What points into nothing cannot be stored, and cannot be filled.
      if (!target) return all;
      tensor.index_into = target;
    } else if (random.Below(3) == 0) {
      continue;
    }
    tensors.push_back(std::move(tensor));
  }
  return GraphSchema::Create(std::move(sizes), std::move(tensors)).value();
}

std::string NameOf(size_t m) { return absl::StrCat("set", m); }

class MixedDatasetsTest : public ::testing::Test {
 protected:
  DatasetInfo Store(const std::string& name, const GraphSchema& schema, size_t num_chunks = 1) {
    EXPECT_THAT(store_.Create(name, schema, {}), IsOk());
    for (size_t c = 0; c < num_chunks; ++c) {
      const GraphChunk chunk =
          RandomChunk(random_, &schema, random_.Between(1, 5), 6, random_.Below(100));
      EXPECT_THAT(store_.Append(name, chunk, {}, std::nullopt), IsOk());
    }
    return store_.Seal(name).value();
  }

  // That `graph` is graph `i` of the data set with number `m`, by names of components and tensors.
  static void ExpectWidened(const StoredGraph& graph, const DatasetReader& reader, size_t i,
                            size_t m) {
    PH_ASSERT_OK_AND_ASSIGN(const StoredGraph own, reader.Graph(i));
    const GraphSchema& wide = graph.chunk->schema();
    const GraphSchema& narrow = own.chunk->schema();
    ASSERT_EQ(graph.chunk->sizes().graph_id(graph.index), own.chunk->sizes().graph_id(own.index));
    for (size_t k = 0; k < wide.num_components(); ++k) {
      const auto in_own = narrow.sizes().IndexOf(wide.sizes().name(k));
      ASSERT_EQ(graph.chunk->count(graph.index, k),
                in_own ? own.chunk->count(own.index, *in_own) : 0);
    }
    for (size_t t = 0; t < wide.tensors().size(); ++t) {
      const TensorSpec& tensor = wide.tensors()[t];
      const auto in_own = narrow.TensorIndex(tensor.name);
      for (size_t plane = 0; plane < wide.num_planes(t); ++plane) {
        const absl::string_view rows = graph.chunk->rows(graph.index, t, plane);
        if (tensor.name == kMixtureTensor) {
          ASSERT_EQ(rows, std::string({static_cast<char>(m), 0, 0, 0}));
        } else if (in_own) {
          ASSERT_EQ(rows, own.chunk->rows(own.index, *in_own, plane)) << tensor.name;
        } else {
          ASSERT_EQ(rows.size(),
                    graph.chunk->count(graph.index, tensor.component) * wide.plane_row_bytes(t));
          const size_t element = ElementBytes(tensor.dtype);
          for (size_t at = 0; at < rows.size(); ++at) {
            ASSERT_EQ(rows[at],
                      tensor.padding_value.empty() ? 0 : tensor.padding_value[at % element]);
          }
        }
      }
    }
  }

  Random random_{7};
  MemoryDatasetStore store_{uint64_t{1} << 30};
  MixedDatasets mixed_{&store_, nullptr};
};

TEST_F(MixedDatasetsTest, HasAllGraphsOfAll) {
  for (int round = 0; round < 300; ++round) {
    MemoryDatasetStore store(uint64_t{1} << 30);
    const MixedDatasets mixed(&store, nullptr);
    const GraphSchema all = RandomSchema(random_);
    const size_t num_members = random_.Between(2, 4);
    const size_t widest = random_.Below(num_members);
    std::vector<std::string> names;
    for (size_t m = 0; m < num_members; ++m) {
      names.push_back(NameOf(m));
      const GraphSchema schema = m == widest ? all : Narrower(random_, all);
      ASSERT_THAT(store.Create(names[m], schema, {}), IsOk());
      for (size_t c = random_.Below(4); c > 0; --c) {
        const GraphChunk chunk =
            RandomChunk(random_, &schema, random_.Between(1, 5), 6, random_.Below(100));
        ASSERT_THAT(store.Append(names[m], chunk, {}, std::nullopt), IsOk());
      }
      ASSERT_THAT(store.Seal(names[m]), IsOk());
    }
    const std::string name = absl::StrJoin(names, "+");
    SCOPED_TRACE(absl::StrCat("round ", round));

    PH_ASSERT_OK_AND_ASSIGN(const auto reader, mixed.OpenReader(name));
    PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, mixed.Get(name));
    PH_ASSERT_OK_AND_ASSIGN(const auto chunks, mixed.OpenChunks(name));
    EXPECT_EQ(reader->info().version, info.version);
    EXPECT_EQ(chunks->info().version, info.version);
    ASSERT_EQ(reader->counts().size(), info.num_graphs * info.schema->num_components());
    ASSERT_EQ(reader->graph_ids().size(), info.num_graphs);
    EXPECT_THAT(reader->Graph(info.num_graphs), StatusIs(absl::StatusCode::kOutOfRange, _));

    SizeHistogram sizes(info.schema->num_components());
    std::vector<std::pair<size_t, size_t>> graphs;  // Of which data set, and which there.
    std::vector<std::vector<std::pair<size_t, size_t>>> of_chunk;
    for (size_t m = 0; m < num_members; ++m) {
      PH_ASSERT_OK_AND_ASSIGN(const auto own, store.OpenReader(names[m]));
      PH_ASSERT_OK_AND_ASSIGN(const auto own_chunks, store.OpenChunks(names[m]));
      size_t i = 0;
      for (const uint32_t num_graphs : own_chunks->num_graphs()) {
        of_chunk.emplace_back();
        for (uint32_t g = 0; g < num_graphs; ++g, ++i) of_chunk.back().emplace_back(m, i);
        graphs.insert(graphs.end(), of_chunk.back().begin(), of_chunk.back().end());
      }
      for (size_t g = 0; g < own->num_graphs(); ++g) {
        const size_t at = graphs.size() - own->num_graphs() + g;
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(at));
        ExpectWidened(graph, *own, g, m);
        EXPECT_EQ(reader->graph_ids()[at], own->graph_ids()[g]);
        const auto tuple = graph.chunk->sizes().tuple(graph.index);
        EXPECT_EQ(tuple, reader->counts().subspan(at * tuple.size(), tuple.size()));
        ASSERT_THAT(sizes.Add(tuple), IsOk());
      }
    }
    ASSERT_EQ(graphs.size(), info.num_graphs);
    EXPECT_EQ(reader->histogram(), sizes);
    EXPECT_EQ(mixed.GetHistogram(name).value(), sizes);

    // In pieces: all chunks in a random order of sizes, and a reader of some.
    ASSERT_EQ(chunks->num_graphs().size(), of_chunk.size());
    std::vector<uint32_t> numbers;
    std::vector<uint32_t> order;
    for (uint32_t c = 0; c < of_chunk.size(); ++c) {
      order.insert(order.begin() + static_cast<ptrdiff_t>(random_.Below(order.size() + 1)), c);
      if (random_.Below(2) == 0) numbers.push_back(c);
    }
    SizeHistogram read(info.schema->num_components());
    SizeHistogram added(info.schema->num_components());
    const auto sizes_of_chunks = chunks->ReadSizes(order);
    for (const uint32_t c : order) {
      ASSERT_THAT(sizes_of_chunks->AddNext(read), IsOk());
      ASSERT_THAT(chunks->AddSizes(c, added), IsOk());
    }
    EXPECT_EQ(read, sizes);
    EXPECT_EQ(added, sizes);
    PH_ASSERT_OK_AND_ASSIGN(const auto part, chunks->Open(numbers));
    EXPECT_THAT(chunks->CheckFits(numbers), IsOk());
    size_t at = 0;
    for (const uint32_t c : numbers) {
      for (const auto& [m, i] : of_chunk[c]) {
        PH_ASSERT_OK_AND_ASSIGN(const auto own, store.OpenReader(names[m]));
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, part->Graph(at++));
        ExpectWidened(graph, *own, i, m);
      }
    }
    EXPECT_EQ(part->num_graphs(), at);
    EXPECT_EQ(part->counts().size(), at * info.schema->num_components());
  }
}

GraphSchema SchemaOf(std::vector<TensorSpec> tensors) {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(), std::move(tensors)).value();
}

TEST_F(MixedDatasetsTest, SaysWhatCannotBeMixed) {
  const TensorSpec x = {"x", DType::kFloat32, {3}, 0, {}, {}};
  const TensorSpec y = {"y", DType::kInt16, {}, 2, {}, {}};
  const TensorSpec ends = {"ends", DType::kInt32, {}, 1, 0, {}};
  TensorSpec other_x = x;
  other_x.row_shape = {4};
  TensorSpec own = y;
  own.name = "dataset";
  Store("a", SchemaOf({x}));
  Store("wide", SchemaOf({x, y}));
  Store("ends", SchemaOf({x, ends}));
  Store("y", SchemaOf({y}));
  Store("other", SchemaOf({other_x}));
  Store("own", SchemaOf({x, own}));
  Store("triples", GraphSchema::Create(SizeSchema::Create({"triples"}).value(), {x}).value());
  ASSERT_THAT(store_.Create("open", SchemaOf({x}), {}), IsOk());

  const auto why = [&](const std::string& name) { return mixed_.Get(name).status(); };
  EXPECT_THAT(why("a+wide"), IsOk());
  EXPECT_THAT(why("a+none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(why("a+"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(why("a+open"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'open'")));
  EXPECT_THAT(why("a+wide+a"), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("'a+wide+a': data set 'a' occurs twice")));
  EXPECT_THAT(why("a+other"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'other' has tensor 'x', float32 [4] along nodes"),
                             HasSubstr("data set 'a' has another of that name"))));
  EXPECT_THAT(why("a+y"), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("'y' has tensor 'y', int16 [] along graphs; data set "
                                             "'a' has none")));
  EXPECT_THAT(why("a+ends"), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("'a' has no tensor 'ends' of data set 'ends'")));
  EXPECT_THAT(why("a+own"), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("data set 'own' has a tensor 'dataset'")));
  EXPECT_THAT(why("a+triples"), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("'triples' has component 'triples'")));
  std::string seventeen = "a";
  for (int i = 0; i < 16; ++i) absl::StrAppend(&seventeen, "+s", i);
  EXPECT_THAT(why(seventeen),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 16 data sets")));

  // What reads says the same.
  EXPECT_THAT(mixed_.OpenReader("a+y"), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(mixed_.OpenChunks("a+y"), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(mixed_.GetHistogram("a+open"), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_F(MixedDatasetsTest, SixteenCanBeMixed) {
  const GraphSchema schema = SchemaOf({});
  std::vector<std::string> names;
  uint64_t num_graphs = 0;
  for (size_t m = 0; m < size_t{kMaxMixedDatasets}; ++m) {
    names.push_back(NameOf(m));
    num_graphs += Store(names.back(), schema).num_graphs;
  }
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, mixed_.Get(absl::StrJoin(names, "+")));
  EXPECT_EQ(info.num_graphs, num_graphs);
  // Where no graphs have tensors, a mixture's have none.
  EXPECT_TRUE(info.schema->tensors().empty());
}

TEST_F(MixedDatasetsTest, NothingIsStoredOfThem) {
  const GraphSchema schema = SchemaOf({});
  Store("a", schema);
  Store("b", schema);
  EXPECT_THAT(mixed_.Create("a+b", schema, {}), StatusIs(absl::StatusCode::kInvalidArgument, _));
  const GraphChunk chunk = RandomChunk(random_, &schema, 2, 3, 0);
  EXPECT_THAT(mixed_.Append("a+b", chunk, {}, std::nullopt),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(mixed_.Seal("a+b"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(mixed_.Delete("a+b"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(mixed_.List(0, "").value().datasets.size(), 2U);
  EXPECT_THAT(mixed_.Get("a"), IsOk());
}

TEST_F(MixedDatasetsTest, IsAnotherOnceOneIsReplaced) {
  const GraphSchema schema = SchemaOf({});
  Store("a", schema);
  Store("b", schema);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, mixed_.Get("a+b"));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo again, mixed_.Get("a+b"));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo turned, mixed_.Get("b+a"));
  EXPECT_EQ(info.version, again.version);
  EXPECT_EQ(info.id, again.id);
  EXPECT_NE(info.version, turned.version);
  ASSERT_THAT(store_.Delete("b"), IsOk());
  EXPECT_THAT(mixed_.Get("a+b"), StatusIs(absl::StatusCode::kNotFound, _));
  Store("b", schema);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo other, mixed_.Get("a+b"));
  EXPECT_NE(info.version, other.version);
  EXPECT_NE(info.id, other.id);
}

TEST_F(MixedDatasetsTest, ManyThreadsReadTheSame) {
  const GraphSchema narrow = SchemaOf({});
  const GraphSchema wide = SchemaOf({{"x", DType::kInt16, {}, 0, {}, "ab"}});
  Store("a", narrow, 20);
  Store("b", wide, 20);
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, mixed_.OpenReader("a+b"));
  std::vector<std::vector<const GraphChunk*>> seen(4);
  std::vector<std::thread> threads;
  threads.reserve(seen.size());
  for (auto& chunks : seen) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < reader->num_graphs(); ++i) {
        chunks.push_back(reader->Graph(i).value().chunk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& chunks : seen) EXPECT_EQ(chunks, seen[0]);
}

TEST_F(MixedDatasetsTest, ReservesWhatItTakes) {
  const TensorSpec x = {"x", DType::kInt16, {}, 0, {}, "ab"};
  Store("a", SchemaOf({}));
  Store("b", SchemaOf({x}));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo a, store_.Get("a"));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo b, store_.Get("b"));
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram sizes, store_.GetHistogram("a"));
  // Two readers, the filled tensor of `a`, and the number 1 of each graph of `b`: zeros take none.
  const uint64_t whole =
      BytesOfReader(a) + BytesOfReader(b) + 2 * sizes.total(0) + sizeof(int32_t) * b.num_graphs;
  for (const bool in_chunks : {false, true}) {
    SeenBudget budget;
    const MixedDatasets mixed(&store_, budget.memory());
    const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const DatasetReader>> {
      if (!in_chunks) return mixed.OpenReader("a+b");
      PH_ASSIGN_OR_RETURN(const auto chunks, mixed.OpenChunks("a+b"));
      return chunks->Open({0, 1});
    };
    {
      PH_ASSERT_OK_AND_ASSIGN(const auto reader, open());
      EXPECT_EQ(budget.held(), whole);
    }
    EXPECT_EQ(budget.held(), 0U);
    const uint64_t num_asked = budget.num_asked();
    EXPECT_GE(num_asked, 3U);
    for (uint64_t refused = 0; refused < num_asked; ++refused) {
      budget.RefuseFromNow(refused);
      EXPECT_THAT(open(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a+b")));
      EXPECT_EQ(budget.held(), 0U);
    }
  }
}

TEST(NamesInMixtureTest, AreInOrder) {
  EXPECT_THAT(NamesInMixture("a/b"), ElementsAre("a/b"));
  EXPECT_THAT(NamesInMixture("a/b+c+"), ElementsAre("a/b", "c", ""));
  // A hostile name of a whole message is not taken apart.
  const std::string separators(1 << 20, '+');
  EXPECT_EQ(NamesInMixture(separators).size(), size_t{kMaxMixedDatasets} + 1);
  EXPECT_FALSE(IsMixture("a/b"));
  EXPECT_TRUE(IsMixture("a+b"));
}

}  // namespace
}  // namespace packhouse
