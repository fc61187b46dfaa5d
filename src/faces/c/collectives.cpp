// SPDX-License-Identifier: Apache-2.0
// Every collective, blocking and asynchronous.
#include <cstdlib>

#include "faces/c/face.hpp"

namespace {

using namespace ccoll::c;
using ccoll::Block;
using ccoll::Communicator;
using ccoll::ConstBlock;

/// Hands out the Work of an asynchronous call.
template <typename Begin>
ccoll_result begun(ccoll_work* work, Begin&& begin) {
  return guarded([&] { hand_out(work, begin); });
}

/// A block that every rank has a use for.
ConstBlock input_of(const ccoll_block* block) { return const_block_of(&given(block, "the input")); }
Block output_of(const ccoll_block* block) { return block_of(&given(block, "the output")); }

/// A block that the root has a use for, others perhaps not.
ConstBlock root_input_of(ccoll_comm comm, std::int32_t root, const ccoll_block* block) {
  if (communicator_of(comm).rank() == root) given(block, "the input of the root");
  return const_block_of(block);
}
Block root_output_of(ccoll_comm comm, std::int32_t root, const ccoll_block* block) {
  if (communicator_of(comm).rank() == root) given(block, "the output of the root");
  return block_of(block);
}

/// A list of one block for each rank of the communicator.
template <typename AnyBlock>
std::vector<AnyBlock> list_of(ccoll_comm comm, const ccoll_block* blocks) {
  return blocks_of<AnyBlock>(blocks, communicator_of(comm).size());
}

/// Copies into memory that one ccoll_free frees: an array of descriptions, and behind it the bytes
/// that they describe.
ccoll_bytes* copied(const std::vector<std::string>& strings) {
  std::size_t bytes = strings.size() * sizeof(ccoll_bytes);
  for (const auto& each : strings) bytes += each.size();
  auto* const made = static_cast<ccoll_bytes*>(std::malloc(std::max<std::size_t>(bytes, 1)));
  if (made == nullptr) throw std::bad_alloc();
  auto* data = reinterpret_cast<char*>(made + strings.size());
  for (std::size_t i = 0; i < strings.size(); i++) {
    made[i] = {data, strings[i].size()};
    data = std::copy(strings[i].begin(), strings[i].end(), data);
  }
  return made;
}

std::string_view view_of(const void* bytes, std::size_t size) {
  if (size > 0) given(static_cast<const char*>(bytes), "the byte string");
  return {static_cast<const char*>(bytes), size};
}

}  // namespace

ccoll_result ccoll_all_reduce(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                              ccoll_reduction op, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_reduce(input_of(input), output_of(output), reduction_of(op),
                                     options_of(options));
  });
}

ccoll_result ccoll_all_reduce_async(ccoll_comm comm, const ccoll_block* input,
                                    const ccoll_block* output, ccoll_reduction op,
                                    const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_reduce_async(input_of(input), output_of(output),
                                                  reduction_of(op), options_of(options));
  });
}

ccoll_result ccoll_reduce(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                          ccoll_reduction op, int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).reduce(input_of(input), root_output_of(comm, root, output),
                                 reduction_of(op), root, options_of(options));
  });
}

ccoll_result ccoll_reduce_async(ccoll_comm comm, const ccoll_block* input,
                                const ccoll_block* output, ccoll_reduction op, int32_t root,
                                const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).reduce_async(input_of(input), root_output_of(comm, root, output),
                                              reduction_of(op), root, options_of(options));
  });
}

ccoll_result ccoll_broadcast(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                             int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).broadcast(root_input_of(comm, root, input), output_of(output), root,
                                    options_of(options));
  });
}

ccoll_result ccoll_broadcast_async(ccoll_comm comm, const ccoll_block* input,
                                   const ccoll_block* output, int32_t root,
                                   const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).broadcast_async(root_input_of(comm, root, input),
                                                 output_of(output), root, options_of(options));
  });
}

ccoll_result ccoll_all_gather(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                              const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_gather(input_of(input), output_of(output), options_of(options));
  });
}

ccoll_result ccoll_all_gather_async(ccoll_comm comm, const ccoll_block* input,
                                    const ccoll_block* output, const ccoll_call_options* options,
                                    ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_gather_async(input_of(input), output_of(output),
                                                  options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter(ccoll_comm comm, const ccoll_block* input,
                                  const ccoll_block* output, ccoll_reduction op,
                                  const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).reduce_scatter(input_of(input), output_of(output), reduction_of(op),
                                         options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter_async(ccoll_comm comm, const ccoll_block* input,
                                        const ccoll_block* output, ccoll_reduction op,
                                        const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).reduce_scatter_async(input_of(input), output_of(output),
                                                      reduction_of(op), options_of(options));
  });
}

