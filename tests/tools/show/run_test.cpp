// SPDX-License-Identifier: Apache-2.0

/// A learner's schedule, and the diagnosis of a mistake in one line.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"
#include "schedule/text.hpp"
#include "show/model/schedule_file.hpp"
#include "show/real/execute.hpp"
#include "show/text/explain.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// Each rank starts with the block of its own number, unlike the library's ring.
std::string learners_ring() {
  std::string text = "# my first ring\nschedule all_reduce ranks 3 count 6\n";
  for (int rank = 0; rank < 3; ++rank) {
    const int next = (rank + 1) % 3;
    const int last = (rank + 2) % 3;
    text += fmt::format("program rank {} of 3 blocks 3\nlane 0\n", rank);
    text += fmt::format("  0: input[{}] -> send {}\n", rank, next);
    text += fmt::format("  1: recv {} + input[{}] -> send {}\n", last, last, next);
    text += fmt::format("  2: recv {} + input[{}] finish -> output[{}], send {}\n", last, next,
                        next, next);
    text += fmt::format("  3: recv {} -> output[{}], send {}\n", last, rank, next);
    text += fmt::format("  4: recv {} -> output[{}]\n", last, last);
  }
  return text;
}

/// The ring with one line, counted from 1, replaced; an empty one deletes it.
std::string with_line(std::size_t number, const std::string& instead) {
  std::istringstream lines(learners_ring());
  std::string text;
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);)
    text += (++at == number ? instead : line) + "\n";
  return text;
}

/// The explanation that learners get of a well-formed file.
std::string explained(const std::string& text) {
  auto file = parse_schedule_file(text);
  INFO((file ? std::string() : file.error().message));
  REQUIRE(file);
  return explanation(picture_of(std::move(*file)), 1000);
}

