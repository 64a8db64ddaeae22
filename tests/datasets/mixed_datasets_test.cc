// The laws of mixtures: all graphs of all data sets, each as it was stored, and what one lacks is
// filled.
#include "service/stores/datasets/mixed_datasets.h"

#include <cstdint>
#include <functional>
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
#include "service/base/status_macros.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
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
  // Whatever two tensors of one name differ in.
  const auto differs = [&](const std::string& name, TensorSpec tensor,
                           const std::function<void(TensorSpec&)>& change) {
    Store(name, SchemaOf({tensor}));
    change(tensor);
    Store(name + "2", SchemaOf({tensor, y}));
    EXPECT_THAT(why(name + "+" + name + "2"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has another of that name")))
        << name;
  };
  differs("dtype", x, [](TensorSpec& tensor) { tensor.dtype = DType::kFloat64; });
  differs("component", x, [](TensorSpec& tensor) { tensor.component = 1; });
  differs("padding", x, [](TensorSpec& tensor) { tensor.padding_value = "abcd"; });
  differs("layout", x, [](TensorSpec& tensor) { tensor.layout = Layout::kRowsLast; });
  differs("target", ends, [](TensorSpec& tensor) { tensor.index_into = 1; });
  differs("value", ends, [](TensorSpec& tensor) { tensor.index_into = std::nullopt; });
  // An index needs no filling where there are no rows for it; each graph has a row of its own.
  Store("pairs", GraphSchema::Create(SizeSchema::Create({"nodes", "edges", "pairs"}).value(),
                                     {x, {"of", DType::kInt32, {}, 2, 0, {}}})
                     .value());
  EXPECT_THAT(why("a+pairs"), IsOk());
  Store("rooted", SchemaOf({x, {"root", DType::kInt32, {}, 2, 0, {}}}));
  EXPECT_THAT(why("a+rooted"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no tensor 'root'")));
  // There is no room for the tensor that a mixture adds.
  std::vector<TensorSpec> most;
  for (size_t t = 0; t < GraphSchema::kMaxTensors; ++t) {
    most.push_back({absl::StrCat("t", t), DType::kInt8, {}, 2, {}, {}});
  }
  const GraphSchema full = SchemaOf(most);
  ASSERT_THAT(store_.Create("full", full, {}), IsOk());
  ASSERT_THAT(store_.Create("full2", full, {}), IsOk());
  ASSERT_THAT(store_.Seal("full"), IsOk());
  ASSERT_THAT(store_.Seal("full2"), IsOk());
  EXPECT_THAT(why("full+full2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixture 'full+full2'")));
  std::string seventeen = "a";
  for (int i = 0; i < 16; ++i) absl::StrAppend(&seventeen, "+s", i);
  EXPECT_EQ(why(seventeen), absl::InvalidArgumentError(absl::StrCat(
                                "mixture '", seventeen, "...': more than 16 data sets")));
  // Of a long name its beginning.
  seventeen.append(100, 's');
  EXPECT_EQ(why(seventeen),
            absl::InvalidArgumentError(absl::StrCat("mixture '", seventeen.substr(0, 128),
                                                    "...': more than 16 data sets")));

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

// Of a name alone everything is the data set's own.
TEST_F(MixedDatasetsTest, OneAloneIsAsItIsStored) {
  const DatasetInfo a = Store("a", SchemaOf({{"x", DType::kInt16, {}, 0, {}, {}}}), 2);
  EXPECT_EQ(mixed_.Get("a")->schema, a.schema);
  EXPECT_EQ(mixed_.Get("a")->version, a.version);
  EXPECT_EQ(mixed_.OpenReader("a").value()->info().schema, a.schema);
  EXPECT_EQ(mixed_.OpenChunks("a").value()->info().schema, a.schema);
  std::vector<uint64_t> reserved;
  const auto reserve = [&](uint64_t bytes) {
    reserved.push_back(bytes);
    return absl::OkStatus();
  };
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram sizes, mixed_.GetReservedHistogram("a", reserve));
  EXPECT_THAT(reserved, ElementsAre(sizes.bytes()));
  EXPECT_EQ(mixed_.GetHistogram("a").value(), sizes);
  ASSERT_THAT(store_.Create("open", *a.schema, {}), IsOk());
  EXPECT_THAT(mixed_.GetHistogram("open"), IsOk());
}

// What a data set lacks takes addresses, of which there are so many.
TEST_F(MixedDatasetsTest, MoreRowsThanThereAreAddressesCannotBeFilled) {
  Store("wide", SchemaOf({{"x", DType::kInt8, {1 << 24}, 0, {}, {}}}), 0);
  const GraphSchema plain = SchemaOf({});
  const auto open = [&](size_t num_graphs) {
    EXPECT_THAT(store_.Create("a", plain, {}), IsOk());
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < num_graphs; ++i) counts.insert(counts.end(), {UINT32_MAX, 0});
    const SizeTable sizes =
        SizeTable::WithConsecutiveIds(num_graphs, 2, std::move(counts), 0).value();
    EXPECT_THAT(store_.Append("a", GraphChunk::OfSizes(&plain, sizes), {}, std::nullopt), IsOk());
    EXPECT_THAT(store_.Seal("a"), IsOk());
    const absl::Status status = mixed_.OpenReader("wide+a").status();
    EXPECT_THAT(store_.Delete("a"), IsOk());
    return status;
  };
  EXPECT_EQ(open(1), absl::ResourceExhaustedError(
                         "a mixture: no address space for 72057594021150720 bytes of zeros"));
  EXPECT_EQ(open(257), absl::ResourceExhaustedError(
                           "tensor 'x' of graphs of data set 'a' in mixture 'wide+a': too many "
                           "rows"));
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

// A store with something wrong with the data set "b".
class BrittleStore final : public ForwardingDatasetStore {
 public:
  enum class Fault { kNone, kLost, kReplaced };
  using ForwardingDatasetStore::ForwardingDatasetStore;

  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    PH_ASSIGN_OR_RETURN(auto reader, store()->OpenReader(name));
    if (name != "b") return reader;
    return std::make_shared<const Reader>(std::move(reader), fault);
  }
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    PH_ASSIGN_OR_RETURN(auto chunks, store()->OpenChunks(name));
    if (name != "b") return chunks;
    return std::make_shared<const Chunks>(std::move(chunks), fault);
  }

  Fault fault = Fault::kNone;

 private:
  static DatasetInfo Told(DatasetInfo info, Fault why) {
    if (why == Fault::kReplaced) ++info.version;
    return info;
  }
  static absl::Status Lost(Fault why) {
    return why == Fault::kLost ? absl::DataLossError("b is lost") : absl::OkStatus();
  }

  class Reader final : public DatasetReader {
   public:
    Reader(std::shared_ptr<const DatasetReader> reader, Fault why)
        : reader_(std::move(reader)), info_(Told(reader_->info(), why)), fault_(why) {
      if (why == Fault::kLost) unreadable_.push_back({1, 2, 3, Lost(why)});
    }
    const DatasetInfo& info() const override { return info_; }
    const SizeHistogram& histogram() const override { return reader_->histogram(); }
    absl::Span<const uint32_t> counts() const override { return reader_->counts(); }
    absl::Span<const uint64_t> graph_ids() const override { return reader_->graph_ids(); }
    absl::Span<const uint64_t> group_ids() const override { return {}; }
    absl::Span<const DamagedRecord> unreadable() const override { return unreadable_; }
    absl::StatusOr<StoredGraph> Graph(size_t i) const override { return reader_->Graph(i); }
    absl::Status CheckIntact() const override { return Lost(fault_); }

   private:
    const std::shared_ptr<const DatasetReader> reader_;
    const DatasetInfo info_;
    const Fault fault_;
    std::vector<DamagedRecord> unreadable_;
  };

  // Takes a thousand bytes.
  class Sizes final : public ChunkSizes {
   public:
    explicit Sizes(std::unique_ptr<ChunkSizes> sizes) : sizes_(std::move(sizes)) {}
    uint64_t bytes() const override { return 1000; }
    absl::Status AddNext(SizeHistogram& histogram) override { return sizes_->AddNext(histogram); }

   private:
    const std::unique_ptr<ChunkSizes> sizes_;
  };

  class Chunks final : public DatasetChunks {
   public:
    Chunks(std::shared_ptr<const DatasetChunks> chunks, Fault why)
        : chunks_(std::move(chunks)), info_(Told(chunks_->info(), why)), fault_(why) {}
    const DatasetInfo& info() const override { return info_; }
    absl::Span<const uint32_t> num_graphs() const override { return chunks_->num_graphs(); }
    uint64_t bytes() const override { return chunks_->bytes(); }
    absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
      PH_RETURN_IF_ERROR(Lost(fault_));
      return chunks_->AddSizes(chunk, histogram);
    }
    absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
        absl::Span<const uint32_t> chunks) const override {
      PH_RETURN_IF_ERROR(Lost(fault_));
      return chunks_->Open(chunks);
    }
    std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const override {
      return std::make_unique<Sizes>(DatasetChunks::ReadSizes(chunks));
    }
    absl::Status CheckFits(absl::Span<const uint32_t> chunks) const override {
      return chunks.empty() ? absl::OkStatus() : Lost(fault_);
    }

   private:
    const std::shared_ptr<const DatasetChunks> chunks_;
    const DatasetInfo info_;
    const Fault fault_;
  };
};