ccoll_result ccoll_all_to_all(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                              const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_to_all(input_of(input), output_of(output), options_of(options));
  });
}

ccoll_result ccoll_all_to_all_async(ccoll_comm comm, const ccoll_block* input,
                                    const ccoll_block* output, const ccoll_call_options* options,
                                    ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_to_all_async(input_of(input), output_of(output),
                                                  options_of(options));
  });
}

ccoll_result ccoll_gather(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                          int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).gather(input_of(input), root_output_of(comm, root, output), root,
                                 options_of(options));
  });
}

ccoll_result ccoll_gather_async(ccoll_comm comm, const ccoll_block* input,
                                const ccoll_block* output, int32_t root,
                                const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).gather_async(input_of(input), root_output_of(comm, root, output),
                                              root, options_of(options));
  });
}

ccoll_result ccoll_scatter(ccoll_comm comm, const ccoll_block* input, const ccoll_block* output,
                           int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).scatter(root_input_of(comm, root, input), output_of(output), root,
                                  options_of(options));
  });
}

ccoll_result ccoll_scatter_async(ccoll_comm comm, const ccoll_block* input,
                                 const ccoll_block* output, int32_t root,
                                 const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).scatter_async(root_input_of(comm, root, input), output_of(output),
                                               root, options_of(options));
  });
}

ccoll_result ccoll_barrier(ccoll_comm comm, const ccoll_call_options* options) {
  return guarded([&] { communicator_of(comm).barrier(options_of(options)); });
}

ccoll_result ccoll_barrier_async(ccoll_comm comm, const ccoll_call_options* options,
                                 ccoll_work* work) {
  return begun(work, [&] { return communicator_of(comm).barrier_async(options_of(options)); });
}

ccoll_result ccoll_all_gather_v(ccoll_comm comm, const ccoll_block* input,
                                const ccoll_block* outputs, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_gather_v(input_of(input), list_of<Block>(comm, outputs),
                                       options_of(options));
  });
}

ccoll_result ccoll_all_gather_v_async(ccoll_comm comm, const ccoll_block* input,
                                      const ccoll_block* outputs, const ccoll_call_options* options,
                                      ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_gather_v_async(input_of(input), list_of<Block>(comm, outputs),
                                                    options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter_v(ccoll_comm comm, const ccoll_block* inputs,
                                    const ccoll_block* output, ccoll_reduction op,
                                    const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).reduce_scatter_v(list_of<ConstBlock>(comm, inputs), output_of(output),
                                           reduction_of(op), options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter_v_async(ccoll_comm comm, const ccoll_block* inputs,
                                          const ccoll_block* output, ccoll_reduction op,
                                          const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).reduce_scatter_v_async(list_of<ConstBlock>(comm, inputs),
                                                        output_of(output), reduction_of(op),
                                                        options_of(options));
  });
}

ccoll_result ccoll_all_to_all_v(ccoll_comm comm, const ccoll_block* inputs,
                                const ccoll_block* outputs, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_to_all_v(list_of<ConstBlock>(comm, inputs),
                                       list_of<Block>(comm, outputs), options_of(options));
  });
}

ccoll_result ccoll_all_to_all_v_async(ccoll_comm comm, const ccoll_block* inputs,
                                      const ccoll_block* outputs, const ccoll_call_options* options,
                                      ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_to_all_v_async(
        list_of<ConstBlock>(comm, inputs), list_of<Block>(comm, outputs), options_of(options));
  });
}

ccoll_result ccoll_gather_v(ccoll_comm comm, const ccoll_block* input, const ccoll_block* outputs,
                            int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).gather_v(input_of(input), list_of<Block>(comm, outputs), root,
                                   options_of(options));
  });
}

ccoll_result ccoll_gather_v_async(ccoll_comm comm, const ccoll_block* input,
                                  const ccoll_block* outputs, int32_t root,
                                  const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).gather_v_async(input_of(input), list_of<Block>(comm, outputs),
                                                root, options_of(options));
  });
}

ccoll_result ccoll_scatter_v(ccoll_comm comm, const ccoll_block* inputs, const ccoll_block* output,
                             int32_t root, const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).scatter_v(list_of<ConstBlock>(comm, inputs), output_of(output), root,
                                    options_of(options));
  });
}

ccoll_result ccoll_scatter_v_async(ccoll_comm comm, const ccoll_block* inputs,
                                   const ccoll_block* output, int32_t root,
                                   const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).scatter_v_async(list_of<ConstBlock>(comm, inputs),
                                                 output_of(output), root, options_of(options));
  });
}

