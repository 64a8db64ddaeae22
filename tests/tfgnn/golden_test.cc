// Everything that the real TF-GNN wrote is read as the real TF-GNN reads it, and what packhouse
// writes has the same meaning. What packhouse does on purpose in another way is listed here.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/readout.h"
#include "service/wings/tfgnn/record_framing.h"
#include "service/wings/tfgnn/row_builder.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/golden_files.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> GoldenRecords(const std::string& name) {
  RecordReader reader(name);
  reader.Feed(GoldenBytes(name));
  std::vector<std::string> records;
  while (true) {
    const auto record = reader.Next();
    EXPECT_THAT(record, IsOk());
    if (!record.ok() || !record->has_value()) break;
    records.emplace_back(**record);
  }
  EXPECT_THAT(reader.Finish(), IsOk());
  return records;
}

// Equal in every list; NaN's bits are the same in the goldens.
void ExpectSameExample(absl::string_view a, absl::string_view b) {
  tensorflow::Example first;
  tensorflow::Example second;
  ASSERT_TRUE(first.ParseFromArray(a.data(), static_cast<int>(a.size())));
  ASSERT_TRUE(second.ParseFromArray(b.data(), static_cast<int>(b.size())));
  EXPECT_EQ(first.features().feature().size(), second.features().feature().size());
  for (const auto& [key, feature] : first.features().feature()) {
    ASSERT_TRUE(second.features().feature().contains(key)) << key;
    EXPECT_EQ(feature.SerializeAsString(), second.features().feature().at(key).SerializeAsString())
        << key;
  }
}

class GoldenExamplesTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenExamplesTest, ReadsWhatTheLibraryWroteAndWritesTheSame) {
  PH_SKIP_WITHOUT_GOLDENS();
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSets sets,
      GraphSets::FromTfgnnFile(GoldenBytes("schemas/" + GetParam() + ".pbtxt")));
  const std::vector<std::string> records = GoldenRecords("examples/" + GetParam() + ".tfrecord");
  const Json golden = GoldenJson("examples/" + GetParam() + ".json")["graphs"];
  ASSERT_EQ(records.size(), golden.size());
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
  RowBuilder rows(sets.shared_schema());
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_THAT(decoder.Append(records[i], i, rows), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
  ASSERT_EQ(chunk.num_graphs(), records.size());
  ExampleEncoder encoder(sets);
  for (size_t i = 0; i < records.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectGraph(golden[i]["graph"], sets, chunk, i);
    std::string written;
    ASSERT_THAT(encoder.Append(chunk, i, &written), IsOk());
    ExpectSameExample(records[i], written);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenExamplesTest,
                         testing::Values("molecules", "mag", "ragged", "readout", "dtypes"),
                         [](const auto& test) { return test.param; });

// Records that the library accepts, or refuses, and packhouse does not.
const std::map<std::string, std::string>& RefusedHere() {
  static const auto* const cases = new std::map<std::string, std::string>{
      {"ragged: fewer lengths than nodes", "key 'nodes/students.scores.d1': 2 lengths; 3 are"},
      {"size of a set with features absent, features present",
       "key 'nodes/students.scores.d1': 1 lengths; 0 are"},
      {"dense: feature absent in a set of 2 nodes", "key 'nodes/a.x': 0 values; 4 are needed"},
      {"dense: more rows than #size", "key 'nodes/a.x': 4 values; 2 are needed"},
      {"dense: fewer rows than #size", "key 'nodes/a.x': 4 values; 6 are needed"},
      {"dense: #size absent but values present", "key 'nodes/a.x': 4 values; 0 are needed"},
      {"edge index out of range", "key 'edges/e.#target': value 5 at position 0 is not in [0, 1)"},
      {"edge index negative", "key 'edges/e.#source': value -1 at position 0 is not in [0, 1)"},
      {"edge #target shorter than #source", "key 'edges/e.#target': 1 values; the size of edge"},
      {"edge #size disagrees with the indices", "key 'edges/e.#source': 1 values; the size of"},
      {"edge index beyond int32", "value 4294967296 at position 0 is not in [0, 1)"},
      {"negative #size", "key 'nodes/a.#size': value -1 is not in [0, 4294967295]"},
      {"narrow types: values outside int8, 2 for a bool",
       "key 'nodes/a.i8': value 128 at position 1 is not in [-128, 127], the range of int8"},
  };
  return *cases;
}
const std::set<std::string>& AcceptedHere() {
  static const auto* const cases = new std::set<std::string>{
      "ragged: size only, values and lengths absent",
      "ragged: empty value list and empty lengths list",
      "ragged: empty list of the wrong kind (bytes for an int64 feature)",
      "context: ragged feature absent",
  };
  return *cases;
}

TEST(GoldenEdgeCasesTest, EachIsReadOrRefused) {
  PH_SKIP_WITHOUT_GOLDENS();
  size_t seen = 0;
  const Json cases = GoldenJson("examples/parse_edge_cases.json")["cases"];
  EXPECT_EQ(cases.size(), 35U);
  for (const Json& item : cases) {
    const std::string name = item["name"].get<std::string>();
    SCOPED_TRACE(name);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                            GraphSets::FromTfgnnFile(item["schema"].get<std::string>()));
    std::string record;
    ASSERT_TRUE(absl::Base64Unescape(item["example_b64"].get<std::string>(), &record));
    PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
    RowBuilder rows(sets.shared_schema());
    const absl::Status status = decoder.Append(record, 7, rows);
    const Json& library = item["parse_single_example"];
    const bool library_refuses = library.contains("error");
    if (const auto refused = RefusedHere().find(name); refused != RefusedHere().end()) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("record 7: ")));
      EXPECT_THAT(std::string(status.message()), HasSubstr(refused->second));
      ++seen;
    } else if (AcceptedHere().count(name) != 0) {
      EXPECT_THAT(status, IsOk());
      ++seen;
    } else if (library_refuses) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("key '")));
    } else {
      ASSERT_THAT(status, IsOk());
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
      ExpectGraph(library, sets, chunk, 0);
      continue;
    }
    // Rows of ragged features of which nothing is there are empty.
    if (AcceptedHere().count(name) == 0 || !status.ok()) continue;
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
    for (const TensorSpec& tensor : sets.schema().tensors()) {
      const size_t t = *sets.schema().TensorIndex(tensor.name);
      if (!absl::EndsWith(tensor.name, ".d1")) continue;
      EXPECT_EQ(chunk.rows(0, t), std::string(chunk.count(0, tensor.component) * 4, '\0'));
    }
  }
  EXPECT_EQ(seen, RefusedHere().size() + AcceptedHere().size()) << "a listed case is not there";
}

