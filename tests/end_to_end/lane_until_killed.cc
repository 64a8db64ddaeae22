// Packs numbered graphs by a lane, and kills a process at one of its steps: the server, or itself.
//
// Usage: pack_until_killed ADDRESS STEP PID ID... Prints the ids of the graphs of each batch as it
// comes, a line each, then how many steps there were, what is left of the lane, and how the stream
// ended. STEP 0: it kills nobody.
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/channel.h"
#include "client/cpp/pack_stream.h"
#include "packhouse/v1/packing.grpc.pb.h"

namespace packhouse::client {
namespace {

// Rows of a graph and their width: so many bytes go by a slot.
constexpr size_t kRows = 3;
constexpr size_t kWidth = 4096;

std::atomic<int> num_steps = 0;
int killing_step = 0;
pid_t killed = 0;

void Step() {
  if (++num_steps == killing_step) ::kill(killed, SIGKILL);
}

v1::PackOpen Opening() {
  v1::PackOpen open;
  open.mutable_schema()->add_components("nodes");
  v1::TensorSpec& tensor = *open.mutable_schema()->add_tensors();
  tensor.set_name("x");
  tensor.set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.set_component("nodes");
  tensor.add_row_shape(kWidth);
  v1::Capacity& graphs = *open.mutable_limits()->add_capacities();
  graphs.set_component("graphs");
  graphs.set_rows(2);
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

// Whether the rows are those of the graphs of the ids.
bool Print(const v1::Batch& batch) {
  std::vector<uint64_t> ids(batch.graph_ids().size() / sizeof(uint64_t));
  std::memcpy(ids.data(), batch.graph_ids().data(), ids.size() * sizeof(uint64_t));
  std::vector<float> x(ids.size() * kRows * kWidth);
  const std::string& data = batch.tensors(0).data();
  if (data.size() != x.size() * sizeof(float)) return false;
  std::memcpy(x.data(), data.data(), data.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != static_cast<float>(ids[i / (kRows * kWidth)])) return false;
  }
  std::string line = "batch";
  for (const uint64_t id : ids) line += " " + std::to_string(id);
  std::printf("%s\n", line.c_str());
  return true;
}

absl::Status Pack(v1::PackingService::StubInterface& stub, const std::vector<uint64_t>& ids) {
  Step();
  auto stream = PackStream::Open(stub, Opening(), {.lane = LaneUse::kRequired});
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
    if ((*response)->has_batch() && !Print((*response)->batch())) {
      std::printf("another graph's rows\n");
    }
  }
  writer.join();
  return status;
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

int main(int argc, char** argv) {
  using namespace packhouse::client;
  if (argc < 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  killing_step = std::atoi(argv[2]);
  killed = std::atoi(argv[3]) == 0 ? ::getpid() : std::atoi(argv[3]);
  std::vector<uint64_t> ids;
  std::transform(argv + 4, argv + argc, std::back_inserter(ids),
                 [](const char* id) { return std::strtoull(id, nullptr, 10); });
  const auto stub = packhouse::v1::PackingService::NewStub(MakeChannel(argv[1]));
  const absl::Status status = Pack(*stub, ids);
  std::printf("steps %d\nleft %d\nended %s\n", num_steps.load(), NumLeft(),
              absl::StatusCodeToString(status.code()).c_str());
  return 0;
}
