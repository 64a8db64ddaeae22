#include "client/cpp/lane_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"
#include "client/cpp/lane_writer.h"
#include "client/cpp/loader.h"
#include "client/cpp/pack_stream.h"
#include "client/cpp/schema_layout.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kNumSlots = 4;
constexpr uint64_t kSlotBytes = 4096;
constexpr uint32_t kByGrpc = UINT32_MAX;
constexpr int kMostTries = 16;

template <typename... T>
std::string Packed(T... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

void CheckOk(bool is_ok) {
  if (!is_ok) std::abort();
}

// What a server says of its lane, and what is so.
struct LaneTerms {
  // So many connections are closed before, with their tokens unread.
  int num_unread = 0;
  bool knows_token = true;
  std::string magic = "PHL1";
  uint32_t num_slots = kNumSlots;
  uint64_t slot_bytes = kSlotBytes;
  uint64_t num_before = 1;
  std::string behind = "";
  bool passes_memory = true;
  uint64_t memory_bytes = kNumSlots * kSlotBytes;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
};

// The server's end (docs/lane.md), for one client.
class LaneServer {
 public:
  explicit LaneServer(LaneTerms terms = {}) : terms_(std::move(terms)) {
    listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    CheckOk(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    CheckOk(::listen(listener_, 1) == 0);
    thread_ = std::thread([this] {
      for (int i = 0; i < terms_.num_unread; ++i) {
        ::close(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      }
      if (terms_.num_unread < kMostTries) Take();
    });
  }
  ~LaneServer() {
    // For a client that does not come.
    ::shutdown(listener_, SHUT_RDWR);
    Await();
    Close();
    ::close(listener_);
  }
  LaneServer(const LaneServer&) = delete;
  LaneServer& operator=(const LaneServer&) = delete;

  v1::Lane offer() const {
    v1::Lane offer;
    offer.set_socket_path(path_);
    offer.set_token("0123456789abcdef");
    return offer;
  }
  // Until the client has come.
  void Await() {
    if (thread_.joinable()) thread_.join();
  }
  void Say(uint32_t slot, uint64_t size = 0, uint32_t offset = 0) const {
    Send(Packed(slot, offset, size));
  }
  void Send(const std::string& message) const {
    CheckOk(::send(connection_, message.data(), message.size(), MSG_NOSIGNAL) > 0);
  }
  // The slots of the next message of the client; none: there is none.
  std::vector<uint32_t> Released() const {
    std::vector<uint32_t> slots(64);
    const ssize_t bytes = ::recv(connection_, slots.data(), slots.size() * 4, MSG_DONTWAIT);
    slots.resize(static_cast<size_t>(bytes < 0 ? 0 : bytes) / 4);
    return slots;
  }
  void Overwrite(uint32_t slot, absl::string_view bytes, uint64_t offset = 0) const {
    CheckOk(::pwrite(memory_, bytes.data(), bytes.size(),
                     static_cast<off_t>(slot * terms_.slot_bytes + offset)) > 0);
  }
  std::string Bytes(uint32_t slot, uint64_t size) const {
    std::string bytes(size, '\0');
    CheckOk(::pread(memory_, bytes.data(), size, static_cast<off_t>(slot * terms_.slot_bytes)) > 0);
    return bytes;
  }
  void Write(uint32_t slot, absl::string_view bytes) const {
    Overwrite(slot, bytes);
    Say(slot, bytes.size());
  }
  // The connection alone; what was sent is read.
  void Shut() const { ::shutdown(connection_, SHUT_RDWR); }
  // As the system does when a process is killed: what was not read resets the connection.
  void Close() {
    if (connection_ >= 0) ::close(connection_);
    if (memory_ >= 0) ::close(memory_);
    connection_ = memory_ = -1;
  }

 private:
  void Take() {
    connection_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection_ < 0) return;
    std::array<char, 64> hello;
    CheckOk(::recv(connection_, hello.data(), hello.size(), 0) == 20);
    CheckOk(absl::string_view(hello.data(), 20) == "PHL10123456789abcdef");
    if (!terms_.knows_token) return Close();
    memory_ = ::memfd_create("slots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CheckOk(::ftruncate(memory_, static_cast<off_t>(terms_.memory_bytes)) == 0);
    CheckOk(::fcntl(memory_, F_ADD_SEALS, terms_.seals) == 0);
    const std::string answer =
        absl::StrCat(terms_.magic, Packed(terms_.num_slots, terms_.slot_bytes, terms_.num_before),
                     terms_.behind);
    iovec part = {const_cast<char*>(answer.data()), answer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (terms_.passes_memory) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* const passed = CMSG_FIRSTHDR(&header);
      passed->cmsg_level = SOL_SOCKET;
      passed->cmsg_type = SCM_RIGHTS;
      passed->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(passed), &memory_, sizeof(memory_));
    }
    CheckOk(::sendmsg(connection_, &header, 0) == static_cast<ssize_t>(answer.size()));
  }

  const LaneTerms terms_;
  const TemporaryFolder folder_;
  const std::string path_ = absl::StrCat(folder_.path(), "/lane");
  int listener_ = -1;
  int connection_ = -1;
  int memory_ = -1;
  std::thread thread_;
};

TEST(LaneReaderTest, WhoIsClosedForOthersShowsItsTokenAgain) {
  for (const int num_unread : {1, kMostTries - 1, kMostTries}) {
    LaneServer server(LaneTerms{.num_unread = num_unread});
    const auto reader = LaneReader::Open(server.offer(), absl::InfiniteDuration());
    if (num_unread == kMostTries) {
      EXPECT_THAT(reader, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lane")));
      continue;
    }
    ASSERT_THAT(reader, IsOk());
    server.Await();
    server.Write(0, "one");
    EXPECT_EQ((*reader)->Take().response, "one");
  }
}

TEST(LaneReaderTest, WhatIsOtherwiseThanAServerMaySayIsRefused) {
  const auto opened = [](LaneTerms terms) {
    const LaneServer server(std::move(terms));
    return LaneReader::Open(server.offer(), absl::InfiniteDuration()).status();
  };
  const absl::Status unknown =
      absl::UnavailableError("lane: the server answers otherwise than this client knows");
  const absl::Status memory = absl::UnavailableError("lane: the server's memory is not as it says");
  EXPECT_THAT(opened({}), IsOk());
  EXPECT_EQ(opened({.knows_token = false}),
            absl::NotFoundError("lane: the server does not know the token"));
  EXPECT_EQ(opened({.magic = "PHL2"}), unknown);
  EXPECT_EQ(opened({.magic = "PHL"}), unknown);
  EXPECT_EQ(opened({.behind = "x"}), unknown);
  EXPECT_EQ(opened({.passes_memory = false}), unknown);
  EXPECT_EQ(opened({.num_slots = 0}), memory);
  EXPECT_EQ(opened({.num_slots = kNumSlots + 1}), memory);
  EXPECT_EQ(opened({.slot_bytes = 0}), memory);
  EXPECT_EQ(opened({.slot_bytes = kSlotBytes + 1}), memory);
  EXPECT_EQ(opened({.memory_bytes = kNumSlots * kSlotBytes - 1}), memory);
  EXPECT_THAT(opened({.memory_bytes = kNumSlots * kSlotBytes + 1}), IsOk());
  EXPECT_EQ(opened({.seals = F_SEAL_GROW}), memory);
  EXPECT_THAT(opened({.seals = F_SEAL_SHRINK}), IsOk());
  v1::Lane offer;
  EXPECT_EQ(
      LaneReader::Open(offer, absl::InfiniteDuration()).status(),
      absl::FailedPreconditionError("lane: the server offers none: it does not know of lanes"));
  offer.set_refusal("not to you");
  for (const size_t size : {0, 108}) {
    offer.set_socket_path(std::string(size, 'x'));
    EXPECT_EQ(LaneReader::Open(offer, absl::InfiniteDuration()).status(),
              absl::FailedPreconditionError("lane: the server offers none: not to you"));
  }
}

TEST(LaneReaderTest, MessagesThatPointOutsideTheirSlotsEndTheLane) {
  LaneServer server;
  PH_ASSERT_OK_AND_ASSIGN(auto reader, LaneReader::Open(server.offer(), absl::InfiniteDuration()));
  server.Await();
  EXPECT_EQ(reader->num_before(), 1);
  struct Case {
    uint32_t slot;
    uint32_t offset;
    uint64_t size;
    bool is_inside;
  };
  for (const auto& [slot, offset, size, is_inside] :
       {Case{kNumSlots - 1, 64, kSlotBytes - 64, true}, Case{kNumSlots, 0, 1, false},
        Case{0, 64, kSlotBytes - 63, false}, Case{0, kSlotBytes, 0, true},
        Case{0, kSlotBytes + 1, 0, false}, Case{1, 0, kSlotBytes, true},
        Case{1, 0, kSlotBytes + 1, false}, Case{1, 1, UINT64_MAX, false}}) {
    SCOPED_TRACE(testing::Message() << slot << " " << offset << " " << size);
    const std::string bytes(is_inside ? size : 0, static_cast<char>('a' + slot));
    if (!bytes.empty()) server.Overwrite(slot, bytes, offset);
    server.Say(slot, size, offset);
    const LaneMessage message = reader->Take();
    EXPECT_EQ(message.kind, is_inside ? LaneMessage::Kind::kBatch : LaneMessage::Kind::kEnd);
    EXPECT_EQ(message.response, bytes);
  }
  for (const size_t size : {15, 17}) {
    server.Send(std::string(size, '\0'));
    // Of a longer one the begin is a message.
    EXPECT_EQ(reader->Take().kind, size < 16 ? LaneMessage::Kind::kEnd : LaneMessage::Kind::kBatch);
  }
}

// All but two slots are held where they are; what comes beyond them is copied, as aligned as it
// was. Several slots are given back at once, and before a wait each is.
TEST(LaneReaderTest, SlotsAreHeldOrCopiedAndGivenBack) {
  LaneServer server({.num_slots = 8, .memory_bytes = 8 * kSlotBytes});
  PH_ASSERT_OK_AND_ASSIGN(auto reader, LaneReader::Open(server.offer(), absl::Milliseconds(1)));
  server.Await();
  std::vector<LaneMessage> messages;
  for (uint32_t slot = 0; slot < 8; ++slot) {
    EXPECT_THAT(server.Released(), testing::IsEmpty());
    const uint32_t offset = slot == 7 ? 40 : 0;
    server.Overwrite(slot, "first", offset);
    server.Say(slot, 5, offset);
    messages.push_back(reader->Take());
    server.Overwrite(slot, "later", offset);
    EXPECT_EQ(messages.back().response, slot < 6 ? "later" : "first") << slot;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(messages.back().response.data()) % 64, offset);
  }
  EXPECT_THAT(server.Released(), ElementsAre(6, 7));
  messages[3] = {};
  EXPECT_THAT(server.Released(), testing::IsEmpty());
  EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kQuiet);
  EXPECT_THAT(server.Released(), ElementsAre(3));
  messages[0] = {};
  EXPECT_THAT(server.Released(), testing::IsEmpty());
  messages[5] = {};
  EXPECT_THAT(server.Released(), ElementsAre(0, 5));
  // There is room again.
  server.Write(3, "third");
  const LaneMessage again = reader->Take();
  server.Overwrite(3, "third and later");
  EXPECT_EQ(again.response.data()[5], ' ');
}

v1::GraphSchema SchemaOfRows() {
  v1::GraphSchema schema;
  schema.add_components("n");
  for (const auto& [name, component] : {std::pair("x", "n"), std::pair("y", "graphs")}) {
    v1::TensorSpec& tensor = *schema.add_tensors();
    tensor.set_name(name);
    tensor.set_dtype(v1::DATA_TYPE_INT16);
    tensor.set_component(component);
  }
  return schema;
}

v1::GraphChunk ChunkOfRows(uint32_t first, uint32_t second) {
  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(2);
  chunk.mutable_sizes()->set_counts(Packed(first, second));
  for (const char* const name : {"x", "y"}) chunk.add_tensors()->set_name(name);
  chunk.mutable_tensors(0)->set_data(std::string(2 * (first + second), 'x'));
  chunk.mutable_tensors(1)->set_data("yyYY");
  return chunk;
}

TEST(LaneWriterTest, AChunkIsPlacedIfItFitsASlotAndIsWorthOne) {
  constexpr uint64_t kBytes = 1 << 16;
  const LaneTerms terms = {.num_slots = 3, .slot_bytes = kBytes, .memory_bytes = 3 * kBytes};
  {
    v1::GraphSchema schema = SchemaOfRows();
    schema.mutable_tensors()->RemoveLast();
    LaneServer server(terms);
    PH_ASSERT_OK_AND_ASSIGN(const auto writer,
                            LaneWriter::Open(server.offer(), ResolveSchema(schema).value()));
    server.Await();
    server.Say(1);
    server.Say(2);
    const auto placed = [&](uint32_t rows) {
      v1::GraphChunk chunk = ChunkOfRows(rows - 5, 5);
      chunk.mutable_tensors()->RemoveLast();
      return writer->Place(chunk);
    };
    EXPECT_EQ(placed((16 << 10) / 2 - 1), std::nullopt);
    EXPECT_EQ(placed((16 << 10) / 2), 1);
    EXPECT_EQ(placed(kBytes / 2 + 1), std::nullopt);
    EXPECT_EQ(placed(kBytes / 2), 2);
  }
  LaneServer server(terms);
  PH_ASSERT_OK_AND_ASSIGN(const auto writer,
                          LaneWriter::Open(server.offer(), ResolveSchema(SchemaOfRows()).value()));
  server.Await();
  server.Say(2);
  server.Say(0);
  // Columns begin at multiples of 64, whatever their order in the chunk.
  v1::GraphChunk gap = ChunkOfRows(8160, 17);
  gap.mutable_tensors()->SwapElements(0, 1);
  EXPECT_EQ(writer->Place(gap), 2);
  EXPECT_EQ(server.Bytes(2, 16388),
            absl::StrCat(gap.tensors(1).data(), std::string(30, '\0'), "yyYY"));
  EXPECT_EQ(writer->Place(ChunkOfRows(32736, 1)), std::nullopt);
  const v1::GraphChunk most = ChunkOfRows(32730, 6);
  EXPECT_EQ(writer->Place(most), 0);
  EXPECT_EQ(server.Bytes(0, 65476), absl::StrCat(most.tensors(0).data(), "yyYY"));
  // What is not as the schema says takes no slot.
  server.Say(1);
  using Change = void (*)(v1::GraphChunk&);
  for (const Change change :
       {Change([](auto& c) { c.mutable_sizes()->mutable_counts()->push_back('x'); }),
        Change([](auto& c) { c.mutable_sizes()->set_num_graphs(1); }),
        Change([](auto& c) { c.mutable_tensors()->RemoveLast(); }),
        Change([](auto& c) { c.add_tensors(); }),
        Change([](auto& c) { c.mutable_tensors(1)->set_name("z"); }),
        Change([](auto& c) { c.mutable_tensors(0)->mutable_data()->push_back('x'); }),
        Change([](auto& c) { c.mutable_tensors(0)->mutable_data()->append("xx"); }),
        Change([](auto& c) { c.mutable_tensors(1)->mutable_data()->resize(2); })}) {
    v1::GraphChunk changed = most;
    change(changed);
    EXPECT_EQ(writer->Place(changed), std::nullopt);
  }
  EXPECT_EQ(writer->Place(most), 1);
  // One that there is not, and none any more.
  server.Say(3);
  EXPECT_EQ(writer->Place(most), std::nullopt);
  server.Shut();
  EXPECT_EQ(writer->Place(most), std::nullopt);
}

// A killed server leaves its socket's file.
TEST(LaneReaderTest, AServerThatHasGoneIsNoOtherHost) {
  const TemporaryFolder folder;
  v1::Lane offer;
  offer.set_socket_path(absl::StrCat(folder.path(), "/lane"));
  offer.set_token("token");
  EXPECT_THAT(
      LaneReader::Open(offer, absl::InfiniteDuration()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the server is on another host")));
  const int gone = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  offer.socket_path().copy(address.sun_path, offer.socket_path().size());
  ASSERT_EQ(::bind(gone, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(gone);
  EXPECT_THAT(LaneReader::Open(offer, absl::InfiniteDuration()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the server has gone")));
}

TEST(LaneReaderTest, OfAServerThatSaysNothingItIsSaid) {
  LaneServer server;
  PH_ASSERT_OK_AND_ASSIGN(auto reader, LaneReader::Open(server.offer(), absl::Milliseconds(1)));
  server.Await();
  for (const char* text : {"one", "two"}) {
    EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kQuiet);
    server.Write(text[0] == 'o' ? 0 : 1, text);
    EXPECT_EQ(reader->Take().response, text);
  }
}

TEST(LaneReaderTest, AllThatAKilledServerHadSentIsRead) {
  for (const bool waits : {false, true}) {
    LaneServer server;
    PH_ASSERT_OK_AND_ASSIGN(auto reader,
                            LaneReader::Open(server.offer(), absl::InfiniteDuration()));
    server.Await();
    for (const char* text : {"one", "two"}) server.Write(text[0] == 'o' ? 0 : 1, text);
    server.Say(kByGrpc);
    EXPECT_EQ(reader->Take().response, "one");
    std::thread killer;
    if (waits) {
      EXPECT_EQ(reader->Take().response, "two");
      EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kByGrpc);
      killer = std::thread([&] { server.Close(); });
    } else {
      server.Close();
      EXPECT_EQ(reader->Take().response, "two");
      EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kByGrpc);
    }
    EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kEnd);
    EXPECT_EQ(reader->Take().kind, LaneMessage::Kind::kEnd);
    if (killer.joinable()) killer.join();
  }
}

// Whatever number of lanes there is: a child keeps what is held, and the rest is its parent's.
TEST(LaneReaderTest, AForkedChildKeepsWhatIsHeldAndTakesNothing) {
  struct Held {
    LaneServer server;
    std::unique_ptr<LaneReader> reader;
    LaneMessage message;
    std::string bytes;
  };
  std::vector<std::unique_ptr<Held>> lanes;
  for (const size_t num_lanes : {1, 3, 5, 9, 20, 33}) {
    SCOPED_TRACE(testing::Message() << num_lanes << " lanes");
    while (lanes.size() < num_lanes) {
      auto lane = std::make_unique<Held>();
      PH_ASSERT_OK_AND_ASSIGN(lane->reader,
                              LaneReader::Open(lane->server.offer(), absl::InfiniteDuration()));
      lane->server.Await();
      lane->bytes = std::string(64 * lanes.size() + 1, static_cast<char>('a' + lanes.size() % 26));
      lane->server.Write(1, lane->bytes);
      lane->message = lane->reader->Take();
      lanes.push_back(std::move(lane));
    }
    for (const auto& lane : lanes) lane->server.Write(2, "next");
    const pid_t child = ::fork();
    if (child == 0) {
      bool is_right = true;
      for (const auto& lane : lanes) {
        // As the server may, in memory that is its own and the parent's.
        lane->server.Overwrite(1, "?");
        is_right = is_right && lane->message.response == lane->bytes &&
                   lane->reader->Take().kind == LaneMessage::Kind::kEnd;
        lane->reader->Cancel();
        lane->message = {};
        lane->reader = nullptr;
      }
      ::_exit(is_right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (const auto& lane : lanes) {
      EXPECT_EQ(lane->message.response.substr(0, 1), "?");
      EXPECT_EQ(lane->reader->Take().response, "next");
      lane->server.Overwrite(1, lane->bytes);
    }
  }
}

// The lane of its first call ends without a word, and the call goes on.
class EndedLane final : public v1::LoaderService::Service {
 public:
  grpc::Status Load(grpc::ServerContext* /*context*/, const v1::LoadRequest* request,
                    grpc::ServerWriter<v1::LoadResponse>* writer) override {
    const uint64_t first = request->evaluation().first_step();
    first_steps_.push_back(first);
    v1::LoadResponse opened;
    opened.mutable_opened()->set_num_steps(kNumSteps);
    const bool has_lane = first_steps_.size() == 1;
    if (has_lane) *opened.mutable_opened()->mutable_lane() = lane_.offer();
    writer->Write(opened);
    if (has_lane) {
      lane_.Await();
      lane_.Write(0, BatchOf(0).SerializeAsString());
      lane_.Close();
    }
    // As if the lane had had the other batches.
    for (uint64_t step = has_lane ? kNumSteps : first; step < kNumSteps; ++step) {
      writer->Write(BatchOf(step));
    }
    v1::LoadResponse end;
    end.mutable_end_of_epoch();
    writer->Write(end);
    return grpc::Status::OK;
  }

  static constexpr uint64_t kNumSteps = 3;
  // Of each call.
  const std::vector<uint64_t>& first_steps() const { return first_steps_; }

 private:
  static v1::LoadResponse BatchOf(uint64_t step) {
    v1::LoadResponse response;
    v1::Batch& batch = *response.mutable_batch()->mutable_batch();
    batch.set_id(step);
    batch.set_step(step);
    return response;
  }

  LaneServer lane_;
  std::vector<uint64_t> first_steps_;
};

TEST(LaneReaderTest, ACallThatOutlivesItsLaneIsMadeAgain) {
  EndedLane service;
  const TemporaryFolder folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  LoaderOptions options;
  options.is_evaluation = true;
  options.lane = LaneUse::kIfPossible;
  options.retry.sleep = [](absl::Duration) {};
  Loader loader(MakeChannel(address), options);
  std::vector<uint64_t> steps;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader.Next());
    if (batch == nullptr) break;
    steps.push_back(batch->view.step());
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 2));
  EXPECT_THAT(service.first_steps(), ElementsAre(0, 1));
}

// Offers its lane to a stream of Pack, and says what a test says.
class ScriptedPack final : public v1::PackingService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::PackResponse, v1::PackRequest>;
  using Script = std::function<grpc::Status(const LaneServer&, Stream&)>;
  explicit ScriptedPack(Script script) : script_(std::move(script)) {}

  grpc::Status Pack(grpc::ServerContext* context, Stream* stream) override {
    context->AddInitialMetadata("packhouse-lane-bin", lane_.offer().SerializeAsString());
    v1::PackRequest request;
    stream->Read(&request);
    v1::PackResponse opened;
    opened.mutable_opened();
    stream->Write(opened);
    lane_.Await();
    const grpc::Status status = script_(lane_, *stream);
    lane_.Close();
    return status;
  }

 private:
  const Script script_;
  LaneServer lane_;
};

// What the script's stream gives: ids of batches, -1 for `flushed`; and how it ends.
std::pair<std::vector<int>, absl::Status> ReadPacked(ScriptedPack::Script script) {
  ScriptedPack service(std::move(script));
  const TemporaryFolder folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::PackingService::NewStub(MakeChannel(address));
  const auto stream = PackStream::Open(*stub, v1::PackOpen(), {.lane = LaneUse::kRequired});
  if (!stream.ok()) return {{}, stream.status()};
  EXPECT_EQ((*stream)->transport(), LoadTransport::kLane);
  std::vector<int> given;
  for (;;) {
    const auto response = (*stream)->Next();
    if (!response.ok() || !response->has_value()) {
      EXPECT_EQ((*stream)->Next().status(), response.status());
      EXPECT_EQ((*stream)->Finish(), response.status());
      return {std::move(given), response.status()};
    }
    given.push_back((*response)->has_batch() ? static_cast<int>((*response)->batch().id()) : -1);
  }
}

v1::PackResponse Packed(int id) {
  v1::PackResponse response;
  response.mutable_batch()->set_id(static_cast<uint64_t>(id));
  return response;
}

v1::PackResponse Flushed() {
  v1::PackResponse response;
  response.mutable_flushed();
  return response;
}

// Each batch and answer that was sent, by either way, in order; then how the server ended it.
TEST(PackLaneTest, SlotsAndResponsesComeInTheServersOrder) {
  const auto [given, status] = ReadPacked([](const LaneServer& lane, ScriptedPack::Stream& stream) {
    for (int id = 0; id < 3; ++id)
      lane.Write(static_cast<uint32_t>(id), Packed(id).SerializeAsString());
    lane.Say(kByGrpc);
    stream.Write(Flushed());
    // One that found no slot.
    lane.Say(kByGrpc);
    stream.Write(Packed(3));
    lane.Write(3, Packed(4).SerializeAsString());
    return grpc::Status::OK;
  });
  EXPECT_THAT(given, ElementsAre(0, 1, 2, -1, 3, 4));
  EXPECT_THAT(status, IsOk());
}

// A server that is killed with so many batches sent: they come, then the stream has failed. Also
// where its connection outlives its lane, and then has what would come after batches that are lost.
TEST(PackLaneTest, AKilledServersBatchesComeAndItsStreamIsNotTakenForWhole) {
  for (int num_sent = 0; num_sent <= 4; ++num_sent) {
    for (const bool goes_on : {false, true}) {
      SCOPED_TRACE(testing::Message() << num_sent << " sent, goes on: " << goes_on);
      const auto [given, status] =
          ReadPacked([&](LaneServer const& lane, ScriptedPack::Stream& stream) {
            for (int id = 0; id < num_sent; ++id) {
              lane.Write(static_cast<uint32_t>(id), Packed(id).SerializeAsString());
            }
            if (!goes_on) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "killed");
            lane.Shut();
            stream.Write(Flushed());
            return grpc::Status::OK;
          });
      std::vector<int> expected(static_cast<size_t>(num_sent));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(given, expected);
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr(goes_on ? "the lane ended before" : "killed")));
    }
  }
}

TEST(PackLaneTest, BytesThatAreNoResponseEndTheStream) {
  const auto [given, status] = ReadPacked([](const LaneServer& lane, ScriptedPack::Stream&) {
    lane.Write(1, Packed(0).SerializeAsString());
    lane.Write(2, "\x12\x05no");
    return grpc::Status::OK;
  });
  EXPECT_THAT(given, ElementsAre(0));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("4 bytes")));
}

}  // namespace
}  // namespace packhouse::client
