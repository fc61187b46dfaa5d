// SPDX-License-Identifier: Apache-2.0
// A round in words: its sentence, its messages, what it has cost so far, and the lines of the
// program that run in it.

class Words {
  constructor(run, level) {
    this.run = run;
    this.level = level;
    this.sentence = html('p', {class: 'sentence'});
    this.cost = html('p', {class: 'cost'});
    this.messages = html('ul', {class: 'messages'});
    this.program = html('div', {class: 'program'});
    const listed = html('details', {}, html('summary', {}, 'Every message of this round'),
      this.messages);
    this.element = html('div', {}, this.sentence, this.cost, this.program, listed);
  }

  show(round, follow) {
    const {run} = this;
    this.sentence.textContent = run.sentence(round);
    this.cost.textContent = this.costs(round);
    const messages = run.messages(round).filter(message => matches(follow, message));
    this.messages.replaceChildren(...messages.map(
      message => html('li', {}, messageText(message))));
    this.showProgram(round, follow?.rank ?? 0);
  }

  costs(round) {
    const {run} = this;
    const {messages, elems_sent: elems} = run.theory.busiest;
    return `So far the busiest rank has sent ${run.most(round, 'messages')} of ` +
      `${counted(messages, 'message')} and ${run.most(round, 'elems_sent')} of ` +
      `${counted(elems, 'element')}.`;
  }

  /** The lines that a rank's program runs in this round are marked. */
  showProgram(round, rank) {
    const {run} = this;
    const does = new Map();  // by lane and line, the signs of what is done
    const note = (lane, line, sign) => {
      const place = `${lane} ${line}`;
      does.set(place, new Set([...does.get(place) ?? [], sign]));
    };
    for (const message of run.messages(round)) {
      if (message.to === rank) note(message.to_lane, message.to_step, message.action);
      if (message.from === rank) note(message.lane, message.step, 'send');
    }
    const lanes = run.programs[rank];
    const lines = lanes.flatMap((lane, number) => [
      lanes.length > 1 ? html('li', {class: 'lane'}, `lane ${lane.lane}`) : null,
      ...lane.steps.map((text, index) => programLine(text, does.get(`${number} ${index}`)))]);
    const list = html('ol', {tabindex: '0', 'aria-label': 'Steps'},
      ...lines.filter(line => line !== null));
    this.program.replaceChildren(
      html(`h${this.level}`, {}, `The program that rank ${rank} runs`), list);
    const current = list.querySelector('.runs');
    if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
}

/** Without what a learner does not ask about: whether a message may be read where it lies. */
function programLine(step, signs) {
  const text = step.replace(/ lend \w+/, '');
  if (!signs) return html('li', {}, text);
  return html('li', {class: 'runs', 'aria-current': 'step'}, text, ' ', ...[...signs].map(chip));
}
