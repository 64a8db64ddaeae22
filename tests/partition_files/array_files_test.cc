// .npy and safetensors.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/safetensors_file.h"
#include "tests/partition_files/failing_sink.h"
#include "tests/partition_files/random_arrays.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr DType kAllTypes[] = {DType::kBool,    DType::kInt8,    DType::kInt16,   DType::kInt32,
                               DType::kInt64,   DType::kUint8,   DType::kUint16,  DType::kUint32,
                               DType::kUint64,  DType::kFloat16, DType::kFloat32, DType::kFloat64,
                               DType::kBfloat16};

ArrayView FindName(const std::vector<ArrayView>& arrays, const std::string& name) {
  for (const ArrayView& array : arrays) {
    if (array.header.name == name) return array;
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(ArrayTest, RowsMustBeAsManyAsTheShapeHas) {
  for (const uint64_t given : {2, 4}) {
    ArraySource array = MadeArray<int64_t>("a", DType::kInt64, given, [](uint64_t i) { return i; });
    array.header.shape = {3};
    StringSink sink;
    EXPECT_EQ(WriteRows(array, sink),
              absl::InternalError(absl::StrCat("array 'a' gives ", given < 3 ? "fewer" : "more",
                                               " than the 24 bytes of its shape")));
    array.header.shape.assign(33, 1);
    const absl::Status refused =
        absl::InvalidArgumentError("array 'a' has 33 dimensions, at most 32");
    StringSink none;
    EXPECT_EQ(WriteRows(array, none), refused);
    EXPECT_EQ(WriteNpyFile(array, none), refused);
    EXPECT_EQ(WriteSafetensorsFile({array}, none), refused);
    EXPECT_EQ(none.bytes(), "");
  }
  const uint64_t large = uint64_t{1} << 62;
  EXPECT_THAT(ArrayBytes({"big", DType::kInt64, {0, large}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'big'")));
  EXPECT_THAT(ArrayBytes({"rank", DType::kInt8, std::vector<uint64_t>(33, 1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("33 dimensions, at most 32")));
  EXPECT_THAT(ArrayBytes({"rank", DType::kInt16, std::vector<uint64_t>(32, 1)}), IsOkAndHolds(2U));
  const uint64_t most = (uint64_t{1} << 63) - 1;
  EXPECT_THAT(ArrayBytes({"most", DType::kInt8, {most}}), IsOkAndHolds(most));
  EXPECT_THAT(ArrayBytes({"more", DType::kInt8, {most + 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'more'")));
}

// Arrays of several blocks, however they are made, in each kind of file.
TEST(ArrayTest, ErrorsOfSinksAreTold) {
  const std::vector<uint32_t> values(2 * kConvertedElements + 1, 7);
  const std::vector<ArraySource> arrays = {
      MadeArray<int8_t>("made", DType::kInt8, values.size(), [](uint64_t i) { return i; }),
      Int64Array("mapped", absl::MakeConstSpan(values)),
      SourceOf({{"read", DType::kInt8, {2}}, "xy"})};
  for (const ArraySource& array : arrays) {
    ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteNpyFile(array, sink); });
  }
  ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteSafetensorsFile(arrays, sink); });
}

// What numpy.save writes of numpy.arange(3).
TEST(NpyFileTest, IsNumpys) {
  StringSink sink;
  ASSERT_THAT(
      WriteNpyFile(MadeArray<int64_t>("", DType::kInt64, 3, [](uint64_t i) { return i; }), sink),
      IsOk());
  const std::string text = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
  std::string want = std::string("\x93NUMPY\x01\0v\0", 10) + text;
  want += std::string(127 - want.size(), ' ') + "\n";
  for (const char value : {0, 1, 2}) want += std::string(1, value) + std::string(7, '\0');
  EXPECT_EQ(sink.bytes(), want);
}

TEST(NpyFileTest, GivesBackWhatWasWritten) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    for (const DType dtype : kAllTypes) {
      const OwnedArray array = RandomArray("", dtype, random);
      StringSink sink;
      ASSERT_THAT(WriteNpyFile(SourceOf(array.view()), sink), IsOk());
      PH_ASSERT_OK_AND_ASSIGN(const ArrayView got, ReadNpyFile(sink.bytes()));
      EXPECT_EQ(got.header.dtype, dtype == DType::kBfloat16 ? DType::kUint16 : dtype);
      EXPECT_EQ(got.header.shape, array.header.shape);
      EXPECT_EQ(got.bytes, array.bytes);
      EXPECT_EQ(static_cast<size_t>(got.bytes.data() - sink.bytes().data()) % 64, 0U);
    }
  }
}

TEST(NpyFileTest, OtherFilesAreRefused) {
  StringSink sink;
  ASSERT_THAT(
      WriteNpyFile(MadeArray<int32_t>("", DType::kInt32, 2, [](uint64_t i) { return i; }), sink),
      IsOk());
  const auto with = [&sink](const std::string& old, const std::string& now) {
    std::string file = sink.bytes();
    file.replace(file.find(old), old.size(), now);
    return ReadNpyFile(file).status();
  };
  EXPECT_THAT(with("<i4", ">i4"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is big-endian")));
  EXPECT_THAT(with("False", "True "),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is in Fortran order")));
  EXPECT_THAT(with("(2,)", "(3,)"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("has 8 bytes of rows, its shape needs 12")));
  EXPECT_THAT(with("'shape'", "'descr'"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'descr', which is unknown or there twice")));
  for (size_t size = 0; size < sink.bytes().size(); ++size) {
    EXPECT_EQ(ReadNpyFile(sink.bytes().substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(SafetensorsFileTest, GivesBackWhatWasWritten) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::vector<OwnedArray> arrays;
    for (const DType dtype : kAllTypes) {
      arrays.push_back(RandomArray(absl::StrCat("item/\"", arrays.size()), dtype, random));
      // Empty ones lie where the next one begins, and are read before it or after it.
      if (arrays.back().bytes.empty()) arrays.pop_back();
    }
    StringSink sink;
    ASSERT_THAT(WriteSafetensorsFile(SourcesOf(arrays), sink), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const auto got, ReadSafetensorsFile(sink.bytes()));
    ASSERT_EQ(got.size(), arrays.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(Same(got[i], arrays[i].view()));
  }
}

// What others write: with metadata, in any order, and with empty arrays between.
TEST(SafetensorsFileTest, ArraysMustTileTheRows) {
  const auto read = [](const std::string& head, const std::string& rows) {
    std::string file(8, '\0');
    file[0] = static_cast<char>(head.size());
    return ReadSafetensorsFile(file + head + rows);
  };
  PH_ASSERT_OK_AND_ASSIGN(
      const auto arrays,
      read(R"({"b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]},"__metadata__":{"k":"v"},)"
           R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
           R"("e":{"dtype":"F64","shape":[0],"data_offsets":[1,1]}})",
           "xyz"));
  ASSERT_EQ(arrays.size(), 3U);
  EXPECT_EQ(FindName(arrays, "a").bytes, "x");
  EXPECT_EQ(FindName(arrays, "b").bytes, "yz");
  EXPECT_EQ(FindName(arrays, "e").bytes, "");
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  const auto one = [&](const std::string& dtype, const std::string& offsets) {
    return read(R"({"a":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":)" + offsets + "}}",
                "xy");
  };
  EXPECT_THAT(one("I8", "[0,2]"), IsOk());
  EXPECT_THAT(one("C8", "[0,2]"), refused("array 'a': dtype 'C8' is not known"));
  EXPECT_EQ(read(R"({"a":{"dtype":"I8","shape":[9223372036854775808],"data_offsets":[0,2]}})", "xy")
                .status(),
            absl::InvalidArgumentError("array 'a': array 'a' has more than 2^63 - 1 bytes"));
  for (const std::string offsets : {"[0]", "[0,2,4]", "[2,0]", "[0,1]", "[0,3]"}) {
    EXPECT_THAT(one("I8", offsets), refused("data_offsets must be two, 2 bytes apart")) << offsets;
  }
  EXPECT_THAT(one("I8", "[1,3]"), refused("must begin at 0 and end by 2"));
  EXPECT_THAT(one("I16", "[0,4]"), refused("must begin at 0 and end by 2"));
  EXPECT_THAT(read(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                   R"("b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}})",
                   "xyz"),
              refused("array 'b' lies at [1, 3), must begin at 2"));
  StringSink none;
  EXPECT_THAT(
      WriteSafetensorsFile(
          {MadeArray<int8_t>("__metadata__", DType::kInt8, 1, [](uint64_t) { return 0; })}, none),
      refused("reserved"));
  EXPECT_EQ(WriteSafetensorsFile(
                {MadeArray<int8_t>("\xff", DType::kInt8, 1, [](uint64_t) { return 0; })}, none),
            absl::InvalidArgumentError("a name is not UTF-8"));
  EXPECT_EQ(none.bytes(), "");
}

TEST(SafetensorsFileTest, HeadIsTheFormatsAndDamageIsRefused) {
  StringSink sink;
  const ArraySource array = MadeArray<int32_t>("a", DType::kInt32, 2, [](uint64_t i) { return i; });
  ASSERT_THAT(WriteSafetensorsFile({array}, sink), IsOk());
  EXPECT_THAT(sink.bytes().substr(8),
              testing::StartsWith(R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})"));
  EXPECT_EQ((sink.bytes().size() - 8) % 8, 0U);
  for (size_t size = 0; size < sink.bytes().size(); ++size) {
    EXPECT_EQ(ReadSafetensorsFile(sink.bytes().substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
  std::string moved = sink.bytes();
  moved.replace(moved.find("[0,8]"), 5, "[1,9]");
  EXPECT_THAT(ReadSafetensorsFile(moved + "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must begin at 0")));
  EXPECT_THAT(ReadSafetensorsFile(sink.bytes() + "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("belong to no array")));
  StringSink twice;
  EXPECT_THAT(WriteSafetensorsFile({array, array}, twice),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a'")));
  EXPECT_EQ(twice.bytes(), "");
}

}  // namespace
}  // namespace packhouse
