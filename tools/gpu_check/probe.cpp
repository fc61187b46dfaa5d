// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "algorithms/algorithms.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/team/team.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/phases/wayward_kernels.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::gpu_check {
namespace {

using device::cuda_status;
using device::Driver;

constexpr std::uint64_t kBytes = 1 << 20;
constexpr int kPattern = 0x5a;

/// Records one path's outcome; a path that does not work is no defect of ours.
bool tell(const PhaseContext& context, const std::string& path, const Status& works) {
  const std::string said = works ? "works" : works.error().message;
  context.records.add({{"phase", context.name}, {"what", "path"}, {"path", path}, {"said", said}});
  std::printf("%s: %s\n", path.c_str(), said.c_str());
  std::fflush(stdout);
  return works.has_value();
}

/// Starts another process of this program that opens `handle` and reads the memory, within 20 s.
Status ask_peer(const char* kind, const std::string& handle) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "run", "--peer-of", kind, handle.c_str(), nullptr);
    _exit(127);
  }
  if (child < 0) return fail(ErrorKind::exhausted, "no process could be made");
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return fail(ErrorKind::timed_out, "the other process did not end within 20 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPassed) return {};
  return fail(ErrorKind::unsupported, "the other process failed, as it says above");
}

Status is_pattern(const void* on_device) {
  std::vector<unsigned char> here(kBytes);
  CCOLL_TRY(cuda_status(cudaMemcpy(here.data(), on_device, kBytes, cudaMemcpyDeviceToHost),
                        "reading the other process's memory"));
  for (const unsigned char byte : here) {
    if (byte != kPattern) return fail(ErrorKind::corrupt, "the other process's memory reads wrong");
  }
  return {};
}

Status share_by_ipc() {
  device::DeviceMemory memory;
  CCOLL_TRY(device::put(device::allocate_on_device(kBytes), memory));
  CCOLL_TRY(cuda_status(cudaMemset(memory.get(), kPattern, kBytes), "writing a pattern"));
  CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "writing a pattern"));
  cudaIpcMemHandle_t handle = {};
  CCOLL_TRY(cuda_status(cudaIpcGetMemHandle(&handle, memory.get()), "cudaIpcGetMemHandle"));
  std::string text;
  for (const char byte : handle.reserved)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return ask_peer("ipc", text);
}

Status open_ipc(const std::string& text) {
  cudaIpcMemHandle_t handle = {};
  if (text.size() != 2 * sizeof handle.reserved) return fail(ErrorKind::internal, "no handle");
  for (std::size_t i = 0; i < sizeof handle.reserved; ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  void* memory = nullptr;
  CCOLL_TRY(cuda_status(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess),
                        "cudaIpcOpenMemHandle"));
  CCOLL_TRY(is_pattern(memory));
  return cuda_status(cudaIpcCloseMemHandle(memory), "cudaIpcCloseMemHandle");
}

CUmemAllocationProp shared_properties() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

Result<std::size_t> shared_size(const Driver& driver) {
  const CUmemAllocationProp properties = shared_properties();
  std::size_t unit = 0;
  CCOLL_TRY(
      driver.status(driver.granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                    "cuMemGetAllocationGranularity"));
  return (kBytes + unit - 1) / unit * unit;
}

