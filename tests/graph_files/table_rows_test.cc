#include "service/wings/graphs/files/table_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/files/field_values.h"
#include "tensorflow/core/example/example.pb.h"

namespace packhouse::graph_files {
namespace {

using Fields = std::vector<absl::string_view>;

SourceColumnSpec Column(std::string name, DType dtype, std::vector<uint32_t> row_shape = {},
                        bool ragged = false) {
  return {std::move(name), dtype, std::move(row_shape), ragged, false};
}

SourceColumnSpec Text(std::string name) { return {std::move(name), DType::kUint8, {}, true, true}; }

RowsSpec Authors() {
  return {false, false, {Column("h", DType::kInt64), Text("name"), Column("s", DType::kFloat32)}};
}

SourceRows Empty(const RowsSpec& spec) {
  SourceRows rows;
  ClearRows(spec, &rows);
  return rows;
}

std::string Record(const std::string& text) {
  tensorflow::Example example;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("features {" + text + "}", &example));
  return example.SerializeAsString();
}

std::string Entry(const std::string& key, const std::string& list) {
  return "feature { key: '" + key + "' value { " + list + " } } ";
}

TEST(CsvRowsTest, AHeaderSaysWhichFieldIsWhat) {
  const auto table = CsvRows::Create(Authors(), Fields{"s", "ignored", "name", "#id", "h"});
  ASSERT_TRUE(table.ok()) << table.status();
  SourceRows rows = Empty(Authors());
  ASSERT_TRUE(table->Append(Fields{"0.5", "?", "Ann, B.", "author7", "-3"}, &rows).ok());
  ASSERT_TRUE(table->Append(Fields{"1", "", "", "author8", "9"}, &rows).ok());
  EXPECT_EQ(rows.count, 2);
  EXPECT_EQ(rows.ids.text(0), "author7");
  EXPECT_EQ(rows.ids.text(1), "author8");
  EXPECT_EQ(rows.columns[1].bytes, "Ann, B.");
  EXPECT_EQ(rows.columns[1].lengths, (std::vector<uint64_t>{7, 0}));
  int64_t h[2];
  ASSERT_EQ(rows.columns[0].bytes.size(), sizeof(h));
  std::memcpy(h, rows.columns[0].bytes.data(), sizeof(h));
  EXPECT_EQ(h[0], -3);
  EXPECT_EQ(h[1], 9);
}

TEST(CsvRowsTest, ASwappedTableHasItsEndsExchanged) {
  const RowsSpec spec = {true, true, {}};
  const auto table = CsvRows::Create(spec, Fields{"source", "#target"});
  ASSERT_TRUE(table.ok());
  SourceRows rows = Empty(spec);
  ASSERT_TRUE(table->Append(Fields{"a", "b"}, &rows).ok());
  EXPECT_EQ(rows.sources.text(0), "b");
  EXPECT_EQ(rows.targets.text(0), "a");
}

TEST(CsvRowsTest, ABadHeaderIsRefused) {
  const std::vector<std::pair<Fields, std::string>> cases = {
      {{"h", "name", "s"}, "the header has no column 'id'"},
      {{"id", "#id", "h", "name", "s"}, "the header has column 'id' twice, in fields 1 and 2"},
      {{"id", "h", "name"}, "the header has no column 's'"},
      {{"id", "h", "name", "s", "h"}, "the header has column 'h' twice, in fields 2 and 5"},
  };
  for (const auto& [header, message] : cases) {
    const absl::Status status = CsvRows::Create(Authors(), header).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  }
  const absl::Status status =
      CsvRows::Create({false, false, {Column("f", DType::kFloat32, {2})}}, Fields{"id", "f"})
          .status();
  EXPECT_EQ(status.message(),
            "column 'f' is no scalar in the schema; a field of CSV has one value");
  const RowsSpec ragged = {false, false, {Column("f", DType::kFloat32, {}, true)}};
  EXPECT_EQ(CsvRows::Create(ragged, Fields{"id", "f"}).status().message(), status.message());
  const std::vector<std::pair<Fields, std::string>> of_edges = {
      {{"target"}, "the header has no column 'source'"},
      {{"#source"}, "the header has no column 'target'"},
      {{"#source", "target", "source"}, "the header has column 'source' twice, in fields 1 and 3"},
      {{"target", "#target", "source"}, "the header has column 'target' twice, in fields 1 and 2"},
  };
  for (const auto& [header, message] : of_edges) {
    for (const bool is_swapped : {false, true}) {
      EXPECT_EQ(CsvRows::Create({true, is_swapped, {}}, header).status().message(), message);
    }
  }
}

TEST(CsvRowsTest, ABadRowIsNamedAndLeavesNothing) {
  const auto table = CsvRows::Create(Authors(), Fields{"id", "h", "name", "s"});
  ASSERT_TRUE(table.ok());
  const std::vector<std::pair<Fields, std::string>> cases = {
      {{"a", "1", "n"}, "has 3 fields, the header 4"},
      {{"a", "1", "n", "1", "2"}, "has 5 fields, the header 4"},
      {{"a", "one", "n", "1"}, "column 'h': 'one' is no int64"},
      {{"a", "1", "n", ""}, "column 's': '' is no float32"},
      {{"", "1", "n", "1"}, "column 'id': an id has 1 to 4096 bytes, this one 0"},
  };
  SourceRows rows = Empty(Authors());
  for (const auto& [fields, message] : cases) {
    const absl::Status status = table->Append(fields, &rows);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
    EXPECT_EQ(rows.count, 0);
    EXPECT_EQ(rows.bytes(), 0);
  }
  for (const size_t size : {kMaxIdBytes, kMaxIdBytes + 1}) {
    const std::string id(size, 'i');
    EXPECT_EQ(table->Append(Fields{id, "1", "n", "1"}, &rows).ok(), size == kMaxIdBytes);
  }
  EXPECT_EQ(rows.count, 1);
  // Nothing else of the rows before it goes.
  const RowsSpec spec = {
      false, false, {Text("name"), Column("h", DType::kInt16), Column("b", DType::kBool)}};
  const auto of_spec = CsvRows::Create(spec, Fields{"id", "name", "h", "b"});
  ASSERT_TRUE(of_spec.ok());
  rows = Empty(spec);
  ASSERT_TRUE(of_spec->Append(Fields{"a", "Ann", "1", "1"}, &rows).ok());
  EXPECT_EQ(of_spec->Append(Fields{"b", "Berta", "2", "2"}, &rows).message(),
            "column 'b': '2' is no bool");
  EXPECT_EQ(of_spec->Append(Fields{"c", "", "x", "2"}, &rows).message(),
            "column 'h': 'x' is no int16");
  EXPECT_EQ(rows.count, 1);
  EXPECT_EQ(rows.ids.size(), 1);
  EXPECT_EQ(rows.columns[0].bytes, "Ann");
  EXPECT_EQ(rows.columns[0].lengths, std::vector<uint64_t>{3});
  EXPECT_EQ(rows.columns[1].bytes, std::string("\1\0", 2));
  EXPECT_EQ(rows.columns[2].bytes, "\1");
  const RowsSpec swapped = {true, true, {}};
  const auto edges = CsvRows::Create(swapped, Fields{"source", "target"});
  ASSERT_TRUE(edges.ok());
  rows = Empty(swapped);
  EXPECT_EQ(edges->Append(Fields{"a", ""}, &rows).message(),
            "column 'target': an id has 1 to 4096 bytes, this one 0");
}

RowsSpec Papers() {
  return {false,
          false,
          {Column("f", DType::kFloat32, {2}), Column("n", DType::kInt8),
           Column("r", DType::kInt32, {2}, true), Text("t")}};
}

const std::string kPaper = Entry("f", "float_list { value: 1 value: 2 }") +
                           Entry("n", "int64_list { value: -1 }") +
                           Entry("t", "bytes_list { value: 'x' }");

TEST(ExampleRowsTest, ReadsWhatIsWritten) {
  ExampleRows table(Papers());
  SourceRows rows = Empty(Papers());
  ASSERT_TRUE(table.Append(Record(Entry("id", "bytes_list { value: 'p0' }") + kPaper), &rows).ok());
  const std::string ragged =
      Record(Entry("#id", "bytes_list { value: 'p1' value: 'more' }") + kPaper +
             Entry("r", "int64_list { value: 1 value: 2 value: 3 value: -4 }") +
             Entry("r.d1", "int64_list { value: 2 }"));
  ASSERT_TRUE(table.Append(ragged, &rows).ok());
  EXPECT_EQ(rows.count, 2);
  EXPECT_EQ(rows.ids.text(0), "p0");
  EXPECT_EQ(rows.ids.text(1), "p1");
  EXPECT_EQ(rows.columns[2].lengths, (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(rows.columns[2].bytes.size(), 4 * sizeof(int32_t));

  SourceRows again = Empty(Papers());
  ExampleRows reader(Papers());
  const absl::Status status = ForEachExample(
      Papers(), rows, [&](absl::string_view record) { return reader.Append(record, &again); });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(again.ids.bytes, rows.ids.bytes);
  EXPECT_EQ(again.ids.ends, rows.ids.ends);
  for (size_t c = 0; c < rows.columns.size(); ++c) {
    EXPECT_EQ(again.columns[c].bytes, rows.columns[c].bytes) << c;
    EXPECT_EQ(again.columns[c].lengths, rows.columns[c].lengths) << c;
  }
}

TEST(ExampleRowsTest, EveryElementTypeIsReadAsItWasWritten) {
  for (int type = 0; type <= static_cast<int>(DType::kFloat64); ++type) {
    const DType dtype = static_cast<DType>(type);
    SCOPED_TRACE(DTypeName(dtype));
    const RowsSpec spec = {false, false, {Column("v", dtype, {4})}};
    SourceRows rows = Empty(spec);
    rows.ids.is_text = true;
    for (const char* const row :
         {"0 1 1 0", "1.5 -0.25 0 1024", "0 1 127 100", "-1 -128 5 127", "128 1 255 2"}) {
      const size_t before = rows.columns[0].bytes.size();
      const Fields values = absl::StrSplit(row, ' ');
      const bool is_taken = std::all_of(values.begin(), values.end(), [&](absl::string_view text) {
        return AppendElement(text, dtype, &rows.columns[0].bytes).ok();
      });
      if (is_taken) {
        rows.ids.AddText(row);
        ++rows.count;
      } else {
        rows.columns[0].bytes.resize(before);
      }
    }
    SourceRows again = Empty(spec);
    ExampleRows reader(spec);
    const absl::Status status = ForEachExample(
        spec, rows, [&](absl::string_view record) { return reader.Append(record, &again); });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(again.ids.bytes, rows.ids.bytes);
    EXPECT_EQ(again.columns[0].bytes, rows.columns[0].bytes);
    EXPECT_GE(again.count, 1);
  }
}

TEST(ExampleRowsTest, ABadRecordIsNamedAndLeavesNothing) {
  const std::string id = Entry("id", "bytes_list { value: 'p' }");
  const std::string f = Entry("f", "float_list { value: 1 value: 2 }");
  const std::string n = Entry("n", "int64_list { value: -1 }");
  const std::string t = Entry("t", "bytes_list { value: 'x' }");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kPaper, "has no feature 'id'"},
      {kPaper + Entry("id", "int64_list { value: 1 }"),
       "feature 'id': an id is a string, this is a list of int64s"},
      {kPaper + Entry("#id", "bytes_list { }"),
       "feature '#id': an id is a string, this list is empty"},
      {kPaper + Entry("id", "bytes_list { value: '' }"),
       "feature 'id': an id has 1 to 4096 bytes, this one 0"},
      {id + n + t, "has no feature 'f'"},
      {id + n + t + Entry("f", "float_list { value: 1 }"),
       "feature 'f': 1 values, the shape [2] needs 2"},
      {id + n + t + Entry("f", "int64_list { value: 1 value: 2 }"),
       "feature 'f': a list of int64s, floats are needed for float32"},
      {id + f + t + Entry("n", "int64_list { value: 128 }"), "feature 'n': 128 is no int8"},
      {id + f + t + Entry("n", "int64_list { value: 1 value: 2 }"),
       "feature 'n': 2 values, the shape [] needs 1"},
      {id + f + n, "has no feature 't'"},
      {id + f + n + Entry("t", "bytes_list { value: 'a' value: 'b' }"),
       "feature 't': 2 strings, 1 is needed"},
      {id + kPaper + Entry("r", "int64_list { value: 1 }"),
       "feature 'r': 1 values, the shape [-1, 2] needs a multiple of 2"},
      {id + kPaper + Entry("r", "int64_list { value: 1 value: 2 }") +
           Entry("r.d1", "int64_list { value: 2 }"),
       "feature 'r.d1': 1 lengths, the last 2; the row has one, 1"},
  };
  ExampleRows table(Papers());
  SourceRows rows = Empty(Papers());
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status = table.Append(Record(text), &rows);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
    EXPECT_EQ(rows.count, 0);
    EXPECT_EQ(rows.bytes(), 0);
  }
  EXPECT_EQ(table.Append("\xff", &rows).message(), "is no tf.Example");
}

