// SPDX-License-Identifier: Apache-2.0
// All rounds of a run as one table, for those who would rather read than watch.

function listingRow(run, round) {
  const messages = run.messages(round);
  return html('tr', {},
    html('th', {scope: 'row'}, String(round)),
    html('td', {}, run.sentence(round)),
    html('td', {}, html('ul', {}, ...messages.map(each => html('li', {}, messageText(each))))),
    html('td', {}, `${run.busy(round)} of ${run.links.size}`),
    html('td', {}, String(run.most(round, 'elems_sent'))));
}

/** Its rows are made when it is opened first: there may be thousands of messages. */
function listing(run) {
  const heads = ['round', 'what happens', 'messages', 'links in use',
    'elements that the busiest rank has sent'];
  const body = html('tbody');
  const table = html('table', {class: 'listing'},
    html('caption', {class: 'unseen'}, `${run.title}: all rounds`),
    html('thead', {}, html('tr', {}, ...heads.map(each => html('th', {scope: 'col'}, each)))),
    body);
  const details = html('details', {}, html('summary', {}, `All rounds of ${run.title}`),
    html('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'All rounds'},
      table));
  details.addEventListener('toggle', () => {
    if (body.childElementCount > 0) return;
    body.append(...range(run.count + 1).map(round => listingRow(run, round)));
  });
  return details;
}