std::string refused_text(const std::string& text) {
  const auto file = parse_schedule_file(text);
  REQUIRE_FALSE(file);
  return file.error().message;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "schedule.XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    REQUIRE(descriptor >= 0);
    ::close(descriptor);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("cc-show run: a learner's ring is proven and drawn", "[show][unit]") {
  CHECK(explained(learners_ring()).empty());
  const TemporaryFile file(learners_ring());
  const auto output = answer({"run", file.path(), "--all"});
  REQUIRE(output);
  CHECK(output->status == 0);
  CHECK_THAT(output->text, Contains("all_reduce by a schedule of your own, 3 ranks, 6 elements"));
  CHECK_THAT(output->text, Contains("proven: "));
  CHECK_THAT(output->text, Contains("round 4 of 4") && Contains("9 of 9 results"));
  CHECK_THAT(said({"run", file.path(), "--rank", "1"}), Contains("receive-reduce-store-send"));
}

TEST_CASE("cc-show run: a message with the wrong block ends where it does not belong",
          "[show][unit]") {
  // Rank 0 stores the data of step 3 as block 1 instead of 0, and does not get block 0.
  const std::string text = explained(with_line(8, "  3: recv 2 -> output[1], send 1"));
  CHECK_THAT(text, Contains("rank 0, block A; nothing was stored there"));
  CHECK_THAT(text,
             Contains("rank 0, block B: its first element is 30, and should be 36; it is what "
                      "belongs to block A (all)"));
}

TEST_CASE("cc-show run: an own contribution that is left out is missed", "[show][unit]") {
  // Rank 0 forwards block 2 without adding its own.
  const std::string text =
      explained(with_line(6, "  1: recv 2 -> scratch[2], send 1")
                    .replace(learners_ring().find("lane 0\n"), 7, "lane 0 scratch 2\n"));
  CHECK_THAT(text, Contains("finishes block C too early: once from rank 1 2, none from rank 0"));
  CHECK_THAT(text, Contains("rank 1 lane 0 step 2 (line 14)"));
}

TEST_CASE("cc-show run: a contribution that is in twice is shown where it ends", "[show][unit]") {
  // Rank 1 sends back data that already contains rank 0's.
  const std::string text = explained(
      "schedule all_reduce ranks 2 count 2\n"
      "program rank 0 of 2 blocks 1\nlane 0\n"
      "  0: input[0] -> send 1\n"
      "  1: recv 1 + input[0] finish -> output[0]\n"
      "program rank 1 of 2 blocks 1\nlane 0 scratch 0\n"
      "  0: recv 0 + input[0] -> scratch[0], send 0\n"
      "  1: scratch[0] finish -> output[0]\n");
  CHECK_THAT(text, Contains("finishes block A with a contribution in it more than once"));
  CHECK_THAT(text, Contains("rank 0, block A") && Contains("rank 0's is in 2 times"));
  CHECK_THAT(text, !Contains("rank 1, block A"));
}

TEST_CASE("cc-show run: a result that no step finishes is told", "[show][unit]") {
  const std::string text = explained(with_line(7, "  2: recv 2 + input[1] -> output[1], send 1"));
  CHECK_THAT(text, Contains("it is complete, but no step finishes it"));
}

TEST_CASE("cc-show run: who receives before it sends waits in a cycle, with lines",
          "[show][unit]") {
  std::string text = learners_ring();
  for (int rank = 0; rank < 3; ++rank) {
    const std::string send = fmt::format("  0: input[{}] -> send {}\n", rank, (rank + 1) % 3);
    const std::size_t at = text.find(send);
    const std::size_t end = text.find('\n', at + send.size()) + 1;
    std::string receive = text.substr(at + send.size(), end - at - send.size());
    receive.replace(receive.find("1:"), 2, "0:");
    std::string later = send;
    later.replace(later.find("0:"), 2, "1:");
    text.replace(at, end - at, receive + later);
  }
  const std::string said_of_it = explained(text);
  CHECK_THAT(said_of_it, Contains("rank 0 -> rank 2 -> rank 1 -> rank 0\n"));
  CHECK_THAT(said_of_it,
             Contains("rank 0 (lane 0, step 0) (line 5) waits for a message from rank 2\n"));
  CHECK_THAT(said_of_it,
             Contains("rank 2 (lane 0, step 0) (line 19) waits for a message from rank 1\n"));
}

TEST_CASE("cc-show run: a message that nobody takes is told", "[show][unit]") {
  // Rank 2 does not wait for the last one.
  const std::string text = explained(with_line(23, ""));
  CHECK_THAT(text, Contains("rank 1 lane 0 sends 4 messages to rank 2, which takes 3"));
  CHECK_THAT(text, Contains("rank 2, block B; nothing was stored there"));
}

TEST_CASE("cc-show run: a forgotten finish is told as what it is", "[show][unit]") {
  // Like lesson 4's ring, but without `finish`: every result is complete.
  std::string text = learners_ring();
  for (std::size_t at = 0; (at = text.find(" finish", at)) != std::string::npos;)
    text.erase(at, std::string_view(" finish").size());
  const std::string said_of_it = explained(text);
  CHECK_THAT(said_of_it, Contains("Write finish in the step that adds the last contribution"));
  CHECK_THAT(said_of_it, !Contains("With equal elements"));
}

TEST_CASE("cc-show run: programs that are missing are named, and a comma between ranks",
          "[show][unit]") {
  const std::string ring = learners_ring();
  const std::string first = ring.substr(0, ring.find("program rank 1"));
  CHECK_THAT(refused_text(first), Contains("the programs of ranks 1 to 2 are missing"));
  CHECK_THAT(refused_text(ring.substr(0, ring.find("program rank 2"))),
             Contains("the program of rank 2 is missing: expected 3 in all"));
  CHECK_THAT(refused_text("schedule broadcast ranks 3 count 1 root 0\n"), Contains("no program"));
  std::string text = learners_ring();
  text.insert(text.find("send 1") + 6, ", 2");
  CHECK_THAT(refused_text(text), Contains("ranks are separated by blanks, as in send 1 2"));
}

/// A reduce to rank 0 of three, whose lanes may be replaced.
std::string reduce_to_0(const std::string& rank0, const std::string& rank1,
                        const std::string& rank2) {
  return "schedule reduce ranks 3 count 1 root 0\n"
         "program rank 0 of 3 blocks 1\nlane 0 scratch 1\n" +
         rank0 + "program rank 1 of 3 blocks 1\nlane 0 scratch 1\n" + rank1 +
         "program rank 2 of 3 blocks 1\nlane 0 scratch 1\n" + rank2;
}

const std::string kSendsTo0 = "  0: input[0] -> send 0\n";
const std::string kSumsAll = "  0: recv 1 + recv 2 + input[0] finish -> output[0]\n";

TEST_CASE("cc-show run: a message that never comes is waited for, and nobody is in a cycle",
          "[show][unit]") {
  CHECK(explained(reduce_to_0(kSumsAll, kSendsTo0, kSendsTo0)).empty());
  const std::string text = explained(reduce_to_0(kSumsAll, kSendsTo0, ""));
  CHECK_THAT(text, Contains("rank 0 (lane 0, step 0) (line 4) waits for a message from rank 2") &&
                       Contains("rank 2 (lane 0) is at its end, and sends no more"));
}

TEST_CASE("cc-show run: a contribution that is added twice is counted", "[show][unit]") {
  const std::string text = explained(
      reduce_to_0(kSumsAll, "  0: input[0] -> send 0 2\n", "  0: recv 1 + input[0] -> send 0\n"));
  CHECK_THAT(text, Contains("rank 0 lane 0 step 0 (line 4) window 0: finishes block A with a "
                            "contribution in it more than once: once from rank 0 2, 2 times from "
                            "rank 1"));
}

TEST_CASE("cc-show run: a message that nobody receives is named with its line", "[show][unit]") {
  const std::string text =
      explained(reduce_to_0(kSumsAll, "  0: input[0] -> send 0 2\n", kSendsTo0));
  CHECK_THAT(text, Contains("rank 1 lane 0 sends 1 message to rank 2, which takes 0") &&
                       Contains("Messages that nobody receives:\n"
                                "    rank 1 (lane 0, step 0) (line 7) sends to rank 2\n"));
}

TEST_CASE("cc-show run: what is overwritten before it is sent is told, with lines",
          "[show][unit]") {
  const auto all_reduce = [](const std::string& rank0) {
    return explained(
        "schedule all_reduce ranks 2 count 3\n"
        "program rank 0 of 2 blocks 1\nlane 0\n" +
        rank0 +
        "program rank 1 of 2 blocks 1\nlane 0\n  0: input[0] -> send 0\n"
        "  1: recv 0 + input[0] finish -> output[0]\n");
  };
  const std::string kSum = "recv 1 + input[0] finish -> output[0]\n";
  CHECK(all_reduce("  0: input[0] -> send 1\n  1: " + kSum).empty());
  // In place, the sum overwrites numbers that are still to be sent.
  CHECK_THAT(all_reduce("  0: " + kSum + "  1: input[0] -> send 1\n"),
             Contains("rank 0 lane 0 step 1 (line 5) window 0: reads input block A after output "
                      "block A, the same memory where the call is in place, was stored"));
  // Lent data may be read in place until the receiver has it.
  CHECK_THAT(all_reduce("  0: input[0] -> output[0], send 1 lend always\n  1: recv 1 + output[0] "
                        "finish -> output[0]\n"),
             Contains("rank 0 lane 0 step 1 (line 5) window 0: writes output block A while it may "
                      "still be lent by rank 0 lane 0 step 0 (line 4)"));
  // The rank sends back the other rank's numbers instead of its own.
  CHECK_THAT(
      all_reduce("  0: recv 1 -> output[0]\n  1: output[0] -> send 1\n"),
      Contains("with a contribution in it more than once: no rank once, 2 times from rank 1, none "
               "from rank 0"));
}

TEST_CASE("cc-show run: one that is right only for its own count is found", "[show][unit]") {
  // With one element the second block is empty, and no rank needs it.
  const std::string text = explained(
      "schedule broadcast ranks 2 count 1 root 0\n"
      "program rank 0 of 2 blocks 2\nlane 0\n"
      "  0: input[0] -> output[0], send 1\n  1: input[1] -> output[1]\n"
      "program rank 1 of 2 blocks 2\nlane 0\n  0: recv 0 -> output[0]\n");
  CHECK_THAT(text, Contains("with another count (three windows") &&
                       Contains("rank 1 output block B window 0: nothing was stored there"));
  CHECK_THAT(text, !Contains("Results that are wrong"));
}

TEST_CASE("cc-show run: what cannot be read is refused with line and reason", "[show][unit]") {
  CHECK_THAT(refused_text(with_line(6, "  1: recv 2 * input[2]")),
             Contains("line 6: expected the end of the line, found '*'"));
  CHECK_THAT(refused_text(with_line(5, "  0: input[0] -> send 3")),
             Contains("line 5: rank 3 of 3"));
  CHECK_THAT(refused_text(with_line(8, "")), Contains("line 9: step 4 where step 3 is next"));
  CHECK_THAT(refused_text(with_line(2, "")), Contains("expected 'schedule OPERATION ranks N"));
  const auto header = [](const std::string& line) { return refused_text(with_line(2, line)); };
  CHECK_THAT(header("schedule al_reduce ranks 3 count 6"),
             Contains("line 2: ") && Contains("did you mean all_reduce?"));
  CHECK_THAT(header("schedule all_reduce count 6"), Contains("line 2: expected 'ranks N'"));
  CHECK_THAT(header("schedule all_reduce ranks 4 count 6"),
             Contains("line 2: 4 ranks, but the programs are of 3"));
  CHECK_THAT(header("schedule all_reduce ranks 3 count x"),
             Contains("line 2: count x: expected a number"));
  CHECK_THAT(header("schedule all_reduce ranks 3 count"), Contains("count : expected a number"));
  CHECK_THAT(header("schedule all_reduce ranks 3 cuont 6"), Contains("did you mean count?"));
  CHECK_THAT(header("schedule broadcast ranks 3 count 6 root 3"), Contains("expected 0 to 2"));
  CHECK_THAT(refused_text(""), Contains("expected 'schedule OPERATION"));
  CHECK_THAT(refused({"run", "/nowhere/my.schedule"}),
             Contains("cannot read /nowhere/my.schedule: No such file"));
  CHECK_THAT(refused({"run", "/dev/null"}), Contains("cannot read /dev/null: it is empty"));
  CHECK_THAT(refused({"run", "/"}), Contains("cannot read /: Is a directory"));
  CHECK_THAT(refused({"run", "/dev/zero"}), Contains("it is longer than 64M bytes"));
  CHECK_THAT(refused({"run"}), Contains("FILE is required"));
}

TEST_CASE("cc-show run: a wrong form is explained with its line, and nothing is drawn",
          "[show][unit]") {
  const TemporaryFile file(with_line(6, "  1: recv 2 -> send 1"));
  const auto output = answer({"run", file.path(), "--all"});
  REQUIRE(output);
  CHECK(output->status == kWrong);
  CHECK_THAT(output->text, Contains("rank 0 lane 0 step 1 (line 6): neither local data nor"));
  CHECK_THAT(output->text, !Contains("round"));
}

TEST_CASE("cc-show run: every algorithm of the library can be written to a file and read back",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string text =
        said({"steps", std::string(to_string(entry.kind)), "-a",
              std::string(to_string(entry.algorithm)), "-n", "5", "--format", "schedule"});
    CAPTURE(text);
    CHECK(explained(text).empty());
    auto file = parse_schedule_file(text);
    REQUIRE(file);
    CHECK(std::string(to_string(std::span<const Program>(file->programs))) ==
          text.substr(text.find("program")));
  }
}

