// Packs or loads numbered graphs by a lane, and kills a process at one of its steps: the server, or
// itself. A step is a call of the client's library, or a call of the system that its lane makes.
//
// Usage: lane_until_killed pack ADDRESS STEP PID ID...
//        lane_until_killed load|load-by-grpc ADDRESS STEP PID JOB
// Prints a line for each batch as it comes: its number, a checksum of its bytes, and the ids of its
// graphs; then how many steps there were, what is left of the lane, the transport, and how it
// ended. STEP 0: it kills nobody.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/channel.h"
#include "client/cpp/loader.h"
#include "client/cpp/pack_stream.h"
#include "packhouse/v1/packing.grpc.pb.h"

namespace packhouse::client {
namespace {

// Rows of a graph and their width: so many bytes go by a slot.
constexpr size_t kRows = 3;
constexpr size_t kWidth = 4096;
constexpr uint32_t kMostInFlight = 8;

std::atomic<int> num_steps = 0;
int killing_step = 0;
pid_t killed = 0;

void Step() {
  if (++num_steps == killing_step) ::kill(killed, SIGKILL);
}

// Before and after the call.
template <typename Call, typename... Arguments>
auto Stepping(Call call, Arguments... arguments) {
  Step();
  const auto answer = call(arguments...);
  const int error = errno;
  Step();
  errno = error;
  return answer;
}

v1::Capacity Graphs(uint64_t rows) {
  v1::Capacity graphs;
  graphs.set_component("graphs");
  graphs.set_rows(rows);
  return graphs;
}

v1::PackOpen Opening() {
  v1::PackOpen open;
  open.mutable_schema()->add_components("nodes");
  v1::TensorSpec& tensor = *open.mutable_schema()->add_tensors();
  tensor.set_name("x");
  tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.set_component("nodes");
  tensor.add_row_shape(kWidth);
  *open.mutable_limits()->add_capacities() = Graphs(2);
  open.set_look_ahead(4);
  return open;
}

v1::GraphChunk Graph(uint64_t id) {
  v1::GraphChunk chunk;
  chunk.mutable_sizes()->set_num_graphs(1);
  chunk.mutable_sizes()->set_first_id(id);
  const auto rows = static_cast<uint32_t>(kRows);
  chunk.mutable_sizes()->set_counts(
      std::string(reinterpret_cast<const char*>(&rows), sizeof(rows)));
  const std::vector<float> x(kRows * kWidth, static_cast<float>(id));
  v1::TensorData& tensor = *chunk.add_tensors();
  tensor.set_name("x");
  tensor.set_data(std::string(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)));
  return chunk;
}

uint64_t Checksum(absl::string_view bytes, uint64_t sum) {
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

// The rows are to be those of the graphs of the ids.
void Print(uint64_t number, absl::string_view graph_ids, absl::string_view data) {
  std::vector<uint64_t> ids(graph_ids.size() / sizeof(uint64_t));
  std::memcpy(ids.data(), graph_ids.data(), ids.size() * sizeof(uint64_t));
  std::vector<float> x(ids.size() * kRows * kWidth);
  bool is_as_sent = data.size() == x.size() * sizeof(float);
  if (is_as_sent) std::memcpy(x.data(), data.data(), data.size());
  for (size_t i = 0; i < x.size(); ++i) {
    is_as_sent = is_as_sent && x[i] == static_cast<float>(ids[i / (kRows * kWidth)]);
  }
  std::string line = absl::StrCat(is_as_sent ? "batch " : "another graph's rows ", number, " ",
                                  Checksum(data, Checksum(graph_ids, 0)));
  for (const uint64_t id : ids) absl::StrAppend(&line, " ", id);
  std::puts(line.c_str());
}

absl::Status Pack(const char* address, const std::vector<uint64_t>& ids) {
  const auto stub = v1::PackingService::NewStub(MakeChannel(address));
  Step();
  auto stream = PackStream::Open(*stub, Opening(), {.lane = LaneUse::kRequired});
  Step();
  if (!stream.ok()) return stream.status();
  std::thread writer([&] {
    for (const uint64_t id : ids) {
      if (!(*stream)->Send(Graph(id)).ok()) return;
      Step();
    }
    (void)(*stream)->HalfClose();
    Step();
  });
  absl::Status status;
  for (;;) {
    const auto response = (*stream)->Next();
    Step();
    status = response.status();
    if (!response.ok() || !response->has_value()) break;
    if ((*response)->has_batch()) {
      const v1::Batch& batch = (*response)->batch();
      Print(batch.id(), batch.graph_ids(), batch.tensors(0).data());
    }
  }
  writer.join();
  return status;
}

// What the job has not acknowledged of the epoch. Every third batch is kept for a while.
absl::Status Load(const char* address, const char* job, LaneUse lane) {
  LoaderOptions options;
  options.spec.set_dataset("set");
  options.spec.set_job(job);
  *options.spec.add_rank_groups()->add_shapes()->add_capacities() = Graphs(2);
  options.max_in_flight = kMostInFlight;
  options.lane = lane;
  Step();
  Loader loader(MakeChannel(address), options);
  Step();
  std::vector<std::shared_ptr<const LoadedBatch>> kept;
  for (size_t i = 0;; ++i) {
    auto batch = loader.Next();
    Step();
    if (!batch.ok()) return batch.status();
    if (*batch == nullptr) break;
    const BatchView& view = (*batch)->view;
    Print(view.id(), view.graph_ids(), view.tensors()[0].data);
    if (i % 3 == 0) kept.push_back(*std::move(batch));
    if (i % 16 == 0) kept.clear();
  }
  std::printf("transport %s\n", loader.transport() == LoadTransport::kLane ? "lane" : "grpc");
  return absl::OkStatus();
}

// Sockets of lanes, and mappings of their slots.
int NumLeft() {
  int num_left = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int type = 0;
    socklen_t size = sizeof(type);
    const int descriptor = std::atoi(entry.path().filename().c_str());
    num_left +=
        ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    num_left += line.find("packhouse-lane") != std::string::npos;
  }
  return num_left;
}

}  // namespace
}  // namespace packhouse::client

