/* SPDX-License-Identifier: Apache-2.0
   Every operation once, from C: the twin of operations.cpp, which prints the same lines.
   cc-run -n 3 ./operations. Rank r of n begins with r + 1; the comments are for n = 3. */
#include <ccoll/ccoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 16, MOST_NUMBERS = MOST_RANKS * (MOST_RANKS + 1) };

/* Ends the program with the error's text where a call fails. */
static void check(ccoll_result result) {
  if (result == CCOLL_OK) return;
  fprintf(stderr, "%s: %s\n", ccoll_result_name(result), ccoll_error_text());
  exit(1);
}

static ccoll_block ints(int *data, int count) {
  return ccoll_block_of(data, (size_t)count, CCOLL_INT32);
}

static void show(int rank, const char *operation, const int *numbers, int count) {
  printf("rank %d  %-17s", rank, operation);
  for (int i = 0; i < count; i++) printf(" %d", numbers[i]);
  printf("\n");
}

static void show_bytes(int rank, const char *operation, ccoll_bytes bytes) {
  printf("rank %d  %-17s '%.*s'\n", rank, operation, (int)bytes.size, (const char *)bytes.data);
}

/* Blocks of one size. */
static void even(ccoll_comm world, int me, int n) {
  int mine[] = {me + 1}, one[1], all[MOST_RANKS], ramp[MOST_RANKS];
  for (int to = 0; to < n; to++) ramp[to] = 10 * (me + 1) + to;
  const ccoll_block my_block = ints(mine, 1), one_block = ints(one, 1), all_block = ints(all, n),
                    ramp_block = ints(ramp, n);

  check(ccoll_all_reduce(world, &my_block, &one_block, CCOLL_SUM, NULL)); /* 6 everywhere */
  show(me, "all_reduce", one, 1);
  check(ccoll_reduce(world, &my_block, &one_block, CCOLL_MAX, 0, NULL)); /* 3 at rank 0 */
  if (me == 0) show(me, "reduce max", one, 1);
  one[0] = me + 1;
  check(ccoll_broadcast(world, &one_block, &one_block, 0, NULL)); /* 1 everywhere */
  show(me, "broadcast", one, 1);
  check(ccoll_all_gather(world, &my_block, &all_block, NULL)); /* 1 2 3 everywhere */
  show(me, "all_gather", all, n);
  check(ccoll_gather(world, &my_block, me == 0 ? &all_block : NULL, 0, NULL)); /* 1 2 3 */
  if (me == 0) show(me, "gather", all, n);
  check(ccoll_scatter(world, me == 0 ? &ramp_block : NULL, &one_block, 0, NULL)); /* 10, 11, 12 */
  show(me, "scatter", one, 1);
  check(ccoll_reduce_scatter(world, &ramp_block, &one_block, CCOLL_SUM, NULL)); /* 60, 63, 66 */
  show(me, "reduce_scatter", one, 1);
  check(ccoll_all_to_all(world, &ramp_block, &all_block, NULL)); /* rank 1: 11 21 31 */
  show(me, "all_to_all", all, n);
  check(ccoll_barrier(world, NULL));

  ccoll_work work;
  check(ccoll_all_reduce_async(world, &my_block, &one_block, CCOLL_SUM, NULL, &work));
  check(ccoll_work_wait(work, -1));
  ccoll_work_free(work);
  show(me, "all_reduce_async", one, 1);
}

static int32_t greatest_divisor(const void *in, void *inout, size_t count, int32_t type,
                                void *context) {
  const int *left = in;
  int *right = inout;
  (void)type;
  (void)context;
  for (size_t i = 0; i < count; i++) {
    int a = left[i], b = right[i];
    while (b != 0) {
      const int rest = a % b;
      a = b;
      b = rest;
    }
    right[i] = a;
  }
  return 0;
}

/* What all_reduce, reduce and reduce_scatter combine by, beside the built-in operations. */
static void reductions(ccoll_comm world, int me) {
  int mine[] = {me + 1}, sixes[] = {12 + 6 * me}, one[1];
  const ccoll_block my_block = ints(mine, 1), six_block = ints(sixes, 1), one_block = ints(one, 1);
  ccoll_reduction weighted, divisor;
  const int32_t factor = me + 1;

  /* Every rank's own factor, here r + 1: 1*1 + 2*2 + 3*3 = 14. */
  check(ccoll_reduction_premultiplied(&factor, CCOLL_INT32, &weighted));
  check(ccoll_all_reduce(world, &my_block, &one_block, weighted, NULL));
  ccoll_reduction_free(weighted);
  show(me, "premultiplied_sum", one, 1);
  /* A function of the program's: the divisor of 12, 18 and 24 is 6. */
  check(ccoll_reduction_custom(greatest_divisor, NULL, "gcd", 1, &divisor));
  check(ccoll_all_reduce(world, &six_block, &one_block, divisor, NULL));
  ccoll_reduction_free(divisor);
  show(me, "custom", one, 1);
}

