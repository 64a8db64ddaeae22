// The smallest useful C++ client: packs a thousand small rings. first_client ADDRESS
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/channel.h"
#include "client/cpp/chunk_builder.h"
#include "client/cpp/pack_stream.h"
#include "google/protobuf/text_format.h"

namespace {

namespace client = packhouse::client;
namespace v1 = packhouse::v1;

constexpr char kOpen[] = R"(
    schema {
      components: "nodes" components: "edges"
      tensors { name: "x" dtype: DATA_TYPE_FLOAT32 component: "nodes" }
      tensors { name: "edge_index" dtype: DATA_TYPE_INT32 row_shape: 2 component: "edges"
                index_into: "nodes" }
    }
    limits {
      capacities { component: "nodes" rows: 512 }
      capacities { component: "edges" rows: 1024 }
      capacities { component: "graphs" rows: 64 }
    }
    padding: PADDING_GRAPH)";

absl::Status SendRings(const v1::GraphSchema& schema, client::PackStream& stream) {
  auto builder = client::ChunkBuilder::Create(schema);
  if (!builder.ok()) return builder.status();
  for (int i = 0; i < 1000; ++i) {
    const int32_t nodes = 3 + i % 40;
    const std::vector<float> x(nodes, 1.0F);
    std::vector<int32_t> edge_index;
    for (int32_t n = 0; n < nodes; ++n) edge_index.insert(edge_index.end(), {n, (n + 1) % nodes});
    const auto count = static_cast<uint32_t>(nodes);
    absl::Status added = builder->Add(
        {count, count}, {client::RowsOf<float>(x), client::RowsOf<int32_t>(edge_index)});
    if (!added.ok()) return added;
  }
  const absl::Status sent = stream.Send(builder->Build());
  return sent.ok() ? stream.HalfClose() : sent;
}

absl::Status Run(const std::string& address) {
  const auto channel = client::Connect(address, absl::Seconds(10));
  if (!channel.ok()) return channel.status();
  v1::PackOpen open;
  google::protobuf::TextFormat::ParseFromString(kOpen, &open);
  const auto stub = v1::PackingService::NewStub(*channel);
  const auto stream = client::PackStream::Open(*stub, open);
  if (!stream.ok()) return stream.status();

  // One thread sends while another receives: the server makes a client wait that does not read.
  absl::Status sent;
  std::thread sender([&] { sent = SendRings(open.schema(), **stream); });
  absl::Status received;
  for (;;) {
    const auto response = (*stream)->Next();
    if (!response.ok()) received = response.status();
    if (!response.ok() || !*response) break;
    if (!(*response)->has_batch()) continue;
    const v1::Batch& batch = (*response)->batch();
    std::cout << "batch " << batch.id() << ": " << batch.real_rows(2) << " graphs, "
              << batch.real_rows(0) << " of " << batch.rows(0) << " nodes\n";
  }
  sender.join();
  return received.ok() ? sent : received;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "localhost:50051");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
