// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace conformance {

namespace {

class HostMemory final : public Memory {
 public:
  void use(int) override {}
  const int* devices(int) override { return nullptr; }
  void* allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void free(void* data) override { std::free(data); }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  cudaStream_t stream(int) override { return nullptr; }
  void wait(cudaStream_t) override {}
};

}  // namespace

std::unique_ptr<Memory> host_memory() { return std::make_unique<HostMemory>(); }
#ifndef CONFORMANCE_ON_DEVICES
std::unique_ptr<Memory> device_memory(int) { return nullptr; }
#endif

}  // namespace conformance