// Whatever the shape, and nothing of the rows before it goes.
TEST(ExampleRowsTest, ABadFeatureIsNamedByItsColumn) {
  const RowsSpec spec = {false,
                         false,
                         {Column("m", DType::kInt16, {2, 3}), Column("b", DType::kBool),
                          Column("r", DType::kInt32, {}, true), Text("t")}};
  const std::string id = Entry("id", "bytes_list { value: 'p' }");
  const auto ints = [](const std::string& key, const std::vector<int>& values) {
    std::string list = "int64_list { ";
    for (const int value : values) list += "value: " + std::to_string(value) + " ";
    return Entry(key, list + "}");
  };
  const std::string m = ints("m", {1, 2, 3, 4, 5, 6});
  const std::string b = ints("b", {1});
  const std::string r = ints("r", {7, 8, 9});
  const std::string t = Entry("t", "bytes_list { value: 'xy' }");
  ExampleRows table(spec);
  SourceRows rows = Empty(spec);
  ASSERT_TRUE(table.Append(Record(id + m + b + r + t), &rows).ok());
  const SourceRows before = rows;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {id + ints("m", {1}) + b + r + t, "feature 'm': 1 values, the shape [2, 3] needs 6"},
      {id + ints("m", {1, 2, 3, 4, -40000, 50000}) + b + r + t, "feature 'm': -40000 is no int16"},
      {id + m + ints("b", {2}) + r + t, "feature 'b': 2 is no bool"},
      {id + m + b + ints("r", {1, 2, 3}) + ints("r.d1", {2}) + t,
       "feature 'r.d1': 1 lengths, the last 2; the row has one, 3"},
      {id + m + b + ints("r", {1, 2, 3}) + ints("r.d1", {3, 3}) + t,
       "feature 'r.d1': 2 lengths, the last 3; the row has one, 3"},
      {id + m + b + ints("r", {}) + ints("r.d1", {}) + t,
       "feature 'r.d1': 0 lengths, the last 0; the row has one, 0"},
      {id + m + b + r, "has no feature 't'"},
      {id + m + b + r + Entry("t", "float_list { value: 1 }"),
       "feature 't': a list of floats, bytes are needed for text"},
      {id + m + b + r + Entry("t", "bytes_list { }"), "feature 't': 0 strings, 1 is needed"},
      {m + b + r + t, "has no feature 'id'"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    EXPECT_EQ(table.Append(Record(text), &rows).message(), message);
    EXPECT_EQ(rows.count, 1);
    EXPECT_EQ(rows.ids.bytes, "p");
    for (size_t c = 0; c < spec.columns.size(); ++c) {
      EXPECT_EQ(rows.columns[c].bytes, before.columns[c].bytes) << c;
      EXPECT_EQ(rows.columns[c].lengths, before.columns[c].lengths) << c;
    }
  }
  // Lengths of another kind are another's feature; no list is an empty row.
  ASSERT_TRUE(
      table.Append(Record(id + m + b + Entry("r.d1", "float_list { value: 9 }") + t), &rows).ok());
  EXPECT_EQ(rows.columns[2].lengths, (std::vector<uint64_t>{3, 0}));
  EXPECT_EQ(rows.columns[3].lengths, (std::vector<uint64_t>{2, 2}));
}