TEST(GoldenSchemasTest, AreAcceptedAndRefusedWithTheSameWarnings) {
  PH_SKIP_WITHOUT_GOLDENS();
  const Json cases = GoldenJson("schemas/validation_cases.json")["cases"];
  EXPECT_EQ(cases.size(), 39U);
  for (const Json& item : cases) {
    const std::string name = item["name"].get<std::string>();
    SCOPED_TRACE(name);
    PH_ASSERT_OK_AND_ASSIGN(const tensorflow_gnn::GraphSchema schema,
                            ParseGraphSchema(item["schema"].get<std::string>()));
    const auto warnings = ValidateGraphSchema(schema);
    const Json& library = item["validate_schema"];
    if (library.contains("error") || name == "root_set unknown") {
      EXPECT_THAT(warnings, StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
      continue;
    }
    ASSERT_THAT(warnings, IsOk());
    EXPECT_EQ(warnings->size(), library["warnings"].size());
    // The binary form says the same.
    PH_ASSERT_OK_AND_ASSIGN(const tensorflow_gnn::GraphSchema again,
                            ParseGraphSchema(schema.SerializeAsString()));
    EXPECT_EQ(GraphSchemaText(again), GraphSchemaText(schema));
  }
}

// The keys of every case that can be converted are the library's.
TEST(GoldenSchemasTest, HaveTheLibrarysKeys) {
  PH_SKIP_WITHOUT_GOLDENS();
  // float8, int4 and rows of no values have no packhouse type; a node set needs a name.
  const std::set<std::string> not_converted = {
      "dtype int4",      "dtype float8_e5m2",           "dim 0",
      "dim -2",          "dim unset (proto default 0)", "node set with an empty name",
      "root_set unknown"};
  const Json cases = GoldenJson("schemas/validation_cases.json")["cases"];
  EXPECT_EQ(cases.size(), 39U);
  for (const Json& item : cases) {
    const std::string name = item["name"].get<std::string>();
    SCOPED_TRACE(name);
    const auto sets = GraphSets::FromTfgnnFile(item["schema"].get<std::string>());
    if (item["validate_schema"].contains("error") || not_converted.count(name) != 0) {
      EXPECT_THAT(sets, StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
      continue;
    }
    ASSERT_THAT(sets, IsOk());
    const size_t l = sets->schema().num_components();
    // A graph whose context alone has rows.
    std::vector<std::string> columns;
    std::vector<absl::string_view> views;
    for (size_t t = 0; t < sets->schema().tensors().size(); ++t) {
      const bool is_context =
          sets->schema().tensors()[t].component == sets->schema().num_components();
      columns.emplace_back(is_context ? sets->schema().row_bytes(t) : 0, '\0');
    }
    views.assign(columns.begin(), columns.end());
    PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes,
                            SizeTable::WithConsecutiveIds(1, l, std::vector<uint32_t>(l), 0));
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                            GraphChunk::Create(&sets->schema(), std::move(sizes), views, nullptr));
    std::string record;
    ASSERT_THAT(ExampleEncoder(*sets).Append(chunk, 0, &record), IsOk());
    tensorflow::Example example;
    ASSERT_TRUE(example.ParseFromString(record));
    std::set<std::string> keys;
    for (const auto& [key, feature] : example.features().feature()) keys.insert(key);
    std::set<std::string> expected = item["io_spec"]["io_keys"].get<std::set<std::string>>();
    // The library's list has no lengths of ragged dimensions.
    for (auto key = keys.begin(); key != keys.end();) {
      const size_t d = key->rfind(".d");
      const bool is_lengths = d != std::string::npos && expected.count(key->substr(0, d)) != 0;
      key = is_lengths ? keys.erase(key) : std::next(key);
    }
    EXPECT_EQ(keys, expected);
  }
}

