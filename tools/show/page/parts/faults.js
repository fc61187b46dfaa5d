// SPDX-License-Identifier: Apache-2.0
// One message that goes wrong, and what the verifier said of that when the page was made.

const kWays = {
  drop: 'is never sent', duplicate: 'is sent twice', reorder: 'changes places with the next step',
};

function isOf(fault, {from, lane, step}) {
  return fault.rank === from && fault.lane === lane && fault.step === step;
}

class Faults {
  /** `choose` is told the fault that is chosen, or null. */
  constructor(choose) {
    this.choose = choose;
    by('fault').addEventListener('change', () => this.chosen());
    by('fault-how').addEventListener('change', () => this.chosen());
  }

  open(run) {
    const faults = run?.faults ?? [];
    this.faults = new Map(faults.map(fault => [this.key(fault), fault]));
    by('break').hidden = faults.length === 0;
    const places = new Map();
    for (const round of range(run ? run.count : 0).map(before => before + 1)) {
      for (const message of run.messages(round)) {
        const fault = faults.find(each => isOf(each, message));
        if (!fault) continue;
        const place = this.place(fault);
        const known = places.get(place) ??
          {round, from: message.from, to: [], what: message.what};
        known.to.push(message.to);
        places.set(place, known);
      }
    }
    by('fault').replaceChildren(html('option', {value: ''}, 'none: all is as it should be'),
      ...[...places].map(([value, {round, from, to, what}]) => html('option', {value},
        `round ${round}: rank ${from} → ${to.length === 1 ? 'rank' : 'ranks'} ` +
        `${stretches(new Set(to))}, ${what}`)));
    this.rounds = new Map([...places].map(([place, {round}]) => [place, round]));
  }

  place({rank, lane, step}) { return `${rank}.${lane}.${step}`; }

  key(fault) { return `${fault.how}.${this.place(fault)}`; }

  /** The round in which the message is sent. */
  round(fault) { return this.rounds.get(this.place(fault)); }

  named(key) { return this.faults.get(key) ?? null; }

  chosen() {
    const place = by('fault').value;
    const ways = Object.keys(kWays).filter(how => this.faults.has(`${how}.${place}`));
    const how = ways.includes(by('fault-how').value) ? by('fault-how').value : ways[0];
    this.choose(this.named(`${how}.${place}`));
  }

  show(fault) {
    const place = fault ? this.place(fault) : '';
    const ways = Object.keys(kWays).filter(how => !fault || this.faults.has(`${how}.${place}`));
    by('fault').value = place;
    by('fault-how').replaceChildren(...ways.map(how => html('option', {value: how}, kWays[how])));
    by('fault-how').disabled = !fault;
    by('fault-said').hidden = !fault;
    if (!fault) return;
    by('fault-how').value = fault.how;
    by('fault-what').textContent = `${capital(fault.what)}.`;
    by('fault-verdict').textContent = fault.ok
      ? '✓ Right all the same: the verifier finds nothing wrong.' : '! Now it is wrong.';
    by('fault-verdict').classList.toggle('wrong', !fault.ok);
    by('fault-text').textContent = fault.text;
    by('fault-text').hidden = !fault.text;
  }
}
