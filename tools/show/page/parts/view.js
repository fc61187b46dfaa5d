// SPDX-License-Identifier: Apache-2.0
// One run on the page: its four panels, all about the same round.

function panel(name, heading, ...children) {
  return html('section', {class: `panel ${name}`}, heading, ...children);
}

class View {
  /** `level`: of the headings of its panels; from 3 on it has a heading itself. */
  constructor(run, player, level) {
    this.run = run;
    this.player = player;
    this.drawing = new Drawing(run);
    this.buffers = new Buffers(run, follow => player.follow(follow));
    this.timeline = new Timeline(run, time => player.seek(time), level < 3);
    this.words = new Words(run, level + 1);
    const title = text => html(`h${level}`, {class: 'title'}, text);
    const many = run.ranks > 8;
    const shape = run.shapes.length > 0 ? many ? 'forest' : 'tree'
      : run.columns.length > 6 ? 'large' : 'small';
    this.state = level > 2 ? html('span', {class: 'state'}) : null;
    this.element = html('section', {class: `view ${shape}`, 'aria-label': run.title},
      ...level > 2 ? [html('h2', {}, run.algorithm, this.state)] : [],
      panel('who', title('Who sends to whom'), this.drawing.element, this.badges()),
      panel('what', title(run.isMatrix ? 'What has come, and when' : 'What each rank holds'),
        this.buffers.element),
      panel('why', title('In words'), this.words.element),
      panel('when', title('Ranks over time'), this.timeline.element));
  }

  progress(position) {
    const {run} = this;
    return position === run.count ? `done, in ${counted(run.count, 'round')} ✓`
      : `round ${Math.ceil(position)} of ${run.count}`;
  }

  /** In which trees each rank is an inner node. */
  badges() {
    const {run} = this;
    if (run.shapes.length < 2) return null;
    const inner = rank => run.shapes.filter(tree => !tree.leaf[rank]).length;
    const made = run.trees_are ? `The second tree is the first one ${run.trees_are}. ` : '';
    return html('p', {class: 'badges'}, made, this.others(),
      'Inner nodes are filled, leaves hollow. ',
      ...[2, 1, 0].map(count => {
        const ranks = range(run.ranks).filter(rank => inner(rank) === count);
        if (ranks.length === 0) return '';
        const where = ['in no tree', 'in one tree and leaf in the other', 'in both trees'][count];
        return `Inner ${where}: ${ranks.length === 1 ? 'rank' : 'ranks'} ${stretches(ranks)}. `;
      }));
  }

  /** A button for each run of the same algorithm whose second tree is made in another way. */
  others() {
    const group = html('span', {class: 'buttons'});
    for (const other of this.player.runs) {
      const isSame = other.trees_are === this.run.trees_are;
      if (isSame || other.algorithm !== this.run.algorithm) continue;
      const button = html('button', {type: 'button'},
        `Show it ${other.trees_are} (${other.ranks} ranks)`);
      button.addEventListener('click', () => this.player.choose(other));
      group.append(button);
    }
    return group.childElementCount > 0 ? group : '';
  }

  resize(span) {
    for (const part of [this.drawing, this.timeline]) {
      const panel = part.element.parentElement;
      const padding = parseFloat(getComputedStyle(panel).paddingLeft);
      // While the page is being laid out a panel may have no width yet.
      part.resize(Math.max(240, panel.clientWidth - 2 * padding), span);
    }
    this.shown = null;
  }

  /** `position`: whole rounds done, and of the next a part. */
  show(position, follow, fault) {
    const flying = position % 1 > 0;
    const round = Math.ceil(position);
    const flight = flying ? position % 1 : 1;
    const key = JSON.stringify([round, flying, follow, fault?.how, fault?.what]);
    if (this.shown !== key) {
      this.shown = key;
      this.drawing.show(round, flight, follow, this.run.sentence(round), fault);
      this.buffers.show(round, flight, follow);
      this.timeline.show(round);
      this.words.show(round, follow);
    }
    this.drawing.move(flight);
    if (this.state) this.state.textContent = this.progress(position);
  }
}