/* Blocks of different sizes: rank r's has r + 1 elements. */
static void uneven(ccoll_comm world, int me, int n) {
  int mine[MOST_RANKS], block[MOST_RANKS], all[MOST_NUMBERS], first = 0;
  ccoll_block blocks[MOST_RANKS];
  const ccoll_block my_block = ints(mine, me + 1), one_block = ints(block, me + 1);
  for (int i = 0; i <= me; i++) mine[i] = me + 1;
  for (int r = 0; r < n; r++) {
    blocks[r] = ints(all + first, r + 1); /* 1, 2 and 3 elements of `all` */
    first += r + 1;
  }

  check(ccoll_all_gather_v(world, &my_block, blocks, NULL)); /* 1 2 2 3 3 3 everywhere */
  show(me, "all_gather_v", all, first);
  check(ccoll_gather_v(world, &my_block, me == 0 ? blocks : NULL, 0, NULL)); /* the same, at 0 */
  if (me == 0) show(me, "gather_v", all, first);
  check(ccoll_scatter_v(world, me == 0 ? blocks : NULL, &one_block, 0, NULL)); /* rank 1: 2 2 */
  show(me, "scatter_v", block, me + 1);
  check(ccoll_reduce_scatter_v(world, blocks, &one_block, CCOLL_SUM, NULL)); /* rank 1: 6 6 */
  show(me, "reduce_scatter_v", block, me + 1);

  /* To the rank d places further round go d numbers, and none to itself. */
  ccoll_block to[MOST_RANKS], from[MOST_RANKS];
  int out[MOST_NUMBERS], in[MOST_NUMBERS], sent = 0, got = 0;
  for (int other = 0; other < n; other++) {
    const int going = (other + n - me) % n, coming = (me + n - other) % n;
    to[other] = ints(out + sent, going);
    from[other] = ints(in + got, coming);
    for (int i = 0; i < going; i++) out[sent + i] = 10 * (me + 1) + other;
    sent += going;
    got += coming;
  }
  /* Rank 1: one from rank 0, none of its own, two from rank 2: 11 31 31. */
  check(ccoll_all_to_all_v(world, to, from, NULL));
  show(me, "all_to_all_v", in, got);

  /* Several buffers in one call, each in place: 6, and 6 6. */
  int one[] = {me + 1}, two[] = {me + 1, me + 1};
  const ccoll_block_pair pairs[] = {{ints(one, 1), ints(one, 1)}, {ints(two, 2), ints(two, 2)}};
  check(ccoll_all_reduce_coalesced(world, pairs, 2, CCOLL_SUM, NULL));
  show(me, "two buffers", two, 2);
}

/* Whatever can be written as bytes: rank r says r times "ab". */
static void bytes(ccoll_comm world, int me, int n) {
  char word[2 * MOST_RANKS];
  ccoll_bytes last, *all;
  for (int r = 0; r < me; r++) memcpy(word + 2 * r, "ab", 2);
  const size_t length = 2 * (size_t)me;

  check(ccoll_broadcast_bytes(world, word, length, n - 1, NULL, &last));
  show_bytes(me, "broadcast_bytes", last); /* 'abab' */
  ccoll_free(last.data);
  check(ccoll_gather_bytes(world, word, length, 0, NULL, &all));
  for (int r = 0; me == 0 && r < n; r++) show_bytes(me, "gather_bytes", all[r]);
  ccoll_free(all);
  check(ccoll_all_gather_bytes(world, word, length, NULL, &all));
  for (int r = 0; r < n; r++) show_bytes(me, "all_gather_bytes", all[r]);
  ccoll_free(all);
}

