/* Preloaded into a server: flushes of the disk take longer while the file of $SLOW_DISK is there.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_if_slow(void) {
  const char* file = getenv("SLOW_DISK");
  const struct timespec time = {.tv_sec = 1, .tv_nsec = 200000000};
  if (file != NULL && access(file, F_OK) == 0) nanosleep(&time, NULL);
}

int fsync(int file) {
  wait_if_slow();
  return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  wait_if_slow();
  return (int)syscall(SYS_fdatasync, file);
}

int msync(void* begin, size_t bytes, int flags) {
  wait_if_slow();
  return (int)syscall(SYS_msync, begin, bytes, flags);
}