TEST_CASE("cc-show run: what the engine makes of a schedule is what its picture says",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const std::string type : {"int32", "float16", "bool"}) {
      const std::string text = said({"steps", std::string(to_string(entry.kind)), "-a",
                                     std::string(to_string(entry.algorithm)), "-n", "5", "-c", "13",
                                     "--dtype", type, "--format", "schedule"});
      auto file = parse_schedule_file(text);
      REQUIRE(file);
      const Picture picture = picture_of(std::move(*file));
      CAPTURE(text);
      const auto executed = execute(picture);
      INFO((executed ? std::string() : executed.error().message));
      REQUIRE(executed);
      CHECK(executed->wrong == 0);
      std::size_t elems = 0;
      for (const Numbers& output : executed->outputs) elems += output.size();
      CHECK((elems > 0 || entry.kind == Kind::barrier));
    }
  }
}

TEST_CASE("cc-show run --execute: prints what each rank has, but not of what is wrong",
          "[show][unit]") {
  const TemporaryFile right(learners_ring());
  const std::string text = said({"run", right.path(), "--execute"});
  CHECK_THAT(text, Contains("  rank 2    30 33 36 39 42 45\n"));
  CHECK_THAT(text, Contains("18 of 18 elements are what the picture says"));
  const TemporaryFile wrong(with_line(23, ""));
  const auto output = answer({"run", wrong.path(), "--execute", "--all"});
  REQUIRE(output);
  CHECK(output->status == kWrong);
  CHECK_THAT(output->text, Contains("WRONG") && !Contains("executed"));
  auto file = parse_schedule_file(with_line(23, ""));
  REQUIRE(file);
  CHECK_FALSE(execute(picture_of(std::move(*file))));
}