/* Round the ring, and from whoever comes first. */
static void messages(ccoll_comm world, int me, int n) {
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  int mine[] = {me + 1}, got[1], both[2], several[MOST_RANKS];
  ccoll_received came;
  const ccoll_block my_block = ints(mine, 1), got_block = ints(got, 1);
  check(ccoll_send_recv(world, &my_block, next, &got_block, before, 0, NULL, NULL));
  show(me, "send_recv", got, 1); /* 3, 1, 2 */
  /* Both neighbours at once, in whatever order each rank lists them. Rank 1: 1 3. */
  const ccoll_message four[] = {{ints(mine, 1), 0, next, 1, 0},
                                {ints(mine, 1), 0, before, 2, 0},
                                {ints(both, 1), 1, before, 1, 0},
                                {ints(both + 1, 1), 1, next, 2, 0}};
  check(ccoll_batch(world, four, 4, NULL, NULL));
  show(me, "batch", both, 2);

  if (me > 0) check(ccoll_send(world, &my_block, 0, 7, NULL));
  for (int i = 1; me == 0 && i < n; i++) {
    check(ccoll_recv(world, &got_block, CCOLL_ANY_RANK, 7, NULL, &came));
    printf("rank %d  %-17s %d from rank %d\n", me, "recv", got[0], came.from);
  }
  /* Of a length that the receiver does not know: rank r sends r numbers. */
  for (int i = 0; i < me; i++) several[i] = me + 1;
  const ccoll_block my_numbers = ints(several, me);
  if (me > 0) check(ccoll_send(world, &my_numbers, 0, 8, NULL));
  for (int i = 1; me == 0 && i < n; i++) {
    check(ccoll_probe(world, CCOLL_ANY_RANK, 8, NULL, &came));
    const ccoll_block numbers = ints(several, (int)came.count);
    check(ccoll_recv(world, &numbers, came.from, came.tag, NULL, NULL));
    show(me, "probe", several, (int)came.count); /* 2, and 3 3 */
  }
  int32_t found;
  check(ccoll_try_probe(world, CCOLL_ANY_RANK, CCOLL_ANY_TAG, NULL, &found));
  if (!found) printf("rank %d  %-17s nothing is left\n", me, "try_probe");
}

/* Communicators of some of the ranks, and of others. */
static void communicators(ccoll_comm world, int me, int n) {
  int mine[] = {me + 1}, one[1], all[MOST_RANKS];
  const ccoll_block my_block = ints(mine, 1), one_block = ints(one, 1);
  ccoll_comm parity, backwards, own, pair[2];
  check(ccoll_split(world, me % 2, me, NULL, &parity)); /* all call; ranks 0 and 2, rank 1 */
  check(ccoll_all_reduce(parity, &my_block, &one_block, CCOLL_SUM, NULL)); /* 4, 2, 4 */
  show(me, "split", one, 1);
  check(ccoll_close(parity));
  int32_t members[MOST_RANKS]; /* only they call: all but the last, backwards */
  for (int i = 0; i < n - 1; i++) members[i] = n - 2 - i;
  if (me < n - 1) {
    check(ccoll_subgroup(world, members, n - 1, NULL, &backwards));
    const ccoll_block all_block = ints(all, n - 1);
    check(ccoll_all_gather(backwards, &my_block, &all_block, NULL)); /* 2 1 at ranks 0 and 1 */
    show(me, "subgroup", all, n - 1);
    check(ccoll_close(backwards));
  }
  check(ccoll_duplicate(world, NULL, &own)); /* a library's own */
  check(ccoll_barrier(own, NULL));
  check(ccoll_close(own));

  /* Ranks that an id brings together. Here two in every process, which this thread drives. */
  unsigned char id[CCOLL_UNIQUE_ID_BYTES];
  const int32_t both[] = {0, 1};
  int sums[] = {1, 2};
  check(ccoll_unique_id_create(id, NULL));
  check(ccoll_create_all_id(id, both, 2, 2, NULL, NULL, pair));
  check(ccoll_group_begin()); /* until its end, calls only begin */
  for (int r = 0; r < 2; r++) {
    const ccoll_block sum = ints(sums + r, 1);
    check(ccoll_all_reduce(pair[r], &sum, &sum, CCOLL_SUM, NULL));
  }
  check(ccoll_group_end());
  show(me, "CallGroup", sums, 2); /* 3 3 */
  for (int r = 0; r < 2; r++) check(ccoll_close(pair[r]));
}

int main(void) {
  ccoll_comm world;
  int32_t me, n;
  check(ccoll_create(NULL, &world));
  check(ccoll_rank(world, &me));
  check(ccoll_size(world, &n));
  if (n > MOST_RANKS) {
    fprintf(stderr, "at most %d ranks\n", MOST_RANKS);
    return 1;
  }
  even(world, me, n);
  reductions(world, me);
  uneven(world, me, n);
  bytes(world, me, n);
  messages(world, me, n);
  communicators(world, me, n);
  check(ccoll_close(world));
  return 0;
}