// What goes wrong with one of them is told; those beside it are read.
TEST_F(MixedDatasetsTest, AFaultOfOneIsTold) {
  const GraphSchema wide = SchemaOf({});
  const GraphSchema narrow = GraphSchema::Create(SizeSchema::Create({"nodes"}).value(), {}).value();
  const auto is_lost = StatusIs(absl::StatusCode::kDataLoss, "b is lost");
  const auto is_replaced =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("'b' was replaced while it was opened"));
  const DatasetInfo a = Store("a", wide, 3);
  BrittleStore brittle(&store_);
  const MixedDatasets mixed(&brittle, nullptr);
  for (const GraphSchema* const schema : {&wide, &narrow}) {
    SCOPED_TRACE(schema->num_components());
    const DatasetInfo b = Store("b", *schema, 2);
    brittle.fault = BrittleStore::Fault::kLost;
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, mixed.OpenReader("a+b"));
    EXPECT_THAT(reader->CheckIntact(), is_lost);
    ASSERT_EQ(reader->unreadable().size(), 1U);
    EXPECT_EQ(reader->unreadable()[0].record, 1U);
    EXPECT_EQ(reader->unreadable()[0].first_graph, a.num_graphs + 2);
    EXPECT_EQ(reader->unreadable()[0].num_graphs, 3U);
    PH_ASSERT_OK_AND_ASSIGN(const auto chunks, mixed.OpenChunks("a+b"));
    SizeHistogram sizes(2);
    EXPECT_THAT(chunks->AddSizes(2, sizes), IsOk());
    EXPECT_THAT(chunks->AddSizes(3, sizes), is_lost);
    const std::vector<uint32_t> all = {0, 4, 1, 2, 3};
    const auto read = chunks->ReadSizes(all);
    EXPECT_THAT(read->AddNext(sizes), IsOk());
    EXPECT_THAT(read->AddNext(sizes), is_lost);
    EXPECT_THAT(chunks->CheckFits({0, 1, 2}), IsOk());
    EXPECT_THAT(chunks->CheckFits({0, 3}), is_lost);
    EXPECT_THAT(chunks->Open({0, 1, 2}), IsOk());
    EXPECT_THAT(chunks->Open({2, 3}), is_lost);
    // Numbers and lists of all, which may have twice the room that they need.
    EXPECT_GE(chunks->bytes(), all.size() * 2 * sizeof(uint32_t));
    EXPECT_LE(chunks->bytes(), all.size() * 3 * sizeof(uint32_t));
    EXPECT_GE(read->bytes(), 1000 + all.size() * (sizeof(size_t) + sizeof(uint32_t)));
    EXPECT_LE(read->bytes(), 1000 + all.size() * (sizeof(size_t) + 2 * sizeof(uint32_t)));

    brittle.fault = BrittleStore::Fault::kReplaced;
    EXPECT_THAT(mixed.OpenReader("a+b"), is_replaced);
    EXPECT_THAT(mixed.OpenChunks("a+b"), is_replaced);
    brittle.fault = BrittleStore::Fault::kNone;
    PH_ASSERT_OK_AND_ASSIGN(const auto part, mixed.OpenChunks("a+b").value()->Open({2, 3}));
    EXPECT_THAT(part->CheckIntact(), IsOk());
    EXPECT_EQ(part->info().num_records, 2U);
    EXPECT_EQ(part->info().num_graphs, part->graph_ids().size());
    PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, mixed.Get("a+b"));
    EXPECT_EQ(info.state, DatasetState::kSealed);
    EXPECT_EQ(info.num_records, 5U);
    EXPECT_EQ(info.num_bytes, a.num_bytes + b.num_bytes);
    ASSERT_THAT(store_.Delete("b"), IsOk());
  }
}

// A histogram takes what those of the data sets take, and what it has so far; without room for any
// of it there is none.
TEST_F(MixedDatasetsTest, AHistogramIsReservedFirst) {
  Store("a", SchemaOf({}), 4);
  Store("b", SchemaOf({}), 4);
  std::vector<uint64_t> reserved;
  size_t refused = SIZE_MAX;
  const auto get = [&] {
    reserved.clear();
    return mixed_.GetReservedHistogram("a+b", [&](uint64_t bytes) -> absl::Status {
      if (reserved.size() == refused) return absl::ResourceExhaustedError("no room");
      reserved.push_back(bytes);
      return absl::OkStatus();
    });
  };
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram mixed, get());
  const SizeHistogram a = store_.GetHistogram("a").value();
  const SizeHistogram b = store_.GetHistogram("b").value();
  EXPECT_THAT(reserved,
              ElementsAre(a.bytes(), SizeHistogram::BytesFor(a.num_distinct(), 2), b.bytes(),
                          SizeHistogram::BytesFor(a.num_distinct() + b.num_distinct(), 2)));
  for (refused = 0; refused < 4; ++refused) {
    EXPECT_THAT(get(), StatusIs(absl::StatusCode::kResourceExhausted, "no room")) << refused;
  }
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