/// It stays mapped until the process ends.
Result<CUdeviceptr> map(const Driver& driver, CUmemGenericAllocationHandle handle,
                        std::size_t bytes) {
  CUdeviceptr address = 0;
  CCOLL_TRY(driver.status(driver.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  CCOLL_TRY(driver.status(driver.map(address, bytes, 0, handle, 0), "cuMemMap"));
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CCOLL_TRY(driver.status(driver.set_access(address, bytes, &access, 1), "cuMemSetAccess"));
  return address;
}

Status share_by_descriptor(const Driver& driver) {
  const CUmemAllocationProp properties = shared_properties();
  const auto bytes = shared_size(driver);
  CCOLL_TRY(bytes);
  CUmemGenericAllocationHandle handle = 0;
  CCOLL_TRY(driver.status(driver.create(&handle, *bytes, &properties, 0), "cuMemCreate"));
  const auto address = map(driver, handle, *bytes);
  CCOLL_TRY(address);
  CCOLL_TRY(cuda_status(cudaMemset(reinterpret_cast<void*>(*address), kPattern, kBytes),
                        "writing a pattern"));
  CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "writing a pattern"));
  int file = -1;
  CCOLL_TRY(driver.status(
      driver.export_handle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle"));
  // The other process inherits it.
  fcntl(file, F_SETFD, 0);
  const Status works = ask_peer("descriptor", fmt::format("{}", file));
  close(file);
  return works;
}

Status open_descriptor(const std::string& text) {
  const auto driver = Driver::open();
  CCOLL_TRY(driver);
  const auto bytes = shared_size(*driver);
  CCOLL_TRY(bytes);
  CUmemGenericAllocationHandle handle = 0;
  void* const file = reinterpret_cast<void*>(static_cast<std::intptr_t>(std::stoi(text)));
  CCOLL_TRY(
      driver->status(driver->import_handle(&handle, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                     "cuMemImportFromShareableHandle"));
  const auto address = map(*driver, handle, *bytes);
  CCOLL_TRY(address);
  return is_pattern(reinterpret_cast<void*>(*address));
}

/// A stream waits for a word in host memory that the host then writes, and writes one itself.
Status wait_for_values(const Driver& driver) {
  device::MappedMemory words;
  device::OwnStream stream;
  CCOLL_TRY(device::put(device::allocate_mapped(256), words));
  CCOLL_TRY(device::put(device::make_stream(), stream));
  std::memset(words.get(), 0, 256);
  auto* const mine = reinterpret_cast<std::uint32_t*>(words.get());
  const auto there = device::on_device(words.get());
  CCOLL_TRY(there);
  const auto address = reinterpret_cast<CUdeviceptr>(*there);
  CCOLL_TRY(driver.status(driver.wait_value(stream.get(), address, 7, CU_STREAM_WAIT_VALUE_GEQ),
                          "cuStreamWaitValue32"));
  CCOLL_TRY(driver.status(
      driver.write_value(stream.get(), address + 128, 9, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue32"));
  const bool waited = device::load_acquire(mine + 32) == 0;
  device::store_release(mine, 7);
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(stream.get()), "waiting for a value"));
  if (waited && device::load_acquire(mine + 32) == 9) return {};
  return fail(ErrorKind::corrupt, "the stream did not wait, or did not write");
}

/// Whether CUDA answers one thread while another waits for room in a blocked stream. Time limits,
/// and whatever unblocks the stream, depend on such answers.
Status ask_beside_full_queue(const PhaseContext& context, const Driver& driver) {
  constexpr int kMost = 50'000;
  constexpr std::chrono::milliseconds kStands{500}, kPatience{1000};
  device::MappedMemory words;
  device::OwnStream full, beside;
  device::OwnEvent passed;
  CCOLL_TRY(device::put(device::allocate_mapped(256), words));
  CCOLL_TRY(device::put(device::make_stream(), full));
  CCOLL_TRY(device::put(device::make_stream(), beside));
  CCOLL_TRY(device::put(device::make_event(), passed));
  std::memset(words.get(), 0, 256);
  const auto there = device::on_device(words.get());
  CCOLL_TRY(there);
  const auto address = reinterpret_cast<CUdeviceptr>(*there);
  CCOLL_TRY(cuda_status(cudaEventRecord(passed.get(), beside.get()), "recording an event"));
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(beside.get()), "recording an event"));
  CCOLL_TRY(driver.status(driver.wait_value(full.get(), address, 1, CU_STREAM_WAIT_VALUE_GEQ),
                          "cuStreamWaitValue32"));
  std::atomic<int> put = 0;
  std::atomic<bool> is_answered = false;
  Status filled;
  std::jthread fills([&](const std::stop_token& stop) {
    const device::CurrentDevice current(0);
    while (filled && put < kMost && !stop.stop_requested()) {
      filled = driver.status(
          driver.write_value(full.get(), address + 128, 1, CU_STREAM_WRITE_VALUE_DEFAULT),
          "cuStreamWriteValue32");
      if (filled) ++put;
    }
  });
  int seen = -1;
  while (put < kMost && seen != put) {
    seen = put;
    std::this_thread::sleep_for(kStands);
  }
  const bool is_full = put < kMost;
  std::jthread asks([&] { is_answered = device::has_happened(passed, 0).value_or(false); });
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!is_answered && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool is_in_time = is_answered;
  fills.request_stop();
  device::store_release(reinterpret_cast<std::uint32_t*>(words.get()), 1);
  fills.join();
  asks.join();
  CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "ending a full stream"));
  CCOLL_TRY(filled);
  context.records.add({{"phase", context.name}, {"what", "queue"}, {"operations", seen}});
  if (!is_full) return fail(ErrorKind::unsupported, "{} operations fill no queue", kMost);
  if (is_in_time) return {};
  return fail(ErrorKind::unsupported,
              "while a thread waits for room behind {} operations, others that ask wait, too",
              seen);
}

