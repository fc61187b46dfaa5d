// SPDX-License-Identifier: Apache-2.0
// Wrong calls of the C interface, and what each kind of call returns. docs/examples/operations.c
// shows that every operation works.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ccoll/ccoll.h"

namespace {

/// Two ranks of this process, closed at the end.
class Pair {
 public:
  Pair() {
    ccoll_options options;
    REQUIRE(ccoll_options_init(&options, sizeof options) == CCOLL_OK);
    options.transport = "inproc";
    REQUIRE(ccoll_create_all(2, &options, nullptr, ranks) == CCOLL_OK);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (auto* rank : ranks) CHECK(ccoll_close(rank) == CCOLL_OK);
  }

  ccoll_comm ranks[2] = {};
};

ccoll_block of(std::vector<float>& data) {
  return ccoll_block_of(data.data(), data.size(), CCOLL_FLOAT32);
}

/// Checks that a call is refused as a wrong argument, with a text that contains `why`.
void refused(ccoll_result result, const std::string& why) {
  CHECK(result == CCOLL_INVALID_ARGUMENT);
  CHECK_THAT(ccoll_error_text(), Catch::Contains(why));
}

using Ask = ccoll_result (*)(ccoll_comm, char*, std::size_t, std::size_t*);
std::string asked(Ask ask, ccoll_comm comm) {
  std::size_t needed = 0;
  REQUIRE(ask(comm, nullptr, 0, &needed) == CCOLL_OK);
  std::string text(needed, '?');
  REQUIRE(ask(comm, text.data(), text.size(), nullptr) == CCOLL_OK);
  REQUIRE(text.back() == '\0');
  text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("c: results have names, and there is always a text", "[faces][c]") {
  CHECK(ccoll_result_name(CCOLL_OK) == std::string("ok"));
  CHECK(ccoll_result_name(CCOLL_TIMED_OUT) == std::string("timed_out"));
  CHECK(ccoll_result_name(CCOLL_INTERNAL) == std::string("internal"));
  CHECK(ccoll_result_name(static_cast<ccoll_result>(10)) == std::string("unknown"));
  CHECK(ccoll_result_name(static_cast<ccoll_result>(-1)) == std::string("unknown"));
  CHECK(ccoll_c_api() == CCOLL_C_API);
  std::thread([] { CHECK(ccoll_error_text() == std::string()); }).join();
}

TEST_CASE("c: null handles and null places are refused, and freeing null does nothing",
          "[faces][c]") {
  std::int32_t number = 0;
  refused(ccoll_rank(nullptr, &number), "the communicator is NULL");
  refused(ccoll_barrier(nullptr, nullptr), "the communicator is NULL");
  refused(ccoll_create(nullptr, nullptr), "the place for the new handle is NULL");
  refused(ccoll_create_all(2, nullptr, nullptr, nullptr), "is NULL");
  refused(ccoll_work_wait(nullptr, 0), "the work is NULL");
  refused(ccoll_unique_id_create(nullptr, nullptr), "the id is NULL");
  refused(ccoll_options_init(nullptr, sizeof(ccoll_options)), "ccoll_options is NULL");
  CHECK(ccoll_close(nullptr) == CCOLL_OK);
  ccoll_work_free(nullptr);
  ccoll_store_free(nullptr);
  ccoll_store_server_free(nullptr);
  ccoll_memory_free(nullptr);
  ccoll_reduction_free(CCOLL_SUM);
  ccoll_free(nullptr);
}

TEST_CASE("c: numbers that are no enumerators are refused by their value", "[faces][c]") {
  const Pair pair;
  float value = 1;
  const ccoll_block wrong = {&value, 1, 256 + CCOLL_FLOAT32, 0, 0, 0};
  const ccoll_block right = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
  refused(ccoll_all_reduce(pair.ranks[0], &wrong, &wrong, CCOLL_SUM, nullptr), "type 266");
  const auto no_type = ccoll_block_of(&value, 1, static_cast<ccoll_type>(-1));
  refused(ccoll_all_reduce(pair.ranks[0], &no_type, &no_type, CCOLL_SUM, nullptr), "type -1");
  refused(ccoll_all_reduce(pair.ranks[0], &right, &right, 8, nullptr), "reduction 8");
  for (const std::intptr_t number : {-1, -8, 4097, 5000, INT32_MIN})
    refused(ccoll_all_reduce(pair.ranks[0], &right, &right, static_cast<ccoll_reduction>(number),
                             nullptr),
            "reduction " + std::to_string(number) + " is not a ccoll_op");
  refused(ccoll_all_reduce(pair.ranks[0], &right, &right, UINT32_MAX, nullptr), "reduction ");
  ccoll_reduction_free(static_cast<ccoll_reduction>(-1));
  ccoll_memory memory = nullptr;
  refused(ccoll_memory_allocate(1, -1, 0, &memory), "where is -1");
  ccoll_comm part = nullptr;
  refused(ccoll_split(pair.ranks[0], -5, 0, nullptr, &part), "-5: expected 0 or more, or CCOLL_NO");
  ccoll_options options;
  REQUIRE(ccoll_options_init(&options, sizeof options) == CCOLL_OK);
  options.device_way = 4;
  ccoll_comm made = nullptr;
  refused(ccoll_create(&options, &made), "device_way is 4");
  CHECK(made == nullptr);
}

TEST_CASE("c: flags are 0 or 1, and reserved fields 0", "[faces][c]") {
  const Pair pair;
  using Flag = std::pair<const char*, std::int32_t ccoll_options::*>;
  for (const auto& [name, flag] :
       {Flag("deterministic", &ccoll_options::deterministic),
        Flag("checksum", &ccoll_options::checksum),
        Flag("strict_sends", &ccoll_options::strict_sends),
        Flag("shm_single_copy", &ccoll_options::shm_single_copy),
        Flag("shm_huge_pages", &ccoll_options::shm_huge_pages),
        Flag("device_direct_messages", &ccoll_options::device_direct_messages)}) {
    ccoll_options options;
    REQUIRE(ccoll_options_init(&options, sizeof options) == CCOLL_OK);
    options.*flag = 5;
    ccoll_comm made = nullptr;
    refused(ccoll_create(&options, &made), std::string(name) + " is 5: expected 0 or 1");
  }
  float value = 1;
  auto block = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
  ccoll_call_options call;
  REQUIRE(ccoll_call_options_init(&call, sizeof call) == CCOLL_OK);
  call.reserved = 7;
  refused(ccoll_all_reduce(pair.ranks[0], &block, &block, CCOLL_SUM, &call),
          "ccoll_call_options: reserved is 7: expected 0");
  call.reserved = 0;
  call.has_stream = 2;
  refused(ccoll_barrier(pair.ranks[0], &call), "has_stream is 2: expected 0 or 1");
  ccoll_message message = {block, 2, 1, 0, 0};
  refused(ccoll_batch(pair.ranks[0], &message, 1, nullptr, nullptr), "receives is 2: expected 0");
  message.receives = 0;
  message.reserved = 3;
  refused(ccoll_batch(pair.ranks[0], &message, 1, nullptr, nullptr),
          "ccoll_message: reserved is 3");
  block.reserved = 4;
  refused(ccoll_send(pair.ranks[0], &block, 1, 0, nullptr), "ccoll_block: reserved is 4");
}

TEST_CASE("c: blocks are rows with gaps between them, on either side", "[faces][c]") {
  constexpr std::size_t kRows = 5, kColumns = 4, kOwn = 2;
  const Pair pair;
  const auto columns_of = [](std::vector<float>& matrix, std::size_t first) {
    return ccoll_block{matrix.data() + first, kRows * kOwn, CCOLL_FLOAT32, 0, kOwn, kColumns};
  };
  const auto run = [&](std::size_t rank) {
    std::vector<float> own(kRows * kOwn), matrix(kRows * kColumns, -1);
    for (std::size_t i = 0; i < own.size(); i++) own[i] = static_cast<float>(10 * rank + i % kOwn);
    const auto input = of(own);
    const ccoll_block outputs[] = {columns_of(matrix, 0), columns_of(matrix, kOwn)};
    auto result = ccoll_gather_v(pair.ranks[rank], &input, outputs, 0, nullptr);
    if (result != CCOLL_OK) return std::pair(result, matrix);
    // The root's columns 1 and 2 are added to the other rank's, which are all -1.
    const auto middle = columns_of(matrix, 1);
    result = ccoll_all_reduce(pair.ranks[rank], &middle, &middle, CCOLL_SUM, nullptr);
    return std::pair(result, matrix);
  };
  auto other = std::async(std::launch::async, run, 1);
  const auto [result, matrix] = run(0);
  const auto [others_result, others_matrix] = other.get();
  REQUIRE((result == CCOLL_OK && others_result == CCOLL_OK));
  for (std::size_t row = 0; row < kRows; row++) {
    const auto begin = static_cast<std::ptrdiff_t>(row * kColumns);
    CHECK(std::vector(matrix.begin() + begin, matrix.begin() + begin + kColumns) ==
          std::vector<float>{0, 0, 9, 11});
    CHECK(std::vector(others_matrix.begin() + begin, others_matrix.begin() + begin + kColumns) ==
          std::vector<float>{-1, 0, 9, -1});
  }
}

TEST_CASE("c: a block that is needed and NULL is refused", "[faces][c]") {
  const Pair pair;
  auto* const rank = pair.ranks[0];
  float value = 1;
  const auto block = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
  ccoll_work work = nullptr;
  refused(ccoll_all_reduce(rank, nullptr, nullptr, CCOLL_SUM, nullptr), "put is NULL");
  refused(ccoll_all_reduce(rank, nullptr, &block, CCOLL_SUM, nullptr), "the input is NULL");
  refused(ccoll_all_reduce(rank, &block, nullptr, CCOLL_SUM, nullptr), "the output is NULL");
  refused(ccoll_all_gather_async(rank, &block, nullptr, nullptr, &work), "the output is NULL");
  refused(ccoll_reduce_scatter(rank, nullptr, &block, CCOLL_SUM, nullptr), "the input is NULL");
  refused(ccoll_all_to_all(rank, nullptr, &block, nullptr), "the input is NULL");
  refused(ccoll_reduce(rank, nullptr, nullptr, CCOLL_SUM, 1, nullptr), "the input is NULL");
  refused(ccoll_reduce(rank, &block, nullptr, CCOLL_SUM, 0, nullptr), "the output of the root is");
  refused(ccoll_gather(rank, &block, nullptr, 0, nullptr), "the output of the root is NULL");
  refused(ccoll_scatter(rank, nullptr, &block, 0, nullptr), "the input of the root is NULL");
  refused(ccoll_broadcast(rank, nullptr, &block, 0, nullptr), "the input of the root is NULL");
  refused(ccoll_scatter_v(rank, nullptr, nullptr, 1, nullptr), "the output is NULL");
  refused(ccoll_gather_v(rank, nullptr, nullptr, 1, nullptr), "the input is NULL");
  CHECK(work == nullptr);
}

TEST_CASE("c: structs of an older or a newer program are understood", "[faces][c]") {
  const Pair pair;
  float value = 1;
  const ccoll_block block = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
  // An older struct, which ends after the time limit: memory behind it is not read.
  ccoll_call_options options;
  std::memset(&options, 0xff, sizeof options);
  options.size = offsetof(ccoll_call_options, algorithm);
  options.timeout_ms = -5;
  refused(ccoll_all_reduce(pair.ranks[0], &block, &block, CCOLL_SUM, &options), "-5 ms");
  // A newer struct.
  struct {
    ccoll_call_options known;
    std::int64_t unknown[2];
  } newer = {};
  REQUIRE(ccoll_call_options_init(&newer.known, sizeof newer) == CCOLL_OK);
  CHECK(newer.known.size == sizeof newer);
  newer.known.timeout_ms = -6;
  refused(ccoll_all_reduce(pair.ranks[0], &block, &block, CCOLL_SUM, &newer.known), "-6 ms");
  newer.unknown[1] = 1;
  refused(ccoll_all_reduce(pair.ranks[0], &block, &block, CCOLL_SUM, &newer.known),
          "the others are not all 0");
  newer.known.size = 0;
  refused(ccoll_all_reduce(pair.ranks[0], &block, &block, CCOLL_SUM, &newer.known),
          "use its _init function");
}

TEST_CASE("c: one thread drives two ranks in a group, also asynchronously", "[faces][c]") {
  const Pair pair;
  std::vector<float> data[2] = {{1, 2}, {10, 20}};
  REQUIRE(ccoll_group_begin() == CCOLL_OK);
  for (int r = 0; r < 2; r++) {
    const auto block = of(data[r]);
    REQUIRE(ccoll_all_reduce(pair.ranks[r], &block, &block, CCOLL_SUM, nullptr) == CCOLL_OK);
  }
  REQUIRE(ccoll_group_end() == CCOLL_OK);
  for (const auto& each : data) CHECK(each == std::vector<float>{11, 22});

  ccoll_work works[2] = {};
  std::vector<float> got(2);
  const auto out = of(data[0]), in = of(got);
  REQUIRE(ccoll_recv_async(pair.ranks[1], &in, 0, 3, nullptr, &works[1]) == CCOLL_OK);
  std::int32_t is_over = 1;
  CHECK(ccoll_work_test(works[1], &is_over) == CCOLL_OK);
  CHECK(is_over == 0);
  CHECK(ccoll_work_wait(works[1], 0) == CCOLL_TIMED_OUT);
  std::promise<std::string> told;
  const auto tell = [](ccoll_result result, const char* text, void* user) {
    static_cast<std::promise<std::string>*>(user)->set_value(std::to_string(result) + text);
  };
  REQUIRE(ccoll_work_on_done(works[1], tell, &told) == CCOLL_OK);
  CHECK(ccoll_work_on_done(works[1], nullptr, nullptr) == CCOLL_INVALID_ARGUMENT);
  REQUIRE(ccoll_send_async(pair.ranks[0], &out, 1, 3, nullptr, &works[0]) == CCOLL_OK);
  CHECK(told.get_future().get() == "0");
  for (auto* work : works) CHECK(ccoll_work_wait(work, -1) == CCOLL_OK);
  ccoll_received came = {};
  CHECK(ccoll_work_received(works[1], 0, &came) == CCOLL_OK);
  CHECK((came.from == 0 && came.tag == 3 && came.count == 2 && came.bytes == 8));
  CHECK(got == data[0]);
  for (auto* work : works) ccoll_work_free(work);
}

TEST_CASE("c: texts are cut to their buffer, and end with a NUL", "[faces][c]") {
  const Pair pair;
  CHECK(asked(ccoll_name, pair.ranks[0]) == "world");
  CHECK(asked(ccoll_comm_error, pair.ranks[0]).empty());
  CHECK_THAT(asked(ccoll_dump, pair.ranks[0]), Catch::StartsWith("{"));
  char four[] = "....";
  std::size_t needed = 0;
  CHECK(ccoll_name(pair.ranks[0], four, 4, &needed) == CCOLL_OK);
  CHECK(four == std::string("wor"));
  CHECK(needed == 6);
  refused(ccoll_name(pair.ranks[0], nullptr, 4, nullptr), "is NULL");
  char text[32];
  double predicted = -1;
  CHECK(ccoll_predicted_time(pair.ranks[0], "all_reduce", 1000, CCOLL_INT32, nullptr, &predicted) ==
        CCOLL_OK);
  CHECK(predicted > 0);
  refused(ccoll_predicted_time(pair.ranks[0], "all_reduce", 1, CCOLL_INT32, nullptr, nullptr),
          "nanoseconds");
  CHECK(ccoll_transport_to(pair.ranks[0], 1, text, sizeof text, nullptr) == CCOLL_OK);
  CHECK(text == std::string("inproc"));
  refused(ccoll_transport_to(pair.ranks[0], 2, text, sizeof text, nullptr), "rank 2");
}

TEST_CASE("c: a reduction's function that fails ends the call on all ranks", "[faces][c]") {
  const Pair pair;
  ccoll_reduction reduction = CCOLL_SUM;
  const auto fails = [](const void*, void*, std::size_t, std::int32_t, void* context) {
    return *static_cast<std::int32_t*>(context);
  };
  std::int32_t seven = 7;
  REQUIRE(ccoll_reduction_custom(fails, &seven, "fails", 1, &reduction) == CCOLL_OK);
  ccoll_result results[2] = {};
  std::string texts[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; r++)
    threads.emplace_back([&, r] {
      float value = 1;
      const auto block = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
      results[r] = ccoll_all_reduce(pair.ranks[r], &block, &block, reduction, nullptr);
      texts[r] = ccoll_error_text();
    });
  for (auto& thread : threads) thread.join();
  ccoll_reduction_free(reduction);
  for (int r = 0; r < 2; r++) {
    CHECK(results[r] == CCOLL_ABORTED);
    CHECK_THAT(texts[r], Catch::Contains("returned 7"));
  }
  CHECK_THAT(asked(ccoll_comm_error, pair.ranks[0]), Catch::Contains("returned 7"));
}

TEST_CASE("c: an error tells the rank that it names, in on_done too", "[faces][c]") {
  const Pair pair;
  float value = 1;
  const auto block = ccoll_block_of(&value, 1, CCOLL_FLOAT32);
  ccoll_work work = nullptr;
  REQUIRE(ccoll_recv_async(pair.ranks[0], &block, 1, 0, nullptr, &work) == CCOLL_OK);
  std::promise<std::int32_t> told;
  const auto tell = [](ccoll_result, const char*, void* user) {
    static_cast<std::promise<std::int32_t>*>(user)->set_value(ccoll_error_culprit());
  };
  REQUIRE(ccoll_work_on_done(work, tell, &told) == CCOLL_OK);
  REQUIRE(ccoll_abort(pair.ranks[1], "enough") == CCOLL_OK);
  CHECK(ccoll_work_wait(work, -1) == CCOLL_ABORTED);
  CHECK(ccoll_error_culprit() == 1);
  CHECK(told.get_future().get() == 1);
  ccoll_work_free(work);
  CHECK(ccoll_rank(nullptr, nullptr) == CCOLL_INVALID_ARGUMENT);
  CHECK(ccoll_error_culprit() == -1);
}

TEST_CASE("c: counters tell what went where", "[faces][c]") {
  const Pair pair;
  std::vector<float> data(8), got(8);
  const auto out = of(data), in = of(got);
  REQUIRE(ccoll_send(pair.ranks[0], &out, 1, 0, nullptr) == CCOLL_OK);
  REQUIRE(ccoll_recv(pair.ranks[1], &in, 0, 0, nullptr, nullptr) == CCOLL_OK);
  ccoll_counters counters = {};
  refused(ccoll_get_counters(pair.ranks[0], &counters, nullptr, 0), "its size is 0 bytes");
  counters.size = sizeof counters;
  ccoll_peer_counters peers[2] = {};
  REQUIRE(ccoll_get_counters(pair.ranks[0], &counters, peers, 2) == CCOLL_OK);
  REQUIRE(counters.peers == 1);
  CHECK(peers[0].rank == 1);
  CHECK(peers[0].transport == std::string("inproc"));
  CHECK((peers[0].messages_sent == 1 && peers[0].bytes_sent == 32));
  CHECK(ccoll_get_counters(pair.ranks[0], &counters, nullptr, 0) == CCOLL_OK);
}

TEST_CASE("c: registered memory is shared memory of ccoll's", "[faces][c]") {
  ccoll_memory memory = nullptr;
  REQUIRE(ccoll_memory_allocate(1 << 20, CCOLL_WHERE_HOST, -1, &memory) == CCOLL_OK);
  CHECK(ccoll_memory_size(memory) == 1 << 20);
  std::memset(ccoll_memory_data(memory), 1, 1 << 20);
  std::int32_t is_free = 0;
  CHECK(ccoll_memory_reset_within(memory, 0, &is_free) == CCOLL_OK);
  CHECK(is_free == 1);
  ccoll_memory_free(memory);
  refused(ccoll_memory_allocate(0, CCOLL_WHERE_HOST, -1, &memory), "0");
  refused(ccoll_memory_allocate(1, 2, -1, &memory), "where is 2");
  CHECK(ccoll_memory_data(nullptr) == nullptr);
  CHECK(ccoll_memory_size(nullptr) == 0);
}

// A store of the caller's, kept in a map.
namespace {

struct Map {
  std::mutex mutex;
  std::map<std::string, std::string> values;
};

std::string text_of(ccoll_bytes bytes) { return {static_cast<char*>(bytes.data), bytes.size}; }

ccoll_bytes copy_of(const std::string& text) {
  ccoll_bytes bytes = {std::malloc(text.size() + 1), text.size()};
  std::memcpy(bytes.data, text.data(), text.size());
  return bytes;
}

ccoll_result set(void* context, ccoll_bytes key, ccoll_bytes value, std::int64_t) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  map.values[text_of(key)] = text_of(value);
  return CCOLL_OK;
}

ccoll_result get(void* context, ccoll_bytes key, std::int64_t timeout_ms, ccoll_bytes* value) {
  auto& map = *static_cast<Map*>(context);
  for (std::int64_t waited = 0; waited <= timeout_ms; waited++) {
    {
      const std::lock_guard lock(map.mutex);
      if (const auto found = map.values.find(text_of(key)); found != map.values.end()) {
        *value = copy_of(found->second);
        return CCOLL_OK;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return CCOLL_TIMED_OUT;
}

ccoll_result add(void* context, ccoll_bytes key, std::int64_t delta, std::int64_t,
                 std::int64_t* sum) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  auto& value = map.values[text_of(key)];
  *sum = std::atoll(value.c_str()) + delta;
  value = std::to_string(*sum);
  return CCOLL_OK;
}

ccoll_result compare_set(void* context, ccoll_bytes key, const ccoll_bytes* expected,
                         ccoll_bytes desired, std::int64_t, std::int32_t* was_set) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  const auto found = map.values.find(text_of(key));
  const bool is_there = found != map.values.end();
  *was_set = expected == nullptr ? !is_there : is_there && found->second == text_of(*expected);
  if (*was_set != 0) map.values[text_of(key)] = text_of(desired);
  return CCOLL_OK;
}

ccoll_result check(void* context, ccoll_bytes key, std::int64_t, std::int32_t* exists) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  *exists = static_cast<std::int32_t>(map.values.count(text_of(key)));
  return CCOLL_OK;
}

ccoll_result remove_key(void* context, ccoll_bytes key, std::int64_t, std::int32_t* existed) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  *existed = static_cast<std::int32_t>(map.values.erase(text_of(key)));
  return CCOLL_OK;
}

ccoll_result list(void* context, ccoll_bytes prefix, std::int64_t, ccoll_bytes** keys,
                  std::size_t* count) {
  auto& map = *static_cast<Map*>(context);
  const std::lock_guard lock(map.mutex);
  std::vector<std::string> found;
  for (const auto& [key, value] : map.values)
    if (key.rfind(text_of(prefix), 0) == 0) found.push_back(key);
  *count = found.size();
  *keys = static_cast<ccoll_bytes*>(std::malloc((found.size() + 1) * sizeof(ccoll_bytes)));
  for (std::size_t i = 0; i < found.size(); i++) (*keys)[i] = copy_of(found[i]);
  return CCOLL_OK;
}

}  // namespace