ccoll_result ccoll_all_reduce_coalesced(ccoll_comm comm, const ccoll_block_pair* pairs,
                                        size_t count, ccoll_reduction op,
                                        const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).all_reduce(pairs_of(pairs, count), reduction_of(op), options_of(options));
  });
}

ccoll_result ccoll_all_reduce_coalesced_async(ccoll_comm comm, const ccoll_block_pair* pairs,
                                              size_t count, ccoll_reduction op,
                                              const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_reduce_async(pairs_of(pairs, count), reduction_of(op),
                                                  options_of(options));
  });
}

ccoll_result ccoll_reduce_coalesced(ccoll_comm comm, const ccoll_block_pair* pairs, size_t count,
                                    ccoll_reduction op, int32_t root,
                                    const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).reduce(pairs_of(pairs, count), reduction_of(op), root,
                                 options_of(options));
  });
}

ccoll_result ccoll_reduce_coalesced_async(ccoll_comm comm, const ccoll_block_pair* pairs,
                                          size_t count, ccoll_reduction op, int32_t root,
                                          const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).reduce_async(pairs_of(pairs, count), reduction_of(op), root,
                                              options_of(options));
  });
}

ccoll_result ccoll_broadcast_coalesced(ccoll_comm comm, const ccoll_block_pair* pairs, size_t count,
                                       int32_t root, const ccoll_call_options* options) {
  return guarded(
      [&] { communicator_of(comm).broadcast(pairs_of(pairs, count), root, options_of(options)); });
}

ccoll_result ccoll_broadcast_coalesced_async(ccoll_comm comm, const ccoll_block_pair* pairs,
                                             size_t count, int32_t root,
                                             const ccoll_call_options* options, ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).broadcast_async(pairs_of(pairs, count), root, options_of(options));
  });
}

ccoll_result ccoll_all_gather_coalesced(ccoll_comm comm, const ccoll_block_pair* pairs,
                                        size_t count, const ccoll_call_options* options) {
  return guarded(
      [&] { communicator_of(comm).all_gather(pairs_of(pairs, count), options_of(options)); });
}

ccoll_result ccoll_all_gather_coalesced_async(ccoll_comm comm, const ccoll_block_pair* pairs,
                                              size_t count, const ccoll_call_options* options,
                                              ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).all_gather_async(pairs_of(pairs, count), options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter_coalesced(ccoll_comm comm, const ccoll_block_pair* pairs,
                                            size_t count, ccoll_reduction op,
                                            const ccoll_call_options* options) {
  return guarded([&] {
    communicator_of(comm).reduce_scatter(pairs_of(pairs, count), reduction_of(op),
                                         options_of(options));
  });
}

ccoll_result ccoll_reduce_scatter_coalesced_async(ccoll_comm comm, const ccoll_block_pair* pairs,
                                                  size_t count, ccoll_reduction op,
                                                  const ccoll_call_options* options,
                                                  ccoll_work* work) {
  return begun(work, [&] {
    return communicator_of(comm).reduce_scatter_async(pairs_of(pairs, count), reduction_of(op),
                                                      options_of(options));
  });
}

ccoll_result ccoll_broadcast_bytes(ccoll_comm comm, const void* bytes, size_t size, int32_t root,
                                   const ccoll_call_options* options, ccoll_bytes* out) {
  return guarded([&] {
    given(out, "the place for the bytes") = {nullptr, 0};
    const auto got =
        communicator_of(comm).broadcast_bytes(view_of(bytes, size), root, options_of(options));
    auto* const data = std::malloc(std::max<std::size_t>(got.size(), 1));
    if (data == nullptr) throw std::bad_alloc();
    std::memcpy(data, got.data(), got.size());
    *out = {data, got.size()};
  });
}

ccoll_result ccoll_all_gather_bytes(ccoll_comm comm, const void* bytes, size_t size,
                                    const ccoll_call_options* options, ccoll_bytes** out) {
  return guarded([&] {
    given(out, "the place for the bytes") = nullptr;
    *out =
        copied(communicator_of(comm).all_gather_bytes(view_of(bytes, size), options_of(options)));
  });
}

ccoll_result ccoll_gather_bytes(ccoll_comm comm, const void* bytes, size_t size, int32_t root,
                                const ccoll_call_options* options, ccoll_bytes** out) {
  return guarded([&] {
    given(out, "the place for the bytes") = nullptr;
    auto& communicator = communicator_of(comm);
    const auto all = communicator.gather_bytes(view_of(bytes, size), root, options_of(options));
    if (communicator.rank() == root) *out = copied(all);
  });
}
