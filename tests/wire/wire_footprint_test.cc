// What a message takes is told from its bytes: never less than it takes, and not much more.
#include "service/server/calls/wire_footprint.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "gtest/gtest.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "tests/support/random.h"

namespace {

// What operator new has given out in this thread, in chunks of malloc, and its peak.
thread_local size_t allocated = 0;
thread_local size_t peak_allocated = 0;

// Before each piece of memory, the bytes that it counts for.
constexpr size_t kNote = 16;

// The chunk of glibc's malloc for that many bytes. It gives 16 bytes more where a free chunk is too
// small to be split, which depends on all that was allocated before: this is not counted.
size_t ChunkFor(size_t bytes) {
  constexpr size_t kMapped = size_t{128} << 10;
  constexpr size_t kPage = 4096;
  if (bytes >= kMapped) return (bytes + 16 + kPage - 1) / kPage * kPage;
  return std::max<size_t>(32, (bytes + 8 + 15) / 16 * 16);
}

void* Allocate(size_t bytes) {
  auto* const memory = static_cast<char*>(std::malloc(kNote + bytes));
  if (memory == nullptr) std::abort();
  const size_t counted = ChunkFor(bytes);
  std::memcpy(memory, &counted, sizeof(counted));
  allocated += counted;
  peak_allocated = std::max(peak_allocated, allocated);
  return memory + kNote;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  char* const note = static_cast<char*>(memory) - kNote;
  size_t counted = 0;
  std::memcpy(&counted, note, sizeof(counted));
  allocated -= counted;
  std::free(note);
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr uint64_t kNoBound = uint64_t{1} << 60;

// Requests of all services, found by reflection.
std::vector<const Message*> Requests() {
  std::vector<const Message*> requests;
  for (const FileDescriptor* file :
       {v1::CreateDatasetRequest::descriptor()->file(), v1::ObserveRequest::descriptor()->file(),
        v1::LoadRequest::descriptor()->file(), v1::PackRequest::descriptor()->file(),
        v1::PlanRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        requests.push_back(MessageFactory::generated_factory()->GetPrototype(
            file->service(s)->method(m)->input_type()));
      }
    }
  }
  return requests;
}

WireFormatLite::WireType WireTypeOf(const FieldDescriptor* field) {
  return WireFormatLite::WireTypeForFieldType(
      static_cast<WireFormatLite::FieldType>(field->type()));
}

uint32_t TagOf(int number, WireFormatLite::WireType type) {
  return WireFormatLite::MakeTag(number, type);
}

// Writes wire bytes into a string.
class WireWriter {
 public:
  void Tag(int number, WireFormatLite::WireType type) { out_.WriteTag(TagOf(number, type)); }
  void Varint(uint64_t value) { out_.WriteVarint64(value); }
  void Fixed32(uint32_t value) { out_.WriteLittleEndian32(value); }
  void Fixed64(uint64_t value) { out_.WriteLittleEndian64(value); }
  void Bytes(const std::string& bytes) {
    Varint(bytes.size());
    out_.WriteString(bytes);
  }
  std::string Take() {
    out_.Trim();
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  StringOutputStream stream_{&bytes_};
  CodedOutputStream out_{&stream_};
};

uint64_t RandomInteger(Random& random) { return random.Next() >> random.Below(64); }

std::string RandomText(Random& random) {
  return std::string(random.Below(3) == 0 ? random.Below(2000) : random.Below(20), 'x');
}

// A value of a wire type, of whatever field.
void WriteAny(Random& random, WireFormatLite::WireType type, int number, WireWriter& writer);

// The bytes of a message with random fields. `strangeness` of 16 fields are unknown, or of another
// wire type than they should be.
std::string RandomWire(Random& random, const Descriptor* descriptor, int depth,
                       uint64_t strangeness) {
  WireWriter writer;
  const uint64_t num_fields = random.Below(depth == 0 ? 12 : 6);
  for (uint64_t f = 0; f < num_fields; ++f) {
    if (random.Below(16) < strangeness || descriptor->field_count() == 0) {
      constexpr WireFormatLite::WireType kTypes[] = {
          WireFormatLite::WIRETYPE_VARINT, WireFormatLite::WIRETYPE_FIXED64,
          WireFormatLite::WIRETYPE_LENGTH_DELIMITED, WireFormatLite::WIRETYPE_START_GROUP,
          WireFormatLite::WIRETYPE_FIXED32};
      const int number = static_cast<int>(random.Below(8) == 0 ? random.Between(1, 1u << 28)
                                                               : random.Between(1, 20));
      WriteAny(random, kTypes[random.Below(5)], number, writer);
      continue;
    }
    const FieldDescriptor* const field =
        descriptor->field(static_cast<int>(random.Below(descriptor->field_count())));
    const uint64_t times = field->is_repeated() ? random.Below(30) : 1;
    for (uint64_t t = 0; t < times; ++t) {
      if (field->message_type() != nullptr) {
        if (depth > 6) continue;
        writer.Tag(field->number(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
        writer.Bytes(RandomWire(random, field->message_type(), depth + 1, strangeness));
      } else if (field->is_packable() && random.Below(2) == 0) {
        WireWriter packed;
        for (uint64_t i = random.Below(300); i != 0; --i) {
          switch (WireTypeOf(field)) {
            case WireFormatLite::WIRETYPE_FIXED32:
              packed.Fixed32(0);
              break;
            case WireFormatLite::WIRETYPE_FIXED64:
              packed.Fixed64(0);
              break;
            default:
              packed.Varint(RandomInteger(random));
          }
        }
        writer.Tag(field->number(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
        writer.Bytes(packed.Take());
      } else {
        WriteAny(random, WireTypeOf(field), field->number(), writer);
      }
    }
  }
  return writer.Take();
}

void WriteAny(Random& random, WireFormatLite::WireType type, int number, WireWriter& writer) {
  writer.Tag(number, type);
  switch (type) {
    case WireFormatLite::WIRETYPE_VARINT:
      writer.Varint(RandomInteger(random));
      break;
    case WireFormatLite::WIRETYPE_FIXED32:
      writer.Fixed32(7);
      break;
    case WireFormatLite::WIRETYPE_FIXED64:
      writer.Fixed64(7);
      break;
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
      // As a message this is malformed, or not.
      writer.Bytes(random.Below(4) == 0 ? RandomText(random) : "");
      break;
    default:
      for (uint64_t i = random.Below(4); i != 0; --i) {
        WriteAny(random, WireFormatLite::WIRETYPE_VARINT, static_cast<int>(random.Between(1, 99)),
                 writer);
      }
      writer.Tag(number, WireFormatLite::WIRETYPE_END_GROUP);
  }
}

// For messages of failed tests.
std::string Shown(const Message& message) { return message.ShortDebugString().substr(0, 500); }

// In pieces, as they come from the network.
struct Pieces {
  ArrayInputStream stream;
  Pieces(const std::string& bytes, int block_bytes)
      : stream(bytes.data(), static_cast<int>(bytes.size()), block_bytes) {}
};

class WireFootprintTest : public testing::Test {
 protected:
  // Measures and parses, and holds the one against the other. Returns whether the bytes are a
  // message.
  bool Check(const FootprintTable& table, const Message& prototype, const std::string& bytes,
             int block_bytes) {
    Pieces to_measure(bytes, block_bytes);
    const auto measured = table.Measure(&to_measure.stream, bytes.size(), kNoBound);
    Pieces to_parse(bytes, block_bytes);
    const size_t before = allocated;
    peak_allocated = before;
    std::unique_ptr<Message> message(prototype.New());
    const bool parsed = message->ParseFromZeroCopyStream(&to_parse.stream);
    const size_t peak = peak_allocated - before;
    if (!parsed) return false;
    EXPECT_TRUE(measured.ok()) << Shown(*message);
    if (!measured.ok()) return true;
    EXPECT_GE(measured->bytes, peak) << Shown(*message);
    EXPECT_GE(measured->bytes, message->SpaceUsedLong());
    std::unique_ptr<Message> known(message->New());
    known->CopyFrom(*message);
    known->DiscardUnknownFields();
    if (known->ByteSizeLong() != message->ByteSizeLong()) {
      EXPECT_NE(measured->unknown_bytes, 0U) << Shown(*message);
    }
    message->DiscardUnknownFields();
    EXPECT_GE(measured->bytes - measured->unknown_bytes, message->SpaceUsedLong());
    return true;
  }
};

TEST_F(WireFootprintTest, IsNeverLessThanWhatParsingTakes) {
  int num_messages = 0;
  for (const Message* prototype : Requests()) {
    SCOPED_TRACE(prototype->GetTypeName());
    const FootprintTable table(*prototype);
    for (uint64_t seed = 0; seed < 400; ++seed) {
      SCOPED_TRACE(seed);
      Random random(seed);
      const std::string bytes =
          RandomWire(random, prototype->GetDescriptor(), 0, seed % 3 == 0 ? 0 : 3);
      num_messages += Check(table, *prototype, bytes, 1 + static_cast<int>(random.Below(100)));
      // Bytes that are cut or changed are a message, or not, to both alike.
      std::string damaged = bytes.substr(0, random.Below(bytes.size() + 1));
      if (!damaged.empty())
        damaged[random.Below(damaged.size())] = static_cast<char>(random.Next());
      Check(table, *prototype, damaged, 4096);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(num_messages, 4000);
}

// A message whose strings are longer than protobuf believes at once.
TEST_F(WireFootprintTest, CountsLongStringsThatGrow) {
  v1::PackRequest request;
  request.mutable_graphs()->add_tensors()->mutable_data()->resize(60'000'000);
  const FootprintTable table(request);
  EXPECT_TRUE(Check(table, request, request.SerializeAsString(), 8192));
}

// To the byte: chunks of the allocator, and what arrays take while they grow.
TEST_F(WireFootprintTest, IsTheSumOfItsParts) {
  const auto measure = [](const Message& message, const std::string& unknown = "") {
    const std::string bytes = message.SerializeAsString() + unknown;
    Pieces pieces(bytes, 8192);
    return *FootprintTable(message).Measure(&pieces.stream, bytes.size(), kNoBound);
  };
  v1::AcknowledgeRequest request;
  const uint64_t empty = measure(request).bytes;
  EXPECT_EQ(empty, ChunkFor(request.SpaceUsedLong()) + 16);
  // Those that have room in the object, and those that get at least twice as much. Large ones may
  // take a page more, and very large ones grow.
  constexpr size_t kMapped = size_t{128} << 10;
  const std::pair<size_t, size_t> strings[] = {{1, 0},
                                               {15, 0},
                                               {16, 48},
                                               {30, 48},
                                               {39, 48},
                                               {40, 64},
                                               {1000, 1024},
                                               {kMapped - 2, kMapped + 16},
                                               {kMapped - 1, kMapped + 16 + 4096},
                                               {60'000'000, 100'000'016 + 50'000'016 + 2 * 4096}};
  for (const auto& [length, characters] : strings) {
    request.set_job(std::string(length, 'j'));
    EXPECT_EQ(measure(request).bytes, empty + 48 + characters) << length;
  }
  // Numbers: the first ones have room for two, and half of the rest may be empty.
  for (const uint64_t number : {1, 2, 3, 1000, 8191, 8192}) {
    request = v1::AcknowledgeRequest();
    for (uint64_t i = 0; i < number; ++i) request.add_batches(1);
    EXPECT_EQ(measure(request).bytes,
              empty + 32 + 16 * (number - 1) + 8 * number + (number < 8192 ? 0 : 2 * 4096))
        << number;
  }
  v1::PlanRequest plan;
  const uint64_t of_plan = measure(plan).bytes;
  for (uint64_t i = 1; i <= 3; ++i) {
    plan.mutable_warm_start()->add_patterns();
    EXPECT_EQ(measure(plan).bytes, of_plan + ChunkFor(v1::PackingPlan().SpaceUsedLong()) +
                                       i * ChunkFor(v1::Pattern().SpaceUsedLong()) + 32 +
                                       16 * (i - 1) + 8 * i);
  }
  // Unknown numbers, and a text of 3 characters. The first has the set made.
  const std::string unknown("\xf8\x07\x01\xfa\x07\x03xyz", 9);
  request = v1::AcknowledgeRequest();
  const std::pair<size_t, uint64_t> unknowns[] = {{3, 128}, {9, 128 + 48 + 48}};
  for (const auto& [num_bytes, bytes] : unknowns) {
    const WireFootprint measured = measure(request, unknown.substr(0, num_bytes));
    EXPECT_EQ(measured.bytes, empty + bytes) << num_bytes;
    // But for the array, which is everybody's.
    EXPECT_EQ(measured.unknown_bytes, bytes - (num_bytes == 3 ? 16 : 32)) << num_bytes;
  }
}

// Nobody is refused, or charged, for what the message does not take.
TEST_F(WireFootprintTest, IsLessThanThreeTimesWhatParsingTakes) {
  v1::PackRequest chunk;
  chunk.mutable_graphs()->mutable_sizes()->set_counts(std::string(8'000, 'c'));
  for (int t = 0; t < 8; ++t) {
    v1::TensorData& tensor = *chunk.mutable_graphs()->add_tensors();
    tensor.set_name(absl::StrCat("tensor ", t));
    tensor.set_data(std::string(10'000 * t, 'd'));
  }
  v1::PlanRequest plan;
  for (uint32_t p = 0; p < 5'000; ++p) {
    v1::Pattern& pattern = *plan.mutable_warm_start()->add_patterns();
    pattern.set_repeats(p);
    for (uint32_t e = 0; e < 1 + p % 4; ++e) pattern.add_entries()->set_tuple(p + e);
  }
  v1::AcknowledgeRequest acknowledge;
  for (uint64_t b = 0; b < 3'000; ++b) acknowledge.add_batches(1'000'000 + b);
  for (const Message* message : std::vector<const Message*>{&chunk, &plan, &acknowledge}) {
    const std::string bytes = message->SerializeAsString();
    const FootprintTable table(*message);
    EXPECT_TRUE(Check(table, *message, bytes, 8192));
    const size_t before = allocated;
    std::unique_ptr<Message> parsed(message->New());
    ASSERT_TRUE(parsed->ParseFromString(bytes));
    const size_t taken = allocated - before;
    Pieces pieces(bytes, 8192);
    EXPECT_LT(table.Measure(&pieces.stream, bytes.size(), kNoBound)->bytes, 3 * taken)
        << message->GetTypeName();
  }
}

// A plan for many sizes may be started from.
TEST_F(WireFootprintTest, APlanForManySizesIsWithinItsBound) {
  v1::PlanRequest request;
  v1::PackingPlan& plan = *request.mutable_warm_start();
  for (uint32_t p = 0; p < 100'000; ++p) {
    v1::Pattern& pattern = *plan.add_patterns();
    pattern.set_repeats(1 + p % 3);
    for (const uint32_t tuple : {p, 2 * p}) {
      v1::PatternEntry& entry = *pattern.add_entries();
      entry.set_tuple(tuple);
      entry.set_copies(1);
    }
  }
  plan.set_tuples(std::string(100'000 * 8, 't'));
  const std::string bytes = request.SerializeAsString();
  const FootprintTable table(request);
  Pieces pieces(bytes, 8192);
  const auto measured = table.Measure(&pieces.stream, bytes.size(), kNoBound);
  EXPECT_LE(measured->bytes, MostFootprint(bytes.size(), kFootprintTimesOf<v1::PlanRequest>));
  EXPECT_GT(measured->bytes, MostFootprint(bytes.size())) << "the bound of others would do";
}

// All ways from a request to a repeated field, or to one that holds others.
void ForEachRepeated(const Descriptor* descriptor, std::vector<const FieldDescriptor*>& way,
                     std::set<const Descriptor*>& above,
                     const std::function<void(const std::vector<const FieldDescriptor*>&)>& visit) {
  if (!above.insert(descriptor).second) return;
  for (int f = 0; f < descriptor->field_count(); ++f) {
    const FieldDescriptor* const field = descriptor->field(f);
    way.push_back(field);
    if (field->is_repeated()) visit(way);
    if (field->message_type() != nullptr) ForEachRepeated(field->message_type(), way, above, visit);
    way.pop_back();
  }
  above.erase(descriptor);
}

// `value` wrapped in the fields of `way` from the inside to the outside, without the innermost.
std::string Wrapped(const std::vector<const FieldDescriptor*>& way, std::string value) {
  for (size_t i = way.size() - 1; i-- > 0;) {
    WireWriter writer;
    writer.Tag(way[i]->number(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    writer.Bytes(value);
    value = writer.Take();
  }
  return value;
}

// Whatever field of whatever request is repeated: mebibytes of empty elements are refused, and the
// field is named.
TEST_F(WireFootprintTest, ExceedsTheBoundForAnyFieldOfEmptyElements) {
  constexpr size_t kBytes = 2 << 20;
  int num_fields = 0;
  for (const Message* prototype : Requests()) {
    const FootprintTable table(*prototype);
    std::vector<const FieldDescriptor*> way;
    std::set<const Descriptor*> above;
    ForEachRepeated(prototype->GetDescriptor(), way, above, [&](const auto& fields) {
      const FieldDescriptor* const field = fields.back();
      SCOPED_TRACE(absl::StrCat(prototype->GetTypeName(), " ", std::string(field->full_name())));
      WireWriter writer;
      writer.Tag(field->number(), WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
      std::string value;
      if (field->is_packable()) {
        writer.Bytes(std::string(kBytes, '\1'));
        value = writer.Take();
      } else {
        writer.Varint(0);
        const std::string element = writer.Take();
        while (value.size() < kBytes) value += element;
      }
      const std::string bytes = Wrapped(fields, std::move(value));
      const uint64_t most = MostFootprint(bytes.size());
      Pieces to_measure(bytes, 8192);
      const size_t before = allocated;
      peak_allocated = before;
      const auto measured = table.Measure(&to_measure.stream, bytes.size(), most);
      EXPECT_EQ(peak_allocated, before) << "measuring takes memory";
      ASSERT_TRUE(measured.ok());
      EXPECT_GT(measured->bytes, most);
      EXPECT_LT(measured->bytes, most + (1 << 20)) << "was not stopped";
      Pieces to_name(bytes, 8192);
      EXPECT_THAT(table.LargestField(&to_name.stream, bytes.size(), most),
                  testing::HasSubstr(std::string(field->full_name()) + " occurs "));
      ++num_fields;
    });
  }
  EXPECT_GT(num_fields, 30);
}

TEST_F(WireFootprintTest, ExceedsTheBoundForUnknownFields) {
  std::string bytes;
  while (bytes.size() < 1 << 20) bytes += std::string("\xf8\x07\x01", 3);  // Field 127: 1.
  const FootprintTable table(v1::PackRequest::default_instance());
  const uint64_t most = MostFootprint(bytes.size());
  Pieces to_measure(bytes, 8192);
  EXPECT_GT(table.Measure(&to_measure.stream, bytes.size(), most)->bytes, most);
  Pieces to_name(bytes, 8192);
  EXPECT_THAT(table.LargestField(&to_name.stream, bytes.size(), most),
              testing::HasSubstr("fields that are not of the message occur "));
}

// Deeper than protobuf follows.
TEST_F(WireFootprintTest, RefusesDeepGroups) {
  const FootprintTable table(v1::PackRequest::default_instance());
  for (const size_t depth : {50, 99, 100, 101, 102, 100'000}) {
    const std::string bytes = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    Pieces pieces(bytes, 8192);
    v1::PackRequest request;
    EXPECT_EQ(table.Measure(&pieces.stream, bytes.size(), kNoBound).ok(),
              request.ParseFromString(bytes))
        << depth;
  }
}

TEST_F(WireFootprintTest, RefusesALengthBeyondTheEnd) {
  const FootprintTable table(v1::PackRequest::default_instance());
  for (const std::string bytes : {"\x12", "\x12\xff\xff\xff\xff\x07", "\x12\x05", "\x7a\x01"}) {
    Pieces pieces(bytes, 8192);
    EXPECT_EQ(table.Measure(&pieces.stream, bytes.size(), kNoBound).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace packhouse
