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

function saveSvg(view, round) {
  const text = new XMLSerializer().serializeToString(standalone(view.drawing.element));
  const address = URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}));
  const {run} = view;
  html('a', {href: address,
    download: `${run.operation}_${run.algorithm}_${run.ranks}_round_${round}.svg`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** All rounds of a run, one figure each: picture, sentence and table. */
function figures(run) {
  const drawing = new Drawing(run);
  const buffers = new Buffers(run, () => {});
  drawing.resize(run.shapes.length > 0 ? 620 : 330);
  return range(run.count + 1).map(round => {
    drawing.show(round, 1, null, run.sentence(round));
    buffers.show(round, 1, null);
    return html('figure', {}, html('figcaption', {}, run.sentence(round)),
      drawing.element.cloneNode(true), buffers.element.cloneNode(true));
  });
}

addEventListener('beforeprint', () => {
  by('print').replaceChildren(...player.views.flatMap(({run}) => [
    html('h2', {}, run.title), ...figures(run)]));
  by('print').hidden = false;
});
addEventListener('afterprint', () => {
  by('print').replaceChildren();
  by('print').hidden = true;
});