/// Copies within the GPU, as teams make them, while kernels occupy all multiprocessors.
Status copy_beside_full_gpu() {
  constexpr std::uint64_t kCopied = 16 << 20;
  constexpr std::chrono::milliseconds kPatience{500};
  constexpr const char* kWhat = "copies beside a full GPU";
  int processors = 0, of_each = 0;
  CCOLL_TRY(
      cuda_status(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), kWhat));
  CCOLL_TRY(cuda_status(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, occupying_kernel(), 1024, 0), kWhat));
  device::DeviceMemory memory;
  device::MappedMemory go;
  device::OwnStream full, beside;
  device::OwnEvent copied;
  CCOLL_TRY(device::put(device::allocate_on_device(2 * kCopied), memory));
  CCOLL_TRY(device::put(device::allocate_mapped(128), go));
  CCOLL_TRY(device::put(device::make_stream(), full));
  CCOLL_TRY(device::put(device::make_stream(), beside));
  CCOLL_TRY(device::put(device::make_event(), copied));
  std::memset(go.get(), 0, 128);
  const auto there = device::on_device(go.get());
  CCOLL_TRY(there);
  const auto copy = [&] {
    return cuda_status(cudaMemcpyAsync(memory.get() + kCopied, memory.get(), kCopied,
                                       cudaMemcpyDefault, beside.get()),
                       kWhat);
  };
  // By then everything that it needs is loaded.
  CCOLL_TRY(copy());
  CCOLL_TRY(cuda_status(cudaStreamSynchronize(beside.get()), kWhat));
  auto* word = reinterpret_cast<const std::uint32_t*>(*there);
  std::uint64_t most_ns = 4 * std::chrono::nanoseconds(kPatience).count();
  void* arguments[] = {&word, &most_ns};
  CCOLL_TRY(cuda_status(
      cudaLaunchKernel(occupying_kernel(), dim3(static_cast<unsigned>(processors * of_each)),
                       dim3(1024), arguments, 0, full.get()),
      kWhat));
  std::this_thread::sleep_for(kPatience / 10);
  auto put = copy();
  if (put) put = cuda_status(cudaEventRecord(copied.get(), beside.get()), kWhat);
  bool is_over = false;
  const auto begin = std::chrono::steady_clock::now();
  while (put && !is_over && std::chrono::steady_clock::now() < begin + kPatience)
    is_over = device::has_happened(copied, 0).value_or(false);
  device::store_release(reinterpret_cast<std::uint32_t*>(go.get()), 1);
  CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), kWhat));
  CCOLL_TRY(std::move(put));
  if (is_over) return {};
  return fail(ErrorKind::unsupported, "a copy within the GPU waits for a multiprocessor");
}