// The linker gives these to the client's library (--wrap).
extern "C" {

ssize_t __real_recv(int, void*, size_t, int);
ssize_t __wrap_recv(int socket, void* to, size_t size, int flags) {
  return packhouse::client::Stepping(__real_recv, socket, to, size, flags);
}
ssize_t __real_recvmsg(int, msghdr*, int);
ssize_t __wrap_recvmsg(int socket, msghdr* header, int flags) {
  return packhouse::client::Stepping(__real_recvmsg, socket, header, flags);
}
ssize_t __real_send(int, const void*, size_t, int);
ssize_t __wrap_send(int socket, const void* from, size_t size, int flags) {
  return packhouse::client::Stepping(__real_send, socket, from, size, flags);
}
int __real_connect(int, const sockaddr*, socklen_t);
int __wrap_connect(int socket, const sockaddr* address, socklen_t size) {
  return packhouse::client::Stepping(__real_connect, socket, address, size);
}
void* __real_mmap(void*, size_t, int, int, int, off_t);
void* __wrap_mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  return packhouse::client::Stepping(__real_mmap, at, size, protection, flags, file, offset);
}
int __real_munmap(void*, size_t);
int __wrap_munmap(void* at, size_t size) {
  return packhouse::client::Stepping(__real_munmap, at, size);
}
int __real_shutdown(int, int);
int __wrap_shutdown(int socket, int how) {
  return packhouse::client::Stepping(__real_shutdown, socket, how);
}

}  // extern "C"

int main(int argc, char** argv) {
  using namespace packhouse::client;
  if (argc < 5) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const absl::string_view kind = argv[1];
  killing_step = std::atoi(argv[3]);
  killed = std::atoi(argv[4]) == 0 ? ::getpid() : std::atoi(argv[4]);
  absl::Status status;
  if (kind == "pack") {
    std::vector<uint64_t> ids;
    std::transform(argv + 5, argv + argc, std::back_inserter(ids),
                   [](const char* id) { return std::strtoull(id, nullptr, 10); });
    status = Pack(argv[2], ids);
  } else {
    status = Load(argv[2], argv[5], kind == "load" ? LaneUse::kRequired : LaneUse::kOff);
  }
  std::printf("steps %d\nleft %d\nended %s\n", num_steps.load(), NumLeft(),
              absl::StatusCodeToString(status.code()).c_str());
  return 0;
}
