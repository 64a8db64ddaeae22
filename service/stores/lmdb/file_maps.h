// Where files are mapped in this process, from the kernel.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_FILE_MAPS_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_FILE_MAPS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace packhouse {

struct MappedFile {
  const void* begin;
  size_t bytes;
};

// The maps of the file with this name, found by its number or its name: if one file system lies
// over another, either may differ from the map's. Reads /proc/self/maps; empty if it cannot.
std::vector<MappedFile> FindMaps(const std::string& path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_FILE_MAPS_H_
