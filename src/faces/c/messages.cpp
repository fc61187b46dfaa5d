// SPDX-License-Identifier: Apache-2.0
// Messages, operations under way, and groups of calls.
#include "faces/c/face.hpp"

namespace {

using namespace ccoll::c;

ccoll_received received_of(const ccoll::Received& from) {
  return {.from = from.from, .tag = from.tag, .count = from.count, .bytes = from.bytes};
}

void tell(const ccoll::Received& what, ccoll_received* to) {
  if (to != nullptr) *to = received_of(what);
}

std::vector<ccoll::MessageRequest> requests_of(const ccoll_message* messages, std::size_t count) {
  if (count > 0) given(messages, "the list of messages");
  std::vector<ccoll::MessageRequest> requests;
  requests.reserve(count);
  for (const auto& each : std::span(messages, count)) {
    check_reserved(each.reserved, "ccoll_message");
    requests.push_back(
        flag_of(each.receives, "receives")
            ? ccoll::MessageRequest::recv(block_of(&each.block), each.peer, each.tag)
            : ccoll::MessageRequest::send(const_block_of(&each.block), each.peer, each.tag));
  }
  return requests;
}

ccoll::Work& work_of(ccoll_work work) { return given(work, "the work").work; }

}  // namespace

ccoll_result ccoll_send(ccoll_comm comm, const ccoll_block* block, int32_t to, int32_t tag,
                        const ccoll_call_options* options) {
  return guarded(
      [&] { communicator_of(comm).send(const_block_of(block), to, tag, options_of(options)); });
}

ccoll_result ccoll_send_async(ccoll_comm comm, const ccoll_block* block, int32_t to, int32_t tag,
                              const ccoll_call_options* options, ccoll_work* work) {
  return guarded([&] {
    hand_out(work, [&] {
      return communicator_of(comm).send_async(const_block_of(block), to, tag, options_of(options));
    });
  });
}

ccoll_result ccoll_recv(ccoll_comm comm, const ccoll_block* block, int32_t from, int32_t tag,
                        const ccoll_call_options* options, ccoll_received* received) {
  return guarded([&] {
    tell(communicator_of(comm).recv(block_of(block), from, tag, options_of(options)), received);
  });
}

ccoll_result ccoll_recv_async(ccoll_comm comm, const ccoll_block* block, int32_t from, int32_t tag,
                              const ccoll_call_options* options, ccoll_work* work) {
  return guarded([&] {
    hand_out(work, [&] {
      return communicator_of(comm).recv_async(block_of(block), from, tag, options_of(options));
    });
  });
}

ccoll_result ccoll_probe(ccoll_comm comm, int32_t from, int32_t tag,
                         const ccoll_call_options* options, ccoll_received* received) {
  return guarded(
      [&] { tell(communicator_of(comm).probe(from, tag, options_of(options)), received); });
}

ccoll_result ccoll_try_probe(ccoll_comm comm, int32_t from, int32_t tag, ccoll_received* received,
                             int32_t* found) {
  return guarded([&] {
    given(found, "the place for the answer") = 0;
    const auto there = communicator_of(comm).try_probe(from, tag);
    if (!there) return;
    tell(*there, received);
    *found = 1;
  });
}

ccoll_result ccoll_send_recv(ccoll_comm comm, const ccoll_block* out, int32_t to,
                             const ccoll_block* in, int32_t from, int32_t tag,
                             const ccoll_call_options* options, ccoll_received* received) {
  return guarded([&] {
    tell(communicator_of(comm).send_recv(const_block_of(out), to, block_of(in), from, tag,
                                         options_of(options)),
         received);
  });
}

ccoll_result ccoll_send_recv_async(ccoll_comm comm, const ccoll_block* out, int32_t to,
                                   const ccoll_block* in, int32_t from, int32_t tag,
                                   const ccoll_call_options* options, ccoll_work* work) {
  return guarded([&] {
    hand_out(work, [&] {
      return communicator_of(comm).send_recv_async(const_block_of(out), to, block_of(in), from, tag,
                                                   options_of(options));
    });
  });
}

ccoll_result ccoll_batch(ccoll_comm comm, const ccoll_message* messages, size_t count,
                         const ccoll_call_options* options, ccoll_received* received) {
  return guarded([&] {
    const auto came =
        communicator_of(comm).batch(requests_of(messages, count), options_of(options));
    if (received != nullptr) std::ranges::transform(came, received, received_of);
  });
}

ccoll_result ccoll_batch_async(ccoll_comm comm, const ccoll_message* messages, size_t count,
                               const ccoll_call_options* options, ccoll_work* work) {
  return guarded([&] {
    hand_out(work, [&] {
      return communicator_of(comm).batch_async(requests_of(messages, count), options_of(options));
    });
  });
}

ccoll_result ccoll_work_wait(ccoll_work work, int64_t limit_ms) {
  return guarded([&] {
    if (limit_ms < 0)
      work_of(work).wait();
    else
      work_of(work).wait(std::chrono::milliseconds(limit_ms));
  });
}

ccoll_result ccoll_work_test(ccoll_work work, int32_t* is_over) {
  return guarded([&] { given(is_over, "the place for the answer") = work_of(work).test(); });
}

ccoll_result ccoll_work_error(ccoll_work work, char* text, size_t size, size_t* needed) {
  return guarded([&] { write_text(work_of(work).error(), text, size, needed); });
}

ccoll_result ccoll_work_received(ccoll_work work, size_t receive, ccoll_received* received) {
  return guarded([&] {
    given(received, "the place for what came") = received_of(work_of(work).received(receive));
  });
}

ccoll_result ccoll_work_on_done(ccoll_work work, ccoll_told tell, void* user) {
  return guarded([&] {
    if (tell == nullptr) refuse("on_done: no function is given");
    work_of(work).on_done([tell, user](const ccoll::Error* error) {
      if (error == nullptr)
        tell(CCOLL_OK, "", user);
      else
        tell(result_of(*error), error->what(), user);
    });
  });
}

void ccoll_work_free(ccoll_work work) { delete work; }

ccoll_result ccoll_group_begin() {
  return guarded([] { ccoll::group_begin(); });
}

ccoll_result ccoll_group_end() {
  return guarded([] { ccoll::group_end(); });
}
