// SPDX-License-Identifier: Apache-2.0
// Puts the page together from its data.

const data = JSON.parse(by('data').textContent);
const runs = data.runs.map(each => new Run(each));
const player = new Player(runs, data.compare ?? null);

if (!data.compare && runs.length > 1) {
  by('run-choice').hidden = false;
  by('run').replaceChildren(...runs.map((run, i) =>
    html('option', {value: i}, `${run.algorithm}, ${run.ranks} ranks`)));
  by('run').addEventListener('change', () => player.choose(runs[Number(by('run').value)]));
}
by('save').addEventListener('click', () => player.views.forEach(
  view => saveSvg(view, Math.ceil(view.run.position(player.time)))));
by('trace').addEventListener('click', () => saveTrace(player.views.map(view => view.run)));
if (data.measured) {
  showMeasured(runs[0], data.measured);
  player.tell = markMeasured;
}
player.restore();