TEST_CASE("cc-show run --execute --transport: every algorithm gives the same over every transport",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string text = said({"steps", std::string(to_string(entry.kind)), "-a",
                                   std::string(to_string(entry.algorithm)), "-n", "3", "-c", "7",
                                   "--format", "schedule"});
    auto file = parse_schedule_file(text);
    REQUIRE(file);
    const Picture picture = picture_of(std::move(*file));
    CAPTURE(text);
    for (const std::string transport : {"shm", "tcp"}) {
      const auto executed = execute(picture, {.transport = transport, .timed = false});
      INFO((executed ? std::string() : executed.error().message));
      REQUIRE(executed);
      CHECK(executed->wrong == 0);
    }
  }
}

TEST_CASE("cc-show run --execute --transport: times stand beside the library's", "[show][unit]") {
  const TemporaryFile file(learners_ring());
  for (const std::string transport : {"inproc", "shm", "tcp"}) {
    const auto output =
        answer({"run", file.path(), "--execute", "--transport", transport, "--width", "200"});
    REQUIRE(output);
    CHECK(output->status == 0);
    CHECK_THAT(output->text, Contains(fmt::format("executed over {} links between 3", transport)));
    CHECK_THAT(output->text, Contains("  yours  ") && Contains("  ring  ") &&
                                 Contains("the same\n") && !Contains("NOT"));
    CHECK_THAT(output->text, !Contains("two_level"));
  }
  CHECK_THAT(refused({"run", file.path(), "--execute", "--transport", "ib"}),
             Contains("no transport 'ib'"));
  const TemporaryFile large(said({"steps", "barrier", "-n", "17", "--format", "schedule"}));
  for (const std::string transport : {"shm", "tcp"})
    CHECK_THAT(refused({"run", large.path(), "--execute", "--transport", transport}),
               Contains("with 17 ranks") && Contains("expected at most 16"));
  CHECK_THAT(said({"run", large.path(), "--execute"}), Contains("every rank has come"));
  CHECK_THAT(refused({"run", file.path(), "--transport", "tcp"}), Contains("expected --execute"));
}

TEST_CASE("cc-show run: the example of docs/schedule_format.md is right", "[show][unit]") {
  std::stringstream page;
  page << std::ifstream(CCOLL_SOURCE_ROOT "/docs/schedule_format.md").rdbuf();
  const std::string text = page.str();
  const std::string fence = "```schedule\n";
  const std::size_t begin = text.find(fence);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find("```", begin + fence.size());
  CHECK(explained(text.substr(begin + fence.size(), end - begin - fence.size())).empty());
}

}  // namespace
}  // namespace ccoll::show::test
