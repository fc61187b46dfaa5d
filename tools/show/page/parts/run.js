// SPDX-License-Identifier: Apache-2.0
// One run as the page's data have it: what every rank holds after every round, and what moves in
// it. Reads and counts; it knows nothing of how an algorithm works.

class Run {
  constructor(data) {
    Object.assign(this, data);
    /** Without what is there before the first. */
    this.count = this.rounds.length - 1;
    this.isMatrix = this.operation === 'all_to_all';
    /** Where on the common clock each round ends; the start is 0. */
    this.ends = this.rounds.slice(1).map((each, i) => each.end ?? i + 1);
    this.tables = this.rounds.map(each => this.tableOf(each));
    this.columns = range(this.tables[0][0]?.length ?? 0);
    for (const message of this.rounds.flatMap(each => each.messages)) {
      message.blocks = [...new Set(message.left.map(([, column]) => column))];
      message.action = message.reduces ? 'reduce' : 'copy';
      message.link = `${message.from} ${message.to}`;
      message.what = this.isMatrix ? this.pairName(message) : blockNames(message.blocks);
    }
    this.links = new Set(this.rounds.flatMap(each => each.messages).map(each => each.link));
    this.shapes = this.trees.some(isChain) ? [] : this.trees.map(treeShape);
  }

  tableOf({cells, done}) {
    return cells.map((contents, row) => contents.map((content, column) => ({
      column,
      content: this.contents[content] ?? null,
      done: done[row].includes(column),
    })));
  }

  /** What an all_to_all's message carries: each block is from a rank for a rank. */
  pairName({pieces}) {
    if (pieces.length > 1) return `${pieces.length} blocks`;
    const content = this.contents[pieces[0].content];
    return content ? `rank ${content.ranks[0]}'s block for rank ${content.block}` : 'a block';
  }

  sentence(round) { return this.rounds[round].sentence; }

  messages(round) { return this.rounds[round].messages; }

  /** How many links carry something in that round. */
  busy(round) { return new Set(this.messages(round).map(message => message.link)).size; }

  /** "reduce", "copy", or "mixed": what becomes of a round's messages. */
  phase(round) {
    const actions = new Set(this.messages(round).map(message => message.action));
    return actions.size === 1 ? [...actions][0] : 'mixed';
  }

  /** Stretches of rounds of one phase. */
  phases() {
    const found = [];
    for (let round = 1; round <= this.count; ++round) {
      const phase = this.phase(round);
      if (found.at(-1)?.phase === phase) found.at(-1).last = round;
      else found.push({phase, first: round, last: round});
    }
    return found;
  }

  /** What a rank does in a round with some blocks, or with any. */
  doing(round, rank, blocks = null) {
    const about = this.messages(round).filter(
      message => !blocks || blocks.some(block => message.blocks.includes(block)));
    const receives = about.filter(message => message.to === rank);
    return {
      sends: about.filter(message => message.from === rank),
      receives,
      received: received(receives),
    };
  }

  /** What happens to a cell in a round: whether it is sent, and how something reaches it. */
  moves(round, row, column) {
    const is = ([r, c]) => r === row && c === column;
    return {
      sent: this.messages(round).some(message => message.left.some(is)),
      received: received(this.messages(round).filter(message => message.reached.some(is))),
    };
  }

  /** The first round after which a cell was done, or null. */
  arrival(row, column) {
    const round = this.tables.findIndex(table => table[row][column].done);
    return round < 0 ? null : round;
  }

  /** Whose data a cell holds, in few words; or its first numbers. */
  holds({column, content}, asNumbers) {
    if (!content) return '·';
    if (asNumbers && content.numbers.length > 0) {
      return content.numbers.slice(0, 2).join(' ') + (content.numbers.length > 2 ? ' …' : '');
    }
    const many = this.combines && content.ranks.length > 1 && !content.complete && this.ranks > 8;
    const ranks = many ? `${new Set(content.ranks).size}/${this.ranks}` : content.text;
    return content.block === column || this.isMatrix ? ranks
      : `${blockName(content.block)}:${ranks}`;
  }

  /** How much of what it will be a cell holds. */
  share({content}) {
    if (!content) return 0;
    return this.combines ? new Set(content.ranks).size / this.ranks : 1;
  }

  /** What the busiest rank has sent after a round. */
  most(round, what) { return Math.max(...this.rounds[round].so_far.map(load => load[what])); }

  /** How far it is at `time` on the common clock: whole rounds done, and of the next a part. */
  position(time) {
    const done = this.ends.filter(end => end <= time).length;
    if (done === this.count) return done;
    const begin = done === 0 ? 0 : this.ends[done - 1];
    return done + (time - begin) / (this.ends[done] - begin);
  }
}

function received(messages) {
  if (messages.length === 0) return null;
  return messages.some(message => message.action === 'reduce') ? 'reduce' : 'copy';
}

/** A chain is drawn as a part of a ring. */
function isChain({parents}) {
  const inner = parents.filter(parent => parent !== null);
  return new Set(inner).size === inner.length;
}

/** How deep in a tree each rank stands, and which ranks are leaves. */
function treeShape({blocks, parents}) {
  const depthOf = rank => parents[rank] === null ? 0 : 1 + depthOf(parents[rank]);
  return {
    blocks,
    depth: parents.map((_, rank) => depthOf(rank)),
    leaf: parents.map((_, rank) => !parents.includes(rank)),
  };
}

/** Whether a message has to do with what is followed. */
function matches(follow, message) {
  if (!follow) return true;
  if (follow.block !== undefined) return message.blocks.includes(follow.block);
  return message.from === follow.rank || message.to === follow.rank;
}

/** "block D", "blocks A–C, F". */
function blockNames(blocks) {
  return (blocks.length === 1 ? 'block ' : 'blocks ') + stretches(blocks, blockName);
}

function messageText(message) {
  return `Rank ${message.from} sends ${message.what} to rank ${message.to}, which ` +
    (message.reduces ? 'combines it with its own.' : 'keeps it.');
}
