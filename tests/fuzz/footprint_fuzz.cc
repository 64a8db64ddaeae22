// A message's footprint, told from its bytes, is never below what parsing them takes; and what
// protobuf parses is never called malformed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "service/server/calls/wire_footprint.h"

namespace packhouse {
namespace {

using google::protobuf::io::ArrayInputStream;

void Require(bool holds) {
  if (!holds) std::abort();
}

template <typename Message>
void Check(const uint8_t* data, int size, int block_bytes) {
  ArrayInputStream to_measure(data, size, block_bytes);
  const auto measured = FootprintTableOf<Message>().Measure(&to_measure, size, UINT64_MAX);
  ArrayInputStream to_parse(data, size, block_bytes);
  Message message;
  if (!message.ParseFromZeroCopyStream(&to_parse)) return;
  Require(measured.ok());
  Require(measured->bytes >= message.SpaceUsedLong());
  message.DiscardUnknownFields();
  Require(measured->bytes - measured->unknown_bytes >= message.SpaceUsedLong());
}

}  // namespace
}  // namespace packhouse

// The first byte chooses the message, the second how it is cut into pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace packhouse;  // NOLINT(google-build-using-namespace)
  if (size < 2) return 0;
  const int block_bytes = 1 + data[1];
  const uint8_t* const bytes = data + 2;
  const int length = static_cast<int>(size - 2);
  switch (data[0] % 7) {
    case 0:
      Check<v1::PackRequest>(bytes, length, block_bytes);
      break;
    case 1:
      Check<v1::ObserveRequest>(bytes, length, block_bytes);
      break;
    case 2:
      Check<v1::PlanRequest>(bytes, length, block_bytes);
      break;
    case 3:
      Check<v1::LoadRequest>(bytes, length, block_bytes);
      break;
    case 4:
      Check<v1::AcknowledgeRequest>(bytes, length, block_bytes);
      break;
    case 5:
      Check<v1::AppendRequest>(bytes, length, block_bytes);
      break;
    default:
      Check<v1::CreateDatasetRequest>(bytes, length, block_bytes);
  }
  return 0;
}
