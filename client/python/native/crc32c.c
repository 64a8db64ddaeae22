#include "crc32c.h"

enum { kTables = 8, kBytes = 256 };

// tables[k][b]: what byte b does to the checksum k bytes after it.
static uint32_t tables[kTables][kBytes];

void PrepareCrc32c(void) {
  const uint32_t kPolynomial = 0x82f63b78u;  // Reflected.
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (int table = 1; table < kTables; ++table) {
    for (int byte = 0; byte < kBytes; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
}

uint32_t Crc32c(const unsigned char* bytes, size_t size) {
  uint32_t crc = 0xffffffffu;
  // Eight bytes at a time: their tables are looked up side by side.
  for (; size >= kTables; bytes += kTables, size -= kTables) {
    uint64_t word = 0;
    for (int i = 0; i < kTables; ++i) word |= (uint64_t)bytes[i] << (8 * i);
    word ^= crc;
    crc = 0;
    for (int i = 0; i < kTables; ++i) crc ^= tables[kTables - 1 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ tables[0][(crc ^ *bytes) & 0xff];
  return ~crc;
}
