// SPDX-License-Identifier: Apache-2.0
// Ranks over time: who sends and who receives in every round, and above it how many of the links
// are in use.

const kLeft = 30;
const kBars = 56;
const kBand = 24;
/** A round need not be wider. */
const kWidest = 112;

class Timeline {
  /** `alone`: no other run is on the clock. */
  constructor(run, seek, alone) {
    this.run = run;
    this.alone = alone;
    this.title = svg('title', {}, `${run.title}: ranks over time`);
    this.description = svg('desc');
    this.layers = svg('g');
    this.element = svg('svg', {role: 'img', class: 'timeline'},
      this.title, this.description, this.layers);
    this.element.addEventListener('click', event => {
      const x = event.clientX - this.element.getBoundingClientRect().left;
      const round = range(run.count).findIndex(each => x < this.x(each + 1));
      seek(x < kLeft ? 0 : run.ends[round < 0 ? run.count - 1 : round]);
    });
    const busy = range(run.count).map(round => run.busy(round + 1));
    this.description.textContent = `Of ${counted(run.links.size, 'link')}, in use: ` +
      busy.map((count, i) => `round ${i + 1}: ${count}`).join(', ') + '.';
  }

  /** Where round number `index`, from 0, begins. */
  x(index) {
    const end = this.span || 1;
    const time = index === 0 ? 0 : this.run.ends[index - 1];
    return kLeft + (this.width - kLeft - 2) * time / end;
  }

  /** `span` is the end of the common clock. */
  resize(width, span) {
    const {run} = this;
    this.span = span;
    // Runs on one clock stand below or beside each other on one scale.
    this.width = this.alone ? Math.min(width, kLeft + 2 + run.count * kWidest) : width;
    this.row = run.ranks <= 8 ? 26 : run.ranks <= 16 ? 18 : 15;
    this.height = kBars + kBand + run.ranks * this.row + 4;
    add(this.element, {viewBox: `0 0 ${this.width} ${this.height}`, width: this.width,
      height: this.height}, []);
    this.layers.replaceChildren(this.bars(), this.bands(), this.grid());
    this.cursor = svg('rect', {class: 'cursor', y: 19, height: this.height - 20, rx: 3});
    this.layers.append(this.cursor);
  }

  show(round) {
    const from = round === 0 ? kLeft - 4 : this.x(round - 1);
    const to = round === 0 ? kLeft : this.x(round);
    add(this.cursor, {x: from.toFixed(1), width: (to - from).toFixed(1)}, []);
  }

  bars() {
    const {run} = this;
    const group = svg('g', {class: 'bars'}, svg('text', {x: 0, y: 14}, 'links in use'));
    for (let round = 1; round <= run.count; ++round) {
      const [x, width] = [this.x(round - 1), this.x(round) - this.x(round - 1)];
      const height = (kBars - 26) * run.busy(round) / Math.max(1, run.links.size);
      group.append(svg('rect', {class: 'room', x: x + 1, y: 22, width: Math.max(1, width - 2),
        height: kBars - 26}));
      group.append(svg('rect', {class: 'bar', x: x + 1, y: kBars - 4 - height,
        width: Math.max(1, width - 2), height}));
      if (width >= 44) {
        group.append(svg('text', {class: 'on-bar', x: x + width / 2, y: kBars - 12},
          `${run.busy(round)}/${run.links.size}`));
      }
    }
    return group;
  }

  /** A band for each stretch of rounds that all reduce or all copy. */
  bands() {
    const group = svg('g', {class: 'bands'});
    for (const {phase, first, last} of this.run.phases()) {
      const [x, end] = [this.x(first - 1), this.x(last)];
      group.append(svg('rect', {class: phase, x: x + 1, y: kBars, width: Math.max(0, end - x - 2),
        height: kBand - 4, rx: 3}));
      const text = {reduce: '+ combine', copy: '= copy', mixed: '+ ='}[phase];
      if (end - x > text.length * 9) {
        group.append(svg('text', {x: (x + end) / 2, y: kBars + 15}, text));
      }
    }
    return group;
  }

  grid() {
    const {run} = this;
    const group = svg('g', {class: 'grid'});
    for (let rank = 0; rank < run.ranks; ++rank) {
      const y = kBars + kBand + rank * this.row;
      group.append(svg('text', {class: 'axis', x: kLeft - 8, y: y + this.row / 2 + 4.5}, rank));
      for (let round = 1; round <= run.count; ++round) {
        const x = this.x(round - 1);
        group.append(this.cell(round, rank, x, y, this.x(round) - x));
      }
    }
    return group;
  }

  /** Left half: sends; right half: receives, with a plus or an equals sign. */
  cell(round, rank, x, y, width) {
    const {sends, received} = this.run.doing(round, rank);
    const [half, height] = [Math.max(1, width / 2 - 1), this.row - 2];
    const group = svg('g', {},
      svg('rect', {class: sends.length > 0 ? 'send' : 'idle', x: x + 1, y, width: half, height}),
      svg('rect', {class: received ?? 'idle', x: x + width / 2, y, width: half, height}));
    const [cx, cy, arm] = [x + width * 0.75 - 0.5, y + height / 2, Math.min(4, half / 2 - 1)];
    if (received && arm >= 1.5) {
      group.append(svg('path', {class: 'sign', d: received === 'reduce'
        ? `M${cx - arm} ${cy}h${2 * arm}M${cx} ${cy - arm}v${2 * arm}`
        : `M${cx - arm} ${cy - 2}h${2 * arm}M${cx - arm} ${cy + 2}h${2 * arm}`}));
    }
    return group;
  }
}
