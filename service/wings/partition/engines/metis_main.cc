// packhouse-metis: calls METIS once, on arrays in shared memory, and ends. The service starts it
// for each call: METIS draws from the random numbers of its process, catches signals, and has no
// bound of memory. It is no program for people.
#include <metis.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "service/wings/partition/engines/metis_exchange.h"

namespace {

using packhouse::MetisCall;

static_assert(IDXTYPEWIDTH == 32 && REALTYPEWIDTH == 32, "arrays are passed as 32-bit numbers");

// Null if the file is not open or shorter than `bytes`.
char* Map(int file, uint64_t bytes) {
  struct stat status {};
  if (fstat(file, &status) != 0 || static_cast<uint64_t>(status.st_size) < bytes) return nullptr;
  if (bytes == 0) return nullptr;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

idx_t* Numbers(char* data) { return reinterpret_cast<idx_t*>(data); }

// The address space that the process has now and `more`.
void BoundMemory(uint64_t more) {
  if (more == 0) return;
  unsigned long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const uint64_t bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
}

int Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 2;
}

}  // namespace

int main() {
  // Nobody needs the answer once the service is gone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  char* head = Map(packhouse::kMetisCallFile, sizeof(MetisCall));
  auto* call = reinterpret_cast<MetisCall*>(head);
  if (call == nullptr || call->magic != MetisCall::kMagic) {
    return Fail("packhouse-metis is started by packhoused, which passes it a graph");
  }
  if (getppid() != call->parent) return Fail("the service has ended");
  char* all = Map(packhouse::kMetisCallFile, call->bytes());
  char* neighbours = Map(packhouse::kMetisNeighboursFile, call->num_entries * 4);
  char* weights = call->has_edge_weights != 0
                      ? Map(packhouse::kMetisWeightsFile, call->num_entries * 4)
                      : nullptr;
  if (all == nullptr || (call->num_entries > 0 && neighbours == nullptr) ||
      (call->has_edge_weights != 0 && call->num_entries > 0 && weights == nullptr)) {
    return Fail("the arrays are shorter than the call says");
  }
  BoundMemory(call->heap_bytes);

  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = call->seed;
  options[METIS_OPTION_OBJTYPE] = call->volume != 0 ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
  idx_t nodes = call->num_nodes;
  idx_t constraints = call->num_constraints;
  idx_t parts = call->num_parts;
  idx_t objective = 0;
  idx_t nothing = 0;
  const auto partition = call->recursive != 0 ? METIS_PartGraphRecursive : METIS_PartGraphKway;
  call->status = partition(&nodes, &constraints, Numbers(all + call->offsets_at()),
                           call->num_entries == 0 ? &nothing : Numbers(neighbours),
                           Numbers(all + call->node_weights_at()),
                           call->has_sizes != 0 ? Numbers(all + call->sizes_at()) : nullptr,
                           weights == nullptr ? nullptr : Numbers(weights), &parts, nullptr,
                           reinterpret_cast<real_t*>(all + call->imbalance_at()), options,
                           &objective, Numbers(all + call->part_at()));
  call->objective = objective;
  call->ended = 1;
  return 0;
}
