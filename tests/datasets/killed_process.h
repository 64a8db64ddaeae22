// A process that writes lines until it is killed.
#ifndef PACKHOUSE_TESTS_DATASETS_KILLED_PROCESS_H_
#define PACKHOUSE_TESTS_DATASETS_KILLED_PROCESS_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse {

// Starts `program` with `argument`, reads `num_lines` lines of its output, kills it (-9), and reads
// the rest. Adds all lines to `lines`, except for a last one without an end, which the kill cut
// off.
inline void RunAndKill(std::string program, std::string argument, size_t num_lines,
                       std::vector<std::string>& lines) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int spawned = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  std::FILE* const output = ::fdopen(pipe_ends[0], "r");
  ASSERT_EQ(spawned, 0) << program;
  if (num_lines == 0) ::kill(child, SIGKILL);
  size_t num_read = 0;
  char line[128];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    const std::string text = line;
    if (text.back() != '\n') break;
    lines.push_back(text);
    if (++num_read == num_lines) ::kill(child, SIGKILL);
  }
  std::fclose(output);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATASETS_KILLED_PROCESS_H_
