// SPDX-License-Identifier: Apache-2.0
// A real run beside its algorithm's pictures: what each rank did in each round, and for how long.

/** Shows a round in the pictures, as the page's address can. */
function roundLink(run, round, text) {
  const link = html('a', {href: `#op=${run.operation}&algo=${run.algorithm}&n=${run.ranks}` +
    `&round=${round}`}, text);
  link.addEventListener('click', () =>
    by('views').scrollIntoView({behavior: still.matches ? 'auto' : 'smooth'}));
  return link;
}

function measuredStep(run, round, step) {
  const who = step.for === null ? '' : ` for rank ${step.for}`;
  const waited = step.waited === null ? null
    : html(step.long ? 'strong' : 'span', {}, `waited ${step.waited}${who}`);
  return html('li', {class: step.critical ? 'critical' : null},
    roundLink(run, round, `${step.critical ? '● ' : ''}at ${step.ended}`),
    html('span', {}, `: ${step.text}; worked ${step.worked}${waited ? ', ' : ''}`), waited);
}

function scrolling(label, table) {
  return html('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label}, table);
}

function table(caption, heads, rows) {
  return html('table', {class: 'listing measured'}, html('caption', {class: 'unseen'}, caption),
    html('thead', {}, html('tr', {}, ...heads.map(each => html('th', {scope: 'col'}, each)))),
    html('tbody', {}, ...rows));
}

function measuredRounds(run, {rounds, ranks}) {
  const rows = rounds.filter(each => each.ended !== null).map(({round, ended, ranks}) =>
    html('tr', {'data-round': round},
      html('th', {scope: 'row'}, roundLink(run, round, `round ${round}`)),
      html('td', {}, ended),
      ...ranks.map(steps => html('td', {},
        html('ul', {}, ...steps.map(step => measuredStep(run, round, step)))))));
  return scrolling('The rounds as they were measured', table('The rounds as they were measured',
    ['round', 'ended at', ...ranks.map(({rank, began, ended}) =>
      `rank ${rank}: began at ${began}, ended at ${ended}`)], rows));
}

function criticalPath(run, {path, left_out: leftOut}) {
  const rows = path.map(piece => html('tr', {},
    html('td', {}, piece.at),
    html('th', {scope: 'row'}, roundLink(run, piece.round, `round ${piece.round}`)),
    html('td', {}, piece.text), html('td', {}, piece.travel), html('td', {}, piece.work)));
  return [html('h3', {}, 'The critical path'),
    html('p', {}, 'What kept the last step to end from ending earlier, from the beginning on; ' +
      'marked with ● above.' + (leftOut > 0 ? ` The last ${leftOut} pieces are left out.` : '')),
    scrolling('The critical path', table('The critical path',
      ['at', 'round', 'what; why not earlier', 'on its way', 'at work'], rows))];
}

/** Fills the section for it; the pictures follow the links by the page's address. */
function showMeasured(run, measured) {
  by('measured').append(
    html('h2', {}, 'As it was measured'),
    html('p', {}, measured.heading + '. Times are those since the first rank called, over all ' +
      'windows; a link shows the round in the pictures.'),
    ...measured.notes.map(note => html('p', {}, note)),
    measuredRounds(run, measured),
    html('h3', {}, 'Who waited for whom'),
    measured.waits.length === 0 ? html('p', {}, 'Nobody for anybody.')
      : html('ul', {}, ...measured.waits.map(each => html('li', {}, each))),
    ...criticalPath(run, measured));
  by('measured').hidden = false;
}

/** Marks the round that the pictures show. */
function markMeasured(round) {
  for (const row of by('measured').querySelectorAll('tr[data-round]')) {
    row.classList.toggle('shown', Number(row.dataset.round) === round);
  }
}
