// Any bytes as the binary files and the JSON of a partition. Whatever comes in: no crash, no memory
// for what a length only claims, and what was read can be written and read again.
//
// The first byte says which kind of file.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/files/safetensors_file.h"

namespace {

using packhouse::ArraySource;
using packhouse::ArrayView;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

bool Same(const ArrayView& a, const ArrayView& b) {
  return a.header.name == b.header.name && a.header.dtype == b.header.dtype &&
         a.header.shape == b.header.shape && a.bytes == b.bytes;
}

std::vector<ArraySource> SourcesOf(const std::vector<ArrayView>& views) {
  std::vector<ArraySource> sources;
  for (const ArrayView& view : views) sources.push_back(packhouse::SourceOf(view));
  return sources;
}

void TryTensors(absl::string_view file) {
  const auto arrays = packhouse::ReadDglTensorFile(file);
  if (!arrays.ok()) return;
  packhouse::StringSink again;
  Require(packhouse::WriteDglTensorFile(SourcesOf(*arrays), again).ok(), "tensors: not written");
  const auto got = packhouse::ReadDglTensorFile(again.bytes());
  Require(got.ok() && got->size() == arrays->size(), "tensors: not read again");
  for (size_t i = 0; i < got->size(); ++i) Require(Same((*got)[i], (*arrays)[i]), "tensors differ");
}

void TryGraph(absl::string_view file) {
  const auto view = packhouse::ReadDglGraphFile(file);
  if (!view.ok()) return;
  packhouse::DglGraphSource graph;
  graph.num_nodes = view->num_nodes;
  if (view->coo) {
    graph.coo = packhouse::DglCooSource{packhouse::SourceOf(view->coo->sources),
                                        packhouse::SourceOf(view->coo->targets)};
  } else {
    const auto& csr = view->csr ? *view->csr : *view->csc;
    graph.csr = packhouse::DglCsrSource{packhouse::SourceOf(csr.offsets),
                                        packhouse::SourceOf(csr.neighbours),
                                        packhouse::SourceOf(csr.edges)};
  }
  graph.node_data = SourcesOf(view->node_data);
  graph.edge_data = SourcesOf(view->edge_data);
  packhouse::StringSink again;
  Require(packhouse::WriteDglGraphFile(graph, again).ok(), "graph: not written");
  Require(packhouse::ReadDglGraphFile(again.bytes()).ok(), "graph: not read again");
}

void TryNpy(absl::string_view file) {
  const auto array = packhouse::ReadNpyFile(file);
  if (!array.ok()) return;
  packhouse::StringSink again;
  Require(packhouse::WriteNpyFile(packhouse::SourceOf(*array), again).ok(), "npy: not written");
  const auto got = packhouse::ReadNpyFile(again.bytes());
  Require(got.ok() && Same(*got, *array), "npy: not read again");
}

void TrySafetensors(absl::string_view file) {
  const auto arrays = packhouse::ReadSafetensorsFile(file);
  if (!arrays.ok()) return;
  packhouse::StringSink again;
  Require(packhouse::WriteSafetensorsFile(SourcesOf(*arrays), again).ok(),
          "safetensors: not written");
  const auto got = packhouse::ReadSafetensorsFile(again.bytes());
  Require(got.ok() && got->size() == arrays->size(), "safetensors: not read again");
}

void TryJson(absl::string_view file) {
  const auto json = packhouse::ReadPartitionJson(file);
  if (json.ok()) {
    const auto text = packhouse::WritePartitionJson(*json);
    Require(text.ok(), "json: not written");
    const auto got = packhouse::ReadPartitionJson(*text);
    Require(got.ok() && *got == *json, "json: not read again");
  }
  const auto chunked = packhouse::ReadChunkedMetadata(file);
  if (chunked.ok()) {
    const auto text = packhouse::WriteChunkedMetadata(*chunked);
    Require(text.ok(), "metadata: not written");
    Require(packhouse::ReadChunkedMetadata(*text).ok(), "metadata: not read again");
  }
  (void)packhouse::ReadAssignmentMeta(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0:
      TryTensors(file);
      break;
    case 1: {
      // The head is 4096 bytes, most of them without meaning: these are not fuzzed.
      std::string whole = file;
      if (whole.size() > 32) whole.insert(32, std::string(4096 - 32, '\0'));
      TryGraph(whole);
      break;
    }
    case 2:
      TryNpy(file);
      break;
    case 3:
      TrySafetensors(file);
      break;
    default:
      TryJson(file);
  }
  return 0;
}
