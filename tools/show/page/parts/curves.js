// SPDX-License-Identifier: Apache-2.0
// Sliders that choose among what was simulated when the page was made: a figure for each state of
// all but the last, which chooses a size in it.

class Curves {
  constructor(curves, moved) {
    this.curves = curves;
    by('curves').hidden = !curves;
    if (!curves) return;
    this.inputs = curves.sliders.map(({name, values, at}) => html('input', {
      type: 'range', min: 0, max: values.length - 1, step: 1, value: at, 'aria-label': name}));
    this.outputs = curves.sliders.map(() => html('output'));
    by('sliders').replaceChildren(...curves.sliders.map(({name}, i) =>
      html('label', {}, html('span', {}, capital(name)), this.inputs[i], this.outputs[i])));
    for (const input of this.inputs) {
      input.addEventListener('input', () => {
        this.show();
        moved();
      });
    }
    by('curves-legend').innerHTML = curves.legend;
    by('curves-legend').addEventListener('change', () => this.hide());
    this.show();
  }

  places() { return this.inputs.map(input => Number(input.value)); }

  /** "1.0.2.5", and back. */
  address() { return this.curves ? this.places().join('.') : ''; }
  restore(text) {
    const places = text.split('.');
    if (!this.curves || places.length !== this.inputs.length) return;
    this.inputs.forEach((input, i) => { input.value = places[i]; });
    this.show();
  }

  show() {
    const {sliders, states} = this.curves;
    const places = this.places();
    const chosen = places.slice(0, -1).reduce(
      (index, place, i) => index * sliders[i].values.length + place, 0);
    const size = places.at(-1);
    const state = states[chosen];
    if (this.state !== state) {
      this.state = state;
      by('curves-figure').innerHTML = state.figure;
      tellPoints(by('curves-figure').firstElementChild);
      by('crossings').replaceChildren(...state.crossings.map(text => html('li', {}, text)));
      this.hide();
    }
    for (const points of by('curves-figure').querySelectorAll('.series')) {
      points.querySelectorAll('circle').forEach((point, i) =>
        point.classList.toggle('on', i === size));
    }
    by('curves-said').textContent = state.sizes[size];
    this.outputs.forEach((output, i) => {
      output.textContent = `${sliders[i].values[places[i]]} ${sliders[i].unit}`;
      this.inputs[i].setAttribute('aria-valuetext', output.textContent);
    });
  }

  /** The lines that the legend does not want. */
  hide() {
    for (const box of by('curves-legend').querySelectorAll('input')) {
      for (const line of by('curves-figure').querySelectorAll(`.${box.value}`)) {
        line.style.display = box.checked ? '' : 'none';
      }
    }
  }
}
