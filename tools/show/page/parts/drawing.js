// SPDX-License-Identifier: Apache-2.0
// The picture of who sends to whom. A layout says where ranks stand and how a message travels;
// everything else is the same for rings, trees and any other algorithm.

/** A slightly bent way between two nodes, from rim to rim. It bends to its left, so that the two
 * directions of a link lie side by side and those of a ring outside of it. */
function way(from, to, bend) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy);
  const middle = {x: (from.x + to.x) / 2 + dy * bend, y: (from.y + to.y) / 2 - dx * bend};
  const begin = Math.min(0.45, (from.r + 2) / length);
  const end = 1 - Math.min(0.45, (to.r + 6) / length);
  const at = share => {
    const t = begin + (end - begin) * share;
    const [a, b, c] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
    return {x: a * from.x + b * middle.x + c * to.x, y: a * from.y + b * middle.y + c * to.y};
  };
  const [p, q] = [at(0), at(1)];
  const half = at(0.5);
  const control = {x: 2 * half.x - (p.x + q.x) / 2, y: 2 * half.y - (p.y + q.y) / 2};
  const path = `M${fixed(p)}Q${fixed(control)} ${fixed(q)}`;
  return {at, path, head: arrowHead(q, Math.atan2(q.y - control.y, q.x - control.x))};
}

function arrowHead(tip, angle) {
  const wing = turn => fixed({
    x: tip.x - 9 * Math.cos(angle + turn), y: tip.y - 9 * Math.sin(angle + turn)});
  return `M${wing(0.5)}L${fixed(tip)}L${wing(-0.5)}`;
}

function fixed(point) { return `${point.x.toFixed(1)},${point.y.toFixed(1)}`; }

/** Ranks on a circle, rank 0 on top, clockwise. */
function circle(run, width) {
  const side = Math.min(width, run.ranks > 8 ? 560 : 480);
  const n = run.ranks;
  const r = n <= 5 ? Math.min(34, side / 10) : n <= 8 ? Math.min(26, side / 13) : n <= 16 ? 15 : 12;
  const margin = r + (n <= 16 ? 20 : 14);
  const radius = side / 2 - margin;
  const nodes = Array.from({length: n}, (_, rank) => {
    const angle = 2 * Math.PI * rank / n;
    return {
      rank, r, blocks: run.columns,
      x: width / 2 + radius * Math.sin(angle),
      y: side / 2 - radius * Math.cos(angle),
    };
  });
  return {
    width, height: side, nodes, notes: [],
    way: message => way(nodes[message.from], nodes[message.to], n === 2 ? 0.25 : 0.16),
  };
}

/** Beside each tree, which keeps two of them apart. */
const kMargin = 14;

/** One tree for each of the run's trees, all over the same axis of ranks: side by side where there
 * is room, else below each other. */
function trees(run, width) {
  const count = run.shapes.length;
  const beside = count > 1 && width >= count * (run.ranks * 26 + 2 * kMargin);
  const each = beside ? width / count : width;
  const column = (each - 2 * kMargin) / run.ranks;
  const r = Math.max(9, Math.min(18, column * 0.9));
  const levels = Math.max(...run.shapes.map(tree => Math.max(...tree.depth))) + 1;
  const rise = Math.max(2.6 * r, Math.min(78, 330 / levels));
  const height = 34 + (levels - 1) * rise + 2 * r + 14;
  const nodes = [];
  const notes = [];
  run.shapes.forEach((tree, number) => {
    const left = beside ? number * each : 0;
    const top = beside ? 0 : number * height;
    if (count > 1) {
      notes.push({x: left + kMargin, y: top + 16,
        text: `Tree ${number + 1}: ${blockNames(tree.blocks)}`});
    }
    for (let rank = 0; rank < run.ranks; ++rank) {
      nodes.push({
        rank, r, hollow: tree.leaf[rank],
        blocks: tree.blocks.length > 0 ? tree.blocks : run.columns,
        x: left + kMargin + (rank + 0.5) * column, y: top + 34 + r + tree.depth[rank] * rise,
      });
    }
  });
  const node = (rank, blocks) =>
    nodes.find(each => each.rank === rank && each.blocks.includes(blocks[0]));
  return {
    width, height: beside ? height : height * count, nodes, notes,
    way: message => way(node(message.from, message.blocks), node(message.to, message.blocks), 0.05),
  };
}

/** A message's text: "C" if it carries that block, "3 bl" if it carries too many to name. In an
 * all_to_all "0→2": the block is from rank 0, for rank 2. */
function label(run, {pieces, blocks}) {
  if (run.isMatrix) {
    const content = run.contents[pieces[0].content];
    return pieces.length === 1 && content ? `${content.ranks[0]}→${content.block}`
      : `${pieces.length} bl`;
  }
  const short = stretches(blocks, blockName).replaceAll(' ', '');
  return short.length <= 4 ? short : `${blocks.length} bl`;
}

/** The part of a ring of `count` parts around a node. */
function segment(node, index, count, share) {
  const gap = count > 1 ? Math.min(0.12, 1 / count) : 0;
  const outer = node.r;
  const inner = node.r - Math.max(4, node.r * 0.26);
  const from = 2 * Math.PI * index / count + gap / 2;
  const full = 2 * Math.PI / count - gap;
  const to = from + Math.min(full, 2 * Math.PI - 0.05) * share;
  const point = (angle, radius) => fixed({
    x: node.x + radius * Math.sin(angle), y: node.y - radius * Math.cos(angle)});
  const large = to - from > Math.PI ? 1 : 0;
  return `M${point(from, outer)}A${outer},${outer} 0 ${large} 1 ${point(to, outer)}` +
    `L${point(to, inner)}A${inner},${inner} 0 ${large} 0 ${point(from, inner)}Z`;
}

