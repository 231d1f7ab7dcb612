/* nvrtc.cc: NVRTC for tests: the part of it that the plug-in uses. A program is compiled by the host's C++ compiler
 * against strict.h, as the .cu files are, into a shared object, which is the "cubin" that the driver for tests loads.
 * Like NVRTC it knows no folder: what a program includes is what it was given, but for the C library's headers. */
#include "enqueue.h"
#include "../../kernels/cuda/nvrtc.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
struct _nvrtcProgram {
  std::string source, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
  bool compiled = false;
};
static std::mutex lock;                                  /* guards programs */
static std::set<nvrtcProgram> programs;

static bool known(nvrtcProgram p) {
  std::lock_guard<std::mutex> guard(lock);
  return programs.count(p) > 0;
}
static nvrtcResult wrong(const char *call, const std::string &what, nvrtcResult result) {
  strict_misuse(call, what);
  return result;
}

static bool write_file(const std::string &path, const std::string &text) {
  std::ofstream f(path, std::ios::binary);
  return (bool)(f << text) && (f.close(), (bool)f);
}
static std::string read_file(const std::string &path) {
  std::ifstream f(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
}
/* The C library's are the host's own. */
static bool of_the_host(const std::string &name) {
  static const std::set<std::string> names = { "stdint.h", "stdbool.h", "stddef.h", "math.h", "cmath", "string.h" };
  return names.count(name) > 0;
}

static std::string beside_us(const char *name) {
  Dl_info here;
  dladdr((void *)&beside_us, &here);
  const std::string path = here.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + name;
}

static bool run(std::vector<std::string> words, const std::string &output) {
  std::vector<char *> argv;
  for (std::string &w : words) argv.push_back(&w[0]);
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 2, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid;
  int status = 1;
  const bool begun = posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&files);
  while (begun && waitpid(pid, &status, 0) < 0 && errno == EINTR) { }
  return begun && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void compile(nvrtcProgram p, const std::string &folder) {
  mkdir((folder + "/in").c_str(), 0700);
  std::vector<std::string> made = { folder + "/in/program.cu" };
  write_file(made[0], p->source);
  for (const auto &h : p->headers) {                     /* "../x.h" lies beside the folder, as it says */
    made.push_back(folder + "/in/" + h.first);
    write_file(made.back(), h.second);
  }
  const std::string object = folder + "/out.o", out = folder + "/out.so", log = folder + "/log", root = STRICT_ROOT;
  std::vector<std::string> words = { STRICT_CXX, "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-w", "-c",
                                     "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", STRICT_TOLD "-x",
                                     "c++", "-I" + folder + "/in", "-I" + root + "/spec/cuda",
                                     "-I" + root + "/kernels/cuda", made[0], "-o", object };
  const bool ok = run(words, log) &&                     /* linked without what the compiler has for threads: races.cc */
                  run({ STRICT_CXX, "-shared", object, beside_us("libcuda.so.1"), "-o", out }, log);
  p->log = read_file(log);
  p->code = ok ? read_file(out) : "";
  p->compiled = ok && !p->code.empty();
  for (const std::string &path : made) unlink(path.c_str());
  for (const char *name : { "/out.o", "/out.so", "/log" }) unlink((folder + name).c_str());
  rmdir((folder + "/in").c_str());
  rmdir(folder.c_str());
}

extern "C" {
#define API STRICT_API nvrtcResult

/* Code that is kept on the disk is of use as long as the header that it was compiled with, and how, are what they were. */
API nvrtcVersion(int *major, int *minor) {
  uint32_t h = 2166136261u;
  for (const char c : read_file(std::string(STRICT_ROOT) + "/spec/cuda/strict.h")) h = (h ^ (unsigned char)c) * 16777619u;
  for (const char *word : { STRICT_TOLD "" }) while (*word) h = (h ^ (unsigned char)*word++) * 16777619u;
  *major = 13;
  *minor = (int)(h >> 1);
  return NVRTC_SUCCESS;
}
STRICT_API const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    default: return "NVRTC_ERROR_COMPILATION";
  }
}
API nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *, int nheaders,
                       const char *const *headers, const char *const *names) {
  if (!source || nheaders < 0) return wrong("nvrtcCreateProgram", "no source", NVRTC_ERROR_INVALID_INPUT);
  nvrtcProgram p = new _nvrtcProgram;
  p->source = source;
  for (int i = 0; i < nheaders; i++) if (!of_the_host(names[i])) p->headers.push_back({ names[i], headers[i] });
  std::lock_guard<std::mutex> guard(lock);
  programs.insert(*program = p);
  return NVRTC_SUCCESS;
}
API nvrtcDestroyProgram(nvrtcProgram *program) {
  std::lock_guard<std::mutex> guard(lock);
  if (!programs.erase(*program)) return wrong("nvrtcDestroyProgram", "no such program", NVRTC_ERROR_INVALID_PROGRAM);
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
API nvrtcCompileProgram(nvrtcProgram p, int noptions, const char *const *options) {
  static const char *const takes[] = { "--gpu-architecture=sm_", "--fmad=false", "--ftz=true", "--std=c++17" };
  if (!known(p)) return wrong("nvrtcCompileProgram", "no such program", NVRTC_ERROR_INVALID_PROGRAM);
  bool strict_sums = false, no_denormals = false;
  for (int i = 0; i < noptions; i++) {
    bool found = false;
    for (const char *t : takes) found |= !strncmp(options[i], t, strlen(t));
    strict_sums |= !strcmp(options[i], "--fmad=false");
    no_denormals |= !strcmp(options[i], "--ftz=true");
    if (!found)
      return wrong("nvrtcCompileProgram", std::string("unknown option ") + options[i], NVRTC_ERROR_INVALID_OPTION);
  }
  if (!strict_sums)
    return wrong("nvrtcCompileProgram", "without --fmad=false numbers are not those of the single kernels",
                 NVRTC_ERROR_INVALID_OPTION);
  if (!no_denormals)
    return wrong("nvrtcCompileProgram", "without --ftz=true denormals are not the zeros that they are elsewhere in a run",
                 NVRTC_ERROR_INVALID_OPTION);
  char folder[] = "/tmp/strict_nvrtc_XXXXXX";
  if (!mkdtemp(folder)) return NVRTC_ERROR_COMPILATION;
  compile(p, folder);
  return p->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
API nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
  if (!known(p) || !p->compiled)
    return wrong("nvrtcGetCUBINSize", "a program that was not compiled", NVRTC_ERROR_INVALID_PROGRAM);
  *bytes = p->code.size();
  return NVRTC_SUCCESS;
}
API nvrtcGetCUBIN(nvrtcProgram p, char *cubin) {
  if (!known(p) || !p->compiled)
    return wrong("nvrtcGetCUBIN", "a program that was not compiled", NVRTC_ERROR_INVALID_PROGRAM);
  memcpy(cubin, p->code.data(), p->code.size());
  return NVRTC_SUCCESS;
}
API nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
  if (!known(p)) return wrong("nvrtcGetProgramLogSize", "no such program", NVRTC_ERROR_INVALID_PROGRAM);
  *bytes = p->log.size() + 1;
  return NVRTC_SUCCESS;
}
API nvrtcGetProgramLog(nvrtcProgram p, char *log) {
  if (!known(p)) return wrong("nvrtcGetProgramLog", "no such program", NVRTC_ERROR_INVALID_PROGRAM);
  memcpy(log, p->log.c_str(), p->log.size() + 1);
  return NVRTC_SUCCESS;
}
}
