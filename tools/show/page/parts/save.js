// SPDX-License-Identifier: Apache-2.0
// What leaves the page: a round's picture as a file, and all rounds on paper.

const kKept = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity',
  'font-family', 'font-size', 'font-weight', 'text-anchor', 'visibility'];

/** A copy of a drawing that needs no style sheet. */
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll('*')];
  [copy, ...copy.querySelectorAll('*')].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of kKept) element.setAttribute(name, style.getPropertyValue(name));
  });
  copy.setAttribute('xmlns', kSvg);
  return copy;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  html('a', {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function saveSvg({run, drawing}, round) {
  save(`${run.operation}_${run.algorithm}_${run.ranks}_round_${round}.svg`, 'image/svg+xml',
    new XMLSerializer().serializeToString(standalone(drawing.element)));
}

/** A round's messages as events of Chrome's trace format: a process for each run, a thread for each
 * rank. Where rounds have no times each lasts a microsecond. */
function traceEvents(run, pid) {
  const process = {ph: 'M', name: 'process_name', pid, args: {name: run.title}};
  return [process, ...range(run.count).flatMap(before => {
    const ts = before === 0 ? 0 : run.ends[before - 1];
    const dur = run.ends[before] - ts;
    const at = (rank, name) => ({ph: 'X', pid, tid: rank, ts, dur, name});
    return run.messages(before + 1).flatMap(message => {
      return [at(message.from, `send ${message.what} to rank ${message.to}`),
        at(message.to, `${message.action} ${message.what} from rank ${message.from}`)];
    });
  })];
}

function saveTrace(runs) {
  const {operation, ranks} = runs[0];
  const names = runs.map(run => run.algorithm).join('_');
  save(`${operation}_${names}_${ranks}.trace.json`, 'application/json',
    JSON.stringify({traceEvents: runs.flatMap(traceEvents), displayTimeUnit: 'ns'}));
}

/** All rounds of a run, one figure each: picture, sentence and table. */
function figures(run) {
  const drawing = new Drawing(run);
  const buffers = new Buffers(run, () => {});
  drawing.resize(run.shapes.length > 0 ? 620 : 330);
  return range(run.count + 1).map(round => {
    drawing.show(round, 1, null, run.sentence(round));
    buffers.show(round, 1, null);
    return html('figure', {},
      html('figcaption', {}, `Round ${round} of ${run.count}. ${run.sentence(round)}`),
      drawing.element.cloneNode(true), buffers.element.cloneNode(true));
  });
}

/** The answers, which paper cannot unfold. */
function folded() { return [...document.querySelectorAll('#lesson details')]; }

addEventListener('beforeprint', () => {
  for (const each of folded()) {
    each.dataset.wasOpen = each.open;
    each.open = true;
  }
  by('print').replaceChildren(...player.views.flatMap(({run}) => [
    ...player.views.length > 1 ? [html('h2', {}, run.title)] : [], ...figures(run)]));
  by('print').hidden = false;
});
addEventListener('afterprint', () => {
  for (const each of folded()) each.open = each.dataset.wasOpen === 'true';
  by('print').replaceChildren();
  by('print').hidden = true;
});