/// An all_reduce of 1,000 int32 by two ranks: four plain calls, or three in a graph as the team's
/// very first calls and then plain ones. The graph's program is loaded during the capture.
class SmallTeam {
 public:
  Status run(bool captured) {
    CCOLL_TRY(open());
    if (!captured) CCOLL_TRY(load());
    for (int i = 0; i < 4; ++i) {
      const bool replays = captured && i < 3;
      for (const auto& each : memory_) {
        CCOLL_TRY(cuda_status(cudaMemset(each.get(), 1 + i, kElems * 4), "filling inputs"));
        CCOLL_TRY(cuda_status(cudaMemset(each.get() + kElems * 4, 0xee, kElems * 4), "poison"));
      }
      CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "filling inputs"));
      if (replays && graph_ == nullptr) CCOLL_TRY(capture());
      CCOLL_TRY(replays ? replay() : call());
      CCOLL_TRY(cuda_status(cudaDeviceSynchronize(), "a team's call"));
      CCOLL_TRY(replays ? team_->check(program_) : team_->wait(soon()));
      CCOLL_TRY(check(i));
    }
    return {};
  }
  ~SmallTeam() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

 private:
  static constexpr std::uint64_t kElems = 1000;

  static device::Team::TimePoint soon() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(10);
  }

  Status open() {
    CCOLL_TRY(device::put(device::Team::make({2}), team_));
    for (int rank = 0; rank < 2; ++rank) {
      CCOLL_TRY(device::put(device::make_stream(), streams_[rank]));
      CCOLL_TRY(device::put(device::allocate_on_device(2 * kElems * 4), memory_[rank]));
    }
    return {};
  }

  Status load() {
    Problem problem;
    problem.size = 2;
    problem.count = kElems;
    const Choice choice{Algorithm::ring, 1, 300};
    const auto schedule = [=](Rank rank) { return make_program(problem, choice, rank); };
    const auto lowered =
        device::lower({problem, choice, schedule, DataType::int32, ReduceOp::sum, {}});
    CCOLL_TRY(lowered);
    const auto program = team_->load(*lowered);
    CCOLL_TRY(program);
    program_ = *program;
    return {};
  }

  Status call() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      device::TeamCall call;
      call.rank = rank;
      call.program = program_;
      call.input = memory_[rank].get();
      call.output = memory_[rank].get() + kElems * 4;
      call.stream = streams_[rank].get();
      CCOLL_TRY(team_->arrive(call));
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) CCOLL_TRY(team_->leave(rank, soon()));
    return {};
  }

  Status replay() {
    return cuda_status(cudaGraphLaunch(graph_, streams_[0].get()), "launching a graph");
  }

  Status capture() {
    device::OwnEvent fork, join;
    CCOLL_TRY(device::put(device::make_event(), fork));
    CCOLL_TRY(device::put(device::make_event(), join));
    const cudaStream_t first = streams_[0].get(), second = streams_[1].get();
    constexpr const char* kWhat = "capturing a team's call";
    CCOLL_TRY(cuda_status(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), kWhat));
    CCOLL_TRY(cuda_status(cudaEventRecord(fork.get(), first), kWhat));
    CCOLL_TRY(cuda_status(cudaStreamWaitEvent(second, fork.get(), 0), kWhat));
    // A team may get its program as late as this.
    Status called = load();
    if (called) called = call();
    if (called) {
      CCOLL_TRY(cuda_status(cudaEventRecord(join.get(), second), kWhat));
      CCOLL_TRY(cuda_status(cudaStreamWaitEvent(first, join.get(), 0), kWhat));
    }
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(first, &graph);
    CCOLL_TRY(called);
    CCOLL_TRY(cuda_status(ended, kWhat));
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    return cuda_status(made, "making a graph of a team's call");
  }

  Status check(int i) {
    // Bytes of 1 + i: the sum of two such numbers has bytes of twice that.
    const std::vector<unsigned char> expected(kElems * 4, static_cast<unsigned char>(2 * (1 + i)));
    std::vector<unsigned char> here(kElems * 4);
    for (const auto& each : memory_) {
      CCOLL_TRY(cuda_status(
          cudaMemcpy(here.data(), each.get() + kElems * 4, here.size(), cudaMemcpyDeviceToHost),
          "reading outputs"));
      if (here != expected) return fail(ErrorKind::corrupt, "call {} has wrong sums", i + 1);
    }
    return {};
  }

  std::unique_ptr<device::Team> team_;
  const device::LoadedProgram* program_ = nullptr;
  device::OwnStream streams_[2];
  device::DeviceMemory memory_[2];
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

int read_as_peer(const std::string& kind, const std::string& handle) {
  Status read = cuda_status(cudaSetDevice(0), "using the GPU");
  if (read) read = cuda_status(cudaFree(nullptr), "using the GPU");
  if (read) read = kind == "ipc" ? open_ipc(handle) : open_descriptor(handle);
  if (!read) std::printf("the other process: %s\n", read.error().message.c_str());
  return read ? kPassed : kWrong;
}

int run_probe(const PhaseContext& context) {
  Findings findings(context);
  const auto needed = [&](const std::string& path, const Status& works) {
    findings.tried();
    if (!tell(context, path, works)) findings.wrong(path + ": " + works.error().message);
  };
  needed("a team's cooperative launch", SmallTeam().run(false));
  needed("the same in a graph, as its first call", SmallTeam().run(true));
  tell(context, "copies while no multiprocessor is free", copy_beside_full_gpu());
  tell(context, "legacy CUDA IPC", share_by_ipc());
  if (const auto driver = Driver::open(); !driver) {
    tell(context, "the driver's calls", tl::unexpected(driver.error()));
  } else {
    tell(context, "VMM memory by file descriptor", share_by_descriptor(*driver));
    tell(context, "streams that wait for a word", wait_for_values(*driver));
    tell(context, "answers while a stream's queue is full",
         ask_beside_full_queue(context, *driver));
  }
  return findings.close("things that teams need");
}

}  // namespace ccoll::gpu_check