// Bytes of a protocol buffer that ends too early, or has a number of more than ten bytes.
TEST(ExampleRowsTest, WhatIsMalformedIsNamed) {
  const std::string id = Entry("id", "bytes_list { value: 'p' }");
  const std::string t = Entry("t", "bytes_list { value: 'x' }");
  const std::string f = Entry("f", "float_list { value: 1 value: 2 }");
  const std::string n = Entry("n", "int64_list { value: -1 }");
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  // A feature whose list, of the kind of `list_tag`, has these bytes.
  const auto with = [&](const std::string& features, const std::string& key, char list_tag,
                        const std::string& list) {
    const std::string entry = field('\x0a', key) + field('\x12', field(list_tag, list));
    return Record(features) + field('\x0a', field('\x0a', entry));
  };
  const std::string too_long = field('\x0a', std::string(10, '\xff') + '\x01');
  const std::string cut = "\x0a\x7f";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with(id + f + t, "n", '\x1a', too_long), "feature 'n': malformed"},
      {with(id + f + t, "n", '\x1a', cut), "feature 'n': malformed"},
      {with(id + n + t, "f", '\x12', field('\x0a', "123")), "feature 'f': malformed"},
      {with(id + kPaper, "r", '\x1a', cut), "feature 'r': malformed"},
      {with(id + kPaper, "r.d1", '\x1a', cut), "feature 'r': malformed"},
      {with(kPaper, "#id", '\x0a', cut), "feature '#id': malformed"},
      {with(kPaper, "id", '\x0a', cut), "feature 'id': malformed"},
  };
  ExampleRows table(Papers());
  SourceRows rows = Empty(Papers());
  ASSERT_TRUE(table.Append(Record(id + kPaper), &rows).ok());
  const size_t bytes = rows.bytes();
  for (const auto& [record, message] : cases) {
    SCOPED_TRACE(testing::PrintToString(record));
    EXPECT_EQ(table.Append(record, &rows).message(), message);
    EXPECT_EQ(rows.count, 1);
    EXPECT_EQ(rows.bytes(), bytes);
  }
  for (const size_t size : {kMaxIdBytes, kMaxIdBytes + 1}) {
    const std::string long_id =
        Entry("id", "bytes_list { value: '" + std::string(size, 'i') + "' }");
    EXPECT_EQ(table.Append(Record(long_id + kPaper), &rows).ok(), size == kMaxIdBytes);
  }
}

