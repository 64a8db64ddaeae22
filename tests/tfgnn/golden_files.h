// What the real TF-GNN wrote and read, as JSON, beside what packhouse has of it.
#ifndef PACKHOUSE_TESTS_TFGNN_GOLDEN_FILES_H_
#define PACKHOUSE_TESTS_TFGNN_GOLDEN_FILES_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "service/wings/tfgnn/number_lists.h"
#include "tests/support/shared_data.h"

namespace packhouse::tfgnn {

using Json = nlohmann::json;

inline std::filesystem::path GoldenFolder() {
  return std::filesystem::path(SharedData()) / "tfgnn";
}

// Skips the test where the folder is missing.
#define PH_SKIP_WITHOUT_GOLDENS()                                          \
  if (!std::filesystem::exists(::packhouse::tfgnn::GoldenFolder())) {      \
    GTEST_SKIP() << ::packhouse::tfgnn::GoldenFolder() << " is not there"; \
  }

inline std::string FileBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::string GoldenBytes(const std::string& name) { return FileBytes(GoldenFolder() / name); }
inline Json GoldenJson(const std::string& name) { return Json::parse(GoldenBytes(name)); }

inline double NumberOf(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return text == "Infinity" ? std::numeric_limits<double>::infinity()
                            : -std::numeric_limits<double>::infinity();
}

template <typename T>
void AppendElement(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// JSON numbers as elements of a dtype. NaN is one NaN: see Canonical.
inline std::string ElementBytesOf(const Json& values, DType dtype) {
  std::string bytes;
  for (const Json& value : values) {
    switch (dtype) {
      case DType::kBool:
        AppendElement(static_cast<uint8_t>(value.get<bool>()), &bytes);
        break;
      case DType::kFloat16:
        AppendElement(Float16Of(static_cast<float>(NumberOf(value))), &bytes);
        break;
      case DType::kBfloat16:
        AppendElement(Bfloat16Of(static_cast<float>(NumberOf(value))), &bytes);
        break;
      case DType::kFloat32:
        AppendElement(static_cast<float>(NumberOf(value)), &bytes);
        break;
      case DType::kFloat64:
        AppendElement(NumberOf(value), &bytes);
        break;
      default:
        WithIndexType(dtype,
                      [&](auto zero) { AppendElement(value.get<decltype(zero)>(), &bytes); });
    }
  }
  return bytes;
}

// Every NaN as the same NaN.
inline std::string Canonical(absl::string_view bytes, DType dtype) {
  std::string result(bytes);
  const auto each = [&](auto zero, auto is_nan) {
    for (size_t i = 0; i < result.size(); i += sizeof(zero)) {
      auto value = zero;
      std::memcpy(&value, result.data() + i, sizeof(value));
      if (is_nan(value)) std::memset(result.data() + i, 0xff, sizeof(value));
    }
  };
  if (dtype == DType::kFloat32) each(float{}, [](float v) { return std::isnan(v); });
  if (dtype == DType::kFloat64) each(double{}, [](double v) { return std::isnan(v); });
  if (dtype == DType::kFloat16) {
    each(uint16_t{}, [](uint16_t v) { return std::isnan(FloatOfFloat16(v)); });
  }
  if (dtype == DType::kBfloat16) {
    each(uint16_t{}, [](uint16_t v) { return std::isnan(FloatOfBfloat16(v)); });
  }
  return result;
}

inline void ExpectFeature(const Json& golden, const Feature& feature, const GraphChunk& chunk,
                          size_t i) {
  const absl::Span<const TensorSpec> tensors = chunk.schema().tensors();
  EXPECT_EQ(golden["shape"].get<std::vector<int64_t>>(), feature.shape);
  for (const RaggedDimension& ragged : feature.ragged) {
    const std::string key = absl::StrCat("d", ragged.number);
    const bool is_text = feature.is_text && &ragged == &feature.ragged.back();
    std::vector<int32_t> lengths;
    if (is_text) {
      for (const Json& text : golden["values_b64"]) {
        std::string bytes;
        EXPECT_TRUE(absl::Base64Unescape(text.get<std::string>(), &bytes));
        lengths.push_back(static_cast<int32_t>(bytes.size()));
      }
    } else {
      lengths = golden["row_lengths"][key].get<std::vector<int32_t>>();
    }
    const absl::string_view expected(reinterpret_cast<const char*>(lengths.data()),
                                     lengths.size() * sizeof(int32_t));
    EXPECT_TRUE(chunk.rows(i, ragged.lengths) == expected) << tensors[ragged.lengths].name;
  }
  std::string expected;
  if (feature.is_text) {
    for (const Json& text : golden["values_b64"]) {
      std::string bytes;
      EXPECT_TRUE(absl::Base64Unescape(text.get<std::string>(), &bytes));
      expected += bytes;
    }
  } else {
    EXPECT_EQ(golden["dtype"].get<std::string>(), DTypeName(feature.dtype));
    expected = ElementBytesOf(golden["values"], feature.dtype);
  }
  EXPECT_EQ(Canonical(chunk.rows(i, feature.values), feature.dtype),
            Canonical(expected, feature.dtype))
      << tensors[feature.values].name;
}

inline void ExpectFeatures(const Json& golden, const RowSet& set, const GraphChunk& chunk,
                           size_t i) {
  ASSERT_EQ(golden.size(), set.features.size()) << set.name;
  for (const Feature& feature : set.features) {
    SCOPED_TRACE(feature.name);
    ExpectFeature(golden.at(feature.name), feature, chunk, i);
  }
}

inline std::vector<int64_t> EndsOf(const GraphChunk& chunk, size_t i, size_t t) {
  std::vector<int64_t> ends;
  const DType dtype = chunk.schema().tensors()[t].dtype;
  const absl::string_view rows = chunk.rows(i, t);
  for (size_t at = 0; at < rows.size() / ElementBytes(dtype); ++at) {
    ends.push_back(IndexValueAt(dtype, rows, at));
  }
  return ends;
}

// Graph i of `chunk` is the JSON's graph, value by value.
inline void ExpectGraph(const Json& golden, const GraphSets& sets, const GraphChunk& chunk,
                        size_t i) {
  ExpectFeatures(golden["context"], sets.context(), chunk, i);
  ASSERT_EQ(golden["node_sets"].size(), sets.node_sets().size());
  for (const RowSet& set : sets.node_sets()) {
    SCOPED_TRACE(set.name);
    const Json& nodes = golden["node_sets"].at(set.name);
    EXPECT_EQ(nodes["sizes"].get<std::vector<uint64_t>>(),
              std::vector<uint64_t>{chunk.count(i, set.component)});
    ExpectFeatures(nodes["features"], set, chunk, i);
  }
  ASSERT_EQ(golden["edge_sets"].size(), sets.edge_sets().size());
  for (const EdgeSet& set : sets.edge_sets()) {
    SCOPED_TRACE(set.name);
    const Json& edges = golden["edge_sets"].at(set.name);
    EXPECT_EQ(edges["sizes"].get<std::vector<uint64_t>>(),
              std::vector<uint64_t>{chunk.count(i, set.component)});
    EXPECT_EQ(edges["source_set"].get<std::string>(), sets.node_sets()[set.source_set].name);
    EXPECT_EQ(edges["target_set"].get<std::string>(), sets.node_sets()[set.target_set].name);
    EXPECT_EQ(edges["source"].get<std::vector<int64_t>>(), EndsOf(chunk, i, set.source));
    EXPECT_EQ(edges["target"].get<std::vector<int64_t>>(), EndsOf(chunk, i, set.target));
    ExpectFeatures(edges["features"], set, chunk, i);
  }
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_TESTS_TFGNN_GOLDEN_FILES_H_