TEST_CASE("c: ranks meet at a store of the caller's, whose errors are told", "[faces][c]") {
  Map map;
  ccoll_store_functions functions = {sizeof functions, set,   get,        add,
                                     compare_set,      check, remove_key, list};
  ccoll_store store = nullptr;
  REQUIRE(ccoll_store_custom(&functions, &map, &store) == CCOLL_OK);
  ccoll_result results[3] = {};
  std::int32_t sums[3] = {};
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; r++)
    threads.emplace_back([&, r] {
      ccoll_comm comm = nullptr;
      results[r] = ccoll_create_store(store, r, 3, nullptr, &comm);
      if (results[r] != CCOLL_OK) return;
      sums[r] = r + 1;
      const auto block = ccoll_block_of(&sums[r], 1, CCOLL_INT32);
      results[r] = ccoll_all_reduce(comm, &block, &block, CCOLL_SUM, nullptr);
      ccoll_close(comm);
    });
  for (auto& thread : threads) thread.join();
  for (int r = 0; r < 3; r++) {
    CHECK(results[r] == CCOLL_OK);
    CHECK(sums[r] == 6);
  }
  ccoll_store_free(store);

  functions.set = [](void*, ccoll_bytes, ccoll_bytes, std::int64_t) { return CCOLL_PEER_LOST; };
  REQUIRE(ccoll_store_custom(&functions, &map, &store) == CCOLL_OK);
  ccoll_comm comm = nullptr;
  CHECK(ccoll_create_store(store, 0, 2, nullptr, &comm) == CCOLL_PEER_LOST);
  CHECK_THAT(ccoll_error_text(), Catch::Contains("set returned 4 (peer_lost)"));
  ccoll_store_free(store);
  functions.list = nullptr;
  refused(ccoll_store_custom(&functions, &map, &store), "a function is NULL");
  refused(ccoll_store_open("redis://x", nullptr, 1, &store), "'redis://x'");
}