std::string ReadoutSetOf(std::string* key) {
  const size_t colon = key->find(':');
  if (colon == std::string::npos) return std::string(kReadout);
  std::string set = "_readout:" + key->substr(0, colon);
  *key = key->substr(colon + 1);
  return set;
}

TEST(GoldenReadoutTest, GivesWhatStructuredReadoutGives) {
  PH_SKIP_WITHOUT_GOLDENS();
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                          GraphSets::FromTfgnnFile(GoldenBytes("schemas/readout.pbtxt")));
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
  RowBuilder rows(sets.shared_schema());
  for (const std::string& record : GoldenRecords("examples/readout.tfrecord")) {
    ASSERT_THAT(decoder.Append(record, 0, rows), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
  const Json graphs = GoldenJson("examples/readout.json")["graphs"];
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const auto& [name, expected] : graphs[i]["structured_readout"].items()) {
      SCOPED_TRACE(absl::StrCat(i, ", ", name));
      std::string key = name;
      const std::string set = ReadoutSetOf(&key);
      PH_ASSERT_OK_AND_ASSIGN(const ReadoutValues values,
                              StructuredReadout(sets, chunk, i, key, "h", set));
      EXPECT_EQ(values.row_shape, expected["shape"].get<std::vector<uint32_t>>());
      EXPECT_EQ(values.rows, ElementBytesOf(expected["values"], values.dtype));
    }
  }
}

TEST(GoldenReadoutTest, RefusesBadStructures) {
  PH_SKIP_WITHOUT_GOLDENS();
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSets sets,
      GraphSets::FromTfgnnFile(
          R"(node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }
             node_sets { key: "_readout" value { } }
             edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } })"));
  const Json cases = GoldenJson("examples/readout_cases.json")["cases"];
  EXPECT_EQ(cases.size(), 6U);
  for (const Json& item : cases) {
    SCOPED_TRACE(item["name"].get<std::string>());
    tensorflow::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    const auto ints = [&](const std::string& key, const Json& values) {
      for (const Json& value : values) {
        features[key].mutable_int64_list()->add_value(value.get<int64_t>());
      }
    };
    ints("nodes/a.#size", {4});
    for (const float x : {10, 11, 12, 13}) {
      features["nodes/a.x"].mutable_float_list()->add_value(x);
    }
    ints("nodes/_readout.#size", {item["n"]});
    ints("edges/_readout/seed.#size", {item["src"].size()});
    ints("edges/_readout/seed.#source", item["src"]);
    ints("edges/_readout/seed.#target", item["dst"]);
    PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
    RowBuilder rows(sets.shared_schema());
    ASSERT_THAT(decoder.Append(example.SerializeAsString(), 0, rows), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
    const auto values =
        StructuredReadout(sets, chunk, 0, item.value("key", std::string("seed")), "x");
    const Json& result = item["result"];
    if (!result.contains("error")) {
      ASSERT_THAT(values, IsOk());
      EXPECT_EQ(values->rows, ElementBytesOf(result["values"], DType::kFloat32));
    } else {
      const bool is_key = result["error"].get<std::string>() == "KeyError";
      EXPECT_EQ(values.status().code(),
                is_key ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace packhouse::tfgnn
