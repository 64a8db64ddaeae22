// The checksum of TFRecord files.
#ifndef PACKHOUSE_CLIENT_PYTHON_NATIVE_CRC32C_H_
#define PACKHOUSE_CLIENT_PYTHON_NATIVE_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

// Before the first Crc32c(). Not thread-safe.
void PrepareCrc32c(void);

// CRC-32C (Castagnoli) of `size` bytes. Thread-safe.
uint32_t Crc32c(const unsigned char* bytes, size_t size);

#endif  // PACKHOUSE_CLIENT_PYTHON_NATIVE_CRC32C_H_