TEST(ExampleRowsTest, EndsAreWrittenAsTheTableHasThem) {
  for (const bool is_swapped : {false, true}) {
    const RowsSpec spec = {true, is_swapped, {}};
    SourceRows rows = Empty(spec);
    rows.sources.numbers = {7, -1};
    rows.targets.numbers = {8, 12};
    rows.count = 2;
    std::vector<std::string> ends;
    EXPECT_TRUE(ForEachExample(spec, rows, [&](absl::string_view record) {
                  tensorflow::Example example;
                  EXPECT_TRUE(example.ParseFromString(std::string(record)));
                  for (const char* const key : {"#source", "#target"}) {
                    ends.push_back(example.features().feature().at(key).bytes_list().value(0));
                  }
                  return absl::OkStatus();
                }).ok());
    const std::vector<std::string> expected = {"7", "8", "-1", "12"};
    const std::vector<std::string> swapped = {"8", "7", "12", "-1"};
    EXPECT_EQ(ends, is_swapped ? swapped : expected);
    // And are read as they were.
    SourceRows again = Empty(spec);
    ExampleRows reader(spec);
    ASSERT_TRUE(ForEachExample(spec, rows, [&](absl::string_view record) {
                  return reader.Append(record, &again);
                }).ok());
    EXPECT_EQ(again.sources.text(0), "7");
    EXPECT_EQ(again.targets.text(0), "8");
    EXPECT_EQ(again.sources.text(1), "-1");
    EXPECT_EQ(again.targets.text(1), "12");
    // It ends with the first error.
    int taken = 0;
    EXPECT_EQ(ForEachExample(spec, rows,
                             [&](absl::string_view) {
                               ++taken;
                               return absl::DataLossError("disk");
                             })
                  .code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(taken, 1);
  }
}

TEST(ClearRowsTest, OnlyTheSetIsKept) {
  SourceRows rows = Empty(Authors());
  rows.set = 3;
  rows.count = 5;
  rows.columns[0].bytes = "x";
  ClearRows({true, false, {Column("w", DType::kInt8)}}, &rows);
  EXPECT_EQ(rows.set, 3);
  EXPECT_TRUE(rows.is_edges);
  EXPECT_EQ(rows.count, 0);
  ASSERT_EQ(rows.columns.size(), 1);
  EXPECT_EQ(rows.bytes(), 0);
}

TEST(ExampleRowsTest, AnEdgeWithoutATargetLeavesNothing) {
  const RowsSpec spec = {true, false, {}};
  ExampleRows table(spec);
  SourceRows rows = Empty(spec);
  EXPECT_EQ(table.Append(Record(Entry("#source", "bytes_list { value: 'abc' }")), &rows).message(),
            "has no feature 'target'");
  EXPECT_EQ(rows.sources.size(), 0);
  EXPECT_EQ(rows.sources.bytes, "");
  EXPECT_EQ(table.Append(Record(Entry("#target", "bytes_list { value: 'abc' }")), &rows).message(),
            "has no feature 'source'");
  ASSERT_TRUE(table
                  .Append(Record(Entry("source", "bytes_list { value: 'a' }") +
                                 Entry("#target", "bytes_list { value: 'b' }")),
                          &rows)
                  .ok());
  EXPECT_EQ(table.Append(Record(Entry("#source", "bytes_list { value: 'a' }")), &rows).message(),
            "has no feature 'target'");
  EXPECT_EQ(rows.count, 1);
  EXPECT_EQ(rows.sources.size(), 1);
  EXPECT_EQ(rows.sources.bytes, "a");
}

}  // namespace
}  // namespace packhouse::graph_files
