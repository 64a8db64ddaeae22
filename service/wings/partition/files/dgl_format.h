// The numbers that mark the pieces of DGL's binary files; the writer and the reader share them.
//
// Everything is little-endian. A string is its length as uint64 and its bytes. A list is the number
// of its items as uint64 and the items. A dictionary is a list of pairs of a string and an array.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_FORMAT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace packhouse {

inline constexpr uint64_t kDglTensorFile = 0xDD5A9FBE3FA2443F;
inline constexpr uint64_t kDglGraphFile = 0xDD2E4FF046B4A13F;
inline constexpr uint64_t kDglArray = 0xDD5E40F096B4A13F;
inline constexpr uint64_t kDglGraph = 0xDD589FBE35224ABF;
inline constexpr uint64_t kDglTypeGraph = 0xDD3C5FFE20046ABF;
inline constexpr uint64_t kDglRelation = 0xDD2E60F0F6B4A127;
inline constexpr uint64_t kDglCoo = 0xDD61FFD305DFF127;
inline constexpr uint64_t kDglCsr = 0xDD6CD31205DFF127;

inline constexpr uint64_t kDglVersion = 2;
inline constexpr uint64_t kDglKind = 2;  // Graphs with types, even if there is one type only.
// What follows the head of a graph file begins here. DGL leaves what was in memory between.
inline constexpr size_t kDglHeadBytes = 4096;
// Set in both numbers that say which forms of a relation there are.
inline constexpr int64_t kDglFormFlag = int64_t{1} << 32;
inline constexpr int64_t kDglAllForms = 7;

inline constexpr int32_t kDglCpu = 1;
// Element types.
inline constexpr uint8_t kDglInt = 0;
inline constexpr uint8_t kDglUint = 1;
inline constexpr uint8_t kDglFloat = 2;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_FORMAT_H_
