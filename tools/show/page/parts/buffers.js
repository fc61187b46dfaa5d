// SPDX-License-Identifier: Apache-2.0
// The table of what each rank holds: rank by block, with what was just sent and received. It alone
// tells the whole story, to a screen reader too.

const kSigns = {
  send: ['S', 'sends it'], reduce: ['+', 'receives and combines'], copy: ['=', 'receives'],
  done: ['✓', 'final'],
};

function chip(kind) {
  const [sign, words] = kSigns[kind];
  return html('span', {class: `chip ${kind}`},
    html('span', {'aria-hidden': 'true'}, sign), html('span', {class: 'unseen'}, `, ${words}`));
}

function showsNumbers() { return by('cells').value === 'numbers'; }

/** A head of a row or column, which follows that rank or block when pressed. */
function head(scope, what, number, follow, choose, word = what) {
  const name = word === 'block' ? letters([number]) : String(number);
  const pressed = follow?.[what] === number;
  const button = html('button', {type: 'button', 'aria-pressed': String(pressed),
    'data-follow': `${what[0]}${number}`},
  html('span', {class: 'word'}, word + ' '), name);
  button.addEventListener('click', () => choose(pressed ? null : {[what]: number}));
  return html('th', {scope}, button);
}

class Buffers {
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.caption = html('caption', {class: 'unseen'});
    this.header = html('tr');
    this.body = html('tbody');
    const count = run.columns.length;
    const table = html('table', {class: `cells ${count > 8 ? 'many' : count < 3 ? 'few' : ''}`},
      this.caption, html('thead', {}, this.header), this.body);
    this.element = html('div', {class: 'scroll', tabindex: '0', role: 'region',
      'aria-label': `${run.title}: what each rank holds`}, table);
  }

  show(round, flight, follow) {
    const {run} = this;
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement.dataset.follow : undefined;
    const landed = flight >= 1;
    this.caption.textContent = `${run.title}, ` + (landed ? `after round ${round} of ${run.count}`
      : `during round ${round} of ${run.count}`);
    this.header.replaceChildren(
      html('td'),
      ...run.columns.map(block => head('col', 'block', block, follow, this.choose,
        run.isMatrix ? 'from' : 'block')),
      ...run.isMatrix ? [] : [html('th', {scope: 'col', class: 'moves'}, 'sent'),
        html('th', {scope: 'col', class: 'moves'}, 'received')]);
    const cells = run.tables[landed ? round : round - 1];
    this.body.replaceChildren(...range(run.ranks).map(
      rank => this.row(rank, cells[rank], round, landed, follow)));
    if (focused) this.element.querySelector(`[data-follow="${focused}"]`)?.focus();
  }

  row(rank, cells, round, landed, follow) {
    const {run} = this;
    const {sends, receives} = run.doing(round, rank);
    const sent = sends.map(each => [letters(each.blocks), ` → rank ${each.to}`]);
    const received = receives.map(each => [letters(each.blocks),
      ` ${each.action === 'reduce' ? 'added' : 'kept'}, from rank ${each.from}`]);
    return html('tr', {}, head('row', 'rank', rank, follow, this.choose),
      ...cells.map((cell, block) => this.cell(rank, block, cell, round, landed, follow)),
      ...run.isMatrix ? [] : [html('td', {class: 'moves'}, ...short(sent)),
        html('td', {class: 'moves'}, ...landed ? short(received) : [])]);
  }

  cell(rank, block, cell, round, landed, follow) {
    const {run} = this;
    const moves = run.moves(round, rank, block);
    const arrived = landed ? moves.received : null;
    const sent = moves.sent && !(run.isMatrix && arrived);
    const state = arrived ?? (sent ? 'send' : cell.done ? 'done' : 'idle');
    const chips = [];
    if (arrived) chips.push(chip(arrived));
    if (sent) chips.push(chip('send'));
    if (cell.done) chips.push(chip('done'));
    const lit = !follow || follow.block === block || follow.rank === rank;
    const text = run.isMatrix && cell.done && run.arrival(rank, block) > 0
      ? `round ${run.arrival(rank, block)}` : run.holds(cell, showsNumbers());
    return html('td', {class: `cell ${state}${cell.done ? ' is-done' : ''}${lit ? '' : ' dim'}`,
      style: `--share: ${(100 * run.share(cell)).toFixed(1)}%`},
    html('span', {class: 'text'}, text), html('span', {class: 'chips'}, ...chips));
  }
}

/** Up to two moves, each in a line of its own; of more only their number. */
function short(moves) {
  return moves.length <= 2 ? moves.map(parts => html('div', {}, ...parts))
    : [`${moves.length} messages`];
}