/** With more messages than this there is no room for their labels. */
const kCrowd = 40;
/** Where on its way the label of a message that has arrived is shown: half-way there is room. */
const kRest = 0.5;

class Drawing {
  constructor(run) {
    this.run = run;
    this.title = svg('title');
    this.description = svg('desc');
    this.layers = svg('g');
    this.element = svg('svg', {role: 'img', class: 'topology'},
      this.title, this.description, this.layers);
  }

  resize(width) {
    const layout = this.run.shapes.length > 0 ? trees : circle;
    this.layout = layout(this.run, width);
    add(this.element, {
      viewBox: `0 0 ${this.layout.width} ${this.layout.height.toFixed(0)}`,
      width: this.layout.width, height: this.layout.height.toFixed(0)}, []);
  }

  /** `round` is the one shown; `flight` how far its messages are, 1: arrived. */
  show(round, flight, follow, sentence, fault = null) {
    const {run, layout} = this;
    this.title.textContent = `${run.title}: who sends to whom, round ${round} of ${run.count}`;
    this.description.textContent = sentence;
    const follows = message => matches(follow, message);
    const isBroken = message => fault !== null && isOf(fault, message);
    const messages = run.messages(round);
    const crowded = messages.filter(follows).length > kCrowd;
    this.layers.replaceChildren(
      svg('g', {class: 'notes'},
        ...layout.notes.map(note => svg('text', {x: note.x, y: note.y}, note.text))),
      this.links(), this.trail(round, follow),
      svg('g', {class: crowded ? 'crowded' : ''}, ...messages.map(message => {
        const {path, head} = layout.way(message);
        return svg('path', {
          class: `arrow ${message.action}${follows(message) ? '' : ' dim'}` +
            (isBroken(message) ? ' broken' : ''),
          d: crowded ? path : path + head});
      })),
      svg('g', {}, ...layout.nodes.map(node => this.node(node, round, flight, follow))));
    this.packets = messages.map(
      message => this.packet(message, follows(message), crowded, isBroken(message)));
    const state = `${crowded ? 'crowded' : ''} ${flight < 1 ? '' : 'landed'}`;
    this.layers.append(svg('g', {class: state},
      ...this.packets.map(packet => packet.element)));
    this.move(flight);
  }

  move(flight) {
    // Slow at both ends, as things that are handed over are.
    const share = flight < 1 ? flight * flight * (3 - 2 * flight) : kRest;
    for (const packet of this.packets) {
      const {x, y} = packet.way.at(share);
      packet.element.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    }
  }

  /** All links that the run ever uses. */
  links() {
    const seen = new Set();
    const paths = [];
    for (const message of this.run.rounds.flatMap(each => each.messages)) {
      const {path} = this.layout.way(message);
      if (seen.has(path)) continue;
      seen.add(path);
      paths.push(svg('path', {class: 'link', d: path}));
    }
    return svg('g', {}, ...paths);
  }

  /** The way that a followed block has come. */
  trail(round, follow) {
    const group = svg('g');
    if (follow?.block === undefined) return group;
    for (let past = 1; past < round; ++past) {
      for (const message of this.run.messages(past)) {
        if (!matches(follow, message)) continue;
        group.append(svg('path', {class: `trail ${message.action}`,
          d: this.layout.way(message).path}));
      }
    }
    return group;
  }

  node(node, round, flight, follow) {
    const cells = this.run.tables[flight < 1 ? round - 1 : round][node.rank];
    const dim = follow?.rank !== undefined && follow.rank !== node.rank;
    const ring = node.blocks.map((block, index) => {
      const cell = cells[block];
      const lit = follow?.block === undefined || follow.block === block;
      return svg('path', {
        class: `part ${cell.done ? 'done' : 'idle'}${lit ? '' : ' dim'}` +
          (this.run.isMatrix ? '' : ` ${hueOf(block)}`),
        d: segment(node, index, node.blocks.length, this.run.share(cell))});
    });
    const {sends, received} = this.run.doing(round, node.rank, node.blocks);
    const state = flight < 1 ? (sends.length > 0 ? 'sends' : '') : received ?? '';
    return svg('g', {class: `node ${node.hollow === false ? 'inner' : ''} ${dim ? 'dim' : ''}`,
      'data-rank': node.rank},
    svg('circle', {class: `rim ${state}`, cx: node.x.toFixed(1), cy: node.y.toFixed(1),
      r: node.r + 2}),
    svg('circle', {class: 'core', cx: node.x.toFixed(1), cy: node.y.toFixed(1), r: node.r}),
    ...ring,
    svg('text', {x: node.x.toFixed(1), y: (node.y + 5).toFixed(1)}, String(node.rank)));
  }

  packet(message, lit, crowded, isBroken) {
    const text = (isBroken ? '!' : '') + label(this.run, message);
    const hue = this.run.isMatrix || message.blocks.length > 1 ? '' : ` ${hueOf(message.blocks[0])}`;
    const width = 10 + 8.5 * text.length;
    const element = svg('g', {class: `packet${hue}${lit ? '' : ' dim'}${isBroken ? ' broken' : ''}`},
      ...crowded ? [svg('circle', {r: 4})] : [
        svg('rect', {x: -width / 2, y: -10, width, height: 20, rx: 5}),
        svg('text', {y: 5}, text)]);
    return {element, way: this.layout.way(message)};
  }
}
